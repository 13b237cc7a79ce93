//! Sockets in the order in which they were bound, of which the last is at hand.
//!
//! Owns [`InOrder`]. `class` has one of the sockets of a class that are not connected, `table` one of
//! those of a class that are connected to the same peer.

use std::collections::BTreeMap;

/// Keys of sockets, by the numbers that they were given when they were bound. What comes and goes
/// costs the logarithm of how many there are; one alone takes no memory beside.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    last: Option<Numbered>,
    others: BTreeMap<u64, u32>,
}

/// A socket's number and its key.
pub(super) type Numbered = (u64, u32);

impl InOrder {
    /// A socket has come that has this number, which no other here has.
    pub(super) fn insert(&mut self, number: u64, key: u32) {
        let new = (number, key);
        let before = match self.last {
            Some(last) if last.0 > number => Some(new),
            last => {
                self.last = Some(new);
                last
            }
        };
        self.others.extend(before);
    }

    /// The socket of this number has gone.
    pub(super) fn remove(&mut self, number: u64) {
        if self.last.is_some_and(|(last, _)| last == number) {
            self.last = self.others.pop_last();
        } else {
            self.others.remove(&number);
        }
    }

    /// The one with the highest number.
    #[inline]
    pub(super) fn last(&self) -> Option<Numbered> {
        self.last
    }

    /// The one with the highest number below this.
    pub(super) fn last_below(&self, number: u64) -> Option<Numbered> {
        let is_below = |last: &Numbered| last.0 < number;
        let below = || {
            let (number, key) = self.others.range(..number).next_back()?;
            Some((*number, *key))
        };
        self.last.filter(is_below).or_else(below)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}
