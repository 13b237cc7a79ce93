//! IP packets out, whose next hop is known.
//!
//! Owns [`IpOutput`], which is part of the [`Link`](super::Link): it writes the headers below the
//! transport's, makes checksums where the port does not, keeps what waits for a neighbour (`held`),
//! and keeps what is for ourselves until the stack takes it in. Segments and datagrams go through
//! `packets`, whole messages through `whole`, and segments with the headers that a connection keeps
//! through `fast_output`.

use super::device::Device;
use super::next_hops::NextHops;
use super::{
    HEADER_ROOM, HEADER_ROOM_V6, LOWER_HEADERS, LOWER_HEADERS_V6, NO_CHECKSUM, NextHop, OwnPacket,
    Transport,
};
use crate::bytes::{part, put};
use crate::counters::{Counters, EngineDrop};
use longshore_frames::PortError;
use longshore_net::ndp;
use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType};
use longshore_wire::icmpv6::mld;
use longshore_wire::ipv4::Ipv4Header;
use longshore_wire::ipv6::{Ipv6Header, next_header};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::Ipv6Addr;

/// What sends packets whose next hop is known.
pub(crate) struct IpOutput {
    /// The interface that frames go through.
    pub(crate) device: Device,
    /// Routes and neighbours, with the packets that wait for these.
    pub(crate) hops: NextHops,
    /// Packets to ourselves, on their way in again.
    pub(crate) own: VecDeque<OwnPacket>,
    /// That of the last IPv4 packet that no router may cut (an atomic one, RFC 6864).
    atomic: u16,
    /// Those of the last packets of both versions that may be fragmented.
    identification: u16,
    identification6: u32,
}

impl IpOutput {
    /// The identifications are those of the last packets that could be fragmented, of IPv4 and of
    /// IPv6, as if there had been any.
    pub(super) fn new(
        device: Device,
        hops: NextHops,
        (identification, identification6): (u16, u32),
    ) -> Self {
        Self {
            device,
            hops,
            own: VecDeque::new(),
            atomic: 1,
            identification,
            identification6,
        }
    }

    // ---- Of IPv4. ----

    /// The identification of the next IPv4 packet that no router may cut. It tells nobody anything;
    /// some peers merge packets of which each has the next.
    #[inline]
    pub(crate) fn next_atomic_identification(&mut self) -> u16 {
        self.atomic = self.atomic.wrapping_add(1);
        self.atomic
    }

    /// The identification of the next IPv4 packet that may be fragmented, or of the first of so many
    /// that a port makes of one, which have those that follow. Those that may not be are not counted
    /// here, so that none comes again sooner than it has to (RFC 6864 section 4.3).
    pub(crate) fn next_identification(&mut self, packets: usize) -> u16 {
        let first = self.identification.wrapping_add(1);
        self.identification = self.identification.wrapping_add(packets as u16);
        first
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

    /// Sends an IPv4 packet whose payload is finished.
    pub(super) fn send_raw(
        &mut self,
        ip: &Ipv4Header,
        hop: NextHop,
        payload: &[u8],
    ) -> Result<(), PortError> {
        let mut buffer = [0u8; HEADER_ROOM];
        let pieces = [IoSlice::new(payload)];
        self.send_ipv4(ip, hop, &mut buffer, &Transport::finished(&pieces))
    }

    // ---- Of IPv6. ----

    /// The identification of the next packet that goes in fragments (RFC 7739 section
    /// 3: from a random start, so that it is not known to others).
    pub(super) fn next_identification6(&mut self) -> u32 {
        self.identification6 = self.identification6.wrapping_add(1);
        self.identification6
    }

    /// Sends a message of neighbour discovery.
    pub(crate) fn send_ndp(
        &mut self,
        message: &ndp::Message,
        hop: NextHop,
        counters: &mut Counters,
    ) {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.bytes().len() as u16,
            next_header: next_header::ICMPV6,
            hop_limit: ndp::HOP_LIMIT,
            source: message.source,
            destination: message.destination,
        };
        self.send_finished6(&header, hop, message.bytes(), counters);
    }

    /// Sends a packet whose payload is finished, checksum and all.
    pub(crate) fn send_finished6(
        &mut self,
        ip: &Ipv6Header,
        hop: NextHop,
        payload: &[u8],
        counters: &mut Counters,
    ) {
        let mut buffer = [0u8; HEADER_ROOM_V6];
        let pieces = [IoSlice::new(payload)];
        let sent = self.send_ipv6(ip, hop, &mut buffer, &Transport::finished(&pieces));
        if sent.is_err() {
            counters.drop(EngineDrop::PortRefused);
        }
    }

    /// Sends an IPv6 packet. `buffer` has the transport header from [`LOWER_HEADERS_V6`] on;
    /// what stands before it is written here, and the transport checksum, by the port
    /// if it can.
    pub(crate) fn send_ipv6(
        &mut self,
        ip: &Ipv6Header,
        hop: NextHop,
        buffer: &mut [u8; HEADER_ROOM_V6],
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        ip.emit(&mut buffer[ethernet::HEADER_LEN..]);
        let length = transport.len() as u32;
        let pseudo = Partial::of_pseudo_v6(ip.source, ip.destination, transport.protocol, length);
        let kind = (EtherType::Ipv6, pseudo);
        self.send_packet(buffer, LOWER_HEADERS_V6, kind, hop, transport)
    }

    /// Sends a report on groups that somebody here listens to.
    pub(super) fn send_group_report(
        &mut self,
        from: Ipv6Addr,
        message: &[u8],
        counters: &mut Counters,
    ) {
        self.send_mld((from, mld::ROUTERS), message, counters);
    }

    /// Tells routers that speak MLDv1 of one group, to which somebody here listens, or nobody any more.
    pub(super) fn send_older_group_report(
        &mut self,
        from: Ipv6Addr,
        is_listener: bool,
        group: Ipv6Addr,
        counters: &mut Counters,
    ) {
        let mut message = [0; mld::OLDER_LEN];
        let to = mld::emit_older(from, is_listener, group, &mut message);
        self.send_mld((from, to), &message, counters);
    }

    fn send_mld(
        &mut self,
        (from, to): (Ipv6Addr, Ipv6Addr),
        message: &[u8],
        counters: &mut Counters,
    ) {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
            next_header: next_header::HOP_BY_HOP,
            hop_limit: mld::HOP_LIMIT,
            source: from,
            destination: to,
        };
        let hop = NextHop::Neighbor(MacAddr::of_group(to));
        self.send_finished6(&header, hop, message, counters);
    }

    // ---- Of either. ----

    /// Sends a packet whose IP header stands in `buffer` and whose transport header
    /// begins at `start`. If its next hop is being asked for, it waits for that; a train of
    /// packets cannot.
    #[inline]
    fn send_packet(
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
        let offload = !own && !waits && summed && self.device.capabilities().tx_checksum;
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
        let to = match hop {
            NextHop::Neighbor(mac) => Some(mac),
            _ => None,
        };
        self.device
            .send_packet(to, ether_type, (buffer, start), offload, transport)
    }
}
