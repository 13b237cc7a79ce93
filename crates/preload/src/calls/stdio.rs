//! libc's FILE and formatted output on a socket: `fdopen`, `fileno`, `dprintf`.
//!
//! Inside libc a FILE reads and writes its descriptor without asking anybody, so
//! a FILE for a socket is made of our own calls (`fopencookie`). The same is done
//! at the start of a program that got a socket as its standard input or output.

use crate::calls::variadic::variadic;
use crate::calls::{close, rw};
use crate::fds::{self, Entry};
use crate::user::{Format, In, Opaque, Out, Text, VaList, Variable};
use crate::{pipes, real};
use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};
use longshore_sockets::GrowOnly;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// What stands behind a FILE of ours. Places are used again and never freed, so
/// that they can be looked through without a lock.
#[repr(C)]
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

extern "C-unwind" fn read_cookie(
    place: &'static Place,
    buf: Out<'_, c_void>,
    len: size_t,
) -> ssize_t {
    rw::read(place.fd.load(Ordering::Relaxed), buf, len)
}

extern "C-unwind" fn write_cookie(
    place: &'static Place,
    buf: In<'_, c_char>,
    len: size_t,
) -> ssize_t {
    write_all(place.fd.load(Ordering::Relaxed), buf.slice(len)) as ssize_t
}

/// Writes as much as it can; says how much. libc takes what is short of all for an error.
fn write_all(fd: c_int, mut bytes: &[c_char]) -> usize {
    let all = bytes.len();
    while !bytes.is_empty() {
        match usize::try_from(rw::write(fd, In::from(bytes).cast(), bytes.len())) {
            Ok(n) => bytes = &bytes[n.min(bytes.len())..],
            Err(_) => break,
        }
    }
    all - bytes.len()
}

extern "C-unwind" fn seek_cookie(_: &'static Place, _: Out<'_, i64>, _: c_int) -> c_int {
    crate::calls::set_errno(libc::ESPIPE);
    -1
}

extern "C-unwind" fn close_cookie(place: &'static Place) -> c_int {
    let fd = place.fd.load(Ordering::Relaxed);
    place.file.store(0, Ordering::Release);
    close::close(fd)
}

/// libc's `cookie_io_functions_t`; the cookies are places.
#[repr(C)]
struct Functions {
    read: extern "C-unwind" fn(&'static Place, Out<'_, c_void>, size_t) -> ssize_t,
    write: extern "C-unwind" fn(&'static Place, In<'_, c_char>, size_t) -> ssize_t,
    seek: extern "C-unwind" fn(&'static Place, Out<'_, i64>, c_int) -> c_int,
    close: extern "C-unwind" fn(&'static Place) -> c_int,
}

unsafe extern "C" {
    safe fn fopencookie(
        place: &'static Place,
        mode: Text<'_>,
        functions: Functions,
    ) -> Opaque<FILE>;
    safe fn setvbuf(file: Opaque<FILE>, buf: Out<'_, c_char>, how: c_int, len: size_t) -> c_int;
    safe fn fflush(file: Opaque<FILE>) -> c_int;
    safe fn __fpending(file: Opaque<FILE>) -> size_t;
    safe fn vasprintf(
        to: Out<'_, Out<'static, c_char>>,
        format: Format<'_>,
        arguments: VaList,
    ) -> c_int;
    safe fn __vasprintf_chk(
        to: Out<'_, Out<'static, c_char>>,
        flag: c_int,
        format: Format<'_>,
        arguments: VaList,
    ) -> c_int;
    fn free(text: Out<'static, c_char>);
    safe static stdin: Variable<FILE>;
    safe static stdout: Variable<FILE>;
    safe static stderr: Variable<FILE>;
}

/// libc's variable for one of the first three descriptors.
fn variable(fd: c_int) -> Option<&'static Variable<FILE>> {
    [&stdin, &stdout, &stderr]
        .get(usize::try_from(fd).ok()?)
        .copied()
}

/// Makes a FILE of our calls for `fd`; null, with errno set, if libc has none.
fn make(fd: c_int, mode: Text<'_>) -> Opaque<FILE> {
    let place = take_place(fd);
    let functions = Functions {
        read: read_cookie,
        write: write_cookie,
        seek: seek_cookie,
        close: close_cookie,
    };
    let file = fopencookie(place, mode, functions);
    place.file.store(file.addr(), Ordering::Release);
    file
}

/// `fdopen(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fdopen(fd: c_int, mode: Text<'_>) -> Opaque<FILE> {
    if is_socket(fd) && !mode.is_null() {
        return make(fd, mode);
    }
    pipes::leave(fd);
    real::fdopen(fd, mode)
}

/// The place of a FILE of ours.
fn place_of(file: Opaque<FILE>) -> Option<&'static Place> {
    PLACES
        .iter()
        .find(|p| p.file.load(Ordering::Acquire) == file.addr())
}

