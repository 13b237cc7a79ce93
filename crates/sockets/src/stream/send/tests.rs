//! What a call that writes is told, and how much it may write.

use super::*;
use crate::block_words::host_bits;
use crate::testing::Engine;
use crate::testing::fixture::socket_in;
use crate::{Departure, EDGE, Ready, ReadySet};
use longshore_hostif::{Geometry, SocketKind};
use rustix::io::Errno;

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Engine::start(directory.path()), directory)
}

fn send(socket: &Socket, bytes: &[u8]) -> Result<usize, SocketError> {
    socket.send_stream().send(&[IoSlice::new(bytes)], false)
}

#[test]
fn a_state_says_whether_bytes_may_be_written() {
    use SocketState::*;
    let (engine, _directory) = engine();
    let host = engine.join();
    let pipe = Err(SocketError::BrokenPipe);
    for (kind, state, expected) in [
        (SocketKind::Stream, Open, pipe),
        (SocketKind::Stream, Listening, pipe),
        (SocketKind::Stream, Connecting, Err(SocketError::WouldBlock)),
        (SocketKind::Stream, Connected, Ok(usize::MAX)),
        (SocketKind::Stream, Closing, pipe),
        (SocketKind::Stream, Dead, pipe),
        (SocketKind::Stream, Free, pipe),
        (SocketKind::Datagram, Open, Ok(usize::MAX)),
    ] {
        let socket = socket_in(host, kind, state);
        assert_eq!(
            socket.send_stream().check_writable(),
            expected,
            "{kind:?} {state:?}"
        );
        // The pending error is told first, and once.
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        let reset = Err(SocketError::Failed(Errno::CONNRESET));
        assert_eq!(
            socket.send_stream().check_writable(),
            reset,
            "{kind:?} {state:?}"
        );
        assert_eq!(
            socket.send_stream().check_writable(),
            expected,
            "{kind:?} {state:?}"
        );
        socket.block().set_flags(BlockFlags::SHUT_WR);
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        assert_eq!(
            socket.send_stream().check_writable(),
            reset,
            "{kind:?} {state:?}"
        );
        assert_eq!(
            socket.send_stream().check_writable(),
            pipe,
            "{kind:?} {state:?}"
        );
    }
}

#[test]
fn without_an_engine_nothing_is_written() {
    let (mut engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    engine.stop();
    a.socket().host().look_at_engine();
    assert_eq!(send(a.socket(), b"x"), Err(SocketError::EngineGone));
    a.socket().block().set_flags(BlockFlags::SHUT_WR);
    assert_eq!(send(a.socket(), b"x"), Err(SocketError::EngineGone));
}

/// RFC 7413: what does not fit the SYN waits until the connection is made, which is to be told
/// anew.
#[test]
fn the_first_write_goes_with_the_syn_and_the_second_waits() {
    let (engine, _directory) = engine();
    let host = engine.join();
    for (room, fits) in [(0, 1), (5, 5), (100, 9)] {
        let socket = socket_in(host, SocketKind::Stream, SocketState::Early);
        socket.set_host_bits(host_bits::CONNECT_REPORTED | host_bits::NO_DELAY);
        socket
            .block()
            .syn_room_or_size_goal
            .store(room, Ordering::Release);
        assert_eq!(send(&socket, b"123456789"), Ok(fits));
        assert_eq!(socket.state(), SocketState::Connecting);
        let bits = socket.host_bits() & !host_bits::WANTS_ROOM;
        assert_eq!(
            bits,
            host_bits::NO_DELAY,
            "that it is made is to be told anew"
        );
        assert_eq!(send(&socket, b"more"), Err(SocketError::WouldBlock));
    }
    let socket = socket_in(host, SocketKind::Stream, SocketState::Early);
    assert!(socket.is_early());
    socket.connector().write_past_syn();
    let much = vec![0; 3 * CHUNK];
    assert_eq!(send(&socket, &much), Ok(much.len()));
    assert!(socket.is_connecting() && !socket.is_early());
}

#[test]
fn a_write_of_nothing_makes_the_connection_without_data() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let socket = socket_in(host, SocketKind::Stream, SocketState::Early);
    assert_eq!(
        socket.send_stream().send(&[], false),
        Err(SocketError::InProgress)
    );
    assert_eq!(socket.state(), SocketState::Connecting);
    let connected = socket_in(host, SocketKind::Stream, SocketState::Connected);
    assert_eq!(connected.send_stream().send(&[], false), Ok(0));
    connected.block().set_flags(BlockFlags::SHUT_WR);
    assert_eq!(
        connected.send_stream().send(&[], false),
        Err(SocketError::BrokenPipe)
    );
}

/// With no room for the first write the connection is as good as made still.
#[test]
fn a_first_write_that_fails_may_be_repeated() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let socket = socket_in(host, SocketKind::Stream, SocketState::Early);
    let block = socket.block();
    block.snd.limit.store(10, Ordering::Relaxed);
    block.snd.edge.store(10, Ordering::Relaxed);
    block.snd.returned.store(10, Ordering::Relaxed);
    assert_eq!(send(&socket, b"x"), Err(SocketError::WouldBlock));
    assert_eq!(socket.state(), SocketState::Early);
    block.snd.limit.store(11, Ordering::Relaxed);
    assert_eq!(send(&socket, b"xy"), Ok(1));
}

