//! The signals that a socket's owner is sent (F_SETOWN): raised by the engine, and counted in
//! the block, where a thread that waits for one sees those that the kernel merges.
//!
//! Owns [`OwnersSignal`] and [`Raised`].

use super::{BlockFlags, SocketBlock};
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// What the owner of a socket is told by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum OwnersSignal {
    /// Urgent data has come: SIGURG.
    Urgent = 0,
    /// Something can be done: SIGIO, if it is wanted (O_ASYNC).
    Ready = 1,
}

/// How often signals were raised, modulo 65,536: twice the number, so that one that is
/// just being raised is known by an odd count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raised {
    /// With those that were begun.
    pub begun: u16,
    /// Without those that are not done.
    pub done: u16,
}

impl Raised {
    /// Whether any was raised since `before`, one that was then under way not counted.
    pub fn is_after(&self, before: &Self) -> bool {
        self.done.wrapping_sub(before.begun).cast_signed() > 0
    }
}

impl std::ops::Add for Raised {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            begun: self.begun.wrapping_add(other.begun),
            done: self.done.wrapping_add(other.done),
        }
    }
}

impl SocketBlock {
    /// Raises a signal to its owner by `raise`, and counts it: a thread that waits for one does
    /// not learn of all of them from the kernel. A socket that is closed raises none.
    ///
    /// # Errors
    /// What `raise` says.
    pub fn raise<E>(
        &self,
        signal: OwnersSignal,
        raise: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.count(signal);
        count.fetch_add(1, Ordering::AcqRel);
        // As in `close`: one of the two sees the other.
        fence(Ordering::SeqCst);
        let raised = if self.flags().contains(BlockFlags::CLOSED) {
            None
        } else {
            Some(raise())
        };
        if matches!(raised, Some(Ok(()))) {
            count.fetch_add(1, Ordering::AcqRel);
        } else {
            count.fetch_sub(1, Ordering::AcqRel);
        }
        raised.unwrap_or(Ok(()))
    }

    /// No process has it any more. Once [`SocketBlock::is_raising`] says no after this, none
    /// of its signals comes any more.
    pub fn close(&self) {
        self.set_flags(BlockFlags::CLOSED);
        fence(Ordering::SeqCst);
    }

    /// Whether a signal to its owner is just being raised.
    pub fn is_raising(&self) -> bool {
        let is_odd = |count: &AtomicU16| count.load(Ordering::Acquire) & 1 == 1;
        self.signals.iter().any(is_odd)
    }

    /// How often its owner was signalled.
    pub fn raised(&self, signal: OwnersSignal) -> Raised {
        let count = self.count(signal).load(Ordering::Acquire);
        Raised {
            begun: count.wrapping_add(count & 1),
            done: count & !1,
        }
    }

    fn count(&self, signal: OwnersSignal) -> &AtomicU16 {
        let [urgent, ready] = &self.signals;
        match signal {
            OwnersSignal::Urgent => urgent,
            OwnersSignal::Ready => ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnersSignal, Raised};
    use crate::abi::block::tests::block;

    #[test]
    fn a_signal_that_is_being_raised_counts_for_who_looked_before() {
        let b = block();
        let signal = OwnersSignal::Ready;
        let before = b.raised(signal);
        let during = b.raise(signal, || {
            assert!(!b.raised(signal).is_after(&before));
            Err(b.raised(signal))
        });
        assert!(!b.raised(signal).is_after(&before), "it has failed");
        assert_eq!(b.raise(signal, || Ok::<(), ()>(())), Ok(()));
        assert!(b.raised(signal).is_after(&before));
        assert!(!b.raised(signal).is_after(&during.unwrap_err()));
        let other = b.raised(OwnersSignal::Urgent);
        assert_eq!(other, Raised::default());
    }

    #[test]
    fn two_counts_add_up_and_go_round() {
        let of = |begun, done| Raised { begun, done };
        assert_eq!(of(4, 2) + of(u16::MAX, 6), of(3, 8));
        assert!(of(2, 2).is_after(&of(u16::MAX - 1, 0)));
        assert!(!of(2, 2).is_after(&of(2, 2)) && !of(2, 0).is_after(&of(2, 2)));
    }

    #[test]
    fn a_socket_that_is_closed_raises_nothing() {
        let b = block();
        let signal = OwnersSignal::Ready;
        let raised = b.raise(signal, || {
            // While one is under way, whoever closes it waits.
            b.close();
            assert!(b.is_raising());
            Ok::<(), ()>(())
        });
        assert_eq!(raised, Ok(()));
        assert!(!b.is_raising());
        let before = b.raised(signal);
        let again = b.raise(signal, || -> Result<(), ()> { panic!("it is closed") });
        assert_eq!((again, b.raised(signal)), (Ok(()), before));
        assert!(!b.is_raising());
    }
}
