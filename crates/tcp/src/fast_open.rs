//! Fast Open (RFC 7413): data on the SYN.
//!
//! Owns the client's and the server's part. [`FastOpen`] is the state kept in a `Tcb`;
//! `syn_data.rs` acts on it. Outside of the `Tcb` there are `cache` (what a client
//! remembers of servers), `queue` (how a server handles a SYN) and `key` (cookies).
//!
//! Trying costs nothing: a server that does not accept the data acknowledges the SYN
//! alone, and the data is sent again at once. A SYN that is not answered is retransmitted
//! without data and without the option, since a middlebox may have dropped it; if that
//! happens again, the cache disables Fast Open for that server for a while.

#[allow(
    clippy::indexing_slicing,
    reason = "indices are those of entries just found"
)]
mod cache;
mod key;
mod queue;

pub use cache::{FastOpenCache, FastOpenMode};
pub use key::FastOpenKey;
pub use queue::{FastOpenQueue, FastOpenUse, FastOpenVerdict};

use crate::codec::{saved_enum, saved_part};
use crate::config::Config;
use crate::flags::Flags;
use crate::pos::{Pos, SYN_POS};
use crate::snd::SendSide;
use crate::state::State;
use longshore_wire::tcp::FastOpenCookie;

/// Bound for data on a SYN to a server whose MSS is unknown, bytes (RFC 7413 section
/// 4.1.3: the default of RFC 9293).
const DEFAULT_MSS: u16 = 536;

/// Bytes left free on a SYN with data: the maximum length of options, since some
/// middleboxes add options (Linux leaves the same).
const OPTION_ROOM: u16 = 40;

/// What this connection uses Fast Open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing.
    None,
    /// Our SYN requests a cookie.
    RequestsCookie,
    /// Our SYN carries a cookie, and data if there is any.
    SendsCookie,
    /// Our SYN carries data without a cookie: both ends are configured to do so.
    SendsWithoutCookie,
    /// Our SYN-ACK grants a cookie.
    GrantsCookie,
}

saved_enum!(Role {
    None = 0,
    RequestsCookie = 1,
    SendsCookie = 2,
    SendsWithoutCookie = 3,
    GrantsCookie = 4,
});

/// The state of Fast Open on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FastOpen {
    role: Role,
    /// Our SYN was not answered and is retransmitted without Fast Open.
    fell_back: bool,
    /// Server: the program may have the connection before the handshake is complete.
    /// Client: the server has accepted all data of our SYN.
    accepted: bool,
    /// The server has answered our SYN with a cookie.
    given: bool,
    /// The SYN waits for the first data (TCP_FASTOPEN_CONNECT).
    waits: bool,
    /// It did wait, and the program was told that the connection is established.
    early: bool,
    /// The MSS that bounds the data on the SYN, bytes.
    most: u16,
    /// Bytes of data that were on the SYN.
    sent: u16,
    cookie: FastOpenCookie,
}

saved_part!(FastOpen {
    saved {
        role, fell_back, accepted, given, waits, early, most, sent, cookie,
    }
});

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

/// The result of a client's SYN, for the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenOutcome {
    /// The cookie to use next time.
    pub cookie: Option<FastOpenCookie>,
    /// The MSS that the server advertised, bytes.
    pub mss: u16,
    /// Bytes of data on the SYN, and whether the server took them all.
    pub sent: u16,
    /// See `sent`.
    pub accepted: bool,
    /// The SYN with the option was not answered, but one without was.
    pub fell_back: bool,
    /// The option was that of the experiment (RFC 6994).
    pub experimental: bool,
}

/// Why a client's SYN delivered no data although Fast Open was enabled, as in Linux's
/// tcpi_fastopen_client_fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum FastOpenFailure {
    /// The SYN delivered data, was not meant to, or the result is not known yet.
    #[default]
    None = 0,
    /// There was no cookie.
    NoCookie = 1,
    /// The server acknowledged less than all of the data.
    NotAcknowledged = 2,
    /// The server acknowledged less than all of the data after the SYN was retransmitted.
    Repeated = 3,
}