/// Linux: SO_SNDBUF, TCP_NOTSENT_LOWAT.
#[test]
fn no_more_is_written_than_the_limits_leave_room_for() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    let (socket, block) = (a.socket(), a.socket().block());
    block.snd.limit.store(1000, Ordering::Relaxed);
    assert_eq!(socket.send_stream().limit(), 1000);
    assert_eq!(send(socket, &[7; 600]), Ok(600));
    assert_eq!(send(socket, &[7; 600]), Ok(400), "what fits of it");
    let wants = || socket.host_bits() & host_bits::WANTS_ROOM != 0;
    assert!(wants(), "whoever wrote less than all waits for room");
    assert_eq!(send(socket, &[7; 600]), Err(SocketError::WouldBlock));
    block.snd.limit.store(10_000, Ordering::Relaxed);
    block.snd.low_water.store(1300, Ordering::Relaxed);
    assert_eq!(send(socket, &[7; 600]), Ok(300));
    assert_eq!(send(socket, &[7; 600]), Err(SocketError::WouldBlock));
    block.snd.low_water.store(0, Ordering::Relaxed);
    assert_eq!(send(socket, &[7; 600]), Ok(600));
    holds.store(false, Ordering::Relaxed);
    let mut got = 0;
    while got < 1900 {
        got += b.read(&mut [0; 4000]).unwrap();
    }
}

/// A record is not torn: it passes the limit, if its beginning does not.
#[test]
fn a_record_is_written_whole_or_not_at_all() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let socket = socket_in(host, SocketKind::Datagram, SocketState::Open);
    let block = socket.block();
    block.snd.limit.store(100, Ordering::Relaxed);
    let set_held = |held: u64| {
        block.snd.edge.store(held, Ordering::Relaxed);
        block.snd.returned.store(held, Ordering::Relaxed);
    };
    let reserve = |len: usize| {
        socket
            .send_stream()
            .reserve_record(len)
            .map(|reserved| reserved.len())
    };
    set_held(99);
    assert_eq!(reserve(5 * CHUNK), Ok(5 * CHUNK));
    set_held(100);
    assert_eq!(reserve(1), Err(SocketError::WouldBlock));
    assert!(socket.host_bits() & host_bits::WANTS_ROOM != 0);
    block.snd.limit.store(u32::MAX, Ordering::Relaxed);
    set_held(STREAM_MAX - 10);
    assert_eq!(reserve(10), Ok(10));
    assert_eq!(reserve(11), Err(SocketError::WouldBlock));
    block.set_flags(BlockFlags::SHUT_WR);
    assert_eq!(reserve(1), Err(SocketError::BrokenPipe));
}

const SMALL: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 3,
    rcv_chunks: 64,
    workers: 1,
};

/// A session without memory for what it sends: what there is is used, and a program waits for
/// more.
#[test]
fn a_session_that_is_short_of_memory_sends_what_it_has_memory_for() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::with_geometry(directory.path(), SMALL);
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    let socket = a.socket();
    let all = host.count_free_chunks();
    assert_eq!(all, 3);
    assert_eq!(send(socket, &[7; 10]), Ok(10));
    assert_eq!(host.count_free_chunks(), 2);
    assert!(!host.is_short());
    // The rest of its first chunk, and the two others. A writer that takes that for the end of the
    // room, and waits for more, is told that there is some by the stream's limit.
    let much = vec![7; 5 * CHUNK];
    let set = ReadySet::new(host).unwrap();
    set.add(socket, 1, Ready::OUT.bits() | EDGE, 1).unwrap();
    assert_eq!(set.harvest(9, |_| ()), Ok(1));
    assert_eq!(send(socket, &much), Ok(3 * CHUNK - 10));
    assert_eq!(set.harvest(9, |_| ()), Ok(1));
    assert!(host.is_short());
    socket.clear_host_bits(host_bits::WANTS_ROOM);
    assert_eq!(send(socket, &much), Err(SocketError::WouldBlock));
    assert!(socket.host_bits() & host_bits::WANTS_ROOM != 0);
    let other = Engine::open(host, SocketKind::Datagram);
    let to = Engine::address(7);
    let sent = other
        .datagrams()
        .send(&[IoSlice::new(b"x")], Some(to), Departure::default());
    assert_eq!(sent, Err(SocketError::WouldBlock));
    engine
        .behavior
        .holds_acknowledgments
        .store(false, Ordering::Relaxed);
    let mut got = 0;
    while got < 3 * CHUNK {
        got += b.read(&mut vec![0; CHUNK]).unwrap();
    }
    engine.wait_until("acknowledged", |_| {
        host.messages().drain_if_free();
        socket.send_stream().unacked_bytes() == 0
    });
    assert_eq!(send(socket, b"x"), Ok(1));
    assert!(!host.is_short());
}

