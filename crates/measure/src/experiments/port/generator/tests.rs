use super::*;
use longshore_ports::memory::{self, MemoryConfig, MemoryPort};

const PEER: (Ipv4Addr, MacAddr, u16) = (
    Ipv4Addr::new(10, 0, 0, 1),
    MacAddr([2, 0, 0, 0, 0, 1]),
    4000,
);
const OWN: (Ipv4Addr, MacAddr) = (Ipv4Addr::new(10, 0, 0, 2), MacAddr([2, 0, 0, 0, 0, 2]));
const PEERS_FIRST: SeqNumber = SeqNumber(u32::MAX - 1);

/// A generator, and the other end of its wire.
fn wire() -> (Generator, MemoryPort) {
    let (near, far) = memory::pair(&MemoryConfig::default());
    let generator = Generator::new(Box::new(near), OWN.1.0, OWN.0).unwrap();
    (generator, far)
}

/// The peer says this.
fn say(far: &mut MemoryPort, header: &TcpHeader, payload: &[u8]) {
    let mut frame = [0; 2000];
    let link = EthernetHeader {
        destination: OWN.1,
        source: PEER.1,
        ether_type: EtherType::Ipv4,
    };
    link.emit(&mut frame);
    let ip = Ipv4Header {
        tos: 0,
        payload_len: (header.header_len() + payload.len()) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        source: PEER.0,
        destination: OWN.0,
    };
    ip.emit(&mut frame[ethernet::HEADER_LEN..]);
    let at = HEADERS + header.emit(&mut frame[HEADERS..]);
    frame[at..at + payload.len()].copy_from_slice(payload);
    far.send(&TxFrame::whole(&frame[..at + payload.len()]))
        .unwrap();
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
        assert_eq!((ip.source, ip.destination), (OWN.0, PEER.0));
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
    for target_ip in [Ipv4Addr::new(10, 0, 0, 9), OWN.0] {
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
        assert_eq!(answer.is_some(), target_ip == OWN.0);
        if let Some(meta) = answer {
            let said = ArpPacket::parse(&room.frame(meta.len)[ethernet::HEADER_LEN..]).unwrap();
            assert_eq!((said.operation, said.sender_mac), (Operation::Reply, OWN.1));
        }
    }
}

/// A piece is longer than the first window, of 2,000 times 8 bytes, so none is sent before
/// the window opens.
#[test]
fn a_source_sends_as_much_as_the_window_takes() {
    let (mut generator, mut far) = connected(SOURCE);
    assert!(
        received(&mut far).is_empty(),
        "a piece is longer than 16,000"
    );
    let mut wide = header(SOURCE, TcpFlags::ACK, PEERS_FIRST.add(1), FIRST.add(1));
    wide.window = 20_000;
    say(&mut far, &wide, b"");
    generator.turn().unwrap();
    let sent = received(&mut far);
    assert_eq!(sent.len(), 160_000 / generator.piece);
    assert!(sent.iter().all(|(_, bytes)| bytes.len() == generator.piece));
    assert_eq!(sent[1].0.seq, FIRST.add(1 + generator.piece as u32));
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
    assert!(generator.connection.is_none());
}

#[test]
fn a_port_without_offloads_is_refused() {
    let config = MemoryConfig {
        offloads: false,
        ..MemoryConfig::default()
    };
    let (near, _far) = memory::pair(&config);
    let made = Generator::new(Box::new(near), OWN.1.0, OWN.0);
    assert!(matches!(made, Err(GeneratorError::NoOffloads)));
}
