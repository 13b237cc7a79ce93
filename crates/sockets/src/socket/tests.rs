//! What all sockets say of themselves, by their state, and how they are shut down.

use super::*;
use crate::testing::fixture::engine;
use crate::testing::{Engine, SILENT_PORT};
use crate::{Host, Listener};
use longshore_hostif::{OpenFlags, SocketKind};
use std::mem::ManuallyDrop;

/// A socket in this state, whose block the test writes.
fn socket_in(host: &'static Host, kind: SocketKind, state: SocketState) -> ManuallyDrop<Socket> {
    let socket = Engine::open(host, kind);
    socket.block().set_state(state);
    ManuallyDrop::new(socket)
}

const NOT_CONNECTED: SocketError = SocketError::Refused(Errno::NOTCONN);

#[test]
fn a_peer_is_shown_while_there_is_a_connection_to_it() {
    use SocketState::*;
    let (_engine, host, _directory) = engine();
    let peer = Engine::address(7);
    for (kind, state, has) in [
        (SocketKind::Stream, Open, false),
        (SocketKind::Stream, Listening, false),
        (SocketKind::Stream, Connecting, false),
        (SocketKind::Stream, Early, false),
        (SocketKind::Stream, Connected, true),
        (SocketKind::Stream, Closing, true),
        (SocketKind::Stream, Dead, false),
        (SocketKind::Datagram, Open, true),
    ] {
        let socket = socket_in(host, kind, state);
        assert_eq!(socket.peer(), Err(NOT_CONNECTED), "none was set");
        socket.block().set_peer(peer.into());
        let expected = if has { Ok(peer) } else { Err(NOT_CONNECTED) };
        assert_eq!(socket.peer(), expected, "{kind:?} {state:?}");
    }
}

#[test]
fn what_a_socket_is_is_what_it_was_opened_as() {
    let (_engine, host, _directory) = engine();
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for flags in [OpenFlags::empty(), OpenFlags::IPV6] {
            let socket = host.open(kind, flags, 77).unwrap();
            assert_eq!(socket.is_datagram(), kind == SocketKind::Datagram);
            assert_eq!(socket.is_v6(), flags == OpenFlags::IPV6);
            assert!(!socket.is_listening() && !socket.has_kernel_side());
            assert!(!socket.is_spent() && !socket.has_listened() && !socket.is_replaced());
            assert_eq!(host.find_inode(77), Some(socket.id()));
            socket.set_inode(78);
            assert_eq!(host.find_inode(77), None);
            assert_eq!(host.find_inode(78), Some(socket.id()));
        }
    }
}

#[test]
fn bits_are_set_and_cleared_one_by_one() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    socket.set_host_bits(host_bits::KERNEL_TOO);
    socket.set_host_bits(host_bits::CORK);
    assert!(socket.has_kernel_side());
    assert_eq!(socket.host_bits(), host_bits::KERNEL_TOO | host_bits::CORK);
    socket.clear_host_bits(host_bits::KERNEL_TOO);
    assert!(!socket.has_kernel_side());
    assert_eq!(socket.host_bits(), host_bits::CORK);
    socket.set_more_bits(more_bits::LEFT | more_bits::DROPS);
    socket.clear_more_bits(more_bits::DROPS);
    assert_eq!(socket.more_bits(), more_bits::LEFT);
}

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
            assert_eq!(socket.shutdown(half), Err(NOT_CONNECTED));
            assert_eq!(socket.shut_halves(), shut, "{kind:?} {half:?}");
            socket.forget_shut();
            assert_eq!(socket.shut_halves(), (false, false));
        }
    }
    for state in [SocketState::Dead, SocketState::Free] {
        let socket = socket_in(host, SocketKind::Stream, state);
        assert_eq!(socket.shutdown(Half::Both), Err(NOT_CONNECTED));
        assert_eq!(socket.shut_halves(), (false, false));
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
            assert_eq!(socket.shutdown(half), Ok(()));
            assert_eq!(socket.shut_halves(), shut, "{state:?} {half:?}");
            // As Linux has it, it counts as told that it was made.
            let told = socket.host_bits() & host_bits::CONNECT_TOLD != 0;
            assert_eq!(told, kind == SocketKind::Stream);
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
        assert_eq!(socket.shutdown(half), Ok(()));
        assert_eq!(socket.state(), SocketState::Dead);
        assert_eq!(socket.take_error(), Errno::CONNRESET.raw_os_error() as u32);
    }
}

