//! What a turn does, in which order, and what is reported of it to the operator.

use super::*;
use crate::testing::common::Host;
use crate::testing::{Turned, during_both};
use longshore_hostif::{DIRECTORY, EdgeFlags, SocketKind};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ports::{Port, PortError};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

mod capable_port;

/// The notices; of this test alone.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A frame that means nothing to the engine.
fn send_any(world: &mut Turned) {
    let any = longshore_ports::TxFrame::whole(&[0xff; 60]);
    world.wire.send(&any).unwrap();
}

/// Asks for a SYN to a neighbour that does not answer.
fn connect_to_nobody(host: &mut Host, socket: longshore_hostif::SocketId) {
    let peer: std::net::SocketAddr = "10.0.0.9:80".parse().unwrap();
    host.put(longshore_hostif::Request::Connect {
        socket,
        tag: 1,
        waiter: None,
        peer: peer.into(),
    });
}

#[test]
fn the_operator_is_told_of_each_thing_once_with_the_session_that_it_is_about() {
    let mut world = Turned::new();
    world
        .engine
        .on_notice(|words| NOTICES.lock().unwrap().push(words.to_owned()));
    let notices = [
        (Notice::SynFlood, "syns_dropped_at_port"),
        (Notice::Panic { session: 4_711 }, "session 4711"),
        (Notice::PanicAtHalfOpen, "not established"),
        (Notice::ArenaFull { session: 4_712 }, "session 4712"),
    ];
    for (notice, words) in notices {
        world.engine.stack.counters.notices.push(notice);
        world.run_pending();
        let notices = std::mem::take(&mut *NOTICES.lock().unwrap());
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0].contains(words), "{notices:?}");
    }
}

#[test]
fn a_turn_in_which_nothing_is_to_be_done_says_so() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    assert!(!world.turn());
    let socket = host.open(SocketKind::Stream);
    assert!(world.turn());
    assert!(!world.turn());
    host.close(socket);
    assert!(world.turn());
    world.run_pending();
    assert!(!world.turn());
}

#[test]
fn frames_are_work_and_timers_go_off() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    send_any(&mut world);
    assert!(world.turn());
    assert!(!world.turn());
    let socket = host.open(SocketKind::Stream);
    connect_to_nobody(&mut host, socket);
    world.run_pending();
    assert!(!world.turn());
    // It is asked for again in time.
    let sent = |world: &Turned| world.engine.stack.port().counters().tx_frames;
    let before = sent(&world);
    let deadline = world.engine.next_deadline().unwrap();
    world.engine.clock.advance(deadline.as_micros() as u64 + 1);
    world.turn();
    assert_eq!(sent(&world), before + 1);
}

/// Two things that are done are no fewer than one.
#[test]
fn a_turn_in_which_several_things_are_done_says_so() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    send_any(&mut world);
    host.open(SocketKind::Stream);
    assert!(world.turn(), "a request, and a frame");
    let socket = host.open(SocketKind::Stream);
    world.run_pending();
    connect_to_nobody(&mut host, socket);
    assert!(world.turn(), "a request, and what is sent for it");
}

/// Maintenance is done when it is due, to the microsecond for which the engine sleeps.
#[test]
fn maintenance_is_done_when_it_is_due() {
    let mut world = Turned::new();
    let [_host]: [Host; 1] = world.programs();
    world.run_pending();
    let due = world.engine.programs.schedule.at();
    world.engine.turn_at(Instant(due.0 - 1)).unwrap();
    assert_eq!(world.engine.programs.schedule.at(), due);
    world.engine.turn_at(due).unwrap();
    assert_ne!(world.engine.programs.schedule.at(), due);
}

/// Whoever is short of memory has it again when others have read.
#[test]
fn a_turn_gives_memory_to_connections_that_were_short_of_it() {
    const LEN: usize = 4_000;
    let (port, wire) = pair(&MemoryConfig::default());
    let mut world = Turned::with(|config| {
        config.port = Box::new(port);
        // Two more than are kept free for the largest window.
        config.geometry.rcv_chunks = DIRECTORY as u32 + 2;
    });
    let mut other = Turned::with(|config| {
        config.port = Box::new(wire);
        config.addresses = vec!["10.0.0.2/24".parse().unwrap()];
    });
    let (mut host, all, _client) = during_both(&mut world, &mut other, |one, other| {
        let (mut host, mut client) = (Host::new(one), Host::new(other));
        let listener = host.listening("10.0.0.1:80");
        let all = [(); 4].map(|()| {
            let socket = client.open(SocketKind::Stream);
            assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
            let accepted = host.accept(listener).socket;
            client.send(socket, &[7; LEN], EdgeFlags::PUSH);
            let has_come = |h: &mut Host| h.edges(accepted).filter(|e| e.rcv_edge == LEN as u64);
            host.wait("data", has_come);
            accepted
        });
        (host, all, client)
    });
    let [short, others @ ..] = [all[3], all[0], all[1], all[2]];
    let arena = host.arena.clone();
    let window_is_small = || {
        let limit = &arena.block(short.index).unreported_limit;
        limit.load(Ordering::Relaxed) != 0
    };
    assert!(window_is_small());
    for socket in others {
        host.consume(socket, LEN as u64);
    }
    world.run_pending();
    assert!(!window_is_small());
}

/// What was given to the port leaves with the turn in which it was.
#[test]
fn each_turn_has_its_port_send() {
    let (mut world, handles) = Turned::waking(|_| ());
    let flushed = || handles.flushed.load(Ordering::Relaxed);
    for _ in 0..3 {
        let before = flushed();
        world.turn();
        assert_ne!(flushed(), before);
    }
}

/// Many frames are taken some in a turn, so that programs are heard in between.
#[test]
fn so_many_frames_are_taken_in_a_turn() {
    let mut world = Turned::new();
    world.run_pending();
    for _ in 0..150 {
        send_any(&mut world);
    }
    let frames = |world: &Turned| world.engine.stack.port().counters().rx_frames;
    let before = frames(&world);
    for expected in [64, 128, 150] {
        assert!(world.turn());
        assert_eq!(frames(&world) - before, expected);
    }
    assert!(!world.turn());
}

/// An engine whose port is gone ends, and says why.
#[test]
fn without_its_port_an_engine_ends() {
    let mut world = Turned::new();
    let (other, wire) = longshore_ports::memory::pair(&Default::default());
    drop(std::mem::replace(&mut world.wire, other));
    drop(wire);
    let ended = world.engine.run();
    assert!(
        matches!(ended, Err(EngineError::Port(PortError::Down))),
        "{ended:?}"
    );
}

#[test]
fn a_private_engine_runs_until_its_program_ends_and_tells_what_is_left_that_it_is_gone() {
    let mut world = Turned::with(|config| config.private = true);
    let [host]: [Host; 1] = world.programs();
    world.engine.drain(Duration::from_millis(1));
    let begun = std::time::Instant::now();
    world.engine.run().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    let closed = &host.arena.header().closed;
    assert_ne!(closed.load(std::sync::atomic::Ordering::Acquire), 0);
}

/// However long the configuration says that an engine may take to end.
#[test]
fn an_engine_that_drains_waits_for_its_sessions_for_as_long_as_it_was_told() {
    let mut world = Turned::new();
    let [_host]: [Host; 1] = world.programs();
    world.later(2_000_000);
    world.engine.drain(Duration::from_secs(u64::MAX));
    world.later(1_000_000);
    assert_eq!(world.prospect(), Prospect::GoesOn);
}
