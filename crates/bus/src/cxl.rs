//! CXL.cache: an adapter that takes part in the host's cache coherence, on a link of PCIe
//! generation 5 with 16 lanes.
//!
//! Memory moves in lines of 64 bytes, and the side that writes a line must own it. Each message takes a
//! slot of 16 bytes; a line takes four and the one of its message; four slots travel in a flit
//! of 68 bytes. What each access sends (Compute Express Link Specification 2.0, sections
//! 3.2.4 and 4.2):
//!
//! | access | to the host | to the adapter |
//! | --- | --- | --- |
//! | the adapter reads a line | read request | the line |
//! | the adapter writes a line | ownership request; the line | ownership and pull |
//! | the host reads a line that the adapter owns | the line | snoop |
//! | the host writes a line that the adapter has | invalidated | snoop |
//!
//! In the last case the data cross when the adapter reads the line again: that is its read.
//! So a doorbell is a snoop, and no packet of its own.
//!
//! Latency: Wang et al., "Cohet" (arXiv 2511.23011), found a line by CXL.cache to take 68 %
//! less time than by DMA, on hardware. Of the 546 ns that pcie-bench measured for 64 bytes
//! this leaves 175. Schuh et al., "CC-NIC" (ASPLOS 2024), and Cock et al., "Enzian" (ASPLOS
//! 2022), show how adapters use such lines. A write that nobody waits for takes half.

use crate::transfer::{Access, Bus, Cycles, Sums};

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a slot, which holds a message.
const SLOT: u64 = 16;
/// Slots of a line with its message.
const LINE_SLOTS: u64 = 1 + LINE / SLOT;
/// Slots in a flit, and the flit's bytes: with its checksum and the protocol's number.
const FLIT_SLOTS: u64 = 4;
const FLIT: u64 = 68;
/// Nanoseconds until a line that the adapter asks for is there.
const LINE_NS: f64 = 0.32 * 546.0;
/// Bytes in each direction, each second: 16 lanes of 32 GT/s, 128 in 130 bits, less a skip
/// ordered set of 4 symbols in each 1,538.
const RATE: f64 = 32e9 * 16.0 / 8.0 * (128.0 / 130.0) * (1.0 - 4.0 / 1538.0);

/// A coherent link. A cycle is the time in which it moves one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cxl;

impl Cxl {
    /// Slots in the direction of the data and in the other one, for one line.
    fn slots(access: Access) -> (u64, u64) {
        match access {
            Access::AdapterRead | Access::HostRead => (LINE_SLOTS, 1),
            Access::AdapterWrite => (LINE_SLOTS + 1, 1),
            Access::HostWrite => (1, 1),
        }
    }

    fn of_lines(access: Access, lines: u64) -> Cycles {
        let (data, other) = Cxl::slots(access);
        let bytes = |slots: u64| (lines * slots * FLIT).div_ceil(FLIT_SLOTS);
        Cycles::of(access, bytes(data), bytes(other))
    }
}

impl Bus for Cxl {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        Cxl::of_lines(access, bytes.div_ceil(LINE).max(1))
    }

    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        let (transfers, lines) = (sums.accesses, sums.most_blocks(LINE / 8));
        // What is rounded for each transfer is less than a byte.
        let Cycles {
            to_host,
            to_adapter,
        } = Cxl::of_lines(access, lines);
        Cycles {
            to_host: to_host + transfers,
            to_adapter: to_adapter + transfers,
        }
    }

    fn frequency(&self) -> f64 {
        RATE
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        let first = if access.is_read() {
            LINE_NS
        } else {
            LINE_NS / 2.0
        };
        // The other lines follow the first.
        let others = bytes.div_ceil(LINE).saturating_sub(1);
        let Cycles {
            to_host,
            to_adapter,
        } = Cxl::of_lines(access, others);
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let behind = to_host.max(to_adapter) as f64 / RATE * 1e9;
        first + behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_in_slots_of_flits() {
        let read = Cxl.cycles(Access::AdapterRead, 64);
        assert_eq!((read.to_host, read.to_adapter), (17, 85));
        // 65 bytes are two lines, a doorbell two messages, and ownership comes before data.
        let read = Cxl.cycles(Access::AdapterRead, 65);
        assert_eq!((read.to_host, read.to_adapter), (34, 170));
        let doorbell = Cxl.cycles(Access::HostWrite, 4);
        assert_eq!((doorbell.to_host, doorbell.to_adapter), (17, 17));
        let write = Cxl.cycles(Access::AdapterWrite, 64);
        assert_eq!((write.to_host, write.to_adapter), (102, 17));
    }

    /// 64 bytes of 68 are slots, and a line needs five of them: 75 % of the link are data.
    #[test]
    fn three_quarters_of_the_link_are_data() {
        let many = Cxl.cycles(Access::AdapterRead, 1 << 20);
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = (1_u64 << 20) as f64 / many.to_adapter as f64;
        assert!((share - 64.0 / 85.0).abs() < 1e-6, "{share}");
    }

    #[test]
    fn a_line_takes_68_percent_less_than_by_dma() {
        let line = Cxl.latency_ns(Access::AdapterRead, 64);
        assert!((1.0 - line / 546.0 - 0.68).abs() < 1e-9, "{line}");
        assert!(Cxl.latency_ns(Access::AdapterRead, 128) > line);
        assert!(Cxl.latency_ns(Access::HostWrite, 4) < line);
    }
}
