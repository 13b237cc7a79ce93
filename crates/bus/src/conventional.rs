//! An adapter as most are: the host does TCP/IP, the adapter moves frames.

use crate::{Bus, Tally};

/// Bytes of a descriptor in an E1000-like adapter's rings.
const DESCRIPTOR: u64 = 16;

/// Counts what an E1000-like adapter moves: each frame, and a descriptor for
/// each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConventionalAdapter {
    /// Adapter to host.
    pub received: Tally,
    /// Host to adapter.
    pub sent: Tally,
}

impl ConventionalAdapter {
    /// A frame of `bytes` arrives: it is one transfer, and the descriptor that
    /// announces it another.
    pub fn receive(&mut self, bus: &impl Bus, bytes: u64) {
        self.received.transfer(bus, bytes);
        self.received.transfer(bus, DESCRIPTOR);
    }

    /// A frame leaves that lies in `pieces` of the host's memory: the adapter
    /// fetches a descriptor for it, and each piece.
    pub fn send(&mut self, bus: &impl Bus, pieces: &[u64]) {
        self.sent.transfer(bus, DESCRIPTOR);
        for piece in pieces {
            self.sent.transfer(bus, *piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PciX;

    /// Table 4, "1 KB", "E1000", the three receive rows: SYN with options, four
    /// segments without data, and the request.
    #[test]
    fn receive_column_of_the_paper_for_1_kb() {
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::default();
        for frame in [74, 66, 66, 66, 66, 104] {
            adapter.receive(&bus, frame);
        }
        assert_eq!(
            adapter.received,
            Tally {
                transfers: 12,
                cycles: 119,
                bytes: 538
            }
        );
        assert_eq!(adapter.sent, Tally::default());
    }

    #[test]
    fn a_frame_in_pieces_is_a_transfer_for_each() {
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::default();
        adapter.send(&bus, &[66, 1024]);
        assert_eq!(
            adapter.sent,
            Tally {
                transfers: 3,
                cycles: 6 + 13 + 132,
                bytes: 1106
            }
        );
    }
}
