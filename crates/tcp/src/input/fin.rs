//! The peer's FIN (RFC 9293 section 3.10.7.4, eighth).
//!
//! `input/mod.rs` calls it after the payload was placed, since only then is it known
//! whether everything before the FIN has arrived.

use super::Arrival;
use crate::events::Events;
use crate::flags::Flags;
use crate::flight::LossTimer;
use crate::pos::NO_POS;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::time_wait::TIME_WAIT_US;
use crate::timers::Timers;
use longshore_wire::tcp::TcpFlags;

impl Tcb {
    /// Records a FIN, and processes it once RCV.NXT has reached it.
    pub(super) fn on_fin(&mut self, a: &Arrival<'_>) {
        if a.has(TcpFlags::FIN) {
            self.note_fin(a);
        }
        if self.rcv.nxt() == self.rcv.fin() {
            self.handle_fin(a.now);
        }
    }

    /// Records where the stream ends. The first FIN decides; one that contradicts data
    /// received beyond it is ignored.
    fn note_fin(&mut self, a: &Arrival<'_>) {
        self.flags |= Flags::ACK_NOW;
        let beyond = self
            .reassembly
            .ranges
            .iter(self.rcv.nxt())
            .next_back()
            .is_some_and(|(_, end)| end > a.data_end);
        if self.rcv.fin() == NO_POS && !beyond && a.data_end >= self.rcv.nxt() {
            self.rcv.set_fin(a.data_end);
        }
    }

    /// "If the FIN bit is set, signal the user 'connection closing' ..., advance
    /// RCV.NXT over the FIN, and send an acknowledgment for the FIN."
    fn handle_fin(&mut self, now: Instant) {
        self.rcv.handle_fin();
        self.flags |= Flags::ACK_NOW;
        self.outcome.events |= Events::PEER_FIN;
        match self.state {
            State::Established => self.state = State::CloseWait,
            // "If our FIN has been ACKed (perhaps in this segment), then enter
            // TIME-WAIT": `check_fin_acked` has handled this; the state is FIN-WAIT-2
            // then.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// Enters TIME-WAIT and turns off all other timers.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers = Timers::new();
        self.flight.timer = LossTimer::new();
        self.timers.state = now.after_us(TIME_WAIT_US);
        self.liveness.note_challenge(Instant(0));
        self.outcome.events |= Events::TIME_WAIT | Events::FIN_ACKED;
    }
}
