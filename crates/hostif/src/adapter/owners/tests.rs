//! What one session can take of the engine's descriptors by owners of its sockets.

use super::*;
use crate::{Arena, Geometry, SocketState};
use longshore_ring::EventfdSignaler;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::Arc;

/// A session with `sockets` sockets, all of generation 7.
fn session(sockets: u32) -> AdapterSession {
    let geometry = Geometry {
        channels: 64,
        waiters: 64,
        sockets,
        snd_chunks: 64,
        rcv_chunks: 64,
    };
    let arena = Arc::new(Arena::create(geometry).expect("an arena"));
    for index in 0..sockets {
        let block = arena.block(index);
        block.generation.store(7, Ordering::Release);
        block.set_state(SocketState::Open);
    }
    AdapterSession::new(arena, Arc::new(EventfdSignaler::for_one()))
}

fn socket(index: u32) -> SocketId {
    SocketId {
        index,
        generation: 7,
    }
}

/// How many descriptors are made for the owner of this socket, who gets SIGURG.
fn made(session: &mut AdapterSession, n: u32) -> usize {
    session.make_owner(socket(n), 1, |_| Some(None)).len()
}

/// Sockets whose owner is asked for and never set cost two descriptors each, or four.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn owners_that_are_asked_for_and_not_set_are_few() {
    let most = MOST_TO_BE as u32;
    let mut session = session(2 * most);
    for n in 0..most {
        assert_eq!(made(&mut session, n), 1);
    }
    assert_eq!(made(&mut session, most), 0);
    assert_eq!(session.bad_descriptors, 1);
    // A socket for which it asks once more has what was made last.
    assert_eq!(made(&mut session, 0), 1);
    // One that is set makes room.
    session.set_owner(socket(0), Edges::default());
    assert_eq!(made(&mut session, most), 1);
}

/// Bytes that nobody is to be woken for are no reason for SIGIO: what reaches the mark is.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn the_owner_hears_of_what_is_waited_for() {
    let mut session = session(64);
    assert_eq!(session.make_owner(socket(0), 2, |_| Some(None)).len(), 2);
    session.set_owner(socket(0), Edges::default());
    let edges = |rcv_edge| Edges {
        rcv_edge,
        ..Edges::default()
    };
    session.without_waking(|session| session.note_edges(socket(0), &edges(5)));
    assert_eq!(session.owners.due, []);
    session.note_edges(socket(0), &edges(10));
    let ready = (socket(0), OwnersSignal::Ready);
    assert_eq!(session.owners.due, [ready]);
    session.without_waking(|session| session.note_edges(socket(0), &edges(12)));
    assert_eq!(session.owners.due, [ready], "what was due before stays");
}

#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn a_session_has_so_many_sockets_with_an_owner() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("to raise the limit");
    let most = MOST as u32;
    let mut session = session(most + 64);
    for n in 0..most {
        assert_eq!(made(&mut session, n), 1, "{n}");
        session.set_owner(socket(n), Edges::default());
    }
    assert_eq!(made(&mut session, most), 0);
    assert_eq!(session.bad_descriptors, 1);
    assert_eq!(session.owners.set.len(), MOST);
}

/// What descriptors an owner's signals take is charged, and nothing is made that is refused.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_is_charged_two_descriptors_for_each_signal() {
    let mut session = session(64);
    for signals in [1, 2] {
        let mut asked = 0;
        let made = session.make_owner(socket(0), signals, |n| {
            asked = n;
            Some(None)
        });
        assert_eq!((made.len(), asked), (signals as usize, 2 * signals));
    }
    assert!(session.make_owner(socket(1), 1, |_| None).is_empty());
    // A socket that there is not, or no more.
    let gone = SocketId {
        index: 2,
        generation: 6,
    };
    for other in [socket(64), gone] {
        assert!(session.make_owner(other, 1, |_| Some(None)).is_empty());
    }
    assert_eq!(session.bad_descriptors, 3);
}

/// It hears of what is new, once, and of nothing once nobody is its owner.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_hears_of_news_alone_and_as_long_as_it_is_the_owner() {
    let mut session = session(64);
    assert_eq!(session.make_owner(socket(0), 2, |_| Some(None)).len(), 2);
    session.set_owner(socket(0), Edges::default());
    assert!(!session.owners.is_empty() && !session.owners.has_due());
    let block = session.arena.block(0);
    block.snd.limit.store(300, Ordering::Release);
    block.snd.edge.store(300, Ordering::Release);
    // A larger buffer makes room, once.
    let at = |rcv_edge, snd_acked, flags| Edges {
        rcv_edge,
        snd_acked,
        flags,
        ..Edges::default()
    };
    let none = crate::abi::EdgeFlags::empty();
    let fin = crate::abi::EdgeFlags::PEER_FIN;
    let news = [
        (at(0, 0, none), false),
        (at(5, 0, none), true),
        (at(5, 0, none), false),
        (at(5, 99, none), false),
        (at(5, 100, none), true),
        (at(5, 200, none), false),
        (at(5, 200, fin), true),
        (at(5, 200, fin), false),
    ];
    for (edges, is_news) in news {
        session.note_edges(socket(0), &edges);
        assert_eq!(session.owners.has_due(), is_news, "{edges:?}");
        session.owners.due.clear();
    }
    // Nothing was made for it: it has no owner any more.
    session.set_owner(socket(0), Edges::default());
    assert!(session.owners.is_empty());
}

/// SIGIO only if it was asked for.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_that_wants_sigurg_alone_hears_of_no_data() {
    let mut session = session(64);
    assert_eq!(made(&mut session, 0), 1);
    session.set_owner(socket(0), Edges::default());
    let edges = Edges {
        rcv_edge: 5,
        ..Edges::default()
    };
    session.note_edges(socket(0), &edges);
    assert!(!session.owners.has_due());
    session.note_urgent(socket(0), &edges);
    assert_eq!(session.owners.due, [(socket(0), OwnersSignal::Urgent)]);
}
