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
