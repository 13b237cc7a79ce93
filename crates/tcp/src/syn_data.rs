//! Fast Open on a connection (RFC 7413): data on our SYN, or on the peer's.
//!
//! Owns [`SynData`], which [`Tcb::syn_data`](crate::Tcb::syn_data) gives: a client's SYN requests
//! a cookie, or carries one and data; a server's connection takes data on the SYN that opened it.
//! The state of a connection, and what is kept outside of connections, is in `fast_open.rs`.

use crate::accounting::Accounting;
use crate::config::Config;
use crate::events::Events;
use crate::fast_open::{FastOpen, FastOpenMode};
use crate::flags::Flags;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::SYN_POS;
use crate::rcv::ReceiveSide;
use crate::segment::{Disposition, Place, Segment};
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;
use longshore_wire::tcp::FastOpenCookie;

/// Data on a SYN, and the cookie that goes with it.
#[derive(Debug)]
pub struct SynData<'t> {
    pub(crate) state: State,
    pub(crate) cfg: &'t Config,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t SendSide,
    pub(crate) rcv: &'t mut ReceiveSide,
    pub(crate) fast_open: &'t mut FastOpen,
    pub(crate) liveness: &'t mut Liveness,
    pub(crate) outcome: &'t mut Outcome,
    pub(crate) accounting: &'t mut Accounting,
}

impl SynData<'_> {
    /// Enables Fast Open for an active open, before the SYN is sent: the SYN carries what
    /// the user has written by then, as far as it fits, or requests a cookie. `wait`
    /// holds the SYN back until data is written (TCP_FASTOPEN_CONNECT), unless it
    /// requests a cookie.
    pub fn start(self, mode: FastOpenMode, wait: bool) {
        if self.state != State::SynSent || self.snd.nxt() != SYN_POS {
            return;
        }
        if self.fast_open.start(mode, wait) {
            self.flags.remove(Flags::SYN_DUE);
        }
    }

    /// Data was written, or will not be: a waiting SYN is sent now.
    pub fn release_syn(self) {
        self.fast_open.release(self.flags);
    }

    /// The SYN-ACK grants the peer this cookie. For a passive open, before
    /// `poll_transmit`.
    pub fn give_cookie(self, cookie: FastOpenCookie) {
        if self.state == State::SynReceived && !self.flags.contains(Flags::ACTIVE) {
            self.fast_open.grant(cookie);
        }
    }

    /// Accepts the payload of the SYN that opened this connection, whose cookie is valid
    /// (RFC 7413 section 4.2.2). The program may have the connection at once, and respond
    /// before the handshake is complete. For a passive open, before `poll_transmit`; the
    /// caller must copy the payload where the result says.
    pub fn accept(self, syn: &Segment<'_>, now: Instant) -> Disposition {
        let fresh = self.state == State::SynReceived
            && !self.flags.contains(Flags::ACTIVE)
            && self.rcv.nxt() == 0
            && self.snd.nxt() == SYN_POS;
        if !fresh {
            return Disposition::default();
        }
        let len = syn.payload_len.min(self.rcv.free_space(self.cfg));
        self.fast_open.accept(len);
        self.outcome.report(Events::CONNECTED);
        if len == 0 {
            return Disposition::default();
        }
        self.rcv.advance(i64::from(len));
        self.rcv.advertise_to(i64::from(len));
        self.liveness.note_data(now);
        self.accounting.counters.slow_data_in =
            self.accounting.counters.slow_data_in.wrapping_add(1);
        self.outcome.report(Events::RCV_EDGE);
        Disposition {
            place: Some(Place {
                stream_offset: 0,
                skip: 0,
                len,
            }),
            ..Disposition::default()
        }
    }
}

#[cfg(test)]
mod tests;
