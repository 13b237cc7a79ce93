//! Detection and undoing of spurious recoveries.
//!
//! Owns [`Undo`]. There are three kinds of evidence:
//!
//! * the *echoed timestamp* of the first acknowledgment after a retransmission is older
//!   than the retransmission: the original has arrived (Eifel, RFC 3522);
//! * every retransmission was reported as a *duplicate* (RFC 2883, RFC 3708);
//! * after a timeout, data that was sent only once is acknowledged although the sender
//!   has not retransmitted it (F-RTO, RFC 5682; with SACK, its section 3).
//!
//! The response is that of RFC 4015: threshold and window are restored, and data that
//! waits to be retransmitted counts as in the network again. `recovery.rs` calls all
//! methods.

use super::{AckReport, Phase, Recovery};
use crate::congestion::CongestionState;
use crate::flight::scoreboard::Scoreboard;
use crate::pos::{NO_POS, Pos};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;

/// The state of F-RTO (RFC 5682 section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Frto {
    /// Not active.
    Off,
    /// Step 1: the first segment was retransmitted.
    Repeated,
    /// Step 2b: new data is sent, nothing else is retransmitted.
    NewData,
}

/// The state needed to undo a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undo {
    /// SND.UNA when it began, `NO_POS` if there is nothing to undo.
    from: Pos,
    /// Window and threshold before the recovery, bytes.
    cwnd: u32,
    ssthresh: u32,
    /// Bytes retransmitted since, less those reported as duplicates.
    repeated: u32,
    /// Our timestamp on the first retransmission, if there was one.
    stamp: u32,
    stamped: bool,
    frto: Frto,
}

impl Undo {
    pub(super) const fn new() -> Undo {
        Undo {
            from: NO_POS,
            cwnd: 0,
            ssthresh: 0,
            repeated: 0,
            stamp: 0,
            stamped: false,
            frto: Frto::Off,
        }
    }

    /// Whether F-RTO holds back retransmissions.
    pub(super) fn holds_retransmission(&self) -> bool {
        self.frto == Frto::NewData
    }
}

impl Recovery {
    /// A recovery begins that may have to be undone.
    pub(super) fn save_for_undo(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        congestion.controller.save_for_undo();
        self.undo = Undo {
            from: snd.una(),
            cwnd: congestion.controller.cwnd(),
            ssthresh: congestion.controller.ssthresh(),
            ..Undo::new()
        };
    }

    /// RFC 3708 section 2: every retransmission was reported as a duplicate.
    fn all_were_duplicates(&mut self, report: AckReport) -> bool {
        let undo = &mut self.undo;
        let Some((start, end)) = report.dsack else {
            return false;
        };
        if start < undo.from || undo.repeated == 0 {
            return false;
        }
        let len = (end - start).min(1 << 30) as u32;
        undo.repeated = undo.repeated.saturating_sub(len);
        undo.repeated == 0
    }

    /// RFC 5682 section 2.1 steps 2 and 3, and section 3.1 with SACK.
    fn frto_says_spurious(&mut self, snd: &SendSide, report: AckReport) -> bool {
        match self.undo.frto {
            Frto::Off => false,
            Frto::Repeated => {
                // Step 2: with the first acknowledgment that advances SND.UNA, up to two
                // new segments are sent, if there is data and the peer has room;
                // otherwise recovery is conventional.
                let advanced = report.acked > 0 && snd.una() < self.recover;
                let room = snd.nxt() < snd.end() && snd.wnd_edge() > snd.nxt();
                self.undo.frto = if advanced && room {
                    Frto::NewData
                } else {
                    Frto::Off
                };
                false
            }
            Frto::NewData => {
                // Step 3: data that was not retransmitted has arrived (b), or not (a). As in
                // Linux, also if all that was in flight has.
                self.undo.frto = Frto::Off;
                report.original
            }
        }
    }

    /// The retransmission timer has expired; `first`: for the first time since SND.UNA
    /// advanced. RFC 5682 section 2.1 step 1 excludes a timeout during the recovery from
    /// another one.
    pub(super) fn start_frto(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        first: bool,
    ) {
        let phase = self.phase;
        // If fast recovery was in progress, its saved state is kept, so that both are
        // undone.
        if phase == Phase::Open || phase == Phase::Mtu {
            self.save_for_undo(snd, congestion);
        }
        let wanted = first && matches!(phase, Phase::Open | Phase::Fast);
        self.undo.frto = if wanted { Frto::Repeated } else { Frto::Off };
    }

    /// Data was retransmitted that was last sent `age` microseconds ago.
    pub(super) fn note_retransmission(
        &mut self,
        snd: &SendSide,
        stamps: &TimestampState,
        bytes: Pos,
        age: u64,
        now: Instant,
    ) {
        let stamp = self.stamp_retransmission(snd, stamps, age, now);
        let undo = &mut self.undo;
        undo.repeated = undo.repeated.saturating_add(bytes as u32);
        if !undo.stamped {
            undo.stamped = true;
            undo.stamp = stamp;
        }
    }

    /// Checks an acknowledgment for evidence, and undoes the current or the last recovery
    /// if there is some. Returns whether it did.
    pub(super) fn undo_if_spurious(
        &mut self,
        sent: &mut Scoreboard,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) -> bool {
        if self.undo.from == NO_POS {
            return false;
        }
        let spurious = self.all_were_duplicates(report)
            || (report.acked > 0 && self.echo_is_of_original(sent, snd, report))
            || self.frto_says_spurious(snd, report);
        if spurious {
            self.undo(sent, snd, congestion);
        }
        spurious
    }

    /// RFC 3522 section 3.2: data sent before the first retransmission caused the
    /// acknowledgment. In a fast recovery with further holes, that may be one late packet
    /// of several, which is usual where one packet in a hundred is late; it proves
    /// nothing while a retransmission is in the network. If none is, the recovery has no
    /// known cause left, as in Linux: loss detection then decides anew about the rest,
    /// with the wider reordering window.
    fn echo_is_of_original(&self, sent: &Scoreboard, snd: &SendSide, report: AckReport) -> bool {
        let undo = &self.undo;
        let older = |echo: u32| (echo.wrapping_sub(undo.stamp) as i32) < 0;
        if !undo.stamped || !report.echo.is_some_and(older) {
            return false;
        }
        match self.phase {
            Phase::Loss => true,
            Phase::Fast => sent.sacked() == 0 || sent.retransmitted_in_network(snd.una()) == 0,
            Phase::Open | Phase::Mtu => false,
        }
    }

    /// RFC 4015 section 3.2 and RFC 5682 section 4: restores the state before the
    /// recovery.
    fn undo(&mut self, sent: &mut Scoreboard, snd: &SendSide, congestion: &mut CongestionState) {
        let undo = self.undo;
        let (una, phase) = (snd.una(), self.phase);
        congestion.controller.undo(undo.cwnd, undo.ssthresh);
        self.undo = Undo::new();
        if phase == Phase::Fast {
            self.rack.note_reordering();
        }
        if matches!(phase, Phase::Fast | Phase::Loss) {
            sent.unmark_lost(una);
            self.reopen();
        }
    }
}

#[cfg(test)]
mod tests;