#[test]
fn a_connection_is_ended_by_both_when_all_has_arrived() {
    let (_engine, host, _directory) = engine();
    let socket = socket_in(host, SocketKind::Stream, SocketState::Connected);
    let block = socket.block();
    assert!(!socket.is_ended_by_both() && !socket.has_peer_ended());
    block.set_flags(BlockFlags::PEER_FIN);
    assert!(!socket.is_ended_by_both() && socket.has_peer_ended());
    block.set_flags(BlockFlags::SHUT_WR);
    assert!(socket.is_ended_by_both());
    block.snd.edge.store(1, Ordering::Release);
    assert!(!socket.is_ended_by_both());
    block.clear_flags(BlockFlags::PEER_FIN);
    assert!(!socket.has_peer_ended());
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
        assert_eq!(socket.shutdown_to_linger(), expected, "{state:?}");
        assert_eq!(socket.shut_halves(), (false, shuts));
        // Of what is no connection any more nothing will be acknowledged.
        assert_eq!(socket.is_end_acked(), state != Connected, "{state:?}");
        socket.block().set_flags(BlockFlags::FIN_ACKED);
        assert!(socket.is_end_acked());
    }
}

#[test]
fn an_error_is_taken_once_and_the_first_that_is_left_stays() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let (refused, reset) = (Errno::CONNREFUSED, Errno::CONNRESET);
    assert_eq!(socket.take_error(), 0);
    socket.set_more_bits(more_bits::IS_TAKEN);
    assert_eq!(socket.take_error(), 0);
    assert!(socket.more_bits() & more_bits::IS_TAKEN != 0);
    socket.leave_error(SocketError::Failed(refused));
    socket.leave_error(SocketError::Failed(reset));
    socket.leave_error(SocketError::WouldBlock);
    assert_eq!(socket.take_error(), refused.raw_os_error() as u32);
    assert_eq!(socket.more_bits() & more_bits::IS_TAKEN, 0);
    assert_eq!(socket.take_error(), 0);
    socket.leave_error(SocketError::Refused(reset));
    assert_eq!(socket.take_error(), 0, "only a pending one is left");
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
        socket.set_error(errno.raw_os_error());
        assert_eq!(socket.take_error(), errno.raw_os_error() as u32);
        assert_eq!(socket.state(), then);
    }
}

#[test]
fn without_an_engine_a_socket_says_that_the_network_is_down() {
    let (mut engine, host, _directory) = engine();
    let alive = Engine::open(host, SocketKind::Stream);
    let dead = socket_in(host, SocketKind::Stream, SocketState::Dead);
    dead.set_error(Errno::CONNRESET.raw_os_error());
    engine.stop();
    host.look_at_engine();
    let down = Errno::NETDOWN.raw_os_error() as u32;
    assert_eq!((alive.take_error(), alive.take_error()), (down, down));
    assert_eq!(dead.take_error(), Errno::CONNRESET.raw_os_error() as u32);
}

