//! What the cache knows of either version of IP: which addresses may be neighbours', and how long
//! what one has answered is valid.

use core::net::{Ipv4Addr, Ipv6Addr};

/// An address that can be resolved.
pub trait Address: Copy + Ord {
    /// How long an answer is valid, in milliseconds.
    const REACHABLE_MS: u64;

    /// Whether it can be the address of one host.
    fn may_be_neighbor(self) -> bool;
}

impl Address for Ipv4Addr {
    /// RFC 1122 section 2.3.2.1: on the order of a minute.
    const REACHABLE_MS: u64 = 60_000;

    fn may_be_neighbor(self) -> bool {
        crate::input::may_be_source(self)
    }
}

impl Address for Ipv6Addr {
    /// RFC 4861's REACHABLE_TIME without randomisation: every answer restarts it, so
    /// neighbours do not get in step.
    const REACHABLE_MS: u64 = 30_000;

    fn may_be_neighbor(self) -> bool {
        crate::input6::may_be_source(self)
    }
}
