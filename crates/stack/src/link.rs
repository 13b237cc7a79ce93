//! The way out: routes, neighbours and the port.
//!
//! Owns [`Link`], which is composed of parts. Each owns its fields, and what needs one part alone
//! borrows that: input asks `addresses` whether a packet is for us, and what has its next hop goes
//! to `output`. The methods of [`Link`] take several.
//!
//! | part | contents | file |
//! | --- | --- | --- |
//! | `output` | packets out by a next hop that is known | `ip_output.rs`, `packets.rs`, `whole.rs`, `held.rs` |
//! | `output.device` | the port, what it can do, our hardware address; frames out | `device.rs` |
//! | `output.hops` | routes, neighbours, and the packets that wait for these | `next_hops.rs`, `routing.rs` |
//! | `addresses` | our own addresses | `local_addresses.rs` |
//! | `auto` | DHCP's client and what routers advertise | `automatic.rs` |
//! | `groups` | groups that programs have joined | `memberships.rs` |
//! | `announcing` | what is done when the link has come back | `link_return.rs` |

pub(crate) mod automatic;
mod device;
mod held;
mod ip_output;
mod link_return;
mod local_addresses;
pub(crate) mod memberships;
mod neighbors;
mod next_hops;
mod packets;
pub(crate) mod routing;
pub(crate) mod v6;
mod whole;

use crate::address_pair::headers_of_segment;
use crate::secrets::{Purpose, Secrets};
use automatic::{Automatic, AutomaticState};
pub(crate) use device::Device;
pub(crate) use ip_output::IpOutput;
use link_return::Announcements;
use local_addresses::{LocalAddresses, LocalAddresses6};
use longshore_frames::{GsoKind, LinkKind, Port};
use longshore_net::pmtu::PathMtu;
use longshore_net::{Cidr, Instant as NetInstant};
use longshore_tcp::{FastOpenCache, Instant};
use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::{ethernet, ipv4, ipv6};
use memberships::Memberships;
use next_hops::NextHops;
pub(crate) use packets::{UdpForm, packets, tcp_ipv4_header, tcp_ipv6_header};
use routing::{AddressError, routes};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
pub(crate) use whole::WholeMessage;

/// What every link of IPv6 takes (RFC 8200 section 5), in bytes.
const LEAST_MTU_V6: usize = 1280;
/// The longest link and IP header of IPv4 that we write.
const LOWER_HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Room for all headers of a segment.
const HEADER_ROOM: usize = LOWER_HEADERS + longshore_wire::tcp::MAX_HEADER_LEN;
/// As [`LOWER_HEADERS`], of IPv6.
const LOWER_HEADERS_V6: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
/// As [`HEADER_ROOM`], of IPv6.
const HEADER_ROOM_V6: usize = LOWER_HEADERS_V6 + longshore_wire::tcp::MAX_HEADER_LEN;

/// Where a packet to some destination goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// The neighbor with this hardware address.
    Neighbor(MacAddr),
    /// This host itself: the packet comes back as one that has arrived.
    Local,
    /// Its hardware address is being asked for. Packets may be held until it answers.
    Resolving,
    /// It does not answer.
    Unreachable,
    /// There is no route.
    NoRoute,
}

/// A packet to ourselves, from the IP header on.
#[derive(Debug)]
pub(crate) struct OwnPacket {
    pub(crate) packet: Vec<u8>,
    /// If not 0, it is a train of datagrams of this size.
    pub(crate) gso: u16,
}

/// The transport's part of a packet to be sent.
pub(crate) struct Transport<'a> {
    pub(crate) protocol: u8,
    /// Where the transport header stands in the buffer given, its checksum
    /// field zero.
    pub(crate) header_len: usize,
    /// Where its checksum field is, from its start.
    pub(crate) checksum_at: usize,
    pub(crate) payload: &'a [IoSlice<'a>],
    /// Cut into packets of this much payload each.
    pub(crate) gso: Option<(GsoKind, u16)>,
}

/// The interface that a stack begins with.
pub struct Interface<'a> {
    /// Where its packets go.
    pub port: Box<dyn Port>,
    /// Its addresses, each with the prefix it is in: at most one of IPv4.
    pub addresses: &'a [Cidr],
    /// The routers to everywhere else, at most one for each version of IP.
    pub gateways: &'a [IpAddr],
    /// Addresses and routers that it finds itself.
    pub automatic: &'a Automatic,
}

/// The way out: parts that own their fields, and what takes several of them.
pub(crate) struct Link {
    /// What sends packets whose next hop is known.
    pub(crate) output: IpOutput,
    pub(crate) addresses: LocalAddresses,
    pub(crate) pmtu: PathMtu,
    /// What servers have shown of Fast Open.
    pub(crate) fast_open: FastOpenCache,
    /// A datagram that is put together, to be cut in another way; kept for its memory.
    pub(crate) scratch: Vec<u8>,
    /// Our addresses are still to be announced.
    announcing: Announcements,
    /// Where addresses come from that nobody has typed.
    pub(crate) auto: Box<AutomaticState>,
    /// The groups that programs have joined.
    pub(crate) groups: Memberships,
}

pub(crate) fn net_time(now: Instant) -> NetInstant {
    NetInstant(now.0)
}

