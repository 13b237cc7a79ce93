//! The receive side: where in sequence space it stands, the window that was offered, and
//! how much the user has read.
//!
//! Owns [`ReceiveSide`], which `tcb.rs` keeps. `input/data.rs` and `input/fin.rs` move
//! RCV.NXT, `window.rs` decides what is offered, `user.rs` tells what was read. What has
//! arrived beyond RCV.NXT is `reassembly.rs`'s.

use crate::tcb::{NO_POS, Pos};
use crate::window::ReceiveBuffer;
use longshore_wire::SeqNumber;

/// Sequence space, window and edges of the receive stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ReceiveSide {
    // ---- What header prediction reads and changes: see `Tcb`. ----
    /// RCV.NXT.
    pub(crate) nxt: Pos,
    /// The right edge of the window that we have advertised.
    pub(crate) adv: Pos,
    /// The sequence number of position 0 (IRS + 1).
    pub(crate) base: u32,
    /// The MSS that our SYN tells.
    pub(crate) mss: u16,
    /// What our windows are shifted by.
    pub(crate) wscale: u8,

    // ---- The rest. ----
    /// The read position of the user.
    pub(crate) consumed: Pos,
    /// The position of the peer's FIN, `NO_POS` if not known.
    pub(crate) fin: Pos,
    /// RCV.UP: what follows the last urgent byte that the peer has told of; 0 if none.
    pub(crate) up: Pos,
    pub(crate) buffer: ReceiveBuffer,
}

impl ReceiveSide {
    /// Nothing has come. `mss` is what our SYN tells.
    pub(crate) const fn new(mss: u16, wscale: u8, buffer: ReceiveBuffer) -> ReceiveSide {
        ReceiveSide {
            nxt: 0,
            adv: 0,
            base: 0,
            mss,
            wscale,
            consumed: 0,
            fin: NO_POS,
            up: 0,
            buffer,
        }
    }

    /// The sequence number of a position.
    #[inline(always)]
    pub(crate) fn seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.base.wrapping_add(pos as u32))
    }

    /// The position, nearest to RCV.NXT, of a sequence number.
    pub(crate) fn pos(&self, seq: SeqNumber) -> Pos {
        let nxt = self.base.wrapping_add(self.nxt as u32);
        self.nxt + i64::from(seq.0.wrapping_sub(nxt) as i32)
    }
}
