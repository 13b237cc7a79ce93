//! Requests to forward that no host half of ours makes, of which nothing is kept if they are
//! refused; and what else is said of a connection that takes part.

use super::off_path::accepted;
use super::own_ends::{flags, last_of};
use super::single::{FIRST_PORT, Single};
use super::streams;
use crate::session::SPARE_CHUNKS;
use crate::socket::Kind;
use longshore_hostif::{
    ACCEPT_RECORD, EdgeFlags, Geometry, HostSession, LEAST_FORWARD, Request, SocketId, SocketKind,
};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::sync::atomic::Ordering;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: SPARE_CHUNKS + 100,
    workers: 1,
};
const SEGMENT: usize = 1_024;

/// A program says that a stream goes on with the first bytes of another, as few as may be, and ends
/// there.
fn forward_least(single: &mut Single, source: SocketId, sink: (SocketId, u64)) {
    forward_from(single, (source, 0), sink);
}

/// As `forward_least`, with those that come after so many.
fn forward_from(
    single: &mut Single,
    (source, from): (SocketId, u64),
    (sink, snd_edge): (SocketId, u64),
) {
    let forward = Request::Forward {
        socket: sink,
        snd_edge,
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        source,
        from,
        to: from + LEAST_FORWARD,
    };
    single.ask(0, &forward);
}

/// A peer, whose next segment is this, sends as much as can be forwarded at the least.
fn send_least(single: &mut Single, mut from: TcpHeader) {
    from.flags = TcpFlags::ACK | TcpFlags::PSH;
    for _ in 0..LEAST_FORWARD as usize / SEGMENT {
        single.segment(&from, &[7; SEGMENT]);
        from.seq = from.seq.add(SEGMENT as u32);
    }
    single.turn();
}

#[test]
fn what_is_refused_is_not_kept() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let from = single.connect(0);
    single.connect(1);
    single.turn();
    let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
    send_least(&mut single, from);
    let unconnected = single.bind(SocketKind::Stream, 90);
    for sink in [unconnected, sink].repeat(50) {
        // More than a stream can hold.
        forward_least(&mut single, source, (sink, 1 << 40));
        single.turn();
    }
    let kept = single
        .stack
        .endpoints
        .sessions
        .iter()
        .map(|(_, s)| s.forwards.len());
    assert_eq!(kept.sum::<usize>(), 0);
    assert_eq!(single.stack.counters.own_bytes.forwarded, 0);
}

/// How a request to forward cannot be: what is named that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    TooLittle,
    MoreThanCame,
    Closed,
    Itself,
    /// The stream that is to go on is shut.
    ShutSink,
}

/// The stream of who asks for what cannot be is not what its program meant: it is reset, be it over the
/// wire or within the engine, and nothing is kept.
#[test]
fn who_forwards_what_cannot_be_is_reset() {
    const ALL: [Wrong; 5] = [
        Wrong::TooLittle,
        Wrong::MoreThanCame,
        Wrong::Closed,
        Wrong::Itself,
        Wrong::ShutSink,
    ];
    for (wrong, over_the_wire) in ALL
        .into_iter()
        .flat_map(|wrong| [(wrong, true), (wrong, false)])
    {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        let from = single.connect(0);
        let client = single.open(SocketKind::Stream);
        match over_the_wire {
            true => _ = single.connect(1),
            false => single.connect_to_own(client),
        }
        single.turn();
        let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
        single.edges(listener, 128, EdgeFlags::empty());
        send_least(&mut single, from);
        single.discard_completions();
        single.sent();
        let mut named = (source, LEAST_FORWARD);
        match wrong {
            Wrong::TooLittle => named.1 -= 1,
            Wrong::MoreThanCame => named.1 += 1,
            Wrong::Closed => single.close(source),
            Wrong::Itself => named.0 = sink,
            Wrong::ShutSink => single.edges(sink, 0, EdgeFlags::SHUT_WR),
        }
        single.ask(
            0,
            &Request::Forward {
                socket: sink,
                snd_edge: named.1,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                source: named.0,
                from: 0,
                to: named.1,
            },
        );
        (0..2).for_each(|_| single.turn());
        assert_eq!(single.in_stack().forwards.len(), 0, "{wrong:?}");
        let reported = single.reported();
        let is_dead = |socket| {
            let edges = last_of(&reported, socket);
            flags(edges).contains(EdgeFlags::DEAD)
        };
        assert!(is_dead(sink), "{wrong:?} {over_the_wire}");
        let sent = single.sent();
        let is_reset =
            |h: &TcpHeader| h.dst_port == FIRST_PORT + 1 && h.flags.contains(TcpFlags::RST);
        let other_is_told = match over_the_wire {
            true => sent.iter().any(is_reset),
            false => is_dead(client),
        };
        assert!(other_is_told, "{wrong:?} {over_the_wire}");
    }
}

