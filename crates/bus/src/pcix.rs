//! PCI-X, the bus of the 2005 paper.

use crate::Bus;

/// Cycles before the first data phase: address, attributes, turn-around.
const SETUP: u64 = 4;
/// Bytes moved in each data phase of a 64-bit bus.
const WIDTH: u64 = 8;

/// PCI-X with 64 bits.
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
    fn cycles(&self, bytes: u64) -> u64 {
        SETUP + bytes.div_ceil(WIDTH)
    }

    fn frequency(&self) -> f64 {
        self.clock
    }

    fn cycles_of_sums(&self, transfers: u64, bytes: u64) -> (u64, u64) {
        // At best one transfer ends in a data phase that is not full, at worst
        // all of them do, with one byte in it.
        let setup = SETUP * transfers;
        let worst = (bytes + (WIDTH - 1) * transfers) / WIDTH;
        (setup + bytes.div_ceil(WIDTH), setup + worst)
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
            assert_eq!(bus.cycles(bytes), cycles, "{bytes} bytes");
        }
    }

    #[test]
    fn sums_bound_what_their_parts_take() {
        let bus = PciX::default();
        for parts in [
            &[][..],
            &[0],
            &[1],
            &[8],
            &[9, 17],
            &[1, 1, 1],
            &[74, 66, 16],
            &[4096, 7],
        ] {
            let exact: u64 = parts.iter().map(|p| bus.cycles(*p)).sum();
            let (least, most) = bus.cycles_of_sums(parts.len() as u64, parts.iter().sum());
            assert!(
                least <= exact && exact <= most,
                "{parts:?}: {least} {exact} {most}"
            );
        }
    }
}
