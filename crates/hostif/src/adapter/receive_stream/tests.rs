//! Where bytes of streams are placed, and what memory they take.

use super::*;
use crate::abi::Geometry;
use crate::adapter::receive_slab::*;
use crate::transport::Arena;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SMALL: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 8,
    workers: 1,
};

fn read_back(arena: &Arena, index: u32, range: Range<u64>) -> Vec<u8> {
    let mut out = vec![0; (range.end - range.start) as usize];
    let mut done = 0;
    for (number, within, len) in spans(range) {
        let chunk = arena
            .rcv_directory(index)
            .entry(number)
            .load(Ordering::Acquire);
        let place = arena.rcv_place(chunk, within, len).unwrap();
        arena.memory().read(place, &mut out[done..done + len]);
        done += len;
    }
    out
}

/// Bytes of which those in one place are not those a chunk further on: made by copies, which
/// cost little under Miri.
fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = (0..=250u8).collect::<Vec<u8>>().repeat(len / 251 + 1);
    bytes.truncate(len);
    bytes
}

#[test]
fn bytes_out_of_order_lie_where_they_belong() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 8), ReceiveStream::EMPTY);
    let data = pattern(150_000);
    stream
        .place(0, 100_000, &data[100_000..], &mut slab, 5)
        .unwrap();
    stream.place(0, 0, &data[..100_000], &mut slab, 5).unwrap();
    assert_eq!(read_back(&arena, 5, 0..150_000), data);
    stream.consume(140_000, false, &mut slab);
    assert_eq!(slab.in_use(), 1);
    stream.consume(150_000, true, &mut slab);
    assert!(stream.is_empty() && slab.in_use() == 0);
}

#[test]
fn a_stream_that_has_ended_keeps_what_is_to_be_read() {
    const CHUNK_LEN: u64 = CHUNK as u64;
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let data = pattern(2 * CHUNK + 100);
    // The end, and the chunks that are left of one that has six, for a reader that has read nothing or
    // all but one byte.
    let ends = [
        (1, 1, 1),
        (CHUNK_LEN, 1, 1),
        (CHUNK_LEN + 1, 2, 1),
        (2 * CHUNK_LEN + 100, 3, 1),
    ];
    for (end, whole, rest) in ends {
        for (consumed, left) in [(0, whole), (end - 1, rest), (end, 0)] {
            let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 8), ReceiveStream::EMPTY);
            stream.place(0, 0, &data, &mut slab, 5).unwrap();
            stream
                .place(0, 6 * CHUNK_LEN - 50, &data[..50], &mut slab, 5)
                .unwrap();
            stream.consume(consumed, false, &mut slab);
            stream.end_at(end, consumed, &mut slab);
            assert_eq!(
                (stream.chunks(), slab.in_use()),
                (left, left as u32),
                "{end}"
            );
            assert_eq!(
                read_back(&arena, 5, consumed..end),
                data[consumed as usize..end as usize]
            );
            stream.consume(end, true, &mut slab);
            assert!(stream.is_empty() && slab.in_use() == 0);
        }
    }
}

/// In debug builds, so that no test can take what is there by chance for what was received.
#[test]
#[cfg(debug_assertions)]
fn what_was_in_a_chunk_is_gone_when_it_is_given_back() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::of(&arena, 0), ReceiveStream::EMPTY);
    let chunk = CHUNK as u64;
    let data = vec![7; 2 * CHUNK];
    stream.place(0, 0, &data, &mut slab, 5).unwrap();
    stream.consume(chunk + 1, false, &mut slab);
    assert_eq!(read_back(&arena, 5, 0..chunk), vec![POISON; CHUNK]);
    assert_eq!(read_back(&arena, 5, chunk..2 * chunk), vec![7; CHUNK]);
    stream.consume(2 * chunk, true, &mut slab);
    assert_eq!(read_back(&arena, 5, 0..2 * chunk), vec![POISON; 2 * CHUNK]);
}

