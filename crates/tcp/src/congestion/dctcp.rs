//! DCTCP (RFC 8257): the window is reduced in proportion to the share of CE-marked bytes.
//!
//! Owns [`Dctcp`]; `congestion/mod.rs` calls it. It needs a peer that reports each mark
//! (see `ecn.rs`); with one that does not, and for losses, it behaves as NewReno (RFC
//! 8257 section 3.5).

use super::newreno::NewReno;
use super::{Ack, Algorithm, Kind, Window};
use crate::pos::Pos;

/// The scale of DCTCP.Alpha: this value stands for 1.
const ONE: u32 = 1 << 20;
/// g = 1/16 (RFC 8257 section 4.2), as a shift.
const G_SHIFT: u32 = 4;

/// The state of DCTCP (RFC 8257 section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dctcp {
    reno: NewReno,
    /// DCTCP.Alpha, in parts of [`ONE`].
    alpha: u32,
    /// DCTCP.WindowEnd.
    window_end: Pos,
    /// DCTCP.BytesAcked and DCTCP.BytesMarked.
    acked: u64,
    marked: u64,
}

impl Dctcp {
    /// DCTCP.Alpha in thousandths.
    #[cfg(test)]
    pub(super) fn alpha_permille(&self) -> u32 {
        (u64::from(self.alpha) * 1000 / u64::from(ONE)) as u32
    }
}

impl Kind for Dctcp {
    const NAME: &'static str = "dctcp";
    const WANTS_MARKS: bool = true;

    fn new() -> Dctcp {
        Dctcp {
            reno: NewReno::new(),
            // The initial value of 1 makes the first mark halve the window.
            alpha: ONE,
            window_end: 0,
            acked: 0,
            marked: 0,
        }
    }
}

impl Algorithm for Dctcp {
    fn on_ack(&mut self, w: &mut Window, ack: &Ack) {
        self.reno.avoid(w, ack.acked);
    }

    /// RFC 8257 section 3.5: a loss is handled as in any other TCP.
    fn on_loss(&mut self, w: &Window, window: u32) -> u32 {
        self.reno.on_loss(w, window)
    }

    /// RFC 8257 section 3.3 step 9: cwnd * (1 - DCTCP.Alpha / 2).
    fn on_marked(&mut self, w: &Window, _window: u32) -> u32 {
        let cut = u64::from(w.cwnd) * u64::from(self.alpha) / u64::from(2 * ONE);
        w.cwnd - cut as u32
    }

    fn on_timeout(&mut self) {
        self.reno.on_timeout();
    }

    fn on_idle(&mut self) {
        self.reno.on_idle();
    }

    /// RFC 8257 section 3.3, steps 1 to 8: updates Alpha once per window.
    fn on_marks(&mut self, acked: u32, marked: u32, una: Pos, nxt: Pos) {
        self.acked += u64::from(acked);
        self.marked += u64::from(marked.min(acked));
        if una < self.window_end {
            return;
        }
        if let Some(share) = (self.marked * u64::from(ONE)).checked_div(self.acked) {
            let share = share as u32;
            // Rounded up, so that Alpha decays to 0 when nothing is marked any more.
            self.alpha -= self.alpha.div_ceil(1 << G_SHIFT);
            self.alpha = (self.alpha + (share >> G_SHIFT)).min(ONE);
        }
        self.window_end = nxt;
        self.acked = 0;
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests;
