//! What a call that reads is told, and what it gets.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::pattern;
use crate::{Stream, WaitLimit};
use longshore_hostif::{CHUNK, SocketKind};
use rustix::io::Errno;
use std::mem::ManuallyDrop;

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Engine::start(directory.path()), directory)
}

const RESET: Result<(), SocketError> = Err(SocketError::Failed(Errno::CONNRESET));
const NOT_CONNECTED: Result<(), SocketError> = Err(SocketError::Refused(Errno::NOTCONN));
const LATER: Result<(), SocketError> = Err(SocketError::WouldBlock);

/// What this process has sent to its own sockets just before is waited for by a call that would
/// give less than it has room for, and by no other.
#[test]
fn less_than_there_is_room_for_waits_for_what_was_sent_before() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    a.write_all(b"0123456789").unwrap();
    engine.wait_until("it has come", |_| {
        host.messages().drain_if_free();
        b.socket().receive_stream().readable_bytes() == 10
    });
    let is_unwaited_for = |room: usize| {
        host.under_way().note_done_to_own();
        let mut bytes = vec![0; room];
        let got = b.read(&mut bytes).unwrap();
        (got, host.in_flight.take_done_to_own())
    };
    assert_eq!(is_unwaited_for(4), (4, true));
    assert_eq!(is_unwaited_for(6), (6, true));
    a.write_all(b"again").unwrap();
    engine.wait_until("that has come", |_| {
        host.messages().drain_if_free();
        b.socket().receive_stream().readable_bytes() == 5
    });
    assert_eq!(is_unwaited_for(6), (5, false));
}

#[test]
fn an_empty_stream_has_ended_has_failed_or_may_get_more() {
    use SocketState::*;
    let (engine, _directory) = engine();
    let host = engine.join();
    for (kind, state, expected) in [
        (SocketKind::Stream, Open, NOT_CONNECTED),
        (SocketKind::Stream, Listening, NOT_CONNECTED),
        (SocketKind::Stream, Connecting, LATER),
        (SocketKind::Stream, Early, LATER),
        (SocketKind::Stream, Connected, LATER),
        (SocketKind::Stream, Closing, Ok(())),
        (SocketKind::Stream, Dead, Ok(())),
        (SocketKind::Stream, Free, Ok(())),
        (SocketKind::Datagram, Open, LATER),
    ] {
        let socket = ManuallyDrop::new(Engine::open(host, kind));
        let block = socket.block();
        block.set_state(state);
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            expected,
            "{kind:?} {state:?}"
        );
        // The pending error is told first, and once.
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            RESET,
            "{kind:?} {state:?}"
        );
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            expected,
            "{kind:?} {state:?}"
        );
        // A half that is shut down gives the end, but not before the error.
        block.set_flags(BlockFlags::SHUT_RD);
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            RESET,
            "{kind:?} {state:?}"
        );
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            Ok(()),
            "{kind:?} {state:?}"
        );
        // What the peer has ended has ended, and leaves the error to other calls.
        block.set_flags(BlockFlags::PEER_FIN);
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        assert_eq!(
            socket.receive_stream().end_of_stream(),
            Ok(()),
            "{kind:?} {state:?}"
        );
        assert_eq!(block.take_errno(), Errno::CONNRESET.raw_os_error() as u32);
    }
}

#[test]
fn without_an_engine_a_reader_that_would_wait_is_told_of_a_reset() {
    let (mut engine, _directory) = engine();
    let (_a, b) = Engine::pair(engine.join());
    assert_eq!(b.socket().receive_stream().end_of_stream(), LATER);
    engine.stop();
    b.socket().host().look_at_engine();
    assert_eq!(b.socket().receive_stream().end_of_stream(), RESET);
}

#[test]
fn what_is_no_stream_of_bytes_is_not_read_as_one() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let listener = ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
    listener.block().set_state(SocketState::Listening);
    let datagram = Engine::open(host, SocketKind::Datagram);
    for (socket, errno) in [(&*listener, Errno::NOTCONN), (&datagram, Errno::OPNOTSUPP)] {
        let refused = Some(SocketError::Refused(errno));
        assert_eq!(socket.receive_stream().peek().err(), refused);
        assert_eq!(socket.receive_stream().discard(1).err(), refused);
        assert_eq!(socket.receive_stream().recv(&mut [], true).err(), refused);
    }
}

