//! Bytes that were read and are kept where they lie.

use super::*;
use crate::Host;
use crate::stream::{Forwarded, NotForwarded};
use crate::testing::Engine;
use crate::testing::fixture::{forwarding_engine, pattern, read};
use crate::{Hooks, Stream};
use longshore_hostif::{EdgeFlags, SocketKind};
use std::io::IoSliceMut;
use std::sync::Mutex;

/// As `splice` has the kernel take them: a call for each piece would be one for each chunk.
#[test]
fn pieces_are_given_together_until_less_than_all_is_taken() {
    let pieces: Vec<Vec<u8>> = (1..=2 * MOST_PIECES_KEPT as u8)
        .map(|n| vec![n; 10])
        .collect();
    let all = || pieces.iter().map(|piece| Ok(&piece[..]));
    let (mut calls, mut got) = (Vec::new(), Vec::new());
    let taken = hand_over(all(), |given| {
        calls.push(given.len());
        got.extend_from_slice(&given.concat());
        Ok(given.concat().len())
    });
    assert_eq!(
        (taken.ok(), got),
        (Some(20 * MOST_PIECES_KEPT), pieces.concat())
    );
    assert_eq!(calls, [MOST_PIECES_KEPT; 2]);
    // Of the second lot one byte is not taken. After less than all, nothing more is given.
    for (least, expected) in [(0, 1), (79, 1), (80, 2), (159, 2)] {
        let (mut room, mut calls) = (least, 0);
        let taken = hand_over(all(), |given| {
            calls += 1;
            let n = given.concat().len().min(room);
            room -= n;
            Ok(n)
        });
        assert_eq!((taken.ok(), calls), (Some(least), expected));
    }
}

#[test]
fn what_was_taken_before_an_error_counts() {
    let piece = [0; 10];
    let many = || std::iter::repeat_n(Ok(&piece[..]), MOST_PIECES_KEPT);
    let fails = || std::iter::once(Err(SocketError::Broken));
    let all = |given: &[&[u8]]| Ok(given.concat().len());
    assert!(matches!(hand_over(fails(), all), Err(SocketError::Broken)));
    let taken = hand_over(many().chain(fails()), all);
    assert_eq!(taken.ok(), Some(10 * MOST_PIECES_KEPT));
    let mut calls = 0;
    let once = |given: &[&[u8]]| {
        calls += 1;
        if calls == 1 {
            all(given)
        } else {
            Err(SocketError::WouldBlock)
        }
    };
    let taken = hand_over(many().chain(many()), once);
    assert_eq!(taken.ok(), Some(10 * MOST_PIECES_KEPT));
    let never = |_: &[&[u8]]| Err(SocketError::WouldBlock);
    assert!(matches!(
        hand_over(many(), never),
        Err(SocketError::WouldBlock)
    ));
}

const LEAST: usize = LEAST_FORWARD as usize;

fn arrived(engine: &Engine, socket: &Socket, end: u64) {
    engine.wait_until("the bytes have come", |_| {
        socket.host().messages().drain_if_free();
        socket.receive_stream().received_end() >= end
    });
}

/// Takes at most `max` bytes, all that is given; what was seen of them.
fn keep(socket: &Socket, kept: &mut Option<KeptBytes>, max: usize) -> (Option<usize>, Vec<u8>) {
    let mut seen = Vec::new();
    let taken = socket.keeping().take(kept, max, |given| {
        let bytes = given.concat();
        seen.extend_from_slice(&bytes);
        Ok(bytes.len())
    });
    (taken.unwrap(), seen)
}

fn reported(socket: &Socket) -> u64 {
    socket.host().messages().flush().unwrap();
    socket.block().rcv.reported.load(Ordering::Relaxed)
}

