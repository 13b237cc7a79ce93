//! The send side: its position in sequence space, the peer's window, and how much the
//! user has written.
//!
//! Owns [`SendSide`], which is part of the `Tcb`. `input/ack.rs` advances SND.UNA and the
//! window, `output/` SND.NXT, `user.rs` the edge of written data. The state of each range
//! in flight is in `flight.rs`.

mod urgent;

use crate::codec::saved_part;
use crate::pos::{MAX_POS, Pos, SYN_POS};
use crate::rtt::RttEstimator;
use crate::violation::{Violation, require};
use longshore_wire::SeqNumber;

/// The smallest MSS that is accepted; a smaller one would waste both ends' time.
pub(crate) const MIN_MSS: u16 = 48;

/// The MSS of a peer that does not send the option (RFC 9293 section 3.7.1): what fits
/// the smallest packet that every host accepts.
pub(crate) const fn default_mss(ipv6: bool) -> u16 {
    if ipv6 { 1220 } else { 536 }
}

/// Sequence space, window and edges of the send stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SendSide {
    // ---- Read and changed by header prediction: see `Tcb`. ----
    /// SND.UNA.
    una: Pos,
    /// SND.NXT: the position after everything sent; it never goes back.
    nxt: Pos,
    /// The end of what the user has written.
    edge: Pos,
    /// SND.WL1 and SND.WL2, of the segment that last updated the window.
    wl1: Pos,
    wl2: Pos,
    /// The sequence number of position 0 (ISS + 1).
    base: u32,
    /// SND.WND, bytes.
    wnd: u32,
    /// The largest window that the peer has offered (MAX.SND.WND).
    max_wnd: u32,
    /// Payload of a full segment with the usual options, bytes.
    mss: u16,
    /// The shift of the peer's windows.
    wscale: u8,
    /// Bytes of options in every segment.
    options: u8,

    // ---- Other fields. ----
    /// Data up to here need not wait for more to be written.
    push: Pos,
    /// The end of the last small segment that was sent (Minshall's variant of Nagle).
    small: Pos,
    /// SND.UP: the position after the last urgent byte sent; 0 if there was none.
    up: Pos,
    /// The MSS that the peer's SYN advertised.
    peer_mss: u16,
    /// The MSS that the path allows in our direction, without options.
    path_mss: u16,
    /// The user's bound of the segment size (TCP_MAXSEG), 0 for none.
    bound: u16,
    /// The user has closed: the stream ends at `edge`, and a FIN follows it.
    fin: bool,
    /// The peer reports out-of-order data by SACK (RFC 2018 was negotiated).
    sack: bool,
    pub(crate) rtt: RttEstimator,
}

saved_part!(SendSide {
    saved {
        una, nxt, edge, wl1, wl2, base, wnd, max_wnd, mss, wscale, options, push, small, up,
        peer_mss, path_mss, bound, fin, sack, rtt,
    }
});

impl SendSide {
    /// Length of the front part that header prediction reads and changes, bytes.
    pub(crate) const HOT: usize = core::mem::offset_of!(SendSide, push);

    /// Nothing has been sent. `mss` is the initial segment size, `peer_mss` that of a
    /// peer that does not advertise one, `path_mss` that of the interface and `bound`
    /// that of the user, all in bytes.
    pub(crate) const fn new(
        iss: SeqNumber,
        mss: u16,
        peer_mss: u16,
        path_mss: u16,
        bound: u16,
    ) -> SendSide {
        SendSide {
            una: SYN_POS,
            nxt: SYN_POS,
            edge: 0,
            wl1: SYN_POS,
            wl2: SYN_POS,
            base: iss.0.wrapping_add(1),
            wnd: 0,
            max_wnd: 0,
            mss,
            wscale: 0,
            options: 0,
            push: 0,
            small: SYN_POS,
            up: 0,
            peer_mss,
            path_mss,
            bound,
            fin: false,
            sack: false,
            rtt: RttEstimator::new(),
        }
    }

    /// SND.UNA.
    #[inline(always)]
    pub(crate) const fn una(&self) -> Pos {
        self.una
    }

    /// SND.NXT: the position after everything sent.
    #[inline(always)]
    pub(crate) const fn nxt(&self) -> Pos {
        self.nxt
    }

    /// The end of what the user has written.
    #[inline(always)]
    pub(crate) const fn edge(&self) -> Pos {
        self.edge
    }

    /// SND.WL1: the start of the segment that last updated the window.
    #[inline(always)]
    pub(crate) const fn wl1(&self) -> Pos {
        self.wl1
    }

    /// SND.WND, bytes.
    #[inline(always)]
    pub(crate) const fn wnd(&self) -> u32 {
        self.wnd
    }

    /// The largest window that the peer has offered, bytes.
    #[inline(always)]
    pub(crate) const fn max_wnd(&self) -> u32 {
        self.max_wnd
    }

    /// Payload of a full segment with the usual options, bytes.
    #[inline(always)]
    pub(crate) const fn mss(&self) -> u16 {
        self.mss
    }

