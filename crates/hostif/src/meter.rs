//! The meter: what crossed between host and adapter. Always on; the cost is
//! an addition or two for each crossing.

/// What crossed in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Moves of contiguous bytes: a published batch of descriptors is one, each
    /// piece of payload is one.
    pub transfers: u64,
    /// Bytes moved, descriptors included.
    pub bytes: u64,
    /// Descriptors.
    pub descriptors: u64,
    /// Times the other side was woken from its sleep.
    pub wakeups: u64,
}

impl Crossings {
    /// Counts a published batch of descriptors.
    #[inline]
    pub fn batch(&mut self, descriptors: u32) {
        if descriptors != 0 {
            self.transfers += 1;
            self.descriptors += u64::from(descriptors);
            self.bytes += u64::from(descriptors) * crate::DESCRIPTOR_BYTES as u64;
        }
    }

    /// Counts payload moved in `pieces` of `bytes` in all.
    #[inline]
    pub fn payload(&mut self, pieces: u64, bytes: u64) {
        self.transfers += pieces;
        self.bytes += bytes;
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.descriptors += other.descriptors;
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
    fn an_empty_batch_is_no_crossing() {
        let mut c = Crossings::default();
        c.batch(0);
        assert_eq!(c, Crossings::default());
        c.batch(3);
        c.payload(2, 5000);
        assert_eq!(
            c,
            Crossings {
                transfers: 3,
                bytes: 5192,
                descriptors: 3,
                wakeups: 0
            }
        );
    }
}