/// The engine's end of the stream is not where memory says that it is.
#[test]
fn an_edge_beyond_all_streams_is_refused() {
    let (engine, _directory) = engine();
    let (_a, b) = Engine::pair(engine.join());
    let (socket, edge) = (b.socket(), &b.socket().block().rcv.edge);
    edge.store(STREAM_MAX, Ordering::Release);
    assert_eq!(
        socket.receive_stream().peek().map(|p| p.len()),
        Ok(STREAM_MAX as usize)
    );
    edge.store(STREAM_MAX + 1, Ordering::Release);
    assert_eq!(
        socket.receive_stream().peek().err(),
        Some(SocketError::Broken)
    );
    assert_eq!(
        socket.receive_stream().readable_bytes(),
        STREAM_MAX as usize
    );
    edge.store(0, Ordering::Release);
}

/// Waits until so many bytes can be read.
fn arrived(engine: &Engine, socket: &Socket, len: usize) {
    engine.wait_until("the bytes have come", |_| {
        socket.host().messages().drain_if_free();
        socket.receive_stream().readable_bytes() == len
    });
}

#[test]
fn all_parts_of_a_call_are_filled_in_order() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let all = pattern(CHUNK + 100);
    a.write_all(&all).unwrap();
    arrived(&engine, b.socket(), all.len());
    // Across the border of two chunks, with a part of no bytes, and once more than there is.
    let (mut first, mut none, mut second) = (vec![0; CHUNK - 5], [0; 0], vec![0; 30]);
    for keep in [true, false] {
        let mut parts = [&mut first[..], &mut none, &mut second].map(IoSliceMut::new);
        let read = b.socket().receive_stream().recv(&mut parts, keep);
        assert_eq!(read, Ok(CHUNK + 25));
        assert!([&first[..], &second].concat() == all[..CHUNK + 25]);
    }
    let mut rest = [0; 200];
    let mut tail = [9; 3];
    let mut parts = [&mut rest[..], &mut tail].map(IoSliceMut::new);
    assert_eq!(b.socket().receive_stream().recv(&mut parts, false), Ok(75));
    assert_eq!((&rest[..75], tail), (&all[CHUNK + 25..], [9; 3]));
    assert_eq!(
        b.socket().receive_stream().read_position(),
        all.len() as u64
    );
    assert_eq!(b.socket().receive_stream().received_end(), all.len() as u64);
}

/// The last part has more room than there is left.
#[test]
fn a_part_is_filled_as_far_as_there_is_something() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abcde").unwrap();
    arrived(&engine, b.socket(), 5);
    let (mut first, mut second) = ([0; 3], [0; 9]);
    let mut parts = [&mut first[..], &mut second].map(IoSliceMut::new);
    assert_eq!(b.socket().receive_stream().recv(&mut parts, false), Ok(5));
    assert_eq!((first, &second[..3]), (*b"abc", &b"de\0"[..]));
}

/// The engine is told at once of as much as it asks for, and of less later.
#[test]
fn as_much_as_the_engine_asks_for_is_told_at_once() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(&[7; 1000]).unwrap();
    arrived(&engine, b.socket(), 1000);
    let block = b.socket().block();
    block.unreported_limit.store(100, Ordering::Relaxed);
    for (read, reported) in [(99, 0), (1, 100), (99, 100), (200, 399)] {
        assert_eq!(b.socket().receive_stream().discard(read), Ok(read));
        assert_eq!(
            block.rcv.reported.load(Ordering::Relaxed),
            reported,
            "{read}"
        );
    }
}

/// SO_PEEK_OFF counts from what was read, however that was.
#[test]
fn what_is_thrown_away_moves_the_peek_offset_back() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abcdef").unwrap();
    arrived(&engine, b.socket(), 6);
    b.socket().peek_offset().set(Some(4));
    assert_eq!(b.socket().receive_stream().discard(3), Ok(3));
    assert_eq!(b.socket().peek_offset().get(), Some(1));
    let mut buf = [0; 9];
    let peeked = b
        .socket()
        .receive_stream()
        .recv(&mut [IoSliceMut::new(&mut buf)], true);
    assert_eq!((peeked, &buf[..2]), (Ok(2), &b"ef"[..]));
}