/// What was passed on, and lies where it came, has not crossed to the program that has read it.
#[test]
fn what_was_passed_on_has_not_crossed() {
    let (single, [source, _], _) = forwarded();
    let records = 2 * ACCEPT_RECORD as u64;
    assert_eq!(single.to_host().payload.bytes, records);
    let mut sockets = single.stack.status().sockets(0);
    let status = sockets.find(|(_, status)| status.block == Some(source.index));
    assert_eq!(status.map(|(_, s)| s.meter.to_host.payload.bytes), Some(0));
}

/// The same where it is passed on to another socket of the engine: it crosses from no program, as what was
/// written before it does, and to the one that reads it.
#[test]
fn what_is_passed_on_within_the_engine_crosses_once() {
    const BEFORE: u64 = 40;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let from = single.connect(0);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
    send_least(&mut single, from);
    let crossed = |single: &Single| single.in_stack().host.crossings();
    let start = crossed(&single);
    single.write(sink, 0, &[1; BEFORE as usize]);
    single.turn();
    let before = crossed(&single);
    let fetched = before.to_adapter.payload.bytes - start.to_adapter.payload.bytes;
    assert_eq!(fetched, BEFORE);
    let arena = single.arena.clone();
    let all = BEFORE + LEAST_FORWARD;
    let end = streams::forward(
        &arena,
        (sink.index, BEFORE),
        (source.index, 0),
        LEAST_FORWARD,
    );
    assert_eq!(end, all);
    forward_least(&mut single, source, (sink, all));
    single.edges(source, LEAST_FORWARD, EdgeFlags::empty());
    (0..2).for_each(|_| single.turn());
    assert_eq!(
        single.told_of(client).map(|edges| edges.rcv_edge),
        Some(all)
    );
    let mut got = vec![0; LEAST_FORWARD as usize];
    streams::copy_out(&single.arena, client.index, BEFORE, &mut got);
    assert!(got.iter().all(|byte| *byte == 7));
    let after = crossed(&single);
    assert_eq!(after.to_adapter.payload, before.to_adapter.payload);
}

/// What is passed on to a connection that is over counts as read at once, also in the turn in which that
/// ends, and is no fault of its program.
#[test]
fn what_is_passed_on_to_nobody_counts_as_read() {
    for in_the_same_turn in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        let from = single.connect(0);
        let mut to = single.connect(1);
        single.turn();
        let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
        send_least(&mut single, from);
        to.flags = TcpFlags::RST;
        single.segment(&to, &[]);
        if !in_the_same_turn {
            single.turn();
        }
        forward_least(&mut single, source, (sink, LEAST_FORWARD));
        single.edges(source, LEAST_FORWARD, EdgeFlags::empty());
        single.turn();
        assert_eq!(single.in_stack().forwards.len(), 0);
        let all = (LEAST_FORWARD, LEAST_FORWARD);
        assert_eq!(received(&single, source), Some(all));
        assert_eq!(single.in_stack().host.meter.bad_descriptors(), 0);
    }
}

/// Each part that is passed on counts once.
#[test]
fn each_part_that_is_passed_on_counts_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let mut from = single.connect(0);
    single.connect(1);
    single.turn();
    let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
    let arena = single.arena.clone();
    for at in [0, LEAST_FORWARD] {
        send_least(&mut single, from.clone());
        from.seq = from.seq.add(LEAST_FORWARD as u32);
        let named = (source.index, at);
        let end = streams::forward(&arena, (sink.index, at), named, LEAST_FORWARD);
        forward_from(&mut single, (source, at), (sink, end));
        single.turn();
        assert_eq!(single.stack.counters.own_bytes.forwarded, end);
    }
}

