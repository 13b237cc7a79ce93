//! Many sessions on one engine: those that ask for nothing cost the others nothing, and
//! are heard as soon as they ask, whatever the engine is busy with.

mod common;

use common::engines::{Running, alone, run, stat};
use common::{Host, TIMEOUT};
use longshore_hostif::attach::{SessionOptions, new_session};
use longshore_hostif::{Geometry, Query, Request, SocketId, SocketKind};
use longshore_ports::Port;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Room for little, as there are many of them.
const LITTLE: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 64,
    workers: 1,
};

/// An engine that sleeps whenever it has nothing to do, and where it answers.
fn engine(dir: &Path, geometry: Geometry) -> (Running, PathBuf, impl Port) {
    let control = dir.join("control");
    let (mut config, other) = alone(dir);
    config.geometry = geometry;
    config.control = Some(control.clone());
    (run(config), control, other)
}

/// A question about a socket that is none.
fn question(tag: u32) -> Request {
    let nobody = SocketId {
        index: 0,
        generation: 77,
    };
    Request::Query {
        socket: nobody,
        tag,
        waiter: None,
        query: Query::TcpInfo,
    }
}

/// One exchange with the engine.
fn ping(host: &mut Host) {
    assert_eq!(host.call(question), 9);
}

fn parked(control: &Path) -> u64 {
    stat(control).engine["sessions_parked"]
}

/// The engine has turns of `busy` until so many sessions are parked.
fn wait_until_parked(busy: &mut Host, control: &Path, least: u64) {
    let began = Instant::now();
    while parked(control) < least {
        assert!(began.elapsed() < TIMEOUT, "{} are parked", parked(control));
        (0..500).for_each(|_| ping(busy));
    }
}

#[test]
fn sessions_that_ask_for_nothing_are_parked_and_heard_when_they_do() {
    const MANY: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path(), LITTLE);
    let mut busy = Host::new(&engine.path);
    let mut idle: Vec<Host> = (0..MANY).map(|_| Host::new(&engine.path)).collect();
    for _ in 0..2 {
        wait_until_parked(&mut busy, &control, MANY as u64 - 4);
        // An engine that sleeps.
        idle.iter_mut().for_each(ping);
        assert!(parked(&control) < MANY as u64 / 2, "they were not heard");
    }
    // One that has always something to do.
    wait_until_parked(&mut busy, &control, MANY as u64 - 4);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ping(&mut busy);
            }
        });
        idle.iter_mut().for_each(ping);
        is_over.store(true, Ordering::Relaxed);
    });
}

/// What is published without waking an engine that sleeps is seen when that has its next
/// turn. One that has turns and does not look is told.
#[test]
fn what_can_wait_does_not_wait_for_ever_in_a_parked_session() {
    const MANY: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path(), LITTLE);
    let mut busy = Host::new(&engine.path);
    let mut idle: Vec<Host> = (0..MANY).map(|_| Host::new(&engine.path)).collect();
    wait_until_parked(&mut busy, &control, MANY as u64 - 3);
    let tag = u32::MAX;
    for host in &mut idle {
        host.channel.put(&question(tag)).unwrap();
        host.channel.publish(&host.doorbell, false);
    }
    for host in &mut idle {
        ping(&mut busy);
        host.wait("what can wait", |host| host.done_with(tag));
    }
}

/// Launchers that end leave nothing behind, though their sessions are parked.
#[test]
fn parked_sessions_end_with_their_launchers() {
    const MANY: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path(), LITTLE);
    let mut busy = Host::new(&engine.path);
    // Without a process: that of the test would go on.
    let launch = |_| new_session(&engine.path, SessionOptions::default()).unwrap();
    let launchers: Vec<_> = (0..MANY).map(launch).collect();
    wait_until_parked(&mut busy, &control, MANY as u64 - 3);
    assert_eq!(stat(&control).sessions.len(), MANY + 1);
    drop(launchers);
    let began = Instant::now();
    while stat(&control).sessions.len() != 1 {
        assert!(began.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(parked(&control), 0);
}

/// The mean time of some exchanges.
fn exchange(host: &mut Host) -> Duration {
    const SOME: u32 = 200;
    let began = Instant::now();
    (0..SOME).for_each(|_| ping(host));
    began.elapsed() / SOME
}

/// A thousand sessions that ask for nothing, and sixty thousand sockets.
#[test]
fn an_exchange_takes_no_longer_beside_a_thousand_idle_sessions() {
    const MANY: usize = 1_000;
    const SOCKETS: u16 = 60_000;
    const FIRST_PORT: u16 = 2_000;
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let geometry = Geometry {
        sockets: 61_440,
        ..LITTLE
    };
    let (lone, _, _wire) = engine(dirs[0].path(), geometry);
    let (shared, control, _other_wire) = engine(dirs[1].path(), geometry);
    let mut one = Host::new(&lone.path);
    let mut many = Host::new(&shared.path);
    let _idle: Vec<Host> = (0..MANY).map(|_| Host::new(&shared.path)).collect();
    for port in (FIRST_PORT..).take(usize::from(SOCKETS)) {
        let socket = many.open(SocketKind::Datagram);
        let at = SocketAddr::new("10.0.0.1".parse().unwrap(), port);
        many.bind(socket, at).unwrap();
    }
    wait_until_parked(&mut many, &control, MANY as u64 - 4);
    // The machine may be busy with others for a while; a cost that is there is always there.
    let began = Instant::now();
    loop {
        let fastest = |host: &mut Host| (0..20).map(|_| exchange(host)).min().unwrap();
        let (alone, beside) = (fastest(&mut one), fastest(&mut many));
        if beside <= alone * 12 / 10 {
            break;
        }
        let took = began.elapsed();
        assert!(took < TIMEOUT / 4, "{alone:?} alone, {beside:?} beside");
    }
}
