//! What connections may hold: with little memory left in their session, and by the buffers that
//! they were given.

use super::off_path::{GEOMETRY, accepted};
use super::single::Single;
use crate::session::{KEPT_CHUNKS, SPARE_CHUNKS};
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags, Geometry, OptionName, SocketId};
use longshore_wire::tcp::{TcpHeader, TcpOptions};
use std::sync::atomic::Ordering;

/// A stack with so many chunks for what comes, and accepted connections with scaled windows.
fn connected(chunks: u32, count: u16) -> (Single, Vec<(TcpHeader, SocketId)>) {
    let options = TcpOptions {
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    connected_with(chunks, count, options)
}

/// A stack with so many chunks for what comes, and accepted connections whose SYNs had these
/// options.
fn connected_with(
    chunks: u32,
    count: u16,
    options: TcpOptions,
) -> (Single, Vec<(TcpHeader, SocketId)>) {
    let geometry = Geometry {
        rcv_chunks: chunks,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    single.turn();
    let all = (0..count)
        .map(|number| {
            let next = single.connect_with(number, options);
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

/// What a connection was told last: of its window the field.
fn window(single: &mut Single, next: &TcpHeader) -> u16 {
    let mut sent = single.sent().into_iter();
    let last = sent.rfind(|h| h.dst_port == next.src_port);
    last.expect("an acknowledgment").window
}

/// Bytes that a host may have read before it says so; 0 as ever.
fn unreported_limit(single: &Single, socket: SocketId) -> u32 {
    let block = single.arena.block(socket.index);
    block.unreported_limit.load(Ordering::Relaxed)
}

/// A connection of which much is unread has as many chunks, sent in pieces of so many bytes.
fn fill(single: &mut Single, next: &TcpHeader, bytes: u32) {
    const PIECE: u32 = 4_000;
    for at in (0..bytes).step_by(PIECE as usize) {
        comes(single, next, at, PIECE.min(bytes - at) as usize);
        single.turn();
    }
}

/// With fewer chunks than a whole buffer could need, windows are closed to those of whom much is
/// unread, and nothing of what was on its way is dropped; who reads is told of a window again.
#[test]
fn a_session_short_of_memory_narrows_windows_first() {
    const MUCH: u32 = 260_000;
    let (mut single, all) = connected(SPARE_CHUNKS + 3, 2);
    let ((next, socket), (other, _)) = (&all[0], &all[1]);
    single.set(*socket, OptionName::ReceiveBuffer, 1 << 20);
    single.turn();
    fill(&mut single, next, 8_000);
    assert!(window(&mut single, next) > 0);
    assert_eq!(single.stack.counters.tcp.windows_narrowed, 0);
    for at in (8_000..MUCH).step_by(4_000) {
        comes(&mut single, next, at, 4_000);
        single.turn();
    }
    let edge = |single: &mut Single| single.told_of(*socket).map_or(0, |told| told.rcv_edge);
    let came = edge(&mut single);
    assert_eq!(came, u64::from(MUCH));
    assert_eq!(single.dropped("arena_full"), 0);
    assert_eq!(window(&mut single, next), 0);
    assert_eq!(single.stack.counters.tcp.windows_narrowed, 1);
    // Its host is to say what is read before the peer has filled the window.
    assert_eq!(unreported_limit(&single, *socket), 16 * 1024);
    // The neighbour of which nothing is unread has a window.
    comes(&mut single, other, 0, 100);
    single.turn();
    assert!(window(&mut single, other) > 0);
    assert_eq!(single.stack.counters.tcp.windows_narrowed, 2);
    // Less than a chunk is left to be read: the window opens, though memory is short.
    single.edges(*socket, came - 10_000, EdgeFlags::empty());
    single.turn();
    assert!(window(&mut single, next) > 0);
    single.turn();
}

/// When what is kept for others is all that is left, those with much unread are denied more, and
/// once somebody has read enough all have what their buffers allow.
#[test]
fn what_is_kept_for_readers_is_denied_to_others() {
    const MUCH: u32 = 72_000;
    const COUNT: u16 = 210;
    let (mut single, all) = connected(SPARE_CHUNKS + u32::from(COUNT), COUNT);
    // They are told of a window while there is memory.
    for (next, socket) in &all {
        single.set(*socket, OptionName::ReceiveBuffer, 1 << 20);
        fill(&mut single, next, 8_000);
    }
    let (reader, others) = all.split_first().unwrap();
    let mut full = Vec::new();
    for (next, socket) in others {
        fill(&mut single, next, MUCH);
        single.discard_completions();
        if single.dropped("arena_full") > 0 {
            break;
        }
        full.push(*socket);
    }
    let (last, _) = &others[full.len()];
    let free = single.free_chunks();
    assert!((KEPT_CHUNKS - 2..KEPT_CHUNKS).contains(&free), "{free}");
    assert_eq!(window(&mut single, last), 0);
    let denied = single.dropped("arena_full");
    // One of whom less than a chunk is unread has its next byte.
    fill(&mut single, &reader.0, 20_000);
    assert!(window(&mut single, &reader.0) > 0);
    assert_eq!(single.dropped("arena_full"), denied);
    // There is more than what is kept: there is a little for all.
    single.edges(full[0], MUCH.into(), EdgeFlags::empty());
    single.turn();
    single.turn();
    assert!(single.free_chunks() > KEPT_CHUNKS);
    fill(&mut single, last, MUCH);
    assert_eq!(single.dropped("arena_full"), denied);
    assert_eq!(window(&mut single, last), 0);
    // There is memory again, and all are told, a few in a turn.
    for socket in &full[1..] {
        single.edges(*socket, MUCH.into(), EdgeFlags::empty());
    }
    for _ in 0..20 {
        single.turn();
    }
    assert!(single.free_chunks() >= SPARE_CHUNKS);
    assert_eq!(single.dropped("arena_full"), denied);
    let told = single.sent();
    for (next, _) in others.iter().take(full.len()) {
        let told = told.iter().rfind(|h| h.dst_port == next.src_port);
        assert!(told.is_some_and(|h| h.window > 0));
    }
    assert!(single.stack.endpoints.sockets.short_of_memory.is_empty());
    assert_eq!(unreported_limit(&single, full[1]), 0);
}

/// A host says what it has read by a quarter of the widest window, if that is smaller than the
/// usual receive buffer, and as ever otherwise.
#[test]
fn a_small_window_is_to_be_told_of_sooner() {
    let (mut single, all) = connected(GEOMETRY.rcv_chunks, 1);
    let socket = all[0].1;
    let limit = |single: &Single| unreported_limit(single, socket);
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
    single.set(socket, OptionName::ReceiveBuffer, usual);
    single.set(socket, OptionName::WindowClamp, 5_000);
    assert_eq!(limit(&single), 1_250);
    single.set(socket, OptionName::WindowClamp, 0);
    assert_eq!(limit(&single), 0);
}

/// The widest window of a peer without window scaling is small, however large the buffer.
#[test]
fn a_window_that_is_not_scaled_is_small() {
    let (mut single, all) = connected_with(GEOMETRY.rcv_chunks, 1, TcpOptions::default());
    let socket = all[0].1;
    assert_eq!(unreported_limit(&single, socket), 65_535 / 4);
    single.set(socket, OptionName::ReceiveBuffer, 1 << 20);
    assert_eq!(unreported_limit(&single, socket), 65_535 / 4);
}
