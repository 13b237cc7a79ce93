//! What connections may hold: with little memory left in their session, and by the buffers that
//! they were given.

use super::off_path::{GEOMETRY, accepted};
use super::single::Single;
use crate::session::SPARE_CHUNKS;
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags, Geometry, OptionName, SocketId};
use longshore_wire::tcp::TcpHeader;
use std::sync::atomic::Ordering;

/// A stack with so many chunks for what comes, and accepted connections.
fn connected(chunks: u32, count: u16) -> (Single, Vec<(TcpHeader, SocketId)>) {
    let geometry = Geometry {
        rcv_chunks: chunks,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    single.turn();
    let all = (0..count)
        .map(|number| {
            let next = single.connect(number);
            single.turn();
            (next, accepted(&mut single, listener, number.into()))
        })
        .collect();
    let read = u64::from(count) * ACCEPT_RECORD as u64;
    single.edges(listener, read, EdgeFlags::empty());
    single.turn();
    single.discard_completions();
    single.sent();
    (single, all)
}

fn comes(single: &mut Single, next: &TcpHeader, at: u32, len: usize) {
    let segment = TcpHeader {
        seq: next.seq.add(at),
        ..next.clone()
    };
    single.segment(&segment, &vec![7; len]);
}

/// With fewer chunks than a whole buffer could need, what leaves a hole is dropped; a peer that
/// sends what is next goes on, and when there is memory again so do the others.
#[test]
fn a_session_short_of_memory_takes_what_is_next() {
    let (mut single, all) = connected(SPARE_CHUNKS + 3, 4);
    let full = |single: &Single| single.dropped("arena_full");
    // Chunks that are in use, until there are fewer than are spared.
    let holders = &all[..3];
    for (next, _) in holders {
        comes(&mut single, next, 0, 100);
    }
    comes(&mut single, &holders[0].0, 70_000, 100);
    single.turn();
    let mut at = 100;
    while single.free_chunks() >= SPARE_CHUNKS {
        comes(&mut single, &holders[0].0, at, 1_000);
        single.turn();
        at += 1_000;
        assert!(at < 50_000, "{}", single.free_chunks());
    }
    let (next, socket) = &all[3];
    single.sent();
    let before = full(&single);
    comes(&mut single, next, 3_000, 10);
    single.turn();
    assert_eq!(full(&single) - before, 1);
    // The next byte is taken.
    comes(&mut single, next, 0, 10);
    single.turn();
    assert_eq!(full(&single) - before, 1);
    assert_eq!(
        single.told_of(*socket).map(|reported| reported.rcv_edge),
        Some(10)
    );
    // And the next hole is as before.
    comes(&mut single, next, 3_000, 10);
    single.turn();
    assert_eq!(full(&single) - before, 2);
    for (_, socket) in holders {
        let read = if *socket == holders[0].1 {
            u64::from(at)
        } else {
            100
        };
        single.edges(*socket, read, EdgeFlags::empty());
    }
    single.turn();
    single.turn();
    assert!(single.free_chunks() >= SPARE_CHUNKS);
    let before = full(&single);
    comes(&mut single, next, 3_000, 10);
    single.turn();
    assert_eq!(full(&single), before);
}

/// A host says what it has read by a quarter of a small receive buffer, and as ever of a usual one.
#[test]
fn a_small_receive_buffer_is_to_be_told_of_sooner() {
    let (mut single, all) = connected(GEOMETRY.rcv_chunks, 1);
    let socket = all[0].1;
    let limit = |single: &Single| {
        let block = single.arena.block(socket.index);
        block.unreported_limit.load(Ordering::Relaxed)
    };
    assert_eq!(limit(&single), 0);
    for (size, expected) in [(8_000, 2_000), (4_003, 1_000), (1 << 20, 0), (8_000, 2_000)] {
        single.set(socket, OptionName::ReceiveBuffer, size);
        assert_eq!(limit(&single), expected, "{size}");
    }
    let usual = u64::from(longshore_hostif::RECEIVE_BUFFER);
    single.set(socket, OptionName::ReceiveBuffer, usual);
    assert_eq!(limit(&single), 0);
    single.set(socket, OptionName::ReceiveBuffer, usual - 1);
    assert_eq!(limit(&single), (usual as u32 - 1) / 4);
}
