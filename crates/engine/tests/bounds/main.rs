//! What one session can take of an engine: programs that break their rings, take no
//! answers, or ask for more than there is.

#[path = "../common/mod.rs"]
mod common;
mod users;

use common::Host;
use common::engines::{alone, run, stat};
use longshore_hostif::attach::{
    AttachError, Message, Refusal, SessionOptions, Token, dial, new_session, send,
};
use longshore_hostif::{
    Address, CHUNK, ChannelControl, DatagramRecord, EdgeFlags, Geometry, OptionName, Query, RING,
    Request, SocketId, SocketKind,
};
use longshore_ports::Port;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An engine that sleeps whenever it has nothing to do, and where it answers.
fn engine(dir: &Path) -> (common::engines::Running, PathBuf, impl Port) {
    let control = dir.join("control");
    let (mut config, other) = alone(dir);
    config.control = Some(control.clone());
    (run(config), control, other)
}

/// Turns of an engine in a tenth of a second.
fn turns(control: &Path) -> u64 {
    let before = stat(control).engine["turns"];
    std::thread::sleep(Duration::from_millis(100));
    stat(control).engine["turns"] - before
}

/// More than a sleeping engine has that is asked twice, and looks now and then at a stalled
/// channel; less by far than one that does not sleep.
const FEW: u64 = 400;

/// Overwrites the indices of both rings.
fn scribble(host: &Host) {
    let at = 4096 + host.channel.index() as usize * size_of::<ChannelControl>() + 64;
    let nonsense = [0xa5; 256];
    rustix::io::pwrite(host.arena.as_fd(), &nonsense, at as u64).unwrap();
}

/// The engine serves this one.
fn is_served(host: &mut Host) {
    let socket = host.open(SocketKind::Stream);
    let nowhere: SocketAddr = "10.9.9.9:1".parse().unwrap();
    assert_eq!(host.connect(socket, nowhere), 101);
    host.close(socket);
}

#[test]
fn a_broken_ring_does_not_keep_the_engine_awake() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let (mut innocent, mut hostile) = (Host::new(&engine.path), Host::new(&engine.path));
    is_served(&mut hostile);
    scribble(&hostile);
    hostile.channel.flag();
    hostile.doorbell.ring();
    let began = Instant::now();
    while stat(&control).engine["broken_channels"] == 0 {
        assert!(began.elapsed() < common::TIMEOUT);
    }
    // It says so again and again.
    for _ in 0..10 {
        hostile.channel.flag();
        hostile.doorbell.ring();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(turns(&control) < FEW);
    is_served(&mut innocent);
}

#[test]
fn answers_that_are_not_taken_do_not_keep_the_engine_awake() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let (mut innocent, mut hostile) = (Host::new(&engine.path), Host::new(&engine.path));
    let socket = hostile.open(SocketKind::Stream);
    let ask = |host: &mut Host, tag| {
        let question = Request::Query {
            socket,
            tag,
            waiter: None,
            query: Query::TcpInfo,
        };
        host.channel.put(&question)
    };
    // Twice as many as there is room for answers, in two rings full.
    let (mut asked, began) = (0, Instant::now());
    while asked < 2 * RING as u32 - 64 {
        match ask(&mut hostile, asked) {
            Ok(()) => asked += 1,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        hostile.channel.publish(&hostile.doorbell, true);
        assert!(began.elapsed() < common::TIMEOUT);
    }
    while stat(&control).engine["stalled_channels"] == 0 {
        assert!(began.elapsed() < common::TIMEOUT);
    }
    assert!(turns(&control) < FEW);
    is_served(&mut innocent);
    // Once it takes them, it gets the others.
    let mut nothing_lost = |tag| hostile.wait("an answer", |host| host.done_with(tag));
    nothing_lost(0);
    nothing_lost(asked - 1);
}

