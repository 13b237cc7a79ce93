//! Urgent data (RFC 9293 section 3.8.5), with the pointer as in all stacks: it points to
//! the byte after the last urgent one (RFC 6093 section 3.1), and only that one byte is
//! urgent.
//!
//! Owns what is done with SND.UP: [`SendSide::set_urgent`], called for data sent with
//! MSG_OOB, and the urgent field that `output/` writes into headers while urgent data is in
//! flight. RCV.UP is the receive side's, which takes it from the peer's headers. Urgent data
//! stays in the stream: the host decides whether the byte is read in its place or separately
//! (SO_OOBINLINE).

use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::state::State;
use longshore_wire::tcp::TcpFlags;

impl SendSide {
    /// Ends urgent mode once all urgent data is acknowledged.
    pub(crate) fn end_urgent_mode(&self, flags: &mut Flags) {
        if self.una() >= self.up() {
            flags.remove(Flags::URGENT);
        }
    }

    /// The flag and the urgent pointer of a segment that begins at `start`.
    pub(crate) fn urgent_field(&self, flags: Flags, start: Pos) -> (TcpFlags, u16) {
        let ahead = self.up() - start;
        if !flags.contains(Flags::URGENT) || ahead <= 0 {
            return (TcpFlags::NONE, 0);
        }
        match u16::try_from(ahead) {
            Ok(pointer) => (TcpFlags::URG, pointer),
            // The pointer is saturated, but only if the peer has not received that much
            // yet; otherwise it would point into data that is known not to be urgent.
            Err(_) if start + Pos::from(u16::MAX) > self.nxt() => (TcpFlags::URG, u16::MAX),
            Err(_) => (TcpFlags::NONE, 0),
        }
    }

    /// Bounds a segment to one packet in urgent mode: if it were segmented later, each
    /// packet would have the same pointer.
    #[inline]
    pub(crate) fn urgent_payload(&self, flags: Flags, max_payload: usize) -> usize {
        if flags.contains(Flags::URGENT) {
            max_payload.min(usize::from(self.mss()))
        } else {
            max_payload
        }
    }

    /// The last byte before `edge` of the send stream is urgent. No small segment is held
    /// back then. A byte that is acknowledged already, or lies before the last urgent one,
    /// changes nothing.
    pub(crate) fn set_urgent(&mut self, state: State, flags: &mut Flags, edge: u64) {
        let up = edge.min(self.edge() as u64) as Pos;
        if up <= self.una().max(0) || up <= self.up() {
            return;
        }
        self.set_up(up);
        *flags |= Flags::URGENT;
        if state.may_transmit_data() && self.nxt() >= self.wnd_edge() {
            // The announcement is sent even if the window has no room for data: it may be
            // what makes the peer's program read.
            *flags |= Flags::ACK_NOW;
        }
    }
}

#[cfg(test)]
mod tests;
