//! Options that a program sets while its connection lives, or is being made: they hold from then on.

use super::off_path::{self, GEOMETRY};
use super::own_ends::{flags, last_of};
use super::questions::asks;
use super::segment_errors::error;
use super::single::{CLIENT, Single};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use longshore_hostif::{EdgeFlags, Features, OptionName, Query, Request, SocketId, SocketKind};
use longshore_wire::icmpv4::unreachable;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const SECOND_US: u64 = 1_000_000;
const TIMED_OUT: u16 = 110;

/// A connection whose program has accepted it, and what its peer sends next.
fn connection() -> (Single, SocketId, TcpHeader) {
    connection_with(Features::empty())
}

fn connection_with(features: Features) -> (Single, SocketId, TcpHeader) {
    let mut single = Single::with_features(GEOMETRY, 1, features);
    let (socket, next) = off_path::connection(&mut single);
    (single, socket, next)
}

/// Seconds until the next segment is sent, and what that is.
fn next_sent(single: &mut Single) -> (u64, TcpHeader) {
    for seconds in 1..100 {
        single.turn_after(SECOND_US);
        if let Some(sent) = single.sent().pop() {
            return (seconds, sent);
        }
    }
    panic!("nothing is sent");
}

#[test]
fn an_idle_peer_is_probed_as_its_program_has_said() {
    let (mut single, socket, _) = connection();
    for (name, value) in [
        (OptionName::KeepIdle, 9),
        (OptionName::KeepInterval, 4),
        (OptionName::KeepCount, 2),
        (OptionName::KeepAlive, 1),
    ] {
        single.set(socket, name, value);
    }
    single.turn();
    for (expected, is_reset) in [(9, false), (4, false), (4, true)] {
        let (after, sent) = next_sent(&mut single);
        assert!((expected..=expected + 1).contains(&after), "{after}");
        assert_eq!(sent.flags.contains(TcpFlags::RST), is_reset);
    }
    let reported = single.told_of(socket).expect("it is over");
    assert_eq!(reported.errno, TIMED_OUT);
}

#[test]
fn a_cork_holds_back_what_is_little() {
    let (mut single, socket, _) = connection();
    single.set(socket, OptionName::NoDelay, 1);
    single.set(socket, OptionName::Cork, 1);
    let edge = super::streams::append(&single.arena, socket.index, 0, b"little");
    single.says(socket, edge, 0, EdgeFlags::PUSH | EdgeFlags::CORK);
    single.turn();
    assert!(single.sent().is_empty());
    single.set(socket, OptionName::Cork, 0);
    single.turn();
    assert_eq!(single.sent_with_payload()[0].payload, b"little");
    single.write(socket, edge, b"more");
    single.turn();
    assert_eq!(single.sent_with_payload()[0].payload, b"more");
}

#[test]
fn acknowledgments_are_quick_or_not() {
    for (on, expected) in [(0, 0), (1, 1)] {
        let (mut single, socket, next) = connection();
        // It is not as it is set.
        single.set(socket, OptionName::QuickAck, 1 - on);
        single.set(socket, OptionName::QuickAck, on);
        single.segment(&next, b"bytes");
        single.turn();
        assert_eq!(single.sent().len(), expected, "{on}");
        single.turn_after(SECOND_US);
        assert_eq!(single.sent().len(), 1 - expected, "{on}");
    }
}

#[test]
fn the_congestion_control_is_the_last_that_was_chosen() {
    let (mut single, socket, _) = connection();
    for name in [b"reno\0\0\0\0", b"cubic\0\0\0", b"reno\0\0\0\0"] {
        let word = u64::from_le_bytes(*name);
        single.set(socket, OptionName::Congestion, word);
        let (errno, bytes) = asks(&mut single, socket, Query::Congestion);
        assert_eq!(errno, 0);
        assert!(name.starts_with(bytes.split(|b| *b == 0).next().unwrap()));
        let mut sockets = single.stack.status().sockets(0);
        let tcp = sockets.find_map(|(_, s)| s.tcp).expect("a connection");
        assert!(name.starts_with(tcp.congestion.as_bytes()));
    }
}

#[test]
fn a_connection_is_slowed_down_to_its_pace() {
    /// Ten segments, as many as are sent at first.
    const BYTES: usize = 5_360;
    for (pace, is_slow) in [(u64::MAX, false), (1_000, true)] {
        let (mut single, socket, _) = connection();
        single.set(socket, OptionName::MaxPacingRate, pace);
        single.write(socket, 0, &[7; BYTES]);
        single.turn();
        single.turn_after(100_000);
        let sent: usize = single
            .sent_with_payload()
            .iter()
            .map(|s| s.payload.len())
            .sum();
        assert_eq!(sent < BYTES, is_slow, "{sent}");
    }
}

#[test]
fn an_attempt_is_given_up_after_as_many_syns_as_were_chosen() {
    for retries in [1, 3] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.connect_to(socket, SocketAddr::new(CLIENT.into(), 9));
        single.turn();
        single.set(socket, OptionName::SynCount, retries);
        let mut syns = 0;
        let end = (0..60).find_map(|_| {
            syns += single.sent().len() as u64;
            single.turn_after(SECOND_US);
            let is_over = |told: &longshore_hostif::Edges| told.flags.contains(EdgeFlags::DEAD);
            single.told_of(socket).filter(is_over)
        });
        assert_eq!(end.map(|told| told.errno), Some(TIMED_OUT));
        assert_eq!(syns, 1 + retries);
    }
}

