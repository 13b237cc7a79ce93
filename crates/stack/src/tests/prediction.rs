//! What is counted of segments that header prediction takes, and of those that it does not: their data
//! are there all the same.

use super::binding::bind;
use super::ipv6::open;
use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, ISN, SERVER, Single, header};
use super::streams::copy_out;
use longshore_frames::{RxChecksum, RxMeta};
use longshore_hostif::{Features, MOST_DATA, OptionName, SocketKind};
use longshore_tcp::DropReason;
use longshore_testbed::packets;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{IpAddr, Ipv6Addr};

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

/// A packet of ours to ourselves that its connection has predicted counts as one that came over the link
/// does.
#[test]
fn what_comes_from_ourselves_counts_as_predicted() {
    const TIMES: u64 = 10;
    let mut single = Single::new(GEOMETRY, 1);
    single.stack.settings.cut_through = false;
    let listener = single.listen();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    let pass = |single: &mut Single| {
        for _ in 0..4 {
            single.turn();
            single.stack.take_own_packets();
        }
        single.turn_after(50_000);
        single.stack.take_own_packets();
    };
    pass(&mut single);
    let server = accepted(&mut single, listener, 0);
    let counts = |single: &Single| {
        let p = &single.stack.counters.prediction;
        [p.data, p.acks, p.missed, p.missed_data]
    };
    single.write(client, 0, &[7; 100]);
    pass(&mut single);
    let before = counts(&single);
    for number in 1..=TIMES {
        single.write(client, 100 * number, &[7; 100]);
        pass(&mut single);
    }
    let after = counts(&single);
    let told = single.told_of(server).map(|edges| edges.rcv_edge);
    assert_eq!(told, Some(100 * (TIMES + 1)));
    let new: Vec<u64> = after
        .iter()
        .zip(before)
        .map(|(now, then)| now - then)
        .collect();
    assert_eq!(new, [TIMES, TIMES, 0, 0]);
}

/// Data that come with the last segment of a handshake are there, and counted among those that no
/// header prediction has taken.
#[test]
fn data_may_come_with_the_end_of_the_handshake() {
    for (payload, missed) in [(b"".as_slice(), 0), (b"early", 1)] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        single.bring(0, SYN, SeqNumber(0));
        let iss = single.answered().expect("a SYN-ACK").add(1);
        single.segment(&header(0, ACK, ISN.add(1), iss), payload);
        single.turn();
        assert_eq!(single.stack.counters.prediction.missed_data, missed);
        let socket = accepted(&mut single, listener, 0);
        let mut got = vec![0; payload.len()];
        copy_out(&single.arena, socket.index, 0, &mut got);
        assert_eq!(got, payload);
    }
}

/// So are those that come with the end of a stream.
#[test]
fn data_may_come_with_the_end_of_a_stream() {
    for (payload, missed) in [(b"".as_slice(), 0), (b"late", 1)] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let mut end = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        end.flags = ACK | TcpFlags::FIN;
        single.segment(&end, payload);
        single.turn();
        assert_eq!(single.stack.counters.prediction.missed_data, missed);
        let told = single.told_of(socket).map(|edges| edges.rcv_edge);
        assert_eq!(told, Some(payload.len() as u64));
    }
}

/// Of the data that come with the last segment of a handshake, what the window has no room for is dropped,
/// and counted.
#[test]
fn data_beyond_the_window_may_come_with_the_end_of_the_handshake() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.set(listener, OptionName::ReceiveBuffer, 4_096);
    single.listen_at(listener, 5);
    single.turn();
    single.bring(0, SYN, SeqNumber(0));
    let answer = single.sent().pop().expect("a SYN-ACK");
    let window = usize::from(answer.window);
    let next = header(0, ACK, ISN.add(1), answer.seq.add(1));
    single.segment(&next, &vec![7; window + 1]);
    single.turn();
    assert_eq!(single.dropped(DropReason::BeyondWindow.name()), 1);
    let told = single.sent().pop().expect("an acknowledgment");
    assert_eq!(told.ack, next.seq.add(window as u32));
    let socket = accepted(&mut single, listener, 0);
    let mut got = vec![0; window];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert!(got.iter().all(|byte| *byte == 7));
}

/// The end of a connection that is in the hands of the test, of either version of IP.
struct Peer {
    ends: (IpAddr, IpAddr),
    next: TcpHeader,
}

impl Peer {
    /// Client `number` connects to port 80.
    fn connects(single: &mut Single, ends: (IpAddr, IpAddr), number: u16) -> Self {
        let mut bring = |header: &TcpHeader| {
            single.frame_in(&packets::segment(ends, header, &[]));
            single.turn();
            single.packets().pop()
        };
        let answer = bring(&header(number, SYN, ISN, SeqNumber(0))).expect("a SYN-ACK");
        let at = if ends.0.is_ipv4() { 20 } else { 40 };
        let (answer, _) = TcpHeader::parse(&answer[at..]).expect("a segment");
        let next = header(number, ACK, ISN.add(1), answer.seq.add(1));
        bring(&next);
        Self { ends, next }
    }

