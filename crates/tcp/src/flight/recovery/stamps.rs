//! The timestamps of repetitions, on paths where packets are late.
//!
//! A repetition that fills a hole takes the receiver's TS.Recent (RFC 7323 section 4.3)
//! past the timestamps of all that was sent before it. What of that is late, the receiver
//! takes for old duplicates and drops (section 5.3, R1); it is repeated, and its
//! repetition does the same to others, without an end as long as a packet is late in the
//! time that each takes to arrive. So a repetition says to be as old as what may still be
//! late (`docs/rfc.md`, D52).
//!
//! Owns those methods of [`Flight`]. `recovery.rs` calls them for each repetition, output for
//! its header, and whoever reads echoes has to ask what they tell.

use crate::flight::Flight;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};

impl Flight {
    /// How much older than it is a repetition says to be, milliseconds: as late as packets
    /// are known to be (RACK.reo_wnd), the smoothed round trip at most.
    pub(super) fn hold_back(&self, snd: &SendSide) -> u32 {
        let rack = &self.recovery.rack;
        if !rack.reordering_seen {
            return 0;
        }
        (rack.window(false, &snd.rtt) / MS) as u32
    }

    /// The timestamp of what is repeated now, `age` microseconds after it was sent last. It
    /// stays younger than that (RFC 3522), and not older than that of an earlier repetition:
    /// the receiver's TS.Recent may have either. What is found lost by time is older than a
    /// round trip and the reordering window, what was too long for the path need not be.
    pub(super) fn stamp_repetition(
        &mut self,
        snd: &SendSide,
        stamps: &TimestampState,
        age: u64,
        now: Instant,
    ) -> u32 {
        let most = (age / (2 * MS)).min(u64::from(u32::MAX)) as u32;
        let hold_back = self.hold_back(snd).min(most);
        let stamp = stamps.clock(now).wrapping_sub(hold_back);
        // The last one is between this and now, or long ago.
        let last = self.recovery.last_stamp;
        if last.wrapping_sub(stamp) > hold_back {
            self.recovery.last_stamp = stamp;
        }
        self.recovery.last_stamp
    }

    /// Whether an echo may be that of a repetition which says to be older than it is, or
    /// older still: it measures no round trip (RFC 7323 section 4.1).
    pub(crate) fn may_be_held_back(&self, snd: &SendSide, echo: u32) -> bool {
        let since = self.recovery.last_stamp.wrapping_sub(echo) as i32;
        self.hold_back(snd) > 0 && since >= 0
    }
}

#[cfg(test)]
mod tests;
