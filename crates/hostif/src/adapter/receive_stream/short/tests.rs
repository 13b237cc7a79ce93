//! What goes to the host in descriptors: who sees it, and whose memory it is meanwhile.

mod any_order;
mod bounds;

use crate::abi::{
    Agreed, BlockFlags, CHUNK, Completion, EdgeFlags, Edges, Features, Geometry, MOST_DATA,
    OpenFlags, RING, SocketId, SocketKind, SocketState,
};
use crate::adapter::session::small;
use crate::adapter::{AdapterSession, Placed, ReceiveStream, Subscribers};
use crate::host::{HostChannel, HostSession};
use crate::pattern::pattern;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FIRST: u16 = 3;
const SECOND: u16 = 4;

/// A session with a socket, and the ends of two processes.
struct Both {
    adapter: AdapterSession,
    host: HostSession,
    channels: [HostChannel; 2],
    stream: ReceiveStream,
    id: SocketId,
    edges: Edges,
}

impl Both {
    fn new() -> Self {
        Self::of(small())
    }

    fn of(mut adapter: AdapterSession) -> Self {
        let arena = Arc::clone(adapter.arena());
        let host = HostSession::of(&arena);
        let opened = host.open_block(0, SocketKind::Stream, OpenFlags::empty());
        let channels = [FIRST, SECOND].map(|channel| {
            adapter.open_channel(channel);
            HostChannel::new(Arc::clone(&arena), channel.into())
        });
        Self {
            adapter,
            host,
            channels,
            stream: ReceiveStream::EMPTY,
            id: opened.unwrap().unwrap(),
            edges: Edges::default(),
        }
    }

    /// Bytes arrive; whether they are held.
    fn arrive(&mut self, consumed: u64, bytes: &[u8]) -> bool {
        let at = self.edges.rcv_edge;
        let (slab, index) = (&mut self.adapter.receive, self.id.index);
        let held = self.stream.hold([consumed, at, at], bytes, slab, index);
        if !held {
            self.stream.place(consumed, at, bytes, slab, index).unwrap();
        }
        self.edges.rcv_edge += bytes.len() as u64;
        held
    }

    fn report(&mut self, to: &[u16]) -> Placed {
        let placed = self.stage(to);
        self.adapter.publish();
        placed
    }

    fn stage(&mut self, to: &[u16]) -> Placed {
        let mut all = Subscribers::NONE;
        to.iter().for_each(|channel| all.add(*channel));
        let (stream, id, edges) = (&mut self.stream, self.id, self.edges);
        self.adapter.put_stream_to(stream, &all, id, edges)
    }

    /// The process of the first or the second channel takes what there is, and says so if
    /// `done`: the edges that it was told last.
    fn take(&mut self, which: usize, done: bool) -> Option<Edges> {
        let channel = &mut self.channels[which];
        let mut last = None;
        while let Some(completion) = channel.get().unwrap() {
            if let Some(Completion::Edges { edges, .. }) = completion {
                let block = self.host.get_block(self.id.index).unwrap();
                block.rcv.edge.fetch_max(edges.rcv_edge, Ordering::AcqRel);
                last = Some(edges);
            }
        }
        if done {
            channel.release();
        }
        last
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut got = vec![0; len];
        self.host
            .copy_received(self.id.index, at, &mut got)
            .unwrap();
        got
    }

    fn consume(&mut self, consumed: u64, all: bool) {
        self.stream
            .consume(consumed, all, &mut self.adapter.receive);
    }
}

#[test]
fn what_is_told_to_one_process_crosses_once_with_its_descriptor() {
    for len in [1, 40, 41, 64, 104, 105, MOST_DATA] {
        let mut both = Both::new();
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        assert!(!both.stream.has_short());
        assert!(both.arrive(0, &bytes));
        assert!(both.stream.has_short());
        both.edges.flags = EdgeFlags::CONNECTED;
        assert_eq!(both.report(&[FIRST]), Placed::default());
        let meter = both.adapter.meter.to_host.moved();
        let words = 3 + len.div_ceil(8) as u64;
        assert_eq!((meter.transfers, meter.bytes), (1, 8 * words));
        assert_eq!(both.take(0, true), Some(both.edges));
        assert_eq!(both.read(0, len), bytes);
        both.consume(len as u64, true);
        assert_eq!(both.adapter.receive.in_use(), 0);
        assert_eq!(both.adapter.receive.held.in_use(), 0);
    }
}

