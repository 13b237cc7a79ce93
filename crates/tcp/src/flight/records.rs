//! Ends of records in the send stream (MSG_EOR), as Linux 4.7 and later have them: no segment,
//! new or retransmitted, has bytes from both sides of one. Two records are apart at the
//! receiver's network card, too, and a sender learns when each has arrived.
//!
//! Owns [`Flight::end_record`], and says to `output/` where the next end
//! is. An end is kept until what lies before it is acknowledged, and not saved: whoever restores
//! a connection may merge what was in flight.

use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::snd::SendSide;

impl Flight {
    /// The record that was written last ends at `edge` of the send stream. Returns whether
    /// that is kept.
    pub(crate) fn end_record(&mut self, snd: &SendSide, flags: &mut Flags, edge: u64) -> bool {
        let end = edge.min(snd.edge() as u64) as Pos;
        let una = snd.una();
        self.record_ends.acknowledge(una);
        if end <= una.max(0) {
            return true;
        }
        *flags |= Flags::RECORD_ENDS;
        self.record_ends.insert(end)
    }

    /// Forgets ends that are acknowledged.
    pub(crate) fn forget_record_ends(&mut self, snd: &SendSide, flags: &mut Flags) {
        self.record_ends.acknowledge(snd.una());
        if self.record_ends.is_empty() {
            flags.remove(Flags::RECORD_ENDS);
        }
    }

    /// How much of `len` bytes from `start` on belongs to one record.
    #[inline]
    pub(crate) fn within_record(&self, flags: Flags, start: Pos, len: i64) -> i64 {
        if !flags.contains(Flags::RECORD_ENDS) {
            return len;
        }
        let end = self.record_ends.after(start);
        end.map_or(len, |end| len.min(end - start))
    }

    /// Whether a record ends at `end`.
    #[inline]
    pub(crate) fn ends_record(&self, flags: Flags, end: Pos) -> bool {
        flags.contains(Flags::RECORD_ENDS) && self.record_ends.contains(end)
    }

    /// The last boundary of segments before `end`, which is SND.NXT, that a retransmission
    /// keeps, as Linux does: the end of a record, or of the data before a FIN that was sent
    /// alone.
    pub(crate) fn last_boundary(&self, snd: &SendSide, flags: Flags, end: Pos) -> Pos {
        if flags.contains(Flags::FIN_ALONE) {
            return snd.edge();
        }
        let record = self.record_ends.before(end.min(snd.edge()));
        record.unwrap_or(Pos::MIN)
    }
}

#[cfg(test)]
mod tests;
