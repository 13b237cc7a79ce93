//! `posix_spawn` and `pidfd_spawn`: libc makes the child without the handlers of `fork`, so its
//! parent claims a channel for it with what it inherits, which its own copy of
//! the shim takes over: all but the sockets that `exec` closes. Where the engine does not know
//! the child by the pid that its parent has for it, the child itself says which channel that is.

use crate::calls::execve::{Found, can_execute, can_find, takes_library};
use crate::cancel::held;
use crate::environment::{self, Carried, Holds};
use crate::fds::{self, Entry};
use crate::signals::{prepare, within};
use crate::user::{In, Out, Strings, Text};
use crate::{kept, place, real, state};
use libc::{c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use longshore_sockets::{Host, Reservation};
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors that some list of actions of `posix_spawn` puts in the place of another, so
/// that `exec` does not close that one.
static SOURCES: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The word and the bit of a descriptor; high ones share theirs.
fn place(fd: c_int) -> (&'static AtomicU64, u64) {
    let at = fd.unsigned_abs() as usize;
    (&SOURCES[at / 64 % SOURCES.len()], 1 << (at % 64))
}

fn is_source(fd: c_int) -> bool {
    let (word, bit) = place(fd);
    word.load(Ordering::Relaxed) & bit != 0
}

/// `posix_spawn_file_actions_adddup2(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: Out<'_, posix_spawn_file_actions_t>,
    from: c_int,
    to: c_int,
) -> c_int {
    let (word, bit) = place(from);
    word.fetch_or(bit, Ordering::Relaxed);
    real::posix_spawn_file_actions_adddup2(actions, from, to)
}

/// A channel for a child, with what it will inherit.
fn reserve(host: &'static Host) -> Option<Reservation> {
    let reservation = host.reserve_channel()?;
    for id in fds::closed_by_exec(is_source) {
        reservation.leave_out(id);
    }
    Some(reservation)
}

/// Holds what this process holds a second time while `spawn` runs, which leaves a name of the
/// child; what the child has inherited stays held for it from then on. `look` looks at
/// the program, if it is to stay on Longshore; `pid` knows the process with such a name, unless
/// it has ended and been waited for.
fn hold(
    child: Out<'_, c_int>,
    envp: Strings<'_>,
    look: impl FnOnce() -> Option<Found>,
    spawn: impl FnOnce(Out<'_, c_int>, Strings<'_>) -> c_int,
    pid: impl FnOnce(c_int) -> Option<u32>,
) -> c_int {
    if state::is_off() {
        return spawn(child, envp);
    }
    let (reserved, mut carried) = prepare(|| {
        let found = match environment::leaves(envp) {
            true => None,
            false => look(),
        };
        kept::leave_all();
        let host = place::attached();
        let host = host.filter(|_| fds::all().any(|(_, e)| matches!(e, Entry::Engine(_))));
        let reserved = host.and_then(reserve);
        let holds = match (host, reserved.and_then(Reservation::name)) {
            (None, _) => Holds::Nothing,
            // Its actions may close what it would inherit.
            (Some(_), None) => Holds::Sockets,
            (Some(_), Some(name)) => Holds::Reserved(name),
        };
        (reserved, Carried::new(envp, holds, takes_library(found)))
    });
    let mut name: c_int = 0;
    let result = held(|| spawn(Out::from(&mut name), carried.list()));
    if result == 0 {
        child.put(name);
    }
    within(|| {
        let Some(reservation) = reserved else { return };
        match (result == 0).then(|| pid(name)).flatten() {
            Some(pid) => reservation.give_to(pid),
            None => reservation.release(),
        }
    });
    result
}

fn at_path(path: Text<'_>) -> Option<Found> {
    can_execute(libc::AT_FDCWD, path, 0, true)
}

fn by_name(file: Text<'_>) -> Option<Found> {
    can_find(file, true)
}

/// A process id is the name that `posix_spawn` leaves.
fn itself(pid: pid_t) -> Option<u32> {
    u32::try_from(pid).ok()
}

/// `pidfd_spawn` leaves a descriptor.
fn of_descriptor(fd: c_int) -> Option<u32> {
    u32::try_from(real::pidfd_getpid(fd)).ok()
}

/// A libc that has no `pidfd_spawn` says so as one does whose kernel cannot do it: by the number
/// that these functions return.
fn unless_missing(result: c_int) -> c_int {
    match result {
        -1 => libc::ENOSYS,
        result => result,
    }
}

/// Functions that spawn, all with the same arguments: how each finds the program, and whose pid its
/// name of the child is.
macro_rules! spawns {
    ($($(#[$doc:meta])* $function:ident, $find:path, $pid:path;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $function(
            child: Out<'_, c_int>,
            program: Text<'_>,
            actions: In<'_, posix_spawn_file_actions_t>,
            attr: In<'_, posix_spawnattr_t>,
            argv: Strings<'_>,
            envp: Strings<'_>,
        ) -> c_int {
            let look = || $find(program);
            let spawn = |child: Out<'_, c_int>, envp: Strings<'_>| {
                unless_missing(real::$function(child, program, actions, attr, argv, envp))
            };
            hold(child, envp, look, spawn, $pid)
        }
    )*};
}

spawns! {
    /// `posix_spawn(3)`.
    posix_spawn, at_path, itself;
    /// `posix_spawnp(3)`.
    posix_spawnp, by_name, itself;
    /// `pidfd_spawn(3)`, which glibc has from 2.39 on: `posix_spawn`, but for what it leaves.
    pidfd_spawn, at_path, of_descriptor;
    /// `pidfd_spawnp(3)`.
    pidfd_spawnp, by_name, of_descriptor;
}
