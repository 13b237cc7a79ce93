//! What one session can take of an engine: programs that break their rings, take no
//! answers, or ask for more than there is.

mod common;

use common::Host;
use common::engines::{config, run};
use longshore_engine::control::{ControlReply, StatReply};
use longshore_hostif::{
    Address, ChannelControl, DatagramRecord, EdgeFlags, Loopback, Query, RING, Request, SocketId,
    SocketKind,
};
use longshore_ports::Port;
use longshore_ports::memory::{MemoryConfig, pair};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn stat(control: &Path) -> Box<StatReply> {
    let mut stream = UnixStream::connect(control).unwrap();
    stream.write_all(b"{\"cmd\":\"stat\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    match serde_json::from_str(&line).unwrap() {
        ControlReply::Stat(stat) => stat,
        other => panic!("{other:?}"),
    }
}

/// An engine that sleeps whenever it has nothing to do, and where it answers.
fn engine(dir: &Path) -> (common::engines::Running, PathBuf, impl Port) {
    let control = dir.join("control");
    let (wire, other) = pair(&MemoryConfig::default());
    let mut config = config(dir, "10.0.0.1/24", Box::new(wire), Loopback::Kernel, true);
    config.spin = Duration::ZERO;
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
        assert!(began.elapsed() < common::PATIENCE);
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
        assert!(began.elapsed() < common::PATIENCE);
    }
    while stat(&control).engine["stalled_channels"] == 0 {
        assert!(began.elapsed() < common::PATIENCE);
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
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            stat(&control)
        );
    }
    assert_eq!(stat(&control).drops["udp_too_many_segments"], 1);
    is_served(&mut hostile);
}
