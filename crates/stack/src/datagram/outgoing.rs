//! How datagrams leave: from the records that the host wrote, each with all that was chosen
//! for it when it was written.
//!
//! Owns [`DatagramSender`]; [`DatagramOutput`](super::DatagramOutput) calls its
//! [`send_next`](DatagramSender::send_next) until there is nothing more.

use super::left::LeftPacket;
use crate::access::Transport;
use crate::address_pair::{AddressPair, DEFAULT_TTL, Service};
use crate::bytes::put;
use crate::counters::{Counters, EngineDrop};
use crate::demux::Ports;
use crate::link::{Link, NextHop, UdpForm, WholeMessage};
use crate::send_stamps::AskedOfDatagram;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::socket::Reporter;
use crate::socket::{Kind, Options, PayloadMoved, Socket};
use longshore_frames::in_place;
use longshore_hostif::adapter::{Immediate, MAX_PIECES, SendStreams, Use};
use longshore_hostif::{DATAGRAM_HEADER, DatagramRecord, Moved, PathMtu, datagram_span};
use longshore_hostif::{ERROR_PAYLOAD, SharedBytes};
use longshore_tcp::Instant;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::MIN_MTU;
use longshore_wire::udp::{self, UdpHeader};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Datagrams that one call may be cut into (Linux: UDP_MAX_SEGMENTS).
const MOST_SEGMENTS: u32 = 128;
/// Where the checksum stands in a UDP header.
const CHECKSUM_AT: usize = 6;
/// Most payload of a datagram: what IPv6 takes (RFC 8200 section 3); one that IPv4
/// does not take is counted like one without a route.
const MOST_PAYLOAD: u32 = 65_535 - udp::HEADER_LEN as u32;
/// What the sender of a datagram has chosen for it.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    service: Service,
    /// Size of the datagrams that it is cut into; 0 if it is one.
    segment: u16,
    path_mtu: PathMtu,
    unsummed: bool,
}

/// Sends the datagrams of sockets: borrows the link that they go to, what counts them, and whom
/// they may reach.
pub(super) struct DatagramSender<'a> {
    pub(super) link: &'a mut Link,
    pub(super) counters: &'a mut Counters,
    pub(super) settings: &'a Settings,
    pub(super) now: Instant,
}

