//! What is on its way between two ends within the engine, by what their blocks say.

use super::*;
use crate::testing::Engine;
use longshore_hostif::SocketBlock;

/// A connection of which each end's block names the other, nothing written yet.
struct Within {
    engine: Engine,
    _directory: tempfile::TempDir,
    ends: [crate::native::Stream; 2],
}

impl Within {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let (a, b) = Engine::pair(engine.join());
        a.socket().block().set_other_end(b.socket().id().index);
        b.socket().block().set_other_end(a.socket().id().index);
        assert!(a.socket().is_within());
        Self {
            engine,
            _directory: directory,
            ends: [a, b],
        }
    }

    fn reader(&self) -> &Socket {
        self.ends[0].socket()
    }

    /// Another process may have the writer, too.
    fn share_writer(&self) {
        let writer = self.ends[1].socket();
        writer.host().held_sockets.set_count(writer.id(), 1);
    }

    /// The reader, as an end of it.
    fn end(&self) -> PairEnd<'_> {
        self.reader().pair_end()
    }

    /// The reader's block and the writer's.
    fn blocks(&self) -> [&SocketBlock; 2] {
        [self.reader().block(), self.ends[1].socket().block()]
    }
}

/// What the other end has written beyond what has arrived, and its end, which counts as one more.
#[test]
fn what_the_other_end_has_written_is_coming() {
    let none = BlockFlags::empty();
    let (shut, closed) = (BlockFlags::SHUT_WR, BlockFlags::CLOSED);
    let (fin, shut_rd) = (BlockFlags::PEER_FIN, BlockFlags::SHUT_RD);
    for (written, arrived, theirs, ours, expected) in [
        (0, 0, none, none, None),
        (10, 0, none, none, Some(10)),
        (10, 9, none, none, Some(10)),
        (10, 10, none, none, None),
        (10, 10, shut, none, Some(11)),
        (10, 10, closed, none, Some(11)),
        (10, 10, shut, fin, None),
        (10, 10, closed, shut_rd, None),
        (10, 5, shut, fin, Some(11)),
        (10, 10, none, fin, None),
    ] {
        let c = Within::new();
        let [here, there] = c.blocks();
        there.snd.edge.store(written, Ordering::Relaxed);
        here.rcv.edge.store(arrived, Ordering::Relaxed);
        there.set_flags(theirs);
        here.set_flags(ours);
        let what = (written, arrived, theirs, ours);
        assert_eq!(c.end().coming(), expected, "{what:?}");
        // Nothing is known of what is no connection, or of another one's end.
        here.set_state(SocketState::Dead);
        assert_eq!(c.end().coming(), None);
        here.set_state(SocketState::Connected);
        there.set_other_end(c.reader().id().index + 1);
        assert_eq!(c.end().coming(), None);
        there.set_other_end(c.reader().id().index);
        there.snd.edge.store(0, Ordering::Relaxed);
        here.rcv.edge.store(0, Ordering::Relaxed);
    }
}

/// The end of the other is coming to one that has said its own, until it is there.
#[test]
fn the_last_end_is_coming_until_it_is_here() {
    let none = BlockFlags::empty();
    let (shut, closed) = (BlockFlags::SHUT_WR, BlockFlags::CLOSED);
    let both = shut | BlockFlags::SHUT_RD;
    for (theirs, ours, expected) in [
        (shut, none, false),
        (none, shut, false),
        (shut, shut, true),
        (closed, shut, true),
        (shut, both, true),
        (shut, shut | BlockFlags::PEER_FIN, true),
        (
            shut | BlockFlags::PEER_FIN,
            shut | BlockFlags::PEER_FIN,
            false,
        ),
        (BlockFlags::SHUT_RD, shut, false),
    ] {
        let c = Within::new();
        let [here, there] = c.blocks();
        there.set_flags(theirs);
        here.set_flags(ours);
        assert_eq!(c.end().has_end_coming(), expected, "{theirs:?} {ours:?}");
        // What was sent before the end has to have gone first.
        here.snd.edge.store(1, Ordering::Relaxed);
        let is_going = ours.contains(BlockFlags::PEER_FIN);
        let expected = expected || is_going;
        assert_eq!(c.end().has_end_coming(), expected, "{theirs:?} {ours:?}");
        there.rcv.edge.store(1, Ordering::Relaxed);
        let has_all = theirs.contains(BlockFlags::PEER_FIN);
        assert_eq!(c.end().has_all_gone(), has_all, "{theirs:?} {ours:?}");
        here.snd.edge.store(0, Ordering::Relaxed);
        there.rcv.edge.store(0, Ordering::Relaxed);
        // Of another connection's end nothing comes here.
        there.set_other_end(c.reader().id().index + 1);
        assert!(!c.end().has_end_coming() && !c.end().has_all_gone());
        there.set_other_end(c.reader().id().index);
    }
}