#[test]
fn a_datagram_is_not_cut_into_thousands() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut hostile = Host::new(&engine.path);
    let socket: SocketId = hostile.open(SocketKind::Datagram);
    let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
    hostile.bind(socket, any).unwrap();
    let len = 60_000;
    for segment in [1, 1000] {
        let to: SocketAddr = "10.0.0.1:7".parse().unwrap();
        let record = DatagramRecord {
            segment,
            ..DatagramRecord::new(len, Address::from(to))
        };
        let mut bytes = record.encode().to_vec();
        bytes.resize(record.span() as usize, 0);
        hostile.send(socket, &bytes, EdgeFlags::empty());
    }
    let began = Instant::now();
    while stat(&control).net["datagrams_out"] < 2 {
        assert!(began.elapsed() < common::TIMEOUT, "{:?}", stat(&control));
    }
    assert_eq!(stat(&control).drops["udp_too_many_segments"], 1);
    is_served(&mut hostile);
}

/// A counter of the engine.
fn counts(control: &Path, name: &str) -> u64 {
    stat(control).engine[name]
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < common::TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Each session publishes few enough for itself; together they are more than a user may
/// have served in a turn.
#[test]
fn sessions_of_one_user_share_the_requests_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut all: Vec<(Host, SocketId)> = (0..16)
        .map(|_| {
            let mut host = Host::new(&engine.path);
            let socket = host.open(SocketKind::Stream);
            (host, socket)
        })
        .collect();
    is_served(&mut all[0].0);
    // On a slow machine some have waited for the time that others take.
    let before = counts(&control, "request_waits");
    let began = Instant::now();
    while counts(&control, "request_waits") == before {
        assert!(began.elapsed() < common::TIMEOUT, "all are served at once");
        for (host, socket) in &mut all {
            for value in 0..250 {
                let name = OptionName::KeepIdle;
                let set = Request::SetOption {
                    socket: *socket,
                    name,
                    value,
                };
                let _ = host.channel.put(&set);
            }
            // The engine sleeps until the last one rings.
            host.channel.publish(&host.doorbell, false);
        }
        let last = &mut all[15].0;
        last.channel.publish(&last.doorbell, true);
        std::thread::sleep(Duration::from_millis(20));
    }
    for (host, _) in &mut all {
        is_served(host);
    }
}

#[test]
fn who_sends_on_many_sockets_has_its_share_of_a_turn() {
    const SOCKETS: u64 = 12;
    const CHUNKS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut hostile = Host::new(&engine.path);
    let to: SocketAddr = "10.0.0.1:7".parse().unwrap();
    // One chunk full of datagrams, through which a stream may lead again and again.
    let record = DatagramRecord::new(0, Address::from(to)).encode();
    let each = (CHUNK / record.len() * CHUNKS) as u64;
    let chunk = hostile.arena.take_snd_chunk().unwrap().unwrap();
    let place = hostile.arena.snd_place(chunk, 0, CHUNK).unwrap();
    let bytes = record.repeat(CHUNK / record.len());
    hostile.arena.memory().write(place, &bytes);
    let sockets: Vec<SocketId> = (0..SOCKETS)
        .map(|_| {
            let socket = hostile.open(SocketKind::Datagram);
            hostile.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
            let directory = hostile.arena.snd_directory(socket.index);
            for number in 0..CHUNKS as u64 {
                directory.entry(number).store(chunk, Ordering::Release);
            }
            socket
        })
        .collect();
    for socket in sockets {
        hostile.put(Request::Edges {
            socket,
            snd_edge: (CHUNK * CHUNKS) as u64,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        });
    }
    wait_until("all are sent", || {
        stat(&control).net["datagrams_out"] == SOCKETS * each
    });
    assert!(
        counts(&control, "output_waits") > 0,
        "all were sent at once"
    );
    is_served(&mut hostile);
}

/// Memory that was never written to is no datagram: one descriptor would be half a million.
#[test]
fn nothing_is_sent_of_what_was_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut hostile = Host::new(&engine.path);
    let socket = hostile.open(SocketKind::Datagram);
    hostile.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
    hostile.send(socket, &[0; 4096], EdgeFlags::empty());
    wait_until("the stream is given up", || {
        stat(&control).drops.get("bad_send_stream") == Some(&1)
    });
    assert_eq!(stat(&control).net["datagrams_out"], 0);
}

