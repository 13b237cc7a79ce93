//! The receive side: its position in sequence space, the advertised window, and how much
//! the user has read.
//!
//! Owns [`ReceiveSide`], which is part of the `Tcb`. `input/data.rs` and `input/fin.rs`
//! advance RCV.NXT, `rcv/window.rs` decides what is advertised, `user.rs` reports what was
//! read. Data beyond RCV.NXT is in `reassembly.rs`.

mod window;

use crate::codec::saved_part;
use crate::config::Config;
use crate::drop::DropReason;
use crate::events::Events;
use crate::outcome::Outcome;
use crate::pos::{MAX_POS, NO_POS, Pos};
use crate::receive_buffer::ReceiveBuffer;
use crate::snd::MIN_MSS;
use crate::violation::{Violation, require};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;

/// Sequence space, window and edges of the receive stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ReceiveSide {
    // ---- Read and changed by header prediction: see `Tcb`. ----
    /// RCV.NXT.
    nxt: Pos,
    /// The right edge of the window that we have advertised.
    adv: Pos,
    /// The sequence number of position 0 (IRS + 1).
    base: u32,
    /// The MSS that our SYN advertises.
    mss: u16,
    /// The shift of our windows.
    wscale: u8,
    /// Bytes of options in every segment of the peer.
    options: u8,

    // ---- Other fields. ----
    /// How far the user has read.
    consumed: Pos,
    /// The position of the peer's FIN, `NO_POS` if unknown.
    fin: Pos,
    /// RCV.UP: the position after the last urgent byte that the peer announced; 0 if
    /// none.
    up: Pos,
    pub(crate) buffer: ReceiveBuffer,
}

saved_part!(ReceiveSide {
    saved {
        nxt, adv, base, mss, wscale, options, consumed, fin, up, buffer,
    }
});

impl ReceiveSide {
    /// Length of the front part that header prediction reads and changes, bytes.
    pub(crate) const HOT: usize = core::mem::offset_of!(ReceiveSide, consumed);

    /// Nothing has been received. `mss` is what our SYN advertises.
    pub(crate) const fn new(mss: u16, wscale: u8, buffer: ReceiveBuffer) -> ReceiveSide {
        ReceiveSide {
            nxt: 0,
            adv: 0,
            base: 0,
            mss,
            wscale,
            options: 0,
            consumed: 0,
            fin: NO_POS,
            up: 0,
            buffer,
        }
    }

    /// RCV.NXT.
    #[inline(always)]
    pub(crate) const fn nxt(&self) -> Pos {
        self.nxt
    }

    /// The right edge of the window that we have advertised.
    #[inline(always)]
    pub(crate) const fn adv(&self) -> Pos {
        self.adv
    }

    /// The MSS that our SYN advertises.
    #[inline(always)]
    pub(crate) const fn mss(&self) -> u16 {
        self.mss
    }

    /// The shift of our windows.
    #[inline(always)]
    pub(crate) const fn wscale(&self) -> u8 {
        self.wscale
    }

    /// How far the user has read.
    #[inline(always)]
    pub(crate) const fn consumed(&self) -> Pos {
        self.consumed
    }

    /// The position of the peer's FIN, `NO_POS` if unknown.
    #[inline(always)]
    pub(crate) const fn fin(&self) -> Pos {
        self.fin
    }

    /// RCV.UP: the position after the last urgent byte that the peer announced; 0 if
    /// none.
    #[inline(always)]
    pub(crate) const fn up(&self) -> Pos {
        self.up
    }

    /// The end of what may be read, in bytes: everything below has arrived in order.
    #[inline(always)]
    pub(crate) fn readable(&self) -> u64 {
        // Neither is negative: see `check`.
        self.nxt.min(self.fin) as u64
    }

