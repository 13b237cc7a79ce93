//! How sockets are shut down, by their state.

use super::*;
use crate::Listener;
use crate::testing::fixture::{engine, requested, socket_in};
use crate::testing::{Engine, SILENT_PORT};
use longshore_hostif::SocketKind;
use std::sync::atomic::Ordering;

const NOT_CONNECTED: SocketError = SocketError::Refused(Errno::NOTCONN);

/// Linux: a program may shut down what has no connection; the call fails, but what waits for the
/// socket wakes.
#[test]
fn what_is_not_connected_is_shut_down_though_the_call_fails() {
    let (_engine, host, _directory) = engine();
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for (half, shut) in [
            (Half::Read, (true, false)),
            (Half::Write, (false, true)),
            (Half::Both, (true, true)),
        ] {
            let socket = Engine::open(host, kind);
            // Of a stream without a connection the engine has nothing to know.
            let before = requested(host);
            assert_eq!(socket.halves().shut_down(half), Err(NOT_CONNECTED));
            assert_eq!(requested(host) != before, kind == SocketKind::Datagram);
            assert_eq!(socket.halves().shut(), shut, "{kind:?} {half:?}");
            socket.halves().forget();
            assert_eq!(socket.halves().shut(), (false, false));
        }
    }
    for state in [SocketState::Dead, SocketState::Free] {
        let socket = socket_in(host, SocketKind::Stream, state);
        assert_eq!(socket.halves().shut_down(Half::Both), Err(NOT_CONNECTED));
        assert_eq!(socket.halves().shut(), (false, false));
    }
}

#[test]
fn what_has_a_peer_is_shut_down_by_halves() {
    let (_engine, host, _directory) = engine();
    for (kind, state) in [
        (SocketKind::Stream, SocketState::Connected),
        (SocketKind::Stream, SocketState::Closing),
        (SocketKind::Stream, SocketState::Early),
        (SocketKind::Datagram, SocketState::Open),
    ] {
        for (half, shut) in [
            (Half::Read, (true, false)),
            (Half::Write, (false, true)),
            (Half::Both, (true, true)),
        ] {
            let socket = socket_in(host, kind, state);
            socket.block().set_peer(Engine::address(7).into());
            assert_eq!(socket.halves().shut_down(half), Ok(()));
            assert_eq!(socket.halves().shut(), shut, "{state:?} {half:?}");
            // As Linux has it, it counts as told that it was made.
            let reported = socket.host_bits() & host_bits::CONNECT_REPORTED != 0;
            assert_eq!(reported, kind == SocketKind::Stream);
        }
    }
}

#[test]
fn an_attempt_to_connect_ends_when_either_half_is_shut_down() {
    let (_engine, host, _directory) = engine();
    for half in [Half::Read, Half::Write, Half::Both] {
        let socket = Engine::open(host, SocketKind::Stream);
        let begun = socket.connector().start(Engine::address(SILENT_PORT));
        assert_eq!(begun, Err(SocketError::InProgress));
        assert_eq!(socket.halves().shut_down(half), Ok(()));
        assert_eq!(socket.state(), SocketState::Dead);
        assert_eq!(
            socket.pending_error().take(),
            Errno::CONNRESET.raw_os_error() as u32
        );
    }
}

#[test]
fn a_connection_is_ended_by_both_when_all_has_arrived() {
    let (_engine, host, _directory) = engine();
    let socket = socket_in(host, SocketKind::Stream, SocketState::Connected);
    let block = socket.block();
    assert!(!socket.halves().is_ended_by_both() && !socket.halves().has_peer_ended());
    block.set_flags(BlockFlags::PEER_FIN);
    assert!(!socket.halves().is_ended_by_both() && socket.halves().has_peer_ended());
    block.set_flags(BlockFlags::SHUT_WR);
    assert!(socket.halves().is_ended_by_both());
    block.snd.edge.store(1, Ordering::Release);
    assert!(!socket.halves().is_ended_by_both());
    block.clear_flags(BlockFlags::PEER_FIN);
    assert!(!socket.halves().has_peer_ended());
}