/// A program that tries again and again, and never waits, is told of room as one that waits is:
/// nobody else may be there to take what the engine says of it.
#[test]
fn a_write_that_finds_no_room_looks_for_what_the_engine_has_told() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    let socket = a.socket();
    socket.block().snd.limit.store(1_000, Ordering::Relaxed);
    assert_eq!(send(socket, &[7; 1_500]), Ok(1_000));
    assert_eq!(send(socket, &[7; 500]), Err(SocketError::WouldBlock));
    assert_eq!(b.read(&mut [0; 1_000]), Ok(1_000));
    holds.store(false, Ordering::Relaxed);
    b.write_all(b"a reason to look at both").unwrap();
    engine.wait_until("it was told", |_| {
        host.session.has_completions(host.own_channel())
    });
    assert_eq!(socket.send_stream().unacked_bytes(), 1_000);
    assert_eq!(send(socket, &[7; 500]), Ok(500));
}

/// The chunks of datagrams that are gone are there for the next ones.
#[test]
fn datagrams_that_were_taken_leave_their_memory() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::with_geometry(directory.path(), SMALL);
    let host = engine.join();
    let (a, b) = (
        Engine::open(host, SocketKind::Datagram),
        Engine::open(host, SocketKind::Datagram),
    );
    let to = b.addresses().bind(Engine::address(0)).unwrap();
    let bytes = vec![7; CHUNK - 100];
    for round in 0..20 {
        let sent = a.wait(None, crate::WaitLimit::ENDLESS, || {
            a.datagrams()
                .send(&[IoSlice::new(&bytes)], Some(to), Departure::default())
        });
        assert_eq!(sent, Ok(bytes.len()), "{round}");
        let mut buf = vec![0; CHUNK];
        let received = b.wait(None, crate::WaitLimit::ENDLESS, || {
            b.datagrams()
                .recv(&mut [std::io::IoSliceMut::new(&mut buf)], false)
        });
        assert_eq!(received.map(|r| r.len), Ok(bytes.len()));
        engine.wait_until("it was taken", |_| {
            host.messages().drain_if_free();
            a.send_stream().unacked_bytes() == 0
        });
    }
    assert!(!host.is_short());
}

/// Two chunks for a record that needs three.
#[test]
fn a_record_for_which_there_is_too_little_memory_takes_none() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::with_geometry(
        directory.path(),
        Geometry {
            snd_chunks: 2,
            ..SMALL
        },
    );
    let host = engine.join();
    let socket = Engine::open(host, SocketKind::Datagram);
    let reserved = socket.send_stream().reserve_record(2 * CHUNK + 1);
    assert_eq!(reserved.err(), Some(SocketError::WouldBlock));
    assert!(host.is_short());
    assert_eq!(host.count_free_chunks(), 2);
    assert_eq!(
        socket
            .send_stream()
            .reserve_record(2 * CHUNK)
            .map(|r| r.len()),
        Ok(2 * CHUNK)
    );
}

/// The chunks that a stream has for what is reserved and was committed of it: those that the
/// bytes lie in, wherever they begin.
#[test]
fn a_stream_keeps_the_chunks_that_its_bytes_lie_in() {
    let (engine, _directory) = engine();
    let host = engine.join();
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    for (before, committed, chunks) in [
        (0, 0, 0),
        (0, 1, 1),
        (0, CHUNK, 1),
        (0, CHUNK + 1, 2),
        (1, 0, 1),
        (1, CHUNK - 1, 1),
        (1, CHUNK, 2),
        (CHUNK, 1, 2),
        (CHUNK, 3 * CHUNK, 4),
    ] {
        let (a, _b) = Engine::pair(host);
        let free = host.count_free_chunks();
        a.write_all(&vec![7; before]).unwrap();
        let reserved = a.socket().send_stream().reserve(3 * CHUNK).unwrap();
        assert_eq!((reserved.len(), reserved.is_empty()), (3 * CHUNK, false));
        reserved.commit(committed, false).unwrap();
        let kept = free - host.count_free_chunks();
        assert_eq!(kept, chunks, "{before} and {committed}");
        std::mem::forget((a, _b));
    }
}

#[test]
#[should_panic(expected = "at <= self.len")]
fn nothing_is_written_beyond_what_was_reserved() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let mut reserved = a.reserve(10).unwrap();
    reserved.write_at(0, &[7; 10]).unwrap();
    reserved.write_at(8, &[7; 3]).unwrap();
}

#[test]
fn parts_are_sent_in_order_as_far_as_there_is_room() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let parts = [&b"ab"[..], b"", b"cde", b"fgh"].map(IoSlice::new);
    a.socket().block().snd.limit.store(6, Ordering::Relaxed);
    let more = Sending::RECORD_END | Sending::MORE;
    assert_eq!(a.socket().send_stream().send_with(&parts, more), Ok(6));
    let mut buf = [0; 9];
    assert_eq!(b.read(&mut buf), Ok(6));
    assert_eq!(buf[..6], *b"abcdef");
}