    /// The shift of the peer's windows.
    #[inline(always)]
    pub(crate) const fn wscale(&self) -> u8 {
        self.wscale
    }

    /// Bytes of options in every segment.
    #[inline(always)]
    pub(crate) const fn options(&self) -> u8 {
        self.options
    }

    /// Data up to here need not wait for more to be written.
    #[inline(always)]
    pub(crate) const fn push(&self) -> Pos {
        self.push
    }

    /// The end of the last small segment that was sent.
    #[inline(always)]
    pub(crate) const fn small(&self) -> Pos {
        self.small
    }

    /// SND.UP: the position after the last urgent byte sent; 0 if there was none.
    #[inline(always)]
    pub(crate) const fn up(&self) -> Pos {
        self.up
    }

    /// The MSS that the peer's SYN advertised.
    #[inline(always)]
    pub(crate) const fn peer_mss(&self) -> u16 {
        self.peer_mss
    }

    /// The MSS that the path allows, without options.
    #[inline(always)]
    pub(crate) const fn path_mss(&self) -> u16 {
        self.path_mss
    }

    /// The bound of segments in use, in the units of [`path_mss`](Self::path_mss).
    pub(crate) fn path_mss_used(&self) -> u16 {
        self.mss + u16::from(self.options)
    }

    /// Whether the user has closed: a FIN follows `edge`.
    #[inline(always)]
    pub(crate) const fn fin(&self) -> bool {
        self.fin
    }

    /// Whether the peer reports out-of-order data by SACK.
    #[inline(always)]
    pub(crate) const fn sack(&self) -> bool {
        self.sack
    }

