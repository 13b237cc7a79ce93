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
    /// Bytes of options that every segment of the peer has.
    pub(crate) options: u8,

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
            options: 0,
            consumed: 0,
            fin: NO_POS,
            up: 0,
            buffer,
        }
    }

    /// The end of what may be read, in bytes: everything below is there, in order.
    #[inline(always)]
    pub(crate) fn readable(&self) -> u64 {
        self.nxt.min(self.fin).max(0) as u64
    }

    /// Whether the peer has closed its direction and everything before its FIN is here.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.nxt > self.fin
    }

    /// Payload bytes of a full segment of the peer, as far as we have let it.
    #[inline(always)]
    pub(crate) fn full_segment(&self) -> u16 {
        self.mss - u16::from(self.options)
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
