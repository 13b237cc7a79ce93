//! The end of a connection: the FIN of each side, its acknowledgment, an abort, and what they make
//! of the connection's state (RFC 9293 sections 3.6, 3.10.4, 3.10.5 and 3.10.7.4).
//!
//! Owns [`Closing`], which [`Tcb::closing`](crate::Tcb::closing) gives: `user.rs` passes on what
//! the user closes, `input/mod.rs` the peer's FIN, resets and the acknowledgment of our FIN, and
//! `timeouts.rs` that the peer does not answer.

use crate::config::{Config, Linger};
use crate::ecn::EcnState;
use crate::events::{Error, Events};
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::{Flight, LossTimer};
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;
use crate::timers::{TIME_WAIT_US, Timers};

/// What ends a connection.
#[derive(Debug)]
pub struct Closing<'t> {
    pub(crate) prediction: &'t mut Prediction,
    pub(crate) state: &'t mut State,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t mut SendSide,
    pub(crate) rcv: &'t mut ReceiveSide,
    pub(crate) liveness: &'t mut Liveness,
    pub(crate) cfg: &'t mut Config,
    pub(crate) ecn: &'t EcnState,
    pub(crate) fast_open: &'t mut FastOpen,
    pub(crate) outcome: &'t mut Outcome,
    pub(crate) timers: &'t mut Timers,
    pub(crate) reassembly: &'t mut Reassembly,
    pub(crate) flight: &'t mut Flight,
}

// ---- The user. ----

impl Closing<'_> {
    /// Closes the sending half: see [`Tcb::shutdown_send`](crate::Tcb::shutdown_send).
    pub(crate) fn shutdown_send(&mut self) {
        if self.snd.fin() || !self.state.may_write() {
            return;
        }
        if self.abort_opening(Error::Reset) {
            return;
        }
        self.fast_open.release(self.flags);
        self.snd.close();
        *self.state = match *self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => other,
        };
    }

    /// Closes the receiving half. As in Linux, unread data and data that arrives from now
    /// on may still be read; but once the sending half is closed too, arriving data is
    /// answered by a reset. In SYN-SENT it ends the attempt.
    pub fn shutdown_recv(mut self) {
        if self.abort_opening(Error::Reset) {
            return;
        }
        *self.flags |= Flags::RCV_SHUT;
        self.predict_next();
    }

    /// In SYN-SENT, unless the user was told that the connection is established: ends the
    /// attempt.
    fn abort_opening(&mut self, error: Error) -> bool {
        let opening = *self.state == State::SynSent && !self.fast_open.is_early_connected();
        if opening {
            self.die(Some(error), Events::empty());
        }
        opening
    }

    /// Ends an attempt to connect whose SYN was not answered; whether it did.
    pub fn cancel_opening(mut self) -> bool {
        self.abort_opening(Error::Cancelled)
    }

    /// Whether [`Tcb::close`](crate::Tcb::close) would reset the connection, so that written data
    /// that is unsent by then would be lost.
    #[must_use]
    pub fn resets_on_close(&self) -> bool {
        !self.flags.contains(Flags::ORPHAN)
            && self.state.is_synchronized()
            && (self.cfg.linger == Linger::Reset || self.rcv.has_unread())
    }

    /// No program holds the connection any more: see [`Tcb::close`](crate::Tcb::close).
    pub(crate) fn close(&mut self, now: Instant) {
        if self.flags.contains(Flags::ORPHAN) {
            return;
        }
        *self.flags |= Flags::ORPHAN;
        self.liveness
            .forget_advised_timeout(self.flight, self.timers, self.cfg, self.flags);
        match *self.state {
            State::Closed | State::TimeWait => {}
            State::SynSent if !self.fast_open.has_early_data(self.snd, self.cfg) => {
                self.die(None, Events::empty())
            }
            _ if self.cfg.linger == Linger::Reset || self.rcv.has_unread() => {
                // In CLOSING and LAST-ACK too, as in Linux: the peer would take our FIN
                // as a sign that everything it sent was read.
                self.reset(Error::Aborted, Events::empty());
            }
            _ => {
                self.shutdown_send();
                self.predict_next();
                if *self.state == State::FinWait2 {
                    self.timers.start_fin_wait(self.cfg, now);
                }
            }
        }
    }

    /// Ends the connection at once: see [`Tcb::abort`](crate::Tcb::abort).
    pub(crate) fn abort(&mut self) {
        *self.flags |= Flags::ORPHAN;
        match *self.state {
            State::Closed => {}
            State::SynSent | State::TimeWait | State::Closing | State::LastAck => {
                self.die(Some(Error::Aborted), Events::empty());
            }
            _ => self.reset(Error::Aborted, Events::empty()),
        }
    }
}

