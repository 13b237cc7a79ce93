//! The `exec` family, `system` and `popen`: the program that is executed stays on
//! Longshore, whatever its environment, and what it does not inherit is let go of.
//!
//! libc's own `execv`, `execl` and so on call one another inside libc; so each is ours.

use crate::calls::variadic::{List, variadic};
use crate::calls::{errno, lost, set_errno};
use crate::environment::{self, Carried, Holds};
use crate::signals::{prepare, within};
use crate::user::{Opaque, Strings, Text};
use crate::{fds, pipes, place, real, state};
use libc::{FILE, c_int};
use longshore_hostif::SocketId;
use longshore_sockets::Host;
use std::ffi::CStr;

/// Arguments that `execl` and its like can have.
const MOST_ARGUMENTS: usize = 4096;

/// Sockets that were left to other processes, for an `exec` that may fail.
struct Left {
    host: Option<&'static Host>,
    sockets: Vec<SocketId>,
    /// What the process holds that is of no use to the new image, and that only it can
    /// let go of.
    holds: Holds,
}

unsafe extern "C" {
    safe fn faccessat(directory: c_int, path: Text<'_>, how: c_int, flags: c_int) -> c_int;
    safe fn getenv(name: Text<'_>) -> Text<'static>;
}

/// What is known of a program before it is executed.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Its loader starts it with this library, or may do so.
    pub(crate) takes_library: bool,
}

/// What of [`Found::takes_library`] counts where nothing is known.
pub(crate) fn takes_library(found: Option<Found>) -> bool {
    found.is_none_or(|found| found.takes_library)
}

/// Says if Longshore will not be in a program that is to stay on it, and what is known of it if
/// it can be executed, as far as that is known beforehand: sockets that were let go
/// of for an `exec` that fails may have been closed meanwhile by all who shared them.
pub(crate) fn can_execute(
    directory: c_int,
    path: Text<'_>,
    flags: c_int,
    stays: bool,
) -> Option<Found> {
    let errno = errno();
    let how = libc::AT_EACCESS | flags & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW);
    let can = faccessat(directory, path, libc::X_OK, how) == 0;
    // The kernel has read it.
    let path = path.get().filter(|_| can && stays);
    let rejects = path.is_some_and(|path| lost::look_at(directory, path));
    set_errno(errno);
    can.then_some(Found {
        takes_library: !rejects,
    })
}

/// As `can_execute`, of a file that is looked for as `execvp` does.
pub(crate) fn can_find(file: Text<'_>, stays: bool) -> Option<Found> {
    let name = file.get().map(CStr::to_bytes)?;
    if name.contains(&b'/') {
        return can_execute(libc::AT_FDCWD, file, 0, stays);
    }
    let places = getenv(Text::from(c"PATH")).get().map(CStr::to_bytes);
    let mut places = places.unwrap_or(b"/bin:/usr/bin").split(|b| *b == b':');
    places.find_map(|place| {
        let slash: &[u8] = if place.is_empty() { b"" } else { b"/" };
        let mut path = [0; libc::PATH_MAX as usize];
        let mut rest = path.as_mut_slice();
        // One byte stays 0.
        for part in [place, slash, name] {
            if rest.len() <= part.len() {
                return None;
            }
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        let path = CStr::from_bytes_until_nul(&path).unwrap_or_default();
        can_execute(libc::AT_FDCWD, Text::from(path), 0, stays)
    })
}

/// What comes before `exec`, which will succeed as far as is known. Nothing is asked for in a
/// child that was made without our knowing: what it holds is in its name, and the new image
/// lets go of it.
fn before(succeeds: bool) -> Left {
    pipes::leave_all();
    let mut left = Left {
        host: place::attached_already(),
        sockets: Vec::new(),
        holds: Holds::Nothing,
    };
    let Some(host) = left.host else {
        if place::is_unknown_child() {
            left.holds = place::reserved().map_or(Holds::Sockets, Holds::Reserved);
        }
        return left;
    };
    for id in fds::closed_by_exec(|_| false) {
        if succeeds && host.sockets().leave_to_others(id) == Ok(true) {
            left.sockets.push(id);
        } else {
            left.holds = Holds::Sockets;
        }
    }
    let _ = host.messages().flush();
    left
}

/// `exec` has come back: it has failed.
fn failed(left: Left) {
    let errno = errno();
    if let Some(host) = left.host {
        for id in left.sockets {
            host.sockets().hold_again(id);
        }
    }
    set_errno(errno);
}

/// Executes with the environment `envp`, carried on; `succeeds` looks whether it can, and is
/// told whether the program is to stay on Longshore.
fn with(
    envp: Strings<'_>,
    succeeds: impl FnOnce(bool) -> Option<Found>,
    exec: impl FnOnce(Strings<'_>) -> c_int,
) -> c_int {
    if state::is_off() {
        return exec(envp);
    }
    // Not over the call itself: the new image would begin with signals held back.
    let (left, mut carried) = prepare(|| {
        let found = succeeds(!environment::leaves(envp));
        let left = before(found.is_some());
        let carried = Carried::new(envp, left.holds, takes_library(found));
        (left, carried)
    });
    let result = exec(carried.list());
    within(|| failed(left));
    result
}

/// `execve(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn execve(path: Text<'_>, argv: Strings<'_>, envp: Strings<'_>) -> c_int {
    with(
        envp,
        |stays| can_execute(libc::AT_FDCWD, path, 0, stays),
        |envp| real::execve(path, argv, envp),
    )
}

/// `execv(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn execv(path: Text<'_>, argv: Strings<'_>) -> c_int {
    execve(path, argv, environment::own())
}

