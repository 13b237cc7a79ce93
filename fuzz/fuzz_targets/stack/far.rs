//! Four peers on the wire: what they send, right but for what is said, and what they
//! learn from what the stack sends. They look at all of that.

use crate::{Options, Packet, Segment, Who};
use longshore_wire::SeqNumber;
use longshore_wire::arp::{self, ArpPacket, Operation};
use longshore_wire::checksum::{Partial, verify_transport};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader, MacAddr};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header, next_header};
use longshore_wire::tcp::{CHECKSUM_OFFSET, HEADER_LEN, TcpFlags, TcpHeader, TcpOptions};
use longshore_wire::udp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where the program listens, and whence the peers speak.
pub(crate) const PORT: u16 = 80;
const ENGINE: (MacAddr, Ipv4Addr, Ipv6Addr) = (
    MacAddr([2, b'L', b'S', 0, 0, 1]),
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
);
const OURS: MacAddr = MacAddr([2, b'L', b'S', 0, 0, 2]);
const MTU: usize = 1500;
const PEERS: usize = 4;

pub(crate) fn address_of(who: Who) -> IpAddr {
    let last = 2 + who.number % PEERS as u8;
    if who.v6 {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(10, 0, 0, last).into()
    }
}

fn engine_at(who: Who) -> IpAddr {
    if who.v6 {
        ENGINE.2.into()
    } else {
        ENGINE.1.into()
    }
}

/// A peer's connection: what it sends next, what the stack does, and its last stamp.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    snd: u32,
    rcv: u32,
    stamp: u32,
    clock: u32,
}

/// All peers, with a connection each over either version of IP.
pub(crate) struct Far {
    ethernet: bool,
    ends: [[Ends; PEERS]; 2],
}

impl Far {
    pub(crate) fn new(ethernet: bool) -> Far {
        Far {
            ethernet,
            ends: [[Ends::default(); PEERS]; 2],
        }
    }

    fn ends(&mut self, who: Who) -> &mut Ends {
        &mut self.ends[usize::from(who.v6)][usize::from(who.number) % PEERS]
    }

    // ---- What comes to the stack. ----

    /// A frame to the stack or to all, or its body where there are no frames.
    pub(crate) fn frame(&self, kind: u16, to_all: bool, body: &[u8]) -> Vec<u8> {
        let destination = if to_all { MacAddr([0xff; 6]) } else { ENGINE.0 };
        self.frame_to(destination, kind, body)
    }

    fn frame_to(&self, destination: MacAddr, kind: u16, body: &[u8]) -> Vec<u8> {
        if !self.ethernet {
            return body.to_vec();
        }
        let mut frame = vec![0; ethernet::HEADER_LEN];
        EthernetHeader {
            destination,
            source: OURS,
            ether_type: EtherType::from(kind),
        }
        .emit(&mut frame);
        frame.extend_from_slice(body);
        frame
    }

