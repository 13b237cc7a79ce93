//! Pacing: spreading the segments of a window over the round trip.
//!
//! Owns [`Pacer`]: the rate, and when the next segment may be sent. `output/` consults it
//! before it selects data and reports what was sent; the deadline is one of `timers.rs`.
//! Pacing is on for an algorithm with a rate of its own (BBR) and for a connection whose
//! user set a limit (SO_MAX_PACING_RATE). When it is off, it costs nothing on the output
//! fast path, which `SLOW_OUTPUT` disables, and one comparison on the slow path.
//!
//! Data is sent in quanta of about a millisecond, as in Linux's TSO autosizing, so that a
//! slow connection sends a packet or two at a time and a fast one segments large enough
//! for the port's offloads. The engine's timers also have a resolution of a millisecond;
//! time lost to a late one is made up for.

use super::{CongestionState, Controller};
use crate::flags::Flags;
use crate::rtt::RttEstimator;
use crate::snd::SendSide;
use crate::time::{Instant, MS, SECOND};

/// A quantum is the data that the rate allows in this time, microseconds.
const QUANTUM_US: u64 = MS;
/// Unused time is made up for up to this limit, microseconds: a timer tick, and a late
/// turn of the loop.
const CREDIT_US: u64 = 2 * MS;
/// The minimum round-trip time is measured in units of this power of two of microseconds
/// when a batch is sized (Linux's tcp_tso_rtt_log).
const NEARNESS_SHIFT: u32 = 9;
/// The lowest pacing rate, bytes per second: two full packets within the longest
/// retransmission timeout.
const SLOWEST: u64 = 1_000;

/// The pacing state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pacer {
    /// When the next segment with data may be sent; 0 if not paced.
    next: Instant,
    /// Bytes per second; 0 if not paced.
    rate: u64,
    /// The user's limit, bytes per second; `u64::MAX` if there is none.
    limit: u64,
}

impl Pacer {
    pub(crate) const fn new() -> Pacer {
        Pacer {
            next: Instant(0),
            rate: 0,
            limit: u64::MAX,
        }
    }

    /// Whether data has to wait.
    #[inline]
    pub(crate) const fn must_wait(&self, now: Instant) -> bool {
        self.next.0 > now.0
    }

    /// Until when data has to wait.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Bytes per second, `None` if not paced.
    pub(crate) fn rate(&self) -> Option<u64> {
        (self.rate != 0).then_some(self.rate)
    }

    /// The user's limit, bytes per second; `u64::MAX` if there is none.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether the connection is paced.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.rate != 0
    }

    /// Bytes sent in one piece: what the rate allows in a millisecond, at least two
    /// packets.
    pub(crate) fn quantum(&self, mss: u16) -> usize {
        let bytes = self.rate.saturating_mul(QUANTUM_US) / SECOND;
        bytes.max(2 * u64::from(mss)).min(1 << 30) as usize
    }

    /// `bytes` were sent.
    fn on_sent(&mut self, bytes: u64, now: Instant) {
        let from = self.next.0.max(now.0.saturating_sub(CREDIT_US));
        let cost = bytes.saturating_mul(SECOND) / self.rate.max(1);
        self.next = Instant(from.saturating_add(cost));
    }

    /// Derives the rate from the window and the round-trip time, unless the algorithm has
    /// its own.
    fn set_rate(&mut self, congestion: &Controller, rtt: &RttEstimator) {
        let own = congestion.pacing_rate();
        if own.is_none() && self.limit == u64::MAX {
            self.rate = 0;
            self.next = Instant(0);
            return;
        }
        let rate = own.unwrap_or_else(|| window_rate(congestion, rtt));
        self.rate = rate.min(self.limit).max(SLOWEST);
    }
}

