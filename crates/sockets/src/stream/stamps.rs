//! When what was written left, and was acknowledged: the engine is asked to say so of the last byte of a
//! write, before it is told of the bytes, and keeps the answers with its reports of errors
//! ([`Queries::take_error_report`](crate::Queries::take_error_report)).

use super::send::SendStream;
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
    }
}

/// The bits of a position of a stream.
const POSITION: u32 = 48;

impl SendStream<'_> {
    /// What is told of each write, as SO_TIMESTAMPING says.
    #[inline]
    pub fn stamped_when(self) -> StampedWhen {
        use crate::block_words::more_bits::TIMESTAMPING_SHIFT;
        let flags = self.block.more_bits().load(Ordering::Relaxed) >> TIMESTAMPING_SHIFT;
        // SOF_TIMESTAMPING_TX_SCHED, TX_SOFTWARE, TX_ACK.
        let bit = |bit: u32, when: StampedWhen| match flags >> bit & 1 {
            0 => StampedWhen::empty(),
            _ => when,
        };
        bit(8, StampedWhen::SCHEDULED)
            | bit(1, StampedWhen::SENT)
            | bit(9, StampedWhen::ACKNOWLEDGED)
    }

    /// Asks for that of what is written up to `edge`.
    pub(super) fn ask_for_stamps(self, edge: u64) -> Result<(), SocketError> {
        let when = self.stamped_when();
        if when.is_empty() || edge >> POSITION != 0 {
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
