//! What was believed lost and was not: detected, and its consequences taken back.
//!
//! Owns [`Undo`]. Three kinds of evidence:
//!
//! * the *echoed timestamp* of the first acknowledgment after a repetition is older
//!   than the repetition: the original has arrived (Eifel, RFC 3522);
//! * every repetition was reported as a *duplicate* (RFC 2883, RFC 3708);
//! * after a timeout, what was sent once only is acknowledged although the sender has
//!   kept from repeating it (F-RTO, RFC 5682; with SACK, its section 3).
//!
//! The answer is that of RFC 4015: threshold and window are what they were, and what
//! waits to be repeated counts as in the network again. `recovery.rs` calls all this.

use super::{AckReport, Phase};
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::pos::{NO_POS, Pos};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;

/// How far F-RTO has come (RFC 5682 section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Frto {
    /// Not at all.
    Off,
    /// Step 1: the first segment is repeated.
    Repeated,
    /// Step 2b: new data are sent, nothing else is repeated.
    NewData,
}

/// What it takes to undo a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undo {
    /// SND.UNA when it began, `NO_POS` if there is nothing to undo.
    from: Pos,
    /// Window and threshold before it, bytes.
    cwnd: u32,
    ssthresh: u32,
    /// Bytes repeated since, less those reported as duplicates.
    repeated: u32,
    /// Our timestamp on the first repetition, if there was one.
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

    /// Whether F-RTO keeps from repeating for the moment.
    pub(super) fn holds_repetition(&self) -> bool {
        self.frto == Frto::NewData
    }

    pub(super) fn end_frto(&mut self) {
        self.frto = Frto::Off;
    }
}

impl Flight {
    /// A recovery begins that may have to be undone.
    pub(super) fn remember_for_undo(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        congestion.controller.remember();
        self.recovery.undo = Undo {
            from: snd.una(),
            cwnd: congestion.controller.cwnd(),
            ssthresh: congestion.controller.ssthresh(),
            ..Undo::new()
        };
    }

    /// The retransmission timer has run out; `first`: for the first time since
    /// SND.UNA advanced. RFC 5682 section 2.1 step 1 leaves out a timeout within the
    /// recovery from another one.
    pub(super) fn start_frto(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        first: bool,
    ) {
        let phase = self.recovery.phase;
        // What a fast recovery has changed is undone with it.
        if phase == Phase::Open || phase == Phase::Mtu {
            self.remember_for_undo(snd, congestion);
        }
        let wanted = first && matches!(phase, Phase::Open | Phase::Fast);
        self.recovery.undo.frto = if wanted { Frto::Repeated } else { Frto::Off };
    }

    /// Something has been repeated that was last sent so many microseconds ago.
    pub(super) fn note_repetition(
        &mut self,
        snd: &SendSide,
        stamps: &TimestampState,
        bytes: Pos,
        age: u64,
        now: Instant,
    ) {
        let stamp = self.stamp_repetition(snd, stamps, age, now);
        let undo = &mut self.recovery.undo;
        undo.repeated = undo.repeated.saturating_add(bytes as u32);
        if !undo.stamped {
            undo.stamped = true;
            undo.stamp = stamp;
        }
    }

    /// Looks for evidence in an acknowledgment, and undoes the recovery that is under
    /// way, or the last one. Says whether it did.
    pub(super) fn undo_if_spurious(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) -> bool {
        if self.recovery.undo.from == NO_POS {
            return false;
        }
        let spurious = self.all_were_duplicates(report)
            || (report.acked > 0 && self.echo_is_of_original(snd, report))
            || self.frto_says_spurious(snd, report);
        if spurious {
            self.undo(snd, congestion);
        }
        spurious
    }

    /// RFC 3708 section 2: each repetition was reported as a duplicate.
    fn all_were_duplicates(&mut self, report: AckReport) -> bool {
        let undo = &mut self.recovery.undo;
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

    /// RFC 3522 section 3.2: the acknowledgment was caused by what was sent before
    /// the first repetition. In a fast recovery with further holes, that is one late
    /// packet of several, as it is the rule where one in a hundred is late; it proves
    /// nothing while any repetition is in the network. If none is, the recovery has no
    /// cause left that is known, as in Linux: what is still believed lost is looked at
    /// anew, with a reordering window that this has made wider.
    fn echo_is_of_original(&self, snd: &SendSide, report: AckReport) -> bool {
        let undo = &self.recovery.undo;
        let older = |echo: u32| (echo.wrapping_sub(undo.stamp) as i32) < 0;
        if !undo.stamped || !report.echo.is_some_and(older) {
            return false;
        }
        match self.recovery.phase {
            Phase::Loss => true,
            Phase::Fast => {
                let una = snd.una();
                self.scoreboard.sacked() == 0
                    || una >= self.recovery.recover
                    || self.scoreboard.repeated_in_network(una) == 0
            }
            Phase::Open | Phase::Mtu => false,
        }
    }

    /// RFC 5682 section 2.1 steps 2 and 3, and section 3.1 with SACK.
    fn frto_says_spurious(&mut self, snd: &SendSide, report: AckReport) -> bool {
        let below = snd.una() < self.recovery.recover;
        let advanced = report.acked > 0 && below;
        match self.recovery.undo.frto {
            Frto::Off => false,
            Frto::Repeated => {
                // Step 2: with the first acknowledgment that advances, up to two
                // new segments go, if there are any and the peer has room;
                // otherwise, the conventional way.
                let room = snd.nxt() < snd.end() && snd.wnd_edge() > snd.nxt();
                self.recovery.undo.frto = if advanced && room {
                    Frto::NewData
                } else {
                    Frto::Off
                };
                false
            }
            Frto::NewData => {
                // Step 3: what was not repeated has arrived (b), or not (a).
                self.recovery.undo.frto = Frto::Off;
                report.original && (advanced || report.sacked > 0)
            }
        }
    }

    /// RFC 4015 section 3.2 and RFC 5682 section 4: as it was before.
    fn undo(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        let undo = self.recovery.undo;
        let (una, phase) = (snd.una(), self.recovery.phase);
        congestion.controller.undo(undo.cwnd, undo.ssthresh);
        self.recovery.undo = Undo::new();
        if phase == Phase::Fast {
            self.recovery.rack.note_reordering();
        }
        if matches!(phase, Phase::Fast | Phase::Loss) {
            self.scoreboard.unmark_lost(una);
            self.reopen();
        }
    }
}

#[cfg(test)]
mod tests;
