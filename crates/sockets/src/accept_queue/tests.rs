//! Listening, and what an accepted connection is.

use super::*;
use crate::testing::fixture::engine;
use crate::testing::{Engine, SEND_LIMIT};
use crate::{Host, Listener, Stream};
use longshore_hostif::{OpenFlags, SocketKind};
use std::mem::ManuallyDrop;
use std::time::Duration;

/// The engine has told of it before it was accepted, which counts then.
#[test]
fn what_came_before_a_connection_was_accepted_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let stream = Stream::connect(host, listener.local().unwrap()).unwrap();
    stream.write_all(b"early").unwrap();
    let socket = listener.socket();
    while !socket.accept_queue().has_connection() || !host.channel.stop().unwrap().has_early() {
        host.messages().drain_if_free();
    }
    let (accepted, ..) = socket.accept_queue().accept_with(|| Ok(())).unwrap();
    let block = accepted.block();
    assert_eq!(block.rcv.held(), 5);
    assert_eq!(block.snd.limit.load(Ordering::Acquire), SEND_LIMIT);
    assert!(!host.channel.stop().unwrap().has_early());
}

/// Waits until a connection waits.
fn has_come(engine: &Engine, listener: &Socket) {
    engine.wait_until("a connection waits", |_| {
        listener.host().messages().drain_if_free();
        listener.accept_queue().has_connection()
    });
}

#[test]
fn a_stream_listens_that_has_no_connection() {
    use SocketState::*;
    let (_engine, host, _directory) = engine();
    let datagram = Engine::open(host, SocketKind::Datagram);
    let refused = Err(SocketError::Refused(Errno::OPNOTSUPP));
    assert_eq!(datagram.accept_queue().listen(1), refused);
    for state in [Connecting, Connected, Closing, Dead, Early, Free] {
        let socket = ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
        socket.block().set_state(state);
        let invalid = Err(SocketError::Refused(Errno::INVAL));
        assert_eq!(socket.accept_queue().listen(1), invalid, "{state:?}");
        assert_eq!(socket.state(), state);
    }
    let socket = Engine::open(host, SocketKind::Stream);
    socket.halves().note(true, true);
    assert_eq!(socket.accept_queue().listen(1), Ok(()));
    assert!(socket.is_listening());
    // What was shut down before it listened means nothing to a listener, and after it does.
    assert_eq!(socket.halves().shut(), (false, false));
    socket.halves().note(false, true);
    assert_eq!(socket.accept_queue().listen(2), Ok(()));
    assert_eq!(socket.halves().shut(), (false, true));
}

#[test]
fn nothing_is_accepted_but_from_a_listener() {
    let (mut engine, host, _directory) = engine();
    let accept = |socket: &Socket| socket.accept_queue().accept_with(|| Ok(())).err();
    let datagram = Engine::open(host, SocketKind::Datagram);
    let refused = |errno| Some(SocketError::Refused(errno));
    assert_eq!(accept(&datagram), refused(Errno::OPNOTSUPP));
    let (a, _b) = Engine::pair(host);
    assert_eq!(accept(a.socket()), refused(Errno::INVAL));
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    assert_eq!(accept(listener.socket()), Some(SocketError::WouldBlock));
    listener.socket().halves().note(false, true);
    assert_eq!(accept(listener.socket()), Some(SocketError::WouldBlock));
    engine.stop();
    host.look_at_engine();
    assert_eq!(accept(listener.socket()), Some(SocketError::EngineGone));
    listener.socket().halves().note(true, false);
    assert_eq!(accept(listener.socket()), refused(Errno::INVAL));
}

