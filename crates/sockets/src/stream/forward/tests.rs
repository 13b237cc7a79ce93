//! What one connection has received, sent by another.

use super::*;
use crate::host::LISTED;
use crate::testing::Engine;
use crate::testing::fixture::{
    forwarding_engine, forwarding_engine_without_own, pattern, read, requested,
};
use longshore_hostif::{CHUNK, SocketKind, chunk_of};

const LEAST: usize = LEAST_FORWARD as usize;

fn arrived(engine: &Engine, socket: &Socket, len: usize) {
    engine.wait_until("the bytes have come", |_| {
        socket.host().messages().drain_if_free();
        socket.receive_stream().readable_bytes() >= len
    });
}

/// By whatever lengths, and wherever chunks begin: nothing is lost, changed or sent twice.
#[test]
fn forwarded_bytes_arrive_in_their_place() {
    let (engine, host, _directory) = forwarding_engine();
    for (before, max) in [
        (0, 100_000),
        (3, LEAST),
        (CHUNK - 1, 30_000),
        (CHUNK, LEAST + 1),
    ] {
        let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
        let (all, head) = (pattern(100_000), pattern(before));
        a.write_all(&all).unwrap();
        arrived(&engine, near.socket(), all.len());
        far.write_all(&head).unwrap();
        let mut moved = 0;
        while all.len() - moved >= LEAST {
            let then = near.socket().forwarding(far.socket()).forward(max, false);
            let most = max.min(all.len() - moved);
            assert_eq!(then, Ok(Forwarded::Bytes(most)), "{moved}");
            moved += most;
            assert_eq!(near.socket().receive_stream().read_position(), moved as u64);
            let reported = &near.socket().block().rcv.reported;
            assert_eq!(reported.load(Ordering::Relaxed), moved as u64);
        }
        let left = all.len() - moved;
        if left != 0 {
            let short = near.socket().forwarding(far.socket()).forward(max, false);
            assert_eq!(short, Ok(Forwarded::Copy(NotForwarded::Short)));
            assert_eq!(
                near.socket().forwarding(far.socket()).copy(max, false),
                Ok(left)
            );
        }
        far.write_all(b"tail").unwrap();
        let got = read(&b, before + all.len() + 4);
        assert!(got == [&head[..], &all, b"tail"].concat(), "{before} {max}");
    }
    engine.wait_until("all memory is back", |seen| {
        assert_eq!(seen.bad, 0);
        seen.open == 0 && seen.rcv_chunks == 0
    });
}

#[test]
fn a_stream_that_has_ended_forwards_nothing() {
    let (_engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, _b)) = (Engine::pair(host), Engine::pair(host));
    let forward = || near.socket().forwarding(far.socket()).forward(100, false);
    assert_eq!(forward(), Err(SocketError::WouldBlock));
    let copy = || near.socket().forwarding(far.socket()).copy(100, false);
    assert_eq!(copy(), Err(SocketError::WouldBlock));
    a.finish().unwrap();
    assert_eq!(near.read(&mut [0; 1]), Ok(0));
    assert_eq!((forward(), copy()), (Ok(Forwarded::Bytes(0)), Ok(0)));
}

#[test]
fn too_few_bytes_are_copied() {
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
    let all = pattern(3 * LEAST);
    a.write_all(&all).unwrap();
    arrived(&engine, near.socket(), all.len());
    let short = Ok(Forwarded::Copy(NotForwarded::Short));
    let forward = |max| near.socket().forwarding(far.socket()).forward(max, false);
    assert_eq!(forward(LEAST - 1), short);
    // There is too little room for more.
    let limit = &far.socket().block().snd.limit;
    limit.store(LEAST as u32 - 1, Ordering::Relaxed);
    assert_eq!(forward(2 * LEAST), short);
    assert_eq!(near.socket().receive_stream().read_position(), 0);
    limit.store(LEAST as u32, Ordering::Relaxed);
    near.socket().peek_offset().set(Some(5_000));
    let before = requested(host);
    assert_eq!(forward(2 * LEAST), Ok(Forwarded::Bytes(LEAST)));
    assert_eq!(requested(host), before + 1, "the engine may fetch it");
    let moved_back = near.socket().peek_offset().get();
    assert_eq!(moved_back, Some(5_000 - LEAST as u32));
    limit.store(0, Ordering::Relaxed);
    let copied = near.socket().forwarding(far.socket()).copy(LEAST + 7, true);
    assert_eq!(copied, Ok(LEAST + 7));
    assert_eq!(near.socket().peek_offset().get(), Some(0));
    far.write_all(b"").unwrap();
    assert_eq!(
        near.socket()
            .forwarding(far.socket())
            .copy(usize::MAX, false),
        Ok(LEAST - 7)
    );
    assert!(read(&b, all.len()) == all);
}

