//! What one turn of the engine's loop does of what may be without end, so that it is short for
//! everybody else. The engine is turned by the test.

mod common;

use common::Host;
use common::engines::alone;
use longshore_engine::Engine;
use longshore_hostif::{
    ACCEPT_RECORD, CHUNK, ChannelState, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Geometry,
    HostChannel, OptionName, Request, SocketId, SocketKind,
};
use longshore_ports::Port;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A moment of rest, where there is nothing to do.
const REST: Duration = Duration::from_millis(1);

/// An engine that nobody else turns, and a program on it as `set_up` has left it.
struct Turned<T> {
    engine: Engine,
    program: T,
    _wire: Box<dyn Port>,
    _dir: tempfile::TempDir,
}

fn turned<T: Send + 'static>(
    geometry: Geometry,
    set_up: impl FnOnce(Host) -> T + Send + 'static,
) -> Turned<T> {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, wire) = alone(dir.path());
    config.geometry = geometry;
    let path = config.socket.clone();
    let mut engine = Engine::new(config).unwrap();
    let setting_up = std::thread::spawn(move || set_up(Host::new(&path)));
    while !setting_up.is_finished() {
        engine.turn_and_rest(REST).unwrap();
    }
    Turned {
        engine,
        program: setting_up.join().unwrap(),
        _wire: Box::new(wire),
        _dir: dir,
    }
}

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 1024,
    snd_chunks: 4096,
    rcv_chunks: 512,
    workers: 1,
};

