//! A panic in the engine's work for one session: that session ends with its connections
//! reset, and the others go on.

mod common;

use common::Host;
use common::engines::{alone, stat};
use longshore_engine::{Config, Engine, Handle};
use longshore_hostif::{AcceptRecord, EdgeFlags, Request, SocketId, SocketKind};
use longshore_stack::testing::{panic_again_in, panic_in_and_as_it_ends};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

const LISTENER: &str = "10.0.0.1:80";
/// The first session of an engine.
const FIRST: u32 = 0;

fn connect(from: &mut Host, to: &mut Host, listener: SocketId) -> (SocketId, AcceptRecord) {
    let socket = from.open(SocketKind::Stream);
    assert_eq!(from.connect(socket, LISTENER.parse().unwrap()), 0);
    (socket, to.accept(listener))
}

/// Starts an engine, in whose thread this is done first; it goes on until it is stopped.
fn start(config: Config, first: impl FnOnce() + Send + 'static) -> (Handle, JoinHandle<()>) {
    let mut engine = Engine::new(config).unwrap();
    let stopper = engine.handle();
    let thread = std::thread::spawn(move || {
        first();
        engine.run().unwrap();
    });
    (stopper, thread)
}

/// Whether the engine has ended the session of this program.
fn has_ended(host: &Host) -> bool {
    host.arena.header().closed.load(Ordering::Acquire) != 0
}

/// A panic at this access to a socket of the first session, and so many when it ends for it.
/// Whether it was in the first session's work: the second has connections to it, and looks at
/// their other ends, too.
fn panics_at(access: u32, as_it_ends: u32) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _wire) = alone(dir.path());
    let control = dir.path().join("control");
    config.control = Some(control.clone());
    let path = config.socket.clone();
    let (stopper, thread) = start(config, move || {
        panic_in_and_as_it_ends(FIRST, access, as_it_ends);
    });
    let mut ill = Host::new(&path);
    let mut well = Host::new(&path);
    let listener = well.open(SocketKind::Stream);
    well.bind(listener, LISTENER.parse().unwrap()).unwrap();
    assert_eq!(well.listen(listener), 0);
    let inner = well.open(SocketKind::Stream);
    assert_eq!(well.connect(inner, LISTENER.parse().unwrap()), 0);
    let of_inner = well.accept(listener).socket;

    // It connects to the other session as long as it is served.
    let mut accepted = Vec::new();
    for tag in 5_000.. {
        if has_ended(&ill) {
            break;
        }
        if has_ended(&well) {
            assert_eq!(stat(&control).engine["contained_panics"], 1);
            stopper.stop();
            thread.join().unwrap();
            return false;
        }
        let socket = ill.open(SocketKind::Stream);
        ill.put(Request::Connect {
            socket,
            tag,
            waiter: None,
            peer: LISTENER.parse::<SocketAddr>().unwrap().into(),
        });
        ill.wait("an answer, or the end", |h| {
            (has_ended(h) || h.done_with(tag).is_some()).then_some(())
        });
        while well.has_record(listener) {
            accepted.push(well.accept(listener).socket);
        }
    }
    ill.wait("the end of its session", |h| has_ended(h).then_some(()));
    for socket in accepted {
        let edges = well.wait_flag(socket, EdgeFlags::DEAD);
        assert_eq!(edges.errno, 104);
    }
    // A connection that it had nothing to do with, and new ones.
    well.send(inner, b"still here", EdgeFlags::PUSH);
    assert_eq!(well.receive(of_inner, 10), b"still here");
    let mut third = Host::new(&path);
    let (client, _) = connect(&mut third, &mut well, listener);
    third.send(client, b"new", EdgeFlags::PUSH);
    let panics = u64::from(1 + as_it_ends);
    assert_eq!(stat(&control).engine["contained_panics"], panics);
    ill.wait("the session to be gone", |_| {
        (stat(&control).sessions.len() == 2).then_some(())
    });
    stopper.stop();
    thread.join().unwrap();
    true
}

#[test]
fn a_panic_in_one_sessions_work_ends_that_session_alone() {
    let all = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 21, 22, 34, 35, 55, 56, 89, 90,
    ];
    let own = all.into_iter().filter(|access| panics_at(*access, 0));
    assert!(own.count() >= 11, "nearly all are in its own work");
}

#[test]
fn a_session_ends_though_its_end_panics_too() {
    for as_it_ends in [1, 2] {
        assert!(panics_at(3, as_it_ends));
    }
}

/// From this access on, every one to a socket of the first session leads to a panic. The second
/// has connections to it, so it may be at work at the other end of one.
fn panics_at_both_ends(access: u32) {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _wire) = alone(dir.path());
    let control = dir.path().join("control");
    config.control = Some(control.clone());
    let path = config.socket.clone();
    let (stopper, thread) = start(config, move || panic_again_in(FIRST, access, 1_000));
    let mut ill = Host::new(&path);
    let mut other = Host::new(&path);
    let mut third = Host::new(&path);
    // What the first asks for takes fewer accesses than are let through.
    let listener = ill.open(SocketKind::Stream);
    ill.bind(listener, LISTENER.parse().unwrap()).unwrap();
    assert_eq!(ill.listen(listener), 0);
    // From now on the other is at work.
    while !has_ended(&ill) && !has_ended(&other) {
        let socket = other.open(SocketKind::Stream);
        other.put(Request::Connect {
            socket,
            tag: 5_000,
            waiter: None,
            peer: LISTENER.parse::<SocketAddr>().unwrap().into(),
        });
        let ends = |h: &mut Host| has_ended(h) || h.done_with(5_000).is_some();
        other.wait("an answer, or the end", |h| {
            (ends(h) || has_ended(&ill)).then_some(())
        });
    }
    let ended = u64::from(has_ended(&ill)) + u64::from(has_ended(&other));
    third.wait("the end of the first session", |_| {
        has_ended(&ill).then_some(())
    });
    // The engine goes on for those who had nothing to do with it.
    let listener = third.open(SocketKind::Stream);
    third
        .bind(listener, "10.0.0.1:81".parse().unwrap())
        .unwrap();
    assert_eq!(third.listen(listener), 0);
    let client = third.open(SocketKind::Stream);
    assert_eq!(third.connect(client, "10.0.0.1:81".parse().unwrap()), 0);
    let accepted = third.accept(listener).socket;
    third.send(client, b"served", EdgeFlags::PUSH);
    assert_eq!(third.receive(accepted, 6), b"served");
    assert!(stat(&control).engine["contained_panics"] >= ended);
    stopper.stop();
    thread.join().unwrap();
}

#[test]
fn a_panic_at_the_other_end_of_a_connection_ends_those_two_sessions_at_most() {
    for access in 8..40 {
        panics_at_both_ends(access);
    }
}
