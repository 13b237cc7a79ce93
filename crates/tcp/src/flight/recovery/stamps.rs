//! The timestamps of retransmissions, on paths with delayed packets.
//!
//! A retransmission that fills a hole advances the receiver's TS.Recent (RFC 7323 section
//! 4.3) past the timestamps of everything sent before it. The receiver takes a delayed
//! packet with such a timestamp for an old duplicate and drops it (section 5.3, R1). It
//! is retransmitted, and its retransmission does the same to others, without end as long
//! as packets are delayed by as much as a retransmission takes. Therefore a
//! retransmission carries a timestamp as old as that of packets that may still be delayed
//! (`docs/rfc.md`, D52).
//!
//! Owns those methods of [`Recovery`]. `spurious.rs` calls them for each retransmission,
//! output for its header; code that reads echoes must ask whether an echo is usable.

use crate::flight::Recovery;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};

impl Recovery {
    /// How much older than its transmission the timestamp of a retransmission is,
    /// milliseconds: the known delay of packets (RACK.reo_wnd), which is at most the
    /// smoothed round-trip time.
    pub(super) fn timestamp_backdating(&self, snd: &SendSide) -> u32 {
        let rack = &self.rack;
        if !rack.reordering_seen {
            return 0;
        }
        (rack.window(false, &snd.rtt) / MS) as u32
    }

    /// The timestamp of data retransmitted now that was last sent `age` microseconds ago.
    /// It is more recent than that transmission (RFC 3522), and not older than that of an
    /// earlier retransmission, since the receiver's TS.Recent may have either. Data found
    /// lost by time is older than a round trip and the reordering window; data too long
    /// for the path need not be.
    pub(super) fn stamp_retransmission(
        &mut self,
        snd: &SendSide,
        stamps: &TimestampState,
        age: u64,
        now: Instant,
    ) -> u32 {
        let most = (age / (2 * MS)).min(u64::from(u32::MAX)) as u32;
        let timestamp_backdating = self.timestamp_backdating(snd).min(most);
        let stamp = stamps.clock(now).wrapping_sub(timestamp_backdating);
        // The last timestamp is between this one and now, or long ago.
        let last = self.last_stamp;
        if last.wrapping_sub(stamp) > timestamp_backdating {
            self.last_stamp = stamp;
        }
        self.last_stamp
    }

    /// Whether an echo may be that of a retransmission with an older timestamp, or older
    /// still: such an echo gives no round-trip sample (RFC 7323 section 4.1).
    pub(crate) fn may_be_backdated(&self, snd: &SendSide, echo: u32) -> bool {
        let since = self.last_stamp.wrapping_sub(echo) as i32;
        self.timestamp_backdating(snd) > 0 && since >= 0
    }
}

#[cfg(test)]
mod tests;
