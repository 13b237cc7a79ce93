//! `dlopen` and `dlsym`: libraries that would pass the shim by. One that is loaded with
//! RTLD_DEEPBIND (PHP loads its extensions so, Julia what it calls) looks for libc's functions
//! in libc before it looks at ours; so does who asks libc itself for one by name (Python's
//! ctypes, Ruby's Fiddle with "libc.so.6"), or liburing.
//!
//! Both functions look at their caller: libc's are gone on in by a jump, so that they
//! see the program, not us. The dynamic loader calls neither.

use super::io_uring;
use crate::state;
use crate::user::{Out, Text};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Where libc's `dlopen` is, once it was looked for.
static DLOPEN: AtomicUsize = AtomicUsize::new(0);
/// And its `dlsym`.
static DLSYM: AtomicUsize = AtomicUsize::new(0);

/// The versions that libc's `dlsym` has had, of which the first libc of an architecture had the
/// last.
const VERSIONS: [&CStr; 2] = [
    c"GLIBC_2.34",
    if cfg!(target_arch = "x86_64") {
        c"GLIBC_2.2.5"
    } else {
        c"GLIBC_2.17"
    },
];

type Dlsym = extern "C" fn(Library, Text<'_>) -> *mut c_void;

/// What the loader knows a library by, or one of the numbers that stand for several.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Library(*mut c_void);

/// Those behind the library that asks.
const NEXT: Library = Library(libc::RTLD_NEXT);

/// libc's `Dl_info`: the library that has an address, where it lies, and what is there.
#[repr(C)]
struct Origin {
    library: Text<'static>,
    base: *const c_void,
    name: Text<'static>,
    at: *const c_void,
}

const _: () = assert!(size_of::<Origin>() == size_of::<libc::Dl_info>());

unsafe extern "C" {
    safe fn dlvsym(library: Library, name: Text<'_>, version: Text<'_>) -> *mut c_void;
    safe fn dladdr(at: *const c_void, origin: Out<'_, Origin>) -> c_int;
    safe fn dlerror() -> Text<'static>;
}

/// Has libc's function, which is kept `at`, in rax, found by `find` the first time, with the two
/// arguments where they came.
#[cfg(target_arch = "x86_64")]
macro_rules! find_once {
    () => {
        "mov rax, [rip + {at}]
        test rax, rax
        jne 2f
        push rdi
        push rsi
        sub rsp, 8
        call {find}
        add rsp, 8
        pop rsi
        pop rdi
        2:"
    };
}

/// As on x86-64, in x16.
#[cfg(target_arch = "aarch64")]
macro_rules! find_once {
    () => {
        "adrp x16, {at}
        ldr x16, [x16, :lo12:{at}]
        cbnz x16, 2f
        stp x29, x30, [sp, #-32]!
        stp x0, x1, [sp, #16]
        bl {find}
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldp x29, x30, [sp], #32
        2:"
    };
}

/// `dlopen(3)`, without RTLD_DEEPBIND.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C-unwind" fn dlopen(path: Text<'_>, flags: c_int) -> Library {
    core::arch::naked_asm!(
        find_once!(),
        #[cfg(target_arch = "x86_64")]
        "and esi, {kept}
        jmp rax",
        #[cfg(target_arch = "aarch64")]
        "and w1, w1, #{kept}
        br x16",
        at = sym DLOPEN,
        find = sym find_dlopen,
        kept = const !libc::RTLD_DEEPBIND,
    )
}

/// `dlsym(3)`: what is ours, also where libc is asked for it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C-unwind" fn dlsym(library: Library, name: Text<'_>) -> *mut c_void {
    core::arch::naked_asm!(
        find_once!(),
        // RTLD_DEFAULT is 0, RTLD_NEXT -1: what they mean goes by the caller.
        #[cfg(target_arch = "x86_64")]
        "lea rcx, [rdi + 1]
        cmp rcx, 1
        ja {within}
        jmp rax",
        #[cfg(target_arch = "aarch64")]
        "add x9, x0, #1
        cmp x9, #1
        b.ls 3f
        b {within}
        3:
        br x16",
        at = sym DLSYM,
        find = sym find_dlsym,
        within = sym within_library,
    )
}

/// Where libc's `dlopen` is.
extern "C" fn find_dlopen() -> usize {
    let found = real_dlsym()(NEXT, Text::from(c"dlopen")) as usize;
    DLOPEN.store(found, Ordering::Relaxed);
    found
}

/// Where libc's `dlsym` is, which cannot be asked for itself.
extern "C" fn find_dlsym() -> usize {
    let look = |version| dlvsym(NEXT, Text::from(c"dlsym"), Text::from(version));
    let found = VERSIONS.into_iter().map(look).find(|at| !at.is_null());
    let found = found.unwrap_or(ptr::null_mut()) as usize;
    DLSYM.store(found, Ordering::Relaxed);
    found
}

fn real_dlsym() -> Dlsym {
    let at = match DLSYM.load(Ordering::Relaxed) {
        0 => find_dlsym(),
        at => at,
    };
    // SAFETY: libc's function; the C library that has none has no such function at all.
    unsafe { std::mem::transmute::<usize, Dlsym>(at) }
}

/// What a library has by this name: ours, if libc's was found and programs get ours for it.
extern "C" fn within_library(library: Library, name: Text<'_>) -> *mut c_void {
    let dlsym = real_dlsym();
    let found = dlsym(library, name);
    if found.is_null() {
        return found;
    }
    // Not RTLD_DEFAULT: where that finds something in a library that was loaded later, glibc
    // keeps it for our sake, and dlclose would never unload it.
    let mut answer = found;
    let own = own_library();
    if !own.0.is_null() {
        let first = dlsym(own, name);
        // Called by us, RTLD_NEXT is what comes behind ours. liburing may have been loaded for its
        // caller alone.
        let is_before = || dlsym(NEXT, name) == found;
        let is_refused = || io_uring::has(name) && !state::is_off();
        if first != found && is_ours(first) && (is_before() || is_refused()) {
            answer = first;
        }
    }
    // The name was found: that it may not have been elsewhere is no error of the caller's.
    dlerror();
    answer
}

/// This library, by which names are looked for in it and what it needs, or null.
fn own_library() -> Library {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let known = OWN.load(Ordering::Relaxed);
    if !known.is_null() {
        return Library(known);
    }
    let mut own = Library(ptr::null_mut());
    if let Some(origin) = origin(own_library as *const c_void) {
        // Nothing is loaded that is not there.
        own = dlopen(origin.library, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
    }
    OWN.store(own.0, Ordering::Relaxed);
    own
}

/// Whether this library has what is there.
fn is_ours(at: *mut c_void) -> bool {
    let base = |at| origin(at).map(|origin| origin.base);
    !at.is_null() && base(at) == base(is_ours as *const c_void)
}

/// The library that has what is there.
fn origin(at: *const c_void) -> Option<Origin> {
    let mut origin = Origin {
        library: Text::null(),
        base: ptr::null(),
        name: Text::null(),
        at: ptr::null(),
    };
    (dladdr(at, Out::from(&mut origin)) != 0).then_some(origin)
}