#[test]
fn sleepers_are_woken_a_few_in_a_turn() {
    const SLEEPERS: u32 = 4096;
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control");
    let (mut config, _other) = alone(dir.path());
    config.control = Some(control.clone());
    config.geometry = Geometry {
        waiters: SLEEPERS,
        ..config.geometry
    };
    let engine = run(config);
    let mut hostile = Host::new(&engine.path);
    let socket = hostile.open(SocketKind::Stream);
    is_served(&mut hostile);
    let header = hostile.arena.header();
    header.waiters_end.store(u32::MAX, Ordering::Relaxed);
    let waiters = hostile.arena.clone();
    let sleep = || {
        let waiters = waiters.waiters().iter();
        waiters.for_each(|w| w.declare(longshore_ring::Sleep::Futex));
    };
    sleep();
    let block = hostile.arena.block(socket.index);
    block.unlisted_waiters.store(1, Ordering::Relaxed);
    let before = counts(&control, "turns");
    hostile.put(Request::Subscribe { socket });
    wait_until("all are woken", || {
        waiters.waiters().iter().all(|w| !w.is_declared())
    });
    let turns = counts(&control, "turns") - before;
    assert!(turns >= u64::from(SLEEPERS / 32), "in {turns} turns");
    assert!(counts(&control, "wakeup_waits") > 0);
}

#[test]
fn a_connection_over_which_nothing_is_asked_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut settled = Host::new(&engine.path);
    let silent = dial(&engine.path).unwrap();
    let began = Instant::now();
    // Its end comes, and nothing before.
    let mut bytes = [0; 64];
    let end = rustix::net::recv(&silent, &mut bytes[..], rustix::net::RecvFlags::empty());
    assert!(matches!(end, Ok((0, _)) | Err(_)), "{end:?}");
    let after = began.elapsed();
    assert!(after > Duration::from_secs(9), "{after:?}");
    assert!(after < Duration::from_secs(60), "{after:?}");
    assert_eq!(counts(&control, "attach_silent"), 1);
    is_served(&mut settled);
}

/// A launcher needs one session. One that asks for more over its connection has them as long as that.
#[test]
fn all_sessions_of_a_connection_end_with_it() {
    const SESSIONS: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut settled = Host::new(&engine.path);
    let launcher = dial(&engine.path).unwrap();
    let ask = |message: &Message| send(launcher.as_fd(), message, &[]).unwrap();
    for i in 0..SESSIONS {
        let options = SessionOptions::default();
        ask(&match i % 2 {
            0 => Message::NewSession(options),
            _ => Message::Renew(Token([i as u8; 16]), options),
        });
    }
    wait_until("all are there", || {
        stat(&control).sessions.len() == 1 + SESSIONS
    });
    drop(launcher);
    wait_until("all are gone", || stat(&control).sessions.len() == 1);
    is_served(&mut settled);
}

/// The engine's own user is bounded by this alone.
#[test]
fn there_are_as_many_connections_as_there_may_be() {
    const MOST: usize = 4096;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (engine, control, _wire) = engine(dir.path());
    let mut settled = Host::new(&engine.path);
    // Silent ones are closed after ten seconds: a slow machine begins again.
    for _ in 0..10 {
        let began = Instant::now();
        let silent: Vec<_> = (0..MOST).map(|_| dial(&engine.path).unwrap()).collect();
        let refused = new_session(&engine.path, SessionOptions::default()).err();
        if began.elapsed() > Duration::from_secs(9) {
            continue;
        }
        assert!(
            matches!(refused, Some(AttachError::Refused(Refusal::NoResources))),
            "{refused:?}"
        );
        assert!(counts(&control, "attach_all_connections") >= 1);
        is_served(&mut settled);
        drop(silent);
        // There is room again.
        wait_until("another is let in", || {
            new_session(&engine.path, SessionOptions::default()).is_ok()
        });
        return;
    }
    panic!("{MOST} connections take longer than they may be silent, ten times");
}