#[test]
fn what_is_kept_is_read_and_the_engine_does_not_know() {
    let (engine, host, _directory) = forwarding_engine();
    let (a, b) = Engine::pair(host);
    let socket = b.socket();
    // The engine is to be told of each byte.
    socket
        .block()
        .unreported_limit
        .store(1 << 20, Ordering::Relaxed);
    let all = pattern(40_000);
    a.write_all(&all).unwrap();
    arrived(&engine, socket, 40_000);
    assert!(socket.keeping().is_possible());
    let mut kept = None;
    assert_eq!(keep(socket, &mut kept, LEAST - 1).0, None, "too few");
    assert!(kept.is_none() && socket.receive_stream().read_position() == 0);
    let (taken, seen) = keep(socket, &mut kept, 10_000);
    assert_eq!(taken, Some(10_000));
    assert!(seen == all[..10_000]);
    // What follows may be as little as there is.
    assert_eq!(keep(socket, &mut kept, 10).0, Some(10));
    let some = kept.as_ref().unwrap();
    assert_eq!((some.begin(), some.end(), some.len()), (0, 10_010, 10_010));
    assert!(!some.is_empty() && some.socket() == socket.id());
    assert_eq!(socket.receive_stream().read_position(), 10_010);
    assert!(host.held_sockets.keeps(socket.id().index));
    // Reading goes on behind it, and is not told of, for what is before is kept.
    let mut buf = [0; 90];
    assert_eq!(
        socket
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut buf)], false),
        Ok(90)
    );
    assert!(buf[..] == all[10_010..10_100]);
    assert_eq!(reported(socket), 0);
    // Nothing follows it any more.
    assert_eq!(keep(socket, &mut kept, 10_000).0, None);
    assert_eq!(keep(socket, &mut None, 10_000).0, None, "one at a time");
    let mut kept = kept.unwrap();
    socket.block().unreported_limit.store(1, Ordering::Relaxed);
    socket.keeping().give_back(&mut kept, 10_000).unwrap();
    assert_eq!((kept.begin(), kept.len()), (10_000, 10));
    assert_eq!(reported(socket), 10_000);
    socket.keeping().give_back(&mut kept, 100).unwrap();
    assert!(kept.is_empty() && !host.held_sockets.keeps(socket.id().index));
    assert!(host.kept.enter().unwrap().is_empty());
    assert_eq!(reported(socket), 10_100);
}

#[test]
fn what_is_not_taken_is_read_next() {
    let (engine, host, _directory) = forwarding_engine();
    let (a, b) = Engine::pair(host);
    let socket = b.socket();
    a.write_all(&pattern(20_000)).unwrap();
    arrived(&engine, socket, 20_000);
    let mut kept = None;
    let none = socket.keeping().take(&mut kept, 20_000, |_| Ok(0));
    assert_eq!((none, kept.is_none()), (Ok(Some(0)), true));
    let fails = socket
        .keeping()
        .take(&mut kept, 20_000, |_| Err(SocketError::WouldBlock));
    assert_eq!(fails, Err(SocketError::WouldBlock));
    assert!(kept.is_none() && !host.held_sockets.keeps(socket.id().index));
    socket.peek_offset().set(Some(6_000));
    let part = socket.keeping().take(&mut kept, 20_000, |_| Ok(5_000));
    assert_eq!(part, Ok(Some(5_000)));
    assert_eq!(
        socket.peek_offset().get(),
        Some(1_000),
        "it moves with what is read"
    );
    assert_eq!(socket.receive_stream().read_position(), 5_000);
    assert_eq!(
        kept.map(|kept| (kept.begin(), kept.end())),
        Some((0, 5_000))
    );
}

/// With more the window of the far end would be shut: half of what the engine holds.
#[test]
fn no_more_is_kept_than_half_of_what_is_held() {
    let (engine, host, _directory) = forwarding_engine();
    for (limit, reported, most) in [
        (40_000, 0, 20_000),
        (40_000, 3_000, 6_000),
        (10_000, 30_000, 5_000),
    ] {
        let (a, b) = Engine::pair(host);
        let socket = b.socket();
        a.write_all(&pattern(60_000)).unwrap();
        arrived(&engine, socket, 60_000);
        socket.block().rcv.limit.store(limit, Ordering::Relaxed);
        let unreported = &socket.block().unreported_limit;
        unreported.store(reported, Ordering::Relaxed);
        let mut kept = None;
        assert_eq!(keep(socket, &mut kept, 50_000).0, Some(most));
        assert_eq!(keep(socket, &mut kept, 50_000).0, None, "there is no room");
        let mut kept = kept.unwrap();
        socket.keeping().give_back(&mut kept, most).unwrap();
    }
}

