//! Proportional rate reduction (RFC 9937, which replaces RFC 6937): the sending rate in
//! fast recovery.
//!
//! Owns [`Reduction`]. `fast.rs` starts it, passes it what each acknowledgment
//! delivered and sets the congestion window accordingly; output reports what was sent.

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
    /// Before any recovery.
    pub(super) const fn new() -> Reduction {
        Reduction {
            delivered: 0,
            out: 0,
            flight: 1,
            delivered_since_send: 0,
            safe_since_send: 0,
        }
    }

    /// A recovery begins in which this much is to be delivered (RecoverFS). RFC 9937 section 6:
    /// that excludes data SACKed before the acknowledgment that began it, which will not be
    /// delivered again.
    pub(super) fn of(to_deliver: u64) -> Reduction {
        Reduction {
            flight: to_deliver.clamp(1, 1 << 30) as u32,
            ..Reduction::new()
        }
    }

    /// `bytes` were sent during the recovery (prr_out).
    #[inline]
    pub(super) fn count_sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
        (self.delivered_since_send, self.safe_since_send) = (0, 0);
    }

    /// RFC 9937 section 6: how much may be sent after an acknowledgment that delivered this
    /// much, with `pipe` in the network. `safe` is one segment for an acknowledgment that is
    /// safe (SafeACK) and 0 for another: below the threshold, that much more than was delivered
    /// may be sent.
    pub(super) fn permit(&mut self, pipe: u32, ssthresh: u32, delivered: u32, safe: u32) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        self.delivered_since_send = self.delivered_since_send.saturating_add(delivered);
        self.safe_since_send = self.safe_since_send.saturating_add(safe);
        if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.flight)).min(1 << 30) as u32;
            share.saturating_sub(self.out)
        } else {
            let limit = self
                .delivered
                .saturating_sub(self.out)
                .max(self.delivered_since_send);
            limit
                .saturating_add(self.safe_since_send)
                .min(ssthresh - pipe)
        }
    }
}

#[cfg(test)]
mod tests;
