//! Ends of records in the send stream (MSG_EOR), as Linux 4.7 and later have them: no segment,
//! new or retransmitted, has bytes from both sides of one. Two records are apart at the
//! receiver's network card, too, and a sender learns when each has arrived.
//!
//! Owns [`Tcb::end_record`], which the engine calls, and says to `output/` where the next end
//! is. An end is kept until what lies before it is acknowledged, and not saved: whoever restores
//! a connection may merge what was in flight.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::tcb::Tcb;

impl Tcb {
    /// The record that was written last ends at `edge` of the send stream, already announced by
    /// [`set_snd_edge`](Tcb::set_snd_edge): bytes before and after it share no segment from now
    /// on. Returns whether that is kept: it is not if 4,096 ends are not acknowledged.
    pub fn end_record(&mut self, edge: u64) -> bool {
        let end = edge.min(self.snd.edge() as u64) as Pos;
        let una = self.snd.una();
        self.flight.record_ends.acknowledge(una);
        if end <= una.max(0) {
            return true;
        }
        self.flags |= Flags::RECORD_ENDS;
        self.flight.record_ends.insert(end)
    }

    /// Forgets ends that are acknowledged.
    pub(crate) fn forget_record_ends(&mut self) {
        let ends = &mut self.flight.record_ends;
        ends.acknowledge(self.snd.una());
        if ends.is_empty() {
            self.flags.remove(Flags::RECORD_ENDS);
        }
    }

    /// How much of `len` bytes from `start` on belongs to one record.
    #[inline]
    pub(crate) fn within_record(&self, start: Pos, len: i64) -> i64 {
        if !self.flags.contains(Flags::RECORD_ENDS) {
            return len;
        }
        let end = self.flight.record_ends.after(start);
        end.map_or(len, |end| len.min(end - start))
    }

    /// Whether a record ends at `end`.
    #[inline]
    pub(crate) fn ends_record(&self, end: Pos) -> bool {
        self.flags.contains(Flags::RECORD_ENDS) && self.flight.record_ends.contains(end)
    }
}

#[cfg(test)]
mod tests;
