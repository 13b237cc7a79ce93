//! Timestamps of a connection (RFC 7323): the peer's most recent one, and our clock.
//!
//! Owns [`TimestampState`], which is part of the `Tcb`; input takes TS.Recent from
//! segments, output writes both.

use crate::codec::saved_part;
use crate::time::Instant;

/// Both ends' timestamps. Unused unless they were negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TimestampState {
    /// When TS.Recent was set.
    recent_at: Instant,
    /// TS.Recent (RFC 7323 section 4.3).
    recent: u32,
    /// Offset of our timestamps from the clock.
    offset: u32,
    /// The last echo that gave a sample of the receiver's round-trip time.
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

    /// Offset of our timestamps from the clock.
    #[inline(always)]
    pub(crate) const fn offset(&self) -> u32 {
        self.offset
    }

    /// The last echo that gave a sample of the receiver's round-trip time.
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

    /// This echo has given a sample of the receiver's round-trip time.
    pub(crate) fn note_echo(&mut self, echo: u32) {
        self.echo = echo;
    }
}
