//! The parameters of a DHCP lease, and its times.

use super::{MAX_ROUTES, Reply, StaticRoute};
use crate::Instant;
use core::net::Ipv4Addr;

/// The lease time that means infinity (RFC 2131 section 3.3).
const FOR_EVER: u32 = u32::MAX;
/// The smallest MTU that is accepted, in bytes (RFC 1122 section 3.3.2).
const LEAST_MTU: u16 = 576;

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Length of its network's prefix, 0 to 32 bits.
    pub prefix_len: u8,
    /// The server that granted it.
    pub server: Ipv4Addr,
    /// The default router; `None` if there are `routes`, which replace it.
    pub router: Option<Ipv4Addr>,
    /// Routes (RFC 3442).
    pub routes: [Option<StaticRoute>; MAX_ROUTES],
    /// The link's MTU in bytes, at least 576.
    pub mtu: Option<u16>,
    seconds: u32,
    renew: Option<u32>,
    rebind: Option<u32>,
}

impl Lease {
    /// The lease of an offer or acknowledgment; `None` if its address cannot be a host's,
    /// or it has no lease time.
    #[must_use]
    pub(super) fn of(reply: &Reply) -> Option<Self> {
        let address = reply.address;
        if !crate::input::may_be_source(address) || address.is_loopback() {
            return None;
        }
        let router = reply.router.filter(|r| *r != address);
        Some(Self {
            address,
            // A server that sends no mask means the mask of the address's class (RFC 950
            // section 2.1).
            prefix_len: reply.prefix_len.unwrap_or(match address.octets()[0] {
                ..128 => 8,
                128..192 => 16,
                _ => 24,
            }),
            server: reply.server,
            router: router.filter(|r| reply.routes[0].is_none() && crate::input::may_be_source(*r)),
            routes: reply.routes,
            mtu: reply.mtu.filter(|mtu| *mtu >= LEAST_MTU),
            seconds: reply.lease?,
            renew: reply.renew,
            rebind: reply.rebind,
        })
    }

    /// Whether both configure the same, apart from their times.
    pub(super) fn configures_like(&self, other: &Self) -> bool {
        let timeless = |lease: &Self| Self {
            seconds: 0,
            renew: None,
            rebind: None,
            server: Ipv4Addr::UNSPECIFIED,
            ..*lease
        };
        timeless(self) == timeless(other)
    }

    /// T1, when renewal is requested from its server: by default after half of the lease
    /// time (RFC 2131 section 4.4.5).
    pub(super) fn renew_at(&self, asked: Instant) -> Instant {
        let default = (self.seconds / 2).min(self.rebind_after());
        let renew = self.renew.filter(|t| *t < self.rebind_after());
        self.after(asked, renew.unwrap_or(default))
    }

    /// T2, when renewal is requested from all servers: by default after seven eighths.
    pub(super) fn rebind_at(&self, asked: Instant) -> Instant {
        self.after(asked, self.rebind_after())
    }

    /// When it ends.
    pub(super) fn ends_at(&self, asked: Instant) -> Instant {
        self.after(asked, self.seconds)
    }

    fn rebind_after(&self) -> u32 {
        let default = (u64::from(self.seconds) * 7 / 8) as u32;
        self.rebind.filter(|t| *t < self.seconds).unwrap_or(default)
    }

    fn after(&self, asked: Instant, seconds: u32) -> Instant {
        if self.seconds == FOR_EVER {
            Instant(u64::MAX)
        } else {
            asked.after_ms(u64::from(seconds) * 1000)
        }
    }
}

#[cfg(test)]
mod tests;
