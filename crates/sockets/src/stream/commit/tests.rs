//! What is told of bytes that were written, and whether they travel with it.

use super::*;
use crate::Stream;
use crate::testing::Engine;
use longshore_hostif::{Features, Versions};
use std::io::IoSlice;

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    (engine, directory)
}

/// How many of `len` bytes would travel with their descriptor.
fn immediate(stream: &Stream, len: usize) -> usize {
    stream.reserve(len).unwrap().immediate().into()
}

fn written(stream: &Stream, len: usize) {
    let written = stream
        .socket()
        .send_stream()
        .send(&[IoSlice::new(&vec![7; len])], false);
    assert_eq!(written, Ok(len));
}

/// Nagle's algorithm holds little back behind what is not acknowledged: then what was written
/// before goes with it.
#[test]
fn little_travels_with_its_descriptor_unless_it_will_wait() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    assert!(a.socket().send_stream().takes_immediate_data());
    assert_eq!(immediate(&a, 1), 1);
    assert_eq!(immediate(&a, MAX_IMMEDIATE), MAX_IMMEDIATE);
    assert_eq!(immediate(&a, MAX_IMMEDIATE + 1), 0);
    written(&a, MAX_IMMEDIATE);
    assert_eq!(immediate(&a, 10), 10);
    written(&a, 1);
    assert_eq!(immediate(&a, 10), 0, "it waits for an acknowledgment");
    a.socket().set_host_bits(host_bits::NO_DELAY);
    assert_eq!(immediate(&a, 10), 10);
    written(&a, MOST_AHEAD as usize - MAX_IMMEDIATE - 1);
    assert_eq!(immediate(&a, 10), 10);
    written(&a, 1);
    assert_eq!(immediate(&a, 10), 0, "a long stream is read where it lies");
}

/// To the engine of a release that does not know of it, all that it looks at is in the stream.
#[test]
fn nothing_travels_with_its_descriptor_to_who_does_not_look_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut without = Versions::OURS;
    without.features.remove(Features::IMMEDIATE_DATA);
    let engine = Engine::of_release(directory.path(), without);
    let (a, _b) = Engine::pair(engine.join());
    assert!(!a.socket().send_stream().takes_immediate_data());
    assert_eq!(immediate(&a, 1), 0);
}

#[test]
fn datagrams_wait_for_no_acknowledgment() {
    let (engine, _directory) = engine();
    let socket = Engine::open(engine.join(), longshore_hostif::SocketKind::Datagram);
    let block = socket.block();
    let ahead = 2 * MAX_IMMEDIATE as u64;
    block.snd.edge.store(ahead, Ordering::Relaxed);
    block.snd.returned.store(ahead, Ordering::Relaxed);
    assert_eq!(
        socket.send_stream().reserve_record(10).unwrap().immediate(),
        10
    );
    std::mem::forget(socket);
}

#[test]
fn what_is_committed_is_sent_and_no_more() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    for (reserve, commit, sent) in [(10, 0, 0), (10, 4, 4), (10, 10, 10), (10, 99, 10)] {
        let before = a.socket().send_stream().write_position();
        let mut reserved = a.reserve(reserve).unwrap();
        reserved.write_at(0, &[7; 10]).unwrap();
        reserved.commit(commit, false).unwrap();
        assert_eq!(a.socket().send_stream().write_position(), before + sent);
    }
    let (mut got, mut buf) = (0, [0; 99]);
    while got < 24 {
        got += b.read(&mut buf).unwrap();
    }
    assert_eq!(got, 24);
}

/// A write says how far its socket was read, so that nothing else need say it.
#[test]
fn what_was_read_is_told_with_what_is_written() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    for urgent in [false, true] {
        written(&a, 100);
        assert_eq!(b.read(&mut [0; 50]), Ok(50));
        let (reported, read) = (
            &b.socket().block().rcv.reported,
            b.socket().receive_stream().read_position(),
        );
        assert!(reported.load(Ordering::Relaxed) < read);
        let sending = if urgent {
            Sending::URGENT
        } else {
            Sending::empty()
        };
        let sent = b
            .socket()
            .send_stream()
            .send_with(&[IoSlice::new(b"x")], sending);
        assert_eq!(sent, Ok(1));
        assert_eq!(reported.load(Ordering::Relaxed), read, "urgent: {urgent}");
    }
}

