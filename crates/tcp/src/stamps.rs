//! Timestamps of a connection (RFC 7323): the peer's most recent one, and our clock.
//!
//! Owns [`TimestampState`], which is part of the `Tcb`; input takes TS.Recent from
//! segments, output writes both.

use crate::codec::saved_part;
use crate::flags::Flags;
use crate::rcv::ReceiveSide;
use crate::rtt::RttEstimator;
use crate::time::{Instant, MS};
use longshore_wire::tcp::Timestamps;

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

    /// Samples the receiver's round-trip time, for buffer tuning, from the echo of our
    /// timestamps; `segment` is the size of the peer's segments.
    #[inline(always)]
    pub(crate) fn sample_receiver_rtt(
        &mut self,
        rcv: &mut ReceiveSide,
        rtt: &RttEstimator,
        segment: u16,
        (payload_len, echo): (u32, u32),
        now: Instant,
    ) {
        // Only the first segment that echoes a timestamp gives a round-trip time; later
        // ones add the time in which the peer sent them.
        let tells =
            echo != self.echo() && payload_len >= u32::from(segment) && !rcv.buffer.is_fixed();
        if tells {
            self.on_new_echo(rcv, rtt, echo, now);
        }
    }

    /// Kept out of line, as it is rarely called: once per tick of the peer's clock.
    #[inline(never)]
    fn on_new_echo(&mut self, rcv: &mut ReceiveSide, rtt: &RttEstimator, echo: u32, now: Instant) {
        self.note_echo(echo);
        let elapsed = self.clock(now).wrapping_sub(echo);
        if elapsed < 10_000 {
            // The clock ticks in milliseconds; the handshake was measured more precisely.
            let micros = (u64::from(elapsed) * MS).max(rtt.min_rtt_or(MS).min(MS));
            rcv.buffer.sample_rtt(micros);
        }
    }

    /// The timestamps option, if negotiated.
    #[inline]
    pub(crate) fn timestamps(&self, flags: Flags, now: Instant) -> Option<Timestamps> {
        flags
            .contains(Flags::TIMESTAMPS)
            .then(|| self.timestamps_if_agreed(now))
    }

    /// The contents of the timestamps option; meaningless if it was not negotiated.
    #[inline(always)]
    pub(crate) fn timestamps_if_agreed(&self, now: Instant) -> Timestamps {
        Timestamps {
            val: self.clock(now),
            echo: self.recent(),
        }
    }
}