/// Twice the window per round trip in slow start, 1.2 times in congestion avoidance, as
/// Linux's tcp_pacing_ss_ratio and tcp_pacing_ca_ratio. Bytes per second.
fn window_rate(congestion: &Controller, rtt: &RttEstimator) -> u64 {
    let percent = if congestion.cwnd() < congestion.ssthresh() / 2 {
        200
    } else {
        120
    };
    match rtt.srtt() {
        Some(srtt) => u64::from(congestion.cwnd()) * percent * (SECOND / 100) / srtt.max(1),
        None => u64::MAX,
    }
}

impl CongestionState {
    /// The rate may have changed; `marks`: outgoing packets may be ECN-capable.
    pub(crate) fn update_pacing(&mut self, rtt: &RttEstimator, marks: bool, flags: &mut Flags) {
        self.pacer.set_rate(&self.controller, rtt);
        flags.set(Flags::SLOW_OUTPUT, self.pacer.is_on() || marks);
    }

    /// An acknowledgment was processed: the pacing rate, if there is one, may have changed.
    #[inline]
    pub(crate) fn follow_window(&mut self, rtt: &RttEstimator, marks: bool, flags: &mut Flags) {
        if self.pacer.is_on() {
            self.update_pacing(rtt, marks, flags);
        }
    }

    /// Sets the user's limit (SO_MAX_PACING_RATE), bytes per second.
    pub(crate) fn set_pacing_limit(&mut self, bytes_per_second: u64) {
        self.pacer.limit = bytes_per_second;
    }

    /// The largest payload of a segment, at most `most`: a quantum if paced, else a
    /// batch.
    #[inline]
    pub(crate) fn paced_payload(&self, snd: &SendSide, min_batch: u8, most: usize) -> usize {
        if self.pacer.is_on() {
            most.min(self.pacer.quantum(snd.mss()))
        } else {
            self.batch_payload(snd, min_batch, most)
        }
    }

    /// How much of `most` is passed to the port in one piece, as in Linux: on a long path
    /// what it carries in a millisecond, so that one burst does not fill a queue; on a
    /// short path nearly all; never more than half the window, so that the acknowledgment
    /// of one piece makes room while the other is in flight. `min_batch` is the minimum
    /// in packets, if half the window has room for them.
    #[inline]
    pub(crate) fn batch_payload(&self, snd: &SendSide, min_batch: u8, most: usize) -> usize {
        let least = usize::from(snd.mss()) * usize::from(min_batch.max(1));
        let available = (snd.edge() - snd.nxt()).max(0) as usize;
        if available.min(most) <= usize::from(snd.mss()) {
            return most;
        }
        let half = (self.controller.cwnd() / 2).max(u32::from(snd.mss())) as usize;
        // The shorter the path, the larger the batch: 64 KiB, halved for each half
        // millisecond.
        let for_nearness = match snd.rtt.min_rtt() {
            Some(rtt) if rtt >> NEARNESS_SHIFT < 17 => (1 << 16) >> (rtt >> NEARNESS_SHIFT),
            Some(_) => 0,
            None => most,
        };
        let mut limit = most.min(half);
        if for_nearness < limit {
            let rate = window_rate(&self.controller, &snd.rtt);
            let quantum = rate.saturating_mul(QUANTUM_US) / SECOND;
            let batch = for_nearness.saturating_add(quantum.min(1 << 30) as usize);
            limit = limit.min(batch.max(least));
        }
        if limit == most {
            return most;
        }
        let mss = usize::from(snd.mss());
        let limit = limit - limit % mss;
        // Where the windows have room for one packet more, two go with that: a packet alone does not
        // end the peer's wait for more to merge.
        let window = snd.wnd().min(self.controller.cwnd());
        let room = i64::from(window) - (snd.nxt() - snd.una());
        let room = room.max(0) as usize / mss;
        let packets = limit / mss;
        if packets > 2 && room.min(available / mss) == packets + 1 {
            return limit - mss;
        }
        limit
    }

    /// `bytes` of data were sent.
    pub(crate) fn pace(&mut self, bytes: u64, now: Instant) {
        if self.pacer.is_on() {
            self.pacer.on_sent(bytes, now);
        }
    }
}

#[cfg(test)]
mod tests;
