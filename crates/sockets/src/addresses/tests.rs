//! Addresses that sockets are bound to, that they show, and that they reach.

use super::*;
use crate::block_words::more_bits;
use crate::testing::Engine;
use crate::testing::fixture::{engine, socket_in};
use longshore_hostif::{OpenFlags, OptionName, SocketKind};
use std::sync::atomic::Ordering;
const NOT_CONNECTED: SocketError = SocketError::Refused(Errno::NOTCONN);

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

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
        assert_eq!(
            socket.addresses().peer(),
            Err(NOT_CONNECTED),
            "none was set"
        );
        socket.block().set_peer(peer.into());
        let expected = if has { Ok(peer) } else { Err(NOT_CONNECTED) };
        assert_eq!(socket.addresses().peer(), expected, "{kind:?} {state:?}");
    }
}

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
        assert!(!socket.addresses().is_bound());
        assert_eq!(
            (
                socket.addresses().bound_port(),
                socket.addresses().given_address()
            ),
            (None, None)
        );
        let local = socket.addresses().bind(bind).unwrap();
        assert_eq!(socket.addresses().local(), Some(local));
        assert!(socket.addresses().is_bound());
        let port = port_given.then_some(local);
        assert_eq!(socket.addresses().bound_port(), port, "{bind}");
        assert_eq!(
            socket.addresses().given_address(),
            address_given.then_some(own),
            "{bind}"
        );
        // Bound anew it is what it was bound to last.
        let again = socket.addresses().bind(ANY).unwrap();
        assert_eq!(
            (
                socket.addresses().bound_port(),
                socket.addresses().given_address()
            ),
            (None, None)
        );
        assert_ne!(again.port(), 0);
    }
}

#[test]
fn an_unused_socket_shows_the_port_alone_unless_its_address_was_given() {
    let (_engine, host, _directory) = engine();
    let was = Engine::address(5000);
    let v6 = host
        .sockets()
        .open(SocketKind::Stream, OpenFlags::IPV6, 0)
        .unwrap();
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
        socket.addresses().show_local(was);
        assert_eq!(socket.addresses().local(), Some(shown));
        socket.block().set_flags(BlockFlags::PORT_GIVEN);
        socket.block().set_local(was.into());
        assert_eq!(socket.addresses().bound_port(), Some(shown));
    }
}

#[test]
fn a_socket_in_anothers_place_keeps_the_address_that_was_given() {
    let (_engine, host, _directory) = engine();
    let (new, old) = (
        Engine::open(host, SocketKind::Stream),
        Engine::open(host, SocketKind::Stream),
    );
    new.addresses().keep_address_of(&old);
    assert_eq!(
        (new.addresses().local(), new.addresses().given_address()),
        (None, None)
    );
    old.addresses().bind(Engine::address(4000)).unwrap();
    new.addresses().keep_address_of(&old);
    assert_eq!(new.addresses().local(), Some(Engine::address(0)));
    assert_eq!(
        new.addresses().given_address(),
        Some(Engine::address(0).ip())
    );
    assert!(!new.addresses().is_bound());
    assert_eq!(new.addresses().bound_port(), None);
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
        assert!(!socket.addresses().is_bound());
        block.set_flags(BlockFlags::BOUND);
        assert_eq!(
            socket.addresses().is_bound(),
            is_bound,
            "{state:?} {spent} {by_number}"
        );
        assert_eq!(socket.is_spent(), spent && state == Open);
    }
}

/// Linux: an address of IPv6 that a socket is bound to is one that it sends from, and one of
/// IPv4 as well. What a datagram socket has of its peer it may leave.
#[test]
fn a_socket_of_ipv6_reaches_what_its_address_does() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (datagram, stream) = (SocketKind::Datagram, SocketKind::Stream);
    for (kind, flags, local, is_given, is_mapped, reaches_v6_alone) in [
        (datagram, OpenFlags::IPV6, None, false, false, false),
        (
            datagram,
            OpenFlags::IPV6,
            Some("[::]:5"),
            false,
            false,
            false,
        ),
        (
            datagram,
            OpenFlags::IPV6,
            Some("[fd00::1]:5"),
            true,
            false,
            true,
        ),
        (
            datagram,
            OpenFlags::IPV6,
            Some("[fd00::1]:5"),
            false,
            false,
            false,
        ),
        (
            stream,
            OpenFlags::IPV6,
            Some("[fd00::1]:5"),
            false,
            false,
            true,
        ),
        (
            datagram,
            OpenFlags::IPV6,
            Some("[::ffff:10.9.9.2]:5"),
            true,
            true,
            false,
        ),
        (
            datagram,
            OpenFlags::empty(),
            Some("10.9.9.2:5"),
            true,
            false,
            false,
        ),
    ] {
        let socket = host.sockets().open(kind, flags, 0).unwrap();
        if is_given {
            socket.block().set_flags(BlockFlags::ADDRESS_GIVEN);
        }
        if let Some(local) = local {
            let local: SocketAddr = local.parse().unwrap();
            socket.block().set_local(local.into());
        }
        assert_eq!(
            socket.addresses().is_bound_to_mapped(),
            is_mapped,
            "{local:?}"
        );
        assert_eq!(
            socket.addresses().reaches_v6_alone(),
            reaches_v6_alone,
            "{local:?}"
        );
    }
}

