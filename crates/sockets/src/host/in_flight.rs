//! The requests of a process that a later call may have to wait for, since their effect is seen
//! outside the connection or the channel that they were put for.
//!
//! Owns [`InFlight`]. `under_way` waits for what it has; the sender of a forwarded range, of a
//! new socket or of a change to one of the process's own connections notes that here.

use longshore_hostif::SocketId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number that no ring has.
const NO_RING: u32 = u32::MAX;

/// What of a process's requests the engine may not have handled yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The socket that was the last to send what another has received, encoded; 0 if there is
    /// none that the engine may not have taken.
    forwarded_to: AtomicU64,
    /// Of the last request to open a socket: its ring, and in the lower half its number.
    opened: AtomicU64,
    /// Whether something was done to a connection of which this process has, or may have, the other
    /// end, too, and nothing has waited for that since.
    done_to_own: AtomicBool,
}

impl InFlight {
    /// Of a process that has put no request.
    pub(crate) fn new() -> Self {
        Self {
            forwarded_to: AtomicU64::new(0),
            opened: AtomicU64::new(u64::from(NO_RING) << 32),
            done_to_own: AtomicBool::new(false),
        }
    }

    /// `socket` sends a range that another socket has received.
    pub(crate) fn note_forwarded(&self, socket: SocketId) {
        self.forwarded_to.store(socket.encode(), Ordering::Relaxed);
    }

    /// The socket that was the last to send such a range since this was asked, if there is one.
    pub(crate) fn take_forwarded(&self) -> Option<SocketId> {
        match self.forwarded_to.swap(0, Ordering::Relaxed) {
            0 => None,
            socket => Some(SocketId::decode(socket)),
        }
    }

    /// The request to open a socket has this number in `ring`.
    pub(crate) fn note_opened(&self, ring: u32, number: u32) {
        let opened = u64::from(ring) << 32 | u64::from(number);
        self.opened.store(opened, Ordering::Release);
    }

    /// The ring and the number of the last request to open a socket. No process has the ring if
    /// there was none.
    pub(crate) fn opened(&self) -> (u32, u32) {
        let opened = self.opened.load(Ordering::Acquire);
        ((opened >> 32) as u32, opened as u32)
    }

    /// Something was done to a connection of which this process may have the other end.
    pub(crate) fn note_done_to_own(&self) {
        self.done_to_own.store(true, Ordering::Release);
    }

    /// Whether that was noted since this was asked.
    #[inline]
    pub(crate) fn take_done_to_own(&self) -> bool {
        self.done_to_own.load(Ordering::Acquire) && self.done_to_own.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_taken_once() {
        let in_flight = InFlight::new();
        assert_eq!(in_flight.take_forwarded(), None);
        assert!(!in_flight.take_done_to_own());
        let socket = |index| SocketId {
            index,
            generation: 9,
        };
        in_flight.note_forwarded(socket(3));
        in_flight.note_forwarded(socket(4));
        assert_eq!(in_flight.take_forwarded(), Some(socket(4)));
        assert_eq!(in_flight.take_forwarded(), None);
        in_flight.note_done_to_own();
        assert!(in_flight.take_done_to_own() && !in_flight.take_done_to_own());
    }

    #[test]
    fn the_last_request_to_open_is_kept_with_its_ring() {
        let in_flight = InFlight::new();
        assert_eq!(in_flight.opened().0, NO_RING);
        in_flight.note_opened(2, 7);
        in_flight.note_opened(0, u32::MAX);
        assert_eq!(in_flight.opened(), (0, u32::MAX));
        assert_eq!(in_flight.opened(), (0, u32::MAX));
    }
}
