//! CUBIC (RFC 9438).
//!
//! Owns [`Cubic`]; `congestion/mod.rs` calls it. It uses integers only: time in
//! milliseconds, windows in bytes; `tests.rs` compares it with the RFC's formulas in
//! floating point.

use super::{Ack, Algorithm, Kind, MAX_CWND, Window};
use crate::time::Instant;

/// The state of CUBIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cubic {
    /// W_max: the window, in bytes, at the plateau.
    w_max: u32,
    /// W_est: the window that Reno would have, bytes (RFC 9438 section 4.3).
    w_est: u32,
    /// cwnd_prior: from this W_est on, it grows with Reno's own slope.
    cwnd_prior: u32,
    /// Acknowledged bytes that W_est has not grown for yet.
    est_credit: u32,
    /// Growth that is due, in bytes times the window; less than one byte of window.
    credit: u64,
    /// K: time from the epoch to the plateau, milliseconds.
    k_ms: u32,
    /// Start of the current congestion avoidance epoch, `NEVER` if there is none.
    epoch: Instant,
    /// When the window was last in use.
    used_at: Instant,
    /// The path's capacity is unknown: no loss since the start or the last timeout.
    searching: bool,
    /// State before the recovery that may have to be undone.
    before: Option<Plateau>,
}

/// State that a spurious loss must not change (section 4.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plateau {
    w_max: u32,
    w_est: u32,
    cwnd_prior: u32,
    k_ms: u32,
    epoch: Instant,
    searching: bool,
}

/// C = 0.4 segments per second cubed (RFC 9438 section 5.1), as a fraction.
const C_NUM: u128 = 4;
const C_DEN: u128 = 10;
/// beta_cubic = 0.7 (section 4.6), as a fraction.
const BETA_NUM: u64 = 7;
const BETA_DEN: u64 = 10;
/// While the path's capacity is unknown, the window grows by at least this part of the
/// acknowledged bytes, as in Linux: the cubic function alone needs some ten seconds from
/// where slow start ends early on a long fast path (`docs/rfc.md`, D35).
const SEARCH_DIVISOR: u32 = 20;

impl Cubic {
    #[cfg(test)]
    pub(super) fn w_max(&self) -> u32 {
        self.w_max
    }

    /// Begins an epoch of congestion avoidance (section 4.2: after a loss, after a
    /// timeout, or out of slow start).
    fn begin(&mut self, w: &Window, now: Instant) {
        self.epoch = now;
        self.w_est = w.cwnd;
        self.est_credit = 0;
        self.credit = 0;
        if self.w_max <= w.cwnd {
            // Section 4.8: there is no plateau above: W_max is the current window, and K
            // is 0.
            self.w_max = w.cwnd;
            self.k_ms = 0;
        } else {
            // Section 4.2: K = cbrt((W_max - cwnd_epoch) / C), in seconds, windows
            // in segments.
            self.k_ms = k_ms(self.w_max - w.cwnd, w.mss);
        }
    }

    /// W_cubic(t) of section 4.2, in bytes, for a time in milliseconds since the
    /// epoch.
    fn w_cubic(&self, t_ms: u64, mss: u32) -> u32 {
        let k = u64::from(self.k_ms);
        let d = u128::from(t_ms.abs_diff(k).min(10_000_000));
        // C * (t - K)^3 segments, with t in ms: 10^-9 of it; in bytes times MSS.
        let delta = d * d * d * C_NUM * u128::from(mss) / (C_DEN * 1_000_000_000);
        let delta = delta.min(u128::from(MAX_CWND)) as u32;
        if t_ms < k {
            self.w_max.saturating_sub(delta)
        } else {
            self.w_max.saturating_add(delta).min(MAX_CWND)
        }
    }

    /// Section 4.3: W_est grows by alpha * acked / cwnd, where alpha is
    /// 3 (1 - beta) / (1 + beta) = 9/17 until W_est has reached cwnd_prior, then 1.
    fn grow_reno_estimate(&mut self, w: &Window, acked: u32) {
        self.est_credit = self.est_credit.saturating_add(acked);
        while self.est_credit >= w.cwnd {
            self.est_credit -= w.cwnd;
            let step = if self.w_est >= self.cwnd_prior {
                w.mss
            } else {
                w.mss * 9 / 17
            };
            self.w_est = self.w_est.saturating_add(step).min(MAX_CWND);
        }
    }
}

/// K in milliseconds for a distance of `bytes` to the plateau.
fn k_ms(bytes: u32, mss: u32) -> u32 {
    // cbrt(bytes / mss / C) * 1000 = cbrt(bytes * 10^9 / (mss * C)).
    let cube = u128::from(bytes) * 1_000_000_000 * C_DEN / (u128::from(mss.max(1)) * C_NUM);
    cube_root(cube) as u32
}

