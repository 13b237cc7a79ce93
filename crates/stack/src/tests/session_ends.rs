//! What the engine's loop asks of sessions, and what becomes of one that ends, is short of memory, or is
//! refused something.

use super::off_path::GEOMETRY;
use super::questions::question;
use super::single::{SERVER, Single};
use crate::counters::EngineDrop;
use crate::request_error::RequestError;
use crate::requests::From;
use crate::{Account, Notice};
use longshore_hostif::adapter::Batching;
use longshore_hostif::{
    EdgeFlags, Features, HostChannel, HostSession, Query, Request, SocketId, SocketKind,
};
use longshore_ring::Doorbell;
use longshore_tcp::Instant;
use std::net::SocketAddr;
use std::sync::Arc;

fn from(session: u32) -> From {
    From {
        session,
        channel: 0,
    }
}

/// A program publishes a request, which nobody has taken yet.
fn publishes(single: &Single) {
    let mut channel = HostChannel::new(single.arena.clone(), 0);
    let socket = SocketId {
        index: 0,
        generation: 1,
    };
    channel.put(&Request::Subscribe { socket }).unwrap();
    channel.publish(&Doorbell::new().unwrap(), false);
}

#[test]
fn a_session_that_has_asked_for_something_is_not_parked() {
    let mut single = Single::new(GEOMETRY, 1);
    let session = single.session();
    let sessions = &mut single.stack.endpoints.sessions;
    assert!(!sessions.have_requests());
    assert!(sessions.host_unshown_mut(session).is_some());
    publishes(&single);
    let sessions = &mut single.stack.endpoints.sessions;
    assert!(sessions.have_requests());
    assert!(!sessions.park(session));
    assert_eq!((sessions.parked(), sessions.polled()), (0, &[session][..]));
}

/// Each of those that are polled is considered, not the first alone.
#[test]
fn the_one_that_is_idle_is_found_among_others() {
    for which in 0..4 {
        let mut single = Single::new(GEOMETRY, 1);
        let mut all = vec![single.session()];
        (0..3).for_each(|_| all.push(single.add_session(GEOMETRY, Features::empty()).0));
        (0..300).for_each(|_| single.turn());
        let turn = single.stack.counters.event_loop.turns;
        let sessions = &mut single.stack.endpoints.sessions;
        for key in all.iter().filter(|key| **key != all[which]) {
            sessions.poll(*key, turn);
        }
        let idle = (0..5).find_map(|_| sessions.next_idle(turn));
        assert_eq!(idle, Some(all[which]));
    }
}

/// What is touched and not yet published goes with its session, and stays of the others.
#[test]
fn a_session_that_ends_leaves_no_trace_in_lists() {
    let mut single = Single::new(GEOMETRY, 1);
    let (second, _) = single.add_session(GEOMETRY, Features::empty());
    single.turn();
    for key in [single.session(), second] {
        assert!(single.stack.endpoints.sessions.get_mut(key).is_some());
    }
    assert!(single.stack.lifecycle().close_session(second).is_some());
    single.stack.check().unwrap();
    let (third, _) = single.add_session(GEOMETRY, Features::empty());
    assert_eq!(third, second, "the same key");
    single.stack.check().unwrap();
    for key in [single.session(), third] {
        assert!(!single.stack.endpoints.sessions.is_empty());
        assert!(single.stack.lifecycle().close_session(key).is_some());
    }
    assert!(single.stack.endpoints.sessions.is_empty());
}

/// A list that is not as its session has it is found.
#[test]
fn what_is_wrong_with_a_list_of_sessions_is_found() {
    for spoil in [0, 1] {
        let mut single = Single::new(GEOMETRY, 1);
        single.turn();
        single.stack.check().unwrap();
        let session = single.session();
        let sessions = &mut single.stack.endpoints.sessions;
        let session = sessions.get_unshown_mut(session).unwrap();
        match spoil {
            0 => session.is_touched = true,
            _ => session.is_parked = true,
        }
        assert!(single.stack.check().is_err(), "{spoil}");
    }
}

/// The operator hears once of a session that is short of memory; what is dropped for it is counted each
/// time.
#[test]
fn the_operator_hears_once_of_a_want_of_memory() {
    for is_full in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let session = single.session();
        let (endpoints, counters) = (&mut single.stack.endpoints, &mut single.stack.counters);
        for _ in 0..3 {
            match is_full {
                true => endpoints.sessions.arena_is_full(session, counters),
                false => endpoints.sessions.arena_is_short(session, counters),
            }
        }
        assert_eq!(counters.notices, [Notice::ArenaFull { session }]);
        let narrowed = if is_full { 0 } else { 3 };
        assert_eq!(counters.tcp.windows_narrowed, narrowed);
        let dropped = single.dropped(EngineDrop::ArenaFull.name());
        assert_eq!(dropped, 3 - narrowed);
    }
}

