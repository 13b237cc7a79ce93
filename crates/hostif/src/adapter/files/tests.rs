//! Ranges of files from the program that writes them to the pieces that are sent.

mod bounds;
mod reported;

use super::super::send_streams::{BadStream, Extent, MAX_PIECES, Use};
use super::*;
use crate::abi::{
    Agreed, Features, FileExtent, Geometry, LEAST_RANGE, RANGE_BYTES, place_of_range,
};
use crate::adapter::{AdapterSession, NotMoved, ReceiveStream, ReportedRange};
use crate::host::HostSession;
use crate::pattern::pattern;
use longshore_ring::{EventfdSignaler, SharedBytes};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::AsFd;

const INDEX: u32 = 1;

fn session(features: Features) -> (AdapterSession, HostSession) {
    session_of(Agreed {
        features,
        ..Agreed::OURS
    })
}

fn session_of(agreed: Agreed) -> (AdapterSession, HostSession) {
    let arena = Arc::new(Arena::create_for(Geometry::SMALL, agreed).unwrap());
    arena.header().sockets_end.store(8, Ordering::Relaxed);
    let host = HostSession::of(&arena);
    let signaler = Arc::new(EventfdSignaler::for_one());
    (AdapterSession::new(arena, signaler), host)
}

fn file(bytes: &[u8]) -> (OwnedFd, FileId) {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&fd, bytes, 0).unwrap();
    let stat = fstat(&fd).unwrap();
    let (device, inode) = (stat.st_dev, stat.st_ino);
    (fd, FileId { device, inode })
}

fn lend(adapter: &mut AdapterSession, fd: &OwnedFd, now: u64) -> Result<(), OfferedFile> {
    let file = OfferedFile::check(fd.as_fd().try_clone_to_owned().unwrap());
    adapter.send.lend_file(file.unwrap(), now)
}

/// Gives the stream chunks, with `bytes` in them, as far as they go.
fn write(adapter: &AdapterSession, bytes: &[u8]) {
    for (number, bytes) in bytes.chunks(CHUNK).enumerate() {
        let chunk = adapter.arena.take_snd_chunk().unwrap().unwrap();
        let directory = adapter.arena.snd_directory(INDEX);
        let place = adapter.arena.snd_place(chunk, 0, bytes.len()).unwrap();
        directory
            .entry(number as u64)
            .store(chunk, Ordering::Relaxed);
        adapter.arena.memory().write(place, bytes);
    }
}

/// What is gathered, and in how many pieces. Pieces are only touched as the files are long
/// enough here.
fn gathered(
    adapter: &AdapterSession,
    range: std::ops::Range<u64>,
    used: Use,
) -> Result<(usize, Vec<u8>), BadStream> {
    gathered_told(adapter, &ReportedRange::default(), range, used)
}

/// The same where a descriptor has told of a range.
fn gathered_told(
    adapter: &AdapterSession,
    reported: &ReportedRange,
    range: std::ops::Range<u64>,
    used: Use,
) -> Result<(usize, Vec<u8>), BadStream> {
    let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
    let send = &adapter.send;
    let count = send.gather_reported(reported, INDEX, range, used, &mut pieces)?;
    let mut all = Vec::new();
    for piece in &pieces[..count] {
        let from = all.len();
        all.resize(from + piece.len(), 0);
        piece.copy_to(&mut all[from..]);
    }
    Ok((count, all))
}

/// Writes over the record of the range that begins `within` chunk `number` of the stream.
fn spoil_record(adapter: &AdapterSession, number: u64, within: usize) {
    let entry = adapter.arena.snd_directory(INDEX).entry(number);
    let chunk = crate::abi::chunk_of(entry.load(Ordering::Relaxed));
    let at = place_of_range(within);
    let record = adapter.arena.snd_place(chunk, at, RANGE_BYTES);
    let memory = adapter.arena.memory();
    memory.write(record.unwrap(), &[0xff; RANGE_BYTES]);
}

/// A stream that begins with 30,000 bytes of a file, which has no more than ten of them by now.
fn with_shortened_file() -> AdapterSession {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&[7; 30_000]);
    lend(&mut adapter, &fd, 0).unwrap();
    write(&adapter, &[b'-'; CHUNK]);
    let held = host.hold_file(id).unwrap();
    host.ranges(INDEX).write((0, 0, 30_000), &held, 0).unwrap();
    ftruncate(&fd, 10).unwrap();
    adapter
}