    /// A packet with any body, to the stack or to a group.
    pub(crate) fn packet(&self, who: Who, packet: &Packet) -> Vec<u8> {
        let mut body = packet.body.clone();
        body.truncate(MTU - ipv6::HEADER_LEN);
        let to: IpAddr = match (packet.to % 4, who.v6) {
            (1, true) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
            (2, true) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1).into(),
            (1, false) => Ipv4Addr::new(224, 0, 0, 1).into(),
            (2, false) => Ipv4Addr::BROADCAST.into(),
            _ => engine_at(who),
        };
        if packet.right_sum {
            set_sum(address_of(who), to, packet.protocol, &mut body);
        }
        self.wrap(who, to, packet, &body)
    }

    fn wrap(&self, who: Who, to: IpAddr, packet: &Packet, body: &[u8]) -> Vec<u8> {
        let len = body.len() as u16;
        let mut bytes;
        let (kind, group) = match (address_of(who), to) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes = vec![0; ipv4::HEADER_LEN];
                Ipv4Header {
                    tos: packet.traffic_class,
                    payload_len: len,
                    identification: u16::from(packet.to),
                    dont_fragment: packet.fragment & 0x4000 != 0,
                    more_fragments: packet.fragment & 0x2000 != 0,
                    fragment_offset: (packet.fragment & 0x1fff) * 8,
                    ttl: packet.hops,
                    protocol: packet.protocol,
                    source,
                    destination,
                }
                .emit(&mut bytes);
                let [_, b, c, d] = destination.octets();
                (0x0800, MacAddr([1, 0, 0x5e, b & 0x7f, c, d]))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes = vec![0; ipv6::HEADER_LEN];
                Ipv6Header {
                    traffic_class: packet.traffic_class,
                    flow_label: u32::from(packet.fragment),
                    payload_len: len,
                    next_header: packet.protocol,
                    hop_limit: packet.hops,
                    source,
                    destination,
                }
                .emit(&mut bytes);
                let [.., c, d, e, f] = destination.octets();
                (0x86dd, MacAddr([0x33, 0x33, c, d, e, f]))
            }
            _ => unreachable!("both addresses are of one version"),
        };
        bytes.extend_from_slice(body);
        let destination = match to {
            to if to == engine_at(who) => ENGINE.0,
            IpAddr::V4(Ipv4Addr::BROADCAST) => MacAddr([0xff; 6]),
            _ => group,
        };
        self.frame_to(destination, kind, &bytes)
    }

    fn wrap_usual(&self, who: Who, protocol: u8, body: &[u8]) -> Vec<u8> {
        let packet = Packet {
            protocol,
            traffic_class: 0,
            fragment: 0x4000,
            hops: 64,
            to: 0,
            right_sum: true,
            body: Vec::new(),
        };
        self.wrap(who, engine_at(who), &packet, body)
    }

    /// A segment of the peer's connection.
    pub(crate) fn segment(&mut self, who: Who, s: &Segment) -> Vec<u8> {
        let ends = self.ends(who);
        let mut header = TcpHeader {
            src_port: PORT,
            dst_port: PORT,
            seq: SeqNumber(ends.snd.wrapping_add_signed(s.seq.into())),
            ack: SeqNumber(ends.rcv.wrapping_add_signed(s.ack.into())),
            flags: TcpFlags(s.flags.into()),
            window: s.window,
            urgent: s.urgent,
            options: TcpOptions::default(),
        };
        let mut raw: &[u8] = &[];
        match &s.options {
            Options::None => {}
            Options::Timestamps(back) => {
                ends.clock = ends.clock.wrapping_add(1);
                let val = ends.clock.wrapping_add_signed((*back).into());
                let echo = ends.stamp;
                header.options.timestamps = Some(longshore_wire::tcp::Timestamps { val, echo });
            }
            Options::Sack(ranges) => {
                for (from, len) in ranges {
                    let left = SeqNumber(ends.rcv.wrapping_add_signed((*from).into()));
                    header.options.sack.push(left, left.add((*len).into()));
                }
            }
            Options::Bytes(bytes) => raw = bytes,
        }
        let len = usize::from(s.len) % 1_400;
        // What continues the peer's stream is its next.
        let flags = header.flags;
        if s.seq == 0 && s.right_sum && !flags.contains(TcpFlags::RST) {
            let marks =
                u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
            ends.snd = ends.snd.wrapping_add(len as u32 + marks);
        }
        let bytes = tcp(&header, raw, len, who, s.right_sum);
        self.wrap_usual(who, protocol::TCP, &bytes)
    }

    /// A SYN, which begins the peer's connection anew.
    pub(crate) fn syn(&mut self, who: Who) -> Vec<u8> {
        let ends = self.ends(who);
        ends.clock = ends.clock.wrapping_add(1);
        ends.stamp = 0;
        let header = TcpHeader {
            src_port: PORT,
            dst_port: PORT,
            seq: SeqNumber(ends.snd),
            ack: SeqNumber(0),
            flags: TcpFlags::SYN,
            window: 60_000,
            urgent: 0,
            options: TcpOptions {
                mss: Some(1_400),
                window_scale: Some(2),
                sack_permitted: true,
                timestamps: Some(longshore_wire::tcp::Timestamps {
                    val: ends.clock,
                    echo: 0,
                }),
                ..TcpOptions::default()
            },
        };
        ends.snd = ends.snd.wrapping_add(1);
        let bytes = tcp(&header, &[], 0, who, true);
        self.wrap_usual(who, protocol::TCP, &bytes)
    }

    /// Acknowledges all that has come, with so many bytes.
    pub(crate) fn answer(&mut self, who: Who, len: u16) -> Vec<u8> {
        let answer = Segment {
            flags: TcpFlags::ACK.0 as u8,
            seq: 0,
            ack: 0,
            window: 30_000,
            urgent: 0,
            options: Options::Timestamps(0),
            len,
            right_sum: true,
        };
        self.segment(who, &answer)
    }

    pub(crate) fn datagram(&self, who: Who, len: u16) -> Vec<u8> {
        let len = udp::HEADER_LEN as u16 + len % 1_400;
        let mut bytes = vec![0; len.into()];
        for (at, value) in [(0, PORT), (2, PORT), (4, len)] {
            bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        }
        set_sum(address_of(who), engine_at(who), protocol::UDP, &mut bytes);
        self.wrap_usual(who, protocol::UDP, &bytes)
    }

    // ---- What comes from it. ----

    /// A frame of the stack, looked at; what its link answers to it.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if !self.ethernet {
            match frame.first().map(|b| b >> 4) {
                Some(4) => self.receive_v4(frame),
                Some(6) => self.receive_v6(frame),
                _ => panic!("no packet: {frame:?}"),
            }
            return None;
        }
        let header = EthernetHeader::parse(frame).expect("a header");
        assert_eq!(header.source, ENGINE.0);
        let packet = &frame[ethernet::HEADER_LEN..];
        match header.ether_type {
            EtherType::Ipv4 => self.receive_v4(packet),
            EtherType::Ipv6 => self.receive_v6(packet),
            EtherType::Arp => return self.arp(packet),
            other => panic!("{other:?}"),
        }
        None
    }

    /// All of 10.0.0.0/24 but the stack are peers.
    fn arp(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let asked = ArpPacket::parse(packet).expect("ARP");
        let whom = asked.target_ip;
        if asked.operation != Operation::Request || whom == ENGINE.1 {
            return None;
        }
        let mut answer = vec![0; arp::PACKET_LEN];
        ArpPacket {
            operation: Operation::Reply,
            sender_mac: OURS,
            sender_ip: whom,
            target_mac: ENGINE.0,
            target_ip: ENGINE.1,
        }
        .emit(&mut answer);
        Some(self.frame(0x0806, false, &answer))
    }

    fn receive_v4(&mut self, packet: &[u8]) {
        assert!(packet.len() <= MTU, "{}", packet.len());
        let (header, payload) = Ipv4Header::parse(packet).expect("IPv4");
        assert_eq!(payload.end, packet.len());
        assert_eq!(header.source, ENGINE.1);
        if header.more_fragments || header.fragment_offset > 0 {
            return;
        }
        let (from, to) = (header.source.into(), header.destination.into());
        let segment = &packet[payload];
        match header.protocol {
            protocol::TCP => self.receive_tcp(from, to, segment),
            protocol::UDP => assert!(verify_transport(from, to, protocol::UDP, segment)),
            protocol::ICMP => assert_eq!(Partial::of(segment).finish(), 0),
            _ => {}
        }
    }

    fn receive_v6(&mut self, packet: &[u8]) {
        assert!(packet.len() <= MTU, "{}", packet.len());
        let (header, payload) = Ipv6Header::parse(packet).expect("IPv6");
        assert_eq!(payload.end, packet.len());
        let local = header.source.segments()[0] == 0xfe80 || header.source.is_unspecified();
        assert!(local || header.source == ENGINE.2, "{header:?}");
        let (from, to) = (header.source.into(), header.destination.into());
        let segment = &packet[payload];
        match header.next_header {
            protocol::TCP => self.receive_tcp(from, to, segment),
            next @ (protocol::UDP | next_header::ICMPV6) => {
                assert!(verify_transport(from, to, next, segment));
            }
            _ => {}
        }
    }

    fn receive_tcp(&mut self, from: IpAddr, to: IpAddr, segment: &[u8]) {
        assert!(verify_transport(from, to, protocol::TCP, segment));
        let (header, len) = TcpHeader::parse(segment).expect("TCP");
        let last = match to {
            IpAddr::V4(to) => to.octets()[3],
            IpAddr::V6(to) => to.octets()[15],
        };
        let who = Who {
            number: last.wrapping_sub(2),
            v6: to.is_ipv6(),
        };
        if address_of(who) != to {
            return;
        }
        let ends = self.ends(who);
        let syn = header.flags.contains(TcpFlags::SYN);
        let marks = u32::from(syn) + u32::from(header.flags.contains(TcpFlags::FIN));
        let end = header.seq.add((segment.len() - len) as u32 + marks).0;
        if syn || (end.wrapping_sub(ends.rcv) as i32) > 0 {
            ends.rcv = end;
        }
        if let Some(stamps) = header.options.timestamps {
            ends.stamp = stamps.val;
        }
    }
}

