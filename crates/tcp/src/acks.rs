//! The acknowledgments owed to the peer, beyond what `flags.rs` holds.
//!
//! Owns [`OwedAcks`], which is part of the `Tcb`, and when one is owed: `input/data.rs`
//! reports payload that has arrived, `output/segment.rs` an acknowledgment that is sent.

use crate::codec::saved_part;
use crate::config::Config;
use crate::flags::Flags;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::time::{Instant, MS};
use crate::timers::Timers;
use crate::violation::{Violation, require};

/// How long an acknowledgment may be delayed (Linux's TCP_DELACK_MIN; RFC 9293 section
/// 3.8.6.3 allows 500 ms).
pub(crate) const DELAY_US: u64 = 40 * MS;

/// Number of acknowledgments sent without delay at the start, so that the peer's slow
/// start is not slowed (as in Linux).
pub(crate) const MAX_QUICK_ACKS: u8 = 16;

/// Estimate of the peer's segment size before any data has arrived, bytes. The estimate
/// only grows, so it starts low in either version of IP: if it were too high, full
/// segments would be acknowledged too seldom.
pub(crate) const LEAST_RCV_MSS: u16 = 536;

/// The most duplicate acknowledgments that may be owed to a peer without SACK.
const MAX_DUPLICATES: u8 = 8;

/// State of delayed and duplicate acknowledgments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct OwedAcks {
    /// Last.ACK.sent: RCV.NXT when we last sent an acknowledgment.
    last_sent: Pos,
    /// Estimate of the peer's segment size, bytes: every second full segment is
    /// acknowledged.
    segment: u16,
    /// Number of acknowledgments still to be sent without delay (Linux's quick-ack mode).
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
    /// No acknowledgments are owed; the peer's segments are assumed to have `segment`
    /// bytes.
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

    /// Estimate of the peer's segment size, bytes.
    #[inline(always)]
    pub(crate) const fn segment(&self) -> u16 {
        self.segment
    }

    /// Number of acknowledgments still to be sent without delay.
    #[inline(always)]
    pub(crate) const fn quick(&self) -> u8 {
        self.quick
    }

    /// A segment shows that the peer sends segments of at least `size` bytes.
    pub(crate) fn raise_segment(&mut self, size: u16) {
        self.segment = self.segment.max(size);
    }

    /// At least the next `count` acknowledgments are sent without delay.
    #[inline(always)]
    pub(crate) fn start_quick_acks(&mut self, count: u8) {
        self.quick = self.quick.max(count);
    }

    /// Acknowledgments are delayed from now on.
    pub(crate) fn stop_quick_acks(&mut self) {
        self.quick = 0;
    }

    /// One more duplicate acknowledgment is owed to a peer without SACK.
    pub(crate) fn owe_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1).min(MAX_DUPLICATES);
    }

    /// An acknowledgment of everything before `nxt` is sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, nxt: Pos) {
        self.last_sent = nxt;
    }

    /// A duplicate acknowledgment is sent; returns whether it was the last one owed.
    #[inline(always)]
    pub(crate) fn take_duplicate(&mut self) -> bool {
        self.duplicates = self.duplicates.saturating_sub(1);
        self.duplicates == 0
    }

    /// Each acknowledgment sent counts against quick-ack mode.
    #[inline(always)]
    pub(crate) fn count_quick_ack(&mut self) {
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

    /// RFC 5681 section 4.2: an acknowledgment is sent at once if the segment fills a
    /// hole, in part or completely; else for every second full segment; else within the
    /// delay.
    #[inline(always)]
    pub(crate) fn owe_ack(
        &mut self,
        rcv: &ReceiveSide,
        timers: &mut Timers,
        cfg: &Config,
        flags: &mut Flags,
        fills: bool,
        now: Instant,
    ) {
        let unacked = rcv.nxt() - self.last_sent();
        let quick = cfg.delay.quickack || (self.quick() > 0 && !flags.contains(Flags::INTERACTIVE));
        *flags |= Flags::ACK_OWED;
        if fills || quick || unacked >= 2 * i64::from(self.segment()) {
            *flags |= Flags::ACK_NOW;
        } else if timers.ack.is_never() {
            timers.ack = now.after_us(DELAY_US);
        }
    }

    /// Estimates the peer's segment size, for "every second full segment". A merged
    /// segment has it in its GSO size; otherwise no packet is longer than we allow.
    #[inline(always)]
    pub(crate) fn estimate_rcv_mss(
        &mut self,
        rcv: &ReceiveSide,
        payload_len: u32,
        gso_size: impl FnOnce() -> u16,
    ) {
        if payload_len > u32::from(self.segment()) {
            self.raise_rcv_mss(rcv, payload_len, gso_size());
        }
    }

    #[cold]
    fn raise_rcv_mss(&mut self, rcv: &ReceiveSide, payload_len: u32, gso_size: u16) {
        let size = match gso_size {
            0 => payload_len,
            size => u32::from(size),
        };
        let most = u32::from(rcv.full_segment());
        self.raise_segment(size.min(most) as u16);
    }
}
