//! Fast Open on a connection (RFC 7413): data on its SYN, ours or the peer's.
//!
//! Owns those methods of [`Tcb`]: [`Tcb::start_fast_open`] (a client's SYN asks for a
//! cookie, or carries one and data), [`Tcb::fast_open_outcome`] (what came of it) and, on
//! the other side, [`Tcb::accept_fast_open`] and [`Tcb::give_fast_open_cookie`]. What a
//! connection keeps of it, and what is around connections, is in `fast_open.rs`.

use crate::events::Events;
use crate::fast_open::{DEFAULT_MSS, FastOpenOutcome, FastOpenWay, Role};
use crate::flags::Flags;
use crate::pos::SYN_POS;
use crate::segment::{Disposition, Place, Segment};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::FastOpenCookie;

impl Tcb {
    /// Uses Fast Open for an active open in this way, before the SYN is sent: it
    /// carries what the user has written by then, as much as fits, or asks for a
    /// cookie. `wait` holds the SYN back until something is written
    /// (TCP_FASTOPEN_CONNECT), unless it asks.
    pub fn start_fast_open(&mut self, way: FastOpenWay, wait: bool) {
        if self.state != State::SynSent || self.snd.nxt() != SYN_POS {
            return;
        }
        let f = &mut self.fast_open;
        match way {
            FastOpenWay::Ask { experimental } => {
                f.role = Role::Asks;
                f.cookie = FastOpenCookie::REQUEST.as_experiment(experimental);
                return;
            }
            FastOpenWay::Send { cookie, mss } => {
                f.role = Role::Sends;
                f.cookie = cookie;
                f.most = mss.max(DEFAULT_MSS);
            }
            FastOpenWay::SendBare { mss } => {
                f.role = Role::SendsBare;
                f.most = mss.max(DEFAULT_MSS);
            }
        }
        f.waits = wait;
        f.early = wait;
        if wait {
            self.flags.remove(Flags::SYN_DUE);
        }
    }

    /// Whether the SYN waits for the first data: the program may be told that it is
    /// connected.
    #[must_use]
    pub fn awaits_first_write(&self) -> bool {
        self.fast_open.waits
    }

    /// Bytes that a SYN which waits for data can take of them; 0 if none waits.
    #[must_use]
    pub fn syn_room(&self) -> u16 {
        if self.fast_open.waits {
            self.fast_open.most_on_syn(&self.snd, &self.cfg)
        } else {
            0
        }
    }

    /// Whether the user may write, and read what comes: the connection is
    /// established, or Fast Open lets a server's program have it before.
    #[must_use]
    pub fn is_open_to_user(&self) -> bool {
        self.state.is_synchronized() || self.is_fast_opened()
    }

    /// Something was written, or is not going to be: a SYN that waits goes now.
    pub fn release_syn(&mut self) {
        if self.fast_open.waits {
            self.fast_open.waits = false;
            self.flags |= Flags::SYN_DUE;
        }
    }

    /// What came of Fast Open on an active open, once it is established; `None` if it
    /// was not tried.
    #[must_use]
    pub fn fast_open_outcome(&self) -> Option<FastOpenOutcome> {
        let f = &self.fast_open;
        let tried = matches!(f.role, Role::Asks | Role::Sends | Role::SendsBare);
        (tried && self.state.is_synchronized()).then_some(FastOpenOutcome {
            cookie: f.given.then_some(f.cookie),
            mss: self.snd.peer_mss(),
            sent: f.sent,
            accepted: f.accepted,
            fell_back: f.fell_back,
            experimental: f.cookie.is_experiment(),
        })
    }

    /// The SYN-ACK gives the peer this cookie. For a passive open, before
    /// `poll_transmit`.
    pub fn give_fast_open_cookie(&mut self, cookie: FastOpenCookie) {
        if self.state == State::SynReceived && !self.flags.contains(Flags::ACTIVE) {
            self.fast_open.role = Role::Gives;
            self.fast_open.cookie = cookie;
        }
    }

    /// Takes the payload of the SYN that made this connection, whose cookie is good
    /// (RFC 7413 section 4.2.2). The program may have the connection at once, and
    /// answer before the handshake is over. For a passive open, before `poll_transmit`;
    /// the payload is to be copied where the answer says.
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
        self.rcv.promise(i64::from(len));
        self.liveness.got_data(now);
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

    /// Whether the program has the connection although the handshake is not over (a
    /// passive open with data on the SYN).
    #[must_use]
    pub fn is_fast_opened(&self) -> bool {
        self.state == State::SynReceived && self.fast_open.accepted
    }

    /// The path has turned out to take less than our SYN with its data: it goes again
    /// without them, and at once, as it would when the timer runs out.
    pub(crate) fn fast_open_met_small_path(&mut self) {
        if self.fast_open.sent > self.snd.path_mss() && !self.fast_open.fell_back {
            self.fast_open.fall_back();
            self.flags |= Flags::SYN_DUE;
            self.flight.stop_timing(&mut self.congestion);
        }
    }
}
