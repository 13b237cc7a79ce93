//! Requests to forward that no host half of ours makes, of which nothing is kept if they are
//! refused; and what else is said of a connection that takes part.

use super::off_path::accepted;
use super::single::{FIRST_PORT, Single};
use super::streams;
use crate::session::SPARE_CHUNKS;
use crate::socket::Kind;
use longshore_hostif::{
    EdgeFlags, Geometry, HostSession, LEAST_FORWARD, Request, SocketId, SocketKind,
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
        single.ask(
            0,
            &Request::Forward {
                socket: sink,
                // More than a stream can hold.
                snd_edge: 1 << 40,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                source,
                from: 0,
                to: LEAST_FORWARD,
            },
        );
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
    single.ask(
        0,
        &Request::Forward {
            socket: sink,
            snd_edge: LEAST_FORWARD,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            source,
            from: 0,
            to: LEAST_FORWARD,
        },
    );
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
