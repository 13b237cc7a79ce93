//! An engine with a test at the other end of its wire, that reads and writes packets:
//! neighbor discovery, echoes, errors, the path MTU.

use super::{A, at, send_datagram, v6};
use crate::common::engines::{Running, bytes, start};
use crate::common::{Host, TIMEOUT};
use longshore_hostif::{Loopback, OpenFlags, SocketKind};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{LinkKind, Port, TxFrame};
use longshore_wire::MacAddr;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv6::{Icmpv6, NdpOptions};
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{
    ALL_NODES, FRAGMENT_LEN, FragmentHeader, HEADER_LEN, Ipv6Header, next_header, solicited_node,
    walk,
};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

/// The other end of an engine's wire.
struct Far {
    port: MemoryPort,
    mac: MacAddr,
    /// The engine's station.
    us: MacAddr,
}

const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

const FAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);

impl Far {
    /// An engine with the address of `US`, and the far end of its wire.
    fn of_engine(dir: &Path) -> (Running, Self) {
        let (ours, far) = pair(&MemoryConfig::default());
        let LinkKind::Ethernet { mac } = ours.capabilities().link else {
            panic!("an Ethernet port");
        };
        let engine = start(dir, A, Box::new(ours), Loopback::Kernel, true);
        let far = Self {
            port: far,
            mac: MacAddr([2, 9, 9, 9, 9, 9]),
            us: MacAddr(mac),
        };
        (engine, far)
    }

    /// The next packet for which `what` gives something, within [`TIMEOUT`].
    fn expect<T>(
        &mut self,
        name: &str,
        mut what: impl FnMut(&EthernetHeader, &Ipv6Header, &[u8]) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        let mut frame = vec![0; longshore_ports::RECV_ROOM];
        while start.elapsed() < TIMEOUT {
            let Some(meta) = self.port.recv(&mut frame).unwrap() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let frame = &frame[..meta.len];
            let link = EthernetHeader::parse(frame).unwrap();
            if link.ether_type != EtherType::Ipv6 {
                continue;
            }
            let packet = &frame[ethernet::HEADER_LEN..];
            let (ip, payload) = Ipv6Header::parse(packet).expect("a packet");
            if let Some(found) = what(&link, &ip, &packet[payload]) {
                return found;
            }
        }
        panic!("no {name}");
    }

    /// The next ICMPv6 message that `what` takes, with what follows its header.
    fn expect_icmp<T>(
        &mut self,
        name: &str,
        mut what: impl FnMut(&Ipv6Header, &Icmpv6, &[u8]) -> Option<T>,
    ) -> T {
        self.expect(name, |_, ip, payload| {
            let upper = walk(ip.next_header, payload).unwrap();
            if upper.next_header != next_header::ICMPV6 || upper.fragment.is_some() {
                return None;
            }
            let message = Icmpv6::parse(ip, &payload[upper.at..]).expect("a right message");
            what(ip, &message, &payload[upper.at + message.header_len()..])
        })
    }

    fn send(&mut self, to: MacAddr, ip: &Ipv6Header, payload: &[u8]) {
        let mut frame = vec![0; ethernet::HEADER_LEN + HEADER_LEN];
        let link = EthernetHeader {
            destination: to,
            source: self.mac,
            ether_type: EtherType::Ipv6,
        };
        link.emit(&mut frame);
        let ip = Ipv6Header {
            payload_len: payload.len() as u16,
            ..*ip
        };
        ip.emit(&mut frame[ethernet::HEADER_LEN..]);
        frame.extend_from_slice(payload);
        self.port.send(&TxFrame::whole(&frame)).unwrap();
        self.port.flush().unwrap();
    }

    fn header(&self, source: Ipv6Addr, to: Ipv6Addr) -> Ipv6Header {
        Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: next_header::ICMPV6,
            hop_limit: 255,
            source,
            destination: to,
        }
    }

    fn send_icmp(&mut self, source: Ipv6Addr, to: Ipv6Addr, message: &Icmpv6, behind: &[u8]) {
        let mut bytes = vec![0; message.header_len()];
        bytes.extend_from_slice(behind);
        message.emit(source, to, &mut bytes);
        let station = if to.is_multicast() {
            MacAddr::of_group(to)
        } else {
            self.us
        };
        let header = self.header(source, to);
        self.send(station, &header, &bytes);
    }

    /// Asks the engine where it is, which tells it where this end is.
    fn advertise(&mut self) -> bool {
        let solicit = Icmpv6::NeighborSolicit { target: US };
        self.send_icmp(FAR, solicited_node(US), &solicit, &self.at_source());
        self.expect_icmp("answer", |ip, m, behind| match m {
            Icmpv6::NeighborAdvert {
                target: US,
                solicited: true,
                override_known,
                ..
            } => {
                assert_eq!((ip.source, ip.destination), (US, FAR));
                let options = NdpOptions::parse(behind).unwrap();
                assert!(options.target_link.is_some());
                Some(*override_known)
            }
            _ => None,
        })
    }

    fn at_source(&self) -> [u8; 8] {
        let mut options = [0; 8];
        let link = NdpOptions {
            source_link: Some(self.mac),
            ..NdpOptions::default()
        };
        link.emit(&mut options);
        options
    }
}