/// The chunk that was written to last is known until it is given back, and then not.
#[test]
fn room_is_found_in_the_chunk_that_was_written_to_last() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 3), ReceiveStream::EMPTY);
    let chunk = CHUNK as u64;
    assert!(stream.room_in_latest(0, 1).is_none());
    stream.place(0, 10, &[1; 10], &mut slab, 0).unwrap();
    stream.room_in_latest(20, 5).unwrap().fill(b"after");
    assert_eq!(read_back(&arena, 0, 15..25), *b"\x01\x01\x01\x01\x01after");
    // It is counted when it is known to be the stream's.
    stream.room(25, 9).unwrap().fill(b"and after");
    assert_eq!(stream.placed.pieces, 1);
    stream.note_placed(9);
    assert_eq!(read_back(&arena, 0, 20..34), *b"afterand after");
    assert!(stream.room_in_latest(chunk - 4, 5).is_none());
    stream.place(0, chunk, &[2; 10], &mut slab, 0).unwrap();
    assert!(stream.room_in_latest(20, 5).is_none());
    stream.room_in_latest(chunk + 10, 5).unwrap().fill(b"there");
    assert_eq!(read_back(&arena, 0, chunk + 10..chunk + 15), *b"there");
    let placed = Placed {
        pieces: 3,
        words: 4,
        bytes: 19,
    };
    assert_eq!(stream.take_placed(), placed);
    assert_eq!(stream.take_placed(), Placed::default());
    // Not all of it finds room: the chunk that is known is the stream's all the same.
    let much = vec![3; 3 * CHUNK];
    let refused = stream.place(0, chunk + 10, &much, &mut slab, 0);
    assert_eq!(refused, Err(NoChunk));
    stream.consume(chunk + 1, false, &mut slab);
    assert!(stream.room_in_latest(chunk + 20, 5).is_some());
    stream.consume(chunk + 11, true, &mut slab);
    assert!(stream.room_in_latest(chunk + 11, 1).is_none());
}

#[test]
fn an_exhausted_slab_says_so() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 1), ReceiveStream::EMPTY);
    assert!(stream.place(0, 0, &[1; CHUNK], &mut slab, 0).is_ok());
    assert_eq!(
        stream.place(0, CHUNK as u64, &[1], &mut slab, 0),
        Err(NoChunk)
    );
    assert_eq!(
        stream.place(0, STREAM_MAX, &[1], &mut slab, 0),
        Err(NoChunk)
    );
}

/// A stream as long as it may be has its first and its last chunk in part:
/// one chunk more than a stream that begins with one.
#[test]
fn a_full_stream_may_begin_anywhere() {
    let geometry = Geometry {
        rcv_chunks: 256,
        ..SMALL
    };
    let arena = Arc::new(Arena::create(geometry).unwrap());
    for base in [0, 1, CHUNK as u64 - 1, 5 * CHUNK as u64 + 17] {
        let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 256), ReceiveStream::EMPTY);
        let end = base + STREAM_MAX;
        for at in [base, base + 100_000, end - 1000] {
            let placed = stream.place(base, at, &[7; 1000], &mut slab, 2);
            assert!(placed.is_ok(), "{at} of {base}");
        }
        assert_eq!(read_back(&arena, 2, base..base + 1000), [7; 1000]);
        assert_eq!(read_back(&arena, 2, end - 1000..end), [7; 1000]);
        let beyond = stream.place(base, end, &[1], &mut slab, 2);
        assert_eq!(beyond, Err(NoChunk));
    }
}

/// Memory goes back of those chunks alone that were free all the time.
#[test]
fn chunks_that_were_wanted_meanwhile_stay_warm() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let mut slab = ReceiveSlab::limited(&arena, 8);
    let taken: Vec<u32> = (0..6).map(|_| slab.take().unwrap()).collect();
    for &chunk in &taken {
        let place = arena.rcv_place(chunk, 0, 1).unwrap();
        arena.memory().write(place, b"x");
        slab.give_back(chunk);
    }
    let byte = |chunk| {
        let mut byte = [9];
        let place = arena.rcv_place(chunk, 0, 1).unwrap();
        arena.memory().read(place, &mut byte);
        byte[0]
    };
    assert_eq!(slab.warm(), 6);
    slab.note_free();
    let (a, b) = (slab.take().unwrap(), slab.take().unwrap());
    slab.give_back(b);
    slab.give_back(a);
    // Four were never wanted; three at a time.
    assert_eq!(slab.cool(3), Ok(3));
    assert_eq!(slab.cool(3), Ok(1));
    assert_eq!(slab.cool(3), Ok(0));
    assert_eq!(slab.warm(), 2);
    assert_eq!(taken.iter().filter(|c| byte(**c) == 0).count(), 4);
    assert!(byte(a) == b'x' && byte(b) == b'x');
    // The warm ones go first.
    assert!([a, b].contains(&slab.take().unwrap()));
    assert!([a, b].contains(&slab.take().unwrap()));
    assert_eq!(slab.warm(), 0);
    let cold = slab.take().unwrap();
    slab.give_back(cold);
    assert_eq!(slab.warm(), 1);
}

