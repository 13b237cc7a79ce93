//! The `exec` family, `system` and `popen`: the program that is executed stays on
//! Longshore, whatever its environment, and what it does not inherit is let go of.
//!
//! libc's own `execv`, `execl` and so on call one another inside libc; so each is ours.

use crate::calls::variadic::variadic;
use crate::calls::{errno, lost, set_errno};
use crate::environment::{self, Carried};
use crate::{fds, real, state};
use libc::{c_char, c_int, c_void};
use longshore_hostif::SocketId;
use longshore_sockets::Host;
use std::ffi::CStr;

/// Arguments that `execl` and its like can have.
const MOST_ARGUMENTS: usize = 4096;

/// Sockets that were left to other processes, for an `exec` that may fail.
struct Left {
    host: Option<&'static Host>,
    sockets: Vec<SocketId>,
    /// The process holds sockets that are of no use to the new image, and that only it can
    /// let go of.
    holds: bool,
}

/// Says if Longshore will not be in a program that is to stay on it, and whether it can be
/// executed, as far as that is known beforehand: sockets that were let go
/// of for an `exec` that fails may have been closed meanwhile by all who shared them.
///
/// # Safety
/// As `execveat` takes them.
pub(crate) unsafe fn can_execute(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    stays: bool,
) -> bool {
    let errno = errno();
    let how = libc::AT_EACCESS | flags & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: the kernel looks at the path, as it does for `execveat`.
    let can = unsafe { libc::faccessat(directory, path, libc::X_OK, how) } == 0;
    if can && stays {
        // SAFETY: the kernel has read it.
        lost::look_at(directory, unsafe { CStr::from_ptr(path) });
    }
    set_errno(errno);
    can
}

/// The same of a file that is looked for as `execvp` does.
///
/// # Safety
/// `file` is a string.
pub(crate) unsafe fn can_find(file: *const c_char, stays: bool) -> bool {
    // SAFETY: the caller's promise; libc's strings end, and the environment stays.
    let (name, places) = unsafe {
        let places = libc::getenv(c"PATH".as_ptr());
        let places = (!places.is_null()).then(|| CStr::from_ptr(places).to_bytes());
        (
            CStr::from_ptr(file).to_bytes(),
            places.unwrap_or(b"/bin:/usr/bin"),
        )
    };
    if name.contains(&b'/') {
        // SAFETY: as above.
        return unsafe { can_execute(libc::AT_FDCWD, file, 0, stays) };
    }
    places.split(|b| *b == b':').any(|place| {
        let slash: &[u8] = if place.is_empty() { b"" } else { b"/" };
        let mut path = [0; libc::PATH_MAX as usize];
        let mut rest = path.as_mut_slice();
        // One byte stays 0.
        for part in [place, slash, name] {
            if rest.len() <= part.len() {
                return false;
            }
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        // SAFETY: a string of ours.
        unsafe { can_execute(libc::AT_FDCWD, path.as_ptr().cast(), 0, stays) }
    })
}

/// What comes before `exec`, which will succeed as far as is known. Nothing is asked for in a
/// child that was made without our knowing: what it holds is in its name, and the new image
/// lets go of it.
fn before(succeeds: bool) -> Left {
    let mut left = Left {
        host: state::attached_already(),
        sockets: Vec::new(),
        holds: false,
    };
    let Some(host) = left.host else {
        left.holds = state::is_unknown_child();
        return left;
    };
    for id in fds::closed_by_exec(|_| false) {
        if succeeds && host.leave_to_others(id) == Ok(true) {
            left.sockets.push(id);
        } else {
            left.holds = true;
        }
    }
    let _ = host.settle();
    left
}

/// `exec` has come back: it has failed.
fn failed(left: &Left) {
    let errno = errno();
    if let Some(host) = left.host {
        for id in &left.sockets {
            host.hold_again(*id);
        }
    }
    set_errno(errno);
}

/// Executes with the environment `envp`, carried on; `succeeds` looks whether it can, and is
/// told whether the program is to stay on Longshore.
///
/// # Safety
/// `envp` is an environment as `execve` takes it.
unsafe fn with(
    envp: *const *const c_char,
    succeeds: impl FnOnce(bool) -> bool,
    exec: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    if state::is_off() {
        return exec(envp);
    }
    // SAFETY: the caller's promise.
    let stays = unsafe { !environment::leaves(envp) };
    let left = before(succeeds(stays));
    // SAFETY: the caller's promise.
    let carried = unsafe { Carried::new(envp, left.holds) };
    let result = exec(carried.as_ptr());
    failed(&left);
    result
}

/// `execve(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(
            envp,
            |stays| can_execute(libc::AT_FDCWD, path, 0, stays),
            |envp| real::execve(path, argv, envp),
        )
    }
}