#[test]
fn a_socket_whose_place_another_has_taken_ends_its_calls() {
    let (_engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let socket = a.socket();
    socket.set_inode(99);
    socket.abandon();
    assert!(socket.is_replaced());
    assert_eq!(host.find_inode(99), None);
    assert_eq!(socket.linger(), Some(0), "it is reset with its last use");
    assert_eq!(socket.shut_halves(), (true, true));
    assert_eq!(socket.take_error(), Errno::CONNRESET.raw_os_error() as u32);
}

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What outlives a connection is what the program has bound the socket to.
#[test]
fn what_a_program_has_bound_is_kept_apart_from_what_it_was_given() {
    let (_engine, host, _directory) = engine();
    let own = Engine::address(0).ip();
    for (bind, port_given, address_given) in [
        (Engine::address(0), false, true),
        (Engine::address(4000), true, true),
        (ANY, false, false),
        (SocketAddr::new(ANY.ip(), 4001), true, false),
    ] {
        let socket = Engine::open(host, SocketKind::Stream);
        assert!(!socket.is_bound());
        assert_eq!((socket.bound_port(), socket.given_address()), (None, None));
        let local = socket.bind(bind).unwrap();
        assert_eq!(socket.local(), Some(local));
        assert!(socket.is_bound());
        let port = port_given.then_some(local);
        assert_eq!(socket.bound_port(), port, "{bind}");
        assert_eq!(
            socket.given_address(),
            address_given.then_some(own),
            "{bind}"
        );
        // Bound anew it is what it was bound to last.
        let again = socket.bind(ANY).unwrap();
        assert_eq!((socket.bound_port(), socket.given_address()), (None, None));
        assert_ne!(again.port(), 0);
    }
}

#[test]
fn an_unused_socket_shows_the_port_alone_unless_its_address_was_given() {
    let (_engine, host, _directory) = engine();
    let was = Engine::address(5000);
    let v6 = host.open(SocketKind::Stream, OpenFlags::IPV6, 0).unwrap();
    let (given, not) = (
        Engine::open(host, SocketKind::Stream),
        Engine::open(host, SocketKind::Stream),
    );
    given.block().set_flags(BlockFlags::ADDRESS_GIVEN);
    for (socket, shown) in [
        (&given, was),
        (&not, SocketAddr::new(ANY.ip(), 5000)),
        (&v6, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 5000)),
    ] {
        socket.show_local(was);
        assert_eq!(socket.local(), Some(shown));
        socket.block().set_flags(BlockFlags::PORT_GIVEN);
        socket.block().set_local(was.into());
        assert_eq!(socket.bound_port(), Some(shown));
    }
}

#[test]
fn a_socket_in_anothers_place_keeps_the_address_that_was_given() {
    let (_engine, host, _directory) = engine();
    let (new, old) = (
        Engine::open(host, SocketKind::Stream),
        Engine::open(host, SocketKind::Stream),
    );
    new.keep_address_of(&old);
    assert_eq!((new.local(), new.given_address()), (None, None));
    old.bind(Engine::address(4000)).unwrap();
    new.keep_address_of(&old);
    assert_eq!(new.local(), Some(Engine::address(0)));
    assert_eq!(new.given_address(), Some(Engine::address(0).ip()));
    assert!(!new.is_bound());
    assert_eq!(new.bound_port(), None);
}

/// Linux: a port that was given by number outlives the connection, and the listener.
#[test]
fn a_spent_socket_is_bound_by_a_port_of_its_own_alone() {
    use SocketState::*;
    let (_engine, host, _directory) = engine();
    for (kind, state, spent, by_number, is_bound) in [
        (SocketKind::Stream, Open, false, false, true),
        (SocketKind::Stream, Open, true, false, false),
        (SocketKind::Stream, Open, true, true, true),
        (SocketKind::Stream, Connected, true, false, true),
        (SocketKind::Stream, Dead, false, false, false),
        (SocketKind::Stream, Dead, false, true, true),
        (SocketKind::Datagram, Dead, false, false, true),
    ] {
        let socket = socket_in(host, kind, state);
        let block = socket.block();
        if by_number {
            block.set_flags(BlockFlags::PORT_GIVEN);
        }
        if spent {
            socket.set_more_bits(more_bits::IS_SPENT);
        }
        assert!(!socket.is_bound());
        block.set_flags(BlockFlags::BOUND);
        assert_eq!(socket.is_bound(), is_bound, "{state:?} {spent} {by_number}");
        assert_eq!(socket.is_spent(), spent && state == Open);
    }
}

#[test]
fn notices_are_kept_for_a_program_that_asks_for_them() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    socket.add_notice(true);
    assert_eq!(socket.take_notice(), None);
    socket.set_more_bits(more_bits::ZERO_COPY);
    socket.add_notice(false);
    socket.add_notice(true);
    let notice = socket.take_notice().unwrap();
    assert_eq!((notice.sends, notice.copied), (0..=1, true));
    assert_eq!(socket.take_notice(), None);
}

#[test]
fn a_look_for_a_while_ends_with_what_is_found_or_with_an_error() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    assert_eq!(socket.look_awhile(|| Ok(7)), Ok(Some(7)));
    let mut looks = 0;
    let mut never = || {
        looks += 1;
        Err::<(), _>(SocketError::WouldBlock)
    };
    assert_eq!(socket.look_again(&mut never), Ok(None));
    assert_eq!(socket.look_awhile(&mut never), Ok(None));
    assert!(looks != 0);
    let fails = || Err::<(), _>(SocketError::BrokenPipe);
    assert_eq!(socket.look_awhile(fails), Err(SocketError::BrokenPipe));
}