// ---- The peer. ----

impl Closing<'_> {
    /// Records a FIN of the peer, which is at position `fin` if a segment had one, and processes
    /// it once RCV.NXT has reached it: "If the FIN bit is set, signal the user 'connection
    /// closing' ..., advance RCV.NXT over the FIN, and send an acknowledgment for the FIN."
    pub(crate) fn on_fin(&mut self, fin: Option<Pos>, now: Instant) {
        if let Some(fin) = fin {
            *self.flags |= Flags::ACK_NOW;
            let last = self.reassembly.ranges.iter(self.rcv.nxt()).next_back();
            let last = last.map_or(Pos::MIN, |(_, last)| last);
            self.rcv.note_fin(fin, last);
        }
        if self.rcv.nxt() != self.rcv.fin() {
            return;
        }
        self.rcv.handle_fin();
        *self.flags |= Flags::ACK_NOW;
        self.outcome.report(Events::PEER_FIN);
        match *self.state {
            State::Established => *self.state = State::CloseWait,
            // "If our FIN has been ACKed (perhaps in this segment), then enter
            // TIME-WAIT": `on_fin_acked` has handled this; the state is FIN-WAIT-2
            // then.
            State::FinWait1 => *self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// RFC 9293 section 3.10.7.4, fifth: the effect of the ACK of our FIN in each state. Returns
    /// whether the connection is over.
    pub(crate) fn on_fin_acked(&mut self, now: Instant) -> bool {
        match *self.state {
            State::FinWait1 => {
                *self.state = State::FinWait2;
                self.outcome.report(Events::FIN_ACKED);
                if self.flags.contains(Flags::ORPHAN) {
                    self.timers.start_fin_wait(self.cfg, now);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => {
                self.die(None, Events::FIN_ACKED);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Enters TIME-WAIT and turns off all other timers.
    fn enter_time_wait(&mut self, now: Instant) {
        *self.state = State::TimeWait;
        *self.timers = Timers::new();
        self.flight.timer = LossTimer::new();
        self.timers.state = now.after_us(TIME_WAIT_US);
        self.liveness.note_challenge(Instant(0));
        self.outcome.report(Events::TIME_WAIT | Events::FIN_ACKED);
    }

    /// The peer does not answer. If an ICMP error was reported since it last did, that is the
    /// reason that the user is told.
    pub(crate) fn on_unanswered(&mut self) {
        let error = self.outcome.soft_error().unwrap_or(Error::TimedOut);
        if *self.state == State::SynReceived {
            *self.flags |= Flags::RST_DUE | Flags::RST_ACK;
        }
        self.die(Some(error), Events::TIMED_OUT);
    }

    /// The timer that ends a state has expired.
    pub(crate) fn on_state_timeout(&mut self) {
        if matches!(*self.state, State::TimeWait | State::FinWait2) {
            self.die(None, Events::empty());
        }
    }
}

// ---- Both. ----

impl Closing<'_> {
    /// Ends the connection with a reset to the peer.
    pub(crate) fn reset(&mut self, error: Error, also: Events) {
        *self.flags |= Flags::RST_DUE | Flags::RST_ACK;
        self.die(Some(error), also);
    }

    /// Ends the connection: stops all timers, moves to CLOSED and records the reason. What came
    /// out of order will never be in order: its room may be used for something else.
    pub(crate) fn die(&mut self, error: Option<Error>, also: Events) {
        *self.state = State::Closed;
        *self.prediction = Prediction::OFF;
        *self.timers = Timers::new();
        self.flight.timer = LossTimer::new();
        let keep = Flags::RST_DUE | Flags::RST_ACK;
        *self.flags &= keep | !Flags::OWED;
        *self.reassembly = Reassembly::new();
        self.outcome.report(Events::CLOSED | also);
        if error.is_some() {
            self.outcome.set_error(error);
            self.outcome.report(Events::ERROR);
        }
    }

    /// Sets up header prediction for the present state.
    fn predict_next(&mut self) {
        *self.prediction = Prediction::of(
            *self.state,
            *self.flags,
            self.snd,
            self.rcv,
            self.ecn,
            self.reassembly,
            self.flight,
        );
    }
}
