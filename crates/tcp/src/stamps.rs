//! Timestamps of a connection (RFC 7323): what the peer's last one was, and our clock.
//!
//! Owns [`TimestampState`], which `tcb.rs` keeps; input takes TS.Recent from segments,
//! output writes both.

use crate::codec::saved_part;
use crate::time::Instant;

/// Both ends' timestamps. Without meaning unless they were agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TimestampState {
    /// When TS.Recent was set.
    recent_at: Instant,
    /// TS.Recent (RFC 7323 section 4.3).
    recent: u32,
    /// Added to the clock for our timestamps.
    offset: u32,
    /// The echo that last told of the receiver's round trip.
    echo: u32,
}

saved_part!(TimestampState {
    saved {
        recent_at, recent, offset, echo,
    }
});

impl TimestampState {
    pub(crate) const fn new(offset: u32, now: Instant) -> TimestampState {
        TimestampState {
            recent_at: now,
            recent: 0,
            offset,
            echo: 0,
        }
    }

    /// The timestamp clock (RFC 7323 section 5.4).
    #[inline(always)]
    pub(crate) const fn clock(&self, now: Instant) -> u32 {
        now.millis32().wrapping_add(self.offset)
    }
    /// TS.Recent.
    #[inline(always)]
    pub(crate) const fn recent(&self) -> u32 {
        self.recent
    }

    /// When TS.Recent was set.
    #[inline(always)]
    pub(crate) const fn recent_at(&self) -> Instant {
        self.recent_at
    }

    /// What is added to the clock for our timestamps.
    #[inline(always)]
    pub(crate) const fn offset(&self) -> u32 {
        self.offset
    }

    /// The echo that last told of the receiver's round trip.
    #[inline(always)]
    pub(crate) const fn echo(&self) -> u32 {
        self.echo
    }

    /// TS.Recent <- SEG.TSval.
    #[inline(always)]
    pub(crate) fn take(&mut self, val: u32, now: Instant) {
        self.recent = val;
        self.recent_at = now;
    }

    /// This echo has told of the receiver's round trip.
    pub(crate) fn note_echo(&mut self, echo: u32) {
        self.echo = echo;
    }
}