#[test]
fn a_listener_that_is_shut_down_for_writing_listens_on() {
    let (_engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = listener.socket();
    assert_eq!(socket.shutdown(Half::Write), Ok(()));
    assert!(socket.is_listening());
    assert_eq!(socket.shutdown(Half::Read), Ok(()));
    assert!(!socket.is_listening());
    assert!(socket.is_spent() && socket.has_listened());
    assert_eq!(
        socket.accept_queue().accept_with(|| Ok(())).err(),
        Some(SocketError::Refused(Errno::INVAL))
    );
    assert_eq!(socket.shutdown(Half::Read), Err(NOT_CONNECTED));
}

/// Waits until the engine has told of something that nobody has taken from the channel.
fn is_told(host: &Host) {
    for _ in 0..12_000 {
        if host.session.has_completions(host.own_channel()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("nothing was told");
}

/// A call says how things stand, though its process has not looked at the channel since.
#[test]
fn what_the_engine_has_told_counts_for_each_call() {
    use crate::{Departure, Sending};
    use std::io::{IoSlice, IoSliceMut};
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let urgent = |bytes| {
        a.socket()
            .send_stream()
            .send_with(&[IoSlice::new(bytes)], Sending::URGENT)
    };
    host.drain_if_free();
    assert_eq!(urgent(b"ab"), Ok(2));
    is_told(host);
    // Its place may be told before the byte is.
    while b.socket().urgent_data().recv(false) != Ok(Some(b'b')) {
        is_told(host);
    }
    let mut buf = [0; 9];
    let mut read = || {
        b.socket()
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut buf)], false)
    };
    assert_eq!(read(), Ok(1));
    assert_eq!(read(), Err(SocketError::WouldBlock));
    host.flush().unwrap();
    host.drain_if_free();
    a.write_all(b"abc").unwrap();
    is_told(host);
    while read() != Ok(3) {
        is_told(host);
    }
    // A connection, at both ends.
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let client = Engine::open(host, SocketKind::Stream);
    let begun = client.connector().start(listener.local().unwrap());
    assert_eq!(begun, Err(SocketError::InProgress));
    while listener
        .socket()
        .accept_queue()
        .accept_with(|| Ok(()))
        .is_err()
    {
        is_told(host);
    }
    while client.peer().is_err() {
        is_told(host);
    }
    // A datagram.
    let (c, d) = (
        Engine::open(host, SocketKind::Datagram),
        Engine::open(host, SocketKind::Datagram),
    );
    let to = d.bind(Engine::address(0)).unwrap();
    c.bind(Engine::address(0)).unwrap();
    host.drain_if_free();
    let sent = c
        .datagrams()
        .send(&[IoSlice::new(b"abcd")], Some(to), Departure::default());
    assert_eq!(sent, Ok(4));
    while d.datagrams().next_len() != 4 {
        is_told(host);
    }
}

/// The engine is told which half is shut down, and what waits for the end of it.
#[test]
fn the_engine_is_told_which_half_is_shut_down() {
    let (engine, host, _directory) = engine();
    let (rd, wr, lingers) = (EdgeFlags::SHUT_RD, EdgeFlags::SHUT_WR, EdgeFlags::LINGERS);
    let is_said = |socket: &Socket, expected: EdgeFlags| {
        let index = socket.id().index;
        host.flush().unwrap();
        engine.wait_until("it was told", |seen| {
            let said = seen.said.get(&index).copied().unwrap_or(EdgeFlags::empty());
            said & (rd | wr | lingers | EdgeFlags::PUSH) == expected | EdgeFlags::PUSH
        });
    };
    for (half, expected) in [(Half::Read, rd), (Half::Write, wr), (Half::Both, rd | wr)] {
        let (a, b) = Engine::pair(host);
        a.socket().shutdown(half).unwrap();
        is_said(a.socket(), expected);
        // Of a datagram socket, too, though the call fails without a peer.
        let datagram = Engine::open(host, SocketKind::Datagram);
        assert_eq!(datagram.shutdown(half), Err(NOT_CONNECTED));
        is_said(&datagram, expected);
        drop(b);
    }
    let (a, _b) = Engine::pair(host);
    a.socket().shutdown_to_linger().unwrap();
    is_said(a.socket(), wr | lingers);
}