#[test]
fn what_is_copied_may_lie_in_several_chunks() {
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
    let all = pattern(2 * CHUNK);
    for begin in [0, 100] {
        a.write_all(&all[begin..]).unwrap();
        arrived(&engine, near.socket(), all.len() - begin);
        let copied = near
            .socket()
            .forwarding(far.socket())
            .copy(usize::MAX, false);
        assert_eq!(copied, Ok(all.len() - begin));
        assert!(read(&b, all.len() - begin) == all[begin..]);
    }
}

#[test]
fn what_cannot_be_forwarded_says_why() {
    use NotForwarded::*;
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, _b)) = (Engine::pair(host), Engine::pair(host));
    let (near, far) = (near.socket(), far.socket());
    assert_eq!(near.forwarding(far).check(), Ok(()));
    assert_eq!(near.forwarding(near).check(), Err(Unsupported));
    let second = engine.join();
    let (other, _c) = Engine::pair(second);
    assert_eq!(near.forwarding(other.socket()).check(), Err(Unsupported));
    let open = Engine::open(host, SocketKind::Stream);
    assert_eq!(near.forwarding(&open).check(), Err(Kind));
    assert_eq!(open.forwarding(far).check(), Err(Kind));
    let reservation = host.reserve_channel().unwrap();
    assert_eq!(near.forwarding(far).check(), Err(Shared));
    reservation.leave_out(far.id());
    assert_eq!(near.forwarding(far).check(), Err(Shared));
    reservation.leave_out(near.id());
    assert_eq!(near.forwarding(far).check(), Ok(()));
    reservation.release();
    let kept = near.forwarding(&open).forward(10_000, false);
    assert_eq!(kept, Ok(Forwarded::Copy(Kind)));
    // What came before was read and is kept where it lies.
    a.write_all(&pattern(10_000)).unwrap();
    arrived(&engine, near, 10_000);
    let mut kept = None;
    let taken = near
        .keeping()
        .take(&mut kept, LEAST, |given| Ok(given.concat().len()));
    assert_eq!(taken, Ok(Some(LEAST)));
    let then = near.forwarding(far).forward(10_000, false);
    assert_eq!(then, Ok(Forwarded::Copy(Kept)));
    near.keeping().give_back(&mut kept.unwrap(), LEAST).unwrap();
    let then = near.forwarding(far).forward(10_000, false);
    assert_eq!(then, Ok(Forwarded::Bytes(10_000 - LEAST)));
}

#[test]
fn an_engine_that_forwards_nothing_has_all_copied() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let ((_a, near), (far, _b)) = (Engine::pair(host), Engine::pair(host));
    let then = near
        .socket()
        .forwarding(far.socket())
        .forward(10_000, false);
    assert_eq!(then, Ok(Forwarded::Copy(NotForwarded::Unsupported)));
}

