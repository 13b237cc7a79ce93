//! Congestion control: how much may be in flight, and how fast it goes out.
//!
//! Owns [`Controller`], the window and threshold that every algorithm shares plus
//! the state of the chosen one, as plain data. `feed.rs` tells it what acknowledgments
//! bring, `recovery.rs` what was lost; `output/select.rs` reads the window. An
//! algorithm is one file with a type that implements [`Algorithm`] and [`Kind`], and a
//! line in `list.rs`; docs/extending.md shows one.
//!
//! | file | what |
//! | --- | --- |
//! | `newreno.rs` | RFC 5681, RFC 6582 |
//! | `cubic.rs` | RFC 9438 |
//! | `dctcp.rs` | RFC 8257 |
//! | `bbr.rs`, `bbr/` | BBR, draft-ietf-ccwg-bbr |
//! | `hystart.rs` | slow start of the first three (RFC 9406) |
//! | `list.rs` | all of them, and what they are called |
//! | `feed.rs` | from the connection to the controller |
//!
//! Everything is counted in bytes (RFC 3465), since one acknowledgment may cover 64
//! KiB.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod dctcp;
#[cfg(test)]
mod extending;
mod feed;
mod hystart;
mod list;
pub(crate) mod newreno;
mod pacing;
#[allow(
    clippy::indexing_slicing,
    reason = "a ring of fixed length, its indices are its own"
)]
mod rate;
mod state;

use crate::pos::Pos;
use crate::time::Instant;
use hystart::HyStart;
pub(crate) use list::Chosen;
pub use list::Congestion;
pub(crate) use rate::{Delivered, Rate, RateSample};
pub(crate) use state::CongestionState;

/// What an algorithm may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window, bytes.
    pub(crate) cwnd: u32,
    /// Slow start threshold, bytes; `u32::MAX` before the first loss.
    pub(crate) ssthresh: u32,
    /// Sender's MSS, bytes.
    pub(crate) mss: u32,
}

impl Window {
    /// The least threshold (RFC 5681 equation 4).
    pub(crate) const fn floor(&self) -> u32 {
        2 * self.mss
    }

    /// Whether the window grows by slow start.
    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The window grows by this much.
    pub(crate) fn grow(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(MAX_CWND);
    }
}

/// More than this is never in flight (the largest window of RFC 7323).
pub(crate) const MAX_CWND: u32 = 1 << 30;

/// An acknowledgment of new data, outside of fast recovery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    /// Bytes that it covers.
    pub(crate) acked: u32,
    /// SND.UNA after it, and SND.NXT.
    pub(crate) una: Pos,
    pub(crate) nxt: Pos,
    /// The round trip that it measured, microseconds; 0 if it measured none.
    pub(crate) rtt: u32,
    /// The smoothed round trip, microseconds; 0 if not known.
    pub(crate) srtt: u64,
    pub(crate) now: Instant,
}

/// What a congestion control algorithm is called, and what it goes by.
pub(crate) trait Kind: Algorithm {
    /// Its name for TCP_CONGESTION.
    const NAME: &'static str;
    /// It goes by rates of delivery ([`on_rate`](Algorithm::on_rate)): it sets the window
    /// by itself, in recovery too, and has a [pace](Algorithm::pacing_rate).
    const WANTS_RATES: bool = false;
    /// It goes by the share of bytes that met congestion
    /// ([`on_marks`](Algorithm::on_marks)): ECN is asked for in any mode, and each mark is
    /// told.
    const WANTS_MARKS: bool = false;

    /// For a new connection.
    fn new() -> Self;
}