#[test]
fn ranges_are_sent_between_other_bytes() {
    let (mut adapter, host) = session(Features::FILES);
    let content = pattern(200_000);
    let (fd, id) = file(&content);
    assert!(host.hold_file(id).is_none());
    lend(&mut adapter, &fd, 0).unwrap();
    let held = host.hold_file(id).unwrap();
    assert_eq!(held.len(), 200_000);
    let mut expected = vec![b'-'; 2 * CHUNK];
    write(&adapter, &expected);
    // Two in the first chunk, and one across its end.
    for (from, len, offset) in [(3, 5000, 70), (5100, 9001, 0), (60_000, 20_000, 100_001)] {
        expected[from..from + len].copy_from_slice(&content[offset..offset + len]);
        let first = len.min(CHUNK - from);
        let put = |number, within, len, offset: usize| {
            host.ranges(INDEX)
                .write((number, within, len), &held, offset as u64)
        };
        assert_eq!(put(0, from, first, offset), Ok(true));
        if first < len {
            assert_eq!(put(1, 0, len - first, offset + first), Ok(true));
        }
    }
    assert_eq!(
        host.ranges(INDEX)
            .write((1, 40_000, LEAST_RANGE - 1), &held, 0),
        Ok(false)
    );
    for used in [Use::Read, Use::Pass] {
        for (from, to) in [
            (0, 3),
            (0, 8),
            (0, 65_536),
            (4000, 9000),
            (5003, 70_000),
            (60_000, 80_000),
        ] {
            let (count, got) = gathered(&adapter, from..to, used).unwrap();
            assert!(got == expected[from as usize..to as usize], "{from} {to}");
            assert!(used == Use::Pass || count == 1, "{from} {to} {count}");
        }
    }
    // What lies on in the file is one piece, though two chunks stand for it.
    assert_eq!(gathered(&adapter, 60_000..80_000, Use::Pass).unwrap().0, 1);
    assert_eq!(gathered(&adapter, 59_000..80_001, Use::Pass).unwrap().0, 3);
    let mut copied = vec![0; 2 * CHUNK];
    adapter.send.copy_out(INDEX, 0, &mut copied).unwrap();
    assert!(copied == expected);
    // A range that was written and not appended is no more once others are.
    host.ranges(INDEX).end(0, 20_000).unwrap();
    let (_, got) = gathered(&adapter, 60_000..60_100, Use::Read).unwrap();
    assert_ne!(got, expected[60_000..60_100]);
    let (_, got) = gathered(&adapter, 5000..15_000, Use::Read).unwrap();
    assert!(got == expected[5000..15_000]);
    host.ranges(INDEX).end(0, 3).unwrap();
    let entry = adapter.arena.snd_directory(INDEX).entry(0);
    let chunk = entry.load(Ordering::Relaxed);
    assert_eq!(crate::abi::chunk_of(chunk), chunk);
}

/// They are not read to other memory before, and zeros stand for what a file has no more.
#[test]
fn ranges_are_moved_to_another_session() {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&pattern(100_000));
    lend(&mut adapter, &fd, 0).unwrap();
    let mut expected = vec![b'-'; 2 * CHUNK];
    write(&adapter, &expected);
    let held = host.hold_file(id).unwrap();
    for (number, from, to) in [(0, 50_000, CHUNK), (1, 0, 40_000)] {
        let at = number as usize * CHUNK + from - 50_000;
        let put = host
            .ranges(INDEX)
            .write((number, from, to - from), &held, 1_000 + at as u64);
        assert_eq!(put, Ok(true));
    }
    let whole = pattern(100_000);
    expected[50_000..CHUNK + 40_000].copy_from_slice(&whole[1_000..CHUNK - 9_000]);
    ftruncate(&fd, 51_000).unwrap();
    expected[100_000..CHUNK + 40_000].fill(0);
    let (mut other, reader) = session(Features::FILES);
    let mut stream = ReceiveStream::EMPTY;
    // Where the bytes go lies otherwise in its chunks.
    let slab = &mut other.receive;
    stream.place(0, 0, b"before", slab, 3).unwrap();
    let end = 2 * CHUNK as u64;
    let moved = adapter
        .send
        .move_to((INDEX, 0..end), &mut stream, 0..6, slab, 3);
    let moved = moved.unwrap();
    assert_eq!((moved.transfers, moved.bytes), (6, end));
    let mut got = vec![0; 2 * CHUNK];
    reader.copy_received(3, 6, &mut got).unwrap();
    assert!(got == expected);
    let mut scratch = vec![1; SCRATCH];
    adapter
        .send
        .files
        .as_ref()
        .unwrap()
        .scratch
        .read(0, &mut scratch);
    assert!(scratch.iter().all(|byte| *byte == 0));
    let entry = adapter.arena.snd_directory(INDEX).entry(1);
    entry.store(u32::MAX >> 1, Ordering::Relaxed);
    let slab = &mut other.receive;
    let moved = adapter
        .send
        .move_to((INDEX, 0..end), &mut stream, 0..6, slab, 3);
    assert_eq!(moved, Err(NotMoved::Bad(BadStream)));
}