/// A process that has died in the midst of a call has named ranges behind the edge: they are none
/// of what is written there next.
#[test]
fn ranges_that_were_not_sent_are_forgotten_by_the_next_write() {
    let (engine, host, _directory) = forwarding_engine();
    let (a, near) = Engine::pair(host);
    a.write_all(&pattern(LEAST)).unwrap();
    arrived(&engine, near.socket(), LEAST);
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    for is_prepared in [false, true] {
        let (far, b) = Engine::pair(host);
        far.write_all(b"head").unwrap();
        let stream = far.socket().send_stream();
        let mut prepared = stream.prepare(4).unwrap();
        let ranges = host.session.ranges(far.socket().id().index);
        let source = (near.socket().id().index, 0);
        let written = ranges.write_forwarded(4, source, LEAST);
        assert_eq!(written, Ok(Some(0)));
        let has_ranges = || chunk_of(stream.chunk(0)) != stream.chunk(0);
        assert!(has_ranges());
        if is_prepared {
            prepared
                .pieces()
                .for_each(|piece| piece.unwrap().fill(b'p'));
            prepared.append(4, false).unwrap();
        } else {
            drop(prepared);
            far.write_all(b"pppp").unwrap();
        }
        assert!(!has_ranges(), "prepared: {is_prepared}");
        assert_eq!(read(&b, 8), b"headpppp");
    }
}

/// The other end of either is a socket of the same session.
#[test]
fn a_connection_within_the_session_forwards_if_the_engine_takes_that() {
    for (takes_own, (engine, host, _directory)) in [
        (true, forwarding_engine()),
        (false, forwarding_engine_without_own()),
    ] {
        let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
        let (near, far) = (near.socket(), far.socket());
        assert_eq!(near.forwarding(far).check(), Ok(()));
        assert!(near.keeping().is_possible());
        near.block().set_other_end(far.id().index);
        let expected = if takes_own {
            Ok(())
        } else {
            Err(NotForwarded::Kind)
        };
        assert_eq!(near.forwarding(far).check(), expected);
        assert_eq!(far.forwarding(near).check(), expected);
        assert_eq!(near.keeping().is_possible(), takes_own);
        if takes_own {
            // Its other end, which this process has, too, is to show what was forwarded.
            near.block().set_other_end(a.socket().id().index);
            far.block().set_other_end(b.socket().id().index);
            a.write_all(&pattern(LEAST)).unwrap();
            arrived(&engine, near, LEAST);
            host.in_flight.take_done_to_own();
            let then = near.forwarding(far).forward(LEAST, false);
            assert_eq!(then, Ok(Forwarded::Bytes(LEAST)));
            assert!(host.in_flight.take_done_to_own());
        }
    }
}

/// The send stream names where the bytes lie, and the engine is told how far its socket was read.
#[test]
fn what_is_forwarded_is_named_and_tells_what_was_read() {
    let (engine, host, _directory) = forwarding_engine();
    let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
    a.write_all(&pattern(2 * LEAST)).unwrap();
    b.write_all(b"some").unwrap();
    arrived(&engine, near.socket(), 2 * LEAST);
    arrived(&engine, far.socket(), 4);
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    assert_eq!(far.read(&mut [0; 3]), Ok(3));
    let forwarding = near.socket().forwarding(far.socket());
    assert_eq!(
        forwarding.forward(LEAST, false),
        Ok(Forwarded::Bytes(LEAST))
    );
    // What is waited for before another process gets one of the two.
    let id = far.socket().id();
    assert_eq!(host.in_flight.take_forwarded(), Some(id));
    let first = far.socket().send_stream().chunk(0);
    assert_ne!(chunk_of(first), first);
    let reported = &far.socket().block().rcv.reported;
    assert_eq!(reported.load(Ordering::Relaxed), 3);
    // What was read behind what is kept is told when that was sent.
    let (mut kept, all) = (None, |given: &[&[u8]]| Ok(given.concat().len()));
    let taken = near.socket().keeping().take(&mut kept, LEAST, all);
    assert_eq!(taken, Ok(Some(LEAST)));
    host.messages().flush().unwrap();
    let index = near.socket().id().index;
    assert!(!host.held_sockets.is_marked(index, LISTED));
    let sent = forwarding.forward_kept(&mut kept.unwrap(), (LEAST, false), |_| Ok(()));
    assert_eq!(sent, Ok(Forwarded::Bytes(LEAST)));
    assert!(host.held_sockets.is_marked(index, LISTED));
}
