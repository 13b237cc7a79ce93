//! The invariants of a connection between two calls.
//!
//! [`Tcb::check`](crate::Tcb::check) asks each part for those beside its fields; this file
//! has the invariants between parts. Debug builds check after each segment, timeout and
//! user call; the simulation and the fuzz targets check in every build.

use crate::flags::Flags;
use crate::flight::Flight;
use crate::rcv::ReceiveSide;
use crate::snd::SendSide;
use crate::state::State;
use crate::timers::Timers;
use crate::violation::{Violation, require};

impl State {
    /// The state agrees with what the two sides have closed.
    pub(crate) fn check(self, snd: &SendSide, rcv: &ReceiveSide) -> Result<(), Violation> {
        let peer_closed = rcv.is_closed();
        let (fin, acked) = (snd.fin(), snd.fin_acked());
        let agrees = match self {
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
            !self.is_synchronized() || snd.is_synchronized(),
            "a SYN that is not acknowledged, in a synchronized state",
        )
    }
}

impl Timers {
    /// Everything that is owed has a timer that covers it.
    pub(crate) fn check(
        &self,
        state: State,
        flags: Flags,
        snd: &SendSide,
        flight: &Flight,
    ) -> Result<(), Violation> {
        if state == State::TimeWait {
            let alone = Timers {
                state: self.state,
                ..Timers::new()
            };
            require(
                *self == alone && !self.state.is_never(),
                "TIME-WAIT has its own timer and no other",
            )?;
            return Ok(());
        }
        require(
            snd.in_flight() == 0 || flight.timer.is_running(),
            "something is in flight, and no timer runs",
        )?;
        require(
            !flags.contains(Flags::ACK_OWED)
                || flags.contains(Flags::ACK_NOW)
                || !self.ack.is_never(),
            "an acknowledgment is owed, and no timer runs",
        )
    }
}

#[cfg(test)]
mod tests;