/// `execvpe(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn execvpe(file: Text<'_>, argv: Strings<'_>, envp: Strings<'_>) -> c_int {
    with(
        envp,
        |stays| can_find(file, stays),
        |envp| real::execvpe(file, argv, envp),
    )
}

/// `execvp(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn execvp(file: Text<'_>, argv: Strings<'_>) -> c_int {
    execvpe(file, argv, environment::own())
}

/// `fexecve(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fexecve(fd: c_int, argv: Strings<'_>, envp: Strings<'_>) -> c_int {
    with(
        envp,
        |stays| can_execute(fd, Text::from(c""), libc::AT_EMPTY_PATH, stays),
        |envp| real::fexecve(fd, argv, envp),
    )
}

/// `execveat(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn execveat(
    directory: c_int,
    path: Text<'_>,
    argv: Strings<'_>,
    envp: Strings<'_>,
    flags: c_int,
) -> c_int {
    with(
        envp,
        |stays| can_execute(directory, path, flags, stays),
        |envp| real::execveat(directory, path, argv, envp, flags),
    )
}

/// The arguments of a call like `execl`, which C ends with a null.
struct Arguments<'a, 'l> {
    next: Text<'a>,
    rest: &'l mut List<'a>,
}

impl<'a> Arguments<'a, '_> {
    /// All of them, and the null. `None`, with errno set, if there are more than anybody
    /// writes down.
    fn listed(&mut self) -> Option<[Text<'a>; MOST_ARGUMENTS]> {
        let mut argv = [Text::null(); MOST_ARGUMENTS];
        for place in &mut argv {
            if self.next.is_null() {
                return Some(argv);
            }
            *place = self.next;
            // The null has not come yet, and what is before it are strings.
            self.next = self.rest.next().map_or(Text::null(), Text::from);
        }
        set_errno(libc::E2BIG);
        None
    }
}

extern "C-unwind" fn execl_list<'a>(path: Text<'_>, next: Text<'a>, rest: &mut List<'a>) -> c_int {
    let argv = Arguments { next, rest }.listed();
    argv.as_ref()
        .and_then(|argv| Strings::of(argv))
        .map_or(-1, |argv| execv(path, argv))
}

extern "C-unwind" fn execlp_list<'a>(file: Text<'_>, next: Text<'a>, rest: &mut List<'a>) -> c_int {
    let argv = Arguments { next, rest }.listed();
    argv.as_ref()
        .and_then(|argv| Strings::of(argv))
        .map_or(-1, |argv| execvp(file, argv))
}

extern "C-unwind" fn execle_list<'a>(path: Text<'_>, next: Text<'a>, rest: &mut List<'a>) -> c_int {
    let argv = Arguments {
        next,
        rest: &mut *rest,
    }
    .listed();
    let Some(argv) = argv.as_ref().and_then(|argv| Strings::of(argv)) else {
        return -1;
    };
    // The environment comes behind the null.
    match rest.next() {
        Some(envp) => execve(path, argv, envp.into()),
        None => -1,
    }
}

/// `execl(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execl(path: Text<'_>, first: Text<'_>) -> c_int {
    variadic!(2, execl_list)
}

/// `execlp(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execlp(file: Text<'_>, first: Text<'_>) -> c_int {
    variadic!(2, execlp_list)
}

/// `execle(3)`.
///
/// # Safety
/// As libc's. More arguments follow.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn execle(path: Text<'_>, first: Text<'_>) -> c_int {
    variadic!(2, execle_list)
}

/// `system(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn system(command: Text<'_>) -> c_int {
    if state::is_off() || environment::is_carried() {
        return real::system(command);
    }
    environment::with_own(|| real::system(command))
}

/// `popen(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn popen(command: Text<'_>, mode: Text<'_>) -> Opaque<FILE> {
    if state::is_off() || environment::is_carried() {
        return real::popen(command, mode);
    }
    environment::with_own(|| real::popen(command, mode))
}
