//! The call that reports an error.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{engine, socket_in};
use longshore_hostif::SocketKind;

#[test]
fn an_error_is_taken_once_and_the_first_that_is_left_stays() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let (refused, reset) = (Errno::CONNREFUSED, Errno::CONNRESET);
    assert_eq!(socket.pending_error().take(), 0);
    socket.set_more_bits(more_bits::IS_TAKEN);
    assert_eq!(socket.pending_error().take(), 0);
    assert!(socket.more_bits() & more_bits::IS_TAKEN != 0);
    socket.pending_error().leave(SocketError::Failed(refused));
    socket.pending_error().leave(SocketError::Failed(reset));
    socket.pending_error().leave(SocketError::WouldBlock);
    assert_eq!(socket.pending_error().take(), refused.raw_os_error() as u32);
    assert_eq!(socket.more_bits() & more_bits::IS_TAKEN, 0);
    assert_eq!(socket.pending_error().take(), 0);
    socket.pending_error().leave(SocketError::Refused(reset));
    assert_eq!(
        socket.pending_error().take(),
        0,
        "only a pending one is left"
    );
}

/// Of a program that has cancelled its attempt, the next one may be made.
#[test]
fn an_attempt_whose_cancelling_was_told_may_be_repeated() {
    let (_engine, host, _directory) = engine();
    for (errno, then) in [
        (Errno::CANCELED, SocketState::Open),
        (Errno::TIMEDOUT, SocketState::Dead),
    ] {
        let socket = socket_in(host, SocketKind::Stream, SocketState::Dead);
        socket.pending_error().set(errno.raw_os_error());
        assert_eq!(socket.pending_error().take(), errno.raw_os_error() as u32);
        assert_eq!(socket.state(), then);
    }
}

#[test]
fn without_an_engine_a_socket_says_that_the_network_is_down() {
    let (mut engine, host, _directory) = engine();
    let alive = Engine::open(host, SocketKind::Stream);
    let dead = socket_in(host, SocketKind::Stream, SocketState::Dead);
    dead.pending_error().set(Errno::CONNRESET.raw_os_error());
    engine.stop();
    host.look_at_engine();
    let down = Errno::NETDOWN.raw_os_error() as u32;
    assert_eq!(
        (alive.pending_error().take(), alive.pending_error().take()),
        (down, down)
    );
    assert_eq!(
        dead.pending_error().take(),
        Errno::CONNRESET.raw_os_error() as u32
    );
}
