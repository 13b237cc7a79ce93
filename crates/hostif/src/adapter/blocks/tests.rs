//! Blocks that are taken for connections and given back, and the chunks of send streams that a
//! host says it has: what it says is checked.

use super::*;
use crate::abi::{Address, Geometry, OpenFlags, SocketKind};
use crate::adapter::session::small;
use crate::host::HostSession;
use longshore_ring::EventfdSignaler;
use std::sync::Arc;

/// Sessions whose send slab has more chunks than a stream.
fn roomy() -> AdapterSession {
    let geometry = Geometry {
        snd_chunks: DIRECTORY as u32 + 2,
        ..Geometry::SMALL
    };
    AdapterSession::create(geometry, Arc::new(EventfdSignaler::for_one())).unwrap()
}

fn record(socket: SocketId) -> AcceptRecord {
    AcceptRecord {
        socket,
        local: Address::NONE,
        peer: Address::NONE,
        send_limit: 5000,
        subscriber: None,
    }
}

/// Bytes of words that were written so far.
fn written(session: &AdapterSession) -> u64 {
    session.crossings().to_host.control.bytes
}

#[test]
fn a_block_that_a_program_gave_back_while_it_is_used_is_not_taken() {
    let mut session = small();
    let first = session.take_block(|_| false).unwrap();
    assert_eq!(session.bad_descriptors, 0);
    assert_eq!(session.take_block(|_| true), None);
    assert_eq!(session.bad_descriptors, 1);
    let next = session.take_block(|index| index == first.index).unwrap();
    assert_ne!(next.index, first.index);
}

/// It means nothing to a host that has not accepted it, but for its next use.
#[test]
fn a_block_that_nobody_has_begun_is_passed_over() {
    let mut session = small();
    let id = session.take_block(|_| false).unwrap();
    assert!(session.begun(id).is_none());
    session.set_error(id, 104, 1);
    assert!(!session.has_error(id) && session.edges_noted(id).is_none());
    let before = written(&session);
    session.give_block_back(id);
    assert_eq!(written(&session), before + 8);
    let again = session.take_block(|_| false).unwrap();
    let generation = id.generation.wrapping_add(1);
    assert_eq!((again.index, again.generation), (id.index, generation));
}

#[test]
fn a_block_within_the_engine_is_begun_and_free_when_it_is_given_back() {
    let mut session = small();
    let id = session.take_block(|_| false).unwrap();
    let before = written(&session);
    session.begin_block(BlockFlags::IPV6, &record(id));
    assert_eq!(written(&session), before + size_of::<SocketBlock>() as u64);
    let arena = Arc::clone(session.arena());
    let block = arena.block(id.index);
    assert!(block.is(id) && block.snd_limit() == 5000);
    assert_eq!(session.edges_noted(id), Some((0, 0)));
    session.set_error(id, 104, 3);
    assert!(session.has_error(id));
    assert_eq!(block.errors.load(Ordering::Relaxed), 3);
    assert_eq!(block.take_errno(), 104);
    let before = written(&session);
    session.give_block_back(id);
    assert_eq!(written(&session), before + 4);
    assert!(!block.is_in_use());
    assert_eq!(session.bad_descriptors, 0);
    // Once more is once too often: the list of free ones would have it twice.
    let before = written(&session);
    session.give_block_back(id);
    assert_eq!(written(&session), before, "it says so already");
}

#[test]
fn what_a_host_is_told_in_a_block_is_written_once_and_counted() {
    let mut session = small();
    let id = session.take_block(|_| false).unwrap();
    session.begin_block(BlockFlags::empty(), &record(id));
    let arena = Arc::clone(session.arena());
    let block = arena.block(id.index);
    let crossed = |session: &AdapterSession, tell: &dyn Fn(&AdapterSession)| {
        let before = written(session);
        tell(session);
        written(session) - before
    };
    for waits in [true, false] {
        for bytes in [4, 0] {
            let told = crossed(&session, &|s| s.mark_waiting(id.index, waits));
            assert_eq!(told, bytes);
            assert_eq!(block.flags().contains(BlockFlags::HAS_ENTERING), waits);
        }
    }
    for bytes in [4, 0] {
        let told = crossed(&session, &|s| s.set_unreported_limit(id, 700));
        assert_eq!(told, bytes);
        assert_eq!(block.unreported_limit.load(Ordering::Relaxed), 700);
    }
    assert_eq!(crossed(&session, &|s| s.set_other_end(id.index, 9)), 4);
    assert_eq!(block.other_end(), Some(9));
    // What the program has set stays.
    assert_eq!(
        crossed(&session, &|s| s.suggest_send_limit(id.index, 9000)),
        0
    );
    assert_eq!(block.snd_limit(), 5000);
    assert_eq!(crossed(&session, &|s| s.set_send_limit(id.index, 0)), 4);
    assert_eq!(
        crossed(&session, &|s| s.suggest_send_limit(id.index, 9000)),
        4
    );
    assert_eq!(block.snd_limit(), 9000);
    assert_eq!(crossed(&session, &|s| s.set_error_reports(id, 2)), 4);
    assert_eq!(crossed(&session, &|s| s.forget_error_reports(id.index)), 4);
    assert_eq!(block.errors.load(Ordering::Relaxed), 0);
    // A writer that was held up by its mark of 100 bytes may go on once, when it has gone by.
    for (sent, goes_on, bytes) in [(0, false, 0), (40, false, 8), (60, true, 8), (60, false, 0)] {
        let before = written(&session);
        assert_eq!(session.note_sent(id, 100, sent, 100), goes_on, "{sent}");
        assert_eq!(written(&session) - before, bytes, "{sent}");
    }
    assert!(session.has_block(63) && !session.has_block(64));
}