#[test]
fn what_a_file_has_no_more_is_read_as_zeros() {
    let adapter = with_shortened_file();
    let (_, got) = gathered(&adapter, 0..30_001, Use::Read).unwrap();
    assert_eq!((&got[..10], &got[30_000..]), (&[7; 10][..], &b"-"[..]));
    assert!(got[10..30_000].iter().all(|byte| *byte == 0));
}

/// An adapter of before is told nothing, and nobody of what does not fit a descriptor.
#[test]
fn who_does_not_know_of_extents_is_told_none() {
    for (version, knows) in [(19, false), (20, true)] {
        let (mut adapter, host) = session_of(Agreed {
            version,
            features: Features::FILES,
        });
        let (fd, id) = file(&[7; 30_000]);
        lend(&mut adapter, &fd, 0).unwrap();
        let held = host.hold_file(id).unwrap();
        let extent = FileExtent {
            file: 0,
            offset: u32::MAX,
            len: 64,
        };
        let reported = held.extent(u64::from(u32::MAX), 64);
        assert_eq!(reported, knows.then_some(extent));
        assert_eq!(held.extent(1 << 32, 64), None);
    }
}

#[test]
fn a_file_is_let_go_of_when_no_stream_has_any_of_it() {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&[7; 30_000]);
    lend(&mut adapter, &fd, 1_000).unwrap();
    write(&adapter, &[b'-'; CHUNK]);
    let held = host.hold_file(id).unwrap();
    host.ranges(INDEX).write((0, 0, 30_000), &held, 0).unwrap();
    let half = &adapter.arena.block(INDEX).snd;
    half.edge.store(30_000, Ordering::Relaxed);
    let gone = |adapter: &mut AdapterSession, now| adapter.send.look_at_files(now).len();
    assert_eq!(gone(&mut adapter, 2_000), 0);
    // It is held, then it is on its way, then neither.
    assert_eq!(gone(&mut adapter, UNUSED_FOR * 2), 0);
    drop(held);
    assert_eq!(gone(&mut adapter, UNUSED_FOR * 3), 0);
    assert!(host.hold_file(id).is_some());
    let half = &adapter.arena.block(INDEX).snd;
    half.returned.store(30_000, Ordering::Relaxed);
    assert_eq!(
        gone(&mut adapter, UNUSED_FOR * 5),
        0,
        "it was used meanwhile"
    );
    assert_eq!(gone(&mut adapter, UNUSED_FOR * 6), 1);
    assert!(host.hold_file(id).is_none() && !adapter.send.has_files());
    // What says that there is a range of it is no stream any more.
    let range = gathered(&adapter, 0..10, Use::Read);
    assert_eq!(range, Err(BadStream));
}

#[test]
fn what_is_no_file_or_one_too_many_is_refused() {
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(OfferedFile::check(reader).unwrap_err(), FileError::Kind);
    let empty = memfd_create("empty", MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(OfferedFile::check(empty).unwrap_err(), FileError::Kind);
    let directory = std::fs::File::open("/").unwrap().into();
    assert_eq!(OfferedFile::check(directory).unwrap_err(), FileError::Kind);
    let device = std::fs::File::open("/dev/zero").unwrap().into();
    assert_eq!(OfferedFile::check(device).unwrap_err(), FileError::Kind);
    // It has a length, and pages that are made when they are looked at.
    let strange = std::fs::File::open("/sys/kernel/notes").unwrap().into();
    let refused = OfferedFile::check(strange).unwrap_err();
    assert!(matches!(refused, FileError::FileSystem(_)), "{refused}");
    let (mut adapter, host) = session(Features::FILES);
    let files: Vec<_> = (0..=FILES).map(|_| file(b"x")).collect();
    let lent = files
        .iter()
        .filter(|(fd, _)| lend(&mut adapter, fd, 0).is_ok());
    assert_eq!(lent.count(), FILES);
    assert!(!host.has_room_for_file());
    let (mut without, host) = session(Features::empty());
    assert!(!host.takes_files() && lend(&mut without, &files[0].0, 0).is_err());
}

#[test]
fn forged_ranges_are_refused() {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&pattern(100_000));
    lend(&mut adapter, &fd, 0).unwrap();
    write(&adapter, &[b'-'; CHUNK]);
    let held = host.hold_file(id).unwrap();
    host.ranges(INDEX)
        .write((0, 100, 20_000), &held, 0)
        .unwrap();
    let entry = adapter.arena.snd_directory(INDEX).entry(0);
    let chunk = crate::abi::chunk_of(entry.load(Ordering::Relaxed));
    let good = crate::abi::FileRange {
        from: 100,
        to: 20_100,
        next: 0,
        file: 0,
        offset: 0,
    };
    let at = place_of_range(100);
    let place = adapter.arena.snd_place(chunk, at, RANGE_BYTES).unwrap();
    let forged = [
        crate::abi::FileRange { file: 1, ..good },
        crate::abi::FileRange {
            file: u32::MAX,
            ..good
        },
        crate::abi::FileRange {
            to: u32::MAX,
            ..good
        },
        crate::abi::FileRange {
            from: 20_000,
            ..good
        },
        crate::abi::FileRange {
            offset: 90_000,
            ..good
        },
        crate::abi::FileRange {
            offset: u64::MAX,
            ..good
        },
    ];
    for range in forged {
        adapter.arena.memory().write(place, &range.encode());
        let got = gathered(&adapter, 0..65_536, Use::Pass);
        assert_eq!(got, Err(BadStream), "{range:?}");
    }
    // One that goes on where it is: it ends with what is refused.
    let next = at as u32;
    let round = crate::abi::FileRange { next, ..good };
    adapter.arena.memory().write(place, &round.encode());
    assert_eq!(gathered(&adapter, 0..65_536, Use::Read), Err(BadStream));
    adapter.arena.memory().write(place, &good.encode());
    assert!(gathered(&adapter, 0..65_536, Use::Pass).is_ok());
    // No such chunk, and a range at its very end.
    for forged in [
        u32::MAX,
        1 << 31 | 3,
        1 << 31 | 4095 << 19 | chunk,
        1 << 31 | 77,
    ] {
        entry.store(forged, Ordering::Relaxed);
        assert_eq!(
            gathered(&adapter, 0..65_536, Use::Read),
            Err(BadStream),
            "{forged:#x}"
        );
    }
}

