//! Packets to neighbours that are not known yet: the first arrives, whoever sent it, and
//! none waits for another's neighbour.

mod common;

use common::engines::{Running, start};
use common::{Host, TIMEOUT};
use longshore_hostif::{DatagramRecord, EdgeFlags, Loopback, SocketId, SocketKind};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::ipv4;
use longshore_wire::MacAddr;
use longshore_wire::arp::{self, ArpPacket};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv4::{self, Icmpv4};
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Instant;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ABSENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// What the engine sends.
enum Seen {
    /// It asks for this address.
    Asked(Ipv4Addr),
    /// A packet of this protocol, from its payload on.
    Packet(u8, Vec<u8>),
}

/// The far end of the wire.
struct Wire {
    port: MemoryPort,
    /// The engine's hardware address, once it has been heard.
    engine: MacAddr,
}

impl Wire {
    fn of_engine(dir: &Path) -> (Running, Self) {
        let (ours, port) = pair(&MemoryConfig {
            offloads: false,
            ..MemoryConfig::default()
        });
        let longshore_ports::LinkKind::Ethernet { mac } = ours.capabilities().link else {
            panic!("the wire has stations");
        };
        let engine = start(dir, "10.0.0.1/24", Box::new(ours), Loopback::Kernel, true);
        let engine_mac = MacAddr(mac);
        (
            engine,
            Self {
                port,
                engine: engine_mac,
            },
        )
    }

    fn next(&mut self) -> Seen {
        let began = Instant::now();
        let mut frame = vec![0; 70_000];
        loop {
            assert!(began.elapsed() < TIMEOUT, "nothing comes");
            let Some(meta) = self.port.recv(&mut frame).unwrap() else {
                std::thread::yield_now();
                continue;
            };
            let header = EthernetHeader::parse(&frame[..meta.len]).unwrap();
            let body = &frame[ethernet::HEADER_LEN..meta.len];
            match header.ether_type {
                EtherType::Arp => {
                    let asked = ArpPacket::parse(body).unwrap();
                    if asked.operation == arp::Operation::Request && asked.target_ip != US {
                        return Seen::Asked(asked.target_ip);
                    }
                }
                EtherType::Ipv4 => {
                    assert_eq!(header.destination, PEER_MAC);
                    return Seen::Packet(body[9], body[HEADER_LEN..].to_vec());
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, ether_type: EtherType, body: &[u8]) {
        let mut frame = vec![0; ethernet::HEADER_LEN];
        let header = EthernetHeader {
            destination: self.engine,
            source: PEER_MAC,
            ether_type,
        };
        header.emit(&mut frame);
        frame.extend_from_slice(body);
        self.port.send(&TxFrame::whole(&frame)).unwrap();
    }

    /// Says where the peer is.
    fn answer(&mut self) {
        let mut answer = [0; arp::PACKET_LEN];
        ArpPacket {
            operation: arp::Operation::Reply,
            sender_mac: PEER_MAC,
            sender_ip: PEER,
            target_mac: self.engine,
            target_ip: US,
        }
        .emit(&mut answer);
        self.send(EtherType::Arp, &answer);
    }
}

fn send_to(host: &mut Host, socket: SocketId, to: Ipv4Addr, payload: &[u8; 8]) {
    let to = SocketAddr::new(to.into(), 53);
    let header = DatagramRecord::new(8, to.into()).encode();
    let record: Vec<u8> = header.iter().chain(payload).copied().collect();
    host.send(socket, &record, EdgeFlags::empty());
}

#[test]
fn the_first_datagram_arrives_and_waits_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = host.open(SocketKind::Datagram);
    let local = SocketAddr::new(US.into(), 1053);
    host.bind(socket, local).unwrap();
    send_to(&mut host, socket, ABSENT, b"to none.");
    for payload in [b"first...", b"second..", b"third..."] {
        send_to(&mut host, socket, PEER, payload);
    }
    let (mut absent_asked, mut came) = (0, Vec::new());
    while came.len() < 3 {
        match wire.next() {
            Seen::Asked(ABSENT) => absent_asked += 1,
            Seen::Asked(_) => wire.answer(),
            Seen::Packet(protocol::UDP, message) => came.push(message[8..].to_vec()),
            Seen::Packet(..) => {}
        }
    }
    assert_eq!(came, [b"first...", b"second..", b"third..."]);
    // It is asked for three times, a second apart, and then given up.
    assert!(
        absent_asked < 3,
        "they have waited for a neighbour of another"
    );
}

#[test]
fn an_answer_to_a_neighbour_that_is_not_known_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, mut wire) = Wire::of_engine(dir.path());
    let data = b"who are you";
    let mut request = vec![0; icmpv4::HEADER_LEN];
    request.extend_from_slice(data);
    let echo = Icmpv4::EchoRequest {
        identifier: 7,
        sequence: 1,
    };
    echo.emit(&mut request);
    let packet = ipv4((PEER, US), protocol::ICMP, 64, &request);
    // Once: nobody repeats it.
    wire.send(EtherType::Ipv4, &packet);
    loop {
        match wire.next() {
            Seen::Asked(ip) => {
                assert_eq!(ip, PEER);
                wire.answer();
            }
            Seen::Packet(of, message) => {
                assert_eq!(of, protocol::ICMP);
                assert_eq!(&message[icmpv4::HEADER_LEN..], data);
                break;
            }
        }
    }
}
