//! The meter: what crossed between host and adapter, by its class. Always on; the cost is an
//! addition or two for each crossing.
//!
//! The adapter's half counts, for it alone knows what it has fetched and put: nothing is taken
//! from what a program says that it did.

use crate::abi::CHUNK;

/// Moves of contiguous bytes, and how many these are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Moves.
    pub transfers: u64,
    /// Bytes.
    pub bytes: u64,
    /// Words of 8 bytes that they fill, the last one of each move perhaps in part: what a bus of
    /// 64 bits takes for the data.
    pub words: u64,
}

/// Words of 8 bytes that so many fill.
#[inline]
const fn words_of(bytes: u64) -> u64 {
    (bytes + 7) >> 3
}

/// Words that bytes fill from offset `at` of a stream on that go on in another chunk.
#[cold]
#[inline(never)]
fn words_of_several(at: u64, bytes: u64) -> u64 {
    // Chunks are whole words.
    let first = (CHUNK as u64 - at % CHUNK as u64).min(bytes);
    words_of(first) + words_of(bytes - first)
}

impl Moved {
    /// One move of `bytes`.
    #[inline]
    #[must_use]
    pub const fn one(bytes: u64) -> Self {
        Self {
            transfers: 1,
            bytes,
            words: words_of(bytes),
        }
    }

    /// So many moves of `bytes` each.
    #[inline]
    #[must_use]
    pub const fn equal(transfers: u64, bytes: u64) -> Self {
        Self {
            transfers,
            bytes: transfers * bytes,
            words: transfers * words_of(bytes),
        }
    }

    /// So many `bytes` of a stream, from offset `at` of it on, in `pieces` that each end where a
    /// chunk does, but for the last.
    #[inline(always)]
    #[must_use]
    pub fn of_stream(pieces: u64, at: u64, bytes: u64) -> Self {
        let words = match pieces {
            0 | 1 => words_of(bytes),
            _ => words_of_several(at, bytes),
        };
        Self {
            transfers: pieces,
            bytes,
            words,
        }
    }

    /// Adds another count to this one.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.words += other.words;
    }

    /// Takes a count out of this one that was added to it before.
    pub fn take_out(&mut self, other: &Self) {
        self.transfers = self.transfers.saturating_sub(other.transfers);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.words = self.words.saturating_sub(other.words);
    }

    /// `bytes` of it, or all if it has fewer, with their share of the transfers and words: what
    /// remains without them has one of each at least, if it is anything.
    #[must_use]
    pub fn share(&self, bytes: u64) -> Self {
        if bytes >= self.bytes {
            return *self;
        }
        let share = |all: u64| u128::from(all) * u128::from(bytes) / u128::from(self.bytes);
        Self {
            transfers: share(self.transfers) as u64,
            bytes,
            words: share(self.words) as u64,
        }
    }
}

/// Descriptors that crossed, and what is in their rings beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Moves: a batch is one, or two where it goes on at the ring's beginning.
    pub transfers: u64,
    /// Descriptors.
    pub count: u64,
    /// Bytes of them, with immediate data, and of the room between those of one move.
    pub bytes: u64,
    /// Bytes of payload among these.
    pub immediate: u64,
}

impl Descriptors {
    /// As moves of bytes. Each is of whole words: it ends with one of its last descriptor.
    #[must_use]
    pub fn moved(&self) -> Moved {
        Moved {
            transfers: self.transfers,
            bytes: self.bytes,
            words: words_of(self.bytes),
        }
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        self.transfers += other.transfers;
        self.count += other.count;
        self.bytes += other.bytes;
        self.immediate += other.immediate;
    }
}

/// What crossed in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Descriptors, with immediate data.
    pub descriptors: Descriptors,
    /// Payload that crossed apart from descriptors; each contiguous piece is a move.
    pub payload: Moved,
    /// Other words: of blocks, directories, mailboxes and the header.
    pub control: Moved,
    /// Times the other side was woken from its sleep: by the doorbell, if it is the adapter.
    pub wakeups: u64,
}