/// A program that has no descriptor to give finds the connection there when it has one.
#[test]
fn a_connection_that_cannot_be_prepared_for_waits_on() {
    let (engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = listener.socket();
    let none = socket
        .accept_queue()
        .accept_with(|| -> Result<(), _> { panic!("nothing waits") });
    assert_eq!(none.err(), Some(SocketError::WouldBlock));
    let stream = Stream::connect(host, listener.local().unwrap()).unwrap();
    has_come(&engine, socket);
    let no_room = SocketError::Refused(Errno::MFILE);
    let failed = socket
        .accept_queue()
        .accept_with(|| Err::<(), _>(no_room))
        .err();
    assert_eq!(failed, Some(no_room));
    assert!(socket.accept_queue().has_connection());
    let (accepted, record, prepared) = socket.accept_queue().accept_with(|| Ok(5)).unwrap();
    assert_eq!(prepared, 5);
    assert_eq!(record.socket, accepted.id());
    assert_eq!(record.peer.get(), stream.socket().addresses().local());
    assert_eq!(
        accepted.connector().note_reported(),
        Err(SocketError::Refused(Errno::ISCONN))
    );
    assert!(!socket.accept_queue().has_connection());
}

/// Linux: an accepted connection has what its listener was set to.
#[test]
fn an_accepted_connection_has_what_its_listener_was_set_to() {
    let (_engine, host, _directory) = engine();
    for (v6_only, address_given) in [(false, true), (true, false)] {
        let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
        let socket = listener.socket();
        let block = socket.block();
        if !address_given {
            block.clear_flags(BlockFlags::ADDRESS_GIVEN);
        }
        socket.options().note_v6_only(v6_only);
        // Of these, what SO_TIMESTAMPING says is handed on.
        let stamps = 2 << more_bits::TIMESTAMPING_SHIFT;
        socket.set_more_bits(stamps | more_bits::TIMESTAMP);
        socket.options().set_linger(Some(7));
        socket.options().set_low_water(3).unwrap();
        socket
            .options()
            .set_time_limit(true, Some(Duration::from_millis(11)));
        socket
            .options()
            .set_time_limit(false, Some(Duration::from_millis(22)));
        block.rcv.limit.store(54_321, Ordering::Relaxed);
        let client = Stream::connect(host, listener.local().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let accepted = stream.socket();
        let of_listener = more_bits::TIMESTAMPING | more_bits::TIMESTAMP;
        assert_eq!(accepted.more_bits() & of_listener, stamps);
        assert_eq!(accepted.options().linger(), Some(7));
        assert_eq!(accepted.options().low_water(), 3);
        assert_eq!(
            accepted.options().time_limit(true),
            Some(Duration::from_millis(11))
        );
        assert_eq!(
            accepted.options().time_limit(false),
            Some(Duration::from_millis(22))
        );
        assert_eq!(accepted.receive_stream().limit(), 54_321);
        assert_eq!(accepted.options().is_v6_only(), v6_only);
        assert_eq!(
            accepted.addresses().given_address().is_some(),
            address_given
        );
        assert_eq!(client.socket().options().linger(), None);
    }
}

/// It is of the family of its listener, whatever its own addresses are.
#[test]
fn a_connection_to_a_listener_of_ipv6_is_one_of_ipv6() {
    let (_engine, host, _directory) = engine();
    for flags in [OpenFlags::empty(), OpenFlags::IPV6] {
        let listener = host.sockets().open(SocketKind::Stream, flags, 0).unwrap();
        let local = listener.addresses().bind(Engine::address(0)).unwrap();
        listener.accept_queue().listen(8).unwrap();
        let _client = Stream::connect(host, local).unwrap();
        let accept = || listener.accept_queue().accept_with(|| Ok(()));
        let accepted = listener.wait(None, crate::WaitLimit::ENDLESS, accept);
        assert_eq!(accepted.unwrap().0.is_v6(), flags == OpenFlags::IPV6);
    }
}

#[test]
fn what_waits_at_a_listener_that_stops_is_gone() {
    let (engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = listener.socket();
    let _client = Stream::connect(host, listener.local().unwrap()).unwrap();
    has_come(&engine, socket);
    assert_eq!(socket.accept_queue().stop(Half::Both), Ok(()));
    assert!(!socket.accept_queue().has_connection());
    assert_eq!(socket.state(), SocketState::Open);
    let again = socket.accept_queue().stop(Half::Both);
    assert_eq!(again, Err(SocketError::Refused(Errno::NOTCONN)));
}

/// Linux: listening without an address is listening at a port that nobody has.
#[test]
fn a_listener_that_was_not_bound_shows_the_port_that_it_was_given() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    assert_eq!(socket.addresses().local(), None);
    socket.accept_queue().listen(1).unwrap();
    let local = socket.addresses().local().unwrap();
    assert_eq!(local.ip(), Engine::address(0).ip());
    assert_ne!(local.port(), 0);
    // Once it has one, nothing is said of it.
    socket.accept_queue().listen(2).unwrap();
    assert_eq!(socket.addresses().local(), Some(local));
}

/// Has so many connections wait at a listener.
fn with_waiting(engine: &Engine, host: &'static Host, count: usize) -> (Listener, Vec<Stream>) {
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let to = listener.local().unwrap();
    let connect = |_| Stream::connect(host, to).unwrap();
    let clients = (0..count).map(connect).collect();
    engine.wait_until("all wait", |_| {
        host.messages().drain_if_free();
        listener.socket().block().rcv.held() == (count * ACCEPT_RECORD) as u64
    });
    (listener, clients)
}

/// What was reset and forgotten while it waited is passed over.
#[test]
fn a_connection_that_is_not_there_any_more_is_passed_over() {
    let (engine, host, _directory) = engine();
    let (listener, clients) = with_waiting(&engine, host, 2);
    let (socket, rcv) = (listener.socket(), &listener.socket().block().rcv);
    // As if its place was another's by now.
    let queue = socket.accept_queue();
    let mut record = queue.record_at(0).unwrap();
    record.socket.generation = record.socket.generation.wrapping_add(100);
    let entry = host.arena.rcv_directory(socket.id().index).entry(0);
    let chunk = entry.load(Ordering::Acquire);
    let place = host.arena.rcv_place(chunk, 0, ACCEPT_RECORD).unwrap();
    host.arena.memory().write(place, &record.encode());
    let (accepted, second, ()) = queue.accept_with(|| Ok(())).unwrap();
    assert_eq!(second.peer.get(), clients[1].socket().addresses().local());
    assert_eq!(accepted.id(), second.socket);
    let read = 2 * ACCEPT_RECORD as u64;
    assert_eq!(rcv.done.load(Ordering::Acquire), read);
    // The engine is told by the same request, so that nothing else need say it.
    assert_eq!(rcv.reported.load(Ordering::Acquire), read);
    assert!(!queue.has_connection());
}

/// Of a connection of which this process was told while it waited, nothing is asked for.
#[test]
fn an_accepted_connection_is_asked_for_where_it_was_not_told_of() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let requests = |host: &Host| {
        let all = host.own_rings().map(|ring| host.session.requested(ring));
        all.fold(0, u32::wrapping_add)
    };
    let (listener, _clients) = with_waiting(&engine, host, 1);
    let before = requests(host);
    let accepted = listener.socket().accept_queue().accept_with(|| Ok(()));
    assert_eq!(
        requests(host).wrapping_sub(before),
        1,
        "that it is accepted"
    );
    // Another process listens, too, and neither was told.
    listener.socket().share();
    let theirs = second.sockets().inherit(listener.socket().id()).unwrap();
    second.messages().flush().unwrap();
    engine.wait_until("it is known", |_| {
        let has_handled = |ring| {
            let number = second.session.requested(ring);
            second.session.has_handled(ring, number)
        };
        second.own_rings().all(has_handled)
    });
    let clients = [(); 2].map(|()| Stream::connect(host, listener.local().unwrap()).unwrap());
    let accepted_by = |socket: &Socket| {
        has_come(&engine, socket);
        let before = requests(socket.host());
        let accepted = socket.accept_queue().accept_with(|| Ok(())).unwrap();
        (requests(socket.host()).wrapping_sub(before), accepted)
    };
    let (by_them, by_us) = (accepted_by(&theirs), accepted_by(listener.socket()));
    assert_eq!((by_them.0, by_us.0), (2, 2), "and what comes");
    drop((accepted, clients));
}

#[test]
fn the_engine_is_told_that_a_listener_stops() {
    let (engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let socket = listener.socket();
    socket.accept_queue().stop(Half::Read).unwrap();
    assert_eq!(socket.state(), SocketState::Open);
    engine.wait_until("it is told", |seen| {
        let said = seen.reported_flags.get(&socket.id().index);
        said.is_some_and(|flags| flags.contains(EdgeFlags::SHUT_RD))
    });
}
