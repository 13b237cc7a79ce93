use super::connection::FIRST;
use super::output::SCALE;
use super::*;
use longshore_ports::TxFrame;
use longshore_ports::memory::{self, MemoryConfig, MemoryPort};
use longshore_testbed::packets;
use longshore_wire::arp::Operation;
use longshore_wire::tcp::TcpOptions;
use longshore_wire::{MacAddr, SeqNumber};

const SOURCE: u16 = 5001;
const SINK: u16 = 5002;
const ECHO: u16 = 5003;
const HTTP: u16 = 80;
const REDIS: u16 = 6379;
const CLOSING: u16 = 81;
const SERVICES: [(u16, Service); 6] = [
    (SOURCE, Service::Source),
    (SINK, Service::Sink),
    (ECHO, Service::Echo),
    (
        HTTP,
        Service::Http {
            content: 20_000,
            closes: false,
        },
    ),
    (
        CLOSING,
        Service::Http {
            content: 100,
            closes: true,
        },
    ),
    (REDIS, Service::RedisString { bytes: 3 }),
];

const PEER: (Ipv4Addr, MacAddr, u16) = (
    Ipv4Addr::new(10, 0, 0, 1),
    MacAddr([2, 0, 0, 0, 0, 1]),
    4000,
);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEERS_FIRST: SeqNumber = SeqNumber(u32::MAX - 1);

/// A generator, and the other end of its wire.
fn wire() -> (Generator, MemoryPort) {
    let (near, far) = memory::pair(&MemoryConfig::default());
    let generator = Generator::new(Box::new(near), OWN, &SERVICES).unwrap();
    (generator, far)
}

/// The peer says this.
fn say(far: &mut MemoryPort, header: &TcpHeader, payload: &[u8]) {
    let packet = packets::segment((PEER.0.into(), OWN.into()), header, payload);
    let mut frame = vec![0; ethernet::HEADER_LEN];
    let link = EthernetHeader {
        destination: MacAddr([2; 6]),
        source: PEER.1,
        ether_type: EtherType::Ipv4,
    };
    link.emit(&mut frame);
    frame.extend(packet);
    far.send(&TxFrame::whole(&frame)).unwrap();
}

fn header(part: u16, flags: TcpFlags, seq: SeqNumber, ack: SeqNumber) -> TcpHeader {
    TcpHeader {
        src_port: PEER.2,
        dst_port: part,
        seq,
        ack,
        flags,
        window: 2000,
        urgent: 0,
        options: TcpOptions::default(),
    }
}

/// What the generator has said: headers and payloads.
fn received(far: &mut MemoryPort) -> Vec<(TcpHeader, Vec<u8>)> {
    let mut room = RecvBuffer::new();
    let mut all = Vec::new();
    while let Some(meta) = far.recv_single(&mut room).unwrap() {
        let frame = room.frame(meta.len);
        let (ip, range) = Ipv4Header::parse(&frame[ethernet::HEADER_LEN..]).unwrap();
        assert_eq!((ip.source, ip.destination), (OWN, PEER.0));
        let segment = &frame[ethernet::HEADER_LEN..][range];
        let (header, len) = TcpHeader::parse(segment).unwrap();
        all.push((header, segment[len..].to_vec()));
    }
    all
}