#[test]
fn the_engine_asks_for_its_addresses_and_tells_its_groups() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (_engine, mut far) = Far::of_engine(dir.path());
    let groups = far.expect("report", |link, ip, payload| {
        assert!(!link.destination.is_unicast() && link.source.is_unicast());
        (ip.next_header == next_header::HOP_BY_HOP).then(|| (ip.hop_limit, payload.to_vec()))
    });
    assert_eq!(groups.0, 1);
    let has = |group: Ipv6Addr| groups.1.windows(16).any(|w| w == group.octets());
    assert!(has(solicited_node(US)), "the group of its address");
    let mut claimed = Vec::new();
    far.expect_icmp("claims", |ip, m, behind| {
        if let Icmpv6::NeighborSolicit { target } = m {
            assert!(ip.source.is_unspecified() && behind.is_empty());
            assert_eq!(ip.destination, solicited_node(*target));
            claimed.push(*target);
        }
        (claimed.len() == 2).then_some(())
    });
    assert!(claimed.contains(&US) && claimed.iter().any(|ip| ip.is_unicast_link_local()));
    // While it asks, which takes a second, it lets others' knowledge stand; once it is
    // sure, it overrides it.
    let is_sure = far.advertise();
    assert!(!is_sure || start.elapsed() >= Duration::from_secs(1));
    while !far.advertise() {
        assert!(start.elapsed() < TIMEOUT, "it is never sure");
    }
}

#[test]
fn an_address_that_another_has_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut far) = Far::of_engine(dir.path());
    far.expect_icmp("a claim", |_, m, _| {
        (*m == Icmpv6::NeighborSolicit { target: US }).then_some(())
    });
    let advert = Icmpv6::NeighborAdvert {
        router: false,
        solicited: false,
        override_known: true,
        target: US,
    };
    far.send_icmp(US, ALL_NODES, &advert, &[]);
    let mut host = Host::new(&engine.path);
    let start = Instant::now();
    loop {
        let socket = v6(&mut host, SocketKind::Stream, OpenFlags::empty());
        let bound = host.bind(socket, at("[fd00::1]:80"));
        host.close(socket);
        if bound == Err(99) {
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "it is kept");
    }
}

#[test]
fn echoes_come_back_whole_and_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, mut far) = Far::of_engine(dir.path());
    far.advertise();
    let request = Icmpv6::EchoRequest {
        identifier: 7,
        sequence: 1,
    };
    let reply = Icmpv6::EchoReply {
        identifier: 7,
        sequence: 1,
    };
    far.send_icmp(FAR, US, &request, b"hello");
    far.expect_icmp("an echo", |ip, m, behind| {
        (*m == reply).then(|| assert_eq!((ip.source, behind), (US, &b"hello"[..])))
    });
    // To everybody it answers from its own address.
    far.send_icmp(FAR, ALL_NODES, &request, b"all");
    far.expect_icmp("an echo", |ip, m, _| {
        (*m == reply).then(|| assert_eq!(ip.source, US))
    });
    // 3000 bytes in three fragments, in the wrong order.
    let data = bytes(3_000, 9);
    let mut message = vec![0; request.header_len()];
    message.extend_from_slice(&data);
    request.emit(FAR, US, &mut message);
    for (offset, len) in [(2_400, message.len() - 2_400), (0, 1_200), (1_200, 1_200)] {
        let mut payload = vec![0; FRAGMENT_LEN];
        let fragment = FragmentHeader {
            next_header: next_header::ICMPV6,
            offset: offset as u16,
            more: offset != 2_400,
            identification: 3,
        };
        fragment.emit(&mut payload);
        payload.extend_from_slice(&message[offset..offset + len]);
        let header = Ipv6Header {
            next_header: next_header::FRAGMENT,
            ..far.header(FAR, US)
        };
        far.send(far.us, &header, &payload);
    }
    let mut pieces: Vec<(u16, Vec<u8>)> = Vec::new();
    far.expect("the echo's pieces", |_, ip, payload| {
        if ip.next_header != next_header::FRAGMENT {
            return None;
        }
        assert!(HEADER_LEN + payload.len() <= 1_500);
        let fragment = FragmentHeader::parse(payload).unwrap();
        pieces.push((fragment.offset, payload[FRAGMENT_LEN..].to_vec()));
        (!fragment.more).then_some(())
    });
    let whole: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(&whole[8..], &data[..]);
}

