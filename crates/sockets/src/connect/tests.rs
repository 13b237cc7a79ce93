//! Calls of `connect`, by the state that they find.

use super::*;
use crate::block_words::host_bits::CONNECT_REPORTED;
use crate::testing::fixture::{Ignored, engine, requested};
use crate::testing::{Engine, SILENT_PORT};
use crate::{Host, Listener};
use longshore_hostif::SocketKind;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// A stream in this state, whose block the test writes.
fn stream_in(host: &'static Host, state: SocketState) -> ManuallyDrop<Socket> {
    let socket = Engine::open(host, SocketKind::Stream);
    let block = socket.block();
    block.set_state(state);
    block.set_peer(Engine::address(7).into());
    block.set_local(Engine::address(8).into());
    ManuallyDrop::new(socket)
}

const IS_CONNECTED: Result<(), SocketError> = Err(SocketError::Refused(Errno::ISCONN));

#[test]
fn a_call_is_told_how_far_the_connection_is() {
    use SocketState::*;
    let (_engine, host, _directory) = engine();
    let already = Err(SocketError::Refused(Errno::ALREADY));
    let invalid = Err(SocketError::Refused(Errno::INVAL));
    // Each with what the next call is told.
    for (state, first, second) in [
        (Connecting, already, already),
        (Connected, Ok(()), IS_CONNECTED),
        (Early, Ok(()), IS_CONNECTED),
        (Listening, IS_CONNECTED, IS_CONNECTED),
        (Closing, invalid, invalid),
        (Free, invalid, invalid),
    ] {
        let socket = stream_in(host, state);
        assert_eq!(
            socket.connector().start(Engine::address(1)),
            first,
            "{state:?}"
        );
        assert_eq!(
            socket.connector().start(Engine::address(1)),
            second,
            "{state:?}"
        );
        assert_eq!(socket.state(), state);
    }
}

/// Linux: a program that was told of the failure may try again, with a socket that is as new.
#[test]
fn a_failed_attempt_is_told_of_once_and_may_be_repeated() {
    let (_engine, host, _directory) = engine();
    for (pending, reported) in [
        (Errno::CONNREFUSED.raw_os_error(), Errno::CONNREFUSED),
        (0, Errno::CONNABORTED),
    ] {
        let socket = stream_in(host, SocketState::Dead);
        socket.pending_error().set(pending);
        socket.halves().note(true, true);
        let again = socket.connector().start(Engine::address(1));
        assert_eq!(again, Err(SocketError::Failed(reported)));
        assert_eq!(socket.state(), SocketState::Open);
        assert!(socket.is_spent());
        assert_eq!(socket.halves().shut(), (false, false));
        assert_eq!(socket.block().peer(), Address::NONE);
        // The port is still to be seen.
        let any = SocketAddr::from(([0, 0, 0, 0], 8));
        assert_eq!(socket.addresses().local(), Some(any));
    }
}

#[test]
fn a_connection_that_was_made_stays_one() {
    let (_engine, host, _directory) = engine();
    let reported = stream_in(host, SocketState::Dead);
    reported.set_host_bits(CONNECT_REPORTED);
    assert_eq!(reported.connector().start(Engine::address(1)), IS_CONNECTED);
    let failed = Err(SocketError::Failed(Errno::CONNRESET));
    // Bytes have gone either way, of which its program was told before it was told of the
    // connection.
    for sent in [true, false] {
        let socket = stream_in(host, SocketState::Dead);
        let block = socket.block();
        let edge = if sent {
            &block.snd.edge
        } else {
            &block.rcv.edge
        };
        edge.store(1, Ordering::Release);
        socket.pending_error().set(Errno::CONNRESET.raw_os_error());
        assert_eq!(socket.connector().start(Engine::address(1)), failed);
        assert_eq!(socket.state(), SocketState::Dead);
        assert!(!socket.is_spent());
        assert_ne!(socket.block().peer(), Address::NONE);
    }
}

/// Neither the engine nor what is asked before it leaves a trace of an attempt that was refused.
#[test]
fn an_attempt_that_is_refused_leaves_the_socket_as_it_was() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let refused = || Err(SocketError::Refused(Errno::PERM));
    let begun = socket.connector().start_if(Engine::address(1), refused);
    assert_eq!(begun, Err(SocketError::Refused(Errno::PERM)));
    assert_eq!(socket.state(), SocketState::Open);
    assert_eq!(socket.block().peer(), Address::NONE);
    assert!(!socket.addresses().is_bound());
    let begun = socket.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(begun, Err(SocketError::InProgress));
    assert_eq!(socket.state(), SocketState::Connecting);
    assert_eq!(
        socket.block().peer().get(),
        Some(Engine::address(SILENT_PORT))
    );
    assert!(socket.addresses().is_bound() && socket.addresses().local().is_some());
}

