//! UDP: datagrams in, as records of a socket's receive stream; out, from the
//! records that the host wrote.

use crate::connection::RequestError;
use crate::counters::EngineDrop;
use crate::ends::{Ends, Service};
use crate::engine::Engine;
use crate::input::IpPacket;
use crate::link::Way;
use crate::socket::{DEFAULT_TTL, Kind, Socket};
use crate::streams::{MAX_PIECES, RcvStream, snd_copy, snd_pieces};
use crate::tcp_input::as_family;
use longshore_hostif::{
    Address, Arena, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, PathMtu, datagram_span,
};
use longshore_wire::checksum::Partial;
use longshore_wire::dhcp;
use longshore_wire::ipv4::protocol;
use longshore_wire::udp::{self, UdpHeader};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// Datagrams that one socket may send in one turn.
const DATAGRAMS_A_TURN: usize = 64;
/// Where the checksum stands in a UDP header.
const CHECKSUM_AT: usize = 6;
/// Most payload of a datagram: what IPv6 takes (RFC 8200 section 3); one that IPv4
/// does not take is counted like one without a route.
const MOST_PAYLOAD: u32 = 65_535 - udp::HEADER_LEN as u32;
/// Acknowledgments of what was sent may wait this long for something to ride
/// on, in microseconds.
const TELL_AFTER: u64 = 100_000;

/// What the sender of a datagram has chosen for it.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    service: Service,
    /// Size of the datagrams that it is cut into; 0 if it is one.
    segment: u16,
    path_mtu: PathMtu,
}

/// What a datagram's packet says of it beside its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope {
    /// Where it came to.
    pub(crate) local: SocketAddr,
    /// Who sent it.
    pub(crate) remote: SocketAddr,
    hops: u8,
    class: u8,
}

impl Engine {
    /// A UDP datagram, or a train of them, whose checksum is right.
    pub(crate) fn udp_in<P: IpPacket>(&mut self, ip: &P, bytes: &[u8], gso: u16, broadcast: bool) {
        let header = match UdpHeader::parse(bytes) {
            Ok(header) => header,
            // A train's length field counts one datagram or all of them.
            Err(_) if gso != 0 && bytes.len() > udp::HEADER_LEN => UdpHeader {
                src_port: u16::from_be_bytes([bytes[0], bytes[1]]),
                dst_port: u16::from_be_bytes([bytes[2], bytes[3]]),
                payload_len: (bytes.len() - udp::HEADER_LEN) as u16,
                checksum: 0,
            },
            Err(e) => return self.counters.drop_wire(e),
        };
        let end = if gso != 0 {
            bytes.len()
        } else {
            udp::HEADER_LEN + usize::from(header.payload_len)
        };
        let payload = bytes.get(udp::HEADER_LEN..end).unwrap_or_default();
        let local = SocketAddr::new(ip.destination(), header.dst_port);
        let remote = SocketAddr::new(ip.source(), header.src_port);
        let envelope = Envelope {
            local,
            remote,
            hops: ip.hops(),
            class: ip.class(),
        };
        self.counters.datagrams_in += 1;
        if header.dst_port == dhcp::CLIENT_PORT && self.link.asks_dhcp() {
            return self.link.take_dhcp(payload, self.now, &mut self.counters);
        }
        if ip.is_for_all(self) {
            let part = if gso == 0 {
                payload.len()
            } else {
                usize::from(gso)
            };
            let mut any = false;
            for part in payload.chunks(part.max(1)) {
                any |= self.deliver_to_all(&envelope, part);
            }
            if payload.is_empty() {
                any = self.deliver_to_all(&envelope, payload);
            }
            if !any {
                self.counters.drop(EngineDrop::NoUdpSocket);
            }
            return;
        }
        let spread = self.demux.hash((local, remote));
        let Some(key) = self.datagram_socket(local, remote, spread) else {
            self.counters.drop(EngineDrop::NoUdpSocket);
            return ip.refuse_port(self, bytes, broadcast);
        };
        let whole = self.sockets.get(key).is_some_and(|s| s.options.udp_gro);
        if gso == 0 || whole {
            self.deliver(key, &envelope, payload, gso);
        } else {
            for part in payload.chunks(usize::from(gso)) {
                self.deliver(key, &envelope, part, 0);
            }
        }
    }

    /// The UDP socket that has what comes from `remote` to `local`; `spread` chooses among
    /// those that share a port.
    pub(crate) fn datagram_socket(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        spread: u64,
    ) -> Option<u32> {
        let key = self.demux.udp.find(local, false, spread)?;
        match &self.sockets.get(key)?.kind {
            Kind::Datagram(d) => match d.peer {
                Some(peer) if peer != remote => None,
                _ => Some(key),
            },
            _ => None,
        }
    }

