//! Instructions for each packet, in the parts that Clark, Jacobson, Romkey and
//! Salwen counted in 1989, by callgrind: exact, and the same on every run.
//!
//! `make bench-instructions` runs it and prints the table beside the paper's.

#![allow(missing_docs, reason = "the benchmarks' macro makes modules")]
#![allow(
    clippy::boxed_local,
    reason = "what a benchmark gives back is taken as it is"
)]

#[path = "../tests/common/mod.rs"]
mod common;

#[path = "instructions/whole.rs"]
mod whole;

use gungraun::{library_benchmark, library_benchmark_group, main};
use longshore_engine::bench::segments::{
    Ends, FULL, PEER, PORTS, bytes_of, data_header, header, ip_header, packet,
};
use longshore_engine::bench::{Lookup, Placing, Timers};
use longshore_hostif::adapter::AdapterSession;
use longshore_net::template::Ipv4Template;
use longshore_ports::{RxChecksum, RxMeta};
use longshore_ring::EventfdSignaler;
use longshore_tcp::Instant;
use longshore_wire::tcp::{PLAIN_LEN, TcpHeader};
use longshore_wire::tcp4::{CachedHeaders4, Flow4, Tcp4};
use longshore_wire::tcp6::CachedHeaders6;
use std::hint::black_box;
use std::sync::Arc;
use whole::{
    FULL_OF_IPV6, Others, SMALL, Version, Whole, frame, whole, whole_alone, whole_among,
    whole_asked, whole_beside, whole_connecting, whole_of, whole_sending,
};

/// From one look over the sessions to the next, and more.
const MAINTENANCE_US: u64 = 1_100_000;
/// Looks over a session of which one, always the same in turn, gives memory back.
const LOOKS: usize = 4;
// ---- TCP alone ----

fn connected() -> Ends {
    Ends::connected().expect("a connection")
}

fn sent(ends: &mut Ends) -> TcpHeader {
    ends.send().expect("data")
}

fn with_data_on_its_way() -> Box<(Ends, Vec<u8>)> {
    let mut ends = connected();
    // The second of two: the first is acknowledged with it.
    let first = sent(&mut ends);
    ends.receive(&first);
    let data = bytes_of(&sent(&mut ends));
    assert!(ends.far.predicts(&data, FULL as u32).is_some());
    Box::new((ends, data))
}

fn with_ack_on_its_way() -> Box<(Ends, Vec<u8>)> {
    let mut ends = connected();
    for _ in 0..2 {
        let data = sent(&mut ends);
        ends.receive(&data);
    }
    let mut ack = None;
    while let Some(a) = ends.far.poll_transmit(ends.now, 0) {
        ack = Some(header(&a));
    }
    let ack = ack.unwrap_or_else(|| {
        let data = sent(&mut ends);
        ends.receive(&data);
        header(&ends.far.poll_transmit(ends.now, 0).expect("an ACK"))
    });
    let ack = bytes_of(&ack);
    assert!(ends.near.predicts(&ack, 0).is_some());
    Box::new((ends, ack))
}

/// Of the first of three segments that are in flight.
fn with_first_ack_on_its_way() -> Box<(Ends, Vec<u8>)> {
    let mut ends = connected();
    let sent: Vec<_> = (0..3).map(|_| sent(&mut ends)).collect();
    ends.receive(&sent[0]);
    ends.far.on_timer(Instant(ends.now.0 + 50_000));
    let ack = header(&ends.far.poll_transmit(ends.now, 0).expect("an ACK"));
    let ack = bytes_of(&ack);
    assert!(ends.near.predicts(&ack, 0).is_some());
    Box::new((ends, ack))
}

/// With a segment in flight before it, or nothing.
fn with_data_written(in_flight: bool) -> Box<(Ends, [u8; PLAIN_LEN])> {
    let mut ends = connected();
    if in_flight {
        sent(&mut ends);
    }
    ends.write();
    Box::new((ends, [0; PLAIN_LEN]))
}