/// Connections that ask in turn have their chunks again: which these are need not cross.
#[test]
fn what_comes_to_many_in_turn_is_told_without_their_directories() {
    let mut both = Both::new();
    let mut streams = [ReceiveStream::EMPTY, ReceiveStream::EMPTY];
    let mut written = [0; 4];
    for (round, count) in written.iter_mut().enumerate() {
        let at = 10 * round as u64;
        let slab = &mut both.adapter.receive;
        for (index, stream) in streams.iter_mut().enumerate() {
            assert!(stream.hold([at; 3], &[1; 10], slab, index as u32));
        }
        // The first to come is the first to go: the chunk that was given back last is the other's.
        for stream in &mut streams {
            stream.consume(at + 10, true, slab);
        }
        *count = slab.entries_written();
    }
    // New directories name the first chunk: of both sockets.
    assert_eq!(written, [1; 4]);
}

/// What goes on at the ring's beginning lies in two places.
#[test]
fn a_completion_across_the_end_of_the_ring_is_two_transfers() {
    let mut both = Both::new();
    let slots = 1 + (MOST_DATA - 40).div_ceil(64);
    let fill = RING / slots;
    for round in 0..=fill {
        let before = both.adapter.meter.to_host.moved().transfers;
        assert!(both.arrive(both.edges.rcv_edge, &[1; MOST_DATA]));
        both.report(&[FIRST]);
        let transfers = both.adapter.meter.to_host.moved().transfers - before;
        assert_eq!(transfers, if round == fill { 2 } else { 1 });
        both.take(0, true);
        let from = both.edges.rcv_edge - MOST_DATA as u64;
        assert_eq!(both.read(from, MOST_DATA), [1; MOST_DATA]);
        both.consume(both.edges.rcv_edge, true);
    }
}

/// A completion whose last slot is the ring's first is two transfers as well; one that begins
/// there is a transfer of its own, though others of its batch come before it.
#[test]
fn the_first_slot_of_the_ring_is_contiguous_with_nothing_before_it() {
    for (last, transfers) in [(vec![1; 41], 2), (vec![1; 40], 1)] {
        let mut both = Both::new();
        for _ in 1..RING {
            assert!(both.arrive(both.edges.rcv_edge, b"x"));
            both.report(&[FIRST]);
            both.take(0, true);
            both.consume(both.edges.rcv_edge, true);
        }
        let before = both.adapter.meter.to_host.moved().transfers;
        assert!(both.arrive(both.edges.rcv_edge, &last));
        both.stage(&[FIRST]);
        let staged = both.adapter.meter.to_host.moved().transfers;
        assert_eq!(staged - before, transfers);
        // In the same batch, the edges of another socket.
        let other = both
            .host
            .open_block(0, SocketKind::Stream, OpenFlags::empty());
        let (mut stream, id) = (ReceiveStream::EMPTY, other.unwrap().unwrap());
        let (slab, to) = (&mut both.adapter.receive, Subscribers::one(FIRST));
        assert!(stream.hold([0, 0, 0], b"y", slab, id.index));
        let edges = Edges {
            rcv_edge: 1,
            ..Edges::default()
        };
        both.adapter.put_stream_to(&mut stream, &to, id, edges);
        let both_staged = both.adapter.meter.to_host.moved().transfers;
        assert_eq!(both_staged - staged, 2 - transfers);
    }
}

#[test]
fn what_is_too_long_or_lies_in_two_chunks_is_placed() {
    let mut both = Both::new();
    assert!(!both.arrive(0, &[1; MOST_DATA + 1]));
    both.report(&[FIRST]);
    let rest = CHUNK - MOST_DATA - 1 - 10;
    assert!(!both.arrive(0, &vec![2; rest]));
    both.report(&[FIRST]);
    assert!(!both.arrive(0, &[3; 20]));
    both.report(&[FIRST]);
    // What grows too long was held, and is placed as one piece.
    assert!(both.arrive(0, &[4; MOST_DATA]) && !both.arrive(0, &[5; 1]));
    let placed = both.report(&[FIRST]);
    assert_eq!((placed.pieces, placed.bytes), (1, MOST_DATA as u64));
    both.take(0, true);
    let at = CHUNK as u64 + 10;
    let mut expected = vec![4; MOST_DATA];
    expected.push(5);
    assert_eq!(both.read(at, MOST_DATA + 1), expected);
}

#[test]
fn what_is_told_to_several_or_with_an_error_is_placed() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    assert_eq!(both.report(&[FIRST, SECOND]).bytes, 3);
    both.take(1, true);
    assert_eq!(both.read(0, 3), b"abc");
    assert!(both.arrive(0, b"def"));
    both.edges.flags = EdgeFlags::DEAD;
    both.edges.errno = 104;
    assert_eq!(both.report(&[FIRST]).bytes, 3);
    assert_eq!(both.take(0, true), Some(both.edges));
    assert_eq!(both.read(3, 3), b"def");
}

