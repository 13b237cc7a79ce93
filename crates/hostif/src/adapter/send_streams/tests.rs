//! Where the bytes of a send stream lie, and how they are fetched.

use super::*;
use crate::abi::{Address, Agreed, DATAGRAM_HEADER, DatagramRecord, Features, Geometry};
use crate::adapter::{AdapterSession, ReceiveStream};
use crate::host::HostSession;
use crate::pattern::pattern;
use longshore_ring::EventfdSignaler;

fn streams() -> SendStreams {
    SendStreams::of(&Arc::new(Arena::create(Geometry::SMALL).unwrap()))
}

#[test]
fn a_forged_send_directory_is_refused() {
    let streams = streams();
    let entry = streams.arena.snd_directory(1).entry(0);
    let chunks = Geometry::SMALL.snd_chunks;
    let mut out = [SharedBytes::EMPTY; MAX_PIECES];
    entry.store(chunks, Ordering::Relaxed);
    assert_eq!(
        streams.gather(1, 0..10, Use::Read, &mut out),
        Err(BadStream)
    );
    assert_eq!(streams.copy_out(1, 0, &mut [0; 10]), Err(BadStream));
    entry.store(chunks - 1, Ordering::Relaxed);
    assert_eq!(streams.gather(1, 0..10, Use::Read, &mut out), Ok(1));
    let beyond = CHUNK as u64 - 5..CHUNK as u64 + 5;
    streams
        .arena
        .snd_directory(1)
        .entry(1)
        .store(chunks, Ordering::Relaxed);
    assert_eq!(
        streams.gather(1, beyond, Use::Read, &mut out),
        Err(BadStream)
    );
}

#[test]
fn bytes_are_found_chunk_by_chunk() {
    let streams = streams();
    for (number, chunk) in [2, 0, 3].into_iter().enumerate() {
        let directory = streams.arena.snd_directory(1);
        directory
            .entry(number as u64)
            .store(chunk, Ordering::Relaxed);
    }
    let (chunk, memory) = (CHUNK as u64, streams.arena.memory());
    let last = streams.arena.snd_place(2, CHUNK - 3, 3).unwrap();
    memory.write(last, b"abc");
    let first = streams.arena.snd_place(3, 0, 2).unwrap();
    memory.write(first, b"yz");
    let mut out = [SharedBytes::EMPTY; 3];
    let count = streams.gather(1, chunk - 3..2 * chunk + 2, Use::Read, &mut out);
    assert_eq!(count, Ok(3));
    assert_eq!(out.map(|p| p.len()), [3, CHUNK, 2]);
    let mut got = [0; 3];
    out[0].copy_to(&mut got);
    assert_eq!(&got, b"abc");
    let mut got = vec![0; CHUNK + 5];
    streams.copy_out(1, chunk - 3, &mut got).unwrap();
    assert_eq!((&got[..3], &got[CHUNK + 3..]), (&b"abc"[..], &b"yz"[..]));
    // Chunks that lie one behind the other are one piece.
    for (number, chunk) in [0, 1, 2].into_iter().enumerate() {
        let directory = streams.arena.snd_directory(2);
        directory
            .entry(number as u64)
            .store(chunk, Ordering::Relaxed);
    }
    let mut joined = [SharedBytes::EMPTY; MAX_PIECES];
    let count = streams.gather(2, chunk - 3..2 * chunk + 2, Use::Read, &mut joined);
    assert_eq!((count, joined[0].len()), (Ok(1), CHUNK + 5));
    // A fourth piece has no room.
    let far = streams.gather(1, chunk - 3..3 * chunk + 2, Use::Read, &mut out);
    assert_eq!(far, Err(BadStream));
}

/// A datagram's record is read from a stream as it was written.
#[test]
fn a_record_is_copied_out_across_chunks() {
    let streams = streams();
    let directory = streams.arena.snd_directory(1);
    directory.entry(0).store(1, Ordering::Relaxed);
    directory.entry(1).store(0, Ordering::Relaxed);
    let record = DatagramRecord::new(77, Address::NONE).encode();
    let (a, b) = record.split_at(10);
    let memory = streams.arena.memory();
    let end = streams.arena.snd_place(1, CHUNK - 10, 10).unwrap();
    memory.write(end, a);
    let start = streams.arena.snd_place(0, 0, b.len()).unwrap();
    memory.write(start, b);
    let mut got = [0; DATAGRAM_HEADER];
    streams.copy_out(1, CHUNK as u64 - 10, &mut got).unwrap();
    assert_eq!(got, record);
}

