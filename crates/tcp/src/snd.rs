//! The send side: where in sequence space it stands, the peer's window, and how much
//! the user has written.
//!
//! Owns [`SendSide`], which `tcb.rs` keeps. `input/ack.rs` moves SND.UNA and the window,
//! `output/` SND.NXT, `user.rs` the edge of what is written. What is known of each stretch
//! in flight is `flight.rs`'s.

use crate::icmp::MIN_MSS;
use crate::rtt::RttEstimator;
use crate::tcb::{Pos, SYN_POS};
use longshore_wire::SeqNumber;

/// Sequence space, window and edges of the send stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SendSide {
    // ---- What header prediction reads and changes: see `Tcb`. ----
    /// SND.UNA.
    pub(crate) una: Pos,
    /// SND.NXT: what follows the last thing sent; never goes back.
    pub(crate) nxt: Pos,
    /// The last byte that the user has written ends here.
    pub(crate) edge: Pos,
    /// SND.WL1 and SND.WL2: of the segment that last set the window.
    pub(crate) wl1: Pos,
    pub(crate) wl2: Pos,
    /// The sequence number of position 0 (ISS + 1).
    pub(crate) base: u32,
    /// SND.WND, bytes.
    pub(crate) wnd: u32,
    /// The largest window that the peer has offered (MAX.SND.WND).
    pub(crate) max_wnd: u32,
    /// Bytes of payload in a full segment beside the usual options.
    pub(crate) mss: u16,
    /// What the peer's windows are shifted by.
    pub(crate) wscale: u8,
    /// Bytes of options that every segment has.
    pub(crate) options: u8,

    // ---- The rest. ----
    /// Data up to here need not wait for more.
    pub(crate) push: Pos,
    /// The end of the last segment sent that was not full (Minshall's Nagle).
    pub(crate) small: Pos,
    /// SND.UP: what follows the last urgent byte sent; 0 if there was none.
    pub(crate) up: Pos,
    /// The MSS that the peer's SYN told.
    pub(crate) peer_mss: u16,
    /// The MSS that the path allows in our direction, without options.
    pub(crate) path_mss: u16,
    /// What the user bounds segments to (TCP_MAXSEG), 0 for no bound.
    pub(crate) bound: u16,
    /// The user has closed: the stream ends at `edge`, and a FIN follows it.
    pub(crate) fin: bool,
    /// The peer reports what it has out of order (RFC 2018 was agreed).
    pub(crate) sack: bool,
    pub(crate) rtt: RttEstimator,
}

impl SendSide {
    /// Nothing is sent. `mss` is what segments begin with, `peer_mss` what a peer takes
    /// that does not tell, `path_mss` what the interface takes and `bound` what the user
    /// allows, all in bytes.
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

    /// The sequence number of a position.
    #[inline(always)]
    pub(crate) fn seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.base.wrapping_add(pos as u32))
    }

    /// The position, nearest to SND.UNA, of a sequence number.
    pub(crate) fn pos(&self, seq: SeqNumber) -> Pos {
        let una = self.base.wrapping_add(self.una as u32);
        self.una + i64::from(seq.0.wrapping_sub(una) as i32)
    }

    /// Bytes (and SYN, FIN) that are sent and not acknowledged.
    #[inline(always)]
    pub(crate) fn in_flight(&self) -> u64 {
        (self.nxt - self.una) as u64
    }

    /// Whether our SYN is acknowledged.
    #[inline(always)]
    pub(crate) fn is_synchronized(&self) -> bool {
        self.una > SYN_POS
    }

    /// The end of what is acknowledged, in bytes of what was written.
    #[inline(always)]
    pub(crate) fn acked(&self) -> u64 {
        self.una.clamp(0, self.edge) as u64
    }

    /// The end of what has been sent at least once, in bytes of what was written.
    pub(crate) fn sent(&self) -> u64 {
        self.nxt.clamp(0, self.edge) as u64
    }

    /// Whether the peer has acknowledged the user's FIN.
    #[inline(always)]
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin && self.una > self.edge
    }

    /// The position after everything that there is to send, the FIN included.
    #[inline(always)]
    pub(crate) fn end(&self) -> Pos {
        self.edge + i64::from(self.fin)
    }

    /// The right edge of the peer's window.
    #[inline(always)]
    pub(crate) fn wnd_edge(&self) -> Pos {
        self.una.max(0) + i64::from(self.wnd)
    }

    /// The MSS for sending: what the peer, the path and the user allow, less the options
    /// of every segment (RFC 6691 section 2: the MSS counts none).
    pub(crate) fn update_mss(&mut self) {
        let mut mss = self.peer_mss.min(self.path_mss);
        if self.bound != 0 {
            mss = mss.min(self.bound.max(MIN_MSS));
        }
        self.mss = mss - u16::from(self.options);
    }
}
