//! UDP datagrams in, as records of a socket's receive stream.
//!
//! Owns [`UdpInput`]. `input` brings datagrams whose checksums are right.

use crate::access::Transport;
use crate::at_work::AtWork;
use crate::bytes::{part, put};
use crate::counters::EngineDrop;
use crate::demux::Receivers;
use crate::endpoints::Endpoints;
use crate::input::Carried;
use crate::link::memberships::Memberships;
use crate::responder::Responder;
use crate::settings::Settings;
use crate::socket::{Kind, PayloadMoved, Socket, as_family};
use longshore_hostif::adapter::ReceiveStream;
use longshore_hostif::{
    Address, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, Moved, STAMP_BYTES, STREAM_MAX, Stamp,
};
use longshore_wire::WireError;
use longshore_wire::dhcp;
use longshore_wire::udp::{self, UdpHeader};
use std::net::{IpAddr, SocketAddr};

/// Most bytes of a record that come before the payload.
const MOST_HEAD: usize = DATAGRAM_HEADER + GROUP_BYTES + STAMP_BYTES;

/// Most sockets of a port that are looked at for one datagram to a group or to everybody.
const MOST_LOOKED_AT: usize = 4_096;

/// What a datagram's packet says of it beside its bytes.
#[derive(Debug, Clone, Copy)]
struct Envelope {
    /// Where it came to.
    local: SocketAddr,
    /// Its sender.
    remote: SocketAddr,
    hops: u8,
    class: u8,
}

/// The header of a datagram, or of a train of them, and what follows it.
fn split_header(bytes: &[u8], gso: u16) -> Result<(UdpHeader, &[u8]), WireError> {
    let header = match UdpHeader::parse(bytes) {
        Ok(header) => header,
        // A train's length field counts one datagram or all of them.
        Err(e) => match bytes.split_first_chunk::<{ udp::HEADER_LEN }>() {
            Some((&[a, b, c, d, ..], payload)) if gso != 0 && !payload.is_empty() => {
                train_header([a, b, c, d], payload.len())
            }
            _ => return Err(e),
        },
    };
    let end = if gso != 0 {
        bytes.len()
    } else {
        udp::HEADER_LEN + usize::from(header.payload_len)
    };
    let payload = bytes.get(udp::HEADER_LEN..end).unwrap_or_default();
    Ok((header, payload))
}

/// The header of a train with these ports.
fn train_header([a, b, c, d]: [u8; 4], payload_len: usize) -> UdpHeader {
    UdpHeader {
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        payload_len: payload_len as u16,
        checksum: 0,
    }
}

/// The bytes of a record that come before the payload, as many as there can be. `dropped` is how
/// many datagrams the socket has lost, for a record with a stamp.
fn head_of(
    record: &DatagramRecord,
    to: IpAddr,
    arrived_ns: impl FnOnce() -> u64,
    dropped: u64,
) -> [u8; MOST_HEAD] {
    let mut bytes = [0; MOST_HEAD];
    put(&mut bytes, 0, &record.encode());
    if record.to_group {
        let to = match to {
            IpAddr::V4(to) => to.to_ipv6_mapped(),
            IpAddr::V6(to) => to,
        };
        put(&mut bytes, DATAGRAM_HEADER, &to.octets());
    }
    if record.stamped {
        let stamp = Stamp {
            arrived_ns: arrived_ns(),
            dropped: dropped as u32,
        };
        put(&mut bytes, record.stamp_at(), &stamp.encode());
    }
    bytes
}

/// Puts datagrams into the streams of sockets: borrows these with their sessions, what says which
/// of them are meant and who may reach them, and what answers datagrams for nobody. The stack makes
/// one for each datagram, or train of them.
pub(crate) struct UdpInput<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) responder: Responder<'a>,
    pub(crate) settings: &'a Settings,
}

