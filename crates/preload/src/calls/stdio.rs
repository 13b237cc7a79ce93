//! libc's FILE and formatted output on a socket: `fdopen`, `fileno`, `dprintf`.
//!
//! Inside libc a FILE reads and writes its descriptor without asking anybody, so
//! a FILE for a socket is made of our own calls (`fopencookie`). The same is done
//! at the start of a program that got a socket as its standard input or output.

use crate::calls::variadic::variadic;
use crate::calls::{close, rw};
use crate::fds::{self, Entry};
use crate::real;
use crate::user::{In, Out};
use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};
use longshore_sockets::GrowOnly;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// What stands behind a FILE of ours. Places are used again and never freed, so
/// that they can be looked through without a lock.
#[derive(Debug)]
struct Place {
    /// The FILE's address, 0 if the place is free.
    file: AtomicUsize,
    fd: AtomicI32,
}

static PLACES: GrowOnly<Place> = GrowOnly::new();

/// A place that is taken, and whose FILE is still to be made.
const BEING_MADE: usize = 1;

fn take_place(fd: c_int) -> &'static Place {
    let free = PLACES.iter().find(|p| {
        p.file
            .compare_exchange(0, BEING_MADE, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    if let Some(place) = free {
        place.fd.store(fd, Ordering::Relaxed);
        return place;
    }
    PLACES.push(Place {
        file: AtomicUsize::new(BEING_MADE),
        fd: AtomicI32::new(fd),
    })
}

/// # Safety
/// `cookie` is a place.
unsafe fn place<'a>(cookie: *mut c_void) -> &'a Place {
    // SAFETY: the caller's promise; places live for ever.
    unsafe { &*cookie.cast() }
}

unsafe extern "C-unwind" fn read_cookie(
    cookie: *mut c_void,
    buf: *mut c_char,
    len: size_t,
) -> ssize_t {
    // SAFETY: libc gives back what it was given, and a buffer of that length.
    let (place, buf) = unsafe { (place(cookie), Out::new(buf)) };
    rw::read(place.fd.load(Ordering::Relaxed), buf.cast(), len)
}

unsafe extern "C-unwind" fn write_cookie(
    cookie: *mut c_void,
    buf: *const c_char,
    len: size_t,
) -> ssize_t {
    // SAFETY: as above.
    let fd = unsafe { place(cookie) }.fd.load(Ordering::Relaxed);
    let mut written = 0;
    while written < len {
        // SAFETY: the part of the buffer that is left.
        let rest = unsafe { In::new(buf.add(written)) };
        let n = rw::write(fd, rest.cast(), len - written);
        match usize::try_from(n) {
            Ok(n) => written += n,
            // libc takes what is short of all for an error.
            Err(_) => break,
        }
    }
    written as ssize_t
}

unsafe extern "C-unwind" fn seek_cookie(_: *mut c_void, _: *mut i64, _: c_int) -> c_int {
    crate::calls::set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C-unwind" fn close_cookie(cookie: *mut c_void) -> c_int {
    // SAFETY: as above.
    let place = unsafe { place(cookie) };
    let fd = place.fd.load(Ordering::Relaxed);
    place.file.store(0, Ordering::Release);
    close::close(fd)
}

/// libc's `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        to: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
    fn __fpending(file: *mut FILE) -> size_t;
}

/// Makes a FILE of our calls for `fd`; null, with errno set, if libc has none.
///
/// # Safety
/// `mode` is a C string.
unsafe fn make(fd: c_int, mode: *const c_char) -> *mut FILE {
    let place = take_place(fd);
    let functions = Functions {
        read: read_cookie,
        write: write_cookie,
        seek: seek_cookie,
        close: close_cookie,
    };
    let cookie = std::ptr::from_ref(place).cast_mut().cast();
    // SAFETY: the functions take places; the mode is the caller's.
    let file = unsafe { fopencookie(cookie, mode, functions) };
    place.file.store(file as usize, Ordering::Release);
    file
}

/// `fdopen(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    match fds::get(fd) {
        // SAFETY: the caller's promise.
        Entry::Engine(_) | Entry::Undecided(_) if !mode.is_null() => unsafe { make(fd, mode) },
        // SAFETY: the caller's promise.
        _ => unsafe { real::fdopen(fd, mode) },
    }
}

