//! Urgent data (RFC 9293 section 3.8.5), with the pointer as in all stacks: it points to
//! the byte after the last urgent one (RFC 6093 section 3.1), and only that one byte is
//! urgent.
//!
//! Owns SND.UP and RCV.UP: [`Tcb::set_snd_urgent`], which the engine calls for data sent
//! with MSG_OOB; the urgent field that `output/` writes into headers while urgent data is
//! in flight; and what `input/` takes from the peer's headers, which the engine passes on
//! after [`Events::URGENT`]. Urgent data stays in the stream: the host decides whether
//! the byte is read in its place or separately (SO_OOBINLINE).

use crate::events::Events;
use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::tcb::Tcb;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

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
}

impl Tcb {
    /// The last byte before `edge` of the send stream, already announced by
    /// [`set_snd_edge`](Tcb::set_snd_edge), is urgent. No small segment is held back
    /// then. A byte that is acknowledged already, or lies before the last urgent one,
    /// changes nothing.
    pub fn set_snd_urgent(&mut self, edge: u64) {
        let up = edge.min(self.snd.edge() as u64) as Pos;
        if up <= self.snd.una().max(0) || up <= self.snd.up() {
            return;
        }
        self.snd.set_up(up);
        self.flags |= Flags::URGENT;
        if self.state.may_transmit_data() && self.snd.nxt() >= self.snd.wnd_edge() {
            // The announcement is sent even if the window has no room for data: it may be
            // what makes the peer's program read.
            self.flags |= Flags::ACK_NOW;
        }
    }

    /// The end of the peer's urgent data, in bytes of the receive stream: the urgent byte
    /// is the one before it, and may not have arrived yet. 0 if there never was any. The
    /// value never decreases.
    #[inline]
    #[must_use]
    pub fn rcv_urgent(&self) -> u64 {
        self.rcv.up() as u64
    }

    /// RFC 9293 section 3.10.7.4, sixth, check the URG bit: "RCV.UP <- max(RCV.UP,
    /// SEG.UP)", for a segment whose first position is `start`. As in Linux, a pointer to
    /// data that has already arrived is ignored.
    pub(crate) fn handle_urgent_pointer(&mut self, header: &TcpHeader, start: Pos) {
        let pointer = Pos::from(header.urgent);
        // A pointer of 0 would point to the byte before the segment: it is taken to mean
        // the segment's first byte, as is a pointer to the byte itself with tcp_stdurg.
        let up = start + pointer + Pos::from(self.cfg.urgent_names_itself || pointer == 0);
        if up <= self.rcv.nxt() || up <= self.rcv.up() {
            return;
        }
        self.rcv.set_up(up);
        self.outcome.events |= Events::URGENT;
    }
}

#[cfg(test)]
mod tests;