impl UdpInput<'_> {
    /// A UDP datagram, or a train of them, whose checksum is right.
    pub(crate) fn take(&mut self, carried: &Carried<'_>) {
        let (ip, bytes, gso) = (&carried.packet, carried.bytes, carried.gso);
        let (header, payload) = match split_header(bytes, gso) {
            Ok(parts) => parts,
            Err(e) => return self.responder.counters.drop_wire(e),
        };
        let local = SocketAddr::new(ip.destination(), header.dst_port);
        let remote = SocketAddr::new(ip.source(), header.src_port);
        let envelope = Envelope {
            local,
            remote,
            hops: ip.hops(),
            class: ip.class(),
        };
        self.responder.counters.datagrams.received += 1;
        if header.dst_port == dhcp::CLIENT_PORT && self.responder.link.auto.asks_dhcp() {
            return self.responder.link.auto.take_dhcp(
                payload,
                self.responder.now,
                self.responder.counters,
            );
        }
        if carried.packet.is_for_all(self.responder.link) {
            return self.deliver_train(&envelope, payload, gso);
        }
        let key = self
            .endpoints
            .sockets
            .datagram_at(&self.endpoints.demux, local, remote);
        let Some((key, socket)) = key.and_then(|key| Some((key, self.endpoints.sockets.get(key)?)))
        else {
            self.responder.counters.drop(EngineDrop::NoUdpSocket);
            return carried.refuse_port(&mut self.responder);
        };
        let access = &self.settings.access;
        if socket.kind.datagram_peer() != Some(remote)
            && !access.may_accept(Transport::Udp, remote.ip(), local.port())
        {
            return self.responder.counters.drop(EngineDrop::AccessDenied);
        }
        let whole = socket.options.datagrams.is_merged();
        if gso == 0 || whole {
            self.deliver(key, &envelope, payload, gso);
        } else {
            for part in payload.chunks(usize::from(gso)) {
                self.deliver(key, &envelope, part, 0);
            }
        }
    }

    /// A datagram, or a train of them, to a group or to everybody on the link.
    fn deliver_train(&mut self, envelope: &Envelope, payload: &[u8], gso: u16) {
        let part = if gso == 0 {
            payload.len()
        } else {
            usize::from(gso)
        };
        let mut any = false;
        for part in payload.chunks(part.max(1)) {
            any |= self.deliver_to_all(envelope, part);
        }
        if payload.is_empty() {
            any = self.deliver_to_all(envelope, payload);
        }
        if !any {
            self.responder.counters.drop(EngineDrop::NoUdpSocket);
        }
    }

    /// A datagram to a group or to everybody goes to all sockets that receive it; says
    /// whether there was one.
    fn deliver_to_all(&mut self, envelope: &Envelope, payload: &[u8]) -> bool {
        let (local, remote) = (envelope.local, envelope.remote);
        let receives = |s: &Socket, links: &Memberships| {
            let of = (&s.options.datagrams, links);
            matches!(&s.kind, Kind::Datagram(d) if d.receives_from(local.ip(), remote, of))
        };
        let mut any = false;
        let (mut at, mut looked_at) = (Receivers::START, 0);
        while let Some(key) = (self.endpoints.demux.udp).next_receiver(local, remote, &mut at) {
            if looked_at == MOST_LOOKED_AT {
                self.responder.counters.drop(EngineDrop::GroupReceivers);
                break;
            }
            looked_at += 1;
            let links = &self.responder.link.groups;
            let socket = self.endpoints.sockets.get(key);
            if socket.is_some_and(|s| receives(s, links)) {
                any = true;
                self.deliver(key, envelope, payload, 0);
            }
        }
        any
    }

    /// Puts a datagram into a socket's stream.
    fn deliver(&mut self, key: u32, envelope: &Envelope, payload: &[u8], segment: u16) {
        self.endpoints.sessions.at_work = AtWork::Socket(key);
        let to = envelope.local.ip();
        let to_group = self.responder.link.addresses.is_for_all(to);
        let own = match to {
            // On the loopback it is the sender's.
            _ if to_group && envelope.remote.ip().is_loopback() => Some(envelope.remote.ip()),
            to if to_group => self.responder.link.addresses.source_for_all(to),
            to => Some(to),
        };
        let own = own.map_or(0, |own| self.responder.link.addresses.place_of(own));
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        let Some(s) = self.endpoints.sessions.get_mut(socket.session) else {
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
            stamped: socket.options.datagrams.is_stamped(),
            hops: Some(envelope.hops),
            class: envelope.class,
            ..DatagramRecord::new(payload.len() as u32, peer)
        };
        let (begins, span) = (record.payload_at(), record.span());
        // One that finds the buffer not yet over its limit is taken whole, as in Linux: so
        // there is always room for one, however short the buffer is.
        let held = d.rcv_edge - d.rcv_consumed;
        if held > socket.options.receive_buffer.into() || held + span > STREAM_MAX {
            d.overruns += 1;
            return self.responder.counters.drop(EngineDrop::UdpBufferFull);
        }
        let clock = || self.settings.host.time_of_day_ns();
        let bytes = head_of(&record, to, clock, d.overruns);
        let rcv = d.rcv.get_or_insert(ReceiveStream::EMPTY);
        let (base, at, index) = (d.rcv_consumed, d.rcv_edge, socket.id.index);
        let mut place = |at, bytes: &[u8]| rcv.place(base, at, bytes, &mut s.host.receive, index);
        let header = place(at, part(&bytes, 0..begins));
        let body = place(at + begins as u64, payload);
        let (Ok(a), Ok(b)) = (header, body) else {
            d.overruns += 1;
            let session = socket.session;
            return self
                .endpoints
                .sessions
                .arena_is_full(session, self.responder.counters);
        };
        d.rcv_edge += span;
        let count = [
            &mut socket.payload.to_host,
            &mut s.host.meter.to_host.payload,
        ];
        let mut moved = Moved::of_stream(a, at, begins as u64);
        moved.add(&Moved::of_stream(
            b,
            at + begins as u64,
            payload.len() as u64,
        ));
        PayloadMoved::count(count, &moved);
        self.endpoints.sockets.touch(key);
    }
}
