//! The chunks of send streams that a host says it has: what it says is checked.

use super::*;
use crate::abi::{Geometry, OpenFlags, SocketKind};
use crate::adapter::AdapterSession;
use crate::adapter::session::small;
use crate::chunk_of;
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
    let session = small();
    let all = session.send_slab().free();
    let id = writer(&session, CHUNK + 1);
    assert_eq!(session.send_slab().free(), all - 2);
    // It has written more than the adapter is done with.
    assert_eq!(session.send_slab().take_chunks(id.index, CHUNK as u64), 0);
    assert_eq!(session.send_slab().free(), all - 2);
    assert_eq!(
        session.send_slab().take_chunks(id.index, CHUNK as u64 + 1),
        2
    );
    assert_eq!(session.send_slab().free(), all);
    // They are not its own any more, and not given back twice.
    session.send_slab().release_chunks(id);
    assert_eq!(
        session.send_slab().take_chunks(id.index, CHUNK as u64 + 1),
        0
    );
    assert_eq!(
        (session.send_slab().free(), session.meter.bad_descriptors()),
        (all, 0)
    );
}

#[test]
fn chunks_are_given_back_with_a_closed_socket_as_far_as_there_are_any() {
    let session = small();
    let all = session.send_slab().free();
    let id = writer(&session, 2 * CHUNK);
    session.send_slab().release_chunks(id);
    assert_eq!(
        (session.send_slab().free(), session.meter.bad_descriptors()),
        (all, 0)
    );
    // One whose directory names no chunk of the slab.
    let id = writer(&session, 1);
    let arena = Arc::clone(session.arena());
    let entry = arena.snd_directory(id.index).entry(0);
    entry.store(1000, Ordering::Release);
    session.send_slab().release_chunks(id);
    assert_eq!(session.meter.bad_descriptors(), 1);
    assert_eq!(session.send_slab().take_chunks(id.index, 1), 1);
    assert_eq!(session.meter.bad_descriptors(), 2);
}

/// A host may say of any edge that it is done with, and of any that it has written.
#[test]
fn no_more_chunks_are_taken_back_than_a_directory_has() {
    let chunks = DIRECTORY as u64;
    for (last, counted, bad) in [(chunks - 1, DIRECTORY as u32, 0), (chunks, 0, 1)] {
        let session = roomy();
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
        assert_eq!(session.send_slab().take_chunks(id.index, edge), counted);
        assert_eq!(session.meter.bad_descriptors(), bad);
    }
    let session = small();
    let id = writer(&session, 1);
    let arena = Arc::clone(session.arena());
    for number in 0..chunks {
        let entry = arena.snd_directory(id.index).entry(number);
        entry.store(1000, Ordering::Release);
    }
    let edge = &arena.block(id.index).snd.edge;
    edge.store(u64::MAX, Ordering::Release);
    session.send_slab().release_chunks(id);
    assert_eq!(
        session.meter.bad_descriptors(),
        chunks,
        "each was looked at once"
    );
}

/// A stream that has its chunks from somewhere on, to just where one ends.
#[test]
fn chunks_are_those_in_which_the_stream_lies() {
    for closed in [false, true] {
        for first in [0, 2, 200] {
            let session = small();
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
            snd.returned
                .store(first * CHUNK as u64 + 10, Ordering::Relaxed);
            snd.edge.store(edge, Ordering::Relaxed);
            if closed {
                session.send_slab().release_chunks(id);
            } else {
                assert_eq!(session.send_slab().take_chunks(id.index, edge), 2);
            }
            assert_eq!(session.send_slab().free(), Geometry::SMALL.snd_chunks);
            assert_eq!(session.meter.bad_descriptors(), 0);
        }
    }
}

#[test]
fn chunks_of_either_slab_are_warm_until_they_are_cooled() {
    let mut session = small();
    assert!(!session.has_warm_chunks() && session.send_slab().warm(9) == 0);
    let chunks = [(); 2].map(|()| session.arena.take_snd_chunk().unwrap().unwrap());
    for chunk in chunks {
        assert_eq!(chunk_of(chunk), chunk);
        session.arena.give_snd_chunk(chunk).unwrap();
    }
    assert!(session.has_warm_chunks());
    assert_eq!(
        (session.send_slab().warm(9), session.send_slab().warm(1)),
        (2, 1)
    );
    for left in [1, 0] {
        assert!(session.send_slab().cool().unwrap());
        assert_eq!(session.send_slab().warm(9), left);
    }
    assert!(!session.send_slab().cool().unwrap() && !session.has_warm_chunks());
    let chunk = session.receive.take().unwrap();
    session.receive.give_back(chunk);
    assert!(session.has_warm_chunks());
}