/// One congestion control algorithm at work.
pub(crate) trait Algorithm {
    /// Congestion avoidance: bytes were acknowledged outside of fast recovery and
    /// beyond slow start, and the window was in use.
    fn on_ack(&mut self, w: &mut Window, ack: &Ack);
    /// Loss was found while `window` bytes were in use: the new threshold.
    fn on_loss(&mut self, w: &Window, window: u32) -> u32;
    /// The first mark of congestion in a round trip: the new threshold, which the
    /// window comes down to. RFC 3168 section 6.1.2: as for a loss.
    fn on_marked(&mut self, w: &Window, window: u32) -> u32 {
        self.on_loss(w, window)
    }
    /// The retransmission timer ran out; `on_loss` was called before if it was for
    /// the first time.
    fn on_timeout(&mut self) {}
    /// The sender had nothing to send for a while: what was learned of time is void.
    fn on_idle(&mut self) {}
    /// A repair begins that may prove needless: what is known now is what
    /// [`undo`](Algorithm::undo) brings back, however often `on_loss` and `on_timeout`
    /// are called meanwhile.
    fn remember(&mut self) {}
    /// What was repaired was no loss (RFC 4015); window and threshold are the caller's.
    fn undo(&mut self) {}
    /// `acked` bytes were acknowledged, `marked` of them with congestion experienced;
    /// always called, in recovery too, where the peer reports marks accurately
    /// enough for this algorithm.
    fn on_marks(&mut self, _acked: u32, _marked: u32, _una: Pos, _nxt: Pos) {}
    /// What one acknowledgment said of the rate of delivery; for algorithms that
    /// want rates, always, in recovery too.
    fn on_rate(&mut self, _w: &mut Window, _sample: &RateSample) {}
    /// The smoothed round trip is known, microseconds: the pace to begin with.
    fn init_pace(&mut self, _w: &Window, _srtt: u32) {}
    /// The rate at which it wants to send, bytes per second, if it has one of its own.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

/// The congestion state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    window: Window,
    /// Segments that the window begins with.
    initial_segments: u8,
    hystart: HyStart,
    chosen: Chosen,
}

impl Controller {
    /// For a new connection: RFC 6928 section 2 allows
    /// min (10 * MSS, max (2 * MSS, 14600)) at first; like Linux we go by the
    /// segments alone.
    pub(crate) fn new(which: Congestion, mss: u16, initial_segments: u8) -> Controller {
        let mss = u32::from(mss);
        Controller {
            window: Window {
                cwnd: mss * u32::from(initial_segments.max(1)),
                ssthresh: u32::MAX,
                mss,
            },
            initial_segments,
            hystart: HyStart::new(),
            chosen: Chosen::new(which),
        }
    }

    /// Goes on with window and threshold of a connection before, as far as they can be
    /// right.
    pub(crate) fn resume(&mut self, cwnd: u32, ssthresh: u32) {
        self.window.cwnd = cwnd.clamp(self.window.mss, MAX_CWND);
        self.window.ssthresh = ssthresh.max(self.window.floor());
    }

    /// RW of RFC 5681 section 4.1, bytes: what a sender may begin with after a silence.
    pub(crate) fn restart_window(&self) -> u32 {
        u32::from(self.initial_segments.max(1)) * self.window.mss
    }

    /// Bytes that may be in flight.
    pub(crate) const fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// The slow start threshold.
    pub(crate) const fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    /// Whether the window grows by slow start.
    pub(crate) const fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Which algorithm it is.
    pub(crate) const fn which(&self) -> Congestion {
        self.chosen.which()
    }

    /// See [`Kind::WANTS_RATES`].
    pub(crate) const fn wants_rates(&self) -> bool {
        self.which().wants_rates()
    }

    /// See [`Kind::WANTS_MARKS`].
    #[inline]
    pub(crate) const fn wants_marks(&self) -> bool {
        self.which().wants_marks()
    }

