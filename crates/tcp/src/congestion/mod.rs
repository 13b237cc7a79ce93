//! Congestion control: how much may be in flight.
//!
//! Owns [`Controller`], the window and threshold that every algorithm shares plus
//! the state of the chosen one, as plain data. `input/ack.rs` and `recovery.rs` call
//! it; `output/select.rs` reads the window. An algorithm is one file with a type
//! that implements [`Algorithm`], and one arm in [`Chosen`].
//!
//! Everything is counted in bytes (RFC 3465), since one acknowledgment may cover 64
//! KiB.

pub(crate) mod cubic;
pub(crate) mod newreno;

use crate::config::Congestion;
use crate::time::Instant;
use cubic::Cubic;
use newreno::NewReno;

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

    /// Slow start: RFC 5681 equation 2 with the byte counting of RFC 3465, where
    /// the limit L is the number of segments acknowledged, since a stretch
    /// acknowledgment of a merged segment is no attack. Stops at the threshold and
    /// returns the bytes left over.
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let room = self.ssthresh.saturating_sub(self.cwnd);
        let step = acked.min(room);
        self.cwnd = self.cwnd.saturating_add(step).min(MAX_CWND);
        acked - step
    }
}

/// More than this is never in flight (the largest window of RFC 7323).
pub(crate) const MAX_CWND: u32 = 1 << 30;

/// One congestion control algorithm. Times are the caller's.
pub(crate) trait Algorithm {
    /// `acked` bytes were acknowledged outside of recovery, and the window was in
    /// use.
    fn on_ack(&mut self, w: &mut Window, acked: u32, srtt: u64, now: Instant);
    /// Loss was detected with `in_flight` bytes in flight: the new threshold.
    fn on_loss(&mut self, w: &mut Window, in_flight: u32) -> u32;
    /// The sender had nothing to send, or the timer ran out: what was learned of
    /// time is void.
    fn restart(&mut self);
}

/// The algorithm that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    NewReno(NewReno),
    Cubic(Cubic),
}

impl Chosen {
    fn new(which: Congestion) -> Chosen {
        match which {
            Congestion::NewReno => Chosen::NewReno(NewReno::new()),
            Congestion::Cubic => Chosen::Cubic(Cubic::new()),
        }
    }

    fn algorithm(&mut self) -> &mut dyn Algorithm {
        match self {
            Chosen::NewReno(a) => a,
            Chosen::Cubic(a) => a,
        }
    }
}

/// The congestion state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    window: Window,
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
            chosen: Chosen::new(which),
        }
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
        match self.chosen {
            Chosen::NewReno(_) => Congestion::NewReno,
            Chosen::Cubic(_) => Congestion::Cubic,
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

    /// Sets the window, for recovery and restart; at least one segment.
    pub(crate) fn set_cwnd(&mut self, bytes: u32) {
        self.window.cwnd = bytes.clamp(self.window.mss, MAX_CWND);
    }

    /// Bytes were acknowledged outside of recovery, while the window was in use.
    pub(crate) fn on_ack(&mut self, acked: u32, srtt: u64, now: Instant) {
        self.chosen
            .algorithm()
            .on_ack(&mut self.window, acked, srtt, now);
    }

    /// Loss was found by duplicate acknowledgments: sets the threshold and leaves
    /// the window to the caller's recovery.
    pub(crate) fn on_loss(&mut self, in_flight: u32) {
        let threshold = self.chosen.algorithm().on_loss(&mut self.window, in_flight);
        self.window.ssthresh = threshold.max(self.window.floor());
    }

    /// The retransmission timer ran out for the first time in this flight, or
    /// again: RFC 5681 section 3.1 has the window come down to one segment, and the
    /// threshold lowered only the first time.
    pub(crate) fn on_timeout(&mut self, in_flight: u32, first: bool) {
        if first {
            self.on_loss(in_flight);
        }
        self.chosen.algorithm().restart();
        self.window.cwnd = self.window.mss;
    }

    /// The loss that was answered was none: window and threshold are at least what
    /// they were before (RFC 4015 section 3.2).
    pub(crate) fn undo(&mut self, cwnd: u32, ssthresh: u32) {
        self.window.cwnd = self.window.cwnd.max(cwnd).min(MAX_CWND);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
    }

    /// RFC 5681 section 4.1: after an idle time of an RTO or more, start again from
    /// `restart_window` bytes.
    pub(crate) fn on_idle(&mut self, restart_window: u32) {
        self.chosen.algorithm().restart();
        self.window.cwnd = self.window.cwnd.min(restart_window).max(self.window.mss);
    }
}

#[cfg(test)]
mod tests;
