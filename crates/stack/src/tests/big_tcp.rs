//! Segments that are longer than an IP packet can be, for the kernel at the port's other end.

use super::bulk::GEOMETRY;
use super::off_path::accepted;
use super::single::{CLIENT, ISN, SERVER, Single, header};
use super::streams::append;
use longshore_frames::{BigTcp, Port};
use longshore_hostif::adapter::MAX_GATHERED;
use longshore_hostif::{EdgeFlags, Features, OptionName, Request, SocketId};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// What the program writes.
const WRITTEN: usize = 8_000_000;
/// The longest frame that the wire is said to take.
const LONGEST: usize = 200_000;
/// Payload of a segment that the kernel's end would send on.
const MSS: u16 = 1_460;
/// The longest IP packet.
const PACKET: usize = 65_535;

/// A segment that was sent.
struct Sent {
    header: TcpHeader,
    payload: Vec<u8>,
    /// Bytes of the packet, and what its header says that they are.
    len: usize,
    total: usize,
    gso: Option<u16>,
}

/// One connection whose program has written much.
struct Bulk {
    single: Single,
    next: TcpHeader,
    written: Vec<u8>,
    /// Sequence number of the first byte of the stream.
    begin: SeqNumber,
}

impl Bulk {
    /// On a wire that takes longer frames for this address.
    fn new(to: Ipv4Addr, max_bytes: usize) -> Self {
        Self::by("cubic", to, max_bytes)
    }

    /// As `new`, with this congestion control.
    fn by(congestion: &str, to: Ipv4Addr, max_bytes: usize) -> Self {
        let wire = MemoryConfig {
            ethernet: false,
            depth: 10_000,
            big_tcp: Some(BigTcp { to, max_bytes }),
            ..MemoryConfig::default()
        };
        let (port, wire) = pair(&wire);
        let ends: (Box<dyn Port>, _) = (Box::new(port), wire);
        let addresses = &["10.0.0.1/24"];
        let mut single = Single::over(ends, addresses, false, GEOMETRY, 1, Features::empty());
        let listener = single.listen();
        let mut name = [0; 8];
        name[..congestion.len()].copy_from_slice(congestion.as_bytes());
        let choice = Request::SetOption {
            socket: listener,
            name: OptionName::Congestion,
            value: u64::from_le_bytes(name),
        };
        single.ask(0, &choice);
        let mut syn = header(0, TcpFlags::SYN, ISN, SeqNumber(0));
        syn.options.window_scale = Some(10);
        syn.options.mss = Some(MSS);
        single.segment(&syn, &[]);
        let begin = single.answered().expect("a SYN-ACK").add(1);
        let next = header(0, TcpFlags::ACK, ISN.add(1), begin);
        single.segment(&next, &[]);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        let written: Vec<u8> = (0..WRITTEN).map(|i| (i % 251) as u8).collect();
        write(&mut single, socket, &written);
        Self {
            single,
            next,
            written,
            begin,
        }
    }

    /// What a turn after so many microseconds sends, of which each byte is the one that was
    /// written.
    fn turn_after(&mut self, us: u64) -> Vec<Sent> {
        self.single.turn_after(us);
        let (mut frame, mut all) = (vec![0; 300_000], Vec::new());
        while let Some(meta) = self.single.wire.recv(&mut frame).unwrap() {
            let packet = &frame[..meta.len];
            assert_eq!(packet[9], protocol::TCP);
            assert_eq!(Partial::of(&packet[..HEADER_LEN]).finish(), 0);
            let segment = &packet[HEADER_LEN..];
            let (header, begin) = TcpHeader::parse(segment).unwrap();
            // The port that cuts it begins from the sum of the pseudo-header.
            let len = segment.len() as u32;
            let pseudo = Partial::of_pseudo_v4(SERVER, CLIENT, protocol::TCP, len);
            let field = [segment[CHECKSUM_OFFSET], segment[CHECKSUM_OFFSET + 1]];
            assert_eq!(u16::from_be_bytes(field), pseudo.unfinished());
            let payload = segment[begin..].to_vec();
            let at = header.seq.sub(self.begin) as usize;
            assert!(payload == self.written[at..at + payload.len()]);
            all.push(Sent {
                header,
                payload,
                len: meta.len,
                total: usize::from(u16::from_be_bytes([packet[2], packet[3]])),
                gso: meta.gso.map(|gso| gso.size),
            });
        }
        all
    }

    /// The peer has all that was sent.
    fn acknowledge(&mut self, sent: &[Sent]) {
        if let Some(last) = sent.last() {
            self.next.ack = last.header.seq.add(last.payload.len() as u32);
        }
        self.single.segment(&self.next, &[]);
    }