/// `fileno(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fileno(file: *mut FILE) -> c_int {
    match PLACES
        .iter()
        .find(|p| p.file.load(Ordering::Acquire) == file as usize)
    {
        Some(place) => place.fd.load(Ordering::Relaxed),
        // SAFETY: the caller's promise.
        None => unsafe { real::fileno(file) },
    }
}

/// `fileno_unlocked(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fileno_unlocked(file: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fileno(file) }
}

fn is_socket(fd: c_int) -> bool {
    matches!(fds::get(fd), Entry::Engine(_) | Entry::Undecided(_))
}

/// Gives a program standard input and output of our calls, where a socket
/// stands for them. Nothing was read or written yet.
pub(crate) fn at_start() {
    for fd in 0..3 {
        take_place_of(fd);
    }
}

/// A descriptor is about to become another's: what the program has written to its FILE and
/// libc still has goes where it goes now, because later it is a FILE of ours.
pub(crate) fn before_duplicate(from: c_int, to: c_int) {
    // SAFETY: FILEs of libc, or of ours.
    unsafe {
        let file = match to {
            1 => stdout,
            2 => stderr,
            _ => return,
        };
        if is_socket(from) && !file.is_null() && __fpending(file) != 0 {
            libc::fflush(file);
        }
    }
}

/// A descriptor stands for something else now: if that is a socket, and the number one of
/// those that stdin, stdout and stderr have, these are FILEs of ours from now on, which they
/// may be for any descriptor.
pub(crate) fn take_place_of(fd: c_int) {
    if !(0..3).contains(&fd) || !is_socket(fd) {
        return;
    }
    // SAFETY: libc's variables, which are set to FILEs; other threads have the one or the
    // other.
    unsafe {
        let (variable, mode) = match fd {
            0 => (&raw mut stdin, c"r"),
            1 => (&raw mut stdout, c"w"),
            _ => (&raw mut stderr, c"w"),
        };
        if fileno(*variable) == fd && is_ours(*variable) {
            return;
        }
        let file = make(fd, mode.as_ptr());
        if !file.is_null() {
            if fd == 2 {
                libc::setvbuf(file, std::ptr::null_mut(), libc::_IONBF, 0);
            }
            *variable = file;
        }
    }
}

fn is_ours(file: *mut FILE) -> bool {
    PLACES
        .iter()
        .any(|p| p.file.load(Ordering::Acquire) == file as usize)
}

/// Writes what was formatted, all of it, and frees it.
///
/// # Safety
/// `text` has `len` bytes and is to be freed, if `len` is not negative.
unsafe fn put(fd: c_int, text: *mut c_char, len: c_int) -> c_int {
    let Ok(total) = usize::try_from(len) else {
        return -1;
    };
    let mut written = 0;
    while written < total {
        // SAFETY: the part of the text that is left.
        let rest = unsafe { In::new(text.add(written)) };
        let n = rw::write(fd, rest.cast(), total - written);
        match usize::try_from(n) {
            Ok(n) => written += n,
            Err(_) => break,
        }
    }
    // SAFETY: libc allocated it.
    unsafe { libc::free(text.cast()) };
    if written == total { len } else { -1 }
}

/// `vdprintf(3)`.
///
/// # Safety
/// As libc's; a `va_list` is a pointer where it is an argument.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if fds::is_kernels(fd) {
        // SAFETY: the caller's promise.
        return unsafe { real::vdprintf(fd, format, arguments) };
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let len = vasprintf(&mut text, format, arguments);
        put(fd, text, len)
    }
}

/// `vdprintf` of fortified programs.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if fds::is_kernels(fd) {
        // SAFETY: the caller's promise.
        return unsafe { real::__vdprintf_chk(fd, flag, format, arguments) };
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let len = __vasprintf_chk(&mut text, flag, format, arguments);
        put(fd, text, len)
    }
}

/// `dprintf(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!("16", "rdx", vdprintf)
}

/// `dprintf` of fortified programs.
///
/// # Safety
/// As libc's. More arguments follow.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn __dprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
) -> c_int {
    variadic!("24", "rcx", __vdprintf_chk)
}
