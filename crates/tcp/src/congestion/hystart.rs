//! Slow start, and leaving it before it causes loss: HyStart++ (RFC 9406).
//!
//! Owns [`HyStart`]; `congestion/mod.rs` calls it below the threshold for every algorithm
//! that uses slow start. Only the first slow start of a connection watches the round-trip
//! time; later ones end at a known threshold (RFC 9406 section 4.3).
//!
//! The RFC's limit L on the growth per acknowledgment is not used, see `docs/rfc.md`, D7.

use super::{Ack, Window};
use crate::pos::Pos;
use crate::time::MS;

/// MIN_RTT_THRESH and MAX_RTT_THRESH, microseconds.
const MIN_RTT_THRESH: u32 = 4 * MS as u32;
const MAX_RTT_THRESH: u32 = 16 * MS as u32;
/// MIN_RTT_DIVISOR.
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const N_RTT_SAMPLE: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const CSS_ROUNDS: u8 = 5;

/// The state of HyStart++ (RFC 9406 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HyStart {
    /// windowEnd: the round ends when this position is acknowledged.
    window_end: Pos,
    /// lastRoundMinRTT, currentRoundMinRTT, microseconds; `u32::MAX` for infinity.
    last_min: u32,
    current_min: u32,
    /// rttSampleCount.
    samples: u8,
    /// Rounds of conservative slow start so far, with the current one; 0 in slow start.
    css_rounds: u8,
    /// cssBaselineMinRtt, microseconds.
    css_baseline: u32,
}

impl HyStart {
    pub(super) const fn new() -> HyStart {
        HyStart {
            window_end: 0,
            last_min: u32::MAX,
            current_min: u32::MAX,
            samples: 0,
            css_rounds: 0,
            css_baseline: u32::MAX,
        }
    }

    /// RFC 5681 equation 2, or a quarter of it in conservative slow start. Stops at the
    /// threshold and returns the bytes left over.
    pub(super) fn slow_start(&mut self, w: &mut Window, ack: &Ack) -> u32 {
        if w.ssthresh == u32::MAX {
            self.watch(w, ack);
        }
        let divisor = if self.css_rounds > 0 && w.ssthresh == u32::MAX {
            CSS_GROWTH_DIVISOR
        } else {
            1
        };
        let room = w.ssthresh.saturating_sub(w.cwnd);
        let step = (ack.acked / divisor).min(room);
        w.grow(step);
        ack.acked.saturating_sub(step.saturating_mul(divisor))
    }

    /// RFC 9406 section 4.2: counts rounds and compares their minimum round-trip times.
    fn watch(&mut self, w: &mut Window, ack: &Ack) {
        if ack.una >= self.window_end {
            self.window_end = ack.nxt;
            self.last_min = self.current_min;
            self.current_min = u32::MAX;
            self.samples = 0;
            if self.css_rounds > 0 {
                self.css_rounds += 1;
                if self.css_rounds > CSS_ROUNDS {
                    // The round-trip time has not improved in this many rounds: it was a
                    // queue.
                    w.ssthresh = w.cwnd.max(w.min_ssthresh());
                    return;
                }
            }
        }
        if ack.rtt != 0 {
            self.current_min = self.current_min.min(ack.rtt);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        if self.css_rounds == 0 {
            let threshold = (self.last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if self.last_min != u32::MAX && self.current_min >= self.last_min + threshold {
                self.css_baseline = self.current_min;
                self.css_rounds = 1;
            }
        } else if self.current_min < self.css_baseline {
            // The increase was temporary and no queue: back to slow start.
            self.css_baseline = u32::MAX;
            self.css_rounds = 0;
        }
    }
}

#[cfg(test)]
mod tests;
