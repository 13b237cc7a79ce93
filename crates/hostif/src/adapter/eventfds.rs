//! The eventfds by which poll sets and threads in poll are woken: made when a program asks
//! for one, rung by `wakeups`.
//!
//! A process gives a waiter back by a store to memory, which tells nobody. So for some time after
//! an eventfd was made the adapter looks from time to time which waiters are free
//! ([`Eventfds::close_unused`]), and closes what was made for them.

use super::session_meter::SessionMeter;
use longshore_ring::{EventfdSignaler, UntrustedEventfd};
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Looks in which none was made or closed, after which all are thought to be of threads and sets
/// that last: a session that does nothing is not looked at for ever.
const LOOKS: u32 = 30;
/// Between two looks, in microseconds.
const LOOK_EVERY: u64 = 1_000_000;
/// Between two parts of a look, in microseconds.
const NEXT_PART: u64 = 20_000;
/// Eventfds in one part of a look.
const PART: usize = 64;

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
    of_waiters: BTreeMap<u32, Made>,
    waiters: u32,
    signaler: Arc<EventfdSignaler>,
    /// Looks that are still to be begun.
    looks_left: u32,
    /// The waiter with which a look goes on that has been begun.
    look_from: Option<u32>,
    /// When it is looked next.
    look_at: u64,
}

