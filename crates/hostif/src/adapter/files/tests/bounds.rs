//! Where ranges begin and end, in which chunks, and what of them other versions and features have.

use super::*;

#[test]
fn the_shortest_range_is_as_short_as_the_version_has_it() {
    for (version, least) in [(12, 4096), (13, LEAST_RANGE), (21, LEAST_RANGE)] {
        let (mut adapter, host) = session_of(Agreed {
            version,
            features: Features::FILES,
        });
        assert!(host.takes_files() && host.has_room_for_file());
        assert_eq!(host.agreed().least_range(), least);
        let (fd, id) = file(&pattern(8192));
        lend(&mut adapter, &fd, 0).unwrap();
        assert!(adapter.send.has_files());
        write(&adapter, &[0; CHUNK]);
        let held = host.hold_file(id).unwrap();
        assert!(!held.is_empty());
        for (len, is_one) in [(least - 1, false), (least, true)] {
            assert_eq!(host.ranges(INDEX).write((0, 0, len), &held, 0), Ok(is_one));
        }
        let (_, got) = gathered(&adapter, 0..least as u64, Use::Read).unwrap();
        assert!(got == pattern(least));
    }
    let (adapter, host) = session(Features::empty());
    assert!(!host.takes_files() && !adapter.send.has_files());
}

/// In the second chunk of each, and up to the ends of what is asked for.
#[test]
fn what_another_has_received_is_counted_where_it_is_asked_for() {
    const SOURCE: u32 = 2;
    const CHUNK_LEN: u64 = CHUNK as u64;
    let (mut adapter, host) = session(Features::FORWARDS | Features::FORWARDS_WITHIN);
    assert!(host.takes_forwards_within());
    let bytes = pattern(2 * CHUNK);
    let mut stream = ReceiveStream::EMPTY;
    let slab = &mut adapter.receive;
    stream.place(0, 0, &bytes, slab, SOURCE).unwrap();
    write(&adapter, &vec![0xee; 2 * CHUNK]);
    let at = CHUNK_LEN + 1000;
    let written = host
        .ranges(INDEX)
        .write_forwarded(at, (SOURCE, CHUNK_LEN), LEAST_RANGE);
    assert_eq!(written, Ok(Some(0)), "the shortest is not copied");
    let least = LEAST_RANGE as u64;
    let forwarded = |range| adapter.send.forwarded(INDEX, range).all;
    for (range, count) in [
        (0..2 * CHUNK_LEN, least),
        (at..at + least, least),
        (at + 1..at + least - 1, least - 2),
        (0..at, 0),
        (at + least..2 * CHUNK_LEN, 0),
        (0..at + 5, 5),
    ] {
        assert_eq!(forwarded(range.clone()), count, "{range:?}");
    }
    let first = |range| adapter.send.first_forwarded(INDEX, range);
    assert_eq!(first(0..2 * CHUNK_LEN), at);
    assert_eq!(first(0..at), at);
    assert_eq!(first(at + least..2 * CHUNK_LEN), 2 * CHUNK_LEN);
    assert_eq!(first(0..at - 5), at - 5);
    // It is forgotten from its end on, or with it.
    host.ranges(INDEX).end(1, 1000 + LEAST_RANGE).unwrap();
    assert_eq!(forwarded(0..2 * CHUNK_LEN), least);
    host.ranges(INDEX).end(1, 1000 + LEAST_RANGE - 1).unwrap();
    assert_eq!(forwarded(0..2 * CHUNK_LEN), 0);
    stream.consume(0, true, &mut adapter.receive);
}

/// What lies there is lent, and may be lent on only where both sides know of that.
#[test]
fn what_was_lent_is_sent_on_where_that_is_taken() {
    const SOURCE: u32 = 2;
    for within in [false, true] {
        let mut features = Features::FORWARDS | Features::LENT_CHUNKS;
        features.set(Features::FORWARDS_WITHIN, within);
        let (adapter, host) = session(features);
        assert_eq!(host.takes_forwards_within(), within);
        write(&adapter, &pattern(2 * CHUNK));
        let chunk = adapter.arena.snd_directory(INDEX).entry(0);
        let lent = crate::abi::lent_entry(chunk.load(Ordering::Relaxed));
        let received = adapter.arena.rcv_directory(SOURCE);
        received.entry(0).store(lent, Ordering::Relaxed);
        let at = CHUNK as u64;
        let written = host.ranges(INDEX).write_forwarded(at, (SOURCE, 0), 5000);
        assert_eq!(written, Ok(within.then_some(0)));
        let mut got = [0; 100];
        adapter.send.copy_out(INDEX, at + 200, &mut got).unwrap();
        let from = if within { 200 } else { CHUNK + 200 };
        assert!(got == pattern(2 * CHUNK)[from..from + 100]);
        let found = adapter.send.forwarded(INDEX, 0..2 * at);
        let all = if within { 5000 } else { 0 };
        assert_eq!((found.all, found.placed), (all, 0));
    }
}

/// What lies beside a range is no part of it, and takes no piece.
#[test]
fn bytes_up_to_a_range_are_one_piece() {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&pattern(8192));
    lend(&mut adapter, &fd, 0).unwrap();
    write(&adapter, &[b'-'; CHUNK]);
    let held = host.hold_file(id).unwrap();
    assert_eq!(
        host.ranges(INDEX).write((0, 5000, 5000), &held, 0),
        Ok(true)
    );
    for (range, pieces) in [(0..5000, 1), (10_000..10_100, 1), (0..5001, 2)] {
        let (count, got) = gathered(&adapter, range.clone(), Use::Pass).unwrap();
        assert_eq!((count, got.len() as u64), (pieces, range.end - range.start));
    }
    let found = adapter
        .send
        .extent(&ReportedRange::default(), INDEX, 10..30, false);
    assert_eq!(found.unwrap().extent, Extent::Fetched(20));
}

