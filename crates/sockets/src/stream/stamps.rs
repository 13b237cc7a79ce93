//! When what was written left, and was acknowledged: the engine is asked to say so of the last byte of a
//! write, before it is told of the bytes, and keeps the answers with its reports of errors
//! ([`Queries::take_error_report`](crate::Queries::take_error_report)).

use super::send::{Reserved, SendStream};
use crate::errors::SocketError;
use crate::turn::Wake;
use longshore_hostif::{OptionName, Request};
use std::sync::atomic::Ordering;

bitflags::bitflags! {
    /// What is to be told of each write, as the bits of
    /// [`OptionName::StampSent`](longshore_hostif::OptionName).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct StampedWhen: u8 {
        /// When it is about to leave.
        const SCHEDULED = 1;
        /// When it has left.
        const SENT = 2;
        /// When all up to its end is acknowledged.
        const ACKNOWLEDGED = 4;
        /// The packet of a datagram, too.
        const WITH_PACKET = 8;
    }
}

// Flags of SO_TIMESTAMPING.
const TX_HARDWARE: u32 = 1;
const TX_SOFTWARE: u32 = 1 << 1;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;

impl StampedWhen {
    /// What these flags of SO_TIMESTAMPING ask for.
    fn of_flags(flags: u32) -> Self {
        let mut when = Self::empty();
        when.set(Self::SCHEDULED, flags & TX_SCHED != 0);
        when.set(Self::SENT, flags & TX_SOFTWARE != 0);
        when.set(Self::ACKNOWLEDGED, flags & TX_ACK != 0);
        when
    }

    /// What they ask for of a datagram, beside which `said` may say it otherwise; `None` if nothing is
    /// asked for. What is asked of hardware alone yields nothing, but such a datagram is counted.
    fn of_datagram(flags: u32, said: Option<u32>) -> Option<Self> {
        let asked = said.unwrap_or(flags);
        if asked & (TX_HARDWARE | TX_SOFTWARE | TX_SCHED) == 0 {
            return None;
        }
        let mut when = Self::of_flags(asked) - Self::ACKNOWLEDGED;
        when.set(Self::WITH_PACKET, flags & OPT_TSONLY == 0);
        Some(when)
    }
}

/// The bits of a position of a stream.
const POSITION: u32 = 48;

impl SendStream<'_> {
    /// What is told of each write, as SO_TIMESTAMPING says.
    #[inline]
    pub fn stamped_when(self) -> StampedWhen {
        StampedWhen::of_flags(self.timestamping())
    }

    /// The flags of SO_TIMESTAMPING.
    #[inline]
    fn timestamping(self) -> u32 {
        use crate::block_words::more_bits::TIMESTAMPING_SHIFT;
        (self.block.more_bits().load(Ordering::Relaxed) >> TIMESTAMPING_SHIFT) as u32
    }

    /// Asks for that of what is written up to `edge`.
    pub(super) fn ask_for_stamps(self, edge: u64) -> Result<(), SocketError> {
        let when = self.stamped_when();
        if when.is_empty() {
            return Ok(());
        }
        self.ask_at(edge, when)
    }

    fn ask_at(self, edge: u64, when: StampedWhen) -> Result<(), SocketError> {
        if edge >> POSITION != 0 {
            return Ok(());
        }
        let request = Request::SetOption {
            socket: self.socket.id,
            name: OptionName::StampSent,
            value: edge | u64::from(when.bits()) << POSITION,
        };
        self.socket.host.messages().report(&request, Wake::Never)
    }
}

impl Reserved<'_> {
    /// Asks when the datagram leaves whose record takes the first `span` bytes, if its socket's
    /// program wants to know, as it has `said` beside it or for all.
    #[inline]
    pub(crate) fn ask_for_stamp(&self, span: usize, said: Option<u32>) -> Result<(), SocketError> {
        let when = StampedWhen::of_datagram(self.stream.timestamping(), said);
        match when {
            None => Ok(()),
            Some(when) => self.stream.ask_at(self.edge + span as u64, when),
        }
    }
}

#[cfg(test)]
mod tests;