/// Programs find that their engine is gone, and whose sockets are which is known until then.
#[test]
fn programs_hear_that_their_session_has_ended() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [0, 1].map(|_| single.open(SocketKind::Datagram));
    single.turn();
    assert_eq!(single.in_stack().blocks(), GEOMETRY.sockets);
    let mut all = sockets.map(|socket| socket.index).to_vec();
    all.sort_unstable();
    let among = |single: &Single, blocks| single.in_stack().sockets_among(blocks);
    assert_eq!(among(&single, 0..GEOMETRY.sockets), all);
    assert_eq!(among(&single, all[0]..all[0] + 1), [all[0]]);
    assert!(among(&single, all[0]..all[0]).is_empty());
    let host = HostSession::of(&single.arena);
    assert!(!host.is_closed());
    single.in_stack_mut().end();
    assert!(host.is_closed());
}

/// A block is a socket's until that is gone, and nobody's where the sockets were taken out.
#[test]
fn a_block_is_entered_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let session = single.in_stack_mut();
    let id = |index| SocketId {
        index,
        generation: 1,
    };
    assert!(session.enter(id(3), 7) && !session.enter(id(3), 8));
    assert_eq!((session.key(3), session.sockets()), (Some(7), 1));
    assert!(!session.enter(id(GEOMETRY.sockets), 8));
    session.leave(id(3));
    assert!(session.enter(id(3), 9));
    assert!(!session.is_condemned());
    session.condemn();
    assert!(session.is_condemned());
    assert_eq!((session.key(3), session.sockets()), (None, 0));
    assert!(!session.enter(id(4), 9));
}

/// What a session has asked is answered though another ends for a panic meanwhile.
#[test]
fn a_question_is_answered_though_another_session_ends_for_a_panic() {
    let mut single = Single::new(GEOMETRY, 1);
    let (other, _) = single.add_session(GEOMETRY, Features::empty());
    let socket = single.open(SocketKind::Stream);
    single.turn();
    single.discard_completions();
    single.ask(0, &question(socket, Query::PathMtu));
    single.stack.endpoints.sessions.at_work = crate::at_work::AtWork::Session(other);
    assert_eq!(single.stack.contain_panic(), Some(vec![other]));
    single.turn();
    assert_eq!(single.answer(), Some(0));
}

/// A thread that waits is answered though its socket is not there, and learns whether its user may have no
/// more.
#[test]
fn what_is_asked_of_no_socket_is_answered_with_the_reason() {
    for bound in [None, Some(0), Some(5)] {
        let mut single = Single::new(GEOMETRY, 1);
        single.in_stack_mut().account = bound.map(|sockets| Arc::new(Account::new(sockets)));
        let socket = SocketId {
            index: 1,
            generation: 77,
        };
        single.bind_to(socket, 90);
        single.turn();
        let expected = match bound {
            Some(0) => RequestError::TooManySockets,
            _ => RequestError::NoSocket,
        };
        assert_eq!(single.answer(), Some(expected.errno()), "{bound:?}");
    }
}

/// The loop refuses a bind for which its process has no right.
#[test]
fn a_bind_may_be_refused_by_the_loop() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    single.turn();
    single.discard_completions();
    let bind = Request::Bind {
        socket,
        tag: 1,
        waiter: None,
        local: SocketAddr::new(SERVER.into(), 90).into(),
    };
    let from = from(single.session());
    single.stack.endpoints.sessions.refuse_bind(from, &bind);
    single.turn();
    let errno = RequestError::NotPermitted.errno();
    assert_eq!(single.answer(), Some(errno));
}

/// The second end of a connection of our own counts among its user's sockets, too.
#[test]
fn a_user_with_all_its_sockets_gets_no_connection_of_its_own() {
    for (most, is_refused) in [(2, true), (3, false)] {
        let mut single = Single::new(GEOMETRY, 1);
        single.in_stack_mut().account = Some(Arc::new(Account::new(most)));
        single.listen();
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        (0..2).for_each(|_| single.turn());
        let connected = single.told_of(client);
        let is_connected = connected.is_some_and(|told| told.flags == EdgeFlags::CONNECTED);
        assert_eq!(is_connected, !is_refused);
        let refused = single.stack.counters.sessions.sockets_refused;
        assert_eq!(refused > 0, is_refused, "{refused}");
    }
}

/// With fixed batching the loop wakes to publish what waits for more.
#[test]
fn it_is_known_until_when_descriptors_wait() {
    const WAIT_US: u64 = 5_000;
    let mut single = Single::new(GEOMETRY, 1);
    assert_eq!(single.stack.endpoints.sessions.held_until(), Instant::NEVER);
    single.stack.settings.batching = Batching::fixed(8, WAIT_US);
    let (session, arena) = single.add_session(GEOMETRY, Features::empty());
    let socket = SocketId {
        index: arena
            .header()
            .free_sockets
            .pop(arena.socket_links())
            .unwrap()
            .unwrap(),
        generation: 1,
    };
    let none = longshore_hostif::adapter::Immediate::default();
    let question = question(socket, Query::PathMtu);
    single.stack.handle_request(from(session), &question, &none);
    single.turn();
    let until = single.stack.endpoints.sessions.held_until();
    assert!(until > single.now && until <= single.now.after_us(WAIT_US));
}
