//! The way out: routes, neighbours and the port.
//!
//! Owns the port and everything that says where a packet goes; of IPv6, [`Link6`] has
//! what IPv4 has no like of. `output` builds the packets.

pub(crate) mod automatic;
mod held;
mod link_return;
mod memberships;
mod neighbors;
mod packets;
pub(crate) mod routing;
pub(crate) mod v6;
mod whole;

use crate::address_pair::headers_of_segment;
use crate::bytes::{part, put};
use crate::secrets::Secrets;
use automatic::{Automatic, AutomaticState};
use link_return::Announcements;
use longshore_frames::{
    Capabilities, GsoKind, LinkKind, Port, PortError, TxChecksum, TxFrame, TxGso,
};
use longshore_net::neighbor::Neighbors;
use longshore_net::pmtu::PathMtu;
use longshore_net::route::Routes;
use longshore_net::{Cidr, Instant as NetInstant};
use longshore_tcp::{FastOpenCache, Instant};
use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader, Wanted};
use longshore_wire::ipv4::{self, Ipv4Header};
use memberships::Memberships;
pub(crate) use packets::{tcp_ipv4_header, tcp_ipv6_header};
use routing::{AddressError, routes};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use v6::Link6;
pub(crate) use whole::WholeMessage;

/// Neighbours of one version of IP remembered at most.
pub(crate) const NEIGHBORS: usize = 1024;
/// What every link of IPv6 takes (RFC 8200 section 5), in bytes.
const LEAST_MTU_V6: usize = 1280;
/// How often progress towards one destination tells of its next hop, in microseconds.
const CONFIRM_AFTER: u64 = 1_000_000;
/// The longest link and IP header that we write.
pub(crate) const LOWER_HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Room for all headers of a segment.
pub(crate) const HEADER_ROOM: usize = LOWER_HEADERS + longshore_wire::tcp::MAX_HEADER_LEN;

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

/// The way out.
pub(crate) struct Link {
    pub(crate) port: Box<dyn Port>,
    pub(crate) capabilities: Capabilities,
    pub(crate) mac: MacAddr,
    /// IPv4 packets to that.
    pub(crate) wanted: Wanted,
    /// Its IPv4 address, if it has one.
    pub(crate) v4: Option<Cidr>,
    pub(crate) own_v4: Option<Ipv4Addr>,
    /// Its IPv6 addresses, if it has any.
    pub(crate) v6: Option<Link6>,
    pub(crate) routes: Routes,
    /// The destination that was looked up last of those behind a neighbor, and its next hop:
    /// what follows to it is not looked up again.
    last_route: Option<(Ipv4Addr, Ipv4Addr)>,
    pub(crate) neighbors: Neighbors,
    pub(crate) pmtu: PathMtu,
    /// What servers have shown of Fast Open.
    pub(crate) fast_open: FastOpenCache,
    /// A datagram that is put together, to be cut in another way; kept for its memory.
    pub(crate) scratch: Vec<u8>,
    identification: u16,
    pub(crate) gateways: Vec<IpAddr>,
    /// Of whom it was said last that what we send arrives, and when.
    pub(crate) confirmed: Option<(IpAddr, Instant)>,
    /// Stations are still to be told that we are here.
    pub(crate) announcing: Announcements,
    /// Packets to ourselves, on their way in again.
    pub(crate) own: VecDeque<OwnPacket>,
    /// Whether 127.0.0.0/8 and ::1 are ours.
    pub(crate) loopback: bool,
    /// Where addresses come from that nobody has typed.
    pub(crate) auto: Option<Box<AutomaticState>>,
    /// The groups that programs have joined.
    pub(crate) groups: Memberships,
}

pub(crate) fn net_time(now: Instant) -> NetInstant {
    NetInstant(now.0)
}

