//! The peer's FIN (RFC 9293 section 3.10.7.4, eighth), and the acknowledgment of ours
//! (fifth): what they make of the connection's state.
//!
//! `input/mod.rs` calls [`Tcb::on_fin`] after the payload was placed, since only then is it
//! known whether everything before the FIN has arrived.

use super::{Arrival, Step};
use crate::events::Events;
use crate::flags::Flags;
use crate::flight::LossTimer;
use crate::pos::Pos;
use crate::segment::Disposition;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::time_wait::TIME_WAIT_US;
use crate::timers::Timers;
use longshore_wire::tcp::TcpFlags;

impl Tcb {
    /// Records a FIN of the peer, and processes it once RCV.NXT has reached it: "If the FIN
    /// bit is set, signal the user 'connection closing' ..., advance RCV.NXT over the FIN,
    /// and send an acknowledgment for the FIN."
    pub(super) fn on_fin(&mut self, a: &Arrival<'_>) {
        if a.has(TcpFlags::FIN) {
            self.flags |= Flags::ACK_NOW;
            let last = self.reassembly.ranges.iter(self.rcv.nxt()).next_back();
            let last = last.map_or(Pos::MIN, |(_, last)| last);
            self.rcv.note_fin(a.data_end, last);
        }
        if self.rcv.nxt() != self.rcv.fin() {
            return;
        }
        self.rcv.handle_fin();
        self.flags |= Flags::ACK_NOW;
        self.outcome.report(Events::PEER_FIN);
        match self.state {
            State::Established => self.state = State::CloseWait,
            // "If our FIN has been ACKed (perhaps in this segment), then enter
            // TIME-WAIT": `check_fin_acked` has handled this; the state is FIN-WAIT-2
            // then.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(a.now),
            _ => {}
        }
    }

    /// RFC 9293 section 3.10.7.4, fifth: the effect of the ACK of our FIN in each state.
    pub(super) fn check_fin_acked(&mut self, now: Instant) -> Step {
        if !self.snd.fin_acked() {
            return Ok(());
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.outcome.report(Events::FIN_ACKED);
                if self.is_orphan() {
                    self.timers.start_fin_wait(&self.cfg, now);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => {
                self.die(None, Events::FIN_ACKED);
                return Err(Disposition::default());
            }
            _ => {}
        }
        Ok(())
    }

    /// Enters TIME-WAIT and turns off all other timers.
    fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers = Timers::new();
        self.flight.timer = LossTimer::new();
        self.timers.state = now.after_us(TIME_WAIT_US);
        self.liveness.note_challenge(Instant(0));
        self.outcome.report(Events::TIME_WAIT | Events::FIN_ACKED);
    }
}