impl Eventfds {
    pub(super) fn new(signaler: Arc<EventfdSignaler>, waiters: u32) -> Self {
        Self {
            of_waiters: BTreeMap::new(),
            waiters,
            signaler,
            looks_left: 0,
            look_from: None,
            look_at: 0,
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
            with.looks_left = LOOKS;
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
        self.looks_left = LOOKS;
        // Nobody sleeps on it before the program has it: it is not rung for what is overdue.
        let made = self.of_waiters.entry(waiter).insert_entry(made);
        Some(made.into_mut().fd.fd())
    }

    /// Whether there is any.
    pub(super) fn are_any(&self) -> bool {
        !self.of_waiters.is_empty()
    }

    /// When it is to be looked for those whose waiters are free, if that is not to be left alone
    /// until something else is done for the session.
    pub(super) fn unused_at(&self) -> Option<u64> {
        let is_wanted = self.looks_left != 0 || self.look_from.is_some();
        let is_wanted = is_wanted && self.are_any();
        is_wanted.then_some(self.look_at)
    }

    /// Closes those whose waiters are free, some at a time, if it is time for that; says when to
    /// come again.
    pub(super) fn close_unused(&mut self, now: u64, is_free: impl Fn(u32) -> bool) -> Option<u64> {
        if now < self.look_at || !self.are_any() {
            return self.unused_at();
        }
        let begun = self.look_from.take();
        if begun.is_none() {
            self.looks_left = self.looks_left.saturating_sub(1);
        }
        let mut from = begun.unwrap_or(0);
        for _ in 0..PART {
            let Some((&waiter, _)) = self.of_waiters.range(from..).next() else {
                break;
            };
            if is_free(waiter) {
                self.forget(waiter);
                self.looks_left = LOOKS;
            }
            // There are fewer waiters than numbers for them.
            from = waiter + 1;
        }
        let next = self.of_waiters.range(from..).next();
        self.look_from = next.map(|(waiter, _)| *waiter);
        let pause = if self.look_from.is_some() {
            NEXT_PART
        } else {
            LOOK_EVERY
        };
        self.look_at = now + pause;
        self.unused_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::AdapterSession;
    use crate::adapter::session::small;
    use crate::{Geometry, HostSession};

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
        assert!(!session.wakeups.have_eventfds());
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
        assert!(session.wakeups.have_eventfds());
        session.wakeups.eventfds.forget(1);
        assert!(!session.wakeups.have_eventfds());
        session.wakeups.eventfds.ring(1);
        assert_eq!(counted(&fd), 0);
    }

    /// Claims so many waiters, each with an eventfd, which reports to `open` when it is closed.
    fn sleepers(session: &mut AdapterSession, count: u32, open: &Arc<()>) {
        let host = HostSession::of(session.arena());
        for _ in 0..count {
            let waiter = host.waiters().claim(7, 0).unwrap();
            let charge: Charge = Some(Box::new(Arc::clone(open)));
            assert!(session.make_eventfd(waiter, || Some(charge)).is_some());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no such eventfds")]
    fn those_of_waiters_that_were_given_back_are_closed_some_at_a_time() {
        let geometry = Geometry {
            waiters: 512,
            ..Geometry::SMALL
        };
        const MANY: u32 = 2 * PART as u32 + 10;
        let signaler = Arc::new(EventfdSignaler::for_one());
        let mut session = AdapterSession::create(geometry, signaler).unwrap();
        let host = HostSession::of(session.arena());
        assert_eq!(session.wakeups.unused_eventfds_at(), None);
        assert_eq!(session.wakeups.close_unused_eventfds(5), None);
        let open = Arc::new(());
        sleepers(&mut session, MANY, &open);
        let left = |open: &Arc<()>| Arc::strong_count(open) as u32 - 1;
        assert_eq!(session.wakeups.unused_eventfds_at(), Some(0));
        // All but each tenth.
        let free = (0..MANY).filter(|waiter| waiter % 10 != 0);
        free.for_each(|waiter| assert!(host.waiters().free(waiter)));
        let mut now = 7_000_000;
        for (looked_at, pause) in [
            (PART as u32, NEXT_PART),
            (2 * PART as u32, NEXT_PART),
            (MANY, LOOK_EVERY),
        ] {
            let closed = looked_at - looked_at.div_ceil(10);
            let next = session.wakeups.close_unused_eventfds(now);
            assert_eq!((left(&open), next), (MANY - closed, Some(now + pause)));
            // Before it is time nothing is done.
            let next = session.wakeups.close_unused_eventfds(now + pause - 1);
            assert_eq!((left(&open), next), (MANY - closed, Some(now + pause)));
            now += pause;
        }
    }

    /// Those that last are not looked at for ever by themselves, but as soon as another is made or
    /// something else is done for the session.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such eventfds")]
    fn those_that_are_used_are_left_alone_after_some_looks() {
        let mut session = small();
        let host = HostSession::of(session.arena());
        let open = Arc::new(());
        let mut now = 1;
        sleepers(&mut session, 3, &open);
        for looks in [LOOKS, 0, LOOKS] {
            for _ in 1..looks {
                let next = session.wakeups.close_unused_eventfds(now);
                assert_eq!(next, Some(now + LOOK_EVERY));
                now += LOOK_EVERY;
            }
            assert_eq!(session.wakeups.close_unused_eventfds(now), None);
            assert_eq!(session.wakeups.unused_eventfds_at(), None);
            now += LOOK_EVERY;
            if looks == 0 {
                sleepers(&mut session, 1, &open);
                assert!(session.wakeups.unused_eventfds_at().is_some());
            }
        }
        assert_eq!(Arc::strong_count(&open), 1 + 4);
        (0..4).for_each(|waiter| assert!(host.waiters().free(waiter)));
        assert_eq!(session.wakeups.unused_eventfds_at(), None);
        assert_eq!(session.wakeups.close_unused_eventfds(now), None);
        assert_eq!(Arc::strong_count(&open), 1);
    }

    /// A thread claims the waiter of one that has ended, before and after its eventfd is closed.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such eventfds")]
    fn whoever_claims_a_waiter_anew_is_woken_by_an_eventfd_of_its_own() {
        let mut session = small();
        let host = HostSession::of(session.arena());
        let (mut now, open) = (1, Arc::new(()));
        for is_closed_between in [true, false] {
            assert!(host.waiters().claim_this(7, 2));
            let charge = || -> Option<Charge> { Some(Some(Box::new(Arc::clone(&open)))) };
            let old = session.make_eventfd(2, charge).unwrap();
            let old = old.try_clone_to_owned().unwrap();
            assert!(host.waiters().free(2));
            if is_closed_between {
                let _ = session.wakeups.close_unused_eventfds(now);
                assert_eq!(Arc::strong_count(&open), 1);
            }
            assert!(host.waiters().claim_this(8, 2));
            // It has not asked yet.
            now += LOOK_EVERY;
            let _ = session.wakeups.close_unused_eventfds(now);
            let charge = || -> Option<Charge> { Some(Some(Box::new(Arc::clone(&open)))) };
            let fd = session.make_eventfd(2, charge).unwrap();
            let fd = fd.try_clone_to_owned().unwrap();
            now += LOOK_EVERY;
            let _ = session.wakeups.close_unused_eventfds(now);
            assert_eq!(Arc::strong_count(&open), 2, "it is one, and used");
            session.wakeups.eventfds.ring(2);
            let is_rung = |fd| rustix::io::read(fd, &mut [0; 8]).is_ok();
            assert_eq!((is_rung(&old), is_rung(&fd)), (false, true));
            assert!(host.waiters().free(2));
            now += LOOK_EVERY;
            let _ = session.wakeups.close_unused_eventfds(now);
            now += LOOK_EVERY;
        }
    }
}
