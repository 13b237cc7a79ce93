//! A listener that is told of connections when they have data: with the first of it, or when a
//! time is over.

use super::off_path::{GEOMETRY, accepted};
use super::single::{FIRST_PORT, ISN, Single, header};
use longshore_hostif::{
    ACCEPT_RECORD, EdgeFlags, Features, HostChannel, OptionName, Request, SocketId, SocketKind,
};
use longshore_tcp::DropReason;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// For how long connections wait for data.
const WITHIN_MS: u64 = 50;
/// Within this time a timer has gone off, at most.
const TICK_US: u64 = 1_100;

/// A stack whose listener, with this backlog, accepts on data.
fn listening(backlog: u32) -> (Single, SocketId) {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, backlog);
    single.ask(
        0,
        &Request::SetOption {
            socket: listener,
            name: OptionName::AcceptOnData,
            value: WITHIN_MS,
        },
    );
    single.turn();
    single.discard_completions();
    (single, listener)
}

/// The descriptors by which a turn has told the host: in how many transfers, and how many.
fn reported(single: &mut Single, turn: impl FnOnce(&mut Single)) -> (u64, u64) {
    let before = single.to_host().descriptors;
    turn(single);
    single.discard_completions();
    let after = single.to_host().descriptors;
    (
        after.transfers - before.transfers,
        after.count - before.count,
    )
}

/// A client completes its handshake, and the listener is not told.
fn connects(single: &mut Single, number: u16) -> TcpHeader {
    let mut next = None;
    let crossed = reported(single, |single| {
        next = Some(single.connect(number));
        single.turn();
    });
    assert_eq!(crossed, (0, 0));
    assert_eq!(single.stack.status().half_open_count(), 1);
    next.unwrap()
}

#[test]
fn the_record_of_a_connection_crosses_with_its_first_data() {
    let (mut single, listener) = listening(8);
    let next = connects(&mut single, 0);
    single.turn_after(1_000 * (WITHIN_MS - 5));
    let crossed = reported(&mut single, |single| {
        single.segment(&next, b"GET /");
        single.turn();
    });
    assert_eq!(single.stack.status().half_open_count(), 0);
    assert_eq!(crossed, (1, 2), "the listener's and the connection's");
    let _ = accepted(&mut single, listener, 0);
    // Later than it would have been handed over, nothing is.
    let later = reported(&mut single, |single| single.turn_after(200_000));
    assert_eq!(later, (0, 0));
    assert_eq!(single.dropped(DropReason::DeferAccept.name()), 0);
}

#[test]
fn one_that_says_nothing_is_handed_over_when_the_time_is_over() {
    let (mut single, listener) = listening(8);
    let next = connects(&mut single, 0);
    let sooner = reported(&mut single, |single| {
        single.turn_after(1_000 * WITHIN_MS - 100);
    });
    assert_eq!(sooner, (0, 0));
    let (transfers, _) = reported(&mut single, |single| single.turn_after(100 + TICK_US));
    assert_eq!(transfers, 1);
    assert_eq!(single.stack.status().half_open_count(), 0);
    assert_eq!(single.sent(), [], "the peer sees nothing of it");
    let _ = accepted(&mut single, listener, 0);
    let late = reported(&mut single, |single| {
        single.segment(&next, b"late");
        single.turn();
    });
    assert_eq!(late, (1, 1));
}

#[test]
fn the_end_of_the_stream_is_news_and_a_reset_is_none() {
    let (mut single, _) = listening(8);
    let next = connects(&mut single, 0);
    let (transfers, _) = reported(&mut single, |single| {
        single.segment(
            &TcpHeader {
                flags: TcpFlags::FIN | TcpFlags::ACK,
                ..next
            },
            &[],
        );
        single.turn();
    });
    assert_eq!(transfers, 1);
    assert_eq!(single.stack.status().half_open_count(), 0);

    // A reset may say why (RFC 9293 section 3.5.3).
    for (number, why) in [(1, b"".as_slice()), (2, b"no reason")] {
        let next = connects(&mut single, number);
        let crossed = reported(&mut single, |single| {
            single.segment(
                &TcpHeader {
                    flags: TcpFlags::RST,
                    ..next
                },
                why,
            );
            single.turn_after(1_000 * WITHIN_MS + TICK_US);
        });
        assert_eq!(crossed, (0, 0), "nobody is told of what is over");
        assert_eq!(single.stack.status().half_open_count(), 0);
    }
}

/// How long it waits for data is no part of its round trip, which ended with the handshake.
#[test]
fn the_time_that_a_connection_waits_is_no_part_of_its_round_trip() {
    const ROUND_TRIP_US: u64 = 20_000;
    let (mut single, _) = listening(8);
    single.bring(0, TcpFlags::SYN, SeqNumber(0));
    let ack = single.answered().expect("a SYN-ACK").add(1);
    single.turn_after(ROUND_TRIP_US);
    single.bring(0, TcpFlags::ACK, ack);
    single.turn_after(1_000 * WITHIN_MS + TICK_US);
    assert_eq!(single.stack.status().half_open_count(), 0);
    let mut connections = single.stack.status().sockets(0);
    let tcp = connections.find_map(|(_, status)| status.tcp);
    assert_eq!(tcp.expect("a connection").rtt_us, ROUND_TRIP_US);
}

