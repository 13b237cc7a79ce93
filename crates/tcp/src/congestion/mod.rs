//! Congestion control: how much may be in flight, and at what rate it is sent.
//!
//! Owns [`Controller`]: the window and threshold that every algorithm shares plus the
//! state of the chosen algorithm, as plain data. `inputs.rs` passes it acknowledgments,
//! `recovery.rs` reports losses, and `output/select.rs` reads the window. An algorithm is
//! one file with a type that implements [`Algorithm`] and [`Kind`], and a line in
//! `list.rs`; docs/extending.md shows an example.
//!
//! | file | contents |
//! | --- | --- |
//! | `newreno.rs` | RFC 5681, RFC 6582 |
//! | `cubic.rs` | RFC 9438 |
//! | `dctcp.rs` | RFC 8257 |
//! | `bbr.rs`, `bbr/` | BBR, draft-ietf-ccwg-bbr |
//! | `hystart.rs` | slow start of the first three (RFC 9406) |
//! | `list.rs` | the list of all algorithms and their names |
//! | `inputs.rs` | translates a connection's events for the controller |
//!
//! All quantities are in bytes (RFC 3465), since one acknowledgment may cover 64 KiB.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod dctcp;
#[cfg(test)]
mod extending;
mod hystart;
mod inputs;
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

/// The part of the state that an algorithm may change.
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
    /// The lower bound of ssthresh (RFC 5681 equation 4).
    pub(crate) const fn min_ssthresh(&self) -> u32 {
        2 * self.mss
    }

    /// Whether the window grows by slow start.
    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Increases the window by `bytes`.
    pub(crate) fn grow(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(MAX_CWND);
    }
}

/// Upper bound of the congestion window, bytes (the largest window of RFC 7323).
pub(crate) const MAX_CWND: u32 = 1 << 30;

/// An acknowledgment of new data, outside of fast recovery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    /// Bytes that it newly acknowledges.
    pub(crate) acked: u32,
    /// SND.UNA after this acknowledgment, and SND.NXT.
    pub(crate) una: Pos,
    pub(crate) nxt: Pos,
    /// The round-trip sample that it gave, microseconds; 0 if none.
    pub(crate) rtt: u32,
    /// The smoothed round-trip time, microseconds; 0 if not known.
    pub(crate) srtt: u64,
    pub(crate) now: Instant,
}

/// The name of a congestion control algorithm, and the inputs that it needs.
pub(crate) trait Kind: Algorithm {
    /// Its name for TCP_CONGESTION.
    const NAME: &'static str;
    /// The algorithm uses delivery rates ([`on_rate`](Algorithm::on_rate)): it sets the
    /// window itself, also in recovery, and has its own [pacing
    /// rate](Algorithm::pacing_rate).
    const WANTS_RATES: bool = false;
    /// The algorithm uses the share of CE-marked bytes
    /// ([`on_marks`](Algorithm::on_marks)): ECN is requested in any mode, and every mark
    /// is reported to it.
    const WANTS_MARKS: bool = false;

    /// The state for a new connection.
    fn new() -> Self;
}

/// The event handlers of a congestion control algorithm.
pub(crate) trait Algorithm {
    /// Congestion avoidance: bytes were acknowledged outside of fast recovery and beyond
    /// slow start, and the window was in use.
    fn on_ack(&mut self, w: &mut Window, ack: &Ack);
    /// Loss was detected while `window` bytes were in use; returns the new threshold.
    fn on_loss(&mut self, w: &Window, window: u32) -> u32;
    /// The first congestion mark in a round trip; returns the new threshold, to which the
    /// window is reduced. RFC 3168 section 6.1.2: as for a loss.
    fn on_marked(&mut self, w: &Window, window: u32) -> u32 {
        self.on_loss(w, window)
    }

    /// The retransmission timer expired; if this was the first time, `on_loss` was called
    /// before.
    fn on_timeout(&mut self) {}
    /// The sender was idle for a while: state that depends on time is no longer valid.
    fn on_idle(&mut self) {}
    /// A recovery begins that may turn out to be spurious: saves the state that
    /// [`undo`](Algorithm::undo) restores, however often `on_loss` and `on_timeout` are
    /// called in between.
    fn save_for_undo(&mut self) {}
    /// The recovery was spurious (RFC 4015); the caller restores window and threshold.
    fn undo(&mut self) {}
    /// `acked` bytes were acknowledged, `marked` of them with CE. Called for every
    /// acknowledgment, also in recovery, if the peer's feedback is accurate enough for
    /// this algorithm.
    fn on_marks(&mut self, _acked: u32, _marked: u32, _una: Pos, _nxt: Pos) {}
    /// The rate sample of one acknowledgment. Called for every acknowledgment, also in
    /// recovery, if the algorithm wants rates.
    fn on_rate(&mut self, _w: &mut Window, _sample: &RateSample) {}
    /// The smoothed round-trip time, in microseconds, is known: sets the initial pacing
    /// rate.
    fn init_pace(&mut self, _w: &Window, _srtt: u32) {}
    /// The algorithm's own pacing rate, bytes per second, if it has one.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

/// The congestion state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    window: Window,
    /// The initial window in segments.
    initial_segments: u8,
    hystart: HyStart,
    chosen: Chosen,
}

