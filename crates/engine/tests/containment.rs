//! A panic in the engine's work for one session: that session ends with its connections
//! reset, and the others go on.

mod common;

use common::Host;
use common::engines::{alone, stat};
use longshore_engine::Engine;
use longshore_hostif::{AcceptRecord, EdgeFlags, Request, SocketId, SocketKind};
use longshore_stack::testing::panic_in;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const LISTENER: &str = "10.0.0.1:80";
/// The first session of an engine.
const FIRST: u32 = 0;

fn connect(from: &mut Host, to: &mut Host, listener: SocketId) -> (SocketId, AcceptRecord) {
    let socket = from.open(SocketKind::Stream);
    assert_eq!(from.connect(socket, LISTENER.parse().unwrap()), 0);
    (socket, to.accept(listener))
}

/// A panic at this access to a socket of the first session.
fn panics_at(access: u32) {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _wire) = alone(dir.path());
    let control = dir.path().join("control");
    config.control = Some(control.clone());
    let path = config.socket.clone();
    let mut engine = Engine::new(config).unwrap();
    let stopper = engine.handle();
    let thread = std::thread::spawn(move || {
        panic_in(FIRST, access);
        engine.run().unwrap();
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
    let has_ended = |h: &Host| h.arena.header().closed.load(Ordering::Acquire) != 0;
    for tag in 5_000.. {
        if has_ended(&ill) {
            break;
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
    assert_eq!(stat(&control).engine["contained_panics"], 1);
    stopper.stop();
    thread.join().unwrap();
}

#[test]
fn a_panic_in_one_sessions_work_ends_that_session_alone() {
    for access in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        panics_at(access);
    }
}
