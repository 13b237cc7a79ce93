//! Packets that are put together of fragments.
//!
//! Owns [`Fragments`]; `input` and `input6` bring what has come, and the engine's maintenance has
//! those forgotten that do not come together.

use crate::link::net_time;
use crate::responder::Responder;
use longshore_net::fragment::{Limits, Reassembler};
use longshore_wire::icmpv4::Icmpv4;
use longshore_wire::ipv6::Ipv6Header;

/// Packets of either version that wait for fragments.
pub(crate) struct Fragments {
    pub(crate) v4: Reassembler,
    pub(crate) v6: Reassembler<Ipv6Header>,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self {
            v4: Reassembler::new(Limits::default()),
            v6: Reassembler::new(Limits::for_ipv6()),
        }
    }

    /// Whether no packet waits for fragments.
    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub(crate) fn expire(&mut self, responder: &mut Responder<'_>) {
        let now = net_time(responder.now);
        let due = |deadline: Option<longshore_net::Instant>| deadline.is_some_and(|d| d <= now);
        if due(self.v4.deadline()) {
            let mut late = Vec::new();
            self.v4
                .expire_with(now, |ip, first| late.push((*ip, first.to_vec())));
            for (ip, first) in late {
                responder.send_error(&ip, &first, &Icmpv4::TimeExceeded { code: 1 }, false);
            }
        }
        if due(self.v6.deadline()) {
            let mut late = Vec::new();
            self.v6
                .expire_with(now, |ip, first| late.push((*ip, first.to_vec())));
            for (ip, first) in late {
                responder.reassembly_failed6(&ip, &first);
            }
        }
    }
}
