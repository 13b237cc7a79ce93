//! The eventfds by which poll sets and threads in poll are woken: made when a program asks
//! for one, rung by `post`.

use super::{Session, TooMany};
use crate::attach::Share;
use longshore_ring::{Ringer, StrangersBell};
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Eventfds without a waiter that are kept, since a child may want one for a waiter of its
/// own that its parent has no more.
const KEPT: usize = 64;

/// One of them.
#[derive(Debug)]
struct Made {
    name: u32,
    bell: Arc<StrangersBell>,
    _share: Option<Share>,
}

/// Those of a session.
#[derive(Debug)]
pub(super) struct Bells {
    of_waiters: HashMap<u32, Arc<Made>>,
    /// The oldest first.
    all: VecDeque<Arc<Made>>,
    last_name: u32,
    waiters: u32,
    ringer: Arc<Ringer>,
}

impl Bells {
    pub(super) fn new(ringer: Arc<Ringer>, waiters: u32) -> Self {
        Self {
            of_waiters: HashMap::new(),
            all: VecDeque::new(),
            last_name: 0,
            waiters,
            ringer,
        }
    }

    /// Wakes whoever sleeps on the eventfd of a waiter. If it has none yet, it is rung when
    /// it gets one.
    pub(super) fn ring(&self, waiter: u32) {
        if let Some(made) = self.of_waiters.get(&waiter) {
            self.ringer.ring(&made.bell);
        }
    }

    pub(super) fn forget(&mut self, waiter: u32) {
        self.of_waiters.remove(&waiter);
    }

    /// Gives back those that no waiter has, when they are many.
    fn thin_out(&mut self) {
        let mut over = (self.all.len() + 1).saturating_sub(self.of_waiters.len() + KEPT);
        if over < KEPT {
            return;
        }
        self.all.retain(|made| {
            let goes = over != 0 && Arc::strong_count(made) == 1;
            over -= usize::from(goes);
            !goes
        });
    }
}

impl Session {
    /// Makes the eventfd of a waiter; its name, and the eventfd itself for the program.
    pub(crate) fn make_bell(&mut self, waiter: u32) -> Option<(u32, BorrowedFd<'_>)> {
        if waiter >= self.bells.waiters {
            self.bad_descriptors += 1;
            return None;
        }
        self.bells.thin_out();
        let share = match self.take_descriptors(1) {
            Ok(share) => share,
            Err(TooMany) => return None,
        };
        let bells = &mut self.bells;
        bells.last_name = bells.last_name.wrapping_add(1);
        let made = Arc::new(Made {
            name: bells.last_name,
            bell: Arc::new(StrangersBell::make().ok()?),
            _share: share,
        });
        bells.all.push_back(made.clone());
        // Nobody sleeps on it before the program has it: it is not rung for what is overdue.
        bells.of_waiters.insert(waiter, made);
        let made = bells.all.back()?;
        Some((made.name, made.bell.fd()))
    }

    /// Has another waiter woken by the eventfd of this name.
    pub(crate) fn share_bell(&mut self, waiter: u32, name: u32) {
        let made = self.bells.all.iter().find(|made| made.name == name);
        match made.filter(|_| waiter < self.bells.waiters) {
            Some(made) => {
                let made = made.clone();
                // Whoever was to be woken before this came looks now.
                self.bells.ringer.ring(&made.bell);
                self.bells.of_waiters.insert(waiter, made);
            }
            None => self.bad_descriptors += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::attach::Token;
    use longshore_hostif::{Arena, Geometry};
    use longshore_ring::Doorbell;

    fn session(waiters: u32) -> Session {
        let geometry = Geometry {
            channels: 64,
            waiters,
            sockets: 64,
            snd_chunks: 4,
            rcv_chunks: 4,
        };
        let arena = Arc::new(Arena::create(geometry).unwrap());
        let bell = Doorbell::new().unwrap();
        Session::new(Token([7; 16]), arena, bell, Arc::new(Ringer::for_one()))
    }

    #[test]
    fn a_program_that_asks_for_ever_has_few() {
        let mut session = session(8);
        for i in 0..10_000 {
            assert!(session.make_bell(i % 8).is_some());
            assert!(session.bells.all.len() <= 8 + 2 * KEPT);
        }
        assert!(session.make_bell(8).is_none(), "there is no such waiter");
        assert_eq!(session.bad_descriptors, 1);
    }

    #[test]
    fn a_child_has_its_parents_for_a_waiter_of_its_own() {
        let mut session = session(8);
        let (name, fd) = session.make_bell(1).unwrap();
        let fd = fd.try_clone_to_owned().unwrap();
        session.bells.forget(1);
        let counted = |fd: &std::os::fd::OwnedFd| {
            let mut count = [0; 8];
            rustix::io::read(fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        assert_eq!(counted(&fd), 0);
        session.bells.ring(1);
        assert_eq!(counted(&fd), 0);
        session.share_bell(5, name);
        assert_eq!(counted(&fd), 1);
        session.bells.ring(5);
        assert_eq!(counted(&fd), 1);
        session.share_bell(5, name + 1);
        assert_eq!(session.bad_descriptors, 1);
    }
}