    /// The place of one of our addresses among all, counted from 1; 0 for others.
    fn place_of(&self, own: IpAddr) -> u8 {
        let at = self.link.addresses().position(|c| c.address == own);
        at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// Our address at `place`, counted from 1, with the port of `local`; `local` if
    /// there is none.
    fn own_or(&self, place: u8, local: SocketAddr) -> SocketAddr {
        let before = usize::from(place).checked_sub(1);
        let own = before.and_then(|before| self.link.addresses().nth(before));
        own.map_or(local, |c| SocketAddr::new(c.address, local.port()))
    }

    /// Puts a datagram into a socket's stream.
    pub(crate) fn deliver(&mut self, key: u32, envelope: &Envelope, payload: &[u8], segment: u16) {
        let to = envelope.local.ip();
        let to_group = self.link.is_for_all(to);
        let own = match to {
            to if to_group => self.link.source_for_all(to),
            to => Some(to),
        };
        let own = own.map_or(0, |own| self.place_of(own));
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        let Kind::Datagram(d) = &mut socket.kind else {
            return;
        };
        let peer = Address::from(as_family(envelope.remote, socket.options.ipv6));
        let record = DatagramRecord {
            own,
            segment,
            to_group,
            hops: Some(envelope.hops),
            class: envelope.class,
            ..DatagramRecord::new(payload.len() as u32, peer)
        };
        let (begins, span) = (record.payload_at(), record.span());
        if d.rcv_edge - d.rcv_consumed + span
            > u64::from(socket.options.receive_buffer.max(65_536 * 2))
        {
            d.overruns += 1;
            return self.counters.drop(EngineDrop::UdpBufferFull);
        }
        let mut bytes = [0; DATAGRAM_HEADER + GROUP_BYTES];
        bytes[..DATAGRAM_HEADER].copy_from_slice(&record.encode());
        if to_group {
            let to = match to {
                IpAddr::V4(to) => to.to_ipv6_mapped(),
                IpAddr::V6(to) => to,
            };
            bytes[DATAGRAM_HEADER..].copy_from_slice(&to.octets());
        }
        let rcv = d.rcv.get_or_insert(RcvStream::EMPTY);
        let (base, at, index) = (d.rcv_consumed, d.rcv_edge, socket.id.index);
        let mut place =
            |at, bytes: &[u8]| rcv.place(base, at, bytes, &mut s.rcv_slab, &s.arena, index);
        let header = place(at, &bytes[..begins]);
        let body = place(at + begins as u64, payload);
        let (Ok(a), Ok(b)) = (header, body) else {
            d.overruns += 1;
            let session = socket.session;
            return self.arena_is_full(session);
        };
        d.rcv_edge += span;
        let count = [&mut socket.meter.to_host, &mut s.meter.to_host];
        Socket::count_payload(count, a + b, (begins + payload.len()) as u64);
        self.touch(key);
    }

    /// `connect` on a UDP socket.
    pub(crate) fn connect_datagram(
        &mut self,
        key: u32,
        peer: SocketAddr,
    ) -> Result<SocketAddr, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let (v6, bound) = (socket.options.ipv6, socket.local);
        let peer = Self::meant(&socket.options, peer)?;
        // There must be a way even if the address is chosen.
        let source = self
            .link
            .source_for(peer.ip())
            .ok_or(RequestError::Unreachable)?;
        self.ends_towards(bound, peer.ip())
            .ok_or(RequestError::Unreachable)?;
        if bound.is_none() {
            self.bind_datagram(key)?;
        }
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        if let Kind::Datagram(d) = &mut socket.kind {
            d.peer = Some(peer);
        }
        let local = socket.local.ok_or(RequestError::Invalid)?;
        let ip = if local.ip().is_unspecified() || self.link.is_for_all(local.ip()) {
            source
        } else {
            local.ip()
        };
        Ok(as_family(SocketAddr::new(ip, local.port()), v6))
    }

