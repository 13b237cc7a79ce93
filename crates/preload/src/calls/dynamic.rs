//! `dlopen` and `dlsym`: libraries that would pass the shim by. One that is loaded with
//! RTLD_DEEPBIND (PHP loads its extensions so, Julia what it calls) looks for libc's functions
//! in libc before it looks at ours; so does who asks libc itself for one by name (Python's
//! ctypes, Ruby's Fiddle with "libc.so.6").
//!
//! Both functions look at who has called them: libc's are gone on in by a jump, so that they
//! see the program, not us. The dynamic loader calls neither.

use crate::user::Text;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Where libc's `dlopen` is, once it was looked for.
static DLOPEN: AtomicUsize = AtomicUsize::new(0);
/// And its `dlsym`.
static DLSYM: AtomicUsize = AtomicUsize::new(0);

/// The versions that libc's `dlsym` has had.
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Has libc's function, which is kept `at`, in rax, found by `find` the first time, with the two
/// arguments where they came.
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

/// `dlopen(3)`, without RTLD_DEEPBIND.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlopen(path: Text<'_>, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        find_once!(),
        "and esi, {kept}",
        "jmp rax",
        at = sym DLOPEN,
        find = sym find_dlopen,
        kept = const !libc::RTLD_DEEPBIND,
    )
}

/// `dlsym(3)`: what is ours, also where libc is asked for it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        find_once!(),
        // RTLD_DEFAULT is 0, RTLD_NEXT -1: what they mean goes by the caller.
        "lea rcx, [rdi + 1]",
        "cmp rcx, 1",
        "ja {within}",
        "jmp rax",
        at = sym DLSYM,
        find = sym find_dlsym,
        within = sym within_library,
    )
}

/// Where libc's `dlopen` is.
extern "C" fn find_dlopen() -> usize {
    // SAFETY: a lookup by name; libc has the function.
    let found = unsafe { real_dlsym()(libc::RTLD_NEXT, c"dlopen".as_ptr()) } as usize;
    DLOPEN.store(found, Ordering::Relaxed);
    found
}

/// Where libc's `dlsym` is, which cannot be asked for itself.
extern "C" fn find_dlsym() -> usize {
    // SAFETY: lookups by name and version.
    let look = |version: &CStr| unsafe {
        libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr())
    };
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
    // SAFETY: the C library that has none has no such function at all.
    unsafe { std::mem::transmute::<usize, Dlsym>(at) }
}

/// What a library has by this name: ours, if libc's was found and programs get ours for it.
///
/// # Safety
/// As `dlsym`.
unsafe extern "C" fn within_library(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let dlsym = real_dlsym();
    // SAFETY: the caller's promise.
    let found = unsafe { dlsym(handle, name) };
    if found.is_null() {
        return found;
    }
    // Not RTLD_DEFAULT: where that finds something in a library that was loaded later, glibc
    // keeps it for our sake, and dlclose would never unload it.
    let mut answer = found;
    let own = own_library();
    if !own.is_null() {
        // SAFETY: the name is the caller's.
        let first = unsafe { dlsym(own, name) };
        if first != found && is_ours(first) {
            // SAFETY: as before; called by us, it is what comes behind ours.
            let behind = unsafe { dlsym(libc::RTLD_NEXT, name) };
            if behind == found {
                answer = first;
            }
        }
    }
    // The name was found: that it may not have been elsewhere is no error of the caller's.
    // SAFETY: it takes nothing.
    unsafe { libc::dlerror() };
    answer
}

/// The handle of this library, by which names are looked for in it and what it needs, or null.
fn own_library() -> *mut c_void {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let known = OWN.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let mut own = ptr::null_mut();
    if let Some(info) = origin(own_library as *const c_void) {
        // SAFETY: the name is the loader's; nothing is loaded that is not there.
        own = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    }
    OWN.store(own, Ordering::Relaxed);
    own
}

/// Whether this library has what is there.
fn is_ours(at: *mut c_void) -> bool {
    let base = |at| origin(at).map(|info| info.dli_fbase);
    !at.is_null() && base(at) == base(is_ours as *const c_void)
}

/// The library that has what is there.
fn origin(at: *const c_void) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: it writes `info` if it says that it has.
    (unsafe { libc::dladdr(at, info.as_mut_ptr()) } != 0)
        // SAFETY: it was written.
        .then(|| unsafe { info.assume_init() })
}
