//! Bytes arrive, are told to one of two processes or to both, taken and read in any order: each
//! process reads what was sent, and in the end all memory is free.

use super::{Both, FIRST, SECOND};
use crate::abi::{CHUNK, Edges, Geometry, MOST_DATA};
use crate::adapter::AdapterSession;
use longshore_ring::EventfdSignaler;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that may wait to be read.
const WINDOW: u64 = 2 * CHUNK as u64;

/// Memory for them wherever they begin, and for a chunk that each of the two processes may still
/// write to.
const GEOMETRY: Geometry = Geometry {
    rcv_chunks: 3 + 2,
    ..Geometry::SMALL
};

#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive(usize),
    Tell(&'static [u16]),
    Take { which: usize, done: bool },
    Read(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1..100usize, 1..=2 * MOST_DATA, 10_000..=CHUNK];
    let whom = prop_oneof![
        4 => Just(&[FIRST][..]),
        1 => Just(&[SECOND][..]),
        1 => Just(&[FIRST, SECOND][..])
    ];
    prop_oneof![
        3 => len.prop_map(Step::Arrive),
        3 => whom.prop_map(Step::Tell),
        3 => (0..2usize, any::<bool>()).prop_map(|(which, done)| Step::Take { which, done }),
        2 => (1..=WINDOW).prop_map(Step::Read),
    ]
}

/// What the stream has at this place.
fn sent(at: u64) -> u8 {
    (at % 251) as u8
}

/// The two sides, and how far the stream was told and read.
struct Run {
    both: Both,
    reported: u64,
    read: u64,
}

impl Run {
    fn new() -> Self {
        let signaler = Arc::new(EventfdSignaler::for_one());
        let adapter = AdapterSession::create(GEOMETRY, signaler).expect("a session");
        Self {
            both: Both::of(adapter),
            reported: 0,
            read: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(len) => self.arrive(len),
            Step::Tell(whom) => {
                self.both.report(whom);
                self.reported = self.both.edges.rcv_edge;
            }
            Step::Take { which, done } => {
                self.both.take(which, done);
                if done {
                    self.both.adapter.receive.note_free();
                }
            }
            Step::Read(most) => self.read(most),
        }
    }

    fn arrive(&mut self, len: usize) {
        let (at, both) = (self.both.edges.rcv_edge, &mut self.both);
        if at + len as u64 - self.read > WINDOW {
            return;
        }
        let bytes: Vec<u8> = (at..at + len as u64).map(sent).collect();
        let (slab, index) = (&mut both.adapter.receive, both.id.index);
        let places = [self.read, self.reported, at];
        if !both.stream.hold(places, &bytes, slab, index) {
            let placed = both.stream.place(self.read, at, &bytes, slab, index);
            placed.expect("memory for a window");
        }
        both.edges.rcv_edge += len as u64;
    }

    /// Whoever has taken what the other was not told of reads it as well.
    fn read(&mut self, most: u64) {
        let both = &mut self.both;
        let block = both.host.get_block(both.id.index).expect("a block");
        let edge = block.rcv.edge.load(Ordering::Acquire);
        let len = (edge - self.read).min(most);
        let got = both.read(self.read, len as usize);
        let expected = (self.read..self.read + len).map(sent);
        assert!(expected.eq(got), "{len} bytes from {}", self.read);
        self.read += len;
        both.consume(self.read, self.read == both.edges.rcv_edge);
    }

    /// Both are told of all, and take it.
    fn end(&mut self) {
        self.step(Step::Tell(&[FIRST, SECOND]));
        for (which, channel) in [FIRST, SECOND].into_iter().enumerate() {
            self.both.take(which, true);
            // There may have been no room.
            if self.both.adapter.channels.next_pending(channel).is_some() {
                let (id, edges): (_, Edges) = (self.both.id, self.both.edges);
                assert!(self.both.adapter.put_edges(channel, id, &edges));
                self.both.adapter.publish();
                self.both.take(which, true);
            }
        }
        self.read(u64::MAX);
        self.both.adapter.receive.note_free();
    }
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes there, and nothing is unsafe")]
    fn each_process_reads_what_was_sent(steps in proptest::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        let all = run.both.adapter.receive.available();
        for step in steps {
            run.step(step);
        }
        run.end();
        prop_assert_eq!(run.read, run.both.edges.rcv_edge);
        // The last stretch is let go with the next bytes, or the socket.
        run.both.consume(run.read, true);
        prop_assert_eq!(run.both.adapter.receive.in_use(), 0);
        prop_assert_eq!(run.both.adapter.receive.available(), all);
        prop_assert_eq!(run.both.adapter.receive.held.in_use(), 0);
    }
}

/// Each takes late what it was told, when the other has read it: neither chunk is used before, and
/// there is memory for a window that lies in three others.
#[test]
fn each_process_keeps_one_chunk_from_others_at_most() {
    let mut run = Run::new();
    let all = run.both.adapter.receive.available();
    for (told, other, which, more) in [(SECOND, FIRST, 0, 0), (FIRST, SECOND, 1, 10_000)] {
        run.step(Step::Arrive(1));
        run.both.report(&[told]);
        run.reported = run.both.edges.rcv_edge;
        if more != 0 {
            run.step(Step::Arrive(more));
        }
        run.both.report(&[other]);
        run.reported = run.both.edges.rcv_edge;
        run.step(Step::Take { which, done: false });
        run.step(Step::Read(WINDOW));
    }
    assert_eq!(run.both.adapter.receive.available(), all - 2);
    let begin = run.both.edges.rcv_edge;
    for len in [CHUNK, CHUNK - 1] {
        run.step(Step::Arrive(len));
    }
    assert_eq!(run.both.edges.rcv_edge, begin + WINDOW - 1);
    run.end();
    run.both.consume(run.read, true);
    assert_eq!(run.both.adapter.receive.available(), all);
}