/// `execv(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execve(path, argv, environment::own()) }
}

/// `execvpe(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(
            envp,
            |stays| can_find(file, stays),
            |envp| real::execvpe(file, argv, envp),
        )
    }
}

/// `execvp(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execvpe(file, argv, environment::own()) }
}

/// `fexecve(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fexecve(
    fd: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(
            envp,
            |stays| can_execute(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, stays),
            |envp| real::fexecve(fd, argv, envp),
        )
    }
}

/// `execveat(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(
            envp,
            |stays| can_execute(directory, path, flags, stays),
            |envp| real::execveat(directory, path, argv, envp, flags),
        )
    }
}

/// A `va_list` of x86-64, of which integers alone are taken.
#[repr(C)]
struct List {
    general: u32,
    floating: u32,
    on_stack: *mut usize,
    in_registers: *mut u8,
}

impl List {
    /// The next argument.
    ///
    /// # Safety
    /// There is one.
    unsafe fn next(&mut self) -> usize {
        const IN_REGISTERS: u32 = 48;
        // SAFETY: the caller's promise; the ABI says where it is.
        unsafe {
            if self.general < IN_REGISTERS {
                let at = self.in_registers.add(self.general as usize).cast::<usize>();
                self.general += 8;
                at.read()
            } else {
                let at = self.on_stack;
                self.on_stack = at.add(1);
                at.read()
            }
        }
    }
}

/// The arguments of a call like `execl`: up to a null, which is kept. `None`, with errno
/// set, if there are more than anybody writes down.
///
/// # Safety
/// They end with a null.
unsafe fn listed(first: *const c_char, list: &mut List) -> Option<[*const c_char; MOST_ARGUMENTS]> {
    let mut argv = [std::ptr::null(); MOST_ARGUMENTS];
    let mut next = first;
    for place in &mut argv {
        *place = next;
        if next.is_null() {
            return Some(argv);
        }
        // SAFETY: the caller's promise: the null has not come yet.
        next = unsafe { list.next() } as *const c_char;
    }
    set_errno(libc::E2BIG);
    None
}

unsafe extern "C-unwind" fn execl_list(
    path: *const c_char,
    first: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, as it has to give them.
    unsafe {
        match listed(first, &mut *list.cast()) {
            Some(argv) => execv(path, argv.as_ptr()),
            None => -1,
        }
    }
}

unsafe extern "C-unwind" fn execlp_list(
    file: *const c_char,
    first: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        match listed(first, &mut *list.cast()) {
            Some(argv) => execvp(file, argv.as_ptr()),
            None => -1,
        }
    }
}

unsafe extern "C-unwind" fn execle_list(
    path: *const c_char,
    first: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: as above; the environment comes behind the null.
    unsafe {
        let list = &mut *list.cast::<List>();
        match listed(first, list) {
            Some(argv) => execve(path, argv.as_ptr(), list.next() as *const *const c_char),
            None => -1,
        }
    }
}

/// `execl(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execl(path: *const c_char, first: *const c_char) -> c_int {
    variadic!("16", "rdx", execl_list)
}

/// `execlp(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execlp(file: *const c_char, first: *const c_char) -> c_int {
    variadic!("16", "rdx", execlp_list)
}

/// `execle(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execle(path: *const c_char, first: *const c_char) -> c_int {
    variadic!("16", "rdx", execle_list)
}

/// `system(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    if state::is_off() || environment::is_carried() {
        // SAFETY: the caller's promise.
        return unsafe { real::system(command) };
    }
    // SAFETY: as above.
    environment::with_own(|| unsafe { real::system(command) })
}

/// `popen(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(
    command: *const c_char,
    mode: *const c_char,
) -> *mut libc::FILE {
    if state::is_off() || environment::is_carried() {
        // SAFETY: the caller's promise.
        return unsafe { real::popen(command, mode) };
    }
    // SAFETY: as above.
    environment::with_own(|| unsafe { real::popen(command, mode) })
}
