//! What is prepared and appended, whatever happens in between.

use super::*;
use crate::Stream;
use crate::block_words::host_bits;
use crate::testing::Engine;
use crate::testing::fixture::pattern;
use longshore_hostif::{Geometry, SocketKind};
use std::mem::ManuallyDrop;

fn fill(prepared: &mut Prepared<'_>, bytes: &[u8]) {
    let mut rest = bytes;
    for piece in prepared.pieces() {
        let piece = piece.unwrap();
        let (here, after) = rest.split_at(piece.len().min(rest.len()));
        piece[..here.len()].copy_from_slice(here);
        rest = after;
    }
    assert!(rest.is_empty());
}

fn read(reader: &Stream, len: usize) -> Vec<u8> {
    let mut got = vec![0; len];
    let mut at = 0;
    while at < len {
        at += reader.read(&mut got[at..]).unwrap();
    }
    got
}

#[test]
fn what_others_write_meanwhile_comes_before() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    for before in [0, 10, CHUNK, CHUNK + 10] {
        for meanwhile in [0, 5, CHUNK, CHUNK + 5] {
            let (writer, reader) = Engine::pair(host);
            let all = pattern(before + meanwhile + 2 * CHUNK);
            let (first, rest) = all.split_at(before);
            let (second, third) = rest.split_at(meanwhile);
            writer.write_all(first).unwrap();
            let socket = writer.socket();
            let mut prepared = socket.send_stream().prepare(third.len()).unwrap();
            assert_eq!(prepared.len(), third.len());
            fill(&mut prepared, third);
            writer.write_all(second).unwrap();
            prepared.append(third.len(), false).unwrap();
            drop(prepared);
            let got = read(&reader, all.len());
            assert!(got == all, "{before} before, {meanwhile} meanwhile");
        }
    }
}

#[test]
fn a_part_is_appended_and_the_chunks_of_the_rest_are_free_again() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (writer, reader) = Engine::pair(host);
    let socket = writer.socket();
    // All the memory of the session many times over.
    for _ in 0..1000 {
        drop(socket.send_stream().prepare(MOST_PREPARED).unwrap());
        let mut prepared = socket.send_stream().prepare(MOST_PREPARED).unwrap();
        fill(&mut prepared, &[7; 3]);
        prepared.append(3, false).unwrap();
        drop(prepared);
        assert_eq!(read(&reader, 3), [7; 3]);
    }
    writer.write_all(&pattern(CHUNK)).unwrap();
}

/// An engine with so many chunks for what is sent, which acknowledges nothing for now.
fn with_chunks(snd_chunks: u32) -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let geometry = Geometry {
        channels: 64,
        waiters: 64,
        sockets: 64,
        snd_chunks,
        rcv_chunks: 64,
        workers: 1,
    };
    let engine = Engine::with_geometry(directory.path(), geometry);
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    (engine, directory)
}

#[test]
fn without_a_chunk_for_it_nothing_is_prepared() {
    let (engine, _directory) = with_chunks(1);
    let host = engine.join();
    let (writer, _reader) = Engine::pair(host);
    let socket = writer.socket();
    let prepared = socket.send_stream().prepare(10).unwrap();
    assert!(!prepared.is_empty() && prepared.len() == 10);
    drop(prepared);
    writer.write_all(b"head").unwrap();
    // The stream's chunk has room, and there is no other to read the first bytes into.
    assert_eq!(
        socket.send_stream().prepare(10).err(),
        Some(SocketError::WouldBlock)
    );
    assert!(host.is_short());
    assert!(socket.host_bits() & host_bits::WANTS_ROOM != 0);
    assert_eq!(host.count_free_chunks(), 0);
    writer.write_all(b"tail").unwrap();
}

/// Others have written meanwhile, and there is no chunk for what does not fit the last one.
#[test]
fn what_has_no_place_yet_is_appended_later() {
    let (engine, _directory) = with_chunks(3);
    let host = engine.join();
    let (writer, reader) = Engine::pair(host);
    let (other, _far) = Engine::pair(host);
    other.write_all(b"takes a chunk").unwrap();
    let socket = writer.socket();
    let mut prepared = socket.send_stream().prepare(5).unwrap();
    fill(&mut prepared, b"12345");
    let before = pattern(CHUNK - 2);
    writer.write_all(&before).unwrap();
    assert_eq!(prepared.append(5, false), Err(SocketError::WouldBlock));
    assert_eq!(read(&reader, before.len()), before);
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(false, Ordering::Relaxed);
    engine.wait_until("all is acknowledged", |_| {
        host.messages().drain_if_free();
        socket.send_stream().unacked_bytes() + other.socket().send_stream().unacked_bytes() == 0
    });
    // With the next call on it, the other stream gives its chunk back.
    drop(other.reserve(1).unwrap());
    assert_eq!(prepared.append(5, false), Ok(()));
    drop(prepared);
    assert_eq!(read(&reader, 5), b"12345");
}

#[test]
fn nothing_is_appended_to_a_stream_that_has_ended_or_is_full() {
    let (engine, _directory) = with_chunks(64);
    let host = engine.join();
    let socket = ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
    let block = socket.block();
    block.set_state(longshore_hostif::SocketState::Connected);
    let mut prepared = ManuallyDrop::new(socket.send_stream().prepare(10).unwrap());
    let held = STREAM_MAX - 9;
    block.snd.edge.store(held, Ordering::Relaxed);
    block.snd.returned.store(held, Ordering::Relaxed);
    assert_eq!(prepared.append(10, false), Err(SocketError::WouldBlock));
    assert!(socket.host_bits() & host_bits::WANTS_ROOM != 0);
    block.set_flags(BlockFlags::SHUT_WR);
    assert_eq!(prepared.append(10, false), Err(SocketError::BrokenPipe));
    assert_eq!(prepared.append(0, false), Ok(()), "nothing");
}

/// What belongs in a chunk that the stream has is copied there, and its own is free again.
#[test]
fn the_chunk_that_was_copied_from_is_given_back() {
    let (engine, _directory) = with_chunks(8);
    let host = engine.join();
    let (writer, _reader) = Engine::pair(host);
    writer.write_all(b"head").unwrap();
    let stream = writer.socket().send_stream();
    for chunks in [0, 1, 1] {
        let free = host.count_free_chunks();
        let len = CHUNK - 4 + chunks * CHUNK;
        let mut prepared = stream.prepare(len).unwrap();
        assert_eq!(host.count_free_chunks(), free - 1 - chunks);
        prepared.append(len, false).unwrap();
        drop(prepared);
        assert_eq!(host.count_free_chunks(), free - chunks);
        // Where the next chunk begins there is nothing to be copied.
        writer.write_all(b"head").unwrap();
    }
}
