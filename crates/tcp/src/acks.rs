//! The acknowledgments that are owed to the peer, beside what `flags.rs` says of them.
//!
//! Owns [`OwedAcks`], which `tcb.rs` keeps. `input/data.rs` decides when one is owed,
//! `output/` takes it off.

use crate::codec::saved_part;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::time::MS;
use crate::violation::{Violation, require};

/// How long an acknowledgment may wait (Linux's TCP_DELACK_MIN; RFC 9293 section
/// 3.8.6.3 allows 500 ms).
pub(crate) const DELAY_US: u64 = 40 * MS;

/// Duplicate acknowledgments in store for a peer without SACK.
const MAX_DUPLICATES: u8 = 8;

/// When acknowledgments go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct OwedAcks {
    /// Last.ACK.sent: RCV.NXT when we last sent an acknowledgment.
    last_sent: Pos,
    /// Estimate of the size of the peer's segments, bytes: every second full one is
    /// acknowledged.
    segment: u16,
    /// Acknowledgments still to be sent at once (Linux's quick mode).
    quick: u8,
    /// Duplicate acknowledgments owed to a peer without SACK.
    duplicates: u8,
}

saved_part!(OwedAcks {
    saved {
        last_sent, segment, quick, duplicates,
    }
});

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
    /// Last.ACK.sent.
    #[inline(always)]
    pub(crate) const fn last_sent(&self) -> Pos {
        self.last_sent
    }

    /// Estimate of the size of the peer's segments, bytes.
    #[inline(always)]
    pub(crate) const fn segment(&self) -> u16 {
        self.segment
    }

    /// Acknowledgments still to be sent at once.
    #[inline(always)]
    pub(crate) const fn quick(&self) -> u8 {
        self.quick
    }

    /// The peer's segments have this many bytes at least.
    pub(crate) fn raise_segment(&mut self, size: u16) {
        self.segment = self.segment.max(size);
    }

    /// So many acknowledgments at least go out at once.
    #[inline(always)]
    pub(crate) fn be_quick(&mut self, count: u8) {
        self.quick = self.quick.max(count);
    }

    /// Acknowledgments are delayed from now on.
    pub(crate) fn be_lazy(&mut self) {
        self.quick = 0;
    }

    /// A peer without SACK counts one more duplicate.
    pub(crate) fn owe_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1).min(MAX_DUPLICATES);
    }

    /// No duplicates are owed any more.
    pub(crate) fn forgive_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// An acknowledgment of everything before `nxt` goes out.
    #[inline(always)]
    pub(crate) fn sent(&mut self, nxt: Pos) {
        self.last_sent = nxt;
    }

    /// An acknowledgment that was owed goes out; says whether that was the last.
    #[inline(always)]
    pub(crate) fn pay(&mut self) -> bool {
        self.duplicates = self.duplicates.saturating_sub(1);
        self.duplicates == 0
    }

    /// Whatever goes out counts for the quick mode.
    #[inline(always)]
    pub(crate) fn count_quick(&mut self) {
        if self.quick != 0 {
            self.quick -= 1;
        }
    }
    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, rcv: &ReceiveSide) -> Result<(), Violation> {
        let came = self.last_sent <= rcv.nxt();
        require(came, "acknowledged what has not come")?;
        require(
            self.duplicates <= MAX_DUPLICATES,
            "more duplicates owed than are kept in store",
        )
    }
}