/// Our address on the port's link; nothing where there is no link layer.
fn mac_of(capabilities: &Capabilities) -> MacAddr {
    match capabilities.link {
        LinkKind::Ethernet { mac } => MacAddr(mac),
        LinkKind::Ip => MacAddr::default(),
    }
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
        let capabilities = *port.capabilities();
        let mac = mac_of(&capabilities);
        let (v4, v6) = by_version(addresses)?;
        let ethernet = capabilities.link != LinkKind::Ip;
        let auto = AutomaticState::new(automatic, &capabilities, v4, gateways, secrets, now)?;
        let routers = auto.as_ref().and_then(|auto| auto.routers.as_ref());
        let v6 = match v6[..] {
            [] if routers.is_none() => None,
            _ if capabilities.mtu < LEAST_MTU_V6 => {
                return Err(AddressError::Mtu(capabilities.mtu));
            }
            _ => Some(Link6::new(
                &v6,
                ethernet.then_some(mac),
                routers,
                secrets,
                now,
            )?),
        };
        let own_v4 = match v4.map(|c| c.address) {
            Some(IpAddr::V4(ip)) => Some(ip),
            _ => None,
        };
        if v4.is_none() && v6.is_none() && auto.is_none() {
            return Err(AddressError::None);
        }
        let mut link = Self {
            port,
            capabilities,
            mac,
            wanted: Wanted::new(mac, EtherType::Ipv4),
            v4,
            own_v4,
            routes: routes(v4, v6.iter().flat_map(Link6::on_link), gateways, ethernet)?,
            v6,
            last_route: None,
            neighbors: Neighbors::new(NEIGHBORS),
            pmtu: PathMtu::new(),
            fast_open: FastOpenCache::new(),
            scratch: Vec::new(),
            identification: 1,
            gateways: gateways.to_vec(),
            confirmed: None,
            announcing: Announcements::OFF,
            own: VecDeque::new(),
            loopback,
            auto,
            groups: Memberships::new(secrets),
        };
        link.show_addresses();
        Ok(link)
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    pub(crate) fn is_ours(&self, ip: Ipv4Addr) -> bool {
        Some(ip) == self.own_v4 || (self.loopback && ip.is_loopback())
    }

    /// The port's interface has come, changed or gone.
    pub(crate) fn take_port_events(&mut self, now: Instant) {
        let mac = self.mac;
        if self.port.take_link_events() {
            self.capabilities = *self.port.capabilities();
            self.mac = mac_of(&self.capabilities);
            self.wanted = Wanted::new(self.mac, EtherType::Ipv4);
        }
        self.show_addresses();
        if self.port.link_has_returned() || self.mac != mac {
            self.link_returned(now);
        }
    }

    /// Whether `ip` is one of our addresses, of either version.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.is_ours(ip),
            IpAddr::V6(ip) => self.is_ours6(ip),
        }
    }

    /// All addresses, for those who ask.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.v4.into_iter().chain(self.addresses6())
    }

    /// Our address towards `to`.
    pub(crate) fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            // To each of its loopback addresses a host goes from the first.
            IpAddr::V4(ip) if ip.is_loopback() => return Some(Ipv4Addr::LOCALHOST.into()),
            _ if self.is_local(to) => return Some(to),
            _ => {}
        }
        let hop = match self.routes.lookup(to) {
            Some(hop) => hop,
            None if self.is_for_all(to) => return self.source_for_all(to),
            None => return None,
        };
        match to {
            IpAddr::V4(_) => Some(hop.source),
            IpAddr::V6(to) => self.source_for6(to).map(IpAddr::V6),
        }
    }

    /// The largest packet that gets through to `to`.
    pub(crate) fn mtu_to(&self, to: IpAddr, now: Instant) -> usize {
        if self.is_local(to) {
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

    /// The address that `ip` stands for: connecting to the wildcard means to oneself, as in
    /// Linux.
    pub(crate) fn own_for_wildcard(&self, ip: IpAddr) -> IpAddr {
        if !ip.is_unspecified() {
            return ip;
        }
        let mut own = self.addresses().map(|c| c.address);
        own.find(|own| own.is_ipv4() == ip.is_ipv4()).unwrap_or(ip)
    }

    /// The largest packet of the version of `to` that the link takes.
    pub(crate) fn link_mtu(&self, to: IpAddr) -> usize {
        let link = self.capabilities.mtu.min(65_535);
        let advised = self.auto.as_ref().and_then(|auto| auto.mtu_to(to));
        advised.map_or(link, |advised| link.min(advised))
    }

    /// What we send to `to` arrives there, as its acknowledgments prove (RFC 4861
    /// section 7.3.1): the next hop need not be asked. Not more than once a second is
    /// worth the search.
    pub(crate) fn confirm(&mut self, to: IpAddr, now: Instant) {
        if let Some((last, at)) = self.confirmed
            && last == to
            && now.0.saturating_sub(at.0) < CONFIRM_AFTER
        {
            return;
        }
        self.confirmed = Some((to, now));
        match self.routes.lookup(to).map(|hop| hop.next_hop) {
            Some(IpAddr::V4(hop)) => self.neighbors.confirm(hop, net_time(now)),
            Some(IpAddr::V6(hop)) => self.confirm6(hop, now),
            None => {}
        }
    }

    #[inline]
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Sends an IPv4 packet. `buffer` has the transport header from
    /// [`LOWER_HEADERS`] on; what stands before it is written here, and the
    /// transport checksum, by the port if it can.
    pub(crate) fn send_ipv4(
        &mut self,
        ip: &Ipv4Header,
        hop: NextHop,
        buffer: &mut [u8; HEADER_ROOM],
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        ip.emit(&mut buffer[ethernet::HEADER_LEN..]);
        let length = transport.len() as u32;
        let pseudo = Partial::of_pseudo_v4(ip.source, ip.destination, transport.protocol, length);
        self.send_packet(
            buffer,
            LOWER_HEADERS,
            (EtherType::Ipv4, pseudo),
            hop,
            transport,
        )
    }

    /// Sends a packet whose IP header stands in `buffer` and whose transport header
    /// begins at `start`. If its next hop is being asked for, it waits for that; a train of
    /// packets cannot.
    #[inline]
    pub(crate) fn send_packet(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        (ether_type, pseudo): (EtherType, Partial),
        hop: NextHop,
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        let end = start + transport.header_len;
        let (own, waits) = (hop == NextHop::Local, hop == NextHop::Resolving);
        let summed = transport.checksum_at != NO_CHECKSUM;
        let offload = !own && !waits && summed && self.capabilities.tx_checksum;
        if summed {
            let sum = if offload {
                pseudo.unfinished()
            } else {
                transport.checksum(pseudo, part(buffer, start..end))
            };
            let field = start + transport.checksum_at;
            put(buffer, field, &sum.to_be_bytes());
        }
        if own {
            let mut packet = part(buffer, ethernet::HEADER_LEN..end).to_vec();
            transport
                .payload
                .iter()
                .for_each(|p| packet.extend_from_slice(p));
            let gso = transport.gso.map_or(0, |(_, size)| size);
            self.own.push_back(OwnPacket { packet, gso });
            return Ok(());
        }
        if waits {
            self.hold(part(buffer, ethernet::HEADER_LEN..end), transport);
            return Ok(());
        }
        let link_len = self.capabilities.link_header_len();
        let skip = ethernet::HEADER_LEN - link_len;
        if let (NextHop::Neighbor(mac), true) = (hop, link_len != 0) {
            let header = EthernetHeader {
                destination: mac,
                source: self.mac,
                ether_type,
            };
            header.emit(buffer);
        }
        let checksum_offset = transport.checksum_at as u16;
        self.port.send(&TxFrame {
            headers: part(buffer, skip..end),
            payload: transport.payload,
            checksum: offload.then_some(TxChecksum {
                start: (start - skip) as u16,
                offset: checksum_offset,
            }),
            gso: transport.gso.map(|(kind, size)| TxGso {
                kind,
                size,
                header_len: (end - skip) as u16,
            }),
        })
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
