//! What the next segment is expected to look like.
//!
//! Owns [`Prediction`], which is part of the `Tcb`. It is derived anew after each pass of the
//! slow path; `input/fast_path.rs` compares each segment with it, `output/fast_path.rs` takes
//! it as a sign that nothing unusual is going on.

use crate::ecn::EcnState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::NO_POS;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::state::State;
use crate::violation::{Violation, require};
use longshore_wire::tcp::{TcpFlags, control};

/// The half word when no segment is expected: a data offset of 15 words with flags that
/// exclude each other, which no segment has.
const NONE: u16 = u16::MAX;

/// Data offset and flags of the expected segment, and whether it may carry payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Prediction {
    /// As bytes, so that the state fits beside it.
    control: [u8; 2],
    data: bool,
}

impl Prediction {
    /// No segment is expected: all take the slow path.
    pub(crate) const OFF: Prediction = Prediction {
        control: NONE.to_ne_bytes(),
        data: false,
    };

    /// What follows from the present state.
    pub(crate) fn of(
        state: State,
        flags: Flags,
        snd: &SendSide,
        rcv: &ReceiveSide,
        ecn: &EcnState,
        reassembly: &Reassembly,
        flight: &Flight,
    ) -> Prediction {
        let plain = !matches!(
            state,
            State::Closed | State::SynSent | State::SynReceived | State::TimeWait
        ) && reassembly.ranges.is_empty()
            && flight.scoreboard.is_in_order(snd.una())
            && flight.recovery.is_quiet()
            && !flight.recovery.probe.is_outstanding()
            && !flight.mtu.is_probing()
            && flight.recovery.dup_acks == 0
            && ecn.is_predictable()
            && !flags.intersects(Flags::SHORT_OF_ROOM)
            && snd.wl1() <= rcv.nxt()
            && (rcv.fin() == NO_POS || rcv.is_closed());
        if !plain {
            return Prediction::OFF;
        }
        Prediction {
            control: control(TcpFlags::ACK, flags.contains(Flags::TIMESTAMPS)).to_ne_bytes(),
            data: state.may_receive_data() && !flags.intersects(Flags::RCV_SHUT | Flags::ORPHAN),
        }
    }

    /// The expected data offset and flags, as in [`control`].
    #[inline(always)]
    pub(crate) const fn control(self) -> u16 {
        u16::from_ne_bytes(self.control)
    }

    /// Whether a segment is expected.
    #[inline(always)]
    pub(crate) const fn is_on(self) -> bool {
        self.control() != NONE
    }

    /// Whether the expected segment may carry payload.
    #[inline(always)]
    pub(crate) const fn has_data(self) -> bool {
        self.data
    }

    /// Prediction may be off when it could be on, but must be right when it is on: `derived` is
    /// what follows from the state.
    pub(crate) fn check(self, derived: Prediction) -> Result<(), Violation> {
        require(
            !self.is_on() || self.control == derived.control,
            "what is predicted is not what follows from the state",
        )?;
        require(
            !self.is_on() || !self.data || derived.data,
            "payload is predicted where none may come",
        )
    }
}