/// What another socket has received is found where it lies, in any number of pieces, and what
/// is too short for that is copied; where the first of it lies is known.
#[test]
fn what_another_has_received_is_read_where_it_lies() {
    const SOURCE: u32 = 2;
    let (mut adapter, host) = session(Features::FORWARDS);
    assert!(host.takes_forwards());
    let bytes = pattern(2 * CHUNK);
    let mut stream = ReceiveStream::EMPTY;
    let placed = stream.place(0, 0, &bytes, &mut adapter.receive, SOURCE);
    assert!(placed.is_ok());
    write(&adapter, &vec![0xee; 2 * CHUNK]);
    let all = |adapter: &AdapterSession| {
        let mut got = vec![0; CHUNK + 100];
        adapter.send.copy_out(INDEX, 10, &mut got).unwrap();
        got
    };
    // At another place of the chunks, and across the ends of both.
    let from = CHUNK as u64 - 1000;
    let copied = host
        .ranges(INDEX)
        .write_forwarded(10, (SOURCE, from), CHUNK + 100);
    assert_eq!(copied, Ok(Some(0)));
    assert!(all(&adapter) == bytes[CHUNK - 1000..2 * CHUNK - 900]);
    assert_eq!(adapter.send.first_forwarded(INDEX, 0..50), 10);
    assert_eq!(adapter.send.first_forwarded(INDEX, 20..50), 20);
    assert_eq!(adapter.send.first_forwarded(INDEX, 0..10), 10);
    let none = CHUNK as u64 * 4;
    assert_eq!(adapter.send.first_forwarded(5, none..u64::MAX), u64::MAX);
    // A few bytes before the end of a chunk.
    let (at, from) = (CHUNK as u64 - 20, 5);
    host.ranges(INDEX).end(0, 0).unwrap();
    let copied = host.ranges(INDEX).write_forwarded(at, (SOURCE, from), 5000);
    assert_eq!(copied, Ok(Some(20)));
    let mut got = vec![0; 5000];
    adapter.send.copy_out(INDEX, at, &mut got).unwrap();
    assert!(got == bytes[5..5005]);
    // More pieces than a segment may have are put together.
    host.ranges(INDEX).end(0, 0).unwrap();
    for piece in 0..8u64 {
        let (to, from) = (piece * 5000, (7 - piece) * 9000);
        let copied = host.ranges(INDEX).write_forwarded(to, (SOURCE, from), 5000);
        assert_eq!(copied, Ok(Some(0)));
    }
    assert_eq!(gathered(&adapter, 0..40_000, Use::Pass), Err(BadStream));
    assert!(adapter.send.begin_forwards());
    let (count, got) = gathered(&adapter, 0..40_000, Use::Pass).unwrap();
    assert_eq!(count, 1);
    for (piece, got) in got.chunks(5000).enumerate() {
        let from = (7 - piece) * 9000;
        assert!(*got == bytes[from..from + 5000], "piece {piece}");
    }
    stream.consume(0, true, &mut adapter.receive);
    let (mut without, host) = session(Features::empty());
    assert!(!without.send.begin_forwards() && !host.takes_forwards());
}
