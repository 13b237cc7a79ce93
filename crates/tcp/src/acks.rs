//! The acknowledgments that are owed to the peer, beside what `flags.rs` says of them.
//!
//! Owns [`OwedAcks`], which `tcb.rs` keeps. `input/data.rs` decides when one is owed,
//! `output/` takes it off.

use crate::tcb::Pos;

/// When acknowledgments go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct OwedAcks {
    /// Last.ACK.sent: RCV.NXT when we last sent an acknowledgment.
    pub(crate) last_sent: Pos,
    /// Estimate of the size of the peer's segments, bytes: every second full one is
    /// acknowledged.
    pub(crate) segment: u16,
    /// Acknowledgments still to be sent at once (Linux's quick mode).
    pub(crate) quick: u8,
    /// Duplicate acknowledgments owed to a peer without SACK.
    pub(crate) duplicates: u8,
}

impl OwedAcks {
    /// None are, to a peer whose segments are taken to have `segment` bytes.
    pub(crate) const fn new(segment: u16) -> OwedAcks {
        OwedAcks {
            last_sent: 0,
            segment,
            quick: 0,
            duplicates: 0,
        }
    }
}
