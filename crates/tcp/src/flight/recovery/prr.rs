//! Proportional rate reduction (RFC 9937, which replaces RFC 6937): the sending rate in
//! fast recovery.
//!
//! Owns [`Reduction`]. `recovery.rs` starts it, passes it what each acknowledgment
//! delivered and sets the congestion window accordingly; output reports what was sent.

use super::{Phase, Recovery};
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::snd::SendSide;

/// The counters of one recovery, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reduction {
    /// prr_delivered: bytes delivered since the recovery began.
    delivered: u32,
    /// prr_out: bytes sent since then.
    out: u32,
    /// RecoverFS: bytes that were still to be delivered when it began.
    flight: u32,
    /// DeliveredData and the increments for SafeACK, summed over the acknowledgments
    /// since the last send: the RFC's sender sends after each acknowledgment, ours after
    /// a burst of them.
    delivered_since_send: u32,
    safe_since_send: u32,
}

impl Reduction {
    pub(super) const fn new() -> Reduction {
        Reduction {
            delivered: 0,
            out: 0,
            flight: 1,
            delivered_since_send: 0,
            safe_since_send: 0,
        }
    }
}

impl Recovery {
    /// `bytes` were sent during recovery (prr_out).
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: u32) {
        if self.phase == Phase::Fast {
            let r = &mut self.reduction;
            r.out = r.out.saturating_add(bytes);
            (r.delivered_since_send, r.safe_since_send) = (0, 0);
        }
    }
}

impl Flight {
    /// A fast recovery begins with an acknowledgment that delivered this much. RFC 9937
    /// section 6: RecoverFS excludes data SACKed before that one, which will not be
    /// delivered again.
    pub(super) fn start_reduction(&mut self, snd: &SendSide, delivered: u32) {
        let rest = snd.in_flight() - self.scoreboard.sacked();
        let flight = rest + u64::from(delivered);
        self.recovery.reduction = Reduction {
            flight: flight.clamp(1, 1 << 30) as u32,
            ..Reduction::new()
        };
    }

    /// RFC 9937 section 6: the window is the data in the network plus what this
    /// acknowledgment permits. `safe` (SafeACK) permits, below the threshold, one segment
    /// more than was delivered.
    pub(super) fn reduce_proportionally(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        delivered: u32,
        safe: bool,
    ) {
        let pipe = self.pipe(snd).min(u64::from(u32::MAX)) as u32;
        let ssthresh = congestion.controller.ssthresh();
        let mss = u32::from(snd.mss());
        let forced = self.recovery.forced;
        let r = &mut self.recovery.reduction;
        r.delivered = r.delivered.saturating_add(delivered);
        r.delivered_since_send = r.delivered_since_send.saturating_add(delivered);
        if safe {
            r.safe_since_send = r.safe_since_send.saturating_add(mss);
        }
        let mut count = if pipe > ssthresh {
            let share = u64::from(r.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(r.flight)).min(1 << 30) as u32;
            share.saturating_sub(r.out)
        } else {
            let limit = r
                .delivered
                .saturating_sub(r.out)
                .max(r.delivered_since_send);
            limit.saturating_add(r.safe_since_send).min(ssthresh - pipe)
        };
        if forced {
            count = count.max(mss);
        }
        congestion.controller.set_cwnd(pipe.saturating_add(count));
    }
}

#[cfg(test)]
mod tests;