/// The integer cube root.
fn cube_root(x: u128) -> u128 {
    let (mut low, mut high) = (0u128, 1u128 << 22);
    while low < high {
        let mid = (low + high).div_ceil(2);
        if mid * mid * mid <= x {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    low
}

impl Cubic {
    /// Section 5.8: t excludes time in which the window was not in use, so that the
    /// window does not jump afterwards; the epoch is moved forward by it. A window in use
    /// is acknowledged within a round trip.
    fn leave_out_idle_time(&mut self, srtt: u64, now: Instant) {
        let idle = now.since(self.used_at).saturating_sub(srtt);
        self.used_at = now;
        if srtt > 0 && !self.epoch.is_never() {
            self.epoch = self.epoch.after_us(idle).min(now);
        }
    }
}

impl Kind for Cubic {
    const NAME: &'static str = "cubic";

    fn new() -> Cubic {
        Cubic {
            w_max: 0,
            w_est: 0,
            cwnd_prior: 0,
            est_credit: 0,
            credit: 0,
            k_ms: 0,
            epoch: Instant::NEVER,
            used_at: Instant(0),
            searching: true,
            before: None,
        }
    }
}

impl Algorithm for Cubic {
    fn on_ack(&mut self, w: &mut Window, ack: &Ack) {
        self.leave_out_idle_time(ack.srtt, ack.now);
        if self.epoch.is_never() {
            self.begin(w, ack.now);
        }
        self.grow_reno_estimate(w, ack.acked);
        let least = if self.searching {
            ack.acked / SEARCH_DIVISOR
        } else {
            0
        };
        let t = ack.now.since(self.epoch) / 1_000;
        if self.w_cubic(t, w.mss) < self.w_est {
            // Section 4.3, the Reno-friendly region.
            w.cwnd = w.cwnd.saturating_add(least).max(self.w_est).min(MAX_CWND);
            self.credit = 0;
            return;
        }
        // Sections 4.2, 4.4 and 4.5: the target is W_cubic(t + RTT), clamped between the
        // window and one and a half of it; one acknowledgment adds (target - cwnd) / cwnd
        // for each segment.
        let target = self
            .w_cubic(t + ack.srtt / 1_000, w.mss)
            .clamp(w.cwnd, w.cwnd + w.cwnd / 2);
        self.credit += u64::from(target - w.cwnd) * u64::from(ack.acked);
        let step = (self.credit / u64::from(w.cwnd)) as u32;
        self.credit %= u64::from(w.cwnd);
        w.cwnd = (w.cwnd + step).min(target).max(w.cwnd + least);
        w.cwnd = w.cwnd.min(MAX_CWND);
    }

    /// Sections 4.6 and 4.7: the window is reduced to 0.7 of what was in use; W_max is
    /// the window before, or less if the last plateau was not reached (fast convergence).
    fn on_loss(&mut self, w: &Window, window: u32) -> u32 {
        self.epoch = Instant::NEVER;
        self.searching = false;
        self.cwnd_prior = w.cwnd;
        self.w_max = if w.cwnd < self.w_max {
            // cwnd * (1 + beta) / 2
            (u64::from(w.cwnd) * (BETA_DEN + BETA_NUM) / (2 * BETA_DEN)) as u32
        } else {
            w.cwnd
        };
        (u64::from(window) * BETA_NUM / BETA_DEN) as u32
    }

    /// Section 4.8: after a timeout K is 0 and W_max is the window at which congestion
    /// avoidance begins; [`Cubic::begin`] sets both when there is no plateau.
    fn on_timeout(&mut self) {
        self.epoch = Instant::NEVER;
        self.w_max = 0;
        self.searching = true;
    }

    fn on_idle(&mut self) {
        self.epoch = Instant::NEVER;
        self.before = None;
    }

    fn save_for_undo(&mut self) {
        self.before = Some(Plateau {
            w_max: self.w_max,
            w_est: self.w_est,
            cwnd_prior: self.cwnd_prior,
            k_ms: self.k_ms,
            epoch: self.epoch,
            searching: self.searching,
        });
    }

    /// Section 4.9.
    fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.w_max = before.w_max;
            self.w_est = before.w_est;
            self.cwnd_prior = before.cwnd_prior;
            self.k_ms = before.k_ms;
            self.epoch = before.epoch;
            self.searching = before.searching;
        }
    }
}

#[cfg(test)]
mod tests;