#[test]
fn the_engine_is_told_of_a_socket_of_ipv6_alone() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let socket = host
        .sockets()
        .open(SocketKind::Stream, OpenFlags::IPV6, 0)
        .unwrap();
    let index = socket.id().index;
    for on in [true, false] {
        socket.options().set_v6_only(on).unwrap();
        assert_eq!(
            (
                socket.options().is_v6_only(),
                socket.addresses().reaches_v6_alone()
            ),
            (on, on)
        );
        host.messages().flush().unwrap();
        let reported = (index, OptionName::V6Only, u64::from(on));
        engine.wait_until("it was told", |seen| seen.options.last() == Some(&reported));
    }
}

/// Linux: by the time that a port is found to be another's, the address is taken from the socket.
#[test]
fn an_address_that_was_kept_goes_when_the_port_is_anothers() {
    let (_engine, host, _directory) = engine();
    let [old, new, other] = [(); 3].map(|()| Engine::open(host, SocketKind::Stream));
    let taken = other.addresses().bind(Engine::address(0)).unwrap();
    old.addresses().bind(Engine::address(4000)).unwrap();
    new.addresses().keep_address_of(&old);
    let in_use = Err(SocketError::Refused(Errno::ADDRINUSE));
    assert_eq!(new.addresses().bind(taken), in_use);
    assert_eq!(new.addresses().given_address(), None);
    assert_eq!(new.addresses().local(), Some(ANY));
    // What is bound stays what it is.
    assert_eq!(old.addresses().bind(taken), in_use);
    assert_eq!(old.addresses().local(), Some(Engine::address(4000)));
}

/// Linux: the port that a connection was given goes with it, and what is bound afterwards keeps any.
#[test]
fn what_is_over_keeps_the_port_that_it_is_bound_to() {
    let (_engine, host, _directory) = engine();
    for (state, keeps) in [(SocketState::Open, false), (SocketState::Dead, true)] {
        let socket = Engine::open(host, SocketKind::Stream);
        socket.block().set_state(state);
        let local = socket.addresses().bind(Engine::address(0)).unwrap();
        assert_eq!(
            socket.addresses().bound_port(),
            keeps.then_some(local),
            "{state:?}"
        );
    }
}

/// The engine is told that it is to have no port for as long as it is bound, unless that is what its
/// program has said; and nothing of one that it knows by its address.
#[test]
fn a_stream_that_connects_from_its_address_is_bound_to_that_alone() {
    let (engine, host, _directory) = engine();
    let (alone, without_port) = (more_bits::ADDRESS_ALONE, more_bits::WITHOUT_PORT);
    let mut sockets = Vec::new();
    for (bits, said, is_bound) in [
        (0, &[1, 0][..], true),
        (alone, &[], true),
        (alone | without_port, &[], false),
    ] {
        let socket = Engine::open(host, SocketKind::Stream);
        socket.block().set_flags(BlockFlags::ADDRESS_GIVEN);
        socket.block().set_local(Engine::address(0).into());
        socket.set_more_bits(bits);
        socket.addresses().keep_address().unwrap();
        assert_eq!(socket.addresses().is_bound(), is_bound, "{bits:#x}");
        socket.options().set(OptionName::KeepCount, 9).unwrap();
        let index = socket.id().index;
        let said = said.iter().map(|on| (OptionName::AddressAlone, *on));
        let said: Vec<_> = said.chain([(OptionName::KeepCount, 9)]).collect();
        engine.wait_until("it was told", |seen| {
            let of_socket = seen.options.iter().filter(|(of, ..)| *of == index);
            let options = of_socket.map(|(_, name, value)| (*name, *value));
            options.eq(said.iter().copied())
        });
        // Its index is nobody else's.
        sockets.push(socket);
    }
}

/// Where the engine gives no port (IP_BIND_ADDRESS_NO_PORT), a socket has an address and is not bound
/// to any port, until it is.
#[test]
fn a_socket_that_gets_no_port_has_its_address_alone() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    for gives_no_port in [true, false] {
        let behavior = &engine.behavior.gives_no_port;
        behavior.store(gives_no_port, Ordering::Relaxed);
        let local = socket.addresses().bind(Engine::address(0)).unwrap();
        assert_eq!(local.port() == 0, gives_no_port);
        assert_eq!(socket.addresses().is_bound(), !gives_no_port);
        assert_eq!(socket.addresses().given_address(), Some(local.ip()));
        let is_without = socket.more_bits() & more_bits::WITHOUT_PORT != 0;
        assert_eq!(is_without, gives_no_port);
    }
}
