//! Data beyond RCV.NXT, and its reports to the peer.
//!
//! Owns [`Reassembly`], which is part of the `Tcb`. `input/data.rs` inserts and removes
//! ranges, `output/options.rs` builds SACK blocks from them. All of this state may be
//! discarded: the peer then retransmits what was never acknowledged.

use crate::assembler::Assembler;
use crate::paws::PawsFloor;
use crate::rcv::ReceiveSide;
use crate::violation::{Violation, require};
use longshore_wire::SeqNumber;

/// Out-of-order ranges, and the order in which they are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reassembly {
    /// The duplicate to report first in the next SACK option (RFC 2883).
    pub(crate) duplicate: (SeqNumber, SeqNumber),
    /// The latest out-of-order arrivals, each in another range, the most recent first
    /// (RFC 2018 section 4: they are reported in this order).
    pub(crate) recent: [SeqNumber; 3],
    /// The lower bound for timestamps while segments are missing.
    pub(crate) floor: PawsFloor,
    pub(crate) ranges: Assembler,
}

impl Reassembly {
    /// All data has arrived in order.
    pub(crate) const fn new() -> Reassembly {
        Reassembly {
            duplicate: (SeqNumber(0), SeqNumber(0)),
            recent: [SeqNumber(0); 3],
            floor: PawsFloor::new(),
            ranges: Assembler::new(),
        }
    }
    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, rcv: &ReceiveSide) -> Result<(), Violation> {
        let mut below = rcv.nxt();
        for (start, end) in self.ranges.iter(rcv.nxt()) {
            require(start > below, "a range that is not beyond RCV.NXT")?;
            require(start < end, "a range with nothing in it")?;
            require(end <= rcv.adv(), "a range beyond the window")?;
            require(end <= rcv.fin(), "a range beyond the peer's FIN")?;
            below = end;
        }
        Ok(())
    }
}
