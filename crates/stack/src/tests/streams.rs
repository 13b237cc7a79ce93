//! A program's access to the memory of its streams, as the host's half of the interface has
//! it: chunks of send streams taken, filled and given back, receive streams copied out.
//! `program` and `datagrams` call it.

use longshore_hostif::{Arena, CHUNK, HeldFile, HostSession, LEAST_FORWARD, chunk_of};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Writes `bytes` to the send stream of socket `index`, which reaches to `from`, as far as
/// there is memory; says how far it reaches now.
pub(super) fn append(arena: &Arena, index: u32, from: u64, bytes: &[u8]) -> u64 {
    let directory = arena.snd_directory(index);
    let half = &arena.block(index).snd;
    let lock = half.lock_to_send().unwrap();
    let (mut at, mut rest) = (from, bytes);
    // The stack takes chunks back that are done with.
    let mut has_none = half.unreturned().is_empty();
    while !rest.is_empty() {
        let number = at / CHUNK as u64;
        if std::mem::take(&mut has_none) || at.is_multiple_of(CHUNK as u64) {
            let Some(chunk) = arena.take_snd_chunk().unwrap() else {
                break;
            };
            directory.entry(number).store(chunk, Ordering::Release);
        }
        let within = (at % CHUNK as u64) as usize;
        let (now, later) = rest.split_at(rest.len().min(CHUNK - within));
        let chunk = chunk_of(directory.entry(number).load(Ordering::Acquire));
        let place = arena.snd_place(chunk, within, now.len());
        arena.memory().write(place.unwrap(), now);
        at += now.len() as u64;
        rest = later;
    }
    half.edge.store(at, Ordering::Release);
    drop(lock);
    at
}

/// Appends a file that has these bytes, by ranges, or as bytes where little is left of a chunk;
/// says how far the stream reaches now.
pub(super) fn append_file(
    arena: &Arena,
    host: &HostSession,
    index: u32,
    from: u64,
    (file, content): (&HeldFile<'_>, &[u8]),
) -> u64 {
    let directory = arena.snd_directory(index);
    let half = &arena.block(index).snd;
    let lock = half.lock_to_send().unwrap();
    let (mut at, mut done) = (from, 0);
    while done < content.len() {
        let (number, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
        if within == 0 {
            let chunk = arena.take_snd_chunk().unwrap().expect("there is memory");
            directory.entry(number).store(chunk, Ordering::Release);
        }
        let len = (content.len() - done).min(CHUNK - within);
        let span = (number, within, len);
        if !host.ranges(index).write(span, file, done as u64).unwrap() {
            let chunk = chunk_of(directory.entry(number).load(Ordering::Acquire));
            let place = arena.snd_place(chunk, within, len).unwrap();
            arena.memory().write(place, &content[done..done + len]);
        }
        (at, done) = (at + len as u64, done + len);
    }
    half.edge.store(at, Ordering::Release);
    drop(lock);
    at
}

/// Has the send stream of socket `index`, which reaches to `at`, go on with what `source` names,
/// a socket and how far of its receive stream comes before: `len` bytes, or as far as there is
/// memory for the chunks; says how far it reaches now.
pub(super) fn forward(
    arena: &Arc<Arena>,
    (index, at): (u32, u64),
    source: (u32, u64),
    len: u64,
) -> u64 {
    let directory = arena.snd_directory(index);
    let half = &arena.block(index).snd;
    let lock = half.lock_to_send().unwrap();
    let mut has_none = half.unreturned().is_empty();
    let (mut end, mut taken) = (at, None);
    while end < at + len {
        let number = end / CHUNK as u64;
        if std::mem::take(&mut has_none) || end.is_multiple_of(CHUNK as u64) {
            let Some(chunk) = arena.take_snd_chunk().unwrap() else {
                break;
            };
            directory.entry(number).store(chunk, Ordering::Release);
            taken = Some(chunk);
        }
        end = ((number + 1) * CHUNK as u64).min(at + len);
    }
    if end - at < LEAST_FORWARD {
        // No other was taken, or there would be more.
        if let Some(chunk) = taken {
            arena.give_snd_chunk(chunk).unwrap();
        }
        return at;
    }
    let host = HostSession::of(arena);
    let written = host
        .ranges(index)
        .write_forwarded(at, source, (end - at) as usize);
    assert!(written.unwrap().is_some());
    half.edge.store(end, Ordering::Release);
    drop(lock);
    end
}

/// Gives the chunks of a send stream back all of whose bytes were acknowledged, from chunk
/// `first` on; the first that it has now.
pub(super) fn give_back(arena: &Arena, index: u32, first: u64, acknowledged: u64) -> u64 {
    let half = &arena.block(index).snd;
    let _lock = half.lock_to_send().unwrap();
    let chunk = CHUNK as u64;
    let from = first.max(half.returned.load(Ordering::Acquire) / chunk);
    let to = acknowledged / chunk;
    half.returned.fetch_max(to * chunk, Ordering::AcqRel);
    let directory = arena.snd_directory(index);
    for number in from..to {
        let chunk = chunk_of(directory.entry(number).load(Ordering::Acquire));
        arena.give_snd_chunk(chunk).unwrap();
    }
    from.max(to)
}

/// Copies the receive stream of socket `index` from offset `at` on.
pub(super) fn copy_out(arena: &Arena, index: u32, at: u64, to: &mut [u8]) {
    let directory = arena.rcv_directory(index);
    let (mut at, mut rest) = (at, to);
    while !rest.is_empty() {
        let here = rest.len().min(CHUNK - at as usize % CHUNK);
        let (now, later) = rest.split_at_mut(here);
        let entry = directory.entry(at / CHUNK as u64).load(Ordering::Acquire);
        let place = arena.received_place(entry, at as usize % CHUNK, here);
        arena.memory().read(place.unwrap(), now);
        at += here as u64;
        rest = later;
    }
}
