//! Memory for what is received: how far the receive buffer may grow, and whether payload is
//! accepted at all.
//!
//! Owns [`ReceiveRoom`], which [`Tcb::receive_room`](crate::Tcb::receive_room) gives; the engine
//! calls it when the memory of a session runs short, and when there is some again.

use crate::flags::Flags;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::state::State;

/// The room for payload.
#[derive(Debug)]
pub struct ReceiveRoom<'t> {
    pub(crate) prediction: &'t mut Prediction,
    pub(crate) state: State,
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

    /// There is no memory for payload: until [`grant`](Self::grant) none is accepted, and the
    /// window is advertised as closed, which takes back what was advertised (`docs/rfc.md`,
    /// D53). Data that has arrived stays, and acknowledgments are processed. Returns whether
    /// this is a change.
    pub fn deny(self) -> bool {
        let new = !self.flags.contains(Flags::NO_ROOM);
        if new {
            *self.flags |= Flags::NO_ROOM;
            self.rcv.buffer.forget_advertised();
            *self.prediction = Prediction::OFF;
        }
        new
    }

    /// There is memory for payload again: the peer is notified at once.
    pub fn grant(self) {
        if !self.flags.contains(Flags::NO_ROOM) {
            return;
        }
        self.flags.remove(Flags::NO_ROOM);
        self.rcv.buffer.forget_advertised();
        if self.state.may_receive_data() {
            *self.flags |= Flags::ACK_NOW;
        }
    }
}