static GIVEN_BACK: Mutex<Vec<SocketId>> = Mutex::new(Vec::new());

/// A reader that reads on finds no more in the stream than the window takes.
#[test]
fn what_is_kept_is_to_be_given_back_when_much_was_read_behind_it() {
    let (engine, _host, _directory) = forwarding_engine();
    let hooks = Hooks {
        give_back: |id| GIVEN_BACK.lock().unwrap().push(id),
        ..Hooks::default()
    };
    let host = Host::join(engine.path(), engine.token(), hooks).unwrap();
    let (a, b) = Engine::pair(host);
    let socket = b.socket();
    a.write_all(&pattern(60_000)).unwrap();
    arrived(&engine, socket, 60_000);
    socket.block().rcv.limit.store(40_000, Ordering::Relaxed);
    assert_eq!(socket.receive_stream().discard(100), Ok(100));
    let mut kept = None;
    assert_eq!(keep(socket, &mut kept, LEAST).0, Some(LEAST));
    // Half of what is held, from where it is kept on.
    assert_eq!(
        socket.receive_stream().discard(20_000 - LEAST),
        Ok(20_000 - LEAST)
    );
    assert_eq!(*GIVEN_BACK.lock().unwrap(), []);
    assert_eq!(socket.receive_stream().discard(1), Ok(1));
    assert_eq!(*GIVEN_BACK.lock().unwrap(), [socket.id()]);
    socket
        .keeping()
        .give_back(&mut kept.unwrap(), LEAST)
        .unwrap();
    assert_eq!(socket.receive_stream().discard(10_000), Ok(10_000));
    assert_eq!(GIVEN_BACK.lock().unwrap().len(), 1, "nothing is kept");
}

#[test]
fn bytes_are_kept_of_a_connection_that_is_this_processs_alone() {
    let (_engine, host, _directory) = forwarding_engine();
    let (a, _b) = Engine::pair(host);
    assert!(a.socket().keeping().is_possible());
    let reservation = host.reserve_channel().unwrap();
    assert!(!a.socket().keeping().is_possible(), "a child has it, too");
    reservation.release();
    assert!(a.socket().keeping().is_possible());
    let open = Engine::open(host, SocketKind::Stream);
    assert!(!open.keeping().is_possible());
    let directory = tempfile::tempdir().unwrap();
    let other = Engine::start(directory.path());
    let (c, _d) = Engine::pair(other.join());
    assert!(
        !c.socket().keeping().is_possible(),
        "its engine forwards nothing"
    );
}

#[test]
fn a_socket_that_is_closed_keeps_nothing() {
    let (engine, host, _directory) = forwarding_engine();
    let (a, b) = Engine::pair(host);
    a.write_all(&pattern(10_000)).unwrap();
    arrived(&engine, b.socket(), 10_000);
    let (mut kept, index) = (None, b.socket().id().index);
    assert_eq!(keep(b.socket(), &mut kept, 10_000).0, Some(10_000));
    drop((a, b));
    assert!(host.kept.enter().unwrap().is_empty() && !host.held_sockets.keeps(index));
    engine.wait_until("all is closed", |seen| {
        seen.open == 0 && seen.rcv_chunks == 0
    });
}