/// A chunk that its stream has again is not among those whose memory goes back, wherever it was
/// among the free ones, and the others still do.
#[test]
fn a_chunk_that_is_had_again_stays_warm_alone() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    for again in 0..6 {
        let mut slab = ReceiveSlab::limited(&arena, 8);
        let taken: Vec<u32> = (0..6).map(|_| slab.take().unwrap()).collect();
        taken.iter().for_each(|chunk| slab.give_back(*chunk));
        slab.note_free();
        assert!(slab.take_again(taken[again]));
        assert!(!slab.take_again(taken[again]), "it is not free");
        let last = slab.take().unwrap();
        slab.give_back(taken[again]);
        slab.give_back(last);
        assert_eq!((slab.cool(8), slab.warm()), (Ok(4), 2));
        let cold = taken.iter().filter(|c| ![taken[again], last].contains(c));
        for chunk in cold {
            assert!(!slab.take_again(*chunk), "it takes no memory");
        }
        assert!(slab.take_again(last) && slab.take_again(taken[again]));
        assert_eq!((slab.warm(), slab.in_use()), (0, 2));
    }
    let mut slab = ReceiveSlab::limited(&arena, 8);
    assert!([0, 7, 8, NONE].iter().all(|chunk| !slab.take_again(*chunk)));
}

/// Others have left their places among the free ones before, among those that were free for long, and
/// among those that were not.
#[test]
fn each_free_chunk_is_had_again_in_any_order() {
    const CHUNKS: u32 = 5;
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    for (long_free, first, step) in (0..=CHUNKS)
        .flat_map(|n| (0..CHUNKS).flat_map(move |first| (1..CHUNKS).map(move |s| (n, first, s))))
    {
        let mut slab = ReceiveSlab::limited(&arena, CHUNKS);
        let taken: Vec<u32> = (0..CHUNKS).map(|_| slab.take().unwrap()).collect();
        for (n, chunk) in (0..).zip(&taken) {
            if n == long_free {
                slab.note_free();
            }
            slab.give_back(*chunk);
        }
        for n in 0..CHUNKS {
            let chunk = taken[((first + n * step) % CHUNKS) as usize];
            assert!(
                slab.take_again(chunk),
                "{long_free} {first} {step}: {chunk}"
            );
        }
        assert!(!slab.has_free());
    }
}

proptest! {
    /// Chunks are taken and given back in any order, anyhow: each is one stream's alone.
    #[test]
    fn a_free_chunk_is_taken_once(steps in proptest::collection::vec((0u8..5, 0u32..9), 1..200)) {
        let arena = Arc::new(Arena::create(SMALL).unwrap());
        let mut slab = ReceiveSlab::limited(&arena, 8);
        let mut taken: Vec<u32> = Vec::new();
        for (step, chunk) in steps {
            let before = taken.len() as u32;
            match step {
                0 => taken.extend(slab.take()),
                1 => taken.extend(slab.take_again(chunk).then_some(chunk)),
                2 if !taken.is_empty() => {
                    slab.give_back(taken.swap_remove(chunk as usize % taken.len()));
                }
                3 => slab.note_free(),
                _ => drop(slab.cool(chunk as usize % 3)),
            }
            let is_full = step == 0 && before == 8;
            prop_assert!(taken.len() as u32 != before || step != 0 || is_full);
            let mut all = taken.clone();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!((all.len(), slab.in_use() as usize), (taken.len(), taken.len()));
            prop_assert!(slab.warm() <= 8 - taken.len());
        }
    }

    #[test]
    fn any_order_of_pieces_gives_the_stream(
        lens in proptest::collection::vec(1usize..30_000, 1..20),
        start in 0u64..1_000_000,
        order in any::<u64>(),
    ) {
        let geometry = Geometry { rcv_chunks: 64, ..SMALL };
        let arena = Arc::new(Arena::create(geometry).unwrap());
        let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 64), ReceiveStream::EMPTY);
        let mut pieces = Vec::new();
        let mut at = start;
        for len in lens {
            pieces.push(at..at + len as u64);
            at += len as u64;
        }
        let mut state = order | 1;
        for i in (1..pieces.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            pieces.swap(i, (state >> 33) as usize % (i + 1));
        }
        let data = pattern((at - start) as usize);
        for p in &pieces {
            let bytes = &data[(p.start - start) as usize..(p.end - start) as usize];
            stream.place(start, p.start, bytes, &mut slab, 3).unwrap();
        }
        prop_assert_eq!(read_back(&arena, 3, start..at), data);
        stream.consume(at, true, &mut slab);
        prop_assert_eq!(slab.in_use(), 0);
    }
}