impl Controller {
    /// The state of a new connection. RFC 6928 section 2 allows an initial window of min
    /// (10 * MSS, max (2 * MSS, 14600)); like Linux we use the number of segments alone.
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

    /// Starts from the window and threshold of an earlier connection, bounded to valid
    /// values.
    pub(crate) fn resume(&mut self, cwnd: u32, ssthresh: u32) {
        self.window.cwnd = cwnd.clamp(self.window.mss, MAX_CWND);
        self.window.ssthresh = ssthresh.max(self.window.min_ssthresh());
    }

    /// RW of RFC 5681 section 4.1, bytes: the window after an idle period.
    pub(crate) fn restart_window(&self) -> u32 {
        u32::from(self.initial_segments.max(1)) * self.window.mss
    }

    /// The congestion window, bytes.
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

    /// The algorithm in use.
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

    /// The algorithm's own pacing rate, bytes per second, if it has one.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        self.chosen.pacing_rate()
    }

    /// Passes the smoothed round-trip time, in microseconds, to an algorithm with a
    /// pacing rate of its own.
    pub(crate) fn init_pace(&mut self, srtt: Option<u64>) {
        if let Some(srtt) = srtt {
            let srtt = srtt.min(u64::from(u32::MAX)) as u32;
            self.chosen.algorithm().init_pace(&self.window, srtt);
        }
    }

    /// Changes the algorithm; window and threshold are kept.
    pub(crate) fn choose(&mut self, which: Congestion) {
        if which != self.which() {
            self.chosen = Chosen::new(which);
        }
    }

    /// The MSS has changed: `cwnd` keeps its value in bytes, but is at least one segment.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.window.mss = u32::from(mss);
        self.window.cwnd = self.window.cwnd.max(self.window.mss);
    }

    /// Sets the window during recovery, to at least one segment. No effect on an
    /// algorithm that uses delivery rates, which sets the window itself.
    pub(crate) fn set_cwnd(&mut self, bytes: u32) {
        if !self.wants_rates() {
            self.window.cwnd = bytes.clamp(self.window.mss, MAX_CWND);
        }
    }

    /// Bytes were acknowledged outside of fast recovery while the window was in use.
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

    /// Passes on the rate sample of one acknowledgment.
    pub(crate) fn on_rate(&mut self, sample: &RateSample) {
        self.chosen.algorithm().on_rate(&mut self.window, sample);
    }

    /// `acked` bytes were acknowledged, `marked` of them with CE.
    pub(crate) fn on_marks(&mut self, acked: u32, marked: u32, una: Pos, nxt: Pos) {
        self.chosen.algorithm().on_marks(acked, marked, una, nxt);
    }

    /// Loss was detected by duplicate acknowledgments while `window` bytes were in use:
    /// sets the threshold; recovery sets the window.
    pub(crate) fn on_loss(&mut self, window: u32) {
        let threshold = self.chosen.algorithm().on_loss(&self.window, window);
        self.window.ssthresh = threshold.max(self.window.min_ssthresh());
    }

    /// The peer reports congestion marks, for the first time in this round trip: the
    /// window is reduced at once as for a loss (RFC 3168 section 6.1.2).
    pub(crate) fn on_congestion_marked(&mut self, window: u32) {
        let threshold = self.chosen.algorithm().on_marked(&self.window, window);
        self.window.ssthresh = threshold.max(self.window.min_ssthresh());
        self.set_cwnd(self.window.cwnd.min(self.window.ssthresh));
    }

    /// The retransmission timer expired, for the first time in this flight or again. RFC
    /// 5681 section 3.1: the window is reduced to one segment, and the threshold is
    /// lowered only the first time.
    pub(crate) fn on_timeout(&mut self, window: u32, first: bool) {
        if first {
            self.on_loss(window);
        }
        self.chosen.algorithm().on_timeout();
        self.window.cwnd = self.window.mss;
    }

    /// A recovery begins that may have to be undone.
    pub(crate) fn save_for_undo(&mut self) {
        self.chosen.algorithm().save_for_undo();
    }

    /// The recovery was spurious: window and threshold are restored to at least what they
    /// were before (RFC 4015 section 3.2, RFC 9438 section 4.9).
    pub(crate) fn undo(&mut self, cwnd: u32, ssthresh: u32) {
        self.window.cwnd = self.window.cwnd.max(cwnd).min(MAX_CWND);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.chosen.algorithm().undo();
    }

    /// RFC 5681 section 4.1: after an idle period of an RTO or more, the window restarts
    /// from the restart window. An algorithm that paces by a model of the path needs no
    /// restart (draft-ietf-ccwg-bbr section 5.4.1).
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