/// A segment with so many bytes of payload; options as they are, if there are any.
fn tcp(header: &TcpHeader, options: &[u8], len: usize, who: Who, right_sum: bool) -> Vec<u8> {
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    let room = (60 - bytes.len()).min(options.len()) & !3;
    bytes.extend_from_slice(&options[..room]);
    if room > 0 {
        bytes[12] = bytes[12] & 0xf | ((HEADER_LEN + room) as u8 / 4) << 4;
    }
    bytes.resize(bytes.len() + len, b'p');
    if right_sum {
        set_sum(address_of(who), engine_at(who), protocol::TCP, &mut bytes);
    }
    bytes
}

/// Puts the checksum of a protocol that has one into its place.
fn set_sum(from: IpAddr, to: IpAddr, kind: u8, bytes: &mut [u8]) {
    let at = match kind {
        protocol::TCP => CHECKSUM_OFFSET,
        protocol::UDP => 6,
        protocol::ICMP | protocol::IGMP | next_header::ICMPV6 => 2,
        _ => return,
    };
    if bytes.len() < at + 2 {
        return;
    }
    bytes[at..at + 2].fill(0);
    let sum = Partial::of(bytes);
    let sum = if kind == protocol::ICMP || kind == protocol::IGMP {
        sum
    } else {
        let pseudo = Partial::of_pseudo(from, to, kind, bytes.len() as u32);
        sum.plus(pseudo.expect("both addresses are of one version"))
    };
    bytes[at..at + 2].copy_from_slice(&sum.finish().to_be_bytes());
}