/// Linux: what both sides have ended and acknowledged is no connection any more. Within an engine
/// there is nothing to acknowledge; otherwise the engine is asked, and the test's says nothing of
/// the kind.
#[test]
fn a_connection_that_is_ended_by_both_is_over_when_the_engine_says_so() {
    let (_engine, host, _directory) = engine();
    for (is_within, over) in [(true, true), (false, false)] {
        let socket = socket_in(host, SocketKind::Stream, SocketState::Connected);
        let block = socket.block();
        block.set_peer(Engine::address(7).into());
        if is_within {
            block.set_other_end(socket.id().index);
        }
        block.set_flags(BlockFlags::PEER_FIN);
        assert!(!socket.halves().are_over() && socket.addresses().peer().is_ok());
        block.set_flags(BlockFlags::SHUT_WR);
        assert_eq!(socket.halves().are_over(), over);
        assert_eq!(socket.addresses().peer().is_err(), over);
        let shut = socket.halves().shut_down(Half::Read);
        assert_eq!(shut == Err(NOT_CONNECTED), over);
    }
}

#[test]
fn a_socket_that_lingers_waits_for_the_acknowledgment_of_its_end() {
    use SocketState::*;
    let (_engine, host, _directory) = engine();
    for (state, shuts) in [
        (Connected, true),
        (Closing, true),
        (Open, false),
        (Connecting, false),
        (Dead, false),
    ] {
        let socket = socket_in(host, SocketKind::Stream, state);
        let expected = if shuts { Ok(()) } else { Err(NOT_CONNECTED) };
        assert_eq!(socket.halves().shut_down_to_linger(), expected, "{state:?}");
        assert_eq!(socket.halves().shut(), (false, shuts));
        // Of what is no connection any more nothing will be acknowledged.
        assert_eq!(
            socket.halves().is_end_acked(),
            state != Connected,
            "{state:?}"
        );
        socket.block().set_flags(BlockFlags::FIN_ACKED);
        assert!(socket.halves().is_end_acked());
    }
}

#[test]
fn a_listener_that_is_shut_down_for_writing_listens_on() {
    let (_engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = listener.socket();
    assert_eq!(socket.halves().shut_down(Half::Write), Ok(()));
    assert!(socket.is_listening());
    assert_eq!(socket.halves().shut_down(Half::Read), Ok(()));
    assert!(!socket.is_listening());
    assert!(socket.is_spent() && socket.has_listened());
    assert_eq!(
        socket.accept_queue().accept_with(|| Ok(())).err(),
        Some(SocketError::Refused(Errno::INVAL))
    );
    assert_eq!(socket.halves().shut_down(Half::Read), Err(NOT_CONNECTED));
}

/// The engine is told which half is shut down, and what waits for the end of it.
#[test]
fn the_engine_is_told_which_half_is_shut_down() {
    let (engine, host, _directory) = engine();
    let (rd, wr, lingers) = (EdgeFlags::SHUT_RD, EdgeFlags::SHUT_WR, EdgeFlags::LINGERS);
    let is_said = |socket: &Socket, expected: EdgeFlags| {
        let index = socket.id().index;
        host.messages().flush().unwrap();
        engine.wait_until("it was told", |seen| {
            let said = seen
                .reported_flags
                .get(&index)
                .copied()
                .unwrap_or(EdgeFlags::empty());
            said & (rd | wr | lingers | EdgeFlags::PUSH) == expected | EdgeFlags::PUSH
        });
    };
    for (half, expected) in [(Half::Read, rd), (Half::Write, wr), (Half::Both, rd | wr)] {
        let (a, b) = Engine::pair(host);
        a.socket().halves().shut_down(half).unwrap();
        is_said(a.socket(), expected);
        // Of a datagram socket, too, though the call fails without a peer.
        let datagram = Engine::open(host, SocketKind::Datagram);
        assert_eq!(datagram.halves().shut_down(half), Err(NOT_CONNECTED));
        is_said(&datagram, expected);
        drop(b);
    }
    let (a, _b) = Engine::pair(host);
    a.socket().halves().shut_down_to_linger().unwrap();
    is_said(a.socket(), wr | lingers);
}

/// Linux: of a connection that both ends have ended, and all of which has arrived, nothing is left.
/// Within the engine that is so at once.
#[test]
fn a_connection_within_the_engine_that_both_have_ended_is_none() {
    let (_engine, host, _directory) = engine();
    let [socket, other] =
        [(); 2].map(|()| socket_in(host, SocketKind::Stream, SocketState::Connected));
    let block = socket.block();
    block.set_flags(BlockFlags::PEER_FIN | BlockFlags::SHUT_WR);
    let shut_down = || socket.halves().shut_down(Half::Read);
    assert_eq!(shut_down(), Ok(()));
    block.set_other_end(other.id().index);
    block.snd.edge.store(1, Ordering::Release);
    assert_eq!(shut_down(), Ok(()), "something is still to arrive");
    block.snd.edge.store(0, Ordering::Release);
    assert_eq!(shut_down(), Err(NOT_CONNECTED));
}
