//! A server's decision on a SYN (RFC 7413 section 4.1.2), and which sockets use Fast
//! Open.
//!
//! Owns [`FastOpenQueue`], one for each listener, and [`FastOpenUse`].

use crate::segment::Segment;
use longshore_wire::tcp::FastOpenCookie;

/// Which sockets use Fast Open: Linux's net.ipv4.tcp_fastopen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenUse {
    /// Clients may request it (1).
    pub client: bool,
    /// Listeners may request it (2).
    pub server: bool,
    /// Clients send data without a cookie (4).
    pub client_without_cookie: bool,
    /// Listeners accept data without a cookie (0x200): for networks without spoofed
    /// addresses.
    pub server_without_cookie: bool,
    /// All listeners use it (0x400), with `server`.
    pub all_listeners: bool,
}

impl FastOpenUse {
    /// Decodes the sysctl's number.
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
    /// Linux's default: those sockets that request it.
    fn default() -> Self {
        FastOpenUse::from_number(3)
    }
}

/// A listener's side of Fast Open (TCP_FASTOPEN): bounds the connections that have proved
/// their address only by a cookie (RFC 7413 section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenQueue {
    limit: u32,
    pending: u32,
}

/// The decision on a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenVerdict {
    /// Its data may be accepted: call
    /// [`SynData::accept`](crate::SynData::accept), and
    /// [`FastOpenQueue::on_done`] once the handshake has completed or failed.
    pub accept: bool,
    /// Call [`SynData::give_cookie`](crate::SynData::give_cookie) with this
    /// cookie.
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

    /// The handshake of a connection that was accepted this way has completed or failed.
    pub fn on_done(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Decides on a SYN. `cookie` computes the cookie of its sender: with the current key
    /// (`false`) or with the previous one, whose cookies are still accepted (`true`).
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
                accept: self.reserve(),
                give: None,
            };
        }
        let Some(offered) = offered else {
            return none;
        };
        let same = |other: Option<FastOpenCookie>| {
            other.is_some_and(|c| c.as_bytes() == offered.as_bytes())
        };
        // The cookie is granted in the same option as it was requested in.
        let current = cookie(false).map(|c| c.as_experiment(offered.is_experiment()));
        let is_current = same(current);
        if !is_current && !same(cookie(true)) {
            // A request, or a cookie of another key: grant a new one.
            return FastOpenVerdict {
                accept: false,
                give: current,
            };
        }
        FastOpenVerdict {
            accept: self.reserve(),
            give: current.filter(|_| !is_current),
        }
    }

    /// Section 5.1: beyond the limit, an ordinary handshake has to prove the address.
    fn reserve(&mut self) -> bool {
        let room = self.pending < self.limit;
        self.pending += u32::from(room);
        room
    }
}
