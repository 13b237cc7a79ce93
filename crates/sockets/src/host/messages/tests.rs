//! Which calls make what the engine has told count, which have it fetch what was put off, and
//! which wait for what is under way to them.

use super::*;
use crate::testing::fixture::{Ignored, engine, socket_in};
use crate::{Half, ReadySet, Socket};
use longshore_hostif::SocketKind::{Datagram, Stream};
use longshore_hostif::SocketState::{self, Connected, Connecting, Dead, Listening, Open};
use longshore_hostif::{AdapterChannel, BlockFlags, OptionName, RING, SocketKind};
use std::io::{IoSlice, IoSliceMut};
use std::mem::ManuallyDrop;

/// A call on a socket, by what it is for, and the socket that it is made on.
type Case = (&'static str, SocketKind, SocketState, fn(&Socket));

fn write(socket: &Socket) -> Result<usize, SocketError> {
    socket.send_stream().send(&[IoSlice::new(b"x")], false)
}

fn read(socket: &Socket) -> Result<usize, SocketError> {
    let mut bytes = [0; 9];
    let parts = &mut [IoSliceMut::new(&mut bytes)];
    socket.receive_stream().recv(parts, false)
}

fn accept(socket: &Socket) -> Option<SocketError> {
    socket.accept_queue().accept_with(|| Ok(())).err()
}

#[test]
fn a_call_that_says_how_a_socket_stands_catches_up_with_the_engine() {
    let cases: [Case; 11] = [
        ("a sleep on a set", Stream, Connected, |s| {
            let set = ReadySet::new(s.host()).unwrap();
            set.declare().unwrap();
            set.awake();
        }),
        ("a peer", Stream, Connected, |s| {
            let _ = s.addresses().peer();
        }),
        ("SO_ERROR", Stream, Connected, |s| {
            s.pending_error().take();
        }),
        ("SO_SNDBUF", Stream, Connected, |s| {
            s.send_stream().limit();
        }),
        ("MSG_OOB", Stream, Connected, |s| {
            assert!(s.urgent_data().recv(true).is_err());
        }),
        ("shutdown", Stream, Dead, |s| {
            assert!(s.halves().shut_down(Half::Both).is_err());
        }),
        ("connect", Stream, Connecting, |s| {
            let to = crate::testing::Engine::address(1);
            assert!(s.connector().start(to).is_err());
        }),
        ("a cancellation", Stream, Connected, |s| {
            s.connector().cancel().unwrap();
        }),
        ("a write where something failed", Stream, Dead, |s| {
            s.block().set_flags(BlockFlags::FAILED);
            assert!(write(s).is_err());
        }),
        ("accept", Stream, Listening, |s| {
            assert_eq!(accept(s), Some(SocketError::WouldBlock));
        }),
        ("FIONREAD", Datagram, Open, |s| {
            assert_eq!(s.datagrams().next_len(), 0);
        }),
    ];
    let (engine, host, _directory) = engine();
    let has_told = || host.session.has_completions(host.own_channel());
    for (what, kind, state, call) in cases {
        let socket = socket_in(host, kind, state);
        // A process that subscribes learns how the socket stands.
        let subscribe = Request::Subscribe {
            socket: socket.id(),
        };
        host.messages().report(&subscribe, Wake::Now).unwrap();
        engine.wait_until(what, |_| has_told());
        call(&socket);
        assert!(!has_told(), "{what}");
    }
}

#[test]
fn a_call_that_finds_nothing_has_the_engine_fetch_what_was_put_off() {
    let cases: [Case; 3] = [
        ("a read", Stream, Connected, |s| {
            assert_eq!(read(s), Err(SocketError::WouldBlock));
        }),
        ("a write", Stream, Connected, |s| {
            let snd = &s.block().snd;
            for word in [&snd.edge, &snd.returned] {
                word.store(longshore_hostif::STREAM_MAX, Ordering::Relaxed);
            }
            assert_eq!(write(s), Err(SocketError::WouldBlock));
        }),
        ("FIONREAD", Datagram, Open, |s| {
            assert_eq!(s.datagrams().next_len(), 0);
        }),
    ];
    let (_engine, host, _directory) = engine();
    for (what, kind, state, call) in cases {
        let socket = socket_in(host, kind, state);
        host.channel.holds.store(true, Ordering::Relaxed);
        call(&socket);
        assert!(!host.channel.holds(), "{what}");
    }
}

/// The other end, within the engine, was closed, and what was sent to it is under way: a call that
/// a reset ends otherwise waits for that; and what waits for a connection does.
#[test]
fn a_call_waits_for_what_is_under_way_if_it_would_end_otherwise() {
    let cases: [Case; 6] = [
        ("a peer", Stream, Connected, |s| {
            let _ = s.addresses().peer();
        }),
        ("SO_ERROR", Stream, Dead, |s| {
            s.pending_error().take();
        }),
        ("shutdown", Stream, Dead, |s| {
            assert!(s.halves().shut_down(Half::Both).is_err());
        }),
        ("a write", Stream, Dead, |s| {
            assert!(write(s).is_err());
        }),
        ("accept", Stream, Listening, |s| {
            assert_eq!(accept(s), Some(SocketError::WouldBlock));
        }),
        (
            "a connection that was not told of",
            Stream,
            Connected,
            |s| {
                s.connector().catch_up_unreported();
            },
        ),
    ];
    let (engine, host, _directory) = engine();
    let is_under_way = || host.session.under_way().are_any();
    let is_handled = |ring| host.session.has_handled(ring, host.session.requested(ring));
    for (what, kind, state, call) in cases {
        let [socket, other] = [state, Connected].map(|state| socket_in(host, kind, state));
        socket.block().set_other_end(other.id().index);
        other.block().set_other_end(socket.id().index);
        other.block().set_flags(BlockFlags::CLOSED);
        host.messages().flush().unwrap();
        engine.wait_until(what, |_| host.own_rings().all(is_handled));
        // So the next who waits for it finds it done, and says so.
        host.under_way().note();
        assert!(is_under_way());
        call(&socket);
        assert!(!is_under_way(), "{what}");
    }
}

/// The other end is to show it with the next call: it is a socket of this process, or another's.
/// What waits at a listener may be either.
#[test]
fn what_is_done_to_one_end_is_under_way_to_the_other() {
    type Call = fn(ManuallyDrop<Socket>);
    let close: Call = |s| drop(ManuallyDrop::into_inner(s));
    let cases: [(&str, SocketState, Call); 5] = [
        ("a write", Connected, |s| assert_eq!(write(&s), Ok(1))),
        ("shutdown", Connected, |s| {
            s.halves().shut_down(Half::Write).unwrap();
        }),
        ("close", Connected, close),
        ("shutdown of a listener", Listening, |s| {
            s.halves().shut_down(Half::Both).unwrap();
        }),
        ("close of a listener", Listening, close),
    ];
    let (engine, host, _directory) = engine();
    let is_handled = |ring| host.session.has_handled(ring, host.session.requested(ring));
    for is_here in [true, false] {
        for (what, state, call) in cases {
            let [socket, other] = [state, Connected].map(|state| socket_in(host, Stream, state));
            let elsewhere = host.arena.geometry().sockets - 1;
            let index = if is_here { other.id().index } else { elsewhere };
            if state == Connected {
                socket.block().set_other_end(index);
            }
            host.messages().flush().unwrap();
            engine.wait_until(what, |_| host.own_rings().all(is_handled));
            host.under_way().wait();
            host.in_flight.take_done_to_own();
            assert!(!host.session.under_way().are_any());
            call(socket);
            assert!(host.session.under_way().are_any(), "{what}");
            let may_be_own = is_here || state == Listening;
            let is_own = host.in_flight.take_done_to_own();
            assert_eq!(is_own, may_be_own, "{what} {is_here}");
        }
    }
}

/// TCP_CORK and TCP_NODELAY: what they let go is fetched with what is written, and other options
/// are told of before this process sleeps.
#[test]
fn an_option_that_lets_go_of_what_was_written_counts_as_written() {
    use OptionName::{Cork, KeepIdle, NoDelay};
    let (engine, host, _directory) = engine();
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    for (has_written, name, value, lets_go) in [
        (true, Cork, 0, true),
        (true, Cork, 1, false),
        (true, NoDelay, 1, true),
        (true, NoDelay, 0, false),
        (true, KeepIdle, 1, false),
        (false, Cork, 0, false),
        (false, NoDelay, 1, false),
    ] {
        let pairs = [(); 2].map(|()| crate::testing::Engine::pair(host));
        let [a, other] = pairs.each_ref().map(|(a, _)| a.socket());
        // The engine fetches at once what is all that is written in a turn.
        write(if has_written { a } else { other }).unwrap();
        write(other).unwrap();
        host.channel.holds.store(false, Ordering::Relaxed);
        a.options().set(name, value).unwrap();
        let is_held = host.channel.holds();
        assert_eq!(is_held, lets_go, "{has_written} {name:?} {value}");
    }
}

/// So many requests that each say another number.
fn numbered(socket: &Socket, count: u64) -> impl Iterator<Item = Request> {
    let socket = socket.id();
    (0..count).map(move |value| Request::SetOption {
        socket,
        name: OptionName::KeepIdle,
        value,
    })
}

#[test]
fn more_than_the_ring_holds_is_said_in_order() {
    let (engine, host, _directory) = engine();
    let socket = socket_in(host, Stream, Open);
    let count = 2 * RING as u64 + 10;
    let requests = numbered(&socket, count);
    assert_eq!(host.messages().report_all(requests, Wake::Soon), Ok(()));
    let expected: Vec<u64> = (0..count).collect();
    engine.wait_until("all is said", |seen| {
        let said = seen.options.iter().map(|(_, _, value)| *value);
        said.collect::<Vec<_>>() == expected
    });
}

/// Nobody makes room any more, and nobody says so.
#[test]
fn who_waits_for_room_finds_that_the_engine_was_killed() {
    let (mut engine, host, _directory) = engine();
    let socket = socket_in(host, Stream, Open);
    let ignores = &engine.behavior.ignores_requests;
    ignores.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let all = numbered(&socket, 2 * RING as u64);
        let waits = scope.spawn(|| host.messages().report_all(all, Wake::Soon));
        engine.kill();
        assert_eq!(waits.join().unwrap(), Err(SocketError::EngineGone));
    });
}

