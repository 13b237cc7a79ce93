//! Congestion state of a connection: window, window use, delivery rate and pacing.
//!
//! Owns [`CongestionState`], which is part of the `Tcb`. `inputs.rs` updates it for each
//! acknowledgment and send.

use super::pacing::Pacer;
use super::rate::RateSampler;
use super::{Controller, MAX_CWND};
use crate::pos::{Pos, SYN_POS};
use crate::violation::{Violation, require};

/// The controller, and the measurements that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CongestionState {
    pub(crate) controller: Controller,
    /// The largest flight while the data before `flight_until` was sent, bytes; only
    /// maintained in slow start.
    pub(super) most_flight: u32,
    /// The lower half of `bytes_retrans` at the last rate sample.
    pub(super) repeated_seen: u32,
    /// SND.NXT when the congestion window last limited sending.
    pub(super) full_at: Pos,
    /// See `most_flight`.
    pub(super) flight_until: Pos,
    pub(crate) pacer: Pacer,
    pub(crate) rate: RateSampler,
}

impl CongestionState {
    /// The initial state of a connection.
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

    /// The window limits sending, with SND.NXT at `nxt`.
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