// Header bytes to state: what the engine does between demultiplexing and placing.
#[library_benchmark]
#[bench::data(args = (with_data_on_its_way()), teardown = was_taken)]
fn tcp_input_data(mut ends: Box<(Ends, Vec<u8>)>) -> Box<(Ends, Vec<u8>)> {
    let (ends_, bytes) = &mut *ends;
    let now = ends_.now;
    if let Some(predicted) = ends_.far.predicts(bytes, FULL as u32) {
        predicted.take(|| 0, now);
    }
    ends
}

#[library_benchmark]
#[bench::ack(args = (with_ack_on_its_way()), teardown = was_taken)]
#[bench::first_ack(args = (with_first_ack_on_its_way()), teardown = was_taken)]
fn tcp_input_ack(mut ends: Box<(Ends, Vec<u8>)>) -> Box<(Ends, Vec<u8>)> {
    let (ends_, bytes) = &mut *ends;
    let now = ends_.now;
    if let Some(predicted) = ends_.near.predicts(bytes, 0) {
        predicted.take(|| 0, now);
    }
    ends
}

/// What was predicted is not again, as it was taken.
fn was_taken(mut ends: Box<(Ends, Vec<u8>)>) {
    let (ends, bytes) = &mut *ends;
    assert!(ends.far.predicts(bytes, FULL as u32).is_none());
    assert!(ends.near.predicts(bytes, 0).is_none());
}

fn with_ack_owed() -> Box<(Ends, [u8; PLAIN_LEN])> {
    let mut ends = connected();
    for _ in 0..2 {
        let data = sent(&mut ends);
        ends.receive(&data);
    }
    std::mem::swap(&mut ends.near, &mut ends.far);
    Box::new((ends, [0; PLAIN_LEN]))
}

// State to header bytes: what the engine does between a connection's turn and the
// headers below TCP.
#[library_benchmark]
#[bench::data(args = (with_data_written(true)), teardown = was_written)]
#[bench::first_data(args = (with_data_written(false)), teardown = was_written)]
#[bench::ack(args = (with_ack_owed()), teardown = was_written)]
fn tcp_output(mut all: Box<(Ends, [u8; PLAIN_LEN])>) -> Box<(Ends, [u8; PLAIN_LEN])> {
    let (ends, bytes) = &mut *all;
    if let Some(segment) = ends.near.poll_full_packets(ends.now, FULL) {
        segment.header.write(bytes, PORTS);
    } else if let Some(segment) = ends.near.poll_other_plain(ends.now, FULL) {
        segment.header.write(bytes, PORTS);
    }
    all
}

fn was_written(all: Box<(Ends, [u8; PLAIN_LEN])>) {
    assert!(all.1.starts_with(&PORTS.to_be_bytes()), "a segment");
}

// ---- headers ----

/// A packet, and where its flow and the length of its segment are put.
fn with_room() -> Box<(Vec<u8>, Flow4, usize)> {
    Box::new((packet(), Flow4::default(), 0))
}

#[library_benchmark]
#[bench::packet(args = (with_room()), teardown = was_read)]
fn ip_input(mut all: Box<(Vec<u8>, Flow4, usize)>) -> Box<(Vec<u8>, Flow4, usize)> {
    let (bytes, flow, len) = &mut *all;
    if let Some(p) = Tcp4::read(bytes) {
        *flow = p.flow();
        *len = p.segment.len();
    }
    all
}

fn was_read(all: Box<(Vec<u8>, Flow4, usize)>) {
    assert_eq!((all.1.source(), all.2), ((PEER, 1000), 1480));
}

fn with_known() -> Box<(Vec<u8>, CachedHeaders4, usize)> {
    let packet = packet();
    let cached = Tcp4::read(&packet).expect("a segment").cached([0; 14]);
    Box::new((packet, cached, 0))
}

