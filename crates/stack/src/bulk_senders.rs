//! What the send buffers of bulk senders on short paths may hold, so that all of them together
//! fit the caches.
//!
//! A program is quicker than the engine, so it keeps the buffer of each of its streams full, and
//! the engine comes to a byte when as many have been written as all these buffers hold. If that
//! is more than the caches hold, each byte comes from memory: with eight streams of 2 MiB each a byte
//! costs the engine 1.3 times as much as with eight of 768 KiB.
//!
//! Owns [`BulkSenders`], which counts them; `socket/buffers` asks it at each
//! acknowledgment. Which senders count is seen anew in each period, so that none has to be
//! taken off.

use longshore_tcp::Instant;

/// Bytes that the buffers of all of them may hold together.
const TOGETHER: u32 = 4 << 20;
/// And one of them at the most: what a program can write in one go while the engine, on another
/// processor, sends what was written before. With less, the two wait for each other: a file
/// of 1 GB on a path of 50 us took 0.45 s with half of this and 0.34 s with this; with twice as
/// much, it took 0.37 s.
const MOST: u32 = 2 << 20;
/// And at the least, however many there are.
const LEAST: u32 = 768 << 10;
/// A sender that holds no more than this is none of them.
const LITTLE: u64 = LEAST as u64 / 2;
/// The length of a period, in microseconds: some time slices of the scheduler.
const PERIOD: u64 = 16_384;

/// The period in which a connection was last seen to be one of them; as many periods later as
/// this counts, it is taken for the same, and its connection is not counted for once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u8);

impl Seen {
    pub(crate) const NEVER: Self = Self(0);

    fn at(period: u64) -> Self {
        Self((period % u64::from(u8::MAX)) as u8 + 1)
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct BulkSenders {
    period: u64,
    /// Those that have been seen in it, and in the one before.
    count: u32,
    before: u32,
}

impl BulkSenders {
    /// Whether a sender that holds so many bytes for its peer is one of them.
    #[inline]
    pub(crate) fn are_like(held: u64) -> bool {
        held > LITTLE
    }

    /// A connection on a short path holds so many bytes for its peer; the share of one of them.
    #[inline]
    pub(crate) fn note(&mut self, seen: &mut Seen, held: u64, now: Instant) -> u32 {
        let period = now.0 / PERIOD;
        if period != self.period {
            let follows = period == self.period + 1;
            self.before = if follows { self.count } else { 0 };
            (self.period, self.count) = (period, 0);
        }
        if Self::are_like(held) && *seen != Seen::at(period) {
            *seen = Seen::at(period);
            self.count += 1;
        }
        let count = self.count.max(self.before).max(1);
        (TOGETHER / count).clamp(LEAST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: u64 = LITTLE + 1;

    /// What the last of so many streams with so much in their buffers gets in a period.
    fn share(senders: &mut BulkSenders, streams: &mut [Seen], held: u64, period: u64) -> u32 {
        let now = Instant(period * PERIOD + 5);
        let shares = streams.iter_mut().map(|s| senders.note(s, held, now));
        shares.last().unwrap()
    }

    #[test]
    fn those_who_send_at_the_same_time_share() {
        let mut streams = [Seen::NEVER; 40];
        let mut senders = BulkSenders::default();
        assert_eq!(share(&mut senders, &mut streams[..1], MUCH, 7), MOST);
        assert_eq!(share(&mut senders, &mut streams[..2], MUCH, 8), MOST);
        for _ in 0..3 {
            let four = share(&mut senders, &mut streams[..4], MUCH, 9);
            assert_eq!(four, 1 << 20, "each counts once in a period");
        }
        assert_eq!(share(&mut senders, &mut streams, MUCH, 10), LEAST);
    }

    #[test]
    fn who_has_ceased_has_no_share() {
        let mut streams = [Seen::NEVER; 4];
        let mut senders = BulkSenders::default();
        share(&mut senders, &mut streams, MUCH, 1);
        let one = &mut streams[..1];
        assert_eq!(share(&mut senders, one, MUCH, 2), 1 << 20, "for a period");
        assert_eq!(share(&mut senders, one, MUCH, 3), MOST);
        // And the last one's count is not that of a period long ago.
        share(&mut senders, &mut streams, MUCH, 4);
        assert_eq!(share(&mut senders, &mut streams[..1], MUCH, 6), MOST);
    }

    #[test]
    fn who_holds_little_takes_nothing_from_others() {
        let mut streams = [Seen::NEVER; 40];
        let mut senders = BulkSenders::default();
        assert_eq!(share(&mut senders, &mut streams, LITTLE, 1), MOST);
    }
}