impl FastOpen {
    /// Enables it for an active open. `wait` holds the SYN back until data is written
    /// (TCP_FASTOPEN_CONNECT), unless it requests a cookie. Returns whether it waits.
    pub(crate) fn start(&mut self, mode: FastOpenMode, wait: bool) -> bool {
        match mode {
            FastOpenMode::RequestCookie { experimental } => {
                self.role = Role::RequestsCookie;
                self.cookie = FastOpenCookie::REQUEST.as_experiment(experimental);
                return false;
            }
            FastOpenMode::SendCookie { cookie, mss } => {
                self.role = Role::SendsCookie;
                self.cookie = cookie;
                self.most = mss.max(DEFAULT_MSS);
            }
            FastOpenMode::SendWithoutCookie { mss } => {
                self.role = Role::SendsWithoutCookie;
                self.most = mss.max(DEFAULT_MSS);
            }
        }
        self.waits = wait;
        self.early = wait;
        wait
    }

    /// Data was written, or will not be: a SYN that has waited for that is due.
    pub(crate) fn release(&mut self, flags: &mut Flags) {
        if core::mem::take(&mut self.waits) {
            *flags |= Flags::SYN_DUE;
        }
    }

    /// Our SYN-ACK grants this cookie.
    pub(crate) fn grant(&mut self, cookie: FastOpenCookie) {
        self.role = Role::GrantsCookie;
        self.cookie = cookie;
    }

    /// The cookie that our SYN-ACK grants.
    pub(crate) fn granted(&self) -> Option<FastOpenCookie> {
        (self.role == Role::GrantsCookie).then_some(self.cookie)
    }

    /// So much of the payload of the peer's SYN is accepted, bytes.
    pub(crate) fn accept(&mut self, len: u32) {
        self.accepted = true;
        self.sent = len.min(u32::from(u16::MAX)) as u16;
    }

    /// Whether the program has the connection although the handshake is not complete.
    #[inline]
    pub(crate) fn has_opened(&self, state: State) -> bool {
        state == State::SynReceived && self.accepted
    }

    /// Bytes of data that were on the SYN.
    pub(crate) const fn sent(&self) -> u16 {
        self.sent
    }

    /// The result of an active open with a server that has advertised this MSS; `None` if
    /// Fast Open was not tried.
    pub(crate) fn outcome(&self, mss: u16) -> Option<FastOpenOutcome> {
        let tried = matches!(
            self.role,
            Role::RequestsCookie | Role::SendsCookie | Role::SendsWithoutCookie
        );
        tried.then_some(FastOpenOutcome {
            cookie: self.given.then_some(self.cookie),
            mss,
            sent: self.sent,
            accepted: self.accepted,
            fell_back: self.fell_back,
            experimental: self.cookie.is_experiment(),
        })
    }

    /// The path takes segments of `mss` bytes. Returns whether that is less than our SYN had
    /// with its data: then it is sent again at once without data, as after a timeout.
    pub(crate) fn fall_back_on_small_path(&mut self, mss: u16) -> bool {
        let too_long = self.sent > mss && !self.fell_back;
        if too_long {
            self.fall_back();
        }
        too_long
    }

    /// Bytes of data that a waiting SYN can carry; 0 if no SYN waits.
    pub(crate) fn room(&self, snd: &SendSide, cfg: &Config) -> u16 {
        if self.waits {
            self.most_on_syn(snd, cfg)
        } else {
            0
        }
    }

    fn most_on_syn(&self, snd: &SendSide, cfg: &Config) -> u16 {
        let mss = self.most.min(snd.path_mss());
        let mss = match cfg.mss {
            0 => mss,
            set => mss.min(set),
        };
        mss.saturating_sub(OPTION_ROOM)
    }

