//! What the host library needs of the program that it lives in, which hands it over when it
//! joins: whoever has such needs of its own (the shim) gives other functions than the usual.

use longshore_hostif::SocketId;
use std::os::fd::OwnedFd;

/// What the host library needs of the program it lives in.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Takes a descriptor of ours to where the program does not get at it.
    pub keep: fn(OwnedFd) -> OwnedFd,
    /// Does what gets descriptors from the engine, where it may have as many as it needs.
    pub with_room: fn(&mut dyn FnMut()),
    /// Closes a descriptor that was kept.
    pub discard: fn(OwnedFd),
    /// Whether a call goes on that was interrupted by a signal handler which was not
    /// postponed ([`Section`](crate::Section)): by SA_RESTART.
    pub restarts: fn() -> bool,
    /// Whether this thread is to end, by `pthread_cancel`: then it does not sleep.
    pub is_cancelled: fn() -> bool,
    /// A name of this thread, by which [`Threads::wake_thread`](crate::Threads::wake_thread) finds it; not 0.
    pub thread: fn() -> usize,
    /// So much was read of a socket beyond what is kept of it
    /// ([`Keeping::take`](crate::Keeping::take)) that its peer would find no room: what is kept
    /// is to be given back.
    pub give_back: fn(SocketId),
    /// Says something to the person who runs the program.
    pub log: fn(&str),
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            keep: |fd| fd,
            with_room: |work| work(),
            discard: drop,
            restarts: || true,
            is_cancelled: || false,
            thread: || 1,
            give_back: |_| {},
            log: |text| eprintln!("longshore: {text}"),
        }
    }
}