/// The time for which a connection waits begins with the end of its handshake, though the SYN-ACK was sent
/// again before.
#[test]
fn one_whose_handshake_took_long_waits_as_any_other() {
    let (mut single, listener) = listening(5);
    single.bring(0, TcpFlags::SYN, SeqNumber(0));
    let ack = single.answered().expect("a SYN-ACK").add(1);
    single.turn_after(1_000_000 + TICK_US);
    assert!(single.answered().is_some(), "it is sent again");
    single.bring(0, TcpFlags::ACK, ack);
    single.turn();
    assert_eq!(single.told_of(listener), None);
    single.turn_after(1_000 * WITHIN_MS - 2 * TICK_US);
    assert_eq!(single.told_of(listener), None);
    single.turn_after(3 * TICK_US);
    single.turn();
    assert!(single.told_of(listener).is_some());
}

/// What is no end of a handshake (a probe for life, another window) leaves the time as it is, and
/// what does not fit it at all is no reason to be told.
#[test]
fn what_else_comes_without_data_is_waited_on() {
    let (mut single, _) = listening(8);
    let next = connects(&mut single, 0);
    let crossed = reported(&mut single, |single| {
        for step in 0..4 {
            single.turn_after(10_000);
            let probe = header(0, TcpFlags::ACK, ISN, next.ack);
            single.segment(&probe, &[]);
            let window = 50_000 + step;
            single.segment(
                &TcpHeader {
                    window,
                    ..next.clone()
                },
                &[],
            );
            single.segment(&header(0, TcpFlags::ACK, next.seq, SeqNumber(3)), &[]);
            single.turn();
        }
    });
    assert_eq!(crossed, (0, 0));
    let (transfers, _) = reported(&mut single, |single| {
        single.turn_after(1_000 * (WITHIN_MS - 40) + TICK_US);
    });
    assert_eq!(transfers, 1);
}

/// Where the accept queue is full when data come, or the time is over, it is as if the last segment of
/// the handshake had been lost.
#[test]
fn with_no_room_to_accept_the_handshake_is_completed_later() {
    for have_data in [true, false] {
        let (mut single, listener) = listening(0);
        let first = connects(&mut single, 0);
        single.turn_after(10_000);
        let second = connects_beside(&mut single, 1);
        let comes = |single: &mut Single, next: &TcpHeader, data: &[u8]| match have_data {
            true => {
                single.segment(next, data);
                single.turn();
            }
            false => single.turn_after(1_000 * WITHIN_MS),
        };
        comes(&mut single, &first, b"first");
        assert_eq!(
            single.stack.status().half_open_count(),
            1,
            "one waits to be accepted"
        );
        comes(&mut single, &second, b"second");
        assert_eq!(single.stack.status().half_open_count(), 1);
        // What is put aside counts, and the segment with data.
        let dropped = single.dropped(DropReason::AcceptQueueFull.name());
        assert_eq!(dropped, if have_data { 2 } else { 1 });
        let _ = accepted(&mut single, listener, 0);
        single.edges(listener, 64, EdgeFlags::empty());
        let _ = single.sent();
        single.turn_after(1_200_000);
        let again = single.answered().expect("the SYN-ACK again");
        assert_eq!(again.add(1), second.ack, "{have_data}");
        let (transfers, _) = reported(&mut single, |single| {
            single.segment(&second, &[]);
            single.turn();
        });
        assert_eq!(transfers, 1, "nobody waits twice");
        assert_eq!(single.stack.status().half_open_count(), 0);
    }
}

/// As [`connects`], where another is half open.
fn connects_beside(single: &mut Single, number: u16) -> TcpHeader {
    let next = single.connect(number);
    assert_eq!((next.src_port, next.dst_port), (FIRST_PORT + number, 80));
    single.turn();
    assert_eq!(single.stack.status().half_open_count(), 2);
    next
}

/// A process that has never accepted, as a server's master, is told of the first connection, and
/// never looks: the records of later ones cross with their descriptors all the same.
#[test]
fn who_never_accepts_is_no_reason_to_place_the_records_of_others() {
    let mut single = Single::with_features(GEOMETRY, 2, Features::IMMEDIATE_DATA);
    let mut worker = HostChannel::new(single.arena.clone(), 1);
    let listener = single.listen();
    let _ = single.connect(0);
    single.turn();
    single.ask(1, &Request::Subscribe { socket: listener });
    assert_eq!(single.to_host().payload.bytes, ACCEPT_RECORD as u64);
    for number in 1..4 {
        single.ask(
            1,
            &Request::Edges {
                socket: listener,
                snd_edge: 0,
                rcv_consumed: u64::from(number) * ACCEPT_RECORD as u64,
                flags: EdgeFlags::empty(),
                immediate: 0,
            },
        );
        let _ = single.connect(number);
        single.turn();
        while worker.get().unwrap().is_some() {}
        worker.release();
    }
    assert_eq!(single.to_host().payload.bytes, ACCEPT_RECORD as u64);
}

/// The operator says so for a port, and a program has the last word.
#[test]
fn a_port_may_have_it_too() {
    let mut single = Single::new(GEOMETRY, 1);
    single.stack.settings.accept_on_data.insert(80, 20);
    let listener = single.listen();
    let _ = connects(&mut single, 0);
    let option = |value| Request::SetOption {
        socket: listener,
        name: OptionName::AcceptOnData,
        value,
    };
    let handed_over = |single: &mut Single, after_ms: u64| {
        reported(single, |single| {
            single.turn_after(1_000 * after_ms + TICK_US)
        })
        .0
    };
    assert_eq!(handed_over(&mut single, 20), 1);
    single.ask(0, &option(u64::MAX));
    let _ = connects(&mut single, 1);
    assert_eq!(handed_over(&mut single, 59_000), 0);
    assert_eq!(handed_over(&mut single, 1_000), 1, "a minute at most");
    single.ask(0, &option(0));
    let _ = connects(&mut single, 2);
    assert_eq!(handed_over(&mut single, 20), 1);
}
