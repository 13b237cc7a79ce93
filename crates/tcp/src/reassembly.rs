//! What has arrived beyond RCV.NXT, and what the peer is told of it.
//!
//! Owns [`Reassembly`], which `tcb.rs` keeps. `input/data.rs` puts ranges in and takes
//! them out, `output/options.rs` makes SACK blocks of them. All of it may be forgotten:
//! the peer then sends again what was never acknowledged.

use crate::assembler::Assembler;
use crate::paws::PawsFloor;
use crate::rcv::ReceiveSide;
use crate::violation::{Violation, require};
use longshore_wire::SeqNumber;

/// Ranges out of order, and what is reported first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reassembly {
    /// Range to report first in the next SACK option (RFC 2883).
    pub(crate) duplicate: (SeqNumber, SeqNumber),
    /// The latest out-of-order arrivals, each in another range, the last one first
    /// (RFC 2018 section 4: they are reported in this order).
    pub(crate) recent: [SeqNumber; 3],
    /// What timestamps are held against while something is missing.
    pub(crate) floor: PawsFloor,
    pub(crate) ranges: Assembler,
}

impl Reassembly {
    /// Everything is in order.
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