/// A ring that is full of what the engine was to fetch with other requests, whenever they come, is
/// fetched now.
#[test]
fn who_waits_for_room_has_the_engine_fetch_what_was_put_off() {
    let ignored = Ignored::new();
    let messages = ignored.host.messages();
    let mut all = numbered(&ignored.socket, RING as u64 + 1);
    for request in all.by_ref().take(RING) {
        messages.report(&request, Wake::Along).unwrap();
    }
    assert!(!ignored.is_hurried());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| messages.report_all(all, Wake::Along));
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while !ignored.is_hurried() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let is_hurried = ignored.is_hurried();
        let ignores = &ignored.engine.behavior.ignores_requests;
        ignores.store(false, Ordering::Relaxed);
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert!(is_hurried);
    });
}

/// The engine may wait for room in the other ring, which this process makes while it waits.
#[test]
fn who_waits_for_room_takes_what_the_engine_has_told() {
    let ignored = Ignored::new();
    let (host, ignores) = (ignored.host, &ignored.engine.behavior.ignores_requests);
    ignores.store(false, Ordering::Relaxed);
    let (a, b) = crate::testing::Engine::pair(host);
    a.write_all(b"x").unwrap();
    ignored.begin_to_ignore();
    let has_told = || host.session.has_completions(host.own_channel());
    ignored
        .engine
        .wait_until("it has told of it", |_| has_told());
    assert_eq!(b.socket().block().rcv.held(), 0);
    std::thread::scope(|scope| {
        let all = numbered(&ignored.socket, 2 * RING as u64);
        let waits = scope.spawn(|| host.messages().report_all(all, Wake::Soon));
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while has_told() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let held = b.socket().block().rcv.held();
        ignores.store(false, Ordering::Relaxed);
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert_eq!(held, 1);
    });
}

