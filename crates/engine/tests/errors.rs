//! ICMP errors about what programs sent: the pending error, and the queue of reports of
//! those who ask for it. The far end of the wire is the test's own.

mod common;

use common::engines::{Running, start};
use common::{Host, TIMEOUT};
use longshore_hostif::{
    Address, DatagramRecord, EdgeFlags, ErrorReport, Loopback, OptionName, Query, SocketId,
    SocketKind, datagram_span,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::ipv4;
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv4::{self, Icmpv4};
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
/// Reports that a socket keeps.
const MOST: usize = 16;

struct Wire(MemoryPort);

impl Wire {
    fn of_engine(dir: &Path) -> (Running, Self) {
        let (ours, far) = pair(&MemoryConfig {
            offloads: false,
            ethernet: false,
            ..MemoryConfig::default()
        });
        let engine = start(dir, "10.0.0.1/24", Box::new(ours), Loopback::Kernel, true);
        (engine, Self(far))
    }

    /// The next packet of this protocol.
    fn receive(&mut self, protocol: u8) -> Vec<u8> {
        let start = Instant::now();
        let mut frame = vec![0; 70_000];
        loop {
            if let Some(meta) = self.0.recv(&mut frame).unwrap() {
                if frame[9] == protocol {
                    return frame[..meta.len].to_vec();
                }
            } else {
                assert!(start.elapsed() < TIMEOUT, "nothing comes");
                std::thread::yield_now();
            }
        }
    }

    fn send(&mut self, source: Ipv4Addr, protocol: u8, payload: &[u8]) {
        let packet = ipv4((source, US), protocol, 64, payload);
        self.0.send(&TxFrame::whole(&packet)).unwrap();
        self.0.flush().unwrap();
    }

    /// A router's error about a packet, of which it quotes `quoted`.
    fn complain(&mut self, message: &Icmpv4, quoted: &[u8]) {
        let mut bytes = vec![0; icmpv4::HEADER_LEN];
        bytes.extend_from_slice(quoted);
        message.emit(&mut bytes);
        self.send(ROUTER, protocol::ICMP, &bytes);
    }

    /// Waits until the engine has taken what was sent before.
    fn has_arrived(&mut self) {
        let echo = Icmpv4::EchoRequest {
            identifier: 1,
            sequence: 1,
        };
        self.complain(&echo, &[]);
        self.receive(protocol::ICMP);
    }

    fn send_tcp(&mut self, source: Ipv4Addr, header: &TcpHeader) {
        let mut bytes = vec![0; 60];
        let len = header.emit(&mut bytes);
        bytes.truncate(len);
        let pseudo = Partial::of_pseudo_v4(source, US, protocol::TCP, len as u32);
        let sum = pseudo.plus(Partial::of(&bytes)).finish();
        bytes[CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
        self.send(source, protocol::TCP, &bytes);
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn send_datagram(host: &mut Host, socket: SocketId, to: SocketAddr, payload: &[u8]) {
    let record = DatagramRecord::new(payload.len() as u32, Address::from(to));
    let mut stream = record.encode().to_vec();
    stream.extend_from_slice(payload);
    stream.resize(datagram_span(record.len) as usize, 0);
    host.send(socket, &stream, EdgeFlags::empty());
}

fn datagram_socket(host: &mut Host) -> SocketId {
    let socket = host.open(SocketKind::Datagram);
    host.bind(socket, at("0.0.0.0:0")).unwrap();
    socket
}

/// The oldest report with what it quotes.
fn next_report(host: &mut Host, socket: SocketId) -> Option<(ErrorReport, Vec<u8>)> {
    let bytes = host.ask(socket, Query::Error);
    let (report, quoted) = ErrorReport::decode(&bytes)?;
    Some((report, quoted.to_vec()))
}

/// The pending error and how many reports are kept.
fn errors(host: &Host, socket: SocketId) -> (u32, u32) {
    let block = host.arena.block(socket.index);
    let load = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Acquire);
    (load(&block.errno), load(&block.errors))
}

const EXPIRED: Icmpv4 = Icmpv4::TimeExceeded { code: 0 };

#[test]
fn a_queue_is_bounded_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = datagram_socket(&mut host);
    host.set(socket, OptionName::ReceiveErrors, 1);
    for number in 0..MOST + 4 {
        let to = SocketAddr::new(ROUTER.into(), 1000 + number as u16);
        send_datagram(&mut host, socket, to, &[number as u8; 100]);
        let packet = wire.receive(protocol::UDP);
        // As few bytes as RFC 792 has, and all of them.
        let quoted = if number == 0 { 28 } else { packet.len() };
        wire.complain(&EXPIRED, &packet[..quoted]);
    }
    wire.has_arrived();
    assert_eq!(errors(&host, socket), (113, MOST as u32));
    for number in 0..MOST {
        let (report, quoted) = next_report(&mut host, socket).unwrap();
        let expected = ErrorReport {
            errno: 113,
            kind: 11,
            code: 0,
            info: 0,
            to: SocketAddr::new(ROUTER.into(), 1000 + number as u16),
            offender: Some(ROUTER.into()),
            stamp: None,
        };
        assert_eq!(report, expected);
        assert_eq!(
            quoted,
            vec![number as u8; if number == 0 { 0 } else { 100 }]
        );
        let left = (MOST - 1 - number) as u32;
        assert_eq!(
            errors(&host, socket),
            (if left == 0 { 0 } else { 113 }, left)
        );
    }
    assert_eq!(next_report(&mut host, socket), None);
}

#[test]
fn who_does_not_ask_hears_of_lasting_errors_alone_and_if_connected() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let refused = Icmpv4::Unreachable {
        code: 3,
        next_hop_mtu: 0,
    };
    let socket = datagram_socket(&mut host);
    let mut complain = |host: &mut Host, message| {
        send_datagram(host, socket, at("10.0.0.9:9"), b"hello");
        let packet = wire.receive(protocol::UDP);
        wire.complain(message, &packet);
    };
    complain(&mut host, &refused);
    host.connect_datagram(socket, at("10.0.0.9:9"));
    complain(&mut host, &EXPIRED);
    // What comes after shows that those before have been seen.
    complain(&mut host, &refused);
    host.wait_flag(socket, EdgeFlags::SOFT_ERROR);
    assert_eq!(errors(&host, socket), (111, 0));
    assert_eq!(next_report(&mut host, socket), None);
}

#[test]
fn reports_are_gone_when_nobody_asks_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = datagram_socket(&mut host);
    host.set(socket, OptionName::ReceiveErrors, 1);
    send_datagram(&mut host, socket, at("10.0.0.9:9"), b"hello");
    let packet = wire.receive(protocol::UDP);
    wire.complain(&EXPIRED, &packet);
    host.wait_flag(socket, EdgeFlags::SOFT_ERROR);
    host.set(socket, OptionName::ReceiveErrors, 0);
    assert_eq!(next_report(&mut host, socket), None);
    assert_eq!(errors(&host, socket).1, 0);
}