// Input of the next packet of a flow: its connection is known with it.
#[library_benchmark]
#[bench::next(args = (with_known()), teardown = was_known)]
fn ip_input_known(
    mut all: Box<(Vec<u8>, CachedHeaders4, usize)>,
) -> Box<(Vec<u8>, CachedHeaders4, usize)> {
    let (bytes, cached, len) = &mut *all;
    if let Some(segment) = cached.segment_of(bytes, true) {
        *len = segment.len();
    }
    all
}

fn was_known(all: Box<(Vec<u8>, CachedHeaders4, usize)>) {
    assert_eq!(all.2, 1480);
}

/// The headers of an IPv6 packet, which has one entry for what was known of the one before.
fn with_known6() -> Box<(Vec<u8>, CachedHeaders6, usize)> {
    let packet = frame(Version::V6, &data_header(1, 1), 1448).split_off(14);
    let cached = CachedHeaders6::of(&[0; 14], &packet).expect("a segment");
    Box::new((packet, cached, 0))
}

#[library_benchmark]
#[bench::next(args = (with_known6()), teardown = was_known6)]
fn ip6_input_known(
    mut all: Box<(Vec<u8>, CachedHeaders6, usize)>,
) -> Box<(Vec<u8>, CachedHeaders6, usize)> {
    let (bytes, cached, len) = &mut *all;
    if let Some(segment) = cached.segment_of(bytes, true) {
        *len = segment.len();
    }
    all
}

fn was_known6(all: Box<(Vec<u8>, CachedHeaders6, usize)>) {
    assert_eq!(all.2, 1480);
}

#[library_benchmark]
#[bench::packet(Box::new((packet(), Ipv4Template::new(&ip_header(0)))))]
fn ip_output(mut all: Box<(Vec<u8>, Ipv4Template)>) -> Box<(Vec<u8>, Ipv4Template)> {
    let (bytes, template) = &mut *all;
    if let Some(header) = bytes.first_chunk_mut() {
        template.write(header, 1480, 7);
    }
    all
}

#[library_benchmark]
#[bench::packet(packet())]
fn tcp_header_parse(bytes: Vec<u8>) -> Vec<u8> {
    let _ = black_box(TcpHeader::parse(&bytes[20..]));
    bytes
}

#[library_benchmark]
#[bench::packet((packet(), data_header(5, 6)))]
fn tcp_header_emit((mut bytes, header): (Vec<u8>, TcpHeader)) -> Vec<u8> {
    black_box(header.emit(&mut bytes[20..]));
    bytes
}

// ---- the engine's parts ----

/// A table of `count` connections, the flow of one, and where its key is put.
fn table(count: u32, wanted: u32) -> Box<(Lookup, Flow4, Option<u32>)> {
    let lookup = Lookup::with_connections(count);
    let flow = lookup.flow_at_once(wanted);
    Box::new((lookup, flow, None))
}

#[library_benchmark]
#[bench::another(args = (table(10_000, 4711)), teardown = was_found)]
#[bench::another_of_a_million(args = (table(1_000_000, 471_108)), teardown = was_found)]
fn connection_lookup(
    mut all: Box<(Lookup, Flow4, Option<u32>)>,
) -> Box<(Lookup, Flow4, Option<u32>)> {
    let (table, flow, found) = &mut *all;
    *found = table.find(flow);
    all
}

fn was_found(all: Box<(Lookup, Flow4, Option<u32>)>) {
    assert_eq!(all.2.map(Lookup::flow), Some(all.1));
}

/// Timers of which one was `set`, to be set to `next` microseconds.
fn timers(set: bool, next: u64) -> Box<Timers> {
    let mut timers = Timers::new();
    if set {
        timers.set();
    }
    timers.next = next;
    Box::new(timers)
}

#[library_benchmark]
#[bench::fresh(args = (timers(false, 4_200_000)), teardown = is_set)]
#[bench::again(args = (timers(true, 4_300_000)), teardown = is_set)]
fn timer_set(mut timers: Box<Timers>) -> Box<Timers> {
    timers.set();
    timers
}

