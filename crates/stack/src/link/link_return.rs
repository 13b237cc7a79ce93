//! What is done when the link has come back: the hosts there may have forgotten us, or be others,
//! and so may servers and routers.
//!
//! Owns [`Link::link_returned`], which `link` calls when the port says so, and the
//! announcements that follow. Connections are left alone: they repeat what was lost.

use crate::counters::Counters;
use crate::link::local_addresses::LocalAddresses;
use crate::link::{IpOutput, Link, NextHop, net_time};
use longshore_net::{arp, ndp};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::icmpv6::mld;
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
        if self.output.device.is_bare() {
            return;
        }
        let at = net_time(now);
        self.output.hops.link_returned(now);
        self.auto.link_returned(now);
        self.groups.v4.tell_again(at);
        self.groups.v6.tell_again(at);
        self.announcing = Announcements {
            left: ANNOUNCEMENTS,
            due: now,
        };
    }
}

impl Announcements {
    /// Announces our `addresses`, if it is time; that of IPv4 unless it is leased. The routers of IPv6
    /// speak `version`.
    pub(super) fn poll(
        &mut self,
        (addresses, version): (&LocalAddresses, mld::Version),
        is_leased: bool,
        output: &mut IpOutput,
        now: Instant,
        counters: &mut Counters,
    ) {
        if self.left == 0 || now < self.due {
            return;
        }
        self.left -= 1;
        self.due = Instant(now.0.saturating_add(EVERY));
        let mac = output.device.mac();
        if let Some(ip) = addresses.v4().filter(|_| !is_leased) {
            let packet = arp::announcement(mac, ip);
            output
                .device
                .send_arp(&packet, MacAddr::BROADCAST, counters);
        }
        let Some(v6) = addresses.v6() else {
            return;
        };
        // Others are being asked for, and are announced by that.
        let certain: Vec<Ipv6Addr> = v6.preferred().collect();
        if let Some(ours) = v6.link_local.filter(|ip| certain.contains(ip)) {
            // Switches must let through what is for us.
            addresses.report_groups((ours, version), Record::ToExclude, output, counters);
        }
        for ip in certain {
            let message = ndp::answer(Ipv6Addr::UNSPECIFIED, ip, mac, true);
            let to = MacAddr::of_group(message.destination);
            output.send_ndp(&message, NextHop::Neighbor(to), counters);
        }
    }
}
