//! Fast Open (RFC 7413): data on the SYN, for those who have been here before.
//!
//! Owns both ends' part of it. On a block: [`Tcb::start_fast_open`] (a client's SYN asks
//! for a cookie, or carries one and data), [`Tcb::fast_open_outcome`] (what came of it)
//! and, on the other side, [`Tcb::accept_fast_open`] and
//! [`Tcb::give_fast_open_cookie`]. Around blocks: `cache` (what a client remembers of
//! servers), `queue` (what a server makes of a SYN), `key` (the cookies themselves).
//!
//! Nothing is lost by trying: a server that does not take the data acknowledges the SYN
//! alone, and they go again at once; a SYN that is not answered is repeated without data
//! and without the option, as a middlebox may be to blame, and the cache leaves Fast
//! Open out for that server for a while if it happens again.

#[allow(
    clippy::indexing_slicing,
    reason = "indices are those of entries just found"
)]
mod cache;
mod key;
mod queue;

pub use cache::{FastOpenCache, FastOpenWay};
pub use key::FastOpenKey;
pub use queue::{FastOpenQueue, FastOpenUse, FastOpenVerdict};

use crate::config::Config;
use crate::events::Events;
use crate::segment::{Disposition, Place, Segment};
use crate::snd::SendSide;
use crate::state::State;
use crate::tcb::{Flags, Pos, SYN_POS, Tcb};
use crate::time::Instant;
use longshore_wire::tcp::FastOpenCookie;

/// Data on a SYN to a server whose MSS was not remembered, bytes (RFC 7413 section
/// 4.1.3: the default of RFC 9293).
const DEFAULT_MSS: u16 = 536;

/// Left free on a SYN with data, bytes: what options may take at most, since there are
/// middleboxes that add some (and Linux leaves it).
const OPTION_ROOM: u16 = 40;

/// What Fast Open is about on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing.
    None,
    /// Our SYN asks for a cookie.
    Asks,
    /// Our SYN carries a cookie, and data if there are any.
    Sends,
    /// Our SYN carries data without a cookie: both ends are configured so.
    SendsBare,
    /// Our SYN-ACK gives a cookie.
    Gives,
}

/// The state of Fast Open on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FastOpen {
    role: Role,
    /// Our SYN was not answered and goes out plain.
    fell_back: bool,
    /// The program may have the connection before the handshake is over (the server),
    /// or the server has taken all the data of our SYN (the client).
    pub(crate) accepted: bool,
    /// The server has answered our SYN with a cookie.
    given: bool,
    /// The SYN waits for the first data (TCP_FASTOPEN_CONNECT).
    waits: bool,
    /// It did, and the program was told that it is connected.
    early: bool,
    /// The MSS that bounds the SYN's data.
    most: u16,
    /// Bytes of data that were on the SYN.
    pub(crate) sent: u16,
    cookie: FastOpenCookie,
}

impl FastOpen {
    pub(crate) const fn new() -> FastOpen {
        FastOpen {
            role: Role::None,
            fell_back: false,
            accepted: false,
            given: false,
            waits: false,
            early: false,
            most: 0,
            sent: 0,
            cookie: FastOpenCookie::REQUEST,
        }
    }
}

/// What a client has learned from its SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenOutcome {
    /// The cookie to use next time.
    pub cookie: Option<FastOpenCookie>,
    /// The MSS that the server told, bytes.
    pub mss: u16,
    /// Bytes of data on the SYN, and whether the server took them all.
    pub sent: u16,
    /// See `sent`.
    pub accepted: bool,
    /// The SYN with the option was not answered, a plain one was.
    pub fell_back: bool,
    /// The option was the experiment's.
    pub experimental: bool,
}

/// Why a client's SYN delivered no data although Fast Open was wanted, in the numbers of
/// Linux's tcpi_fastopen_client_fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum FastOpenFailure {
    /// It did, or was not to, or it is not known yet.
    #[default]
    None = 0,
    /// There was no cookie.
    NoCookie = 1,
    /// The server acknowledged less than all of the data.
    NotAcknowledged = 2,
    /// The same, after the SYN was repeated.
    Repeated = 3,
}

