//! Bytes of a receive stream that stay where another socket of the session has written them.
//!
//! Methods of [`ReceiveStream`], called for connections within the engine, whose bytes need not be
//! copied.

use super::{NoChunk, ReceiveStream};
use crate::abi::{chunk_of, lent_chunk, lent_entry};
use crate::adapter::receive_slab::ReceiveSlab;
use crate::adapter::send_streams::SendStreams;
use crate::adapter::spans::spans;
use longshore_ring::NONE;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// These bytes can only be copied: they are in a file, in no chunk that there is, or belong in
/// a chunk in which this stream has others; or the two sockets are of two sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotLent;

impl ReceiveStream {
    /// Has the host of socket `index` read bytes `range` of its receive stream where socket
    /// `from` of the same session has written those of its send stream. The caller sees to it
    /// that nobody is told before they were consumed that these are done with.
    ///
    /// # Errors
    /// [`NotLent`]; then nothing has changed.
    pub fn lend(
        &mut self,
        range: &Range<u64>,
        (streams, from): (&SendStreams, u32),
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<(), NotLent> {
        let arena = slab.arena.clone();
        if !(arena.lends_chunks() && Arc::ptr_eq(&streams.arena, &arena)) {
            return Err(NotLent);
        }
        let written = arena.snd_directory(from);
        let chunk = |number: u64| {
            let entry = written.entry(number).load(Ordering::Acquire);
            let is_plain = chunk_of(entry) == entry && arena.snd_place(entry, 0, 0).is_some();
            (is_plain && !self.reaches(number)).then_some(entry)
        };
        // What the other side has there may change: it is looked at once.
        let mut found = [NONE; 2];
        for (slot, (number, ..)) in spans(range.clone()).enumerate() {
            *found.get_mut(slot).ok_or(NotLent)? = chunk(number).ok_or(NotLent)?;
        }
        for ((number, ..), chunk) in spans(range.clone()).zip(found) {
            self.entries += slab.enter(index, number, lent_entry(chunk));
        }
        Ok(())
    }

    /// Copies bytes `range` of it, which are lent and not consumed, to chunks of its own, so
    /// that what follows can be placed there. What the host has found before stays where it was:
    /// the caller sees to it that it is not done with before it was consumed.
    ///
    /// # Errors
    /// [`NoChunk`]; what was copied before that is found in its own chunks.
    pub fn keep_lent(
        &mut self,
        range: &Range<u64>,
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<(), NoChunk> {
        let arena = slab.arena.clone();
        for (number, within, len) in spans(range.clone()) {
            if self.reaches(number) {
                continue;
            }
            let follows = self.head == NONE || self.last + 1 == number;
            let entry = arena.rcv_directory(index).entry(number);
            let lent = lent_chunk(entry.load(Ordering::Acquire));
            // The host may have written over its directory.
            let from = lent.and_then(|chunk| arena.snd_place(chunk, within, len));
            let from = from.filter(|_| follows).ok_or(NoChunk)?;
            let chunk = slab.take().ok_or(NoChunk)?;
            let Some(to) = arena.rcv_place(chunk, within, len) else {
                slab.give_back(chunk);
                return Err(NoChunk);
            };
            arena.memory().copy_to(from, len, arena.memory(), to);
            if self.head == NONE {
                (self.head, self.first) = (chunk, number);
            } else {
                slab.set_link(self.tail, chunk);
            }
            (self.tail, self.last, self.latest) = (chunk, number, None);
            self.entries += slab.enter(index, number, chunk);
        }
        Ok(())
    }

    /// Whether it has a chunk of its own with this number or a later one.
    fn reaches(&self, number: u64) -> bool {
        self.head != NONE && number <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{
        Agreed, CHUNK, Features, Geometry, OpenFlags, SocketId, SocketKind, with_ranges,
    };
    use crate::adapter::AdapterSession;
    use crate::host::HostSession;
    use crate::pattern::pattern;
    use longshore_ring::EventfdSignaler;

    fn session(agreed: Agreed) -> (AdapterSession, HostSession, [SocketId; 2]) {
        let signaler = Arc::new(EventfdSignaler::for_one());
        let adapter = AdapterSession::create_for(Geometry::SMALL, agreed, signaler).unwrap();
        let host = HostSession::of(adapter.arena());
        let open = || {
            let opened = host.open_block(0, SocketKind::Stream, OpenFlags::empty());
            opened.unwrap().unwrap()
        };
        let ids = [open(), open()];
        (adapter, host, ids)
    }

    #[test]
    fn what_one_socket_wrote_another_reads_there() {
        let (mut adapter, host, [from, to]) = session(Agreed::OURS);
        let bytes = pattern(2 * CHUNK);
        host.append(from.index, &bytes).unwrap();
        let mut stream = ReceiveStream::EMPTY;
        let entries = adapter.receive.entries_written();
        for range in [100..CHUNK as u64 + 9, CHUNK as u64 + 9..2 * CHUNK as u64] {
            let source = (&adapter.send, from.index);
            let slab = &mut adapter.receive;
            assert_eq!(stream.lend(&range, source, slab, to.index), Ok(()));
        }
        assert_eq!(adapter.receive.entries_written(), entries + 2);
        assert_eq!(stream.entries_written().transfers, 2);
        assert_eq!(adapter.receive.in_use(), 0);
        let mut got = vec![0; 2 * CHUNK - 100];
        host.copy_received(to.index, 100, &mut got).unwrap();
        assert!(got == bytes[100..]);
    }

    /// What was lent is kept, and goes on in the same chunk.
    #[test]
    fn what_was_lent_is_kept_where_more_can_be_placed() {
        let (mut adapter, host, [from, to]) = session(Agreed::OURS);
        let bytes = pattern(2 * CHUNK);
        host.append(from.index, &bytes).unwrap();
        let mut stream = ReceiveStream::EMPTY;
        let slab = &mut adapter.receive;
        let chunk = CHUNK as u64;
        let lent = 0..chunk + 9;
        let source = (&adapter.send, from.index);
        assert_eq!(stream.lend(&lent, source, slab, to.index), Ok(()));
        // The first 50 bytes are consumed.
        assert_eq!(stream.keep_lent(&(50..lent.end), slab, to.index), Ok(()));
        assert_eq!(stream.entries_written().transfers, 4);
        assert_eq!((stream.chunks(), slab.in_use()), (2, 2));
        let more = &bytes[lent.end as usize..];
        stream.place(50, lent.end, more, slab, to.index).unwrap();
        let mut got = vec![0; 2 * CHUNK - 50];
        host.copy_received(to.index, 50, &mut got).unwrap();
        assert!(got == bytes[50..]);
        stream.consume(2 * chunk, true, &mut adapter.receive);
        assert_eq!(adapter.receive.in_use(), 0);
    }

    #[test]
    fn what_a_host_has_written_over_is_not_kept() {
        let (mut adapter, host, [from, to]) = session(Agreed::OURS);
        host.append(from.index, &vec![1; 2 * CHUNK]).unwrap();
        let mut stream = ReceiveStream::EMPTY;
        let source = (&adapter.send, from.index);
        let slab = &mut adapter.receive;
        let all = 0..2 * CHUNK as u64;
        assert_eq!(stream.lend(&all, source, slab, to.index), Ok(()));
        let arena = adapter.arena().clone();
        let entry = arena.rcv_directory(to.index).entry(1);
        for forged in [0, lent_entry(Geometry::SMALL.snd_chunks)] {
            entry.store(forged, Ordering::Relaxed);
            let kept = stream.keep_lent(&all, &mut adapter.receive, to.index);
            assert_eq!(kept, Err(NoChunk));
            assert_eq!(stream.chunks(), u64::from(adapter.receive.in_use()));
        }
        stream.consume(0, true, &mut adapter.receive);
        assert_eq!(adapter.receive.in_use(), 0);
    }

    /// Where a stream has a chunk of its own, the host finds its bytes there.
    #[test]
    fn nothing_is_lent_over_what_was_copied() {
        let (mut adapter, host, [from, to]) = session(Agreed::OURS);
        host.append(from.index, &vec![1; 2 * CHUNK]).unwrap();
        let mut stream = ReceiveStream::EMPTY;
        let slab = &mut adapter.receive;
        stream.place(0, 0, &[1; 10], slab, to.index).unwrap();
        let source = (&adapter.send, from.index);
        let mut lend = |range, slab: &mut _| stream.lend(&range, source, slab, to.index);
        let chunk = CHUNK as u64;
        assert_eq!(lend(10..chunk + 1, slab), Err(NotLent));
        assert_eq!(lend(10..11, slab), Err(NotLent));
        assert_eq!(lend(chunk..chunk + 1, slab), Ok(()));
    }

    #[test]
    fn what_a_forged_directory_names_is_not_lent() {
        let (mut adapter, _, [from, to]) = session(Agreed::OURS);
        let arena = adapter.arena().clone();
        let entry = arena.snd_directory(from.index).entry(0);
        let mut stream = ReceiveStream::EMPTY;
        let chunks = Geometry::SMALL.snd_chunks;
        for forged in [chunks, lent_entry(0), u32::MAX, with_ranges(1, 0)] {
            entry.store(forged, Ordering::Relaxed);
            let source = (&adapter.send, from.index);
            let lent = stream.lend(&(0..10), source, &mut adapter.receive, to.index);
            assert_eq!(lent, Err(NotLent), "{forged:#x}");
        }
        assert_eq!(adapter.receive.entries_written(), 0);
        // A host refuses what a forged entry of the other side names as well.
        assert!(arena.received_place(lent_entry(chunks), 0, 1).is_none());
        assert!(arena.received_place(lent_entry(0), CHUNK, 1).is_none());
    }

    #[test]
    fn nothing_is_lent_to_another_session_or_to_programs_that_do_not_know() {
        let without = Agreed {
            features: Features::empty(),
            ..Agreed::OURS
        };
        let (mut old, host, [from, to]) = session(without);
        host.append(from.index, &[1; 10]).unwrap();
        let mut stream = ReceiveStream::EMPTY;
        let source = (&old.send, from.index);
        let lent = stream.lend(&(0..10), source, &mut old.receive, to.index);
        assert_eq!(lent, Err(NotLent));
        let (one, host, [from, _]) = session(Agreed::OURS);
        host.append(from.index, &[1; 10]).unwrap();
        let (mut two, _, [_, to]) = session(Agreed::OURS);
        let source = (&one.send, from.index);
        let lent = stream.lend(&(0..10), source, &mut two.receive, to.index);
        assert_eq!(lent, Err(NotLent));
    }
}