    /// The rate at which the algorithm wants to send, bytes per second, if it has one
    /// of its own.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        self.chosen.pacing_rate()
    }

    /// The pace to begin with, for an algorithm that has one, from the smoothed round
    /// trip in microseconds.
    pub(crate) fn init_pace(&mut self, srtt: Option<u64>) {
        if let Some(srtt) = srtt {
            let srtt = srtt.min(u64::from(u32::MAX)) as u32;
            self.chosen.algorithm().init_pace(&self.window, srtt);
        }
    }

    /// Changes the algorithm; window and threshold stay.
    pub(crate) fn choose(&mut self, which: Congestion) {
        if which != self.which() {
            self.chosen = Chosen::new(which);
        }
    }

    /// The MSS has changed: `cwnd` keeps its bytes, with at least one segment.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.window.mss = u32::from(mss);
        self.window.cwnd = self.window.cwnd.max(self.window.mss);
    }

    /// Sets the window, for recovery; at least one segment. An algorithm that goes by
    /// rates does that by itself.
    pub(crate) fn set_cwnd(&mut self, bytes: u32) {
        if !self.wants_rates() {
            self.window.cwnd = bytes.clamp(self.window.mss, MAX_CWND);
        }
    }

    /// Bytes were acknowledged outside of fast recovery, while the window was in use.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let mut ack = *ack;
        if self.wants_rates() {
            return;
        }
        if self.window.in_slow_start() {
            ack.acked = self.hystart.slow_start(&mut self.window, &ack);
            if ack.acked == 0 {
                return;
            }
        }
        self.chosen.algorithm().on_ack(&mut self.window, &ack);
    }

    /// What one acknowledgment said of the rate of delivery.
    pub(crate) fn on_rate(&mut self, sample: &RateSample) {
        self.chosen.algorithm().on_rate(&mut self.window, sample);
    }

    /// `acked` bytes were acknowledged, `marked` of them as having met congestion.
    pub(crate) fn on_marks(&mut self, acked: u32, marked: u32, una: Pos, nxt: Pos) {
        self.chosen.algorithm().on_marks(acked, marked, una, nxt);
    }

    /// Loss was found by duplicate acknowledgments while `window` bytes were in use: sets
    /// the threshold and leaves the window to the caller's recovery.
    pub(crate) fn on_loss(&mut self, window: u32) {
        let threshold = self.chosen.algorithm().on_loss(&self.window, window);
        self.window.ssthresh = threshold.max(self.window.floor());
    }

    /// The peer reports marks of congestion, and this is the first answer in a round
    /// trip: the window comes down as for a loss (RFC 3168 section 6.1.2), at once.
    pub(crate) fn on_congestion_marked(&mut self, window: u32) {
        let threshold = self.chosen.algorithm().on_marked(&self.window, window);
        self.window.ssthresh = threshold.max(self.window.floor());
        self.set_cwnd(self.window.cwnd.min(self.window.ssthresh));
    }

    /// The retransmission timer ran out for the first time in this flight, or
    /// again: RFC 5681 section 3.1 has the window come down to one segment, and the
    /// threshold lowered only the first time.
    pub(crate) fn on_timeout(&mut self, window: u32, first: bool) {
        if first {
            self.on_loss(window);
        }
        self.chosen.algorithm().on_timeout();
        self.window.cwnd = self.window.mss;
    }

    /// A repair begins that may have to be undone.
    pub(crate) fn remember(&mut self) {
        self.chosen.algorithm().remember();
    }

    /// The loss that was answered was none: window and threshold are at least what
    /// they were before (RFC 4015 section 3.2, RFC 9438 section 4.9).
    pub(crate) fn undo(&mut self, cwnd: u32, ssthresh: u32) {
        self.window.cwnd = self.window.cwnd.max(cwnd).min(MAX_CWND);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.chosen.algorithm().undo();
    }

    /// RFC 5681 section 4.1: after an idle time of an RTO or more, start again from
    /// the restart window. An algorithm that is paced by what it knows of the path
    /// needs no restart (draft-ietf-ccwg-bbr section 5.4.1).
    pub(crate) fn on_idle(&mut self) {
        let restart_window = self.restart_window();
        self.chosen.algorithm().on_idle();
        if !self.wants_rates() {
            self.window.cwnd = self.window.cwnd.min(restart_window).max(self.window.mss);
        }
    }
}

#[cfg(test)]
mod tests;