/// Addresses by their version of IP; there is one of IPv4 at most.
fn by_version(addresses: &[Cidr]) -> Result<(Option<Cidr>, Vec<Cidr>), AddressError> {
    let (v4, v6): (Vec<Cidr>, Vec<Cidr>) = addresses.iter().partition(|c| c.address.is_ipv4());
    match v4[..] {
        [] => Ok((None, v6)),
        [one] => Ok((Some(one), v6)),
        [_, second, ..] => Err(AddressError::SecondV4(second)),
    }
}

impl Link {
    /// `loopback` says whether 127.0.0.0/8 and ::1 are ours.
    pub(crate) fn new(
        Interface {
            port,
            addresses,
            gateways,
            automatic,
        }: Interface<'_>,
        loopback: bool,
        secrets: &Secrets,
        now: Instant,
    ) -> Result<Self, AddressError> {
        let device = Device::new(port);
        let capabilities = device.capabilities();
        let (v4, v6) = by_version(addresses)?;
        let ethernet = capabilities.link != LinkKind::Ip;
        let auto = AutomaticState::new(automatic, capabilities, v4, gateways, secrets, now)?;
        let routers = auto.routers();
        let v6 = match v6[..] {
            [] if routers.is_none() => None,
            _ if capabilities.mtu < LEAST_MTU_V6 => {
                return Err(AddressError::Mtu(capabilities.mtu));
            }
            _ => Some(LocalAddresses6::new(
                &v6,
                ethernet.then_some(device.mac()),
                routers,
                secrets,
                now,
            )?),
        };
        if v4.is_none() && v6.is_none() && !auto.is_any() {
            return Err(AddressError::None);
        }
        let addresses = LocalAddresses::new(v4, v6, loopback);
        let routes = routes(v4, addresses.on_link6(), gateways, ethernet)?;
        let hops = NextHops::new(routes, gateways);
        let identifications = (
            secrets.number(Purpose::Identification4) as u16,
            secrets.number(Purpose::Identification6) as u32,
        );
        let mut link = Self {
            output: IpOutput::new(device, hops, identifications),
            addresses,
            pmtu: PathMtu::new(),
            fast_open: FastOpenCache::new(),
            scratch: Vec::new(),
            announcing: Announcements::OFF,
            auto,
            groups: Memberships::new(secrets),
        };
        link.show_addresses();
        Ok(link)
    }

    /// The port's interface has come, changed or gone.
    pub(crate) fn take_port_events(&mut self, now: Instant) {
        let has_returned = self.output.device.take_events();
        self.show_addresses();
        if has_returned {
            self.link_returned(now);
        }
    }

    /// Our address towards `to`.
    pub(crate) fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            // To each of its loopback addresses a host goes from the first.
            IpAddr::V4(ip) if ip.is_loopback() => return Some(Ipv4Addr::LOCALHOST.into()),
            _ if self.addresses.contains(to) => return Some(to),
            _ => {}
        }
        let hop = match self.output.hops.routes().lookup(to) {
            Some(hop) => hop,
            None if self.addresses.is_for_all(to) => return self.addresses.source_for_all(to),
            None => return None,
        };
        match to {
            IpAddr::V4(_) => Some(hop.source),
            IpAddr::V6(to) => self.addresses.source_for6(to).map(IpAddr::V6),
        }
    }

    /// The largest packet that gets through to `to`.
    pub(crate) fn mtu_to(&self, to: IpAddr, now: Instant) -> usize {
        if self.addresses.contains(to) {
            return usize::from(u16::MAX);
        }
        let link = self.link_mtu(to);
        let path = self.pmtu.get(to, net_time(now)).map_or(link, usize::from);
        path.min(link)
    }

    /// Payload that fits a segment to `to` beside headers without options.
    pub(crate) fn mss_to(&self, to: IpAddr, now: Instant) -> u16 {
        let mtu = self.mtu_to(to, now);
        mtu.saturating_sub(headers_of_segment(to)).min(65_495) as u16
    }

    /// The largest packet of the version of `to` that the link takes.
    pub(crate) fn link_mtu(&self, to: IpAddr) -> usize {
        let link = self.output.device.capabilities().mtu.min(65_535);
        let advised = self.auto.mtu_to(to);
        advised.map_or(link, |advised| link.min(advised))
    }
}

/// In [`Transport::checksum_at`]: there is none to be made.
pub(crate) const NO_CHECKSUM: usize = usize::MAX;

impl<'a> Transport<'a> {
    /// A payload that needs nothing before it and no checksum.
    pub(crate) fn finished(payload: &'a [IoSlice<'a>]) -> Self {
        Self {
            protocol: 0,
            header_len: 0,
            checksum_at: NO_CHECKSUM,
            payload,
            gso: None,
        }
    }
}

impl Transport<'_> {
    /// Its length in bytes, header and payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let payload: usize = self.payload.iter().map(|p| p.len()).sum();
        self.header_len + payload
    }

    /// Its checksum, made here; `header` has a zero in its field.
    fn checksum(&self, pseudo: Partial, header: &[u8]) -> u16 {
        let sum = pseudo
            .plus(Partial::of(header))
            .followed_by(self.header_len, Partial::of_pieces(self.payload));
        // RFC 768: a UDP checksum that comes out as zero is sent as all ones.
        if sum.finish() == 0 && self.protocol == ipv4::protocol::UDP {
            0xffff
        } else {
            sum.finish()
        }
    }
}

#[cfg(test)]
mod tests;
