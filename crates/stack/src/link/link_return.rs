//! What is done when the link has come back: the hosts there may have forgotten us, or be others,
//! and so may servers and routers.
//!
//! Owns [`Link::link_returned`], which `link` calls when the port says so, and the
//! announcements that follow. Connections are left alone: they repeat what was lost.

use crate::counters::Counters;
use crate::link::{Link, NextHop, net_time};
use longshore_net::{arp, ndp};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::membership::Record;
use std::net::Ipv6Addr;

/// How often our addresses are announced, and in which distance, in microseconds (RFC 5227
/// section 1.1; RFC 4861 section 7.2.6 would have three, one second apart).
const ANNOUNCEMENTS: u8 = 2;
const EVERY: u64 = 2_000_000;

/// Announcements still to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announcements {
    left: u8,
    due: Instant,
}

impl Announcements {
    pub(crate) const OFF: Announcements = Announcements {
        left: 0,
        due: Instant::NEVER,
    };

    /// When the next one is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.left != 0).then_some(self.due)
    }
}

impl Link {
    /// The link carries frames again. Neighbours in use are asked whether they are still
    /// there, servers and routers are asked again, and the link is told of us: of typed
    /// addresses now, of those from a DHCP server once one has said that they are good
    /// here (or none has said anything).
    pub(crate) fn link_returned(&mut self, now: Instant) {
        if self.device.is_bare() {
            return;
        }
        let at = net_time(now);
        self.hops.link_returned(now);
        if let Some(auto) = &mut self.auto {
            if let Some(dhcp) = &mut auto.dhcp {
                dhcp.link_returned(at);
            }
            if let Some(routers) = &mut auto.routers {
                routers.ask_again(at);
            }
        }
        self.groups.v4.tell_again(at);
        self.groups.v6.tell_again(at);
        self.announcing = Announcements {
            left: ANNOUNCEMENTS,
            due: now,
        };
    }

    /// Announces our addresses, if it is time.
    pub(crate) fn poll_announcements(&mut self, now: Instant, counters: &mut Counters) {
        if self.announcing.left == 0 || now < self.announcing.due {
            return;
        }
        self.announcing = Announcements {
            left: self.announcing.left - 1,
            due: Instant(now.0.saturating_add(EVERY)),
        };
        if let Some(ip) = self.addresses.v4().filter(|_| !self.asks_dhcp()) {
            let packet = arp::announcement(self.device.mac(), ip);
            self.device.send_arp(&packet, MacAddr::BROADCAST, counters);
        }
        let Some(v6) = self.addresses.v6() else {
            return;
        };
        // Others are being asked for, and are announced by that.
        let certain: Vec<Ipv6Addr> = v6.preferred().collect();
        if let Some(ours) = v6.link_local.filter(|ip| certain.contains(ip)) {
            // Switches must let through what is for us.
            self.report_own_groups(ours, Record::Joined, counters);
        }
        for ip in certain {
            let message = ndp::answer(Ipv6Addr::UNSPECIFIED, ip, self.device.mac(), true);
            let to = MacAddr::of_group(message.destination);
            self.send_ndp(&message, NextHop::Neighbor(to), counters);
        }
    }
}
