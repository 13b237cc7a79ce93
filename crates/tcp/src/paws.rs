//! The lower bound for timestamps while segments are missing (RFC 7323 section 5.3).
//!
//! Owns [`PawsBound`], which is part of `reassembly.rs`; `input/checks.rs` uses it.

use crate::pos::Pos;

/// The lower bound for the timestamps of segments while some are missing, or less than a
/// window after a retransmission arrived (`docs/rfc.md`, D49). A retransmission,
/// necessary or not, advances TS.Recent past the timestamps of segments that were sent
/// before it and are delayed. PAWS would drop these as old duplicates, they would be
/// retransmitted, and their retransmission would have the same effect.
///
/// The bound follows TS.Recent at a distance of one to two windows. A duplicate from an
/// earlier wrap of the sequence numbers is older than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PawsBound {
    /// Missing segments were sent with this timestamp or a later one.
    bound: u32,
    /// The next bound, once everything up to `until` has arrived.
    next: u32,
    pub(crate) until: Pos,
}

impl PawsBound {
    /// The state before anything was missing.
    pub(crate) const fn new() -> PawsBound {
        PawsBound {
            bound: 0,
            next: 0,
            until: Pos::MIN / 2,
        }
    }

    pub(crate) const fn admits(&self, timestamp: u32) -> bool {
        timestamp.wrapping_sub(self.bound) as i32 >= 0
    }

    /// RCV.NXT has reached `rcv_nxt`, and the window reaches up to `edge`.
    pub(crate) fn follow(&mut self, ts_recent: u32, rcv_nxt: Pos, edge: Pos) {
        if rcv_nxt < self.until {
            return;
        }
        let long_ago = rcv_nxt - self.until > edge - rcv_nxt;
        self.bound = if long_ago { ts_recent } else { self.next };
        self.next = ts_recent;
        self.until = edge;
    }
}

#[cfg(test)]
mod tests;