/// `fileno(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fileno(file: Opaque<FILE>) -> c_int {
    match place_of(file) {
        Some(place) => place.fd.load(Ordering::Relaxed),
        None => real::fileno(file),
    }
}

/// `fileno_unlocked(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fileno_unlocked(file: Opaque<FILE>) -> c_int {
    fileno(file)
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
    let Some(file) = variable(to).filter(|_| to != 0).map(Variable::get) else {
        return;
    };
    if is_socket(from) && !file.is_null() && __fpending(file) != 0 {
        fflush(file);
    }
}

/// A descriptor stands for something else now: if that is a socket, and the number one of
/// those that stdin, stdout and stderr have, these are FILEs of ours from now on, which they
/// may be for any descriptor.
pub(crate) fn take_place_of(fd: c_int) {
    let Some(variable) = variable(fd).filter(|_| is_socket(fd)) else {
        return;
    };
    let before = variable.get();
    if fileno(before) == fd && place_of(before).is_some() {
        return;
    }
    let file = make(fd, Text::from(if fd == 0 { c"r" } else { c"w" }));
    if !file.is_null() {
        if fd == 2 {
            setvbuf(file, Out::null(), libc::_IONBF, 0);
        }
        variable.set(file);
    }
}

/// Text that libc has formatted, freed when this goes.
struct Formatted {
    text: Out<'static, c_char>,
    len: c_int,
}

impl Formatted {
    /// Writes it, all of it; what `dprintf` returns.
    fn put(self, fd: c_int) -> c_int {
        let Ok(len) = usize::try_from(self.len) else {
            return -1;
        };
        if write_all(fd, self.text.as_in().slice(len)) == len {
            self.len
        } else {
            -1
        }
    }
}

impl Drop for Formatted {
    fn drop(&mut self) {
        if self.len >= 0 {
            // SAFETY: libc allocated it.
            unsafe { free(self.text) };
        }
    }
}

/// `vdprintf(3)`; a `va_list` is a pointer where it is an argument.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vdprintf(fd: c_int, format: Format<'_>, arguments: VaList) -> c_int {
    if fds::is_kernels(fd) {
        return real::vdprintf(fd, format, arguments);
    }
    let mut text = Out::null();
    let len = vasprintf(Out::from(&mut text), format, arguments);
    Formatted { text, len }.put(fd)
}

/// `vdprintf` of fortified programs.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: Format<'_>,
    arguments: VaList,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::__vdprintf_chk(fd, flag, format, arguments);
    }
    let mut text = Out::null();
    let len = __vasprintf_chk(Out::from(&mut text), flag, format, arguments);
    Formatted { text, len }.put(fd)
}

/// `dprintf(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(2, vdprintf)
}

/// `dprintf` of fortified programs.
///
/// # Safety
/// As libc's. More arguments follow.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn __dprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
) -> c_int {
    variadic!(3, __vdprintf_chk)
}