fn is_set(timers: Box<Timers>) {
    assert!(timers.is_set());
}

#[library_benchmark]
#[bench::set(timers(true, 0))]
fn timer_clear(mut timers: Box<Timers>) -> Box<Timers> {
    timers.clear();
    timers
}

fn placing(len: usize) -> Box<(Placing, Vec<u8>)> {
    let session = AdapterSession::create(SMALL, Arc::new(EventfdSignaler::for_one()));
    let placing = Placing::new(session.expect("a session"));
    Box::new((placing, vec![1; len]))
}

#[library_benchmark]
#[bench::one_byte(placing(1))]
#[bench::full_segment(placing(FULL))]
fn stream_place(mut placing: Box<(Placing, Vec<u8>)>) -> Box<(Placing, Vec<u8>)> {
    let (stream, bytes) = &mut *placing;
    black_box(stream.place(bytes));
    placing
}

// What the frame around each of these costs: to be taken off the smallest of them.
#[library_benchmark]
#[bench::around(Box::new(0))]
fn nothing(mut it: Box<u64>) -> Box<u64> {
    black_box(&mut *it);
    it
}

// ---- a whole packet, from the Ethernet header to the host's stream ----

fn in_hand(payload: usize, unread: bool, checksum: RxChecksum) -> Box<(Whole, RxMeta)> {
    in_hand_of(Version::V4, payload, unread, checksum)
}

fn in_hand_of(
    version: Version,
    payload: usize,
    unread: bool,
    checksum: RxChecksum,
) -> Box<(Whole, RxMeta)> {
    let whole = whole_of(version, false, payload, unread);
    let len = whole.next.len();
    let gso = None;
    Box::new((*whole, RxMeta { len, checksum, gso }))
}

/// As `in_hand_of`, without other sessions and with a checksum that is to be made.
fn in_hand_alone(version: Version, payload: usize) -> Box<(Whole, RxMeta)> {
    let whole = whole_alone(version, payload);
    let len = whole.next.len();
    let (checksum, gso) = (RxChecksum::Unknown, None);
    Box::new((*whole, RxMeta { len, checksum, gso }))
}

// A received data segment from its Ethernet header to the host's stream, its bytes
// copied there: what the turn does with each frame. The port vouches for the
// checksum, or the engine makes it.
#[library_benchmark]
#[bench::one_byte(in_hand(1, true, RxChecksum::Valid))]
#[bench::full_segment(in_hand(FULL, true, RxChecksum::Valid))]
#[bench::to_empty_stream(in_hand(FULL, false, RxChecksum::Valid))]
#[bench::summed(in_hand(FULL, true, RxChecksum::Unknown))]
#[bench::summed_in_one_pass(in_hand_alone(Version::V4, FULL))]
#[bench::summed_in_one_pass_of_ipv6(in_hand_alone(Version::V6, FULL_OF_IPV6))]
#[bench::one_byte_of_ipv6(in_hand_of(Version::V6, 1, true, RxChecksum::Valid))]
#[bench::full_segment_of_ipv6(in_hand_of(Version::V6, FULL_OF_IPV6, true, RxChecksum::Valid))]
#[bench::summed_of_ipv6(in_hand_of(Version::V6, FULL_OF_IPV6, true, RxChecksum::Unknown))]
fn frame_to_stream(mut all: Box<(Whole, RxMeta)>) -> Box<(Whole, RxMeta)> {
    let (whole, meta) = &mut *all;
    whole.engine.take_frame(black_box(&whole.next), meta);
    all
}

