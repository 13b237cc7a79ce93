//! The meter: what crossed between host and adapter, by its class. Always on; the cost is an
//! addition or two for each crossing.
//!
//! The adapter's half counts, for it alone knows what it has fetched and put: nothing is taken
//! from what a program says that it did.

/// Moves of contiguous bytes, and how many these are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Moves.
    pub transfers: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Moved {
    /// Counts `transfers` more, of `bytes` in all.
    #[inline]
    pub fn count(&mut self, transfers: u64, bytes: u64) {
        self.transfers += transfers;
        self.bytes += bytes;
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        self.count(other.transfers, other.bytes);
    }

    /// Takes a count out of this one that was added to it before.
    pub fn take_out(&mut self, other: &Self) {
        self.transfers = self.transfers.saturating_sub(other.transfers);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    /// `bytes` of it, or all if it has fewer, with their share of the transfers: what remains
    /// without them has one at least, if it is anything.
    #[must_use]
    pub fn share(&self, bytes: u64) -> Self {
        if bytes >= self.bytes {
            return *self;
        }
        let transfers = u128::from(self.transfers) * u128::from(bytes) / u128::from(self.bytes);
        Self {
            transfers: transfers as u64,
            bytes,
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
    /// As moves of bytes.
    #[must_use]
    pub fn moved(&self) -> Moved {
        Moved {
            transfers: self.transfers,
            bytes: self.bytes,
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
    /// Counts payload moved in `pieces` of `bytes` in all.
    #[inline]
    pub fn payload(&mut self, pieces: u64, bytes: u64) {
        self.payload.count(pieces, bytes);
    }

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
        let moved = |transfers, bytes| Moved { transfers, bytes };
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
    fn all_moves_are_those_of_all_classes() {
        let mut c = Crossings::default();
        assert_eq!(c.moved(), Moved::default());
        (c.descriptors.transfers, c.descriptors.count) = (1, 3);
        c.descriptors.bytes = 300;
        c.descriptors.immediate = 100;
        c.payload(2, 5000);
        c.control.count(1, 8);
        c.wakeups = 7;
        let all = Moved {
            transfers: 4,
            bytes: 300 + 5008,
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
