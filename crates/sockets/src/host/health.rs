//! Whether a process can still reach its engine, and what its session has run out of.
//!
//! Owns [`Health`] and [`Shortages`]. [`Host`](super::Host) changes them and logs what the
//! user should know, each kind once.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether calls on sockets can still work.
#[derive(Debug, Default)]
pub(crate) struct Health {
    gone: AtomicBool,
    cut_off: AtomicBool,
}

impl Health {
    /// Whether the engine is known to be gone, or cannot be reached any more.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The engine is gone. Says whether that was not known before.
    pub(crate) fn set_gone(&self) -> bool {
        !self.gone.swap(true, Ordering::AcqRel)
    }

    /// Whether this process is a child for which there was no channel.
    #[inline]
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// This process is a child for which there was no channel.
    pub(crate) fn set_cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }
}

/// What the session is short of, and whether the user was told.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    send_memory: AtomicBool,
    warned_of_memory: AtomicBool,
    warned_of_sockets: AtomicBool,
}

impl Shortages {
    /// Whether the session was short of send memory lately.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.send_memory.load(Ordering::Relaxed)
    }

    /// The session is short of send memory, or is not any more. Says whether the user should
    /// be told.
    #[inline]
    pub(crate) fn set_short(&self, short: bool) -> bool {
        if self.is_short() == short {
            return false;
        }
        self.send_memory.store(short, Ordering::Relaxed);
        short && !self.warned_of_memory.swap(true, Ordering::Relaxed)
    }

    /// The session has no free socket. Says whether the user should be told.
    pub(crate) fn note_no_socket(&self) -> bool {
        !self.warned_of_sockets.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_told_of_each_kind_once() {
        let health = Health::default();
        assert!(!health.is_gone());
        assert!(health.set_gone() && health.is_gone());
        assert!(!health.set_gone() && health.is_gone());
        let shortages = Shortages::default();
        assert!(!shortages.set_short(false));
        assert!(shortages.set_short(true) && !shortages.set_short(true));
        assert!(!shortages.set_short(false) && !shortages.is_short());
        assert!(!shortages.set_short(true) && shortages.is_short());
        assert!(shortages.note_no_socket() && !shortages.note_no_socket());
    }
}