/// The second file, in the second chunk, stays as long as a stream has it.
#[test]
fn a_file_stays_while_a_later_chunk_has_a_range_of_it() {
    let (mut adapter, host) = session(Features::FILES);
    let files = [7, 8].map(|byte| file(&[byte; 30_000]));
    for (fd, _) in &files {
        lend(&mut adapter, fd, 1_000).unwrap();
    }
    assert!(adapter.send.has_files());
    write(&adapter, &[b'-'; 2 * CHUNK]);
    let held = host.hold_file(files[1].1).unwrap();
    host.ranges(INDEX).write((1, 0, 30_000), &held, 0).unwrap();
    drop(held);
    let half = &adapter.arena.block(INDEX).snd;
    half.returned.store(CHUNK as u64 + 10, Ordering::Relaxed);
    half.edge.store(CHUNK as u64 + 30_000, Ordering::Relaxed);
    let gone = |adapter: &mut AdapterSession, now| adapter.send.look_at_files(now).len();
    assert_eq!(gone(&mut adapter, 1_000), 0);
    assert_eq!(
        gone(&mut adapter, 1_000 + UNUSED_FOR * 2),
        1,
        "that of nobody"
    );
    assert_eq!(gone(&mut adapter, 1_000 + UNUSED_FOR * 4), 0);
    assert!(adapter.send.has_files() && host.hold_file(files[1].1).is_some());
}

/// Across the end of a chunk where they go to.
#[test]
fn bytes_are_moved_across_the_end_of_a_chunk() {
    let (adapter, _host) = session(Features::empty());
    let bytes = pattern(300);
    write(&adapter, &bytes);
    let found = adapter
        .send
        .extent(&ReportedRange::default(), INDEX, 10..30, false);
    assert_eq!(found.unwrap().extent, Extent::Fetched(20));
    let (mut other, reader) = session(Features::empty());
    let mut stream = ReceiveStream::EMPTY;
    let begin = CHUNK as u64 - 100;
    let slab = &mut other.receive;
    let from = (INDEX, 50..300);
    let moved = adapter
        .send
        .move_to(from, &mut stream, begin..begin, slab, 3);
    let [first, second] = [100, 150].map(crate::meter::Moved::one);
    let mut both = first;
    both.add(&second);
    assert_eq!(moved, Ok(both));
    let mut got = vec![0; 250];
    reader.copy_received(3, begin, &mut got).unwrap();
    assert!(got == bytes[50..]);
}

/// What lies in many pieces is put together as far as there is room for that.
#[test]
fn no_more_is_put_together_than_there_is_room_for() {
    const SOURCE: u32 = 2;
    let (mut adapter, host) = session(Features::FORWARDS);
    let mut stream = ReceiveStream::EMPTY;
    let slab = &mut adapter.receive;
    stream.place(0, 0, &pattern(CHUNK), slab, SOURCE).unwrap();
    write(&adapter, &vec![0xee; 3 * CHUNK]);
    for piece in 0..8u64 {
        let written = host
            .ranges(INDEX)
            .write_forwarded(piece * 5000, (SOURCE, 100), 200);
        assert_eq!(written, Ok(Some(0)));
    }
    assert!(adapter.send.begin_forwards());
    let most = adapter.send.scratch.as_ref().unwrap().len() as u64;
    let (count, got) = gathered(&adapter, 0..most, Use::Read).unwrap();
    assert_eq!((count, got.len() as u64), (1, most));
    assert_eq!(gathered(&adapter, 0..most + 1, Use::Read), Err(BadStream));
    stream.consume(0, true, &mut adapter.receive);
}

/// A port may touch what is short: it is not given where it lies, as the file may have become
/// shorter.
#[test]
fn a_few_bytes_of_a_file_are_read() {
    let adapter = with_shortened_file();
    let (_, got) = gathered(&adapter, 20_000..20_100, Use::Pass).unwrap();
    assert_eq!(got, [0; 100]);
}

/// As in the first chunk, so in the second.
#[test]
fn the_record_of_a_range_that_was_told_is_not_looked_at_in_any_chunk() {
    const CHUNK_LEN: u64 = CHUNK as u64;
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&pattern(2 * CHUNK));
    lend(&mut adapter, &fd, 0).unwrap();
    write(&adapter, &[b'-'; 2 * CHUNK]);
    let held = host.hold_file(id).unwrap();
    assert_eq!(host.ranges(INDEX).write((1, 100, 400), &held, 0), Ok(true));
    let mut reported = ReportedRange::default();
    reported.report(&held.extent(0, 400).unwrap(), CHUNK_LEN + 500, 0);
    // What follows it goes on from where a record says so that nobody has read.
    for goes_on in [false, true] {
        let behind = CHUNK_LEN + 500..CHUNK_LEN + 900;
        let found = adapter
            .send
            .extent(&reported, INDEX, behind, goes_on)
            .unwrap();
        assert_eq!(found.extent, Extent::Fetched(400));
        assert_eq!(found.records.transfers, 1);
    }
    spoil_record(&adapter, 1, 100);
    let before = CHUNK_LEN + 50..CHUNK_LEN + 100;
    let gathered = gathered_told(&adapter, &reported, before, Use::Read);
    assert_eq!(gathered.map(|(count, _)| count), Ok(1));
}
