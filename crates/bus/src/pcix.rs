//! PCI-X, the bus of the 2005 paper (Freimuth et al., section 4.4): 64 bits at 133 MHz, four
//! cycles to begin and end a transfer, and one for each eight bytes or part of them.

use crate::transfer::{Access, Bus, Cycles, Sums};

/// Cycles in which no data move: address, attributes, turn-around.
const SETUP: u64 = 4;
/// Bytes moved in each data phase of a 64-bit bus.
const WIDTH: u64 = 8;
/// What a read waits for beyond its own cycles, in ns: the time until the completer answers
/// a split transaction. The paper does not say; taken from the fixed part of a read on PCIe,
/// for it is spent in the host's bridge and memory.
const ANSWER_NS: f64 = 520.0;

/// PCI-X with 64 bits. Both directions share it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PciX {
    /// Its clock, in Hz.
    pub clock: f64,
}

impl Default for PciX {
    /// At 133 MHz.
    fn default() -> Self {
        PciX { clock: 133e6 }
    }
}

impl Bus for PciX {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        Cycles::of(access, SETUP + bytes.div_ceil(WIDTH), 0)
    }

    /// A data phase moves a word, so the sums say all.
    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        Cycles::of(access, SETUP * sums.accesses + sums.words, 0)
    }

    fn frequency(&self) -> f64 {
        self.clock
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        let Cycles {
            to_host,
            to_adapter,
        } = self.cycles(access, bytes);
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let cycles = (to_host + to_adapter) as f64;
        let moved = cycles / self.clock * 1e9;
        moved + if access.is_read() { ANSWER_NS } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_cycles_and_one_for_each_eight_bytes() {
        let bus = PciX::default();
        for (bytes, cycles) in [
            (0, 4),
            (1, 5),
            (8, 5),
            (9, 6),
            (16, 6),
            (66, 13),
            (74, 14),
            (104, 17),
            (1514, 194),
        ] {
            let taken = bus.cycles(Access::AdapterWrite, bytes);
            assert_eq!(
                (taken.to_host, taken.to_adapter),
                (cycles, 0),
                "{bytes} bytes"
            );
        }
    }

    #[test]
    fn a_write_takes_its_cycles_and_a_read_waits_for_the_answer() {
        let bus = PciX::default();
        let write = bus.latency_ns(Access::AdapterWrite, 16);
        assert!((write - 6.0 / 0.133).abs() < 0.01, "{write}");
        let read = bus.latency_ns(Access::AdapterRead, 16);
        assert!((read - write - ANSWER_NS).abs() < 0.01, "{read}");
    }
}