const INDEX: u32 = 1;
const SOURCE: u32 = 2;

/// A session in which what one socket has received may be sent by another.
fn session() -> (AdapterSession, HostSession) {
    let agreed = Agreed {
        features: Features::FORWARDS,
        ..Agreed::OURS
    };
    let arena = Arc::new(Arena::create_for(Geometry::SMALL, agreed).unwrap());
    arena.header().sockets_end.store(8, Ordering::Relaxed);
    let host = HostSession::of(&arena);
    let signaler = Arc::new(EventfdSignaler::for_one());
    (AdapterSession::new(arena, signaler), host)
}

const BEFORE: u64 = 1_000;
const LEN: u64 = 20_000;
const AFTER: u64 = 500;

/// A send stream of [`BEFORE`] bytes that its program wrote, [`LEN`] that another socket has
/// received, and [`AFTER`] more of the program's; with the receive stream that has them.
fn forwarding() -> (AdapterSession, ReceiveStream) {
    let (mut adapter, host) = session();
    let mut rcv = ReceiveStream::EMPTY;
    let received = pattern(LEN as usize);
    rcv.place(0, 0, &received, &mut adapter.receive, SOURCE)
        .unwrap();
    let chunk = adapter.arena.take_snd_chunk().unwrap().unwrap();
    let directory = adapter.arena.snd_directory(INDEX);
    directory.entry(0).store(chunk, Ordering::Relaxed);
    for (at, len) in [(0, BEFORE), (BEFORE + LEN, AFTER)] {
        let place = adapter.arena.snd_place(chunk, at as usize, len as usize);
        let bytes = vec![0xee; len as usize];
        adapter.arena.memory().write(place.unwrap(), &bytes);
    }
    let copied = host
        .ranges(INDEX)
        .write_forwarded(BEFORE, (SOURCE, 0), LEN as usize);
    assert_eq!(copied.unwrap(), Some(0));
    (adapter, rcv)
}

/// What was received is not fetched again; what lies beside it is, up to there.
#[test]
fn stretches_end_where_the_bytes_are_of_another_kind() {
    let (adapter, _rcv) = forwarding();
    let send = &adapter.send;
    let all = BEFORE + LEN + AFTER;
    for (range, extent) in [
        (0..all, Extent::Fetched(BEFORE)),
        (BEFORE - 1..all, Extent::Fetched(1)),
        (BEFORE..all, Extent::AtHand(LEN)),
        (BEFORE..BEFORE + 10, Extent::AtHand(10)),
        (BEFORE + 5..all, Extent::AtHand(LEN - 5)),
        (BEFORE + LEN..all, Extent::Fetched(AFTER)),
    ] {
        let found = send.extent(&ReportedRange::default(), INDEX, range.clone(), false);
        let found = found.map(|found| found.extent);
        assert_eq!(found, Ok(extent), "{range:?}");
    }
    let mut got = vec![0; all as usize];
    send.copy_out(INDEX, 0, &mut got).unwrap();
    assert_eq!(
        got[BEFORE as usize..][..LEN as usize],
        pattern(LEN as usize)
    );
    assert!(got[..BEFORE as usize].iter().all(|byte| *byte == 0xee));
}

#[test]
fn bytes_that_were_received_are_counted_and_found() {
    let (adapter, _rcv) = forwarding();
    let send = &adapter.send;
    let all = BEFORE + LEN + AFTER;
    for (range, count) in [
        (0..all, LEN),
        (0..BEFORE, 0),
        (0..BEFORE + 1, 1),
        (BEFORE + 7..BEFORE + 10, 3),
        (BEFORE + LEN - 1..all, 1),
        (BEFORE + LEN..all, 0),
    ] {
        let found = send.forwarded(INDEX, range.clone());
        let expected = ForwardedBytes {
            all: count,
            placed: count,
        };
        assert_eq!(found, expected, "{range:?}");
    }
    for (range, first) in [
        (0..all, BEFORE),
        (0..BEFORE, BEFORE),
        (0..BEFORE - 1, BEFORE - 1),
        (0..BEFORE + 1, BEFORE),
        (BEFORE..all, BEFORE),
        (BEFORE + 9..all, BEFORE + 9),
        (BEFORE + LEN - 1..all, BEFORE + LEN - 1),
        (BEFORE + LEN..all, all),
    ] {
        assert_eq!(
            send.first_forwarded(INDEX, range.clone()),
            first,
            "{range:?}"
        );
    }
}

