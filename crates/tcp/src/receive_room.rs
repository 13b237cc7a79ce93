//! Memory for what is received: how far the receive buffer may grow, and whether payload is
//! accepted at all.
//!
//! Owns [`ReceiveRoom`], which [`Tcb::receive_room`](crate::Tcb::receive_room) gives; the engine
//! calls it when the memory of a session runs short, and when there is some again.

use crate::config::Config;
use crate::flags::Flags;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::state::State;

/// The room for payload.
#[derive(Debug)]
pub struct ReceiveRoom<'t> {
    pub(crate) prediction: &'t mut Prediction,
    pub(crate) state: State,
    pub(crate) cfg: &'t Config,
    pub(crate) flags: &'t mut Flags,
    pub(crate) rcv: &'t mut ReceiveSide,
}

impl ReceiveRoom<'_> {
    /// Sets how far memory allows the receive buffer to grow at present, bytes: tuning
    /// stays within this; what was granted before stays granted. Call it before
    /// [`Tcb::set_rcv_consumed`](crate::Tcb::set_rcv_consumed).
    #[inline(always)]
    pub fn bound(self, bytes: u64) {
        let bytes = bytes.min(u64::from(u32::MAX)) as u32;
        self.rcv.buffer.set_room(bytes);
    }

    /// There is little memory for payload: from now on no more is advertised than leaves
    /// 64 KiB unread, which takes back what was advertised (`docs/rfc.md`, D53). What arrives
    /// within the edge of before is accepted. A peer that was [denied](Self::deny) more is
    /// notified at once if there is a window for it; returns whether it is.
    pub fn confine(mut self) -> bool {
        let was = *self.flags & Flags::SHORT_OF_ROOM;
        if was == Flags::LITTLE_ROOM {
            return false;
        }
        self.begin(Flags::LITTLE_ROOM);
        let was_denied = was == Flags::NO_ROOM;
        let is_told =
            was_denied && self.state.may_receive_data() && self.rcv.short_update_due(self.cfg);
        if is_told {
            *self.flags |= Flags::ACK_NOW;
        }
        is_told
    }

    /// There is no memory for payload: until [`grant`](Self::grant) or
    /// [`confine`](Self::confine) none is accepted, and the window is advertised as closed. Data
    /// that has arrived stays, and acknowledgments are processed.
    pub fn deny(mut self) {
        if !self.flags.contains(Flags::NO_ROOM) {
            self.begin(Flags::NO_ROOM);
        }
    }

    /// Memory is short, or more or less short than before, as `flag` says.
    fn begin(&mut self, flag: Flags) {
        if !self.flags.intersects(Flags::SHORT_OF_ROOM) {
            self.rcv.buffer.short.tell(self.rcv.nxt());
        }
        self.flags.remove(Flags::SHORT_OF_ROOM);
        *self.flags |= flag;
        self.rcv.buffer.forget_advertised();
        *self.prediction = Prediction::OFF;
    }

    /// There is memory for payload again: the peer is notified at once, if it may send; returns
    /// whether it is.
    pub fn grant(self) -> bool {
        if !self.flags.intersects(Flags::SHORT_OF_ROOM) {
            return false;
        }
        self.flags.remove(Flags::SHORT_OF_ROOM);
        self.rcv.buffer.forget_advertised();
        let is_told = self.state.may_receive_data();
        if is_told {
            *self.flags |= Flags::ACK_NOW;
        }
        is_told
    }
}