/// More than before, and as much as a reader waits for.
#[test]
fn a_part_has_come_that_a_reader_would_read() {
    for (low_water, before, arrived, read, expected) in [
        (1, 0, 0, 0, false),
        (1, 0, 1, 0, true),
        (1, 5, 5, 0, false),
        (1, 5, 6, 6, false),
        (10, 0, 9, 0, false),
        (10, 0, 10, 0, true),
        (10, 0, 15, 6, false),
    ] {
        let c = Within::new();
        let [here, _] = c.blocks();
        here.rcv.low_water.store(low_water, Ordering::Relaxed);
        here.rcv.edge.store(arrived, Ordering::Relaxed);
        here.rcv.done.store(read, Ordering::Relaxed);
        let what = (low_water, before, arrived, read);
        assert_eq!(c.end().has_come_in_part(before), expected, "{what:?}");
        here.rcv.edge.store(0, Ordering::Relaxed);
        here.rcv.done.store(0, Ordering::Relaxed);
    }
}

/// Four times what the engine is to be told of is what it lets an end have unread.
#[test]
fn an_end_is_full_with_four_quarters() {
    for (quarter, arrived, reported, expected) in [
        (0, 1 << 20, 0, false),
        (100, 399, 0, false),
        (100, 400, 0, true),
        (100, 400, 1, false),
        (100, 500, 100, true),
        (100, 0, 100, false),
    ] {
        let c = Within::new();
        let [here, _] = c.blocks();
        here.unreported_limit.store(quarter, Ordering::Relaxed);
        here.rcv.edge.store(arrived, Ordering::Relaxed);
        here.rcv.reported.store(reported, Ordering::Relaxed);
        assert_eq!(
            c.end().is_full(),
            expected,
            "{quarter} {arrived} {reported}"
        );
        here.rcv.edge.store(0, Ordering::Relaxed);
        here.rcv.reported.store(0, Ordering::Relaxed);
    }
}

/// It is worth another look while something is coming, but not twice for the same that did not
/// come.
#[test]
fn what_does_not_come_is_waited_for_once() {
    let c = Within::new();
    c.share_writer();
    let [here, there] = c.blocks();
    assert!(!c.end().await_coming(), "nothing is coming");
    there.snd.edge.store(10, Ordering::Relaxed);
    let began = Instant::now();
    assert!(c.end().await_coming());
    assert!(began.elapsed() >= LONGEST);
    assert!(!c.end().await_coming());
    // So does a call that finds nothing, with MSG_OOB and without.
    there.snd.edge.store(11, Ordering::Relaxed);
    assert!(c.reader().urgent_data().recv(true).is_err());
    assert!(!c.end().await_coming());
    there.snd.edge.store(12, Ordering::Relaxed);
    assert!(c.reader().receive_stream().peek().is_err());
    assert!(!c.end().await_coming());
    // More is another matter, and so is a part of it: the rest is waited for shortly.
    there.snd.edge.store(20, Ordering::Relaxed);
    here.rcv.edge.store(15, Ordering::Relaxed);
    assert!(c.end().await_coming());
    assert!(!c.end().await_coming());
    here.rcv.edge.store(20, Ordering::Relaxed);
    assert!(!c.end().await_coming());
    there.snd.edge.store(0, Ordering::Relaxed);
    here.rcv.edge.store(0, Ordering::Relaxed);
}

