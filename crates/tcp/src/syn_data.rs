//! Fast Open on a connection (RFC 7413): data on our SYN, or on the peer's.
//!
//! Owns those methods of [`Tcb`]: [`Tcb::start_fast_open`] (a client's SYN requests a
//! cookie, or carries one and data), [`Tcb::fast_open_outcome`] (the result) and, for a
//! server, [`Tcb::accept_fast_open`] and [`Tcb::give_fast_open_cookie`]. The state of a
//! connection, and what is kept outside of connections, is in `fast_open.rs`.

use crate::events::Events;
use crate::fast_open::{DEFAULT_MSS, FastOpenMode, FastOpenOutcome, Role};
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
    pub fn start_fast_open(&mut self, way: FastOpenMode, wait: bool) {
        if self.state != State::SynSent || self.snd.nxt() != SYN_POS {
            return;
        }
        let f = &mut self.fast_open;
        match way {
            FastOpenMode::RequestCookie { experimental } => {
                f.role = Role::RequestsCookie;
                f.cookie = FastOpenCookie::REQUEST.as_experiment(experimental);
                return;
            }
            FastOpenMode::SendCookie { cookie, mss } => {
                f.role = Role::SendsCookie;
                f.cookie = cookie;
                f.most = mss.max(DEFAULT_MSS);
            }
            FastOpenMode::SendWithoutCookie { mss } => {
                f.role = Role::SendsWithoutCookie;
                f.most = mss.max(DEFAULT_MSS);
            }
        }
        f.waits = wait;
        f.early = wait;
        if wait {
            self.flags.remove(Flags::SYN_DUE);
        }
    }

    /// Whether the SYN waits for the first data: the program may already be told that it
    /// is connected.
    #[must_use]
    pub fn awaits_first_write(&self) -> bool {
        self.fast_open.waits
    }

    /// Bytes of data that a waiting SYN can carry; 0 if no SYN waits.
    #[must_use]
    pub fn syn_room(&self) -> u16 {
        if self.fast_open.waits {
            self.fast_open.most_on_syn(&self.snd, &self.cfg)
        } else {
            0
        }
    }

    /// Whether the user may write, and read arriving data: the connection is established,
    /// or Fast Open gives it to a server's program before that.
    #[must_use]
    pub fn is_open_to_user(&self) -> bool {
        self.state.is_synchronized() || self.is_fast_opened()
    }

    /// Data was written, or will not be: a waiting SYN is sent now.
    pub fn release_syn(&mut self) {
        if self.fast_open.waits {
            self.fast_open.waits = false;
            self.flags |= Flags::SYN_DUE;
        }
    }

    /// The result of Fast Open on an active open, once the connection is established;
    /// `None` if it was not tried.
    #[must_use]
    pub fn fast_open_outcome(&self) -> Option<FastOpenOutcome> {
        let f = &self.fast_open;
        let tried = matches!(
            f.role,
            Role::RequestsCookie | Role::SendsCookie | Role::SendsWithoutCookie
        );
        (tried && self.state.is_synchronized()).then_some(FastOpenOutcome {
            cookie: f.given.then_some(f.cookie),
            mss: self.snd.peer_mss(),
            sent: f.sent,
            accepted: f.accepted,
            fell_back: f.fell_back,
            experimental: f.cookie.is_experiment(),
        })
    }

    /// The SYN-ACK grants the peer this cookie. For a passive open, before
    /// `poll_transmit`.
    pub fn give_fast_open_cookie(&mut self, cookie: FastOpenCookie) {
        if self.state == State::SynReceived && !self.flags.contains(Flags::ACTIVE) {
            self.fast_open.role = Role::GrantsCookie;
            self.fast_open.cookie = cookie;
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
        self.fast_open.accepted = true;
        self.fast_open.sent = len.min(u32::from(u16::MAX)) as u16;
        self.outcome.events |= Events::CONNECTED;
        if len == 0 {
            return Disposition::default();
        }
        self.rcv.advance(i64::from(len));
        self.rcv.advertise_to(i64::from(len));
        self.liveness.note_data(now);
        self.accounting.counters.slow_data_in =
            self.accounting.counters.slow_data_in.wrapping_add(1);
        self.outcome.events |= Events::RCV_EDGE;
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
        self.state == State::SynReceived && self.fast_open.accepted
    }

    /// The path takes less than our SYN with its data: it is sent again at once without
    /// data, as after a timeout.
    pub(crate) fn fast_open_met_small_path(&mut self) {
        if self.fast_open.sent > self.snd.path_mss() && !self.fast_open.fell_back {
            self.fast_open.fall_back();
            self.flags |= Flags::SYN_DUE;
            self.flight.stop_timing(&mut self.congestion);
        }
    }
}

#[cfg(test)]
mod tests;
