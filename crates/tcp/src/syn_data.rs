//! Fast Open on a connection (RFC 7413): data on our SYN, or on the peer's.
//!
//! Owns those methods of [`Tcb`]: [`Tcb::start_fast_open`] (a client's SYN requests a
//! cookie, or carries one and data), [`Tcb::fast_open_outcome`] (the result) and, for a
//! server, [`Tcb::accept_fast_open`] and [`Tcb::give_fast_open_cookie`]. The state of a
//! connection, and what is kept outside of connections, is in `fast_open.rs`.

use crate::events::Events;
use crate::fast_open::{FastOpenMode, FastOpenOutcome};
use crate::flags::Flags;
use crate::pos::SYN_POS;
use crate::segment::{Disposition, Place, Segment};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::FastOpenCookie;

impl Tcb {
    /// Enables Fast Open for an active open, before the SYN is sent: the SYN carries what
    /// the user has written by then, as far as it fits, or requests a cookie. `wait`
    /// holds the SYN back until data is written (TCP_FASTOPEN_CONNECT), unless it
    /// requests a cookie.
    pub fn start_fast_open(&mut self, mode: FastOpenMode, wait: bool) {
        if self.state != State::SynSent || self.snd.nxt() != SYN_POS {
            return;
        }
        if self.fast_open.start(mode, wait) {
            self.flags.remove(Flags::SYN_DUE);
        }
    }

    /// Bytes of data that a waiting SYN can carry; 0 if no SYN waits.
    #[must_use]
    pub fn syn_room(&self) -> u16 {
        self.fast_open.room(&self.snd, &self.cfg)
    }

    /// Whether the user may write, and read arriving data: the connection is established,
    /// or Fast Open gives it to a server's program before that.
    #[must_use]
    pub fn is_open_to_user(&self) -> bool {
        self.state.is_synchronized() || self.is_fast_opened()
    }

    /// Data was written, or will not be: a waiting SYN is sent now.
    pub fn release_syn(&mut self) {
        if self.fast_open.release() {
            self.flags |= Flags::SYN_DUE;
        }
    }

    /// The result of Fast Open on an active open, once the connection is established;
    /// `None` if it was not tried.
    #[must_use]
    pub fn fast_open_outcome(&self) -> Option<FastOpenOutcome> {
        let outcome = self.fast_open.outcome(self.snd.peer_mss());
        outcome.filter(|_| self.state.is_synchronized())
    }

    /// The SYN-ACK grants the peer this cookie. For a passive open, before
    /// `poll_transmit`.
    pub fn give_fast_open_cookie(&mut self, cookie: FastOpenCookie) {
        if self.state == State::SynReceived && !self.flags.contains(Flags::ACTIVE) {
            self.fast_open.grant(cookie);
        }
    }

    /// Accepts the payload of the SYN that opened this connection, whose cookie is valid
    /// (RFC 7413 section 4.2.2). The program may have the connection at once, and respond
    /// before the handshake is complete. For a passive open, before `poll_transmit`; the
    /// caller must copy the payload where the result says.
    pub fn accept_fast_open(&mut self, syn: &Segment<'_>, now: Instant) -> Disposition {
        let fresh = self.state == State::SynReceived
            && !self.flags.contains(Flags::ACTIVE)
            && self.rcv.nxt() == 0
            && self.snd.nxt() == SYN_POS;
        if !fresh {
            return Disposition::default();
        }
        let len = syn.payload_len.min(self.rcv.free_space(&self.cfg));
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

    /// Whether the program has the connection although the handshake is not complete (a
    /// passive open with data on the SYN).
    #[must_use]
    pub fn is_fast_opened(&self) -> bool {
        self.fast_open.has_opened(self.state)
    }
}

#[cfg(test)]
mod tests;