#[test]
fn a_long_answer_is_cut_off_and_what_was_written_is_counted() {
    let session = small();
    let before = written(&session);
    assert_eq!(session.write_mailbox(0, &[1; 5]), 5);
    assert_eq!(written(&session), before + 5);
    let most = crate::abi::MAILBOX_BYTES;
    assert_eq!(session.write_mailbox(0, &[1; 100_000]), most);
}

/// A socket whose host has written so much, in chunks that it has taken.
fn writer(session: &AdapterSession, bytes: usize) -> SocketId {
    let host = HostSession::of(session.arena());
    let opened = host.open_block(0, SocketKind::Stream, OpenFlags::empty());
    let id = opened.unwrap().unwrap();
    let block = host.get_block(id.index).unwrap();
    block.snd.limit.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(host.append(id.index, &vec![1; bytes]).unwrap(), bytes);
    id
}

#[test]
fn chunks_of_a_send_stream_are_taken_back_when_nothing_is_owed_to_its_host() {
    let mut session = small();
    let all = session.free_send_chunks();
    let id = writer(&session, CHUNK + 1);
    assert_eq!(session.free_send_chunks(), all - 2);
    // It has written more than the adapter is done with.
    assert_eq!(session.take_send_chunks(id.index, CHUNK as u64), 0);
    assert_eq!(session.free_send_chunks(), all - 2);
    assert_eq!(session.take_send_chunks(id.index, CHUNK as u64 + 1), 2);
    assert_eq!(session.free_send_chunks(), all);
    // They are not its own any more, and not given back twice.
    session.release_send_chunks(id);
    assert_eq!(session.take_send_chunks(id.index, CHUNK as u64 + 1), 0);
    assert_eq!(
        (session.free_send_chunks(), session.bad_descriptors),
        (all, 0)
    );
}

#[test]
fn chunks_are_given_back_with_a_closed_socket_as_far_as_there_are_any() {
    let mut session = small();
    let all = session.free_send_chunks();
    let id = writer(&session, 2 * CHUNK);
    session.release_send_chunks(id);
    assert_eq!(
        (session.free_send_chunks(), session.bad_descriptors),
        (all, 0)
    );
    // One whose directory names no chunk of the slab.
    let id = writer(&session, 1);
    let arena = Arc::clone(session.arena());
    let entry = arena.snd_directory(id.index).entry(0);
    entry.store(1000, Ordering::Release);
    session.release_send_chunks(id);
    assert_eq!(session.bad_descriptors, 1);
    assert_eq!(session.take_send_chunks(id.index, 1), 1);
    assert_eq!(session.bad_descriptors, 2);
}

/// A host may say of any edge that it is done with, and of any that it has written.
#[test]
fn no_more_chunks_are_taken_back_than_a_directory_has() {
    let chunks = DIRECTORY as u64;
    for (last, counted, bad) in [(chunks - 1, DIRECTORY as u32, 0), (chunks, 0, 1)] {
        let mut session = roomy();
        let id = writer(&session, 1);
        let arena = Arc::clone(session.arena());
        for number in 0..chunks {
            let chunk = match number {
                0 => continue,
                _ => arena.take_snd_chunk().unwrap().unwrap(),
            };
            let entry = arena.snd_directory(id.index).entry(number);
            entry.store(chunk, Ordering::Release);
        }
        let edge = last * CHUNK as u64 + 1;
        arena
            .block(id.index)
            .snd
            .edge
            .store(edge, Ordering::Release);
        assert_eq!(session.take_send_chunks(id.index, edge), counted);
        assert_eq!(session.bad_descriptors, bad);
    }
    let mut session = roomy();
    let id = writer(&session, 1);
    let arena = Arc::clone(session.arena());
    for number in 0..chunks {
        let entry = arena.snd_directory(id.index).entry(number);
        entry.store(1000, Ordering::Release);
    }
    let edge = &arena.block(id.index).snd.edge;
    edge.store(u64::MAX, Ordering::Release);
    session.release_send_chunks(id);
    assert_eq!(session.bad_descriptors, chunks, "each was looked at once");
}

/// A stream that has its chunks from somewhere on, to just where one ends.
#[test]
fn chunks_are_those_in_which_the_stream_lies() {
    for closed in [false, true] {
        for first in [0, 2, 200] {
            let mut session = small();
            let host = HostSession::of(session.arena());
            let opened = host.open_block(0, SocketKind::Stream, OpenFlags::empty());
            let id = opened.unwrap().unwrap();
            let arena = Arc::clone(session.arena());
            let directory = arena.snd_directory(id.index);
            // What lies beside them is none.
            for number in 0..DIRECTORY as u64 {
                directory.entry(number).store(99, Ordering::Relaxed);
            }
            for number in first..first + 2 {
                let chunk = arena.take_snd_chunk().unwrap().unwrap();
                directory.entry(number).store(chunk, Ordering::Relaxed);
            }
            let snd = &arena.block(id.index).snd;
            let edge = (first + 2) * CHUNK as u64;
            snd.told.store(first * CHUNK as u64 + 10, Ordering::Relaxed);
            snd.edge.store(edge, Ordering::Relaxed);
            if closed {
                session.release_send_chunks(id);
            } else {
                assert_eq!(session.take_send_chunks(id.index, edge), 2);
            }
            assert_eq!(session.free_send_chunks(), Geometry::SMALL.snd_chunks);
            assert_eq!(session.bad_descriptors, 0);
        }
    }
}