    fn bind_datagram(&mut self, key: u32) -> Result<(), RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let (v6, v6_only) = (socket.options.ipv6, socket.options.v6_only);
        let any: IpAddr = if v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let user = self.sessions.get(socket.session).map_or(0, |s| s.uid);
        let udp = &mut self.demux.udp;
        let port = udp
            .pick((key, self.now.0), |p| udp.is_free(p))
            .ok_or(RequestError::NoPortLeft)?;
        let local = SocketAddr::new(any, port);
        if !udp.bind(local, key, Self::NO_REUSE, v6_only, user) {
            return Err(RequestError::AddressInUse);
        }
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        socket.local = Some(local);
        socket.become_datagram();
        Ok(())
    }

    /// Sends what the host has written, and tells it of what has come.
    pub(crate) fn settle_datagram(&mut self, key: u32) {
        for _ in 0..DATAGRAMS_A_TURN {
            match self.send_next(key) {
                Some(true) => {}
                Some(false) => break,
                None => {
                    // The stream makes no sense: nothing of it is sent any more.
                    self.counters.drop(EngineDrop::BadStream);
                    if let Some(Kind::Datagram(d)) = self.sockets.get_mut(key).map(|s| &mut s.kind)
                    {
                        d.snd_done = d.snd_edge;
                    }
                    break;
                }
            }
        }
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let edges = socket.edges();
        let (orphan, quarter) = (socket.orphan, u64::from(socket.options.send_buffer / 4));
        let Kind::Datagram(d) = &mut socket.kind else {
            return;
        };
        let more = d.snd_done < d.snd_edge;
        if orphan && !more {
            return self.forget(key);
        }
        let unsaid = edges.snd_acked - d.told.snd_acked;
        if edges.rcv_edge > d.told.rcv_edge || unsaid >= quarter {
            socket.note_told();
            socket.meter.to_host.descriptors += 1;
            if let Some(s) = self.sessions.get_mut(socket.session) {
                s.post(socket.id, &socket.subscribers, edges);
            }
        } else if unsaid != 0 && d.tell_by.is_none() {
            d.tell_by = Some(now.after_us(TELL_AFTER));
            self.arm(key);
        }
        if more {
            self.touch(key);
        }
    }

    /// Sends the next datagram of a socket's stream. `Some(false)` if there is
    /// none, or it has to wait for its next hop; `None` if the stream is bad.
    fn send_next(&mut self, key: u32) -> Option<bool> {
        let now = self.now;
        let socket = self.sockets.get(key)?;
        let Kind::Datagram(d) = &socket.kind else {
            return Some(false);
        };
        let (at, edge) = (d.snd_done, d.snd_edge);
        if edge <= at {
            return Some(false);
        }
        let (index, options, local) = (socket.id.index, socket.options, socket.local);
        let arena = self.sessions.get(socket.session)?.arena.clone();
        let (record, span) = next_record(&arena, index, at..edge)?;
        let start = at + DATAGRAM_HEADER as u64;
        let range = start..start + u64::from(record.len);
        let mut pieces = [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
        let count = snd_pieces(&arena, index, range, &mut pieces).ok()?;
        let payload = pieces.get(..count)?;
        if local.is_none() {
            self.bind_datagram(key).ok()?;
        }
        let local = self.own_or(record.own, self.sockets.get(key)?.local?);
        let remote = record.peer.get();
        let remote = remote.and_then(|r| Self::meant(&options, r).ok());
        let ends = remote.and_then(|r| self.ends_towards(Some(local), r.ip()));
        let ends =
            ends.filter(|e| e.header_len() + udp::HEADER_LEN + record.len as usize <= most(e));
        let sent = ends.zip(remote).map(|(ends, remote)| {
            let way = self.link.way(&ends, now, &mut self.counters);
            if way == Way::Wait {
                return false;
            }
            let ports = (local.port(), remote.port());
            let chosen = self.chosen(&record, ends.to());
            if self.link.is_for_all(ends.to()) {
                if self.comes_back(&ends, record.looped) {
                    self.send_datagram(Way::Own, &ends, chosen, ports, payload);
                }
                // Without a hop it stays with us.
                if chosen.service.ttl == 0 {
                    return true;
                }
            }
            if self.is_too_long(way, &ends, chosen, record.len as usize) {
                self.counters.drop(EngineDrop::TooLong);
                self.tell_too_long(key);
                return true;
            }
            self.send_datagram(way, &ends, chosen, ports, payload);
            true
        });
        if sent == Some(false) {
            self.unresolved.push(key);
            return Some(false);
        }
        if sent.is_none() {
            self.counters.drop(EngineDrop::NoRoute);
        }
        let socket = self.sockets.get_mut(key)?;
        if let Kind::Datagram(d) = &mut socket.kind {
            d.snd_done += span;
        }
        if let Some(s) = self.sessions.get_mut(socket.session) {
            let counts = [&mut socket.meter.to_adapter, &mut s.meter.to_adapter];
            Socket::count_payload(counts, count as u64 + 1, span);
        }
        self.counters.datagrams_out += 1;
        Some(true)
    }

    /// What the sender of a datagram to `to` has chosen, or left to us.
    fn chosen(&self, record: &DatagramRecord, to: IpAddr) -> Chosen {
        let usual = match to {
            IpAddr::V4(_) => None,
            IpAddr::V6(_) => self.link.hop_limit(),
        };
        let service = Service {
            ttl: record.hops.or(usual).unwrap_or(DEFAULT_TTL),
            tos: record.class,
            dont_fragment: record.path_mtu.forbids_routers(),
        };
        Chosen {
            service,
            segment: record.segment,
            path_mtu: record.path_mtu,
        }
    }

    fn send_datagram(
        &mut self,
        way: Way,
        ends: &Ends,
        chosen: Chosen,
        ports: (u16, u16),
        payload: &[IoSlice<'_>],
    ) {
        let Chosen {
            service,
            segment,
            path_mtu,
        } = chosen;
        if !matches!(way, Way::Station(_) | Way::Own) {
            return self.counters.drop(EngineDrop::Unresolved);
        }
        let len: usize = payload.iter().map(|p| p.len()).sum();
        let header = UdpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            payload_len: len as u16,
            checksum: 0,
        };
        let mtu = self.mtu_for(way, ends, path_mtu);
        let segment = usize::from(segment);
        let cut = segment != 0 && segment < len;
        if cut && !(self.link.capabilities.uso && way != Way::Own) {
            let mut whole = std::mem::take(&mut self.whole);
            whole.clear();
            payload.iter().for_each(|p| whole.extend_from_slice(p));
            let alone = Chosen {
                segment: 0,
                ..chosen
            };
            for part in whole.chunks(segment) {
                self.send_datagram(way, ends, alone, ports, &[IoSlice::new(part)]);
            }
            self.whole = whole;
            return;
        }
        let packet_len = len + udp::HEADER_LEN + ends.header_len();
        if !cut && packet_len > mtu {
            return self.send_fragmented(ends, service, &header, payload);
        }
        let gso = cut.then_some(segment as u16);
        let sent = self
            .link
            .send_udp(ends, way, service, &header, payload, gso);
        if sent.is_err() {
            self.counters.drop(EngineDrop::PortRefused);
        }
    }

    /// The longest packet between these that is not cut.
    fn mtu_for(&self, way: Way, ends: &Ends, path_mtu: PathMtu) -> usize {
        match way {
            Way::Own => usize::from(u16::MAX),
            _ if path_mtu.heeds_path() => self.link.mtu_to(ends.to(), self.now),
            _ => self.link.link_mtu(ends.to()),
        }
    }

    /// Whether a datagram of `len` bytes would have to be cut, and is not to be. The host
    /// has looked already; it does not know each path.
    fn is_too_long(&self, way: Way, ends: &Ends, chosen: Chosen, len: usize) -> bool {
        let part = match usize::from(chosen.segment) {
            0 => len,
            segment => segment.min(len),
        };
        let packet = part + udp::HEADER_LEN + ends.header_len();
        chosen.path_mtu.refuses() && packet > self.mtu_for(way, ends, chosen.path_mtu)
    }

    /// A datagram longer than the MTU: summed here and sent in fragments.
    fn send_fragmented(
        &mut self,
        ends: &Ends,
        service: Service,
        header: &UdpHeader,
        payload: &[IoSlice<'_>],
    ) {
        let mut message = std::mem::take(&mut self.whole);
        message.clear();
        message.resize(udp::HEADER_LEN, 0);
        header.emit(&mut message);
        payload.iter().for_each(|p| message.extend_from_slice(p));
        let len = message.len() as u32;
        let pseudo = match *ends {
            Ends::V4 { from, to } => Partial::of_pseudo_v4(from, to, protocol::UDP, len),
            Ends::V6 { from, to } => Partial::of_pseudo_v6(from, to, protocol::UDP, len),
        };
        let sum = pseudo.plus(Partial::of(&message)).finish();
        let sum = if sum == 0 { 0xffff } else { sum };
        message[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        match *ends {
            Ends::V4 { from, to } => {
                self.send_whole((from, to), service, protocol::UDP, &message);
            }
            Ends::V6 { from, to } => {
                self.send_whole6((from, to), service, protocol::UDP, &message);
            }
        }
        self.whole = message;
    }
}

/// The longest packet between these, in bytes: IPv4 counts its header, IPv6 does not.
const fn most(ends: &Ends) -> usize {
    match ends {
        Ends::V4 { .. } => 65_535,
        Ends::V6 { .. } => 65_535 + longshore_wire::ipv6::HEADER_LEN,
    }
}

const _: () = assert!(MAX_PIECES == 3);

/// The record at the beginning of a part of a send stream, and how much of the stream it
/// takes with its payload; `None` if that is more than there is, or than a datagram holds.
fn next_record(arena: &Arena, index: u32, part: Range<u64>) -> Option<(DatagramRecord, u64)> {
    let mut header = [0; DATAGRAM_HEADER];
    let there = part.end - part.start;
    if there < DATAGRAM_HEADER as u64 {
        return None;
    }
    let range = part.start..part.start + DATAGRAM_HEADER as u64;
    snd_copy(arena, index, range, &mut header).ok()?;
    let record = DatagramRecord::decode(&header);
    let span = datagram_span(record.len);
    (record.len <= MOST_PAYLOAD && span <= there).then_some((record, span))
}