#[test]
fn a_connection_that_a_router_ends_has_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    for asks in [0, 1] {
        let socket = host.open(SocketKind::Stream);
        host.set(socket, OptionName::ReceiveErrors, asks);
        host.start_connect(socket, at("10.0.0.9:80"));
        let syn = wire.receive(protocol::TCP);
        wire.complain(&EXPIRED, &syn[..28]);
        assert_eq!(host.wait_flag(socket, EdgeFlags::DEAD).errno, 113);
        let report = next_report(&mut host, socket);
        let offender = report.map(|(report, quoted)| {
            assert_eq!((report.to, &quoted[..]), (at("10.0.0.9:80"), &syn[20..28]));
            report.offender
        });
        assert_eq!(offender, (asks == 1).then_some(Some(ROUTER.into())));
        host.close(socket);
    }
}

#[test]
fn a_connection_that_lives_on_tells_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let far = Ipv4Addr::new(10, 0, 0, 9);
    let socket = host.open(SocketKind::Stream);
    host.start_connect(socket, at("10.0.0.9:80"));
    let packet = wire.receive(protocol::TCP);
    let (syn, _) = TcpHeader::parse(&packet[HEADER_LEN..]).unwrap();
    let answer = TcpHeader {
        src_port: 80,
        dst_port: syn.src_port,
        ack: syn.seq.add(1),
        flags: TcpFlags::SYN | TcpFlags::ACK,
        options: TcpOptions::default(),
        ..syn
    };
    wire.send_tcp(far, &answer);
    host.wait_flag(socket, EdgeFlags::CONNECTED);
    host.send(socket, b"hello", EdgeFlags::empty());
    let segment = loop {
        let packet = wire.receive(protocol::TCP);
        if packet.ends_with(b"hello") {
            break packet;
        }
    };
    wire.complain(&EXPIRED, &segment);
    wire.has_arrived();
    host.set(socket, OptionName::ReceiveErrors, 1);
    assert_eq!(next_report(&mut host, socket), None);
    assert_eq!(errors(&host, socket), (0, 0));
    wire.complain(&EXPIRED, &segment);
    host.wait("the error", |h| {
        (errors(h, socket) == (113, 0)).then_some(())
    });
    assert!(!host.edges(socket).unwrap().flags.contains(EdgeFlags::DEAD));
}