impl Crossings {
    /// All moves. Waking somebody moves nothing through the memory, and is not among them.
    #[must_use]
    pub fn moved(&self) -> Moved {
        let mut all = self.descriptors.moved();
        all.add(&self.payload);
        all.add(&self.control);
        all
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        self.descriptors.add(&other.descriptors);
        self.payload.add(&other.payload);
        self.control.add(&other.control);
        self.wakeups += other.wakeups;
    }
}

/// Both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    /// From the host to the adapter.
    pub to_adapter: Crossings,
    /// From the adapter to the host.
    pub to_host: Crossings,
}

impl Meter {
    /// Adds another meter to this one.
    pub fn add(&mut self, other: &Self) {
        self.to_adapter.add(&other.to_adapter);
        self.to_host.add(&other.to_host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_it_in_the_end() {
        let moved = |transfers, bytes| Moved {
            transfers,
            bytes,
            words: bytes,
        };
        assert_eq!(moved(10, 1000).share(99), moved(0, 99));
        assert_eq!(moved(10, 1000).share(550), moved(5, 550));
        assert_eq!(moved(10, 1000).share(1001), moved(10, 1000));
        for bytes in [0, 5] {
            assert_eq!(Moved::default().share(bytes), Moved::default());
        }
        let most = moved(u64::MAX, u64::MAX);
        assert_eq!(most.share(u64::MAX - 1), moved(u64::MAX - 1, u64::MAX - 1));
        let mut left = moved(7, 900);
        for bytes in [300, 1, 598] {
            let share = left.share(bytes);
            left.take_out(&share);
        }
        // One byte is a transfer.
        assert_eq!(left, moved(1, 1));
        let share = left.share(1);
        left.take_out(&share);
        assert_eq!(left, Moved::default());
    }

    #[test]
    fn words_are_counted_for_each_move_by_itself() {
        assert_eq!([0, 1, 8, 9].map(words_of), [0, 1, 1, 2]);
        assert_eq!(Moved::one(1460).words, 183);
        assert_eq!(Moved::equal(3, 12).words, 6);
        let chunk = CHUNK as u64;
        for (pieces, at, bytes) in [
            (1, 5, 100),
            (2, chunk - 5, 100),
            (3, 3, 2 * chunk),
            (3, 8 * chunk - 1, chunk + 2),
            (2, chunk, chunk + 1),
            (0, 7, 0),
        ] {
            let of_chunks = (at / chunk + 1..).map(|chunks| chunks * chunk);
            let ends = of_chunks.take_while(|end| *end < at + bytes);
            let (mut begin, mut cut) = (at, Moved::default());
            for end in ends.chain((bytes != 0).then_some(at + bytes)) {
                cut.add(&Moved::one(end - begin));
                begin = end;
            }
            assert_eq!(Moved::of_stream(pieces, at, bytes), cut, "{at} {bytes}");
        }
    }

    #[test]
    fn all_moves_are_those_of_all_classes() {
        let mut c = Crossings::default();
        assert_eq!(c.moved(), Moved::default());
        (c.descriptors.transfers, c.descriptors.count) = (1, 3);
        c.descriptors.bytes = 300;
        c.descriptors.immediate = 100;
        c.payload.add(&Moved::equal(2, 2500));
        c.control.add(&Moved::one(9));
        c.wakeups = 7;
        let all = Moved {
            transfers: 4,
            bytes: 300 + 5009,
            words: 38 + 2 * 313 + 2,
        };
        assert_eq!(c.moved(), all);
        let once = c;
        c.add(&once);
        assert_eq!((c.moved().transfers, c.moved().bytes), (8, 2 * all.bytes));
        assert_eq!((c.descriptors.immediate, c.wakeups), (200, 14));
    }

    #[test]
    fn each_direction_is_counted_by_itself() {
        let mut other = Meter::default();
        (other.to_adapter.wakeups, other.to_host.wakeups) = (2, 3);
        let mut meter = other;
        meter.add(&other);
        assert_eq!((meter.to_adapter.wakeups, meter.to_host.wakeups), (4, 6));
    }
}