/// The first process was told, and takes it only after the second has read it and the memory
/// would be another connection's.
#[test]
fn a_process_that_takes_late_writes_to_nobody_elses_memory() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"secret"));
    both.report(&[FIRST]);
    // The second has the socket, too, and is told of all that there is.
    assert_eq!(both.report(&[FIRST, SECOND]).bytes, 6);
    both.take(1, true);
    assert_eq!(both.read(0, 6), b"secret");
    both.consume(6, true);
    assert_eq!(both.adapter.receive.in_use(), 0, "no stream has it");
    let before = both.adapter.receive.available();

    // All the memory that others can have is not where the first is to write.
    let mut other = ReceiveStream::EMPTY;
    let rest = before as usize * CHUNK;
    let theirs = vec![7; rest.min(crate::abi::STREAM_MAX as usize)];
    let index = both.id.index + 1;
    other
        .place(0, 0, &theirs, &mut both.adapter.receive, index)
        .unwrap();
    both.take(0, false);
    let mut got = vec![0; theirs.len()];
    both.host.copy_received(index, 0, &mut got).unwrap();
    assert_eq!(got, theirs);
    assert_eq!(both.adapter.receive.available(), 0);
    // Once it has taken it, its memory is everybody's.
    both.take(0, true);
    both.adapter.receive.note_free();
    assert_eq!(both.adapter.receive.available(), 1);
}

/// Not told more so, or it would keep ever more.
#[test]
fn a_process_that_withholds_memory_is_told_without_payload() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    both.report(&[FIRST]);
    both.report(&[FIRST, SECOND]);
    both.consume(3, true);
    assert!(both.arrive(3, b"def"));
    assert_eq!(both.report(&[FIRST]).bytes, 3);
    // The second is told so all the same.
    assert!(both.arrive(3, b"ghi"));
    assert_eq!(both.report(&[SECOND]).bytes, 0);
    // And the first, when it has taken what it was told.
    both.take(0, true);
    both.adapter.receive.note_free();
    both.consume(9, true);
    both.take(1, true);
    assert!(both.arrive(9, b"jkl"));
    assert_eq!(both.report(&[FIRST]).bytes, 0);
    both.take(0, true);
    assert_eq!(both.read(9, 3), b"jkl");
}

/// It has not taken what it was told, and no other process was told before.
#[test]
fn what_a_dead_process_was_told_is_there_for_the_next() {
    for reopened in [false, true] {
        let mut both = Both::new();
        assert!(both.arrive(0, b"for the child"));
        both.report(&[FIRST]);
        both.adapter.close_channel(FIRST);
        if reopened {
            // The next process has the same channel.
            both.adapter.open_channel(FIRST);
            let arena = Arc::clone(both.adapter.arena());
            let control = arena.control(FIRST.into());
            control.completions.reset();
            both.channels[0] = HostChannel::new(Arc::clone(&arena), FIRST.into());
        }
        let (to, which) = if reopened { (FIRST, 0) } else { (SECOND, 1) };
        assert_eq!(both.report(&[to]).bytes, 13);
        both.take(which, true);
        assert_eq!(both.read(0, 13), b"for the child");
        let all = both.adapter.receive.available();
        both.consume(13, true);
        assert_eq!(
            both.adapter.receive.available(),
            all + 1,
            "nobody writes it"
        );
    }
}

#[test]
fn a_ring_without_room_has_it_placed() {
    let mut both = Both::new();
    let other = SocketId {
        index: both.id.index + 1,
        generation: 1,
    };
    for _ in 0..RING {
        both.adapter.put_edges(FIRST, other, &Edges::default());
    }
    assert!(both.arrive(0, b"abc"));
    assert_eq!(both.report(&[FIRST]).bytes, 3);
    both.take(0, true);
    assert_eq!(
        both.adapter.channels.next_pending(FIRST),
        Some(both.id.index)
    );
    both.adapter.put_edges(FIRST, both.id, &both.edges);
    both.adapter.publish();
    assert_eq!(both.take(0, true), Some(both.edges));
    assert_eq!(both.read(0, 3), b"abc");
}

/// The socket is closed, and its block used again, while what came for it waits in the ring.
#[test]
fn what_comes_too_late_moves_nothing_of_the_next_socket() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    both.report(&[FIRST]);
    let all = both.adapter.receive.available();
    both.consume(0, true);
    assert_eq!(both.adapter.receive.available(), all, "it is still written");
    let arena = Arc::clone(both.adapter.arena());
    let block = arena.block(both.id.index);
    block.begin(SocketState::Open, BlockFlags::empty());
    let got = both.channels[0].get().unwrap().unwrap().unwrap();
    let Completion::Edges { socket, .. } = got else {
        panic!("{got:?}")
    };
    assert!(!block.is(socket));
    both.channels[0].release();
    both.adapter.receive.note_free();
    assert_eq!(both.adapter.receive.available(), all + 1);
}

