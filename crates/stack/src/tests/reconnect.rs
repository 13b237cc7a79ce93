//! A socket whose connection is over has another: of the one before it nothing is left.

use super::own_ends::Own;
use super::single::{ISN, SERVER, Single, header};
use longshore_hostif::{EdgeFlags, Geometry, OptionName, Request, SocketId, SocketKind};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
    workers: 1,
};
/// Where the peer listens.
pub(super) const PORT: u16 = 5_000;

pub(super) fn connect(single: &mut Single, socket: SocketId, peer: SocketAddr) {
    let (tag, waiter, peer) = (1, None, peer.into());
    single.ask(
        0,
        &Request::Connect {
            socket,
            tag,
            waiter,
            peer,
        },
    );
}

/// Connects to the peer; what that sends next.
pub(super) fn connected(single: &mut Single, socket: SocketId) -> TcpHeader {
    connect(single, socket, SocketAddr::new([10, 0, 0, 2].into(), PORT));
    single.turn();
    let syn = single.sent().pop().expect("a SYN");
    assert!(syn.flags.contains(TcpFlags::SYN) && syn.dst_port == PORT);
    let mut answer = header(0, TcpFlags::SYN | TcpFlags::ACK, ISN, syn.seq.add(1));
    (answer.src_port, answer.dst_port) = (PORT, syn.src_port);
    answer.options.mss = Some(1_460);
    single.segment(&answer, &[]);
    single.turn();
    (answer.seq, answer.flags) = (ISN.add(1), TcpFlags::ACK);
    answer.options.mss = None;
    answer
}

/// What its program has not read of a connection that was reset takes no memory once the socket
/// has another: `connect` may be called again and again.
#[test]
fn what_was_not_read_goes_with_the_next_connection() {
    let mut single = Single::new(GEOMETRY, 1);
    let (socket, all) = (single.open(SocketKind::Stream), single.free_chunks());
    for _ in 0..3 {
        let mut peer = connected(&mut single, socket);
        single.segment(&peer, &[7; 30_000 / 25]);
        single.turn();
        peer.seq = peer.seq.add(30_000 / 25);
        peer.flags = TcpFlags::RST | TcpFlags::ACK;
        single.segment(&peer, &[]);
        single.turn();
        assert_eq!(single.free_chunks(), all - 1, "it is to be read");
    }
    connected(&mut single, socket);
    assert_eq!(single.free_chunks(), all);
}

/// A socket whose connection was reset, and for which there is no way to where it is to go next, is
/// bound no more, and can still connect.
#[test]
fn an_attempt_that_comes_to_nothing_leaves_the_socket_to_the_next() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    for _ in 0..2 {
        let mut peer = connected(&mut single, socket);
        peer.flags = TcpFlags::RST | TcpFlags::ACK;
        single.segment(&peer, &[]);
        single.turn();
        single.sent();
        let group = SocketAddr::new([224, 0, 0, 9].into(), PORT);
        connect(&mut single, socket, group);
        single.turn();
        assert!(single.sent().is_empty());
        single.discard_completions();
    }
}

/// A connection that is reset and made again in one turn has one place in the table, not that of the one
/// before.
#[test]
fn the_next_connection_in_the_turn_of_the_reset_takes_its_place() {
    let Own {
        mut single,
        client,
        server,
    } = Own::new();
    single.reset(server);
    single.connect_to_own(client);
    single.turn();
    assert_eq!(single.stack.endpoints.demux.flows(), 2, "its two ends");
    single.close(client);
    single.turn();
    single.turn();
    assert_eq!(
        single.stack.endpoints.demux.flows(),
        1,
        "what is not accepted"
    );
}

/// A program that has a small receive buffer is to say what it has read before the peer finds the window
/// closed.
#[test]
fn a_small_receive_buffer_is_read_by_quarters() {
    const BUFFER: u32 = 8_000;
    for buffer in [None, Some(BUFFER)] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        if let Some(buffer) = buffer {
            single.set(socket, OptionName::ReceiveBuffer, buffer.into());
        }
        connected(&mut single, socket);
        let limit = &single.arena.block(socket.index).unreported_limit;
        let expected = buffer.map_or(0, |buffer| buffer / 4);
        assert_eq!(limit.load(Ordering::Relaxed), expected);
    }
}

