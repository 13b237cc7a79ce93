//! What timestamps are held against while something is missing (RFC 7323 section 5.3).
//!
//! Owns [`PawsFloor`], which `reassembly.rs` keeps; `input/checks.rs` goes by it.

use crate::pos::Pos;

/// What timestamps of segments are held against while something is missing, or a
/// repetition came less than a window ago (`docs/rfc.md`, D49). A repetition, needed or
/// not, takes TS.Recent past the timestamps of what was sent before it and comes late:
/// that would be dropped as an old duplicate, repeated, and its repetition would do the
/// same to others.
///
/// It follows TS.Recent at a distance of one to two windows. A duplicate from a turn of
/// the sequence numbers ago is older than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PawsFloor {
    /// What is missing was sent with this timestamp or a later one.
    floor: u32,
    /// The next floor, once all is there up to `until`.
    next: u32,
    pub(crate) until: Pos,
}

impl PawsFloor {
    /// Nothing has been missing yet.
    pub(crate) const fn new() -> PawsFloor {
        PawsFloor {
            floor: 0,
            next: 0,
            until: Pos::MIN / 2,
        }
    }

    pub(crate) const fn admits(&self, timestamp: u32) -> bool {
        timestamp.wrapping_sub(self.floor) as i32 >= 0
    }

    /// RCV.NXT has come to `rcv_nxt`, and the window reaches up to `edge`.
    pub(crate) fn follow(&mut self, ts_recent: u32, rcv_nxt: Pos, edge: Pos) {
        if rcv_nxt < self.until {
            return;
        }
        let long_ago = rcv_nxt - self.until > edge - rcv_nxt;
        self.floor = if long_ago { ts_recent } else { self.next };
        self.next = ts_recent;
        self.until = edge;
    }
}