/// How far the send stream is acknowledged crosses as its lower half.
#[test]
fn acknowledgments_beside_payload_are_whole() {
    let mut both = Both::new();
    let written = 7 << 32;
    let arena = Arc::clone(both.adapter.arena());
    let block = arena.block(both.id.index);
    block.snd.edge.store(written, Ordering::Release);
    for acked in [written - 5_000_000, written] {
        both.edges.snd_acked = acked;
        assert!(both.arrive(both.edges.rcv_edge, b"abc"));
        both.report(&[FIRST]);
        assert_eq!(both.take(0, true), Some(both.edges));
    }
    // Late, when another process has been told more and has written much since.
    assert!(both.arrive(both.edges.rcv_edge, b"abc"));
    both.report(&[FIRST]);
    block.rcv.edge.store(100, Ordering::Release);
    block.snd.edge.store(written * 2, Ordering::Release);
    assert_eq!(both.take(0, true).unwrap().snd_acked, 0);
}

/// A launcher may want all payload apart.
#[test]
fn a_session_without_immediate_data_gets_none() {
    let mut agreed = Agreed::OURS;
    agreed.features.remove(Features::IMMEDIATE_DATA);
    let signaler = Arc::new(longshore_ring::EventfdSignaler::for_one());
    let adapter = AdapterSession::create_for(Geometry::SMALL, agreed, signaler).unwrap();
    let mut both = Both::of(adapter);
    assert!(!both.arrive(0, b"abc"));
    assert_eq!(both.report(&[FIRST]), Placed::default());
    assert_eq!(both.take(0, true).map(|edges| edges.rcv_edge), Some(3));
}

/// Of many connections that keep what they were told, those that were taken make room.
#[test]
#[cfg_attr(miri, ignore = "it takes a minute there, and nothing is unsafe")]
fn the_number_that_is_kept_is_bounded() {
    let geometry = Geometry {
        sockets: 4096,
        rcv_chunks: 4096,
        ..Geometry::SMALL
    };
    let signaler = Arc::new(longshore_ring::EventfdSignaler::for_one());
    let mut adapter = AdapterSession::create(geometry, signaler).unwrap();
    adapter.open_channel(FIRST);
    let mut channel = HostChannel::new(Arc::clone(adapter.arena()), FIRST.into());
    let edges = Edges {
        rcv_edge: 1,
        ..Edges::default()
    };
    let mut streams: Vec<ReceiveStream> = Vec::new();
    for round in 0..3u32 {
        for i in 0..900 {
            let index = round * 900 + i;
            let mut stream = ReceiveStream::EMPTY;
            let slab = &mut adapter.receive;
            assert!(stream.hold([0, 0, 0], b"x", slab, index), "{index}");
            let socket = SocketId {
                index,
                generation: 1,
            };
            let to = Subscribers::one(FIRST);
            assert_eq!(
                adapter.put_stream_to(&mut stream, &to, socket, edges),
                Placed::default()
            );
            streams.push(stream);
        }
        adapter.publish();
        while channel.get().unwrap().is_some() {}
        channel.release();
    }
    for mut stream in streams {
        stream.consume(0, true, &mut adapter.receive);
    }
    assert_eq!(adapter.receive.in_use(), 0);
    assert_eq!(adapter.receive.available(), 4096);
}

/// Wherever it is kept: in chunks, before it is told, and while the process may not have taken it.
#[test]
fn the_adapter_reads_what_it_tells() {
    let mut both = Both::new();
    let copied = |both: &Both, at: u64, len: usize| {
        let mut to = vec![0; len];
        let found = both.stream.copy_out(at, &mut to, &both.adapter.receive);
        found.then_some(to)
    };
    let whole = pattern(CHUNK + 300);
    assert!(!both.arrive(0, &whole[..CHUNK + 100]));
    both.report(&[FIRST]);
    both.take(0, true);
    assert!(both.arrive(0, &whole[CHUNK + 100..]));
    let (at, across) = (CHUNK as u64 - 50, &whole[CHUNK - 50..]);
    for part in [across.len(), 140, 160] {
        assert_eq!(
            copied(&both, at, part).as_deref(),
            Some(&across[..part]),
            "it is held"
        );
    }
    both.report(&[FIRST]);
    assert_eq!(
        copied(&both, at, 350).as_deref(),
        Some(across),
        "it was told"
    );
    assert_eq!(
        copied(&both, CHUNK as u64 + 150, 150).as_deref(),
        Some(&whole[CHUNK + 150..])
    );
    both.consume(CHUNK as u64 + 50, false);
    assert_eq!(copied(&both, at, 350), None, "some of it is gone");
    assert_eq!(
        copied(&both, 2 * CHUNK as u64, 1),
        None,
        "nothing has come there"
    );
}