#[test]
fn what_cannot_be_taken_is_answered_by_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, mut far) = Far::of_engine(dir.path());
    far.advertise();
    let send = |far: &mut Far, next_header: u8, payload: &[u8]| {
        let header = Ipv6Header {
            next_header,
            ..far.header(FAR, US)
        };
        far.send(far.us, &header, payload);
    };
    let error = |far: &mut Far, expected: Icmpv6| {
        far.expect_icmp("an error", |ip, m, quoted| {
            (*m == expected).then(|| {
                assert_eq!((ip.source, ip.destination), (US, FAR));
                let original = Ipv6Header::parse_quoted(quoted).unwrap();
                assert_eq!((original.source, original.destination), (FAR, US));
            })
        });
    };
    // A UDP datagram to a port that nobody has.
    let mut datagram = vec![0; 12];
    let (from, to) = (FAR.into(), US.into());
    assert!(longshore_net::udp::finish(from, to, (1, 9), &mut datagram));
    send(&mut far, protocol::UDP, &datagram);
    error(&mut far, Icmpv6::Unreachable { code: 4 });
    // A protocol that is not spoken, named by the byte at 40 behind one extension.
    let mut payload = vec![99, 0, 1, 4, 0, 0, 0, 0];
    payload.extend([0; 20]);
    send(&mut far, next_header::DESTINATION_OPTIONS, &payload);
    let unknown = |pointer| Icmpv6::ParameterProblem { code: 1, pointer };
    error(&mut far, unknown(40));
    send(&mut far, 99, &[0; 20]);
    error(&mut far, unknown(6));
    // A source route.
    let mut payload = vec![protocol::UDP, 2, 0, 1];
    payload.extend([0; 20]);
    send(&mut far, next_header::ROUTING, &payload);
    error(
        &mut far,
        Icmpv6::ParameterProblem {
            code: 0,
            pointer: 42,
        },
    );
    // A first fragment that is not a multiple of eight bytes.
    let mut payload = vec![0; FRAGMENT_LEN];
    let fragment = FragmentHeader {
        next_header: protocol::UDP,
        offset: 0,
        more: true,
        identification: 1,
    };
    fragment.emit(&mut payload);
    payload.extend([0; 13]);
    send(&mut far, next_header::FRAGMENT, &payload);
    error(
        &mut far,
        Icmpv6::ParameterProblem {
            code: 0,
            pointer: 4,
        },
    );
    // Without a checksum nothing is believed, and nothing said.
    datagram[6..8].fill(0);
    send(&mut far, protocol::UDP, &datagram);
    far.send_icmp(
        FAR,
        US,
        &Icmpv6::EchoRequest {
            identifier: 1,
            sequence: 1,
        },
        &[],
    );
    far.expect_icmp("only the echo", |_, m, _| match m {
        Icmpv6::Unreachable { .. } => panic!("an answer to a bad datagram"),
        Icmpv6::EchoReply { .. } => Some(()),
        _ => None,
    });
}

#[test]
fn a_smaller_path_is_heard_of() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut far) = Far::of_engine(dir.path());
    far.advertise();
    let mut host = Host::new(&engine.path);
    let socket = v6(&mut host, SocketKind::Datagram, OpenFlags::empty());
    host.bind(socket, at("[::]:0")).unwrap();
    send_datagram(
        &mut host,
        socket,
        Some(SocketAddr::new(FAR.into(), 7)),
        &bytes(1_452, 1),
    );
    let original = far.expect("a datagram", |_, ip, payload| {
        (ip.next_header == protocol::UDP).then(|| {
            let mut packet = vec![0; HEADER_LEN];
            ip.emit(&mut packet);
            packet.extend_from_slice(payload);
            packet
        })
    });
    assert_eq!(original.len(), 1_500);
    let too_big = Icmpv6::PacketTooBig { mtu: 1_300 };
    far.send_icmp(FAR, US, &too_big, &original[..100]);
    // What is told of later is not known by then: it is asked for until it is.
    let start = Instant::now();
    loop {
        send_datagram(
            &mut host,
            socket,
            Some(SocketAddr::new(FAR.into(), 7)),
            &bytes(1_452, 1),
        );
        let len = far.expect("a datagram", |_, ip, payload| {
            let fragment = ip.next_header == next_header::FRAGMENT;
            (fragment || ip.next_header == protocol::UDP).then_some(HEADER_LEN + payload.len())
        });
        if len != 1_500 {
            assert!(len <= 1_300, "{len}");
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "not believed");
    }
}
