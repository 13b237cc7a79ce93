//! TIME-WAIT as a small record of its own.
//!
//! Owns [`TimeWait`]. After `Events::TIME_WAIT` the engine may put the record from
//! [`TimeWait::of`] into its table and drop the block; a block that is kept uses the same
//! code. The record is plain data, one cache line long.

use crate::flags::Flags;
use crate::output::plain_ack;
use crate::reset::sequence_len;
use crate::tcb::Tcb;
use crate::time::SECOND;
use crate::timers::TIME_WAIT_US;
use crate::{DropReason, Instant, Segment, Transmit};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

/// Minimum interval between acknowledgments of segments other than a FIN.
const ACK_INTERVAL_US: u64 = SECOND / 2;

/// A connection in TIME-WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWait {
    expires: Instant,
    last_ack: Instant,
    snd_nxt: u32,
    rcv_nxt: u32,
    ts_recent: u32,
    ts_offset: u32,
    window: u16,
    timestamps: bool,
}

/// The action that a segment requires.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum TimeWaitVerdict {
    /// Send nothing; count the drop.
    Drop(DropReason),
    /// Send this acknowledgment.
    Ack(Transmit),
    /// The SYN of a new incarnation: drop the record and pass the SYN to the listener.
    /// The new connection's ISS must be after `iss_after`, so that it cannot be mistaken
    /// for the old one.
    Reopen {
        /// The new ISS must be after this.
        iss_after: SeqNumber,
    },
    /// A reset: drop the record.
    Close,
}

impl TimeWait {
    /// The record that may replace a block in TIME-WAIT.
    #[must_use]
    pub fn of(tcb: &Tcb) -> TimeWait {
        TimeWait {
            expires: tcb.timers.state,
            last_ack: tcb.liveness.last_challenge(),
            snd_nxt: tcb.snd.seq(tcb.snd.nxt()).0,
            rcv_nxt: tcb.rcv.seq(tcb.rcv.nxt()).0,
            ts_recent: tcb.stamps.recent(),
            ts_offset: tcb.stamps.offset(),
            window: (tcb.rcv.offered() >> tcb.rcv.wscale()).min(0xffff) as u16,
            timestamps: tcb.flags.contains(Flags::TIMESTAMPS),
        }
    }

    /// When the record may be dropped.
    #[must_use]
    pub const fn expires(&self) -> Instant {
        self.expires
    }

    /// When the last acknowledgment was sent.
    pub(crate) const fn last_ack(&self) -> Instant {
        self.last_ack
    }

    /// Processes a segment of the connection.
    ///
    /// RFC 9293 section 3.10.7.4 for TIME-WAIT, with RFC 6191 for a new SYN and RFC
    /// 5961 for RST and other SYNs.
    pub fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> TimeWaitVerdict {
        let h = segment.header;
        let old_timestamp = match (self.timestamps, &h.options.timestamps) {
            (true, Some(ts)) => (ts.val.wrapping_sub(self.ts_recent) as i32) < 0,
            _ => false,
        };
        let ahead = h.seq.0.wrapping_sub(self.rcv_nxt) as i32;
        if h.flags.contains(TcpFlags::RST) {
            return if ahead == 0 && !old_timestamp {
                TimeWaitVerdict::Close
            } else {
                TimeWaitVerdict::Drop(DropReason::RstUnacceptable)
            };
        }
        let syn = h.flags.contains(TcpFlags::SYN);
        if syn && !h.flags.contains(TcpFlags::ACK) && !old_timestamp && self.is_newer(segment) {
            return TimeWaitVerdict::Reopen {
                iss_after: SeqNumber(self.snd_nxt.wrapping_add(65_535)),
            };
        }
        if !h.flags.contains(TcpFlags::ACK) && !syn {
            return TimeWaitVerdict::Drop(DropReason::NoAck);
        }
        let fin = h.flags.contains(TcpFlags::FIN);
        if ahead == 0 && sequence_len(segment) == 0 && !old_timestamp {
            return TimeWaitVerdict::Drop(DropReason::TimeWait);
        }
        if fin {
            // "The only thing that can arrive in this state is a retransmission of
            // the remote FIN. Acknowledge it, and restart the 2 MSL timeout."
            self.expires = now.after_us(TIME_WAIT_US);
        } else if now.since(self.last_ack) < ACK_INTERVAL_US {
            return TimeWaitVerdict::Drop(DropReason::TimeWait);
        }
        self.last_ack = now;
        TimeWaitVerdict::Ack(self.ack(now))
    }

    /// RFC 6191 section 2: a SYN belongs to a new incarnation if its timestamp is greater
    /// than the last one received, or, without timestamps on either side, if its sequence
    /// number is greater.
    fn is_newer(&self, segment: &Segment<'_>) -> bool {
        let h = segment.header;
        let newer_seq = (h.seq.0.wrapping_sub(self.rcv_nxt) as i32) > 0;
        match (self.timestamps, &h.options.timestamps) {
            (true, Some(ts)) => {
                (ts.val.wrapping_sub(self.ts_recent) as i32) > 0
                    || (ts.val == self.ts_recent && newer_seq)
            }
            _ => newer_seq,
        }
    }

    /// The acknowledgment of everything, as it was last sent.
    #[must_use]
    pub fn ack(&self, now: Instant) -> Transmit {
        let timestamps = self.timestamps.then(|| {
            let val = now.millis32().wrapping_add(self.ts_offset);
            (val, self.ts_recent)
        });
        plain_ack(
            SeqNumber(self.snd_nxt),
            SeqNumber(self.rcv_nxt),
            self.window,
            timestamps,
        )
    }
}

#[cfg(test)]
mod tests;