/// In the second chunk of a stream as in the first.
#[test]
fn bytes_that_were_received_are_found_in_later_chunks() {
    let (mut adapter, host) = session();
    let mut rcv = ReceiveStream::EMPTY;
    let received = pattern(LEN as usize);
    rcv.place(0, 0, &received, &mut adapter.receive, SOURCE)
        .unwrap();
    for number in 0..2 {
        let chunk = adapter.arena.take_snd_chunk().unwrap().unwrap();
        let directory = adapter.arena.snd_directory(INDEX);
        directory.entry(number).store(chunk, Ordering::Relaxed);
    }
    let at = CHUNK as u64 + 3_000;
    let copied = host
        .ranges(INDEX)
        .write_forwarded(at, (SOURCE, 0), LEN as usize);
    assert_eq!(copied.unwrap(), Some(0));
    let all = 2 * CHUNK as u64;
    assert_eq!(adapter.send.first_forwarded(INDEX, 0..all), at);
    assert_eq!(adapter.send.first_forwarded(INDEX, at + 1..all), at + 1);
    assert_eq!(adapter.send.first_forwarded(INDEX, at + LEN..all), all);
    assert_eq!(adapter.send.forwarded(INDEX, 0..all).all, LEN);
    let found = adapter
        .send
        .extent(&ReportedRange::default(), INDEX, at..all, false);
    assert_eq!(found.map(|found| found.extent), Ok(Extent::AtHand(LEN)));
}

/// Chunks that lie one behind the other are fetched together, and others one by one.
#[test]
fn a_stretch_goes_on_in_the_next_chunk_if_that_lies_behind() {
    let streams = streams();
    let chunk = CHUNK as u64;
    for (entries, extent) in [([0, 1], 20), ([1, 0], 10)] {
        for (number, entry) in (0..).zip(entries) {
            let directory = streams.arena.snd_directory(INDEX);
            directory.entry(number).store(entry, Ordering::Relaxed);
        }
        let found = streams.extent(
            &ReportedRange::default(),
            INDEX,
            chunk - 10..chunk + 10,
            false,
        );
        let extent = Extent::Fetched(extent);
        let records = Moved::default();
        assert_eq!(found, Ok(Found { extent, records }));
    }
    let beyond = streams.arena.snd_directory(INDEX).entry(1);
    beyond.store(Geometry::SMALL.snd_chunks, Ordering::Relaxed);
    let found = streams.extent(
        &ReportedRange::default(),
        INDEX,
        chunk - 10..chunk + 10,
        false,
    );
    assert_eq!(found, Err(BadStream));
}

/// To the last byte of a chunk it is one piece, whatever the next entry has.
#[test]
fn a_piece_reaches_to_the_end_of_its_chunk() {
    let streams = streams();
    let chunk = CHUNK as u64;
    let directory = streams.arena.snd_directory(INDEX);
    directory.entry(0).store(0, Ordering::Relaxed);
    directory
        .entry(1)
        .store(Geometry::SMALL.snd_chunks, Ordering::Relaxed);
    let memory = streams.arena.memory();
    let place = streams.arena.snd_place(0, CHUNK - 4, 4).unwrap();
    memory.write(place, b"last");
    let mut out = [SharedBytes::EMPTY; MAX_PIECES];
    let found = streams.gather(INDEX, chunk - 4..chunk, Use::Read, &mut out);
    assert_eq!((found, out[0].len()), (Ok(1), 4));
    let mut got = [0; 4];
    out[0].copy_to(&mut got);
    assert_eq!(&got, b"last");
    let found = streams.gather(INDEX, chunk - 4..chunk + 1, Use::Read, &mut out);
    assert_eq!(found, Err(BadStream));
    let found = streams.gather(INDEX, 0..chunk, Use::Read, &mut out);
    assert_eq!((found, out[0].len()), (Ok(1), CHUNK));
}