    /// The sequence number of a position.
    #[inline(always)]
    pub(crate) fn seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.base.wrapping_add(pos as u32))
    }

    /// The position of a sequence number that is nearest to SND.UNA.
    pub(crate) fn pos(&self, seq: SeqNumber) -> Pos {
        let una = self.base.wrapping_add(self.una as u32);
        self.una + i64::from(seq.0.wrapping_sub(una) as i32)
    }

    /// Bytes (with SYN and FIN) that were sent and are not acknowledged.
    #[inline(always)]
    pub(crate) fn in_flight(&self) -> u64 {
        (self.nxt - self.una) as u64
    }

    /// Bytes that were written and are not acknowledged.
    #[inline]
    pub(crate) fn unacknowledged(&self) -> Pos {
        self.edge - self.una
    }

    /// Whether our SYN is acknowledged.
    #[inline(always)]
    pub(crate) fn is_synchronized(&self) -> bool {
        self.una > SYN_POS
    }

    /// The end of the acknowledged data, at most the end of the written data.
    #[inline(always)]
    pub(crate) fn acked(&self) -> u64 {
        self.una.min(self.edge).max(0) as u64
    }

    /// The end of the data that was sent at least once, at most the end of the written
    /// data.
    pub(crate) fn sent(&self) -> u64 {
        self.nxt.min(self.edge).max(0) as u64
    }

    /// Whether the peer has acknowledged the user's FIN.
    #[inline(always)]
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin && self.una > self.edge
    }

    /// The position after everything to be sent, the FIN included.
    #[inline(always)]
    pub(crate) fn end(&self) -> Pos {
        self.edge + i64::from(self.fin)
    }

    /// The right edge of the peer's window.
    #[inline(always)]
    pub(crate) fn wnd_edge(&self) -> Pos {
        self.una.max(0) + i64::from(self.wnd)
    }

    // ---- The handshake. ----

    /// The peer's SYN advertises its MSS and its window, which is never scaled in a SYN
    /// (RFC 7323 section 2.2).
    pub(crate) fn handle_syn(&mut self, mss: u16, window: u16) {
        self.peer_mss = mss;
        self.wnd = u32::from(window);
        self.max_wnd = self.wnd;
        self.wl1 = SYN_POS;
    }

    /// Sets the shift of the peer's windows (RFC 7323 section 2.3: "if a value greater
    /// than 14 is received, log it and use 14").
    pub(crate) fn scale(&mut self, shift: u8) {
        self.wscale = if shift < 14 { shift } else { 14 };
    }

    /// Every segment has `len` bytes of options.
    pub(crate) fn set_options_len(&mut self, len: u16) {
        self.options = len as u8;
    }

    /// Sets whether the peer reports out-of-order data by SACK.
    pub(crate) fn set_sack(&mut self, sack: bool) {
        self.sack = sack;
    }

    /// The acknowledgment of our SYN covers everything before `ack`.
    pub(crate) fn handle_first_ack(&mut self, ack: Pos) {
        self.una = ack;
        self.wl2 = ack;
    }

    /// As [`handle_syn`](Self::handle_syn), without the window.
    #[cfg(test)]
    pub(crate) fn set_peer_mss(&mut self, mss: u16) {
        self.peer_mss = mss;
    }

    // ---- Segments. ----

    /// SND.UNA <- SEG.ACK.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, ack: Pos) {
        self.una = ack;
    }

    /// Everything before `end` has been sent.
    #[inline(always)]
    pub(crate) fn advance(&mut self, end: Pos) {
        self.nxt = end;
    }

    /// A segment that begins at `start` and acknowledges everything before `ack`
    /// advertises this window, in bytes.
    #[inline(always)]
    pub(crate) fn take_window(&mut self, start: Pos, ack: Pos, window: u32) {
        self.wl1 = start;
        self.wl2 = ack;
        if window != self.wnd {
            self.wnd = window;
            self.max_wnd = self.max_wnd.max(window);
        }
    }

    /// Whether a segment's window is newer than the present one. RFC 9293 section
    /// 3.10.7.4: "If SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK)". As
    /// in Linux, a segment that acknowledges new data is newer in any case, even if its
    /// own data was reordered; with the old window, the right edge would advance although
    /// the peer did not say so.
    pub(crate) fn is_newer_window(&self, start: Pos, ack: Pos) -> bool {
        ack >= self.una
            && (self.una < ack || self.wl1 < start || (self.wl1 == start && self.wl2 <= ack))
    }

    /// A segment that ends at `end` was small; also restores an [earlier
    /// value](Self::small).
    #[inline(always)]
    pub(crate) fn set_small(&mut self, end: Pos) {
        self.small = end;
    }

    // ---- The user. ----

    /// The user has written up to `edge`; it never goes back.
    pub(crate) fn write(&mut self, edge: Pos) {
        self.edge = self.edge.max(edge);
    }

    /// None of the written data has to wait for more.
    pub(crate) fn set_push(&mut self) {
        self.push = self.edge;
    }

    /// The user has closed the stream.
    pub(crate) fn close(&mut self) {
        self.fin = true;
        self.push = self.edge;
    }

    /// The last byte before `up` is urgent.
    pub(crate) fn set_up(&mut self, up: Pos) {
        self.up = up;
    }

    // ---- The size of segments. ----

    /// The path takes segments of this many bytes, options included. Takes effect with
    /// [`update_mss`](Self::update_mss).
    pub(crate) fn set_path_mss(&mut self, mss: u16) {
        self.path_mss = mss;
    }

    /// Sets the user's bound of the segment size (TCP_MAXSEG), 0 for none.
    pub(crate) fn set_bound(&mut self, mss: u16) {
        self.bound = mss;
    }

    /// Updates the MSS for sending: the minimum of what the peer, the path and the user
    /// allow, less the options of every segment (RFC 6691 section 2: the MSS excludes
    /// options).
    pub(crate) fn update_mss(&mut self) {
        let mut mss = self.peer_mss.min(self.path_mss);
        if self.bound != 0 {
            mss = mss.min(self.bound.max(MIN_MSS));
        }
        self.mss = mss - u16::from(self.options);
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self) -> Result<(), Violation> {
        require(self.una >= SYN_POS, "acknowledged before the SYN")?;
        require(self.una <= self.nxt, "acknowledged beyond what was sent")?;
        require(self.nxt <= self.end(), "sent beyond what was written")?;
        require(self.wl2 <= self.nxt, "a window for what was not sent")?;
        require(self.push <= self.edge, "pushed beyond what was written")?;
        require(self.small <= self.nxt, "a small segment that was not sent")?;
        require(self.up <= self.edge, "urgent beyond what was written")?;
        require(self.wnd <= self.max_wnd, "a window beyond the largest")?;
        require(self.wscale <= 14, "a window scale beyond 14")?;
        let whole = u32::from(self.mss) + u32::from(self.options);
        require(
            self.mss != 0 && whole <= u32::from(self.path_mss),
            "segments longer than the path takes",
        )
    }

    /// The sequence number of a segment without payload: SND.NXT, but not beyond the
    /// peer's window if that has shrunk, since the peer would drop the segment. The part
    /// of the window that rounding to the scale has taken back is still accepted (RFC
    /// 7323 section 2.4) and may already contain data, so a number below that would be
    /// dropped as well.
    #[inline]
    pub(crate) fn ack_pos(&self) -> Pos {
        let edge = self.wnd_edge().max(self.una());
        if self.nxt() - edge < 1 << self.wscale() {
            self.nxt()
        } else {
            edge
        }
    }

    /// The invariants of saved state, with those of [`check`](Self::check).
    pub(crate) fn check_saved(&self) -> Result<(), Violation> {
        let edge = self.edge();
        let fits = (0..MAX_POS).contains(&edge) && self.una() <= MAX_POS;
        require(fits, "a send stream that is too long")?;
        self.check()?;
        let one_window = self.in_flight() <= u64::from(u32::MAX >> 1);
        require(one_window, "more in flight than a window")?;
        let least = self.peer_mss().min(self.path_mss());
        let whole = self.mss().saturating_add(u16::from(self.options()));
        require(
            least >= MIN_MSS && whole >= MIN_MSS,
            "a path for less than a packet",
        )
    }
}

#[cfg(test)]
mod tests;
