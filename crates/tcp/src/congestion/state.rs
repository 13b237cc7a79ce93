//! Congestion control of a connection: the window, whether it is in use, rate and pace.
//!
//! Owns [`CongestionState`], which `tcb.rs` keeps. `feed.rs` tells it of acknowledgments
//! and sends.

use super::pacing::Pacer;
use super::rate::RateSampler;
use super::{Controller, MAX_CWND};
use crate::pos::{Pos, SYN_POS};
use crate::violation::{Violation, require};

/// The controller and what it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CongestionState {
    pub(crate) controller: Controller,
    /// The most that was in flight while what lies before `flight_until` was sent,
    /// bytes; only kept in slow start.
    pub(super) most_flight: u32,
    /// `bytes_retrans` when the rate was last sampled, its lower half.
    pub(super) repeated_seen: u32,
    /// SND.NXT when the congestion window last held something back.
    pub(super) full_at: Pos,
    /// See `most_flight`.
    pub(super) flight_until: Pos,
    pub(crate) pacer: Pacer,
    pub(crate) rate: RateSampler,
}

impl CongestionState {
    /// Nothing has been sent.
    pub(crate) const fn new(controller: Controller) -> CongestionState {
        CongestionState {
            controller,
            most_flight: 0,
            repeated_seen: 0,
            full_at: SYN_POS,
            flight_until: 0,
            pacer: Pacer::new(),
            rate: RateSampler::new(),
        }
    }
    /// The window holds something back, with SND.NXT at `nxt`.
    #[inline(always)]
    pub(crate) fn note_full(&mut self, nxt: Pos) {
        self.full_at = nxt;
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let (cwnd, ssthresh) = (self.controller.cwnd(), self.controller.ssthresh());
        require(cwnd != 0, "no congestion window")?;
        require(cwnd <= MAX_CWND, "a congestion window beyond the largest")?;
        require(ssthresh != 0, "no slow start threshold")
    }
}
