//! Which process of the session this is.
//!
//! Owns [`Identity`]. `join` makes it, `fork` changes it in a child, and whatever needs the
//! channel or the pid reads it.

use super::own_pid;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A process's channel, its pid as the engine knows it, and how many forks lie between it and
/// the process that joined.
#[derive(Debug)]
pub(crate) struct Identity {
    channel: AtomicU32,
    /// Its pid, or what stands for it ([`REGISTERED`](longshore_hostif::REGISTERED)).
    pid: AtomicU32,
    has_other_pids: AtomicBool,
    epoch: AtomicU32,
}

impl Identity {
    /// Of the process that joined by `channel`, which is `pid` to the engine.
    pub(crate) fn new(channel: u32, pid: u32) -> Self {
        Self {
            channel: AtomicU32::new(channel),
            pid: AtomicU32::new(pid),
            has_other_pids: AtomicBool::new(pid != own_pid()),
            epoch: AtomicU32::new(0),
        }
    }

    /// The channel of this process.
    #[inline]
    pub(crate) fn channel(&self) -> u32 {
        self.channel.load(Ordering::Relaxed)
    }

    /// The pid of this process as the engine knows it, or what stands for it.
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Whether pids mean something else to the engine, as it is in another namespace. So it
    /// stays for all processes that descend from this one.
    pub(crate) fn has_other_pids(&self) -> bool {
        self.has_other_pids.load(Ordering::Relaxed)
    }

    /// The forks between this process and the one that joined.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// This is a child: what its parent's threads had to sleep on is not its own.
    pub(crate) fn enter_child(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// This process is in a namespace of pids that the engine is not in.
    pub(crate) fn leave_namespace(&self) {
        self.has_other_pids.store(true, Ordering::Relaxed);
    }

    /// This process has taken `channel`, in which `pid` stands for it.
    pub(crate) fn take_channel(&self, channel: u32, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
        self.channel.store(channel, Ordering::Relaxed);
    }

    /// This process has joined by itself, by `channel`, and is `pid` to the engine.
    pub(crate) fn join_anew(&self, channel: u32, pid: u32) {
        self.has_other_pids
            .store(pid != own_pid(), Ordering::Relaxed);
        self.take_channel(channel, pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_what_the_engine_knows_it_by() {
        let own = std::process::id();
        let identity = Identity::new(3, own);
        let is = |channel, pid, has_other_pids| {
            assert_eq!((identity.channel(), identity.pid()), (channel, pid));
            assert_eq!(identity.has_other_pids(), has_other_pids);
        };
        is(3, own, false);
        identity.take_channel(4, own + 1);
        is(4, own + 1, false);
        // It has asked for its place itself, and learns from the engine what its pid is there.
        identity.join_anew(5, own + 2);
        is(5, own + 2, true);
        identity.join_anew(6, own);
        is(6, own, false);
        identity.leave_namespace();
        is(6, own, true);
        assert!(Identity::new(3, own + 1).has_other_pids());
    }
}
