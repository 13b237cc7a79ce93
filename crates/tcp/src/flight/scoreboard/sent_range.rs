//! A range of the send stream, its transmit times and its state.
//!
//! Owns [`SentRange`], its [`RangeState`], the short time [`Stamp`] and the
//! [`granularity`] within which sends share a range. The scoreboard stores ranges; RACK
//! decides on them.

use crate::pos::Pos;
use crate::time::Instant;

bitflags::bitflags! {
    /// The state of a range. Without `SACKED` and `LOST` it is in the network.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct RangeState: u8 {
        /// The peer has SACKed it.
        const SACKED = 1;
        /// It is considered lost, and has not been retransmitted since.
        const LOST = 1 << 1;
        /// It was sent more than once.
        const RETRANSMITTED = 1 << 2;
    }
}

/// A point in time in microseconds, as its low 32 bits: enough for differences among data
/// in flight (differences are signed, up to 35 minutes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) const fn new(at: Instant) -> Stamp {
        Stamp(at.0 as u32)
    }

    /// Microseconds from this time to `now`, 0 if `now` is earlier.
    pub(crate) const fn age(self, now: Instant) -> u64 {
        let age = (now.0 as u32).wrapping_sub(self.0) as i32;
        if age < 0 { 0 } else { age as u64 }
    }

    /// Microseconds from `earlier` to this time, negative if this time is before it.
    pub(crate) const fn since(self, earlier: Stamp) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// The time this many microseconds before.
    pub(super) fn before(self, micros: u16) -> Stamp {
        Stamp(self.0.wrapping_sub(u32::from(micros)))
    }

    /// The time this many microseconds after.
    pub(super) fn after(self, micros: u16) -> Stamp {
        Stamp(self.0.wrapping_add(u32::from(micros)))
    }

    /// Whether both are within one tick of `1 << granularity` microseconds.
    pub(super) fn is_same_tick(self, other: Stamp, granularity: u8) -> bool {
        (self.0 ^ other.0) >> granularity == 0
    }

    /// The earlier of the two.
    pub(super) fn earlier(self, other: Stamp) -> Stamp {
        if self.since(other) > 0 { other } else { self }
    }

    /// The later of the two.
    pub(super) fn later(self, other: Stamp) -> Stamp {
        if self.since(other) > 0 { self } else { other }
    }
}

/// A range of the send stream; SYN and FIN count as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentRange {
    pub(crate) start: Pos,
    pub(crate) end: Pos,
    /// When its first part was last sent.
    pub(crate) first: Stamp,
    /// When its last part was last sent.
    pub(crate) at: Stamp,
    pub(crate) state: RangeState,
}

impl SentRange {
    pub(crate) const fn len(&self) -> u64 {
        (self.end - self.start) as u64
    }

    /// Whether it is presumed to be in the network.
    pub(crate) fn in_network(&self) -> bool {
        !self
            .state
            .intersects(RangeState::SACKED.union(RangeState::LOST))
    }

    #[cfg(test)]
    pub(crate) fn is_lost(&self) -> bool {
        self.state.contains(RangeState::LOST)
    }

    pub(crate) fn is_sacked(&self) -> bool {
        self.state.contains(RangeState::SACKED)
    }

    pub(crate) fn was_retransmitted(&self) -> bool {
        self.state.contains(RangeState::RETRANSMITTED)
    }
}

/// The tick within which sends share a range, as a shift of microseconds: at most a
/// thirty-second of the round-trip time, so that the times that RACK compares are off by
/// at most an eighth of its reordering window.
pub(crate) const fn granularity(srtt_us: u64) -> u8 {
    // log2(srtt) - 5, from 1 us to 65 ms.
    let shift = ((srtt_us | 1).ilog2() as u8).saturating_sub(5);
    if shift > 16 { 16 } else { shift }
}