/// An end reads no more once it is shut down for reading, closed, or another one's.
#[test]
fn an_end_that_reads_no_more_is_known_by_its_block() {
    let c = Within::new();
    let [here, there] = c.blocks();
    assert!(!c.end().has_lost_reader());
    for flag in [BlockFlags::SHUT_RD, BlockFlags::CLOSED] {
        there.set_flags(flag);
        assert!(c.end().has_lost_reader(), "{flag:?}");
        there.clear_flags(flag);
    }
    there.set_flags(BlockFlags::SHUT_WR);
    assert!(!c.end().has_lost_reader());
    // What comes to one that neither reads nor writes may reset it.
    let both = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR;
    here.set_flags(both);
    assert!(!c.end().has_lost_reader());
    there.snd.edge.store(2, Ordering::Relaxed);
    assert!(c.end().has_lost_reader());
    here.clear_flags(both);
    assert!(!c.end().has_lost_reader());
    there.snd.edge.store(0, Ordering::Relaxed);
    there.set_other_end(c.reader().id().index + 1);
    assert!(c.end().has_lost_reader());
    let alone = Engine::open(c.reader().host(), longshore_hostif::SocketKind::Stream);
    assert!(!alone.pair_end().has_lost_reader());
    assert!(here.other_end().is_some());
}

/// What the engine has told counts, and with what this process holds back it is not kept waiting.
#[test]
fn what_has_come_is_found_by_a_wait() {
    let c = Within::new();
    c.share_writer();
    let host = c.reader().host();
    let [here, there] = c.blocks();
    c.ends[1].write_all(&[7; 15]).unwrap();
    c.engine.wait_until("it has told of it", |_| {
        host.session.has_completions(host.own_channel())
    });
    assert_eq!(here.rcv.held(), 0);
    let request = host.edges(here, c.reader().id(), longshore_hostif::EdgeFlags::MORE);
    host.messages().report_written(&request, 0).unwrap();
    // Five more bytes do not come: for the rest it waits shortly, and not in vain.
    there.snd.edge.store(20, Ordering::Relaxed);
    let began = Instant::now();
    assert!(c.end().await_coming());
    assert!(began.elapsed() >= LONGEST_FOR_REST);
    assert_eq!(here.rcv.held(), 15);
    assert!(!host.channel.holds());
    assert!(c.end().await_coming());
    assert!(!c.end().await_coming());
    there.snd.edge.store(15, Ordering::Relaxed);
}

#[test]
fn nothing_comes_from_an_engine_that_is_gone() {
    let mut c = Within::new();
    // Else it would be taken to be held back.
    c.share_writer();
    let [_, there] = c.blocks();
    there.snd.edge.store(10, Ordering::Relaxed);
    c.engine.stop();
    c.reader().host().look_at_engine();
    assert!(!c.end().await_coming());
    let [_, there] = c.blocks();
    there.snd.edge.store(0, Ordering::Relaxed);
}

/// What the writer, whom no other process has, holds back is not waited for once the engine has
/// handled all that this process has published: a program that looks gets its answer at once.
#[test]
fn what_is_held_back_is_not_waited_for() {
    let c = Within::new();
    let [here, there] = c.blocks();
    for written in 1..=5 {
        there.snd.edge.store(written, Ordering::Relaxed);
        let began = Instant::now();
        assert!(!c.end().await_coming());
        assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    }
    // A whole piece is not held back, nor is what comes before an end.
    there.snd.edge.store(HELD_BACK, Ordering::Relaxed);
    assert!(!c.end().is_held_back());
    here.rcv.edge.store(1, Ordering::Relaxed);
    assert!(c.end().is_held_back());
    there.set_flags(BlockFlags::SHUT_WR);
    assert!(!c.end().is_held_back());
    there.clear_flags(BlockFlags::SHUT_WR);
    c.share_writer();
    assert!(!c.end().is_held_back(), "another process may have written");
    there.snd.edge.store(0, Ordering::Relaxed);
    here.rcv.edge.store(0, Ordering::Relaxed);
}