    /// Whether the peer has closed its direction and everything before its FIN has
    /// arrived.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.nxt > self.fin
    }

    /// Largest payload of the peer's segments, as advertised and less its options, bytes.
    #[inline(always)]
    pub(crate) fn full_segment(&self) -> u16 {
        self.mss - u16::from(self.options)
    }

    /// Bytes of options in every segment of the peer.
    pub(crate) const fn options(&self) -> u8 {
        self.options
    }

    // ---- The handshake. ----

    /// The peer's SYN has this sequence number.
    pub(crate) fn handle_syn(&mut self, seq: SeqNumber) {
        self.base = seq.0.wrapping_add(1);
        self.nxt = 0;
    }

    /// Sets the shift of our windows.
    pub(crate) fn scale(&mut self, shift: u8) {
        self.wscale = shift;
    }

    /// Every segment of the peer has `len` bytes of options.
    pub(crate) fn set_options_len(&mut self, len: u16) {
        self.options = len as u8;
    }

    /// Our SYN advertises at most this MSS.
    pub(crate) fn bound_mss(&mut self, mss: u16) {
        self.mss = self.mss.min(mss);
    }

    // ---- Segments. ----

    /// Advances RCV.NXT to `nxt`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, nxt: Pos) {
        self.nxt = nxt;
    }

    /// A segment advertises a window up to `edge`; the edge that arriving data is checked
    /// against never moves back.
    pub(crate) fn advertise_to(&mut self, edge: Pos) {
        self.adv = self.adv.max(edge);
    }

    /// The peer's stream ends at `end`.
    #[cfg(test)]
    pub(crate) fn set_fin(&mut self, end: Pos) {
        self.fin = end;
    }

    /// Advances RCV.NXT over the FIN.
    pub(crate) fn handle_fin(&mut self) {
        self.nxt += 1;
        self.advertise_to(self.nxt);
    }

    /// The peer has announced urgent data before `up`.
    pub(crate) fn set_up(&mut self, up: Pos) {
        self.up = up;
    }

    // ---- The user. ----

    /// The user has read up to `edge`.
    pub(crate) fn consume(&mut self, edge: Pos) {
        self.consumed = edge;
    }

    /// The sequence number of a position.
    #[inline(always)]
    pub(crate) fn seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.base.wrapping_add(pos as u32))
    }

    /// The position of a sequence number that is nearest to RCV.NXT.
    pub(crate) fn pos(&self, seq: SeqNumber) -> Pos {
        let nxt = self.base.wrapping_add(self.nxt as u32);
        self.nxt + i64::from(seq.0.wrapping_sub(nxt) as i32)
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self) -> Result<(), Violation> {
        require(self.nxt >= 0, "received before the SYN")?;
        require(self.fin >= 0, "a FIN before the first byte")?;
        require(self.nxt <= self.adv, "received beyond the window")?;
        let end = self.fin.saturating_add(1);
        require(self.nxt <= end, "received beyond the peer's FIN")?;
        let read = u64::try_from(self.consumed);
        let all_came = read.is_ok_and(|read| read <= self.readable());
        require(all_came, "read beyond what has come")?;
        require(self.wscale <= 14, "a window scale beyond 14")
    }

    /// Whether the user has not read all that may be read.
    pub(crate) fn has_unread(&self) -> bool {
        self.readable() as Pos > self.consumed()
    }

    /// Trims payload to what is new and fits: from RCV.NXT to the end of the
    /// advertised window, and to the peer's FIN if that is known.
    pub(crate) fn trim(&self, start: Pos, end: Pos) -> (Pos, Pos, Option<DropReason>) {
        let start = start.max(self.nxt);
        let mut end = end;
        let mut cut = None;
        if end > self.adv() {
            end = self.adv();
            cut = Some(DropReason::BeyondWindow);
        }
        if end > self.fin() {
            end = self.fin();
            cut = Some(DropReason::AfterFin);
        }
        (start, end, cut)
    }

    /// The peer's FIN is at `end`, and payload up to `last` has been placed. The first FIN
    /// decides; one that contradicts data received beyond it is ignored.
    pub(crate) fn note_fin(&mut self, end: Pos, last: Pos) {
        if self.fin == NO_POS && last <= end && end >= self.nxt {
            self.fin = end;
        }
    }

    /// RFC 9293 section 3.10.7.4, sixth, check the URG bit: "RCV.UP <- max(RCV.UP,
    /// SEG.UP)", for a segment whose first position is `start`. As in Linux, a pointer to
    /// data that has already arrived is ignored.
    pub(crate) fn handle_urgent_pointer(
        &mut self,
        cfg: &Config,
        outcome: &mut Outcome,
        header: &TcpHeader,
        start: Pos,
    ) {
        let pointer = Pos::from(header.urgent);
        // A pointer of 0 would point to the byte before the segment: it is taken to mean
        // the segment's first byte, as is a pointer to the byte itself with tcp_stdurg.
        let up = start + pointer + Pos::from(cfg.urgent_names_itself || pointer == 0);
        if up <= self.nxt() || up <= self.up() {
            return;
        }
        self.set_up(up);
        outcome.report(Events::URGENT);
    }

    /// The invariants of saved state, with those of [`check`](Self::check).
    pub(crate) fn check_saved(&self) -> Result<(), Violation> {
        let low = self.adv() < MAX_POS && self.up() <= MAX_POS;
        require(low && self.up() >= 0, "a receive stream that is too long")?;
        self.check()?;
        require(self.mss() >= MIN_MSS, "segments that are shorter than any")
    }
}

#[cfg(test)]
mod tests;
