//! That the engine has handled a request says that what it led to can be seen, also at other
//! sockets of the same program: what was sent before one is closed, or takes from another peer,
//! comes before that. The engine is turned by the test.

mod common;

use common::Host;
use common::engines::alone;
use longshore_engine::Engine;
use longshore_hostif::{
    Address, DatagramRecord, EdgeFlags, Request, SocketId, SocketKind, datagram_span,
};
use longshore_ports::Port;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LISTENER: &str = "10.0.0.1:80";
const RECEIVER: &str = "10.0.0.1:5000";
const OTHER: &str = "10.0.0.1:5001";
/// A moment of rest, where there is nothing to do.
const REST: Duration = Duration::from_millis(1);
/// Turns in which a request is handled at the latest, of a few datagrams.
const MOST_TURNS: u32 = 6;

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// A program with both ends of a connection, and two UDP sockets of which one sends to the
/// other.
struct Program {
    host: Host,
    client: SocketId,
    server: SocketId,
    sender: SocketId,
    receiver: SocketId,
    /// What the receiver was told of.
    told: u64,
}

impl Program {
    fn new(mut host: Host) -> Self {
        let listener = host.listening(LISTENER);
        let client = host.open(SocketKind::Stream);
        assert_eq!(host.connect(client, at(LISTENER)), 0);
        let server = host.accept(listener).socket;
        let (sender, receiver) = (
            host.open(SocketKind::Datagram),
            host.open(SocketKind::Datagram),
        );
        host.bind(receiver, at(RECEIVER)).unwrap();
        host.bind(sender, at(OTHER)).unwrap();
        host.connect_datagram(sender, at(RECEIVER));
        Self {
            host,
            client,
            server,
            sender,
            receiver,
            told: 0,
        }
    }

    /// Sends so many datagrams.
    fn send(&mut self, count: usize) {
        let record = DatagramRecord::new(1, Address::from(at(RECEIVER)));
        let mut stream = record.encode().to_vec();
        stream.push(b'x');
        stream.resize(datagram_span(1) as usize, 0);
        self.host
            .send(self.sender, &stream.repeat(count), EdgeFlags::empty());
    }

    /// The number of the request that was published last.
    fn asked(&self) -> u32 {
        let channel = self.host.channel.index();
        self.host.arena.control(channel).requested()
    }

    fn is_handled(&self, number: u32) -> bool {
        let channel = self.host.channel.index();
        self.host.arena.control(channel).has_handled(number)
    }

    /// How many bytes of records have come since this was asked last.
    fn news(&mut self) -> u64 {
        self.host.drain();
        let told = self.host.edges(self.receiver).map_or(0, |e| e.rcv_edge);
        told - std::mem::replace(&mut self.told, told)
    }

    /// The error that the sender was told of.
    fn error(&mut self) -> u32 {
        self.host.drain();
        let block = self.host.arena.block(self.sender.index);
        let soft = self.host.edges(self.sender).map_or(0, |e| e.errno);
        block.errno.load(Ordering::Acquire).max(soft.into())
    }
}

struct World {
    engine: Engine,
    program: Program,
    _wire: Box<dyn Port>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (config, wire) = alone(dir.path());
        let path = config.socket.clone();
        let mut engine = Engine::new(config).unwrap();
        let setting_up = std::thread::spawn(move || Program::new(Host::new(&path)));
        while !setting_up.is_finished() {
            engine.turn_and_rest(REST).unwrap();
        }
        Self {
            engine,
            program: setting_up.join().unwrap(),
            _wire: Box::new(wire),
            _dir: dir,
        }
    }

    fn turn(&mut self, times: u32) {
        for _ in 0..times {
            self.engine.turn().unwrap();
        }
    }

    /// Turns until a request is handled.
    fn handle(&mut self, number: u32, most: u32) {
        for _ in 0..most {
            self.turn(1);
            if self.program.is_handled(number) {
                return;
            }
        }
        panic!("it is not handled after {most} turns");
    }
}

#[test]
fn a_datagram_is_told_when_it_is_handled_whatever_was_before() {
    let mut world = World::new();
    let span = datagram_span(1);
    for before in 0..4 * 8 {
        let (turns_between, kind) = (before / 8, before % 8);
        if kind & 1 != 0 {
            let client = world.program.client;
            world.program.host.send(client, b"x", EdgeFlags::empty());
        }
        if kind & 2 != 0 {
            let (host, server) = (&mut world.program.host, world.program.server);
            let read = host.edges(server).map_or(0, |e| e.rcv_edge);
            host.consume(server, read);
        }
        if kind & 4 != 0 {
            let server = world.program.server;
            world.program.host.send(server, b"x", EdgeFlags::empty());
        }
        world.turn(turns_between);
        world.program.send(1);
        let number = world.program.asked();
        world.handle(number, MOST_TURNS);
        assert_eq!(
            world.program.news(),
            span,
            "before it was {kind}, then {turns_between} turns"
        );
        world.turn(8);
        let read = world.program.told;
        let receiver = world.program.receiver;
        world.program.host.consume(receiver, read);
    }
}

#[test]
fn all_of_many_datagrams_are_told_when_they_are_handled() {
    const MANY: usize = 700;
    let mut world = World::new();
    world.program.send(MANY);
    let number = world.program.asked();
    world.handle(number, 100);
    assert_eq!(world.program.news(), MANY as u64 * datagram_span(1));
}

#[test]
fn what_was_sent_before_its_receiver_is_closed_is_not_refused() {
    let mut world = World::new();
    world.program.send(3);
    let receiver = world.program.receiver;
    world.program.host.close(receiver);
    world.turn(10);
    assert_eq!(world.program.error(), 0, "refused");
    world.program.send(1);
    world.turn(10);
    assert_ne!(world.program.error(), 0, "nobody is there");
}

#[test]
fn what_was_sent_before_its_receiver_chooses_a_peer_is_received() {
    let mut world = World::new();
    world.program.send(3);
    let (host, socket) = (&mut world.program.host, world.program.receiver);
    host.put(Request::Connect {
        socket,
        tag: 999,
        waiter: None,
        peer: at("10.0.0.1:9").into(),
    });
    world.turn(10);
    assert_eq!(world.program.news(), 3 * datagram_span(1));
    assert_eq!(world.program.error(), 0, "refused");
}
