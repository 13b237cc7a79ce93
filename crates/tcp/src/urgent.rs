//! Urgent data (RFC 9293 section 3.8.5), with the pointer as all stacks have it: it names
//! the byte after the last urgent one (RFC 6093 section 3.1), and what is urgent is that
//! one byte.
//!
//! Owns SND.UP and RCV.UP: [`Tcb::set_snd_urgent`], which the engine calls for what a
//! program sends with MSG_OOB; what `output/` writes into headers while there is urgent
//! data in flight; and what `input/` learns from the headers of the peer, which the
//! engine passes on when [`Events::URGENT`] says so. Urgent data stay in the stream:
//! whether the byte is read in its place or apart is the host's affair (SO_OOBINLINE).

use crate::events::Events;
use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::tcb::Tcb;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

impl SendSide {
    /// Takes the block out of urgent mode once all that is urgent is acknowledged.
    pub(crate) fn end_urgent_mode(&self, flags: &mut Flags) {
        if self.una() >= self.up() {
            flags.remove(Flags::URGENT);
        }
    }

    /// What a segment that begins at `start` says of urgent data: the flag and the pointer.
    pub(crate) fn urgent_field(&self, flags: Flags, start: Pos) -> (TcpFlags, u16) {
        let ahead = self.up() - start;
        if !flags.contains(Flags::URGENT) || ahead <= 0 {
            return (TcpFlags::NONE, 0);
        }
        match u16::try_from(ahead) {
            Ok(pointer) => (TcpFlags::URG, pointer),
            // As far as the field reaches, but not in the middle of what is known to be
            // farther on: only if the peer has not seen so much yet.
            Err(_) if start + Pos::from(u16::MAX) > self.nxt() => (TcpFlags::URG, u16::MAX),
            Err(_) => (TcpFlags::NONE, 0),
        }
    }

    /// Bounds a segment to one packet in urgent mode: one that is cut up later would have
    /// the same pointer in each packet.
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
    /// The last byte before `edge` of the send stream, which
    /// [`set_snd_edge`](Tcb::set_snd_edge) has been told of, is urgent. Nothing of the
    /// stream waits for company any more. A byte that is acknowledged already, or lies
    /// before the last urgent one, changes nothing.
    pub fn set_snd_urgent(&mut self, edge: u64) {
        let up = edge.min(self.snd.edge() as u64) as Pos;
        if up <= self.snd.una().max(0) || up <= self.snd.up() {
            return;
        }
        self.snd.set_up(up);
        self.flags |= Flags::URGENT;
        if self.state.may_transmit_data() && self.snd.nxt() >= self.snd.wnd_edge() {
            // It is told where no data may go: a closed window is what the peer's
            // program is to be roused from.
            self.flags |= Flags::ACK_NOW;
        }
    }

    /// The end of the peer's urgent data, in bytes of the receive stream: the urgent byte
    /// is the one before it, and may not have arrived yet. 0 if there never was any. It
    /// only goes forward.
    #[inline]
    #[must_use]
    pub fn rcv_urgent(&self) -> u64 {
        self.rcv.up() as u64
    }

    /// RFC 9293 section 3.10.7.4, sixth, check the URG bit: "RCV.UP <- max(RCV.UP,
    /// SEG.UP)", for a segment whose first position is `start`. As in Linux, a pointer to
    /// what has arrived before is not believed.
    pub(crate) fn handle_urgent_pointer(&mut self, header: &TcpHeader, start: Pos) {
        let pointer = Pos::from(header.urgent);
        // A pointer of 0 would name the byte before the segment: it is taken for the
        // segment's first byte, as is the pointer that tcp_stdurg has name the byte itself.
        let up = start + pointer + Pos::from(self.cfg.urgent_names_itself || pointer == 0);
        if up <= self.rcv.nxt() || up <= self.rcv.up() {
            return;
        }
        self.rcv.set_up(up);
        self.outcome.events |= Events::URGENT;
    }
}