impl FastOpen {
    fn most_on_syn(&self, snd: &SendSide, cfg: &Config) -> u16 {
        let mss = self.most.min(snd.path_mss());
        let mss = match cfg.mss {
            0 => mss,
            set => mss.min(set),
        };
        mss.saturating_sub(OPTION_ROOM)
    }

    /// In SYN-SENT: the user takes the connection for made.
    pub(crate) fn is_taken_for_made(&self) -> bool {
        self.early
    }

    /// In SYN-SENT: the user takes the connection for made, has written, and may lay it
    /// down; what was written is still to be delivered.
    pub(crate) fn has_early_data(&self, snd: &SendSide, cfg: &Config) -> bool {
        self.early && !self.waits && snd.edge() > 0 && cfg.linger != crate::config::Linger::Reset
    }

    /// Whether data on a SYN were taken (TCPI_OPT_SYN_DATA).
    pub(crate) fn syn_data_taken(&self) -> bool {
        self.accepted && self.sent > 0
    }

    /// Why data did not go with our SYN, or were not taken.
    pub(crate) fn failure(&self, snd: &SendSide, flags: Flags) -> FastOpenFailure {
        let f = self;
        match f.role {
            Role::Asks => FastOpenFailure::NoCookie,
            Role::Sends | Role::SendsBare if f.sent > 0 && !f.accepted && snd.una() > SYN_POS => {
                if flags.contains(Flags::SYN_REPEATED) {
                    FastOpenFailure::Repeated
                } else {
                    FastOpenFailure::NotAcknowledged
                }
            }
            _ => FastOpenFailure::None,
        }
    }

    /// Whether `end` is where the data on our SYN ended: alone on their packet, they are
    /// pushed if they have to go again.
    pub(crate) fn ends_syn_data(&self, flags: Flags, end: Pos) -> bool {
        self.sent > 0 && end == Pos::from(self.sent) && flags.contains(Flags::ACTIVE)
    }

    /// The Fast Open option of our SYN or SYN-ACK.
    pub(crate) fn option(&self, state: State) -> Option<FastOpenCookie> {
        let f = self;
        match f.role {
            _ if f.fell_back => None,
            Role::None | Role::SendsBare => None,
            Role::Gives => Some(f.cookie),
            // Not on the SYN-ACK of a simultaneous open.
            Role::Asks | Role::Sends => (state == State::SynSent).then_some(f.cookie),
        }
    }

    /// The bytes of the stream that go with the first SYN.
    pub(crate) fn data_on_syn(&mut self, snd: &SendSide, cfg: &Config, state: State) -> Pos {
        let f = &*self;
        let carries = matches!(f.role, Role::Sends | Role::SendsBare) && !f.fell_back;
        if state != State::SynSent || !carries {
            return 0;
        }
        let len = snd.edge().min(Pos::from(self.most_on_syn(snd, cfg))).max(0);
        self.sent = len as u16;
        len
    }

    /// The SYN was not answered in time (RFC 7413 section 4.1.3.1: the next one has
    /// neither data nor the option).
    pub(crate) fn fall_back(&mut self) {
        if matches!(self.role, Role::Asks | Role::Sends | Role::SendsBare) {
            self.fell_back = true;
        }
    }

    /// The SYN-ACK acknowledges up to `ack` and has this option. A cookie that was not
    /// asked for is none; one that answers the first SYN after the second went out is.
    pub(crate) fn take_answer(&mut self, ack: Pos, cookie: Option<FastOpenCookie>) {
        let f = &mut *self;
        f.accepted = f.sent > 0 && ack >= Pos::from(f.sent);
        if let Some(cookie) = cookie
            && !cookie.as_bytes().is_empty()
            && matches!(f.role, Role::Asks | Role::Sends)
        {
            f.given = true;
            f.cookie = cookie;
        }
    }
}

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

#[cfg(test)]
mod tests;
