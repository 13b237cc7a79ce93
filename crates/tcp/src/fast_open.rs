//! Fast Open (RFC 7413): data on the SYN, for those who have been here before.
//!
//! Owns both ends' part of it. On a block: [`Tcb::start_fast_open`] (a client's SYN asks
//! for a cookie, or carries one and data), [`Tcb::fast_open_outcome`] (what came of it)
//! and, on the other side, [`Tcb::accept_fast_open`] and
//! [`Tcb::give_fast_open_cookie`]. Around blocks: [`FastOpenCache`] (what a client
//! remembers of servers), [`FastOpenQueue`] and [`FastOpenQueue::judge`] (what a server
//! makes of a SYN). Keys and hashes are the caller's, as an argument.
//!
//! Nothing is lost by trying: a server that does not take the data acknowledges the SYN
//! alone, and they go again at once; a SYN that is not answered is repeated without data
//! and without the option, as a middlebox may be to blame, and the cache then leaves Fast
//! Open out for that server for a while.

use crate::events::Events;
use crate::segment::{Disposition, Place, Segment};
use crate::state::State;
use crate::tcb::{Flags, Pos, SYN_POS, Tcb};
use crate::time::{Instant, SECOND};
use core::net::IpAddr;
use longshore_wire::tcp::{FastOpenCookie, TcpOptions};

/// Data on a SYN to a server whose MSS was not remembered, bytes (RFC 7413 section
/// 4.1.3: the default of RFC 9293).
const DEFAULT_MSS: u16 = 536;

/// What Fast Open is about on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing.
    None,
    /// Our SYN asks for a cookie.
    Asks,
    /// Our SYN carries a cookie, and data if there are any.
    Sends,
    /// Our SYN was not answered and goes out plain.
    FellBack,
    /// Our SYN-ACK gives a cookie.
    Gives,
}

/// The state of Fast Open on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FastOpen {
    role: Role,
    /// The program's data came with the SYN, and it may answer before the handshake
    /// is over (the server), or the server has taken ours (the client).
    pub(crate) accepted: bool,
    /// The server has answered our SYN with a cookie.
    given: bool,
    /// The SYN waits for the first data (TCP_FASTOPEN_CONNECT).
    waits: bool,
    /// It did, and the program was told that it is connected.
    early: bool,
    /// Bytes of data on the SYN at most.
    most: u16,
    /// Bytes of data that were on it.
    sent: u16,
    cookie: FastOpenCookie,
}

