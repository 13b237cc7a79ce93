//! Two processes that are told the same.

use super::*;
use crate::testing::fixture::SMALL;
use longshore_hostif::Arena;

struct Shared {
    arena: Arena,
    id: SocketId,
}

impl Shared {
    fn new(state: SocketState) -> Self {
        let arena = Arena::create(SMALL).expect("an arena");
        let generation = arena.block(1).begin(state, BlockFlags::empty());
        let id = SocketId {
            index: 1,
            generation,
        };
        Self { arena, id }
    }

    fn block(&self) -> &SocketBlock {
        self.arena.block(1)
    }

    fn reported(&self, process: &mut ReportedEdges, edges: Edges) -> bool {
        process.apply(self.id, self.block(), &edges, Having::Shared)
    }
}

fn edges(rcv_edge: u64, flags: EdgeFlags) -> Edges {
    Edges {
        rcv_edge,
        snd_acked: 0,
        flags,
        errno: 0,
        rcv_urgent: 0,
    }
}

#[test]
fn what_one_process_applied_is_news_to_the_next() {
    let shared = Shared::new(SocketState::Connected);
    let (mut first, mut second) = (ReportedEdges::new(64), ReportedEdges::new(64));
    for (rcv_edge, flags) in [(10, EdgeFlags::empty()), (20, EdgeFlags::PEER_FIN)] {
        assert!(shared.reported(&mut first, edges(rcv_edge, flags)));
        assert!(shared.reported(&mut second, edges(rcv_edge, flags)));
        assert!(
            !shared.reported(&mut first, edges(rcv_edge, flags)),
            "twice"
        );
    }
    assert_eq!(shared.block().rcv.edge.load(Ordering::Relaxed), 20);
}

#[test]
fn what_another_process_has_read_already_is_no_news() {
    let shared = Shared::new(SocketState::Connected);
    let (mut first, mut second) = (ReportedEdges::new(64), ReportedEdges::new(64));
    assert!(shared.reported(&mut first, edges(10, EdgeFlags::empty())));
    shared.block().rcv.done.store(10, Ordering::Relaxed);
    assert!(!shared.reported(&mut second, edges(10, EdgeFlags::empty())));
}

#[test]
fn a_death_is_told_to_all() {
    let shared = Shared::new(SocketState::Connected);
    let (mut first, mut second) = (ReportedEdges::new(64), ReportedEdges::new(64));
    let dead = Edges {
        errno: 104,
        ..edges(0, EdgeFlags::DEAD)
    };
    assert!(shared.reported(&mut first, dead));
    assert!(shared.reported(&mut second, dead));
    assert_eq!(shared.block().state(), SocketState::Dead);
    assert_eq!(shared.block().errno.load(Ordering::Relaxed), 104);
}

#[test]
fn a_new_socket_in_the_same_place_begins_anew() {
    let shared = Shared::new(SocketState::Connected);
    let mut process = ReportedEdges::new(64);
    assert!(shared.reported(&mut process, edges(50, EdgeFlags::PEER_FIN)));
    let block = shared.block();
    let id = SocketId {
        index: 1,
        generation: block.begin(SocketState::Connected, BlockFlags::empty()),
    };
    assert!(process.apply(id, block, &edges(5, EdgeFlags::empty()), Having::Alone));
}

#[test]
fn who_does_not_have_it_leaves_the_wish_for_room() {
    let shared = Shared::new(SocketState::Connected);
    let block = shared.block();
    block.snd.edge.store(1 << 20, Ordering::Relaxed);
    crate::block_words::want_room(block);
    let acked = Edges {
        snd_acked: 1 << 20,
        ..edges(0, EdgeFlags::empty())
    };
    assert!(!ReportedEdges::new(64).apply(shared.id, block, &acked, Having::Not));
    assert!(ReportedEdges::new(64).apply(shared.id, block, &acked, Having::Alone));
}

#[test]
fn a_half_that_another_process_shut_is_news_once() {
    let shared = Shared::new(SocketState::Connected);
    let mut process = ReportedEdges::new(64);
    let nothing = edges(0, EdgeFlags::empty());
    assert!(!shared.reported(&mut process, nothing));
    shared.block().set_flags(BlockFlags::SHUT_RD);
    assert!(shared.reported(&mut process, nothing));
    assert!(!shared.reported(&mut process, nothing));
}

#[test]
fn a_listener_that_another_process_has_stopped_is_news() {
    let shared = Shared::new(SocketState::Listening);
    let (block, mut process) = (shared.block(), ReportedEdges::new(64));
    assert!(!shared.reported(&mut process, edges(0, EdgeFlags::empty())));
    let more = block.more_bits();
    more.fetch_or(more_bits::HAS_LISTENED, Ordering::Relaxed);
    assert!(!shared.reported(&mut process, edges(0, EdgeFlags::empty())));
    block.set_state(SocketState::Open);
    assert!(shared.reported(&mut process, edges(0, EdgeFlags::empty())));
    // One that never listened has not stopped.
    more.fetch_and(!more_bits::HAS_LISTENED, Ordering::Relaxed);
    assert!(!shared.reported(&mut process, edges(0, EdgeFlags::empty())));
}

