//! The tail loss probe (RFC 8985 section 7): when the last segments are not acknowledged
//! within two round trips, one more segment is sent, so that SACK shows the loss of the
//! tail instead of the retransmission timer.
//!
//! Owns [`Probe`]. `flight.rs` starts the timer and finds it due, `output/` reports what was sent
//! as a probe, `recovery.rs` what was acknowledged. The timer is that of `loss_timer.rs`.

use super::AckReport;
use crate::congestion::CongestionState;
use crate::flight::Recovery;
use crate::pos::{NO_POS, Pos};
use crate::snd::SendSide;

/// A probe that is due, or outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// TLP.end_seq: SND.NXT after the probe, `NO_POS` if none is outstanding.
    end: Pos,
    /// Where the retransmitted segment starts.
    start: Pos,
    /// TLP.is_retrans: it is a retransmission of the last segment.
    repeats: bool,
    /// A probe is to be sent.
    pub(crate) due: bool,
}

impl Probe {
    pub(super) const fn new() -> Probe {
        Probe {
            end: NO_POS,
            start: 0,
            repeats: false,
            due: false,
        }
    }

    /// Another kind of recovery has begun.
    pub(crate) fn forget(&mut self) {
        *self = Probe::new();
    }

    /// Whether a probe was sent and is not answered yet.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.end != NO_POS
    }

    /// The last segment, of at most `most` bytes, to be retransmitted as a probe if there
    /// is no new data. `None` if the peer's window no longer has room for it: data sent
    /// with a SYN may exceed a window that was unknown then, and the retransmission timer
    /// retransmits the first segment in that case.
    pub(crate) fn last_segment(snd: &SendSide, most: i64) -> Option<(Pos, Pos)> {
        let start = snd.nxt() - most.max(1);
        let fits = snd.nxt() <= snd.wnd_edge();
        fits.then_some((start.max(snd.una()), snd.nxt()))
    }

    /// Whether a DSACK of this range was caused by the probe.
    pub(super) fn caused(&self, (start, end): (Pos, Pos)) -> bool {
        self.repeats && start >= self.start && end <= self.end
    }

    /// `start..end` was sent as the probe, or instead of it; `repeats`: it is a
    /// retransmission.
    pub(crate) fn on_sent(&mut self, start: Pos, end: Pos, repeats: bool) {
        *self = Probe {
            end,
            start,
            repeats,
            due: false,
        };
    }
}

impl Recovery {
    /// Checks whether an acknowledgment answers the probe (RFC 8985 section 7.4).
    pub(super) fn on_probe_report(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) {
        let probe = self.probe;
        if !probe.is_outstanding() || snd.una() < probe.end {
            return;
        }
        let both_arrived = report.dsack.is_some_and(|d| probe.caused(d))
            || (report.sacked == 0 && report.duplicate);
        if !probe.repeats || both_arrived {
            self.probe.forget();
        } else if snd.una() > probe.end {
            // The probe has repaired a loss that nothing else reports: the window is
            // reduced as in a fast recovery.
            self.probe.forget();
            congestion.controller.on_loss(congestion.controller.cwnd());
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
    }
}

#[cfg(test)]
mod tests;