    fn sends(&mut self, single: &mut Single, payload: &[u8]) {
        single.frame_in(&packets::segment(self.ends, &self.next, payload));
        self.next.seq = self.next.seq.add(payload.len() as u32);
        single.turn();
    }
}

/// Data and acknowledgments, of which nobody vouches for the checksum, are predicted whatever connection
/// they are of, and whichever version of IP.
#[test]
fn segments_of_both_versions_are_predicted() {
    const OWN: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    let both = [
        (IpAddr::from(CLIENT), IpAddr::from(SERVER)),
        (PEER.into(), OWN.into()),
    ];
    for ends in both {
        for len in [1, MOST_DATA, MOST_DATA + 1, 1_400] {
            let addresses = ["10.0.0.1/24", "fd00::1/64"];
            let mut single = Single::at(&addresses, GEOMETRY, 1, Features::empty());
            (0..5).for_each(|_| single.turn_after(1_000_000));
            let listener = open(&mut single, SocketKind::Stream);
            let any = Ipv6Addr::UNSPECIFIED.into();
            assert_eq!(bind(&mut single, listener, any, 80).0, 0);
            single.listen_at(listener, 5);
            single.turn();
            single.packets();
            let mut peers = [0, 1].map(|number| Peer::connects(&mut single, ends, number));
            let counts = |single: &Single| {
                let p = &single.stack.counters.prediction;
                [p.data, p.acks, p.missed]
            };
            let before = counts(&single);
            let sockets = [0, 1].map(|which| accepted(&mut single, listener, which));
            let mut edges = [0; 2];
            for which in [0, 1, 1, 0, 1] {
                edges[which] = single.write(sockets[which], edges[which], &[7; 9]);
                peers[which].sends(&mut single, &vec![7; len]);
                peers[which].next.ack = peers[which].next.ack.add(9);
                peers[which].sends(&mut single, &[]);
            }
            let after = counts(&single);
            let new = [0, 1, 2].map(|i| after[i] - before[i]);
            assert_eq!(new, [5, 5, 0], "{ends:?} {len}");
            let taken = single.stack.status().sockets(0);
            let received: u64 = taken.map(|(_, s)| s.recv_q).sum();
            // Of the listener, the two that wait.
            assert_eq!(received, 5 * len as u64 + 2, "{ends:?} {len}");
        }
    }
}

/// A segment whose checksum is wrong is dropped, though its connection would predict it otherwise.
#[test]
fn a_wrong_checksum_is_found_in_what_would_be_predicted() {
    for len in [1, 1_400] {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        single.turn();
        let ends = (CLIENT.into(), SERVER.into());
        let mut peer = Peer::connects(&mut single, ends, 0);
        peer.sends(&mut single, &vec![1; len]);
        let mut packet = packets::segment(ends, &peer.next, &vec![1; len]);
        *packet.last_mut().unwrap() ^= 1;
        single.frame_in(&packet);
        single.turn();
        assert_eq!(single.dropped("bad_transport_checksum"), 1, "{len}");
        peer.sends(&mut single, &vec![1; len]);
        let mut all = single.stack.status().sockets(0);
        let connection = all.find(|(_, s)| s.tcp.is_some()).expect("it is open").1;
        assert_eq!(connection.recv_q, 2 * len as u64);
    }
}

/// What claims to be from one of our own addresses has not come over a link, though there is a connection
/// that would predict it.
#[test]
fn nobody_on_the_link_sends_in_our_name() {
    let mut single = Single::new(GEOMETRY, 1);
    single.stack.settings.cut_through = false;
    let listener = single.listen();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    for _ in 0..4 {
        single.turn();
        single.stack.take_own_packets();
    }
    let server = accepted(&mut single, listener, 0);
    single.write(client, 0, b"our own");
    single.turn();
    single.turn_after(50_000);
    let own = &single.stack.link().output.own;
    let own = own.iter().map(|own| own.packet.clone()).next_back();
    let packet = own.expect("it is on its way");
    let data = |single: &Single| single.stack.counters.prediction.data;
    let before = data(&single);
    let meta = RxMeta {
        len: packet.len(),
        checksum: RxChecksum::Valid,
        gso: None,
    };
    single.stack.frame_in(&packet, &meta);
    single.turn();
    assert_eq!(data(&single), before);
    assert!(
        single
            .told_of(server)
            .is_none_or(|edges| edges.rcv_edge == 0)
    );
    single.stack.take_own_packets();
    single.turn();
    assert_eq!(single.told_of(server).map(|edges| edges.rcv_edge), Some(7));
}