/// What has come in few bytes, and is to be told of in a descriptor, is there with the first that is
/// told, be it an error.
#[test]
fn what_has_come_is_there_though_an_error_is_told_first() {
    let (mut single, socket, next) = connection_with(Features::IMMEDIATE_DATA);
    single.set(socket, OptionName::ReceiveErrors, 1);
    single.write(socket, 0, b"asked");
    single.turn();
    single.discard_completions();
    let before = single.in_stack().host.crossings().to_host.payload.bytes;
    single.segment(&next, b"short");
    let ports = (next.dst_port, next.src_port);
    error(&mut single, unreachable::HOST, ports, next.ack);
    single.turn();
    let reported = single.reported();
    let edges = last_of(&reported, socket);
    assert!(flags(edges).contains(EdgeFlags::SOFT_ERROR));
    assert_eq!(edges.map(|edges| edges.rcv_edge), Some(5));
    let mut got = [0; 5];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert_eq!(&got, b"short");
    // Either in a descriptor, or placed, which is counted.
    let placed = single.in_stack().host.crossings().to_host.payload.bytes - before;
    let mut sockets = single.stack.status().sockets(0);
    let status = sockets.find(|(_, s)| s.block == Some(socket.index));
    let of_socket = status.expect("it is open").1.meter.to_host.payload.bytes;
    assert_eq!(of_socket, placed);
}

/// An urgent byte says nothing of a cork (TCP_CORK).
#[test]
fn a_cork_outlives_an_urgent_byte() {
    let (mut single, socket, _) = connection();
    single.set(socket, OptionName::Cork, 1);
    let arena = single.arena.clone();
    let snd_edge = super::streams::append(&arena, socket.index, 0, b"!");
    single.ask(
        0,
        &Request::Urgent {
            socket,
            snd_edge,
            rcv_consumed: 0,
        },
    );
    let key = single.stack.endpoints.key_of(single.session(), socket);
    let kept = single.stack.endpoints.sockets.get(key.expect("it is open"));
    assert!(kept.is_some_and(|socket| socket.options.tcp.delay.cork));
}

/// MSG_EOR: as many ends of records are kept as may be, and those that are not are counted.
#[test]
fn ends_of_records_that_are_not_kept_are_counted() {
    const MOST: u64 = 4_096;
    let (mut single, socket, _) = connection();
    let edge = super::streams::append(&single.arena.clone(), socket.index, 0, &[7; 8_000]);
    let lost = |single: &Single| single.dropped(EngineDrop::RecordEndsFull.name());
    for at in 1..=MOST {
        single.says(socket, at, 0, EdgeFlags::RECORD_END);
    }
    assert_eq!((lost(&single), edge), (0, 8_000));
    single.says(socket, MOST + 1, 0, EdgeFlags::RECORD_END);
    assert_eq!(lost(&single), 1);
}

/// What is written behind the end of a stream is none of it.
#[test]
fn nothing_is_sent_behind_the_end_of_a_stream() {
    let (mut single, socket, _) = connection();
    single.says(socket, 0, 0, EdgeFlags::SHUT_WR);
    single.turn();
    assert!(single.sent()[0].flags.contains(TcpFlags::FIN));
    single.write(socket, 0, b"late");
    single.turn();
    let sent = single.sent_with_payload();
    assert!(sent.iter().all(|sent| sent.payload.is_empty()));
    let key = single.stack.endpoints.key_of(single.session(), socket);
    let kept = single.stack.endpoints.sockets.get(key.expect("it is open"));
    assert_eq!(kept.map(|socket| socket.kind.snd_edge()), Some(0));
}

/// SO_RCVLOWAT: bytes that are fewer are there, and nobody is woken for them, which is counted.
#[test]
fn what_is_below_the_low_water_mark_is_counted() {
    let (mut single, socket, mut next) = connection();
    single.set(socket, OptionName::ReceiveLowWater, 100);
    let below = |single: &Single| single.stack.counters.waits.below_low_water;
    for (len, expected) in [(99, 1), (1, 1)] {
        single.segment(&next, &vec![7; len]);
        next.seq = next.seq.add(len as u32);
        single.turn();
        assert_eq!(below(&single), expected, "{len}");
    }
}

/// A host says of a quarter of a small window that it has read it, or its peer would find the window closed.
#[test]
fn a_host_with_a_small_window_says_sooner_what_it_has_read() {
    for (buffer, is_small) in [(8_000, true), (1 << 20, false)] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::ReceiveBuffer, buffer);
        single.connect_to(socket, SocketAddr::new(CLIENT.into(), 9));
        single.turn();
        let syn = single.sent().pop().expect("a SYN");
        let answer = TcpHeader {
            src_port: syn.dst_port,
            dst_port: syn.src_port,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ack: syn.seq.add(1),
            ..syn.clone()
        };
        single.segment(&answer, &[]);
        single.turn();
        let block = single.arena.block(socket.index);
        let limit = block.unreported_limit.load(Ordering::Relaxed);
        assert_eq!(limit != 0, is_small, "{limit}");
        assert!(u64::from(limit) <= buffer / 4);
    }
}

/// IP_MTU_DISCOVER and IP_TTL: the segments that follow have them in their headers.
#[test]
fn the_headers_of_segments_are_as_was_set_last() {
    const MAY_BE_CUT: u64 = 0;
    const WANT: u64 = 1;
    let (mut single, socket, _) = connection();
    single.set(socket, OptionName::NoDelay, 1);
    let mut edge = 0;
    for (path, ttl, whole) in [(WANT, 64, true), (MAY_BE_CUT, 64, false), (WANT, 9, true)] {
        single.set(socket, OptionName::PathMtu, path);
        single.set(socket, OptionName::TimeToLive, ttl);
        edge = single.write(socket, edge, b"bytes");
        single.turn();
        let sent = single.packets();
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0][6] & 0x40 != 0, u64::from(sent[0][8])),
            (whole, ttl)
        );
    }
}
