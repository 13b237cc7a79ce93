//! The states of RFC 9293 section 3.3.2 and what each permits.
//!
//! Owns [`State`] and its predicates. LISTEN is not among them: a listener is no
//! connection and has a type of its own.

use crate::codec::saved_enum;

/// The state of a connection. The numbers are Linux's (`tcpi_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum State {
    /// Both directions are open.
    Established = 1,
    /// We have sent a SYN (active open).
    SynSent = 2,
    /// A SYN has arrived and ours is not acknowledged yet.
    SynReceived = 3,
    /// We have closed; our FIN is not acknowledged.
    FinWait1 = 4,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2 = 5,
    /// Both sides have closed; the last acknowledgment may have to be retransmitted.
    TimeWait = 6,
    /// There is no connection (any more).
    #[default]
    Closed = 7,
    /// The peer has closed; we may still send.
    CloseWait = 8,
    /// The peer has closed, then we have; our FIN is not acknowledged.
    LastAck = 9,
    /// Both sides have closed at the same time; our FIN is not acknowledged.
    Closing = 11,
}

saved_enum!(State {
    Established = 1,
    SynSent = 2,
    SynReceived = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    TimeWait = 6,
    Closed = 7,
    CloseWait = 8,
    LastAck = 9,
    Closing = 11,
});

impl State {
    /// All states, for tables.
    pub const ALL: [State; 10] = [
        State::Established,
        State::SynSent,
        State::SynReceived,
        State::FinWait1,
        State::FinWait2,
        State::TimeWait,
        State::Closed,
        State::CloseWait,
        State::LastAck,
        State::Closing,
    ];

    /// The state's name in the output of `ss`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Established => "ESTAB",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "CLOSED",
            State::CloseWait => "CLOSE-WAIT",
            State::LastAck => "LAST-ACK",
            State::Closing => "CLOSING",
        }
    }

    /// Whether the handshake is complete (RFC 9293: the synchronized states from
    /// ESTABLISHED on).
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// Whether our SYN is not acknowledged yet.
    #[must_use]
    pub const fn is_opening(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived)
    }

    /// Whether the user may still write to the send stream. Before the handshake is
    /// complete, data is only queued.
    #[must_use]
    pub const fn may_write(self) -> bool {
        matches!(
            self,
            State::SynSent | State::SynReceived | State::Established | State::CloseWait
        )
    }

    /// Whether payload and FIN may be sent in this state.
    #[must_use]
    #[inline]
    pub(crate) const fn may_transmit_data(self) -> bool {
        matches!(
            self,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }

    /// Whether the peer may still send payload.
    #[must_use]
    pub const fn may_receive_data(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }
}
