//! The timestamps of repetitions, on paths where packets are late.
//!
//! A repetition that fills a hole takes the receiver's TS.Recent (RFC 7323 section 4.3)
//! past the timestamps of all that was sent before it. What of that is late, the receiver
//! takes for old duplicates and drops (section 5.3, R1); it is repeated, and its
//! repetition does the same to others, without an end as long as a packet is late in the
//! time that each takes to arrive. So a repetition says to be as old as what may still be
//! late (`docs/rfc.md`, D52).
//!
//! Owns those methods of [`Tcb`]. `recovery.rs` calls them for each repetition, output for
//! its header, and whoever reads echoes has to ask what they tell.

use crate::tcb::Tcb;
use crate::time::{Instant, MS};

impl Tcb {
    /// How much older than it is a repetition says to be, milliseconds: as late as packets
    /// are known to be (RACK.reo_wnd), the smoothed round trip at most.
    pub(super) fn hold_back(&self) -> u32 {
        let rack = &self.flight.recovery.rack;
        if !rack.reordering_seen {
            return 0;
        }
        (rack.window(false, &self.rtt) / MS) as u32
    }

    /// The timestamp of what is repeated now, `age` microseconds after it was sent last. It
    /// stays younger than that (RFC 3522), and not older than that of an earlier repetition:
    /// the receiver's TS.Recent may have either. What is found lost by time is older than a
    /// round trip and the reordering window, what was too long for the path need not be.
    pub(super) fn stamp_repetition(&mut self, age: u64, now: Instant) -> u32 {
        let most = (age / (2 * MS)).min(u64::from(u32::MAX)) as u32;
        let hold_back = self.hold_back().min(most);
        let stamp = self.timestamp_clock(now).wrapping_sub(hold_back);
        // The last one is between this and now, or long ago.
        let last = self.flight.recovery.last_stamp;
        if last.wrapping_sub(stamp) > hold_back {
            self.flight.recovery.last_stamp = stamp;
        }
        self.flight.recovery.last_stamp
    }

    /// Whether an echo may be that of a repetition which says to be older than it is, or
    /// older still: it measures no round trip (RFC 7323 section 4.1).
    pub(crate) fn may_be_held_back(&self, echo: u32) -> bool {
        let since = self.flight.recovery.last_stamp.wrapping_sub(echo) as i32;
        self.hold_back() > 0 && since >= 0
    }
}

#[cfg(test)]
mod tests;