/// A call that begins with data may write before the connection is there, as much as the engine says.
#[test]
fn an_attempt_that_takes_data_is_told_how_much() {
    let (engine, host, _directory) = engine();
    let early_room = &engine.behavior.early_room;
    early_room.store(1_400, Ordering::Relaxed);
    let socket = Engine::open(host, SocketKind::Stream);
    let begun = socket.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(begun, Ok(()));
    assert!(socket.is_early() && socket.addresses().is_bound());
    let room = &socket.block().syn_room_or_size_goal;
    assert_eq!(room.load(Ordering::Acquire), 1_400);
}

#[test]
fn a_wait_for_a_connection_ends_as_the_attempt_does() {
    let (mut engine, host, _directory) = engine();
    let wait = |socket: &Socket| {
        let wait_limit = WaitLimit::of_call(Some(Duration::from_millis(5)));
        socket.connector().wait(wait_limit)
    };
    let connecting = stream_in(host, SocketState::Connecting);
    assert_eq!(wait(&connecting), Err(SocketError::TimedOut));
    for state in [SocketState::Connected, SocketState::Closing] {
        let made = stream_in(host, state);
        assert_eq!(wait(&made), Ok(()));
        assert_eq!(made.host_bits() & CONNECT_REPORTED, CONNECT_REPORTED);
    }
    let closed_at_once = stream_in(host, SocketState::Dead);
    assert_eq!(wait(&closed_at_once), Ok(()));
    let failed = stream_in(host, SocketState::Dead);
    failed
        .pending_error()
        .set(Errno::HOSTUNREACH.raw_os_error());
    assert_eq!(wait(&failed), Err(SocketError::Failed(Errno::HOSTUNREACH)));
    assert_eq!(failed.state(), SocketState::Open);
    engine.stop();
    host.look_at_engine();
    assert_eq!(wait(&connecting), Err(SocketError::EngineGone));
}

/// Of two threads that wait for one attempt, one is told why it has failed. The socket is as new
/// then, which is no connection for the other.
#[test]
fn a_failure_that_another_call_has_told_of_is_no_connection() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let begun = socket.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(begun, Err(SocketError::InProgress));
    assert_eq!(socket.connector().give_up(Errno::CONNREFUSED), Ok(true));
    let told = socket.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(told, Err(SocketError::Failed(Errno::CONNREFUSED)));
    let waited = socket.connector().finish(begun, WaitLimit::ENDLESS);
    assert_eq!(waited, Err(SocketError::Failed(Errno::CONNABORTED)));
    assert_eq!(socket.host_bits() & CONNECT_REPORTED, 0);
}

#[test]
fn what_is_under_way_is_waited_for_and_other_refusals_are_told() {
    let (_engine, host, _directory) = engine();
    let made = stream_in(host, SocketState::Connected);
    let already = SocketError::Refused(Errno::ALREADY);
    for begun in [SocketError::InProgress, already] {
        assert_eq!(
            made.connector().finish(Err(begun), WaitLimit::ENDLESS),
            Ok(())
        );
    }
    for begun in [
        Ok(()),
        IS_CONNECTED,
        Err(SocketError::Failed(Errno::CONNREFUSED)),
    ] {
        let reported = made.connector().finish(begun, WaitLimit::ENDLESS);
        assert_eq!(reported, begun);
    }
}

#[test]
fn an_attempt_that_is_given_up_is_dead_and_says_why() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    assert_eq!(socket.connector().give_up(Errno::CANCELED), Ok(false));
    assert_eq!(socket.pending_error().take(), 0);
    let begun = socket.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(begun, Err(SocketError::InProgress));
    assert_eq!(socket.connector().give_up(Errno::CONNRESET), Ok(true));
    assert_eq!(socket.state(), SocketState::Dead);
    let both = EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR;
    let index = socket.id().index;
    engine.wait_until("the engine is told", |seen| {
        let said = seen.reported_flags.get(&index);
        said.is_some_and(|said| said.contains(both))
    });
    assert_eq!(
        socket.pending_error().take(),
        Errno::CONNRESET.raw_os_error() as u32
    );
    assert_eq!(socket.connector().give_up(Errno::CONNRESET), Ok(false));
}

#[test]
fn a_datagram_socket_has_the_peer_it_was_given_last() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let none = Err(SocketError::Refused(Errno::NOTCONN));
    assert_eq!(socket.addresses().peer(), none);
    for port in [5, 6] {
        socket.set_more_bits(more_bits::IS_TAKEN);
        assert_eq!(socket.connector().start(Engine::address(port)), Ok(()));
        assert_eq!(socket.addresses().peer(), Ok(Engine::address(port)));
        assert_eq!(socket.more_bits() & more_bits::IS_TAKEN, 0);
        assert!(socket.addresses().is_bound() && socket.addresses().local().is_some());
    }
    assert_eq!(socket.connector().disconnect(), Ok(()));
    assert_eq!(socket.addresses().peer(), none);
    assert!(
        !socket.addresses().is_bound(),
        "the port was the connection's"
    );
}

