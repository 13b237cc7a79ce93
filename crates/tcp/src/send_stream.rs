//! What the user says of the send stream beyond its edge: urgent data, ends of records, the size
//! of its buffer.
//!
//! Owns [`SendStream`], which [`Tcb::send_stream`](crate::Tcb::send_stream) gives; the engine
//! calls it as descriptors arrive, and after each burst.

use crate::accounting::{Accounting, BufferLimit};
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;

/// The send stream, as the user has it.
#[derive(Debug)]
pub struct SendStream<'t> {
    pub(crate) state: State,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t mut SendSide,
    pub(crate) flight: &'t mut Flight,
    pub(crate) congestion: &'t CongestionState,
    pub(crate) accounting: &'t mut Accounting,
}

impl SendStream<'_> {
    /// The last byte before `edge` of the send stream, already announced by
    /// [`set_snd_edge`](crate::Tcb::set_snd_edge), is urgent. No small segment is held back
    /// then. A byte that is acknowledged already, or lies before the last urgent one,
    /// changes nothing.
    pub fn set_urgent(self, edge: u64) {
        self.snd.set_urgent(self.state, self.flags, edge);
    }

    /// The record that was written last ends at `edge` of the send stream, already announced by
    /// [`set_snd_edge`](crate::Tcb::set_snd_edge): bytes before and after it share no segment from
    /// now on. Returns whether that is kept: it is not if 4,096 ends are not acknowledged.
    pub fn end_record(self, edge: u64) -> bool {
        self.flight.record_ends.end(self.snd, self.flags, edge)
    }

    /// The send buffer has `size` bytes (SO_SNDBUF). Called after each burst, when
    /// everything that may be sent was sent.
    #[inline]
    pub fn note_buffer(self, size: u32, now: Instant) {
        if self.snd.unacknowledged() >= i64::from(size)
            || self.flags.contains(Flags::BUFFER_LIMITED)
        {
            let limit = BufferLimit::of(self.flight, self.snd, self.congestion, self.state, size);
            self.accounting.note_buffer_limit(limit, self.flags, now);
        }
    }
}