impl DatagramSender<'_> {
    /// Sends the next datagram of a socket's stream; says how many packets that were. None
    /// if there is none, or it has to wait for its next hop; `None` if the stream is bad.
    pub(super) fn send_next(
        &mut self,
        key: u32,
        socket: &mut Socket,
        sessions: &mut Sessions,
        udp: &mut Ports,
    ) -> Option<u32> {
        let Kind::Datagram(d) = &socket.kind else {
            return Some(0);
        };
        let (at, edge) = (d.snd_done, d.snd_edge);
        if edge <= at {
            return Some(0);
        }
        let (index, options, local) = (socket.id.index, socket.options, socket.bound.local());
        let immediate = socket.immediate;
        let session = sessions.get(socket.session)?;
        let (streams, user) = (session.host.send.clone(), session.uid);
        let (record, span) = next_record(&streams, index, &immediate, at..edge)?;
        let start = at + DATAGRAM_HEADER as u64;
        let range = start..start + u64::from(record.len);
        let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
        let came_along = streams
            .gather_immediate(&immediate, &(at..at + span), &mut pieces)
            .is_some();
        let found = streams.gather_immediate(&immediate, &range, &mut pieces);
        let count = match found {
            Some(count) => count,
            None => streams.gather(index, range, Use::Read, &mut pieces).ok()?,
        };
        let payload = in_place(pieces.get(..count)?);
        if local.is_none() {
            socket.bind_datagram(key, udp, user, self.now).ok()?;
        }
        // Each names its peer; of memory that was never written one could send without end.
        let remote = record.peer.get()?;
        let local = socket.local_towards(socket.bound.local()?, remote.ip());
        let local = self.link.addresses.own_or(record.own, local);
        let packets = match record.segment {
            0 => 1,
            segment => record.len.div_ceil(u32::from(segment)).max(1),
        };
        let asked = socket.asked_of_datagram(at + span);
        match self.way_to(&options, local, remote, packets, record.len) {
            Ok((addresses, remote)) => {
                let ports = (local.port(), remote.port());
                let whom = (&mut *socket, &mut *sessions);
                let has_left = self.send_record(whom, &record, &addresses, ports, payload);
                if let Some(asked) = asked.filter(|_| has_left) {
                    let packet = LeftPacket {
                        addresses: &addresses,
                        ports,
                        service: self.chosen(&record, addresses.to()).service,
                        payload,
                    };
                    self.note_left((&mut *socket, &mut *sessions), asked, &packet);
                }
            }
            Err(why) => self.counters.drop(why),
        }
        if let Kind::Datagram(d) = &mut socket.kind {
            d.snd_done += span;
        }
        if let Some(s) = sessions.get_mut(socket.session)
            && !came_along
        {
            let counts = [
                &mut socket.payload.to_adapter,
                &mut s.host.meter.to_adapter.payload,
            ];
            // Header, chunks and the record are whole words.
            let moved = Moved {
                transfers: count as u64 + 1,
                bytes: span,
                words: span.div_ceil(8),
            };
            PayloadMoved::count(counts, &moved);
        }
        self.counters.datagrams.sent += 1;
        Some(packets.min(MOST_SEGMENTS))
    }

    /// Between which addresses so many packets with so much payload in all go from `local` to
    /// `remote`, and where `remote` is; else why they do not.
    #[inline(always)]
    fn way_to(
        &self,
        options: &Options,
        local: SocketAddr,
        remote: SocketAddr,
        packets: u32,
        len: u32,
    ) -> Result<(AddressPair, SocketAddr), EngineDrop> {
        let remote = options.destination(remote).ok();
        if remote.is_some_and(|r| !self.settings.access.may_connect(Transport::Udp, r)) {
            return Err(EngineDrop::AccessDenied);
        }
        if packets > MOST_SEGMENTS {
            return Err(EngineDrop::TooManySegments);
        }
        let remote = remote.ok_or(EngineDrop::NoRoute)?;
        let addresses = self.link.addresses_towards(Some(local), remote.ip());
        let fits = |e: &AddressPair| e.header_len() + udp::HEADER_LEN + len as usize <= most(e);
        let addresses = addresses.filter(fits).ok_or(EngineDrop::NoRoute)?;
        Ok((addresses, remote))
    }

    /// Sends the payload of a socket's record between these addresses and ports, where they lead;
    /// whether it has left.
    fn send_record(
        &mut self,
        (socket, sessions): (&mut Socket, &mut Sessions),
        record: &DatagramRecord,
        addresses: &AddressPair,
        ports: (u16, u16),
        payload: &[IoSlice<'_>],
    ) -> bool {
        let hop = self
            .link
            .next_hop_between(addresses, self.now, self.counters);
        let chosen = self.chosen(record, addresses.to());
        if self.link.addresses.is_for_all(addresses.to()) {
            if self.link.comes_back(addresses, record.looped) {
                self.send_datagram(NextHop::Local, addresses, chosen, ports, payload);
            }
            // Without a hop it stays with us, as does what is sent on the loopback (RFC 1122 section
            // 3.2.1.3 g).
            if chosen.service.ttl == 0 || addresses.from().is_loopback() {
                return true;
            }
        }
        if self.is_too_long(hop, addresses, chosen, record.len as usize) {
            self.counters.drop(EngineDrop::TooLong);
            let reporter = Reporter {
                sessions,
                counters: self.counters,
                now: self.now,
            };
            let to = SocketAddr::new(addresses.to(), ports.1);
            socket.note_too_long(to, self.link, reporter);
            return false;
        }
        self.send_datagram(hop, addresses, chosen, ports, payload)
    }

    /// What the sender of a datagram to `to` has chosen, or left to us.
    fn chosen(&self, record: &DatagramRecord, to: IpAddr) -> Chosen {
        let usual = match to {
            IpAddr::V4(_) => None,
            IpAddr::V6(_) => self.link.auto.hop_limit(),
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
            // The datagrams of a train have checksums.
            unsummed: record.unsummed && record.segment == 0,
        }
    }

    /// Sends it; whether it has left, or waits for its next hop alone.
    fn send_datagram(
        &mut self,
        hop: NextHop,
        addresses: &AddressPair,
        chosen: Chosen,
        ports: (u16, u16),
        payload: &[IoSlice<'_>],
    ) -> bool {
        let Chosen {
            service,
            segment,
            path_mtu,
            unsummed,
        } = chosen;
        if matches!(hop, NextHop::Unreachable | NextHop::NoRoute) {
            self.counters.drop(EngineDrop::Unresolved);
            return false;
        }
        let len: usize = payload.iter().map(|p| p.len()).sum();
        let header = UdpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            payload_len: len as u16,
            checksum: 0,
        };
        let mtu = self.mtu_for(hop, addresses, path_mtu);
        let segment = usize::from(segment);
        let cut = segment != 0 && segment < len;
        // What comes to our own arrives as the port would have it, and of what waits for its
        // next hop each waits for itself.
        let by_port = self.link.output.device.capabilities().uso && hop != NextHop::Resolving;
        if cut && !(by_port || hop == NextHop::Local) {
            let mut whole = std::mem::take(&mut self.link.scratch);
            whole.clear();
            payload.iter().for_each(|p| whole.extend_from_slice(p));
            let alone = Chosen {
                segment: 0,
                ..chosen
            };
            let mut has_left = true;
            for part in whole.chunks(segment) {
                has_left &= self.send_datagram(hop, addresses, alone, ports, &[IoSlice::new(part)]);
            }
            self.link.scratch = whole;
            return has_left;
        }
        let packet_len = len + udp::HEADER_LEN + addresses.header_len();
        if !cut && packet_len > mtu {
            self.send_fragmented(addresses, chosen, mtu, &header, payload);
            return true;
        }
        let form = match unsummed {
            _ if cut => UdpForm::Train(segment as u16),
            true => UdpForm::Unsummed,
            false => UdpForm::Whole,
        };
        let sent = self
            .link
            .output
            .send_udp(addresses, hop, service, &header, payload, form);
        if sent.is_err() {
            self.counters.drop(EngineDrop::PortRefused);
        }
        sent.is_ok()
    }

    /// The longest packet between these that is not cut.
    fn mtu_for(&self, hop: NextHop, addresses: &AddressPair, path_mtu: PathMtu) -> usize {
        match hop {
            NextHop::Local => usize::from(u16::MAX),
            _ if path_mtu == PathMtu::Least => {
                self.link.mtu_to(addresses.to(), self.now).min(MIN_MTU)
            }
            _ if path_mtu.honors_path_mtu() => self.link.mtu_to(addresses.to(), self.now),
            _ => self.link.link_mtu(addresses.to()),
        }
    }

    /// Whether a datagram of `len` bytes would have to be cut, and is not to be. The host
    /// has looked already; it does not know each path.
    fn is_too_long(
        &self,
        hop: NextHop,
        addresses: &AddressPair,
        chosen: Chosen,
        len: usize,
    ) -> bool {
        let part = match usize::from(chosen.segment) {
            0 => len,
            segment => segment.min(len),
        };
        let packet = part + udp::HEADER_LEN + addresses.header_len();
        chosen.path_mtu.refuses() && packet > self.mtu_for(hop, addresses, chosen.path_mtu)
    }

    /// A datagram longer than the MTU: summed here, if it is to be, and sent in fragments.
    fn send_fragmented(
        &mut self,
        addresses: &AddressPair,
        chosen: Chosen,
        mtu: usize,
        header: &UdpHeader,
        payload: &[IoSlice<'_>],
    ) {
        let mut message = std::mem::take(&mut self.link.scratch);
        message.resize(udp::HEADER_LEN, 0);
        header.emit(&mut message);
        payload.iter().for_each(|p| message.extend_from_slice(p));
        let len = message.len() as u32;
        let pseudo = match *addresses {
            AddressPair::V4 { .. } if chosen.unsummed => None,
            AddressPair::V4 { from, to } => {
                Some(Partial::of_pseudo_v4(from, to, protocol::UDP, len))
            }
            AddressPair::V6 { from, to } => {
                Some(Partial::of_pseudo_v6(from, to, protocol::UDP, len))
            }
        };
        if let Some(pseudo) = pseudo {
            let sum = pseudo.plus(Partial::of(&message)).finish();
            let sum = if sum == 0 { 0xffff } else { sum };
            put(&mut message, CHECKSUM_AT, &sum.to_be_bytes());
        }
        let whole = WholeMessage {
            service: chosen.service,
            protocol: protocol::UDP,
            bytes: &message,
            most: mtu,
        };
        self.link
            .send_message(addresses, &whole, self.now, self.counters);
        self.link.scratch = message;
    }
}

impl DatagramSender<'_> {
    /// The datagram `left` has just left, of which this is `asked`.
    #[cold]
    pub(super) fn note_left(
        &mut self,
        (socket, sessions): (&mut Socket, &mut Sessions),
        asked: AskedOfDatagram,
        left: &LeftPacket<'_>,
    ) {
        let mut bytes = [0; ERROR_PAYLOAD];
        let len = left.write(&mut bytes);
        let from = SocketAddr::new(left.addresses.from(), left.ports.0);
        let at_ns = self.settings.host.time_of_day_ns();
        let reporter = Reporter {
            sessions,
            counters: self.counters,
            now: self.now,
        };
        let packet = bytes.get(..len).unwrap_or_default();
        socket.note_datagram_left(asked, (from, at_ns), packet, reporter);
    }
}

/// The longest packet between these, in bytes: IPv4 counts its header, IPv6 does not.
const fn most(addresses: &AddressPair) -> usize {
    match addresses {
        AddressPair::V4 { .. } => 65_535,
        AddressPair::V6 { .. } => 65_535 + longshore_wire::ipv6::HEADER_LEN,
    }
}

/// The record at the beginning of a part of a send stream, and how much of the stream it
/// takes with its payload; `None` if that is more than there is, or than a datagram holds.
fn next_record(
    streams: &SendStreams,
    index: u32,
    immediate: &Immediate,
    part: Range<u64>,
) -> Option<(DatagramRecord, u64)> {
    let mut header = [0; DATAGRAM_HEADER];
    let there = part.end - part.start;
    if there < DATAGRAM_HEADER as u64 {
        return None;
    }
    if !streams.copy_immediate_out(immediate, part.start, &mut header) {
        streams.copy_out(index, part.start, &mut header).ok()?;
    }
    let record = DatagramRecord::decode(&header);
    let span = datagram_span(record.len);
    (record.len <= MOST_PAYLOAD && span <= there).then_some((record, span))
}