#[test]
fn the_first_call_after_a_connection_was_made_is_told_so() {
    let (_engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = Engine::open(host, SocketKind::Stream);
    let to = listener.local().unwrap();
    assert_eq!(socket.connector().connect(to, WaitLimit::ENDLESS), Ok(()));
    assert_eq!(socket.connector().note_reported(), IS_CONNECTED);
    assert_eq!(
        socket.connector().connect(to, WaitLimit::ENDLESS),
        IS_CONNECTED
    );
    assert!(!socket.is_connecting() && !socket.is_early());
}

/// What takes the place of a socket that is over says what that would have said.
#[test]
fn what_is_in_the_place_of_one_that_is_over_is_over_too() {
    let (_engine, host, _directory) = engine();
    let aborted = Err(SocketError::Failed(Errno::CONNABORTED));
    for (reported, flags, said) in [
        (CONNECT_REPORTED, BlockFlags::PEER_FIN, IS_CONNECTED),
        (CONNECT_REPORTED, BlockFlags::SHUT_WR, IS_CONNECTED),
        (0, BlockFlags::empty(), aborted),
    ] {
        let old = stream_in(host, SocketState::Dead);
        old.set_host_bits(reported);
        old.block().set_flags(flags);
        let new = Engine::open(host, SocketKind::Stream);
        new.connector().is_over_like(&old);
        assert_eq!(new.state(), SocketState::Dead);
        let ended = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR | BlockFlags::PEER_FIN;
        assert_eq!(new.block().flags() & ended, flags);
        assert_eq!(new.addresses().local(), Some(Engine::address(8)));
        assert!(!new.addresses().is_bound());
        assert_eq!(new.connector().start(Engine::address(1)), said);
    }
}

/// The engine has an address for the way to the peer, of a socket that was bound to a port alone, and
/// gives it up when a call has told of the failure.
#[test]
fn the_address_of_an_attempt_is_given_up_with_it() {
    let (_engine, host, _directory) = engine();
    let any = SocketAddr::from(([0, 0, 0, 0], 7_001));
    for (bound, given_up) in [
        (Some(any), true),
        (Some(Engine::address(7_002)), false),
        (None, false),
    ] {
        let socket = Engine::open(host, SocketKind::Stream);
        if let Some(local) = bound {
            socket.addresses().bind(local).unwrap();
        }
        socket.block().set_state(SocketState::Dead);
        let before = requested(host);
        socket.connector().report_failure(111);
        assert_eq!(requested(host) - before, u32::from(given_up), "{bound:?}");
    }
}

/// A thread that waits is told when the descriptor stands for another socket.
#[test]
fn a_wait_for_an_attempt_ends_when_its_socket_is_replaced() {
    let (_engine, host, _directory) = engine();
    let socket = stream_in(host, SocketState::Connecting);
    socket.set_more_bits(more_bits::IS_REPLACED);
    let reset = Err(SocketError::Failed(Errno::CONNRESET));
    assert_eq!(socket.connector().wait(WaitLimit::ENDLESS), reset);
}

/// Linux: a call that has waited for its connection has told that it was made, also if it was closed
/// at once: the next one says that it is.
#[test]
fn a_call_that_waited_tells_what_the_next_one_need_not() {
    let (_engine, host, _directory) = engine();
    for state in [SocketState::Connected, SocketState::Dead] {
        let socket = stream_in(host, state);
        let begun = Err(SocketError::InProgress);
        let waited = socket.connector().finish(begun, WaitLimit::ENDLESS);
        assert_eq!(waited, Ok(()), "{state:?}");
        let next = socket.connector().start(Engine::address(7));
        assert_eq!(next, IS_CONNECTED, "{state:?}");
    }
}

/// A connection of which a call has told is what it was, and what is no connection has none.
#[test]
fn what_is_under_way_is_waited_for_by_what_was_not_told_of() {
    use SocketState::{Connected, Open};
    for (state, reported, waits) in [
        (Connected, 0, true),
        (Connected, CONNECT_REPORTED, false),
        (Open, 0, false),
    ] {
        let ignored = Ignored::new();
        let socket = stream_in(ignored.host, state);
        socket.set_host_bits(reported);
        ignored.say();
        ignored.under_way().note();
        socket.connector().catch_up_unreported();
        // Once is enough.
        let is_left = ignored.host.session.under_way().unhandled().next();
        assert_eq!(is_left.is_none(), waits, "{state:?} {reported}");
    }
}
