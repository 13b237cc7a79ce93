//! What is counted of segments that header prediction takes, and of those that it does not: their data
//! are there all the same.

use super::off_path::{GEOMETRY, accepted};
use super::single::{ISN, Single, header};
use super::streams::copy_out;
use longshore_hostif::{OptionName, SocketKind};
use longshore_tcp::DropReason;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

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