/// A connection to one of its ports.
fn connected(part: u16) -> (Generator, MemoryPort) {
    let (mut generator, mut far) = wire();
    let mut syn = header(part, TcpFlags::SYN, PEERS_FIRST, SeqNumber(0));
    syn.options.window_scale = Some(3);
    say(&mut far, &syn, b"");
    assert!(generator.turn().unwrap());
    let answer = received(&mut far).remove(0).0;
    assert_eq!(answer.flags, TcpFlags::SYN.union(TcpFlags::ACK));
    assert_eq!(answer.ack, PEERS_FIRST.add(1));
    assert_eq!(answer.options.mss, Some(1460));
    assert_eq!(answer.options.window_scale, Some(SCALE));
    let ack = header(part, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
    say(&mut far, &ack, b"");
    generator.turn().unwrap();
    (generator, far)
}

#[test]
fn it_answers_for_its_own_address_alone() {
    let (mut generator, mut far) = wire();
    for target_ip in [Ipv4Addr::new(10, 0, 0, 9), OWN] {
        let mut frame = [0; 42];
        let link = EthernetHeader {
            destination: MacAddr::BROADCAST,
            source: PEER.1,
            ether_type: EtherType::Arp,
        };
        link.emit(&mut frame);
        let asked = ArpPacket {
            operation: Operation::Request,
            sender_mac: PEER.1,
            sender_ip: PEER.0,
            target_mac: MacAddr([0; 6]),
            target_ip,
        };
        asked.emit(&mut frame[ethernet::HEADER_LEN..]);
        far.send(&TxFrame::whole(&frame)).unwrap();
        generator.turn().unwrap();
        let mut room = RecvBuffer::new();
        let answer = far.recv_single(&mut room).unwrap();
        assert_eq!(answer.is_some(), target_ip == OWN);
        if let Some(meta) = answer {
            let said = ArpPacket::parse(&room.frame(meta.len)[ethernet::HEADER_LEN..]).unwrap();
            assert_eq!((said.operation, said.sender_ip), (Operation::Reply, OWN));
        }
    }
}

/// The first window, of 2,000 times 8 bytes, is shorter than a piece: it is filled, and then
/// nothing is sent before it opens again.
#[test]
fn a_source_sends_as_much_as_the_window_takes() {
    let (mut generator, mut far) = connected(SOURCE);
    let first = received(&mut far);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1.len(), 16_000);
    let piece = generator.output.piece;
    let at = FIRST.add(1 + 16_000);
    let mut wide = header(SOURCE, TcpFlags::ACK, PEERS_FIRST.add(1), at);
    wide.window = 20_000;
    say(&mut far, &wide, b"");
    generator.turn().unwrap();
    let sent = received(&mut far);
    assert_eq!(sent.len(), 160_000 / piece);
    assert!(sent.iter().all(|(_, bytes)| bytes.len() == piece));
    assert_eq!(sent[1].0.seq, at.add(piece as u32));
    assert!(!generator.turn().unwrap(), "the window is full");
    wide.ack = sent[1].0.seq;
    say(&mut far, &wide, b"");
    generator.turn().unwrap();
    assert_eq!(
        received(&mut far).len(),
        1,
        "for the one that was acknowledged"
    );
}

#[test]
fn a_sink_acknowledges_what_comes_in_order_and_counts_it() {
    let (mut generator, mut far) = connected(SINK);
    let at = |n: u32| header(SINK, TcpFlags::ACK, PEERS_FIRST.add(n), FIRST.add(1));
    say(&mut far, &at(1), &[7; 100]);
    generator.turn().unwrap();
    assert_eq!(received(&mut far)[0].0.ack, PEERS_FIRST.add(101));
    // One is missing: what was expected is said again.
    say(&mut far, &at(501), &[7; 100]);
    generator.turn().unwrap();
    assert_eq!(received(&mut far)[0].0.ack, PEERS_FIRST.add(101));
    let mut last = at(101);
    last.flags = TcpFlags::ACK.union(TcpFlags::FIN);
    say(&mut far, &last, &[7; 50]);
    generator.turn().unwrap();
    let (end, count) = received(&mut far).remove(0);
    assert!(end.flags.contains(TcpFlags::FIN));
    assert_eq!(
        end.ack,
        PEERS_FIRST.add(152),
        "100 and 50 bytes and the FIN"
    );
    assert_eq!(count, 150_u64.to_be_bytes());
}

