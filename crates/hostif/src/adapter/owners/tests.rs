//! What one session can take of the engine's descriptors by owners of its sockets.

use super::*;
use crate::adapter::AdapterSession;
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
        workers: 1,
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
    session.owners().make(socket(n), 1, |_| Some(None)).len()
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
    assert_eq!(session.meter.bad_descriptors(), 1);
    // A socket for which it asks once more has what was made last.
    assert_eq!(made(&mut session, 0), 1);
    // One that is set makes room.
    session.owners().set(socket(0), Edges::default());
    assert_eq!(made(&mut session, most), 1);
}

/// Bytes that nobody is to be woken for are no reason for SIGIO: what reaches the mark is.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn the_owner_hears_of_what_is_waited_for() {
    let mut session = session(64);
    assert_eq!(session.owners().make(socket(0), 2, |_| Some(None)).len(), 2);
    session.owners().set(socket(0), Edges::default());
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
        session.owners().set(socket(n), Edges::default());
    }
    assert_eq!(made(&mut session, most), 0);
    assert_eq!(session.meter.bad_descriptors(), 1);
    assert_eq!(session.owners.set.len(), MOST);
}

/// What descriptors an owner's signals take is charged, and nothing is made that is refused.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_is_charged_two_descriptors_for_each_signal() {
    let mut session = session(64);
    for signals in [1, 2] {
        let mut asked = 0;
        let made = session.owners().make(socket(0), signals, |n| {
            asked = n;
            Some(None)
        });
        assert_eq!((made.len(), asked), (signals as usize, 2 * signals));
    }
    assert!(session.owners().make(socket(1), 1, |_| None).is_empty());
    // A socket that there is not, or no more.
    let gone = SocketId {
        index: 2,
        generation: 6,
    };
    for other in [socket(64), gone] {
        assert!(session.owners().make(other, 1, |_| Some(None)).is_empty());
    }
    assert_eq!(session.meter.bad_descriptors(), 3);
}

/// It hears of what is new, once, and of nothing once nobody is its owner.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_hears_of_news_alone_and_as_long_as_it_is_the_owner() {
    let mut session = session(64);
    assert_eq!(session.owners().make(socket(0), 2, |_| Some(None)).len(), 2);
    session.owners().set(socket(0), Edges::default());
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
    session.owners().set(socket(0), Edges::default());
    assert!(session.owners.is_empty());
}

/// SIGIO only if it was asked for.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_that_wants_sigurg_alone_hears_of_no_data() {
    let mut session = session(64);
    assert_eq!(made(&mut session, 0), 1);
    session.owners().set(socket(0), Edges::default());
    let edges = Edges {
        rcv_edge: 5,
        ..Edges::default()
    };
    session.note_edges(socket(0), &edges);
    assert!(!session.owners.has_due());
    session.owners().note_urgent(socket(0), &edges);
    assert_eq!(session.owners.due, [(socket(0), OwnersSignal::Urgent)]);
}

/// An owner of socket 0 that wants both signals, and what its program has to raise them by.
fn owned(session: &mut AdapterSession) -> Vec<OwnedFd> {
    let made = session.owners().make(socket(0), 2, |_| Some(None));
    let theirs = made.iter().map(|fd| fd.try_clone_to_owned().unwrap());
    let theirs = theirs.collect();
    session.owners().set(socket(0), Edges::default());
    theirs
}

/// What tells of the socket is published.
fn publish(session: &mut AdapterSession) {
    session.wakeups.note_socket(0);
    session.publish();
}

fn raised(session: &AdapterSession, signal: OwnersSignal) -> u16 {
    session.arena.block(0).raised(signal).done / 2
}

/// Nothing can be sent back over what raises a signal, and nothing stays in it.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn signals_are_raised_with_the_next_publication() {
    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd, read};
    let mut session = session(64);
    let theirs = owned(&mut session);
    let edges = Edges {
        rcv_edge: 5,
        ..Edges::default()
    };
    for pair in [
        &session.owners.set[&0].urgent,
        session.owners.set[&0].ready.as_ref().unwrap(),
    ] {
        for fd in [&pair.raises, &pair.rings] {
            assert!(fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC));
            assert!(fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK));
        }
    }
    let words = session.crossings().to_host.control;
    for count in 1..=3 {
        session.owners().note_urgent(socket(0), &edges);
        session.note_edges(
            socket(0),
            &Edges {
                rcv_edge: 5 + u64::from(count),
                ..edges
            },
        );
        publish(&mut session);
        assert_eq!(raised(&session, OwnersSignal::Urgent), count);
        assert_eq!(raised(&session, OwnersSignal::Ready), count);
        for fd in &theirs {
            assert_eq!(read(fd, &mut [0; 4]), Err(Errno::AGAIN));
            assert_eq!(send(fd, b"x", SendFlags::NOSIGNAL), Err(Errno::PIPE));
        }
    }
    // The counts, and what says that the urgent byte has come.
    let mut moved = session.crossings().to_host.control;
    moved.take_out(&words);
    assert_eq!((moved.transfers, moved.bytes), (9, 3 * (2 + 2 + 8)));
    assert_eq!(session.meter.bad_descriptors(), 0);
    // One that its program has broken.
    shutdown(&theirs[0], Shutdown::Read).unwrap();
    session.owners().note_urgent(socket(0), &edges);
    publish(&mut session);
    assert_eq!(session.meter.bad_descriptors(), 1);
    assert_eq!(raised(&session, OwnersSignal::Urgent), 3);
}

#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn a_signal_is_for_the_use_of_the_block_that_it_was_noted_for() {
    let mut session = session(64);
    let _theirs = owned(&mut session);
    let other = SocketId {
        generation: 8,
        ..socket(0)
    };
    session.owners().note_urgent(other, &Edges::default());
    publish(&mut session);
    assert_eq!(raised(&session, OwnersSignal::Urgent), 0);
    session.owners().note_urgent(socket(0), &Edges::default());
    publish(&mut session);
    assert_eq!(raised(&session, OwnersSignal::Urgent), 1);
    session.owners().forget(1);
    assert!(!session.owners.is_empty());
    session.owners().forget(0);
    assert!(session.owners.is_empty());
    session.owners().note_urgent(socket(0), &Edges::default());
    assert!(!session.owners.has_due());
}

/// A handler that looks before the descriptors are taken finds the byte.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn the_block_says_where_an_urgent_byte_is_that_has_come() {
    let mut session = session(64);
    let _theirs = owned(&mut session);
    for (rcv_edge, rcv_urgent, come) in [(5, 6, 0), (6, 6, 6), (9, 7, 7), (9, 3, 7)] {
        let edges = Edges {
            rcv_edge,
            rcv_urgent,
            ..Edges::default()
        };
        session.owners().note_urgent(socket(0), &edges);
        let said = &session.arena.block(0).rcv.urgent_come;
        assert_eq!(said.load(Ordering::Relaxed), come);
    }
}

/// Those that wait are woken after all, and so it is signalled.
#[test]
#[cfg_attr(miri, ignore = "it has no pairs of sockets")]
fn an_owner_is_told_with_those_that_are_woken_after_all() {
    let mut session = session(64);
    let _theirs = owned(&mut session);
    session.wake_after_all(socket(0));
    session.wake_sleepers_after_all(socket(0), &[]);
    let ready = (socket(0), OwnersSignal::Ready);
    assert_eq!(session.owners.due, [ready; 2]);
}