    /// The SYN waits for the first data.
    pub(crate) fn awaits_data(&self) -> bool {
        self.waits
    }

    /// In SYN-SENT: the user was told that the connection is established.
    pub(crate) fn is_early_connected(&self) -> bool {
        self.early
    }

    /// In SYN-SENT: the user was told that the connection is established, has written,
    /// and may close; what was written must still be delivered.
    pub(crate) fn has_early_data(&self, snd: &SendSide, cfg: &Config) -> bool {
        self.early && !self.waits && snd.edge() > 0 && cfg.linger != crate::config::Linger::Reset
    }

    /// Whether data on a SYN was accepted (TCPI_OPT_SYN_DATA).
    pub(crate) fn syn_data_taken(&self) -> bool {
        self.accepted && self.sent > 0
    }

    /// Why data was not sent with our SYN, or was not accepted.
    pub(crate) fn failure(&self, snd: &SendSide, flags: Flags) -> FastOpenFailure {
        let f = self;
        match f.role {
            Role::RequestsCookie => FastOpenFailure::NoCookie,
            Role::SendsCookie | Role::SendsWithoutCookie
                if f.sent > 0 && !f.accepted && snd.una() > SYN_POS =>
            {
                if flags.contains(Flags::SYN_RETRANSMITTED) {
                    FastOpenFailure::Repeated
                } else {
                    FastOpenFailure::NotAcknowledged
                }
            }
            _ => FastOpenFailure::None,
        }
    }

    /// Whether `end`, which is not 0, is the end of the data on our SYN. That data was alone in its
    /// packet, so it gets PSH if it is retransmitted.
    pub(crate) fn ends_syn_data(&self, flags: Flags, end: Pos) -> bool {
        end == Pos::from(self.sent) && flags.contains(Flags::ACTIVE)
    }

    /// The Fast Open option of our SYN or SYN-ACK.
    pub(crate) fn option(&self, state: State) -> Option<FastOpenCookie> {
        let f = self;
        match f.role {
            _ if f.fell_back => None,
            Role::None | Role::SendsWithoutCookie => None,
            Role::GrantsCookie => Some(f.cookie),
            // Not on the SYN-ACK of a simultaneous open.
            Role::RequestsCookie | Role::SendsCookie => {
                (state == State::SynSent).then_some(f.cookie)
            }
        }
    }

    /// Selects the data that is sent with the first SYN, at most what was `written`; returns
    /// where it ends. `most` is 0 in a role that sends none.
    pub(crate) fn data_on_syn(
        &mut self,
        snd: &SendSide,
        written: Pos,
        cfg: &Config,
        state: State,
    ) -> Pos {
        if state != State::SynSent {
            return 0;
        }
        let len = written.min(Pos::from(self.most_on_syn(snd, cfg))).max(0);
        self.sent = len as u16;
        len
    }

    /// The SYN was not answered in time (RFC 7413 section 4.1.3.1: the next one has
    /// neither data nor the option).
    pub(crate) fn fall_back(&mut self) {
        if matches!(
            self.role,
            Role::RequestsCookie | Role::SendsCookie | Role::SendsWithoutCookie
        ) {
            self.fell_back = true;
        }
    }

    /// The SYN-ACK acknowledges up to `ack` and has this option. A cookie that was not
    /// requested is ignored; one that answers the first SYN after the second was sent is
    /// used.
    pub(crate) fn handle_answer(&mut self, ack: Pos, cookie: Option<FastOpenCookie>) {
        let f = &mut *self;
        f.accepted = f.sent > 0 && ack >= Pos::from(f.sent);
        if let Some(cookie) = cookie
            && !cookie.as_bytes().is_empty()
            && matches!(f.role, Role::RequestsCookie | Role::SendsCookie)
        {
            f.given = true;
            f.cookie = cookie;
        }
    }
}

#[cfg(test)]
mod tests;
