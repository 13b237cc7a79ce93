//! The invariants of a connection between two calls.
//!
//! Owns [`Tcb::check`]. Each part has a `check` of its own beside its fields; this file
//! has the invariants between parts. Debug builds check after each segment, timeout and
//! user call; the simulation and the fuzz targets check in every build.

use crate::flags::Flags;
use crate::state::State;
use crate::tcb::Tcb;
use crate::tcb::UNPREDICTABLE;
use crate::timers::Timers;
use crate::violation::{Violation, require};

impl Tcb {
    /// Checks that the block is consistent; called between two calls of other methods.
    ///
    /// # Errors
    ///
    /// Returns the invariant that does not hold. No segment and no user call may cause
    /// this.
    pub fn check(&self) -> Result<(), Violation> {
        self.snd.check()?;
        self.rcv.check()?;
        self.acks.check(&self.rcv)?;
        self.reassembly.check(&self.rcv)?;
        self.congestion.check()?;
        self.check_prediction()?;
        self.check_state()?;
        if self.state != State::Closed {
            self.flight.check(&self.snd)?;
            self.check_timers()?;
        }
        Ok(())
    }

    /// Header prediction may be off when it could be on, but must be right when it is on.
    fn check_prediction(&self) -> Result<(), Violation> {
        let (control, data) = self.prediction();
        require(
            self.predict == UNPREDICTABLE || self.predict == control,
            "what is predicted is not what follows from the state",
        )?;
        require(
            self.predict == UNPREDICTABLE || !self.predict_data || data,
            "payload is predicted where none may come",
        )
    }

    /// The state agrees with what the two sides have closed.
    fn check_state(&self) -> Result<(), Violation> {
        let peer_closed = self.rcv.is_closed();
        let (fin, acked) = (self.snd.fin(), self.snd.fin_acked());
        let agrees = match self.state {
            State::Closed | State::SynSent | State::SynReceived => true,
            State::Established => !fin && !peer_closed,
            State::FinWait1 => fin && !acked && !peer_closed,
            State::FinWait2 => acked && !peer_closed,
            State::CloseWait => !fin && peer_closed,
            State::Closing | State::LastAck => fin && !acked && peer_closed,
            State::TimeWait => acked && peer_closed,
        };
        require(agrees, "the state is not what the two FINs say")?;
        require(
            !self.state.is_synchronized() || self.snd.is_synchronized(),
            "a SYN that is not acknowledged, in a synchronized state",
        )
    }

    /// Everything that is owed has a timer that covers it.
    fn check_timers(&self) -> Result<(), Violation> {
        if self.state == State::TimeWait {
            let alone = Timers {
                state: self.timers.state,
                ..Timers::new()
            };
            require(
                self.timers == alone && !self.timers.state.is_never(),
                "TIME-WAIT has its own timer and no other",
            )?;
            return Ok(());
        }
        require(
            self.snd.in_flight() == 0 || !self.flight.timer.at.is_never(),
            "something is in flight, and no timer runs",
        )?;
        require(
            !self.flags.contains(Flags::ACK_OWED)
                || self.flags.contains(Flags::ACK_NOW)
                || !self.timers.ack.is_never(),
            "an acknowledgment is owed, and no timer runs",
        )
    }

    /// Panics in debug builds if an invariant does not hold.
    #[inline(always)]
    pub(crate) fn debug_check(&self) {
        #[cfg(debug_assertions)]
        if let Err(violation) = self.check() {
            let (state, flags) = (self.state, self.flags);
            panic!(
                "{violation}: {state:?} {flags:?} {:?} {:?}",
                self.snd, self.rcv
            );
        }
    }
}

#[cfg(test)]
mod tests;