/// A reader says nothing of what it has written.
#[test]
fn what_is_held_back_stays_so_when_its_host_reads() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    let socket = single.open(SocketKind::Stream);
    single.connect_to_own(socket);
    single.turn();
    let written = streams::append(&single.arena, socket.index, 0, &[7; 100]);
    let said = |snd_edge, flags| Request::Edges {
        socket,
        snd_edge,
        rcv_consumed: 0,
        flags,
        immediate: 0,
    };
    let moved = |single: &Single| {
        let key = single
            .stack
            .endpoints
            .sessions
            .socket_of(single.session(), socket.index);
        match key.and_then(|key| Some(&single.stack.endpoints.sockets.get(key)?.kind)) {
            Some(Kind::Pair(p)) => p.snd.moved(),
            other => panic!("{other:?}"),
        }
    };
    single.ask(0, &said(written, EdgeFlags::MORE));
    single.turn();
    assert_eq!(moved(&single), 0);
    for snd_edge in [written, 0] {
        single.ask(0, &said(snd_edge, EdgeFlags::empty()));
        single.turn();
        assert_eq!(moved(&single), 0);
    }
    // TCP_NODELAY, or a write without MSG_MORE that another process has told of already.
    single.ask(0, &said(written, EdgeFlags::PUSH));
    single.turn();
    assert_eq!(moved(&single), written);
}

/// A program has passed on what one connection has received to another, and read no more than that;
/// the two, and what the peer of the latter sends next.
pub(super) fn forwarded() -> (Single, [SocketId; 2], TcpHeader) {
    forwarded_and_read(LEAST_FORWARD)
}

/// As `forwarded`, where it says that it has read so much.
fn forwarded_and_read(read: u64) -> (Single, [SocketId; 2], TcpHeader) {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let from = single.connect(0);
    let to = single.connect(1);
    single.turn();
    let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
    send_least(&mut single, from);
    let chunk = single.arena.take_snd_chunk().unwrap().unwrap();
    let entry = single.arena.snd_directory(sink.index).entry(0);
    entry.store(chunk, Ordering::Release);
    let host = HostSession::of(&single.arena);
    let ranges = host.ranges(sink.index);
    let written = ranges.write_forwarded(0, (source.index, 0), LEAST_FORWARD as usize);
    assert_eq!(written.unwrap(), Some(0));
    forward_least(&mut single, source, (sink, LEAST_FORWARD));
    single.edges(source, read, EdgeFlags::empty());
    single.turn();
    (single, [source, sink], to)
}

/// How much of a connection counts as read, and how much has come.
pub(super) fn received(single: &Single, socket: SocketId) -> Option<(u64, u64)> {
    let session = single.session();
    let key = single
        .stack
        .endpoints
        .sessions
        .socket_of(session, socket.index);
    single.stack.endpoints.sockets.get(key?)?.kind.received()
}

/// A program that says it has read what never came has its bytes back as any other has.
#[test]
fn who_has_read_too_much_is_not_believed_later() {
    let (mut single, [source, _], mut to) = forwarded_and_read(u64::MAX);
    assert_eq!(received(&single, source), Some((0, LEAST_FORWARD)));
    to.ack = to.ack.add(LEAST_FORWARD as u32);
    single.segment(&to, &[]);
    single.turn();
    let all = (LEAST_FORWARD, LEAST_FORWARD);
    assert_eq!(received(&single, source), Some(all));
}

/// A program that has passed on all it has received closes what it came from: that ends in order, as all
/// was read, and what was passed on is sent again as long as it is not acknowledged.
#[test]
fn what_was_passed_on_outlives_where_it_came_from() {
    let (mut single, [source, _], mut to) = forwarded();
    let all = GEOMETRY.rcv_chunks;
    single.sent();
    let close = Request::Close {
        socket: source,
        snd_edge: 0,
        rcv_consumed: LEAST_FORWARD,
        linger: None,
    };
    single.ask(0, &close);
    single.turn();
    let flags = |single: &mut Single| {
        let sent = single.sent().into_iter();
        let mut of_source = sent.filter(|header| header.dst_port == FIRST_PORT);
        of_source.next_back().map(|header| header.flags)
    };
    let flags = flags(&mut single).expect("its end");
    assert!(flags.contains(TcpFlags::FIN) && !flags.contains(TcpFlags::RST));
    (0..10).for_each(|_| single.turn_after(1_000_000));
    let sent = single.sent_with_payload();
    let again = sent
        .iter()
        .filter(|sent| sent.header.dst_port == FIRST_PORT + 1);
    let again: Vec<u8> = again.flat_map(|sent| sent.payload.clone()).collect();
    assert!(!again.is_empty() && again.iter().all(|byte| *byte == 7));
    assert!(single.free_chunks() < all - 1, "beside the listener's");
    to.ack = to.ack.add(LEAST_FORWARD as u32);
    single.segment(&to, &[]);
    single.turn();
    assert_eq!(single.free_chunks(), all - 1);
}