impl FastOpen {
    pub(crate) const fn new() -> FastOpen {
        FastOpen {
            role: Role::None,
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
    /// Bytes of data on the SYN, and whether the server took them.
    pub sent: u16,
    /// See `sent`.
    pub accepted: bool,
    /// The SYN with the option was not answered, a plain one was.
    pub fell_back: bool,
}

impl Tcb {
    /// Uses Fast Open for an active open, before the SYN is sent. With a `cookie` the
    /// SYN carries it and what the user has written by then, at most what fits `mss`
    /// bytes (the server's, as [`FastOpenOutcome`] told); without one it asks for one.
    /// `wait` holds the SYN back until something is written (TCP_FASTOPEN_CONNECT);
    /// it has effect with a cookie only.
    pub fn start_fast_open(&mut self, cookie: Option<(FastOpenCookie, u16)>, wait: bool) {
        if self.state != State::SynSent || self.snd_nxt != SYN_POS {
            return;
        }
        let f = &mut self.fast_open;
        match cookie {
            Some((cookie, mss)) if !cookie.as_bytes().is_empty() => {
                f.role = Role::Sends;
                f.cookie = cookie;
                f.most = mss.max(DEFAULT_MSS);
                f.waits = wait;
                f.early = wait;
                if wait {
                    self.flags.remove(Flags::SYN_DUE);
                }
            }
            _ => f.role = Role::Asks,
        }
    }

    /// Whether the SYN waits for the first data: the program may be told that it is
    /// connected.
    #[must_use]
    pub fn awaits_first_write(&self) -> bool {
        self.fast_open.waits
    }

    /// Whether the user may write, and read what comes: the connection is
    /// established, or Fast Open lets the program have it before.
    #[must_use]
    pub fn is_open_to_user(&self) -> bool {
        self.state.is_synchronized()
            || self.is_fast_opened()
            || (self.state == State::SynSent && self.fast_open.early)
    }

    /// In SYN-SENT: the user takes the connection for made, has written, and may lay it
    /// down; what was written is still to be delivered.
    pub(crate) fn has_early_data(&self) -> bool {
        self.fast_open.early
            && !self.fast_open.waits
            && self.cfg.linger != crate::config::Linger::Reset
    }

    /// Something was written, or is not going to be: a SYN that waits goes now.
    pub(crate) fn release_syn(&mut self) {
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
        let tried = matches!(f.role, Role::Asks | Role::Sends | Role::FellBack);
        (tried && self.state.is_synchronized()).then_some(FastOpenOutcome {
            cookie: f.given.then_some(f.cookie),
            mss: self.peer_mss,
            sent: f.sent,
            accepted: f.accepted,
            fell_back: f.role == Role::FellBack,
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
            && self.rcv_nxt == 0
            && self.snd_nxt == SYN_POS;
        if !fresh {
            return Disposition::default();
        }
        let len = syn.payload_len.min(self.free_space());
        self.fast_open.accepted = true;
        self.events |= Events::CONNECTED;
        if len == 0 {
            return Disposition::default();
        }
        self.rcv_nxt = i64::from(len);
        self.rcv_adv = self.rcv_nxt;
        self.last_rcv_data = now;
        self.counters.slow_data_in = self.counters.slow_data_in.wrapping_add(1);
        self.events |= Events::RCV_EDGE;
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

    /// The Fast Open option of our SYN or SYN-ACK.
    pub(crate) fn fast_open_option(&self) -> Option<FastOpenCookie> {
        let f = &self.fast_open;
        match f.role {
            Role::None | Role::FellBack => None,
            Role::Asks => Some(FastOpenCookie::REQUEST),
            Role::Sends | Role::Gives => Some(f.cookie),
        }
    }

    /// The bytes of the stream that go with the first SYN, beside these options.
    pub(crate) fn data_on_syn(&mut self, options: &TcpOptions) -> Pos {
        if self.state != State::SynSent || self.fast_open.role != Role::Sends {
            return 0;
        }
        let room = self.fast_open.most.min(self.path_mss);
        let room = i64::from(room) - options.emitted_len() as i64;
        let len = self.snd_edge.min(room).max(0);
        self.fast_open.sent = len as u16;
        len
    }

    /// The SYN was not answered in time (RFC 7413 section 4.1.3.1: the next one has
    /// neither data nor the option).
    pub(crate) fn fast_open_falls_back(&mut self) {
        if matches!(self.fast_open.role, Role::Asks | Role::Sends) {
            self.fast_open.role = Role::FellBack;
        }
    }

    /// The SYN-ACK acknowledges up to `ack` and has this option.
    pub(crate) fn take_fast_open_answer(&mut self, ack: Pos, cookie: Option<FastOpenCookie>) {
        let f = &mut self.fast_open;
        f.accepted = f.sent > 0 && ack > 0;
        if let Some(cookie) = cookie
            && !cookie.as_bytes().is_empty()
            && matches!(f.role, Role::Asks | Role::Sends)
        {
            f.given = true;
            f.cookie = cookie;
        }
    }
}

/// How long Fast Open is left out for a server that did not answer it (RFC 7413 section
/// 4.1.3.1 wants it remembered; Linux begins with an hour).
const AVOID_US: u64 = 3600 * SECOND;

/// Servers that a client remembers.
const CACHE_SIZE: usize = 64;

/// What a client remembers of one server.
#[derive(Debug, Clone, Copy)]
struct Known {
    server: IpAddr,
    cookie: FastOpenCookie,
    mss: u16,
    /// Not before this.
    not_before: Instant,
    used: Instant,
}

/// What a client remembers of servers (RFC 7413 section 4.1.3): cookies, their MSS, and
/// who is better left alone. Bounded; the one that was not used for the longest time
/// makes room.
#[derive(Debug, Clone, Default)]
pub struct FastOpenCache {
    known: Vec<Known>,
}

impl FastOpenCache {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> FastOpenCache {
        FastOpenCache { known: Vec::new() }
    }

    /// How to open a connection to `server`: `None` without Fast Open, otherwise what
    /// to give to [`Tcb::start_fast_open`].
    pub fn way_to(
        &mut self,
        server: IpAddr,
        now: Instant,
    ) -> Option<Option<(FastOpenCookie, u16)>> {
        let Some(known) = self.known.iter_mut().find(|k| k.server == server) else {
            return Some(None);
        };
        known.used = now;
        if now < known.not_before {
            return None;
        }
        let has_cookie = !known.cookie.as_bytes().is_empty();
        Some(has_cookie.then_some((known.cookie, known.mss)))
    }

    /// What an open has shown.
    pub fn learn(&mut self, server: IpAddr, outcome: &FastOpenOutcome, now: Instant) {
        let known = self.entry(server, now);
        known.mss = outcome.mss;
        if outcome.fell_back {
            known.not_before = now.after_us(AVOID_US);
            known.cookie = FastOpenCookie::REQUEST;
        } else if let Some(cookie) = outcome.cookie {
            known.cookie = cookie;
        } else if outcome.sent > 0 && !outcome.accepted {
            // Refused without a new cookie: the old one is no good any more.
            known.cookie = FastOpenCookie::REQUEST;
        }
    }

    fn entry(&mut self, server: IpAddr, now: Instant) -> &mut Known {
        let at = match self.known.iter().position(|k| k.server == server) {
            Some(at) => at,
            None => {
                if self.known.len() == CACHE_SIZE {
                    let oldest = (0..CACHE_SIZE).min_by_key(|&i| self.known[i].used);
                    self.known.swap_remove(oldest.unwrap_or(0));
                }
                self.known.push(Known {
                    server,
                    cookie: FastOpenCookie::REQUEST,
                    mss: DEFAULT_MSS,
                    not_before: Instant(0),
                    used: now,
                });
                self.known.len() - 1
            }
        };
        self.known[at].used = now;
        &mut self.known[at]
    }
}

/// How long a key makes cookies; those of the last one are still taken (RFC 7413 section
/// 4.1.2).
const KEY_LIFE_US: u64 = 3600 * SECOND;

/// A listener's side of Fast Open (TCP_FASTOPEN): how many connections may be open that
/// have proved their address by a cookie alone (RFC 7413 section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenQueue {
    limit: u32,
    pending: u32,
}

/// What a server makes of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenVerdict {
    /// Its data may be taken: call [`Tcb::accept_fast_open`], and
    /// [`FastOpenQueue::on_done`] once the handshake is over or has failed.
    pub accept: bool,
    /// Call [`Tcb::give_fast_open_cookie`].
    pub give: Option<FastOpenCookie>,
}

impl FastOpenQueue {
    /// Fast Open is off.
    #[must_use]
    pub const fn new() -> FastOpenQueue {
        FastOpenQueue {
            limit: 0,
            pending: 0,
        }
    }

    /// TCP_FASTOPEN on a listener; 0 turns it off.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// The handshake of a connection that was accepted so is over, or has failed.
    pub fn on_done(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Judges a SYN of `client` (RFC 7413 section 4.1.2). `hash` is a keyed hash of a
    /// client's address and a number that stands for the key's age; the caller keeps
    /// the key.
    pub fn judge(
        &mut self,
        syn: &Segment<'_>,
        client: IpAddr,
        now: Instant,
        hash: impl Fn(IpAddr, u64) -> u64,
    ) -> FastOpenVerdict {
        let none = FastOpenVerdict::default();
        let Some(offered) = syn.header.options.fast_open else {
            return none;
        };
        if self.limit == 0 {
            return none;
        }
        let age = now.0 / KEY_LIFE_US;
        let cookie = |age: u64| FastOpenCookie::new(&hash(client, age).to_be_bytes());
        let current = cookie(age);
        let is_current = Some(offered) == current;
        let is_good = is_current || (age > 0 && Some(offered) == cookie(age - 1));
        if !is_good {
            // A request, or one of another key: here is a new one.
            return FastOpenVerdict {
                accept: false,
                give: current,
            };
        }
        let give = current.filter(|_| !is_current);
        // Section 5.1: beyond the limit, the handshake proves the address as usual.
        let accept = self.pending < self.limit;
        self.pending += u32::from(accept);
        FastOpenVerdict { accept, give }
    }
}

#[cfg(test)]
mod tests;