    /// All that is sent to a peer that acknowledges it at once, until so many bytes were.
    fn run(&mut self, bytes: usize) -> Vec<Sent> {
        let mut all = Vec::new();
        while all.iter().map(|s: &Sent| s.payload.len()).sum::<usize>() < bytes {
            let sent = self.turn_after(10);
            assert!(!sent.is_empty());
            self.acknowledge(&sent);
            all.extend(sent);
        }
        all
    }
}

fn write(single: &mut Single, socket: SocketId, bytes: &[u8]) {
    let edges = Request::Edges {
        socket,
        snd_edge: append(&single.arena, socket.index, 0, bytes),
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 0,
    };
    single.ask(0, &edges);
}

fn longest(sent: &[Sent]) -> usize {
    sent.iter().map(|s| s.len).max().unwrap_or(0)
}

#[test]
fn segments_to_the_kernel_itself_may_be_longer_than_a_packet() {
    let mut bulk = Bulk::new(CLIENT, LONGEST);
    let all = bulk.run(WRITTEN);
    for sent in &all {
        let is_long = sent.len > PACKET;
        assert_eq!(sent.total, if is_long { 0 } else { sent.len });
        assert_eq!(sent.gso.is_some(), sent.payload.len() > usize::from(MSS));
    }
    let expected = LONGEST - 2_000..=LONGEST;
    assert!(expected.contains(&longest(&all)), "{}", longest(&all));
    let long: usize = all.iter().map(|s| s.payload.len() >> 16).sum();
    let counted = bulk.single.stack.counters.tcp.longer_segments_out;
    assert_eq!(counted, long as u64);
}

/// What is paced has its headers built one by one.
#[test]
fn segments_that_are_paced_may_be_longer_too() {
    let mut bulk = Bulk::by("bbr", CLIENT, LONGEST);
    let mut all = Vec::new();
    while all.iter().map(|s: &Sent| s.payload.len()).sum::<usize>() < WRITTEN {
        let sent = bulk.turn_after(100);
        bulk.acknowledge(&sent);
        all.extend(sent);
    }
    let is_right = |s: &Sent| s.total == if s.len > PACKET { 0 } else { s.len };
    assert!(all.iter().all(is_right));
    let expected = LONGEST - 2_000..=LONGEST;
    assert!(expected.contains(&longest(&all)), "{}", longest(&all));
    assert!(bulk.single.stack.counters.tcp.longer_segments_out > 0);
}

#[test]
fn no_segment_is_longer_than_what_is_gathered_at_once() {
    let all = Bulk::new(CLIENT, 10 * MAX_GATHERED).run(WRITTEN);
    let expected = MAX_GATHERED - 2_000..=MAX_GATHERED;
    assert!(expected.contains(&longest(&all)), "{}", longest(&all));
}

#[test]
fn segments_to_others_are_packets() {
    let mut bulk = Bulk::new(Ipv4Addr::new(10, 0, 0, 3), LONGEST);
    let all = bulk.run(WRITTEN);
    assert!((PACKET - 2_000..=PACKET).contains(&longest(&all)));
    assert_eq!(bulk.single.stack.counters.tcp.longer_segments_out, 0);
}

/// Whatever takes the long ones away: what is sent again is a packet, and so is what follows,
/// until little of all was sent again.
#[test]
fn a_path_that_loses_long_segments_gets_packets() {
    let mut bulk = Bulk::new(CLIENT, LONGEST);
    bulk.run(WRITTEN / 16);
    let (mut lost, mut first_flight) = (0, None);
    let mut arrived = BTreeMap::new();
    while (bulk.next.ack.sub(bulk.begin) as usize) < WRITTEN {
        let sent = bulk.turn_after(1_000);
        let (long, short): (Vec<_>, Vec<_>) = sent.into_iter().partition(|s| s.len > PACKET);
        lost += long.len();
        first_flight.get_or_insert(lost);
        let ends = short
            .iter()
            .map(|s| (s.header.seq.sub(bulk.begin), s.payload.len()));
        arrived.extend(ends);
        // What has arrived behind all that is acknowledged.
        let mut next = bulk.next.ack.sub(bulk.begin);
        for (at, len) in arrived.range(..) {
            if *at <= next {
                next = next.max(at + *len as i32);
            }
        }
        bulk.next.ack = bulk.begin.add(next as u32);
        for _ in &short {
            bulk.acknowledge(&[]);
        }
    }
    let first_flight = first_flight.unwrap();
    assert!(first_flight > 0);
    assert_eq!(lost, first_flight);
}