/// Two reasons to look are no fewer than one.
#[test]
fn what_is_news_in_two_ways_is_news() {
    let having = Having::Shared;
    for (state, flags, shut) in [
        (SocketState::Connected, EdgeFlags::empty(), false),
        (SocketState::Connected, EdgeFlags::empty(), true),
        (SocketState::Connected, EdgeFlags::PEER_FIN, false),
        (SocketState::Connecting, EdgeFlags::CONNECTED, false),
        (SocketState::Connected, EdgeFlags::DEAD, false),
        (
            SocketState::Connecting,
            EdgeFlags::PEER_FIN.union(EdgeFlags::CONNECTED),
            true,
        ),
    ] {
        let shared = Shared::new(state);
        let block = shared.block();
        block.snd.edge.store(10, Ordering::Relaxed);
        crate::block_words::want_room(block);
        if shut {
            block.set_flags(BlockFlags::SHUT_WR);
        }
        let all = Edges {
            snd_acked: 10,
            ..edges(10, flags)
        };
        let mut process = ReportedEdges::new(64);
        assert!(process.apply(shared.id, block, &all, having), "{flags:?}");
        let without_room = Edges {
            rcv_edge: 11,
            ..all
        };
        assert!(process.apply(shared.id, block, &without_room, having));
    }
}

/// A connection that comes about is news, however it began; and to a process that is told of it
/// after another one.
#[test]
fn a_connection_that_comes_about_is_news() {
    let connected = edges(0, EdgeFlags::CONNECTED);
    for begun in [SocketState::Connecting, SocketState::Early] {
        let shared = Shared::new(begun);
        let (mut first, mut second) = (ReportedEdges::new(64), ReportedEdges::new(64));
        assert!(shared.reported(&mut first, connected));
        assert_eq!(shared.block().state(), SocketState::Connected);
        assert!(shared.reported(&mut second, connected));
        assert!(!shared.reported(&mut first, connected));
        // The same words, where it was known: the change of state alone is news.
        let block = shared.block();
        block.set_state(begun);
        assert!(shared.reported(&mut first, connected));
    }
}

/// The end of the stream is news to each process, also where nothing comes with it.
#[test]
fn the_end_of_the_stream_is_news_to_each() {
    let shared = Shared::new(SocketState::Connected);
    let (mut first, mut second) = (ReportedEdges::new(64), ReportedEdges::new(64));
    let end = edges(0, EdgeFlags::PEER_FIN);
    assert!(shared.reported(&mut first, end));
    assert!(shared.reported(&mut second, end));
    assert!(!shared.reported(&mut first, end) && !shared.reported(&mut second, end));
}

/// That our FIN has arrived is kept, and nobody waits for it.
#[test]
fn an_acknowledged_end_is_kept_and_no_news() {
    for having in [Having::Alone, Having::Shared] {
        let shared = Shared::new(SocketState::Connected);
        let acked = edges(0, EdgeFlags::FIN_ACKED);
        let block = shared.block();
        assert!(!ReportedEdges::new(64).apply(shared.id, block, &acked, having));
        assert!(block.flags().contains(BlockFlags::FIN_ACKED));
    }
}

/// With others about, room is news to a process that has not asked for it, too.
#[test]
fn room_is_news_to_all_who_have_the_socket() {
    for (having, wanted, is_news) in [
        (Having::Alone, false, false),
        (Having::Alone, true, true),
        (Having::Shared, false, true),
        (Having::Shared, true, true),
        (Having::Not, true, false),
    ] {
        let shared = Shared::new(SocketState::Connected);
        let block = shared.block();
        block.snd.limit.store(1 << 20, Ordering::Relaxed);
        block.snd.edge.store(1 << 20, Ordering::Relaxed);
        if wanted {
            crate::block_words::want_room(block);
        }
        let acked = Edges {
            snd_acked: 1 << 20,
            ..edges(0, EdgeFlags::empty())
        };
        let reported = ReportedEdges::new(64).apply(shared.id, block, &acked, having);
        assert_eq!(reported, is_news, "{having:?} {wanted}");
    }
}

/// A socket that has tried to connect in vain has told its program; every other death is told.
#[test]
fn a_death_that_was_told_is_no_news() {
    for (state, spent, flags, is_news) in [
        (SocketState::Open, true, EdgeFlags::DEAD, false),
        (SocketState::Open, false, EdgeFlags::DEAD, true),
        (SocketState::Connected, true, EdgeFlags::DEAD, true),
        (SocketState::Open, true, EdgeFlags::SOFT_ERROR, true),
    ] {
        let shared = Shared::new(state);
        let block = shared.block();
        if spent {
            block
                .more_bits()
                .store(more_bits::IS_SPENT, Ordering::Relaxed);
        }
        let failed = Edges {
            errno: 111,
            ..edges(0, flags)
        };
        let reported = ReportedEdges::new(64).apply(shared.id, block, &failed, Having::Alone);
        assert_eq!(reported, is_news, "{state:?} {spent} {flags:?}");
        let errno = if is_news { 111 } else { 0 };
        assert_eq!(block.errno.load(Ordering::Relaxed), errno);
        let dies = is_news && flags == EdgeFlags::DEAD;
        assert_eq!(block.state() == SocketState::Dead, dies);
    }
}
