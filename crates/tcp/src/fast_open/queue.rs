//! What a server makes of a SYN (RFC 7413 section 4.1.2), and who uses Fast Open at all.
//!
//! Owns [`FastOpenQueue`], which each listener has one of, and [`FastOpenUse`].

use crate::segment::Segment;
use longshore_wire::tcp::FastOpenCookie;

/// Which ends use Fast Open: Linux's net.ipv4.tcp_fastopen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenUse {
    /// Clients that ask for it (1).
    pub client: bool,
    /// Listeners that ask for it (2).
    pub server: bool,
    /// Clients send data without a cookie (4).
    pub client_without_cookie: bool,
    /// Listeners take data without one (0x200): for networks without forged addresses.
    pub server_without_cookie: bool,
    /// All listeners (0x400), with `server`.
    pub all_listeners: bool,
}

impl FastOpenUse {
    /// What the number says.
    #[must_use]
    pub const fn from_number(number: u64) -> FastOpenUse {
        FastOpenUse {
            client: number & 1 != 0,
            server: number & 2 != 0,
            client_without_cookie: number & 4 != 0,
            server_without_cookie: number & 0x200 != 0,
            all_listeners: number & 0x402 == 0x402,
        }
    }
}

impl Default for FastOpenUse {
    /// Where nobody has decided: those sockets that ask.
    fn default() -> Self {
        FastOpenUse::from_number(3)
    }
}

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
    /// Its data may be taken: call [`Tcb::accept_fast_open`](crate::Tcb::accept_fast_open),
    /// and [`FastOpenQueue::on_done`] once the handshake is over or has failed.
    pub accept: bool,
    /// Call [`Tcb::give_fast_open_cookie`](crate::Tcb::give_fast_open_cookie).
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

    /// Judges a SYN. `cookie` makes the one that its sender is to have: by the key in
    /// use (`false`) or by the one before, whose cookies are still taken (`true`).
    pub fn judge(
        &mut self,
        syn: &Segment<'_>,
        usage: FastOpenUse,
        cookie: impl Fn(bool) -> Option<FastOpenCookie>,
    ) -> FastOpenVerdict {
        let none = FastOpenVerdict::default();
        if self.limit == 0 || !usage.server {
            return none;
        }
        let offered = syn.header.options.fast_open;
        if usage.server_without_cookie && (offered.is_some() || syn.payload_len > 0) {
            return FastOpenVerdict {
                accept: self.take_place(),
                give: None,
            };
        }
        let Some(offered) = offered else {
            return none;
        };
        let same = |other: Option<FastOpenCookie>| {
            other.is_some_and(|c| c.as_bytes() == offered.as_bytes())
        };
        // It goes in the option that it was asked for in.
        let current = cookie(false).map(|c| c.as_experiment(offered.is_experiment()));
        let is_current = same(current);
        if !is_current && !same(cookie(true)) {
            // A request, or one of another key: here is a new one.
            return FastOpenVerdict {
                accept: false,
                give: current,
            };
        }
        FastOpenVerdict {
            accept: self.take_place(),
            give: current.filter(|_| !is_current),
        }
    }

    /// Section 5.1: beyond the limit, the handshake proves the address as usual.
    fn take_place(&mut self) -> bool {
        let room = self.pending < self.limit;
        self.pending += u32::from(room);
        room
    }
}