/// The same between two programs.
#[test]
fn what_was_not_read_goes_with_the_next_connection_to_a_socket_of_ours() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let (socket, all) = (single.open(SocketKind::Stream), single.free_chunks());
    for which in 0..3 {
        connect(&mut single, socket, SocketAddr::new(SERVER.into(), 80));
        single.turn();
        let accepted = super::off_path::accepted(&mut single, listener, which);
        single.edges(listener, (which + 1) * 64, EdgeFlags::empty());
        let edge = super::streams::append(&single.arena, accepted.index, 0, &[7; 3_000]);
        single.ask(
            0,
            &Request::Edges {
                socket: accepted,
                snd_edge: edge,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
        single.turn();
        single.ask(
            0,
            &Request::Close {
                socket: accepted,
                snd_edge: edge,
                rcv_consumed: 0,
                linger: Some(0),
            },
        );
        single.turn();
        single.discard_completions();
    }
    connect(&mut single, socket, SocketAddr::new(SERVER.into(), 81));
    single.turn();
    assert_eq!(
        single.free_chunks(),
        all - 1,
        "the listener's records alone"
    );
}

/// Bytes that are lent, and not copied.
const MUCH: usize = 40_000;

/// A sender whose other end reads where it wrote, and by which it was reset since; the listener of both,
/// the sender, and its other end.
fn lent_and_reset(geometry: Geometry) -> (Single, [SocketId; 3]) {
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    let sender = single.open(SocketKind::Stream);
    connect(&mut single, sender, SocketAddr::new(SERVER.into(), 80));
    single.turn();
    let reader = super::off_path::accepted(&mut single, listener, 0);
    let edge = single.write(sender, 0, &[7; MUCH]);
    single.turn();
    assert_eq!(single.stack.counters.own_bytes.lent, MUCH as u64);
    // What is sent to an end that reads no more and writes no more is answered by a reset.
    single.edges(reader, 0, EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR);
    single.turn();
    single.write(sender, edge, &[8]);
    single.turn();
    (single, [listener, sender, reader])
}

/// What the other end reads where it was written stays what it is, though its sender is reset
/// and has another connection, of which the other end has nothing.
#[test]
fn what_was_lent_stays_when_its_sender_has_another_connection() {
    let (mut single, [listener, sender, reader]) = lent_and_reset(GEOMETRY);
    connect(&mut single, sender, SocketAddr::new(SERVER.into(), 80));
    single.turn();
    let next = super::off_path::accepted(&mut single, listener, 1);
    single.write(sender, 0, &[9; MUCH]);
    single.turn();
    single.reset(reader);
    single.turn();
    let is_well = |single: &Single, socket: SocketId| {
        let key = single
            .stack
            .endpoints
            .sessions
            .socket_of(single.session(), socket.index)
            .unwrap();
        let socket = single.stack.endpoints.sockets.get(key).unwrap();
        matches!(&socket.kind, crate::socket::Kind::Pair(p) if p.dead.is_none())
    };
    assert!(is_well(&single, sender) && is_well(&single, next));
}

/// Where there is no memory in which that could stay, which is counted, the sender has no other connection
/// yet.
#[test]
fn a_sender_has_no_other_connection_while_what_it_lent_finds_no_room() {
    const NO_BUFFER_SPACE: u16 = 105;
    // For the listener's records alone.
    let geometry = Geometry {
        rcv_chunks: 1,
        ..GEOMETRY
    };
    let (mut single, [_, sender, reader]) = lent_and_reset(geometry);
    let full = |single: &Single| single.dropped("arena_full");
    let before = full(&single);
    let tries = |single: &mut Single| {
        single.discard_completions();
        connect(single, sender, SocketAddr::new(SERVER.into(), 81));
        single.turn();
        single.answer().expect("an answer")
    };
    assert_eq!(tries(&mut single), NO_BUFFER_SPACE);
    assert_eq!(full(&single), before + 1);
    single.edges(reader, MUCH as u64, EdgeFlags::empty());
    single.turn();
    assert_eq!(tries(&mut single), 0, "it is refused later");
    assert_eq!(full(&single), before + 1);
}
