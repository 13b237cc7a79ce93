//! The send side: where in sequence space it stands, the peer's window, and how much
//! the user has written.
//!
//! Owns [`SendSide`], which `tcb.rs` keeps. `input/ack.rs` moves SND.UNA and the window,
//! `output/` SND.NXT, `user.rs` the edge of what is written. What is known of each stretch
//! in flight is `flight.rs`'s.

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
}

impl SendSide {
    /// Nothing is sent. `mss` is what segments begin with, `peer_mss` what a peer takes
    /// that does not tell, `path_mss` what the interface takes, all in bytes.
    pub(crate) const fn new(iss: SeqNumber, mss: u16, peer_mss: u16, path_mss: u16) -> SendSide {
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
            push: 0,
            small: SYN_POS,
            up: 0,
            peer_mss,
            path_mss,
        }
    }
}
