//! Bus and adapter models: what counted crossings would cost on a bus.
//!
//! What it owns: the cost of a transfer on a bus ([`Bus`], [`PciX`]), the sum of
//! such costs ([`Tally`]), and a conventional adapter, which moves frames
//! ([`ConventionalAdapter`]), to compare with the descriptors and payload that
//! Longshore moves. `measure` calls it. It knows nothing of packets but their
//! length.
//!
//! The model and its figures are those of Freimuth, Hu, LaVoie, Mraz, Nahum,
//! Pradhan and Tracey, "Server network scalability and TCP offload" (USENIX
//! 2005), sections 4.4 and 5.

mod conventional;
mod pcix;

pub use conventional::ConventionalAdapter;
pub use pcix::PciX;

/// What it takes to move contiguous bytes over a bus.
pub trait Bus {
    /// Bus cycles for one transfer of `bytes`.
    fn cycles(&self, bytes: u64) -> u64;

    /// Cycles for each second.
    fn frequency(&self) -> f64;

    /// The least and the most cycles that `transfers` of `bytes` in all can
    /// take, where only the sums are known.
    fn cycles_of_sums(&self, transfers: u64, bytes: u64) -> (u64, u64);
}

/// What moved over a bus in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Times the bus was asked for.
    pub transfers: u64,
    /// Cycles it was taken.
    pub cycles: u64,
    /// Bytes moved.
    pub bytes: u64,
}

impl Tally {
    /// Adds one transfer of `bytes` over `bus`.
    pub fn transfer(&mut self, bus: &impl Bus, bytes: u64) {
        self.transfers += 1;
        self.cycles += bus.cycles(bytes);
        self.bytes += bytes;
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.transfers += other.transfers;
        self.cycles += other.cycles;
        self.bytes += other.bytes;
    }

    /// How long the bus was taken, in seconds.
    #[must_use]
    pub fn seconds(&self, bus: &impl Bus) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let cycles = self.cycles as f64;
        cycles / bus.frequency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_the_sum_of_its_transfers() {
        let bus = PciX::default();
        let (mut all, mut some) = (Tally::default(), Tally::default());
        all.transfer(&bus, 16);
        some.transfer(&bus, 1514);
        all.add(&some);
        assert_eq!(
            all,
            Tally {
                transfers: 2,
                cycles: 6 + 194,
                bytes: 1530
            }
        );
        assert!((all.seconds(&bus) - 200.0 / 133e6).abs() < 1e-12);
    }
}