/// MSG_OOB and MSG_EOR in one call: both are told, the byte first.
#[test]
fn the_end_of_a_record_may_be_urgent() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let both = Sending::URGENT | Sending::RECORD_END;
    assert_eq!(
        a.socket()
            .send_stream()
            .send_with(&[IoSlice::new(b"ab")], both),
        Ok(2)
    );
    engine.wait_until("all has come", |_| {
        b.socket().host().messages().drain_if_free();
        b.socket().urgent_data().end() == 2 && b.socket().receive_stream().received_end() == 2
    });
    assert_eq!(b.socket().urgent_data().recv(false), Ok(Some(b'b')));
}

/// What the engine is told of bytes that were written, with what is to be in it and what not.
fn is_said(engine: &Engine, stream: &Stream, with: EdgeFlags, without: EdgeFlags) {
    let index = stream.socket().id().index;
    stream.socket().host().messages().flush().unwrap();
    engine.wait_until("it was told", |seen| {
        let said = seen
            .reported_flags
            .get(&index)
            .copied()
            .unwrap_or(EdgeFlags::empty());
        assert!(!said.intersects(without), "{said:?}");
        said.contains(with)
    });
}

/// MSG_MORE, MSG_EOR, TCP_CORK.
#[test]
fn the_engine_is_told_what_is_said_of_bytes() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (more, end, cork) = (EdgeFlags::MORE, EdgeFlags::RECORD_END, EdgeFlags::CORK);
    let bytes = [IoSlice::new(b"abc")];
    for (sending, with, without) in [
        (Sending::empty(), EdgeFlags::PUSH, more | end | cork),
        (Sending::MORE, more, EdgeFlags::PUSH | end | cork),
        (Sending::RECORD_END, EdgeFlags::PUSH | end, more | cork),
    ] {
        let (a, _b) = Engine::pair(host);
        assert_eq!(a.socket().send_stream().send_with(&bytes, sending), Ok(3));
        is_said(&engine, &a, with, without);
        std::mem::forget((a, _b));
    }
    let (a, _b) = Engine::pair(host);
    assert_eq!(a.socket().send_stream().send(&bytes, true), Ok(3));
    is_said(&engine, &a, more, EdgeFlags::PUSH);
    // A cork behind which nothing stands is told of by what is written then.
    let (c, _d) = Engine::pair(host);
    c.socket().options().set_cork(true).unwrap();
    c.socket().host().messages().flush().unwrap();
    assert_eq!(c.socket().send_stream().send(&bytes, false), Ok(3));
    is_said(&engine, &c, EdgeFlags::PUSH | cork, more);
    c.socket().options().set_cork(true).unwrap();
    is_said(&engine, &c, more | cork, EdgeFlags::empty());
    c.socket().options().set_cork(false).unwrap();
    is_said(&engine, &c, EdgeFlags::PUSH, end);
}

/// A record ends with its last byte, which is not among those that there is room for.
#[test]
fn a_record_of_which_a_part_is_written_has_not_ended() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    a.socket().block().snd.limit.store(2, Ordering::Relaxed);
    let sent = a
        .socket()
        .send_stream()
        .send_with(&[IoSlice::new(b"abc")], Sending::RECORD_END);
    assert_eq!(sent, Ok(2));
    is_said(&engine, &a, EdgeFlags::PUSH, EdgeFlags::RECORD_END);
    a.socket().block().snd.limit.store(9, Ordering::Relaxed);
    let sent = a
        .socket()
        .send_stream()
        .send_with(&[IoSlice::new(b"c")], Sending::RECORD_END);
    assert_eq!(sent, Ok(1));
    is_said(&engine, &a, EdgeFlags::RECORD_END, EdgeFlags::empty());
}

/// RFC 7413: without data the SYN goes alone, and goes now.
#[test]
fn a_connection_that_is_made_without_data_is_told_of() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let socket = Engine::open(host, longshore_hostif::SocketKind::Stream);
    socket
        .block()
        .set_state(longshore_hostif::SocketState::Early);
    assert_eq!(
        socket.send_stream().send(&[], false),
        Err(SocketError::InProgress)
    );
    let index = socket.id().index;
    engine.wait_until("it was told", |seen| {
        seen.reported_flags.get(&index) == Some(&EdgeFlags::PUSH)
    });
}
