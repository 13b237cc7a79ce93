//! `posix_spawn`: libc makes the child without the handlers of `fork`, so its
//! parent claims a channel for it with what it inherits, which its own copy of
//! the shim takes over.

use crate::fds::{self, Entry};
use crate::{real, state};
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

/// Holds what this process holds a second time while `spawn` runs; what the
/// child has inherited stays held for it from then on.
///
/// # Safety
/// `child` is null, or where `spawn` leaves the child's process id.
unsafe fn hold(child: *mut pid_t, spawn: impl FnOnce(*mut pid_t) -> c_int) -> c_int {
    let Some(host) = state::attached() else {
        return spawn(child);
    };
    let holds_any = fds::all().any(|(_, e)| matches!(e, Entry::Engine(_)));
    if !holds_any {
        return spawn(child);
    }
    let channel = host.reserve_channel();
    let mut own: pid_t = 0;
    let child = if child.is_null() { &raw mut own } else { child };
    let result = spawn(child);
    match channel {
        // SAFETY: by the caller's promise, or ours.
        Some(channel) if result == 0 => host.give_reservation(channel, unsafe { *child } as u32),
        Some(channel) => host.drop_reservation(channel),
        None => {}
    }
    result
}

/// `posix_spawn(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        hold(pid, |pid| {
            real::posix_spawn(pid, path, actions, attr, argv, envp)
        })
    }
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        hold(pid, |pid| {
            real::posix_spawnp(pid, file, actions, attr, argv, envp)
        })
    }
}