/// The second write is the only one of its turn, as the first was.
#[test]
fn a_turn_ends_with_a_look_in_vain_and_with_a_sleep() {
    for sleeps in [false, true] {
        let (_engine, host, _directory) = engine();
        let socket = socket_in(host, Stream, Connected);
        let write = || {
            let request = host.edges(socket.block(), socket.id(), EdgeFlags::PUSH);
            host.messages().report_written(&request, 0).unwrap();
            host.channel.holds()
        };
        assert!(write(), "more may follow");
        if sleeps {
            host.messages().flush().unwrap();
        } else {
            host.messages().end_turn();
        }
        assert!(!write());
    }
}

#[test]
fn an_answer_is_taken_once() {
    let (_engine, host, _directory) = engine();
    let socket = crate::testing::Engine::open(host, Datagram);
    let to = crate::testing::Engine::address(0);
    assert!(socket.addresses().bind(to).is_ok());
    assert!(host.channel.dispatch.enter().unwrap().answers.is_empty());
}

/// It had no room for all: it is to look at the channel, which has some now.
#[test]
fn an_engine_that_has_more_to_tell_is_asked_for_it() {
    let ignored = Ignored::new();
    let (host, arena) = (ignored.host, &ignored.host.arena);
    // Nothing was put into its ring before: what is put there now is the first.
    let mut rings = AdapterChannel::new(host.own_rings().next().unwrap());
    for more in [false, true] {
        let completion = match more {
            true => Completion::More,
            false => Completion::Edges {
                socket: ignored.socket.id(),
                edges: Edges::default(),
            },
        };
        rings.put(arena, &completion).unwrap();
        rings.publish(arena);
        host.messages().drain().unwrap();
        assert_eq!(ignored.is_hurried(), more);
    }
}
