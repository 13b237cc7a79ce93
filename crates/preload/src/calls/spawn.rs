//! `posix_spawn`: libc makes the child without the handlers of `fork`, so what
//! it inherits is held for it until its own copy of the shim takes it over.

use crate::fds::{self, Entry};
use crate::{real, state};
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use std::sync::atomic::{AtomicU32, Ordering};

/// The channel that holds what the last child may have inherited, plus 1.
static HELD: AtomicU32 = AtomicU32::new(0);

/// Holds what this process holds a second time while `spawn` runs, and until
/// the next one: by then the child has taken over what it inherited. The engine
/// drops a reservation that stays too long.
fn hold(spawn: impl FnOnce() -> c_int) -> c_int {
    let Some(host) = state::attached() else {
        return spawn();
    };
    let holds_any = fds::all().any(|(_, e)| matches!(e, Entry::Engine(_)));
    if !holds_any {
        return spawn();
    }
    let channel = host.reserve_channel();
    let result = spawn();
    let drop_now = if result == 0 {
        HELD.swap(channel.map_or(0, |c| c + 1), Ordering::AcqRel)
            .checked_sub(1)
    } else {
        channel
    };
    if let Some(channel) = drop_now {
        host.drop_reservation(channel);
    }
    result
}

/// `posix_spawn(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    hold(|| unsafe { real::posix_spawn(pid, path, actions, attr, argv, envp) })
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    hold(|| unsafe { real::posix_spawnp(pid, file, actions, attr, argv, envp) })
}