/// Chunks for all entries of a stream's directory, and two more.
fn more_than_a_directory() -> (Arc<Arena>, ReceiveSlab) {
    let chunks = DIRECTORY as u32 + 2;
    let geometry = Geometry {
        rcv_chunks: chunks,
        ..SMALL
    };
    let arena = Arc::new(Arena::create(geometry).unwrap());
    let slab = ReceiveSlab::limited(&arena, chunks);
    (arena, slab)
}

/// Beyond that, a chunk's entry would be that of another.
#[test]
#[cfg_attr(miri, ignore = "there is too much memory for it")]
fn a_stream_reaches_no_further_than_its_directory() {
    let (arena, mut slab) = more_than_a_directory();
    let mut stream = ReceiveStream::EMPTY;
    let chunk = CHUNK as u64;
    // It begins at the end of a chunk, and may have as many bytes as there may be.
    let base = chunk - 1;
    let end = base + STREAM_MAX;
    stream.place(base, base, &[1], &mut slab, 5).unwrap();
    assert_eq!(stream.place(base, end, &[2], &mut slab, 5), Err(NoChunk));
    assert_eq!(stream.chunks(), 1);
    assert_eq!(stream.place(base, end - 1, &[2], &mut slab, 5), Ok(1));
    assert_eq!(stream.chunks(), DIRECTORY as u64);
    assert_eq!(read_back(&arena, 5, base..base + 1), [1]);
    // What lies before its first chunk is gone.
    stream.consume(2 * chunk + 1, false, &mut slab);
    assert_eq!(stream.place(0, chunk, &[3], &mut slab, 5), Err(NoChunk));
    assert_eq!(read_back(&arena, 5, end - 1..end), [2]);
}

/// Chunks that are consumed and were not given back yet keep their entries.
#[test]
#[cfg_attr(miri, ignore = "there is too much memory for it")]
fn no_entry_of_a_directory_is_that_of_two_chunks() {
    let (arena, mut slab) = more_than_a_directory();
    let mut stream = ReceiveStream::EMPTY;
    let chunk = CHUNK as u64;
    stream.place(0, 0, &[1], &mut slab, 5).unwrap();
    let (base, at) = (chunk + 1, DIRECTORY as u64 * chunk);
    assert_eq!(stream.place(base, at, &[2], &mut slab, 5), Err(NoChunk));
    assert_eq!(stream.chunks(), 1);
    assert_eq!(stream.place(base, at - 1, &[2], &mut slab, 5), Ok(1));
    assert_eq!(stream.chunks(), DIRECTORY as u64);
    assert_eq!(read_back(&arena, 5, 0..1), [1]);
}

/// Though there is a chunk for the first of them.
#[test]
fn bytes_that_do_not_all_find_room_are_not_placed() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 1), ReceiveStream::EMPTY);
    stream.place(0, 0, &[7; 100], &mut slab, 5).unwrap();
    let more = vec![9; CHUNK];
    assert_eq!(stream.place(0, 50, &more, &mut slab, 5), Err(NoChunk));
    assert_eq!(read_back(&arena, 5, 0..100), [7; 100]);
}

/// The one that was written to last may be before others, and is given back before them.
#[test]
fn there_is_no_room_in_a_chunk_that_was_given_back() {
    let arena = Arc::new(Arena::create(SMALL).unwrap());
    let (mut slab, mut stream) = (ReceiveSlab::limited(&arena, 8), ReceiveStream::EMPTY);
    let chunk = CHUNK as u64;
    stream.place(0, 2 * chunk, &[1; 10], &mut slab, 5).unwrap();
    stream.place(0, chunk, &[1; 10], &mut slab, 5).unwrap();
    assert!(stream.room_in_latest(chunk + 10, 1).is_some());
    stream.consume(chunk - 1, false, &mut slab);
    assert!(stream.room_in_latest(chunk + 10, 1).is_some());
    stream.consume(chunk, false, &mut slab);
    assert!(
        stream.room_in_latest(chunk + 10, 1).is_some(),
        "it is the first now"
    );
    stream.consume(2 * chunk, false, &mut slab);
    assert!(stream.room_in_latest(chunk + 10, 1).is_none());
    assert_eq!(stream.chunks(), 1);
}