#[test]
fn an_echo_sends_as_much_as_came() {
    let (mut generator, mut far) = connected(ECHO);
    let asks = header(ECHO, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
    say(&mut far, &asks, &[7; 30]);
    generator.turn().unwrap();
    let answers = received(&mut far);
    assert_eq!(answers.len(), 1, "the acknowledgment rides on it");
    assert_eq!(answers[0].1.len(), 30);
    assert_eq!(answers[0].0.ack, PEERS_FIRST.add(31));
}

/// Of nothing else that comes does anything come.
#[test]
fn strange_frames_are_passed_over() {
    let (mut generator, mut far) = connected(ECHO);
    for len in [14, 20, 34, 40, 60] {
        far.send(&TxFrame::whole(&vec![0x45; len])).unwrap();
    }
    let unknown = header(SINK, TcpFlags::ACK, SeqNumber(5), SeqNumber(5));
    say(&mut far, &unknown, b"who?");
    let nowhere = header(1, TcpFlags::SYN, SeqNumber(5), SeqNumber(5));
    say(&mut far, &nowhere, b"");
    generator.turn().unwrap();
    assert!(received(&mut far).is_empty());
    let reset = header(ECHO, TcpFlags::RST, PEERS_FIRST.add(1), SeqNumber(0));
    say(&mut far, &reset, b"");
    generator.turn().unwrap();
    assert!(generator.connections.by_port.is_empty());
}

/// An answer that is longer than the window comes in two segments, and those of two requests that
/// came at once behind each other.
#[test]
fn requests_are_answered_whole() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n";
    let (mut generator, mut far) = connected(HTTP);
    let mut asks = header(HTTP, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
    let requests = b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
    let asked = PEERS_FIRST.add(1 + requests.len() as u32);
    say(&mut far, &asks, requests);
    let mut stream = Vec::new();
    for _ in 0..10 {
        generator.turn().unwrap();
        for (segment, bytes) in received(&mut far) {
            assert_eq!(segment.seq, FIRST.add(1 + stream.len() as u32));
            assert_eq!(segment.ack, asked);
            stream.extend(bytes);
        }
        asks.seq = asked;
        asks.ack = FIRST.add(1 + stream.len() as u32);
        say(&mut far, &asks, b"");
    }
    assert_eq!(stream.len(), 2 * (HEAD.len() + 20_000));
    let (first, second) = stream.split_at(HEAD.len() + 20_000);
    assert_eq!(first, second);
    assert!(first.starts_with(HEAD));
    assert!(first[HEAD.len()..].iter().all(|byte| *byte == b'b'));
}

#[test]
fn a_connection_of_one_answer_ends_behind_it() {
    let (mut generator, mut far) = connected(CLOSING);
    let mut asks = header(CLOSING, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
    asks.window = u16::MAX;
    let request = b"GET / HTTP/1.1\r\n\r\n";
    say(&mut far, &asks, request);
    generator.turn().unwrap();
    let sent = received(&mut far);
    let (fin, bytes) = sent.last().unwrap();
    assert!(fin.flags.contains(TcpFlags::FIN) && bytes.is_empty());
    let mut over = asks;
    over.flags = TcpFlags::ACK.union(TcpFlags::FIN);
    over.seq = PEERS_FIRST.add(1 + request.len() as u32);
    over.ack = fin.seq.add(1);
    say(&mut far, &over, b"");
    generator.turn().unwrap();
    assert_eq!(received(&mut far)[0].0.ack, over.seq.add(1));
    assert!(generator.connections.by_port.is_empty(), "it is over");
}

/// Each connection has its own place in the stream, and the window is shared.
#[test]
fn many_connections_are_served_at_once() {
    let (mut generator, mut far) = wire();
    let ports = 4000..4010_u16;
    let of = |port, flags, seq, ack| TcpHeader {
        src_port: port,
        ..header(REDIS, flags, seq, ack)
    };
    for port in ports.clone() {
        let syn = of(port, TcpFlags::SYN, PEERS_FIRST, SeqNumber(0));
        say(&mut far, &syn, b"");
    }
    generator.turn().unwrap();
    assert_eq!(received(&mut far).len(), 10);
    for port in ports.clone() {
        let commands = b"*1\r\n$4\r\nPING\r\n".repeat(usize::from(port - 3999));
        let asks = of(port, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
        say(&mut far, &asks, &commands);
    }
    generator.turn().unwrap();
    let answers = received(&mut far);
    let windows = answers.iter().map(|(header, _)| header.window);
    assert!(windows.into_iter().all(|window| window == u16::MAX / 10));
    let answered: Vec<_> = answers
        .into_iter()
        .map(|(header, bytes)| (header.dst_port, bytes))
        .collect();
    let wanted = ports.map(|port| (port, b"$3\r\nbbb\r\n".repeat(usize::from(port - 3999))));
    assert_eq!(answered, wanted.collect::<Vec<_>>());
}

#[test]
fn a_port_without_offloads_is_refused() {
    let config = MemoryConfig {
        offloads: false,
        ..MemoryConfig::default()
    };
    let (near, _far) = memory::pair(&config);
    let made = Generator::new(Box::new(near), OWN, &SERVICES);
    assert!(matches!(made, Err(GeneratorError::NoOffloads)));
}