/// A process beside the host's own, with a channel of its own.
struct Member {
    process: Child,
    channel: HostChannel,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Member {
    /// A child of this process, which has claimed `channel`, and whom the engine has taken on.
    fn new(host: &mut Host, channel: u32) -> Self {
        let process = Command::new("sleep").arg("1000").spawn().unwrap();
        let control = host.arena.control(channel);
        assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
        control.pid.store(process.id(), Ordering::Release);
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
        let channel = HostChannel::new(host.arena.clone(), channel);
        channel.flag();
        host.doorbell.ring();
        let member = Self { process, channel };
        host.wait("a channel", |host| member.is_known(host).then_some(()));
        member
    }

    /// Whether the engine takes it for alive.
    fn is_known(&self, host: &Host) -> bool {
        host.arena.control(self.channel.index()).state() == ChannelState::Open
    }

    /// How many of its first `most` requests were handled.
    fn handled(&self, host: &Host, most: u32) -> u32 {
        let control = host.arena.control(self.channel.index());
        (1..=most).take_while(|n| control.has_handled(*n)).count() as u32
    }

    fn dies(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// What each turn did of so much, until all was done.
fn each_turn(engine: &mut Engine, all: u64, mut left: impl FnMut(&Engine) -> u64) -> Vec<u64> {
    let (mut before, mut turns, began) = (all, Vec::new(), Instant::now());
    while before != 0 {
        assert!(began.elapsed() < common::TIMEOUT, "{turns:?}");
        engine.turn_and_rest(REST).unwrap();
        let now = left(engine);
        turns.extend((now != before).then(|| before - now));
        before = now;
    }
    turns
}

#[test]
fn processes_of_a_session_share_the_requests_of_a_turn() {
    // Each asks as often as one may be served in a turn.
    const ASKED: u32 = 256;
    let mut world = turned(GEOMETRY, |mut host| {
        let socket = host.open(SocketKind::Stream);
        let members: Vec<Member> = (1..=6).map(|c| Member::new(&mut host, c)).collect();
        (host, socket, members)
    });
    let (host, socket, members) = &mut world.program;
    for member in members.iter_mut() {
        for value in 0..u64::from(ASKED) {
            let set = Request::SetOption {
                socket: *socket,
                name: OptionName::KeepIdle,
                value,
            };
            member.channel.put(&set).unwrap();
        }
        member.channel.publish(&host.doorbell, false);
    }
    let all = u64::from(ASKED) * members.len() as u64;
    let turns = each_turn(&mut world.engine, all, |_| {
        let handled = members.iter().map(|m| u64::from(m.handled(host, ASKED)));
        all - handled.sum::<u64>()
    });
    assert!(turns.iter().all(|n| *n <= 1024), "{turns:?}");
    assert!(world.engine.statistics().engine["request_waits"] >= 1);
}

#[test]
fn a_few_dead_processes_are_seen_to_at_a_time() {
    let mut world = turned(GEOMETRY, |mut host| {
        let members: Vec<Member> = (1..=12).map(|c| Member::new(&mut host, c)).collect();
        (host, members)
    });
    let (host, members) = &mut world.program;
    members.iter_mut().for_each(Member::dies);
    let turns = each_turn(&mut world.engine, 12, |_| {
        members.iter().filter(|m| m.is_known(host)).count() as u64
    });
    assert!(turns.iter().all(|n| *n <= 4), "{turns:?}");
}

#[test]
fn a_dead_processs_sockets_are_closed_some_in_a_turn() {
    const SOCKETS: u64 = 300;
    let mut world = turned(GEOMETRY, |mut host| {
        let member = Member::new(&mut host, 1);
        for _ in 0..SOCKETS {
            let socket = host.open(SocketKind::Stream);
            host.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
            host.arena.set_held(1, socket.index, true);
            let own = host.channel.index();
            host.arena.set_held(own, socket.index, false);
        }
        (host, member)
    });
    let (_host, member) = &mut world.program;
    member.dies();
    let sockets = |engine: &Engine| engine.statistics().engine["sockets"];
    assert_eq!(sockets(&world.engine), SOCKETS);
    let turns = each_turn(&mut world.engine, SOCKETS, sockets);
    assert!(turns.iter().all(|n| *n <= 64), "{turns:?}");
}

/// A child that was made behind the program's back holds what its parent has closed: its block
/// may be a connection's that nobody has accepted.
#[test]
fn what_nobody_has_accepted_is_no_dead_processs() {
    for is_read in [false, true] {
        let mut world = turned(GEOMETRY, move |mut host| {
            let member = Member::new(&mut host, 1);
            let at = "10.0.0.1:7000".parse().unwrap();
            let listener = host.listening("10.0.0.1:7000");
            let client = host.open(SocketKind::Stream);
            assert_eq!(host.connect(client, at), 0);
            host.wait("its record", |host| host.has_record(listener).then_some(()));
            for socket in [listener, client] {
                let own = host.channel.index();
                host.arena.set_held(own, socket.index, true);
            }
            for index in 0..GEOMETRY.sockets {
                let is_stale = ![listener.index, client.index].contains(&index);
                host.arena.set_held(1, index, is_stale);
            }
            if is_read {
                // And does not say so before it ends.
                let done = &host.arena.block(listener.index).rcv.done;
                done.store(ACCEPT_RECORD as u64, Ordering::Release);
            }
            (host, member)
        });
        let (_host, member) = &mut world.program;
        member.dies();
        let sockets = |engine: &Engine| engine.statistics().engine["sockets"];
        assert_eq!(sockets(&world.engine), 3);
        let (began, control) = (Instant::now(), world.program.0.arena.control(1));
        while control.state() != ChannelState::Free {
            assert!(began.elapsed() < common::TIMEOUT);
            world.engine.turn_and_rest(REST).unwrap();
        }
        assert_eq!(sockets(&world.engine), 3 - u64::from(is_read));
    }
}

/// Chunks that a program writes to each of its sockets, and where its stream ends then.
const CHUNKS: u64 = 200;
const EDGE: u64 = CHUNKS * CHUNK as u64;

/// Writes datagrams, each a chunk long.
fn write_chunks(host: &mut Host, socket: SocketId, to: SocketAddr) {
    let header = DatagramRecord::new((CHUNK - DATAGRAM_HEADER) as u32, to.into()).encode();
    let half = &host.arena.block(socket.index).snd;
    let lock = half.lock_to_send().unwrap();
    let directory = host.arena.snd_directory(socket.index);
    for number in 0..CHUNKS {
        let chunk = host.arena.take_snd_chunk().unwrap().unwrap();
        directory.entry(number).store(chunk, Ordering::Release);
        let place = host.arena.snd_place(chunk, 0, header.len()).unwrap();
        host.arena.memory().write(place, &header);
    }
    half.edge.store(EDGE, Ordering::Release);
    drop(lock);
    host.put(Request::Edges {
        socket,
        snd_edge: EDGE,
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 0,
    });
}

#[test]
fn chunks_that_are_done_with_are_taken_back_some_in_a_turn() {
    let mut world = turned(GEOMETRY, |mut host| {
        let sockets: Vec<SocketId> = (0..10)
            .map(|_| {
                let socket = host.open(SocketKind::Datagram);
                host.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
                socket
            })
            .collect();
        (host, sockets)
    });
    let (host, sockets) = &mut world.program;
    // Nobody is there.
    let to = "10.0.0.1:7".parse().unwrap();
    sockets.iter().for_each(|s| write_chunks(host, *s, to));
    let engine = &mut world.engine;
    let _ = each_turn(engine, sockets.len() as u64, |_| {
        host.drain();
        let is_sent = |s: &&SocketId| host.edges(**s).is_some_and(|e| e.snd_acked == EDGE);
        (sockets.len() - sockets.iter().filter(is_sent).count()) as u64
    });
    // All of them are due in the next turn.
    std::thread::sleep(Duration::from_millis(200));
    let taken = |_: &Engine| {
        let (warm, cold) = host.arena.free_snd_chunks();
        u64::from(GEOMETRY.snd_chunks - warm - cold)
    };
    // Those of the first may be back, if sending has taken long.
    let left = taken(engine);
    let turns = each_turn(engine, left, taken);
    // Of the last socket all that it has.
    assert!(turns.iter().all(|n| *n < 1024 + CHUNKS), "{turns:?}");
}
