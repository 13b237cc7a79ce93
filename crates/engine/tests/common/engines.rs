//! Engines on memory wires, for the tests.
#![allow(dead_code, reason = "each test uses its part")]

use super::Host;
use longshore_engine::control::{ControlReply, SsRow, StatReply};
use longshore_engine::{Config, Engine, EngineError, Handle};
use longshore_hostif::{EdgeFlags, Geometry, Loopback, SocketId};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ports::{Port, PortError};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// An engine that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) path: PathBuf,
    stopper: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            longshore_testbed::join(thread);
        }
    }
}

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 1024,
    snd_chunks: 1024,
    rcv_chunks: 2048,
    workers: 1,
};

impl Running {
    /// Whether it has ended by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// An engine with these addresses, separated by blanks, that never sleeps.
pub(crate) fn config(
    dir: &Path,
    addresses: &str,
    port: Box<dyn Port>,
    loopback: Loopback,
    cut_through: bool,
) -> Config {
    let path = dir.join(format!(
        "{}.sock",
        addresses.replace(['/', '.', ':', ' '], "-")
    ));
    Config {
        port,
        port_name: "memory".to_owned(),
        addresses: addresses.split(' ').map(|a| a.parse().unwrap()).collect(),
        gateways: Vec::new(),
        automatic: longshore_engine::Automatic::default(),
        scope: 0,
        loopback,
        cut_through,
        socket: path,
        control: None,
        geometry: GEOMETRY,
        private: false,
        others_may_join: true,
        users: Vec::new(),
        spin: Duration::from_secs(3600),
        placement: longshore_engine::Placement::Scheduler,
        grace: Duration::ZERO,
    }
}

/// Starts an engine.
pub(crate) fn run(config: Config) -> Running {
    run_with(config, |_| ())
}

/// As `run`, with settings of its own.
pub(crate) fn run_with(config: Config, set: impl FnOnce(&mut Engine)) -> Running {
    let path = config.socket.clone();
    let mut engine = Engine::new(config).unwrap();
    set(&mut engine);
    let stopper = engine.handle();
    let thread = std::thread::spawn(move || match engine.run() {
        // The other end of its wire may be dropped before it.
        Ok(()) | Err(EngineError::Port(PortError::Down)) => {}
        Err(e) => panic!("{e}"),
    });
    Running {
        path,
        stopper,
        thread: Some(thread),
    }
}

/// Starts an engine with these addresses, separated by blanks.
pub(crate) fn start(
    dir: &Path,
    addresses: &str,
    port: Box<dyn Port>,
    loopback: Loopback,
    cut_through: bool,
) -> Running {
    run(config(dir, addresses, port, loopback, cut_through))
}

/// An engine that hears nothing on its wire and sleeps whenever it has nothing to do. The
/// other end of its wire has to be kept.
pub(crate) fn alone(dir: &Path) -> (Config, impl Port + use<>) {
    let (wire, other) = pair(&MemoryConfig::default());
    let mut config = config(dir, "10.0.0.1/24", Box::new(wire), Loopback::Kernel, true);
    config.spin = Duration::ZERO;
    (config, other)
}

/// Starts such an engine, which ends with its last session.
pub(crate) fn sleepy(dir: &Path) -> (Running, impl Port) {
    let (mut config, other) = alone(dir);
    config.private = true;
    (run(config), other)
}

/// What an engine says of itself at its control socket.
pub(crate) fn stat(control: &Path) -> Box<StatReply> {
    match ask(control, "{\"cmd\":\"stat\"}\n") {
        ControlReply::Stat(stat) => stat,
        other => panic!("{other:?}"),
    }
}

/// Its sockets, as far as one answer has room for them.
pub(crate) fn sockets(control: &Path) -> Vec<SsRow> {
    match ask(control, "{\"cmd\":\"ss\",\"from\":0}\n") {
        ControlReply::Ss(reply) => reply.rows,
        other => panic!("{other:?}"),
    }
}

fn ask(control: &Path, what: &str) -> ControlReply {
    let mut stream = UnixStream::connect(control).unwrap();
    stream.write_all(what.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Two engines on one wire, with these addresses each.
pub(crate) fn joined(dir: &Path, first: &str, second: &str) -> (Running, Running) {
    let (a, b) = pair(&MemoryConfig::default());
    (
        start(dir, first, Box::new(a), Loopback::Kernel, true),
        start(dir, second, Box::new(b), Loopback::Kernel, true),
    )
}

/// Bytes that tell where they belong.
pub(crate) fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24) as u8)
        .collect()
}

/// A request of the first, which then has no more to say, and a response of the second,
/// which then closes.
pub(crate) fn converse(
    (client, socket): (&mut Host, SocketId),
    (server, accepted): (&mut Host, SocketId),
) {
    let request = bytes(300_000, 1);
    client.send(socket, &request, EdgeFlags::SHUT_WR);
    assert_eq!(server.receive(accepted, request.len()), request);
    server.wait_flag(accepted, EdgeFlags::PEER_FIN);
    let response = bytes(700_000, 2);
    server.send(accepted, &response, EdgeFlags::empty());
    assert_eq!(client.receive(socket, response.len()), response);
    server.close(accepted);
    client.wait_flag(socket, EdgeFlags::PEER_FIN);
}