/// A far end that has acknowledged much by now makes room for what is sent at once.
#[test]
fn what_was_kept_is_sent_where_the_engine_has_told_of_room() {
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, b)): ((Stream, Stream), _) = (Engine::pair(host), Engine::pair(host));
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    a.write_all(&pattern(LEAST)).unwrap();
    arrived(&engine, near.socket(), LEAST as u64);
    let mut kept = None;
    assert_eq!(keep(near.socket(), &mut kept, LEAST).0, Some(LEAST));
    let mut kept = kept.unwrap();
    let mut forward = || {
        let forwarding = near.socket().forwarding(far.socket());
        forwarding.forward_kept(&mut kept, (LEAST, false), |_| Ok(()))
    };
    far.write_all(&[7; 2 * LEAST]).unwrap();
    let limit = &far.socket().block().snd.limit;
    limit.store(2 * LEAST as u32 + 100, Ordering::Relaxed);
    engine.wait_until("all has come to the far end", |seen| {
        host.messages().drain_if_free();
        seen.rcv_chunks == 2
    });
    // What is held back for now is to be fetched by an engine that is waited for.
    let edges = || {
        let (socket, block) = (far.socket(), far.socket().block());
        host.edges(block, socket.id(), EdgeFlags::MORE)
    };
    host.messages().report_written(&edges(), 0).unwrap();
    assert!(host.channel.holds());
    assert_eq!(forward(), Err(SocketError::WouldBlock));
    assert!(!host.channel.holds());
    holds.store(false, Ordering::Relaxed);
    engine.wait_until("it is acknowledged", |_| {
        host.session.has_completions(host.own_channel())
    });
    assert_eq!(far.socket().send_stream().unacked_bytes(), 2 * LEAST);
    assert_eq!(forward(), Ok(Forwarded::Bytes(LEAST)));
    assert!(read(&b, 3 * LEAST)[2 * LEAST..] == pattern(LEAST));
}

/// What was kept of one connection arrives at the far end of another, in its place among what is
/// written.
#[test]
fn what_was_kept_is_sent_by_another_connection() {
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, b)): ((Stream, Stream), _) = (Engine::pair(host), Engine::pair(host));
    let all = pattern(60_000);
    a.write_all(&all).unwrap();
    arrived(&engine, near.socket(), 60_000);
    let mut kept = None;
    assert_eq!(keep(near.socket(), &mut kept, 30_000).0, Some(30_000));
    let mut kept = kept.unwrap();
    far.write_all(b"head").unwrap();
    let mut taken = Vec::new();
    let mut forward = |kept: &mut KeptBytes, max| {
        let forwarding = near.socket().forwarding(far.socket());
        forwarding.forward_kept(kept, (max, false), |len| {
            taken.push(len);
            Ok(())
        })
    };
    let short = Ok(Forwarded::Copy(NotForwarded::Short));
    assert_eq!(forward(&mut kept, LEAST - 1), short);
    assert_eq!(forward(&mut kept, LEAST), Ok(Forwarded::Bytes(LEAST)));
    assert_eq!((kept.begin(), kept.len()), (LEAST as u64, 30_000 - LEAST));
    assert_eq!(reported(near.socket()), LEAST as u64);
    // With too little room it waits, or copies what fits.
    let limit = &far.socket().block().snd.limit;
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    let between = vec![b'x'; 20_000];
    far.write_all(&between).unwrap();
    let held = far.socket().send_stream().unacked_bytes() as u32;
    limit.store(held + 4_000, Ordering::Relaxed);
    assert_eq!(forward(&mut kept, 30_000), Err(SocketError::WouldBlock));
    limit.store(3 * (held + 4_000), Ordering::Relaxed);
    let rest = 30_000 - LEAST;
    let sent = match forward(&mut kept, 30_000) {
        Ok(Forwarded::Bytes(sent)) => sent,
        other => panic!("{other:?}"),
    };
    assert!(sent >= LEAST && sent <= rest);
    limit.store(0, Ordering::Relaxed);
    engine
        .behavior
        .holds_acknowledgments
        .store(false, Ordering::Relaxed);
    if sent < rest {
        assert_eq!(
            forward(&mut kept, 30_000),
            Ok(Forwarded::Bytes(rest - sent))
        );
    }
    assert!(kept.is_empty() && !host.held_sockets.keeps(near.socket().id().index));
    assert_eq!(taken.iter().sum::<usize>(), 30_000);
    far.write_all(b"tail").unwrap();
    let (mut got, mut buf) = (Vec::new(), vec![0; 50_000]);
    while got.len() < 50_008 {
        let read = b.read(&mut buf).unwrap();
        got.extend_from_slice(&buf[..read]);
    }
    let (first, second) = all[..30_000].split_at(LEAST);
    assert!(got == [b"head", first, &between, second, b"tail"].concat());
    drop((a, near, far, b));
    engine.wait_until("all memory is back", |seen| {
        assert_eq!(seen.bad, 0);
        seen.open == 0 && seen.rcv_chunks == 0
    });
}
