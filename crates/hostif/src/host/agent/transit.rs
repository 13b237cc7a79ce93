//! Sockets whose descriptors are in messages that nobody has received yet.

use std::collections::HashMap;

/// How long a socket that no process holds stays open because its descriptor is
/// in a message that nobody has received yet, in microseconds. The message may
/// never be: that cannot be known here.
pub(super) const LONGEST: u64 = 60_000_000;

/// How often they are looked at, in microseconds.
pub(super) const EVERY: u64 = 100_000;

/// Sockets that may be on their way at once, in one session.
pub(super) const MOST: usize = 4096;

/// A socket in a message, held by no process.
#[derive(Debug, Clone, Copy)]
struct Transit {
    index: u32,
    /// Microseconds.
    since: u64,
}

/// The sockets of a session that no process holds, and that are on their way to one, by the
/// engine's keys.
#[derive(Debug, Default)]
pub struct InTransit {
    all: HashMap<u32, Transit>,
    /// When they are looked at again, microseconds.
    look_at: u64,
    /// Those that were not kept: there were too many.
    overflows: u64,
}

/// A socket that was on its way for too long.
pub type Lost = u32;

impl InTransit {
    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those that were not kept, as there were too many.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Notes that the socket of this key and block is on its way since `now` (microseconds),
    /// if it is not known yet. Says whether it is kept.
    pub fn note(&mut self, key: u32, index: u32, now: u64) -> bool {
        if self.all.len() >= MOST && !self.all.contains_key(&key) {
            self.overflows += 1;
            return false;
        }
        let since = now;
        self.all.entry(key).or_insert(Transit { index, since });
        true
    }

    /// The keys of those that were on their way for too long, by `now` (microseconds).
    /// `has_arrived` says of a key and a block whether some process holds it, or it is no
    /// socket any more.
    pub fn take_lost(&mut self, now: u64, has_arrived: impl Fn(u32, u32) -> bool) -> Vec<Lost> {
        let mut lost = Vec::new();
        if now < self.look_at {
            return lost;
        }
        self.look_at = now + EVERY;
        self.all.retain(|key, t| {
            let arrived = has_arrived(*key, t.index);
            let too_long = now.saturating_sub(t.since) >= LONGEST;
            if too_long && !arrived {
                lost.push(*key);
            }
            !arrived && !too_long
        });
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are too many for it, and nothing is unsafe")]
    fn a_session_that_sends_all_its_sockets_away_keeps_some() {
        let mut transit = InTransit::default();
        for key in 0..2 * MOST as u32 {
            transit.note(key, 5, 0);
        }
        assert_eq!(transit.all.len(), MOST);
        assert_eq!(transit.overflows(), MOST as u64);
    }

    #[test]
    fn a_socket_is_lost_after_a_while_and_not_once_it_has_arrived() {
        let mut transit = InTransit::default();
        assert!(transit.note(77, 5, 1000) && transit.note(78, 6, 1000));
        let late = 1000 + LONGEST;
        let arrived = |key, index| (key, index) == (78, 6);
        assert!(transit.take_lost(late - EVERY, arrived).is_empty());
        assert!(!transit.is_empty());
        assert!(
            transit.take_lost(late - EVERY + 1, arrived).is_empty(),
            "not yet"
        );
        assert_eq!(transit.take_lost(late, arrived), [77]);
        assert!(transit.is_empty());
    }

    /// Not at each turn, and from then on when they were looked at.
    #[test]
    fn they_are_looked_at_now_and_then() {
        use std::cell::Cell;
        let mut transit = InTransit::default();
        transit.note(77, 5, 0);
        let looks = Cell::new(0);
        let mut look = |now| {
            let arrived = |_, _| {
                looks.set(looks.get() + 1);
                false
            };
            assert!(transit.take_lost(now, arrived).is_empty());
            looks.get()
        };
        let first = EVERY;
        assert_eq!(
            (look(first), look(first + 1), look(first + EVERY - 1)),
            (1, 1, 1)
        );
        assert_eq!((look(first + EVERY), look(first + EVERY + 1)), (2, 2));
        assert_eq!(look(first + 3 * EVERY), 3);
    }
}
