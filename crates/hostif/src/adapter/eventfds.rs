//! The eventfds by which poll sets and threads in poll are woken: made when a program asks
//! for one, rung by `wakeups`.

use super::session_meter::SessionMeter;
use longshore_ring::{EventfdSignaler, UntrustedEventfd};
use std::any::Any;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What descriptors are charged to, if anything: dropped when they are closed.
pub type Charge = Option<Box<dyn Any + Send + Sync>>;

/// One of them.
#[derive(Debug)]
struct Made {
    fd: Arc<UntrustedEventfd>,
    _charge: Charge,
}

/// Those of a session.
#[derive(Debug)]
pub(super) struct Eventfds {
    of_waiters: HashMap<u32, Made>,
    waiters: u32,
    signaler: Arc<EventfdSignaler>,
}

impl Eventfds {
    pub(super) fn new(signaler: Arc<EventfdSignaler>, waiters: u32) -> Self {
        Self {
            of_waiters: HashMap::new(),
            waiters,
            signaler,
        }
    }

    /// Wakes whoever sleeps on the eventfd of a waiter. If it has none yet, it is rung when
    /// it gets one.
    pub(super) fn ring(&self, waiter: u32) {
        if let Some(made) = self.of_waiters.get(&waiter) {
            self.signaler.ring(&made.fd);
        }
    }

    pub(super) fn forget(&mut self, waiter: u32) {
        self.of_waiters.remove(&waiter);
    }

    /// Has another worker wake those that sleep on the eventfd of a waiter, too, if that was
    /// made: they sleep there for what happens at any worker.
    pub(super) fn share(&self, waiter: u32, with: &mut Self) {
        if let Some(made) = self.of_waiters.get(&waiter) {
            let made = Made {
                fd: Arc::clone(&made.fd),
                _charge: None,
            };
            with.of_waiters.insert(waiter, made);
        }
    }

    /// Makes the eventfd of a waiter, for the program; one that it had is closed.
    /// `charge` is asked for what one descriptor is charged to, and refuses by `None`.
    pub(super) fn make(
        &mut self,
        waiter: u32,
        charge: impl FnOnce() -> Option<Charge>,
        meter: &SessionMeter,
    ) -> Option<BorrowedFd<'_>> {
        if waiter >= self.waiters {
            meter.note_bad_descriptor();
            return None;
        }
        let made = Made {
            _charge: charge()?,
            fd: Arc::new(UntrustedEventfd::make().ok()?),
        };
        // Nobody sleeps on it before the program has it: it is not rung for what is overdue.
        let made = self.of_waiters.entry(waiter).insert_entry(made);
        Some(made.into_mut().fd.fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::session::small;

    fn free() -> Option<Charge> {
        Some(None)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no such eventfds")]
    fn a_program_that_asks_for_ever_has_few() {
        let mut session = small();
        for i in 0..10_000 {
            assert!(session.make_eventfd(i % 8, free).is_some());
            assert!(session.wakeups.eventfds.of_waiters.len() <= 8);
        }
        let made = session.make_eventfd(8, free);
        assert!(made.is_none(), "there is no such waiter");
        assert_eq!(session.meter.bad_descriptors(), 1);
        assert!(session.make_eventfd(1, || None).is_none(), "it may not");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no such eventfds")]
    fn a_waiter_is_woken_by_its_own_as_long_as_it_has_one() {
        let mut session = small();
        let fd = session.make_eventfd(1, free).unwrap();
        let fd = fd.try_clone_to_owned().unwrap();
        let counted = |fd: &std::os::fd::OwnedFd| {
            let mut count = [0; 8];
            rustix::io::read(fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        assert_eq!(counted(&fd), 0);
        session.wakeups.eventfds.ring(1);
        assert_eq!(counted(&fd), 1);
        session.wakeups.eventfds.ring(2);
        assert_eq!(counted(&fd), 0);
        session.wakeups.eventfds.forget(1);
        session.wakeups.eventfds.ring(1);
        assert_eq!(counted(&fd), 0);
    }
}