/// As Linux has it, a call for no bytes waits for some, and gives none.
#[test]
fn a_call_for_nothing_waits_and_takes_nothing() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    assert_eq!(
        b.socket().receive_stream().recv(&mut [], false),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(
        b.socket().receive_stream().discard(0),
        Err(SocketError::WouldBlock)
    );
    a.write_all(b"abc").unwrap();
    arrived(&engine, b.socket(), 3);
    assert_eq!(b.socket().receive_stream().recv(&mut [], false), Ok(0));
    assert_eq!(b.socket().receive_stream().discard(0), Ok(0));
    assert_eq!(b.socket().receive_stream().readable_bytes(), 3);
}

#[test]
fn what_is_thrown_away_is_no_more_than_was_asked_for() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abcdef").unwrap();
    arrived(&engine, b.socket(), 6);
    assert_eq!(b.socket().receive_stream().discard(4), Ok(4));
    let mut buf = [0; 9];
    assert_eq!(b.read(&mut buf), Ok(2));
    assert_eq!(buf[..2], *b"ef");
    a.finish().unwrap();
    let discard = || b.socket().receive_stream().discard(10);
    assert_eq!(b.socket().wait(None, WaitLimit::ENDLESS, discard), Ok(0));
}

#[test]
fn no_more_is_consumed_than_was_there() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abc").unwrap();
    arrived(&engine, b.socket(), 3);
    let peeked = b.socket().receive_stream().peek().unwrap();
    assert!(!peeked.is_empty() && !peeked.stops_at_mark());
    peeked.consume(0).unwrap();
    assert_eq!(b.socket().receive_stream().read_position(), 0);
    b.socket()
        .receive_stream()
        .peek()
        .unwrap()
        .consume(100)
        .unwrap();
    assert_eq!(b.socket().receive_stream().read_position(), 3);
}

fn peek_at(at: usize, len: usize) {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abcd").unwrap();
    arrived(&engine, b.socket(), 4);
    let peeked = b.socket().receive_stream().peek().unwrap();
    let mut to = vec![0; len];
    peeked.read_at(at, &mut to).unwrap();
    let pieces = peeked.pieces(at, len).map(|piece| piece.unwrap().to_vec());
    assert_eq!(pieces.collect::<Vec<_>>().concat(), to);
    assert_eq!(to, b"abcd"[at..at + len]);
}

#[test]
fn any_part_of_what_is_there_can_be_looked_at() {
    for (at, len) in [(0, 4), (1, 3), (4, 0), (2, 1)] {
        peek_at(at, len);
    }
}

#[test]
#[should_panic(expected = "at <= self.len")]
fn nothing_beyond_it_can_be_looked_at() {
    peek_at(2, 3);
}

#[test]
#[should_panic(expected = "at <= self.len")]
fn no_piece_is_given_of_what_is_beyond_it() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"abcd").unwrap();
    arrived(&engine, b.socket(), 4);
    let peeked = b.socket().receive_stream().peek().unwrap();
    let _ = peeked.pieces(5, 0).count();
}

/// What is written and read, in bytes, and the queue of what is not acknowledged.
#[test]
fn what_is_not_acknowledged_is_counted() {
    let (engine, _directory) = engine();
    let (a, b): (Stream, Stream) = Engine::pair(engine.join());
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    assert_eq!(a.socket().send_stream().unacked_bytes(), 0);
    a.write_all(&[7; 500]).unwrap();
    arrived(&engine, b.socket(), 500);
    assert_eq!(a.socket().send_stream().unacked_bytes(), 500);
    holds.store(false, Ordering::Relaxed);
    engine.wait_until("acknowledged", |_| {
        a.socket().host().messages().drain_if_free();
        a.socket().send_stream().unacked_bytes() == 0
    });
    let limit = &b.socket().block().rcv.limit;
    limit.store(12_345, Ordering::Relaxed);
    assert_eq!(b.socket().receive_stream().limit(), 12_345);
}