// A turn of the loop, with a frame on the wire or without. What time it is, the benchmark
// says: to ask the clock is not part of it.
#[library_benchmark]
#[bench::nothing(whole(false, FULL, true))]
#[bench::data_segment(whole(true, FULL, true))]
#[bench::nothing_beside_a_thousand_sessions(whole_beside(1_000, false))]
#[bench::data_segment_beside_a_thousand_sessions(whole_beside(1_000, true))]
#[bench::nothing_among_256_processes(args = (whole_among(256, false)), teardown = woke_nobody)]
#[bench::data_segment_among_256_processes(args = (whole_among(256, true)), teardown = woke_nobody)]
#[bench::connection(args = (whole_connecting(3)), teardown = woke_one)]
#[bench::connection_among_256_processes(args = (whole_connecting(256)), teardown = woke_one)]
#[bench::question(args = (whole_asked(Others::default())), teardown = has_answered)]
#[bench::question_beside_a_thousand_sessions(
    args = (whole_asked(Others { sessions: 1_000, processes: 0 })),
    teardown = has_answered
)]
#[bench::question_among_256_processes(
    args = (whole_asked(Others { sessions: 1, processes: 256 })),
    teardown = has_answered
)]
#[bench::send(args = (whole_sending(Version::V4, FULL)), teardown = has_sent_a_full_segment)]
#[bench::send_of_one_byte(args = (whole_sending(Version::V4, 1)), teardown = has_sent_one_byte)]
#[bench::send_of_ipv6(
    args = (whole_sending(Version::V6, FULL_OF_IPV6)),
    teardown = has_sent_a_full_segment_of_ipv6
)]
fn whole_turn(mut whole: Box<Whole>) -> Box<Whole> {
    let at_us = whole.at_us;
    let _ = black_box(whole.engine.turn_of(at_us));
    black_box((&whole.host, &whole.wire));
    whole
}

fn woke_nobody(mut whole: Box<Whole>) {
    assert_eq!(whole.woken_for_connection(), (0, false));
}

fn woke_one(mut whole: Box<Whole>) {
    assert_eq!(whole.woken_for_connection(), (1, true));
}

fn has_answered(mut whole: Box<Whole>) {
    assert!(whole.has_answered());
}

fn has_sent_a_full_segment(mut whole: Box<Whole>) {
    assert!(whole.has_sent(14 + 20 + 32 + FULL));
}

fn has_sent_a_full_segment_of_ipv6(mut whole: Box<Whole>) {
    assert!(whole.has_sent(14 + 40 + 32 + FULL_OF_IPV6));
}

fn has_sent_one_byte(mut whole: Box<Whole>) {
    assert!(whole.has_sent(14 + 20 + 32 + 1));
}

/// An engine whose next turn looks over its sessions.
fn due(mut whole: Box<Whole>) -> Box<Whole> {
    whole.at_us += MAINTENANCE_US;
    // What it does for the first time, it does now.
    for _ in 0..2 * LOOKS {
        look_over(&mut whole);
    }
    whole
}

/// A turn that looks over the sessions.
fn look_over(whole: &mut Whole) {
    let _ = black_box(whole.engine.turn_of(whole.at_us));
    whole.at_us += MAINTENANCE_US;
}

// Turns in which nothing was asked and the sessions are looked over: those that have done
// something of late. So many that each finds memory once that may go back: with which of them
// that begins depends on how long it took to attach the sessions.
#[library_benchmark]
#[bench::nothing(due(whole(false, FULL, true)))]
#[bench::nothing_beside_a_thousand_sessions(due(whole_beside(1_000, false)))]
fn maintenance(mut whole: Box<Whole>) -> Box<Whole> {
    for _ in 0..LOOKS {
        look_over(&mut whole);
    }
    black_box((&whole.host, &whole.wire));
    whole
}

library_benchmark_group!(
    name = parts,
    benchmarks = [
        tcp_input_data,
        tcp_input_ack,
        tcp_output,
        tcp_header_parse,
        tcp_header_emit,
        ip_input,
        ip_input_known,
        ip6_input_known,
        ip_output,
        connection_lookup,
        timer_set,
        timer_clear,
        stream_place,
        frame_to_stream,
        whole_turn,
        maintenance,
        nothing
    ]
);

main!(library_benchmark_groups = parts);
