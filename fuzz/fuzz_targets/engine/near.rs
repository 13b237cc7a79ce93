//! The engine and its program. Calls are put and not waited for: the engine does them in
//! its next turn.

#[path = "../../../crates/engine/tests/common/mod.rs"]
mod common;

use crate::far::{PORT, address_of};
use crate::{Step, Who};
use common::{Host, engines};
use longshore_engine::{Config, Engine};
use longshore_hostif::{
    Address, DatagramRecord, EdgeFlags, Geometry, Loopback, OpenFlags, Request, SocketId,
    SocketKind, datagram_span,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 1024,
    snd_chunks: 512,
    rcv_chunks: 256,
};
/// Sockets of both versions of IP.
const BOTH: OpenFlags = OpenFlags::IPV6;
/// Connections that the program makes and accepts on one engine, each with a chunk of the
/// send memory, which it never gives back; and the bytes that it writes to each.
const MOST: usize = 400;
const MOST_BYTES: usize = 64 * 1024;
/// Inputs that an engine is kept for.
const INPUTS: u32 = 300;

fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| tempfile::tempdir().expect("make a directory"));
    directory.path()
}

/// Where engines are found: one after the other, at the same place.
fn door() -> PathBuf {
    directory().join("door")
}

/// The engine, its program, and the other end of the wire.
pub(crate) struct Near {
    engine: Engine,
    host: Host,
    wire: MemoryPort,
    listener: SocketId,
    datagrams: SocketId,
    connections: Vec<SocketId>,
    ethernet: bool,
    /// How many connections, and inputs, there have been.
    seen: usize,
    inputs: u32,
    written: HashMap<u32, usize>,
    read: HashMap<u32, u64>,
}

impl Near {
    pub(crate) fn new(ethernet: bool) -> Near {
        let (port, wire) = pair(&MemoryConfig {
            offloads: false,
            ethernet,
            ..MemoryConfig::default()
        });
        let (addresses, port) = ("10.0.0.1/24 fd00::1/64", Box::new(port));
        let usual = engines::config(directory(), addresses, port, Loopback::Kernel, true);
        let mut engine = Engine::new(Config {
            gateways: vec!["10.0.0.2".parse().expect("an address")],
            socket: door(),
            geometry: GEOMETRY,
            ..usual
        })
        .expect("make an engine");
        let program = std::thread::spawn(|| {
            let mut host = Host::new(&door());
            let any = |port| SocketAddr::new("::".parse().expect("an address"), port);
            let listener = host.open_with(SocketKind::Stream, BOTH);
            host.bind(listener, any(PORT)).expect("bind");
            assert_eq!(host.listen(listener), 0);
            let datagrams = host.open_with(SocketKind::Datagram, BOTH);
            host.bind(datagrams, any(PORT)).expect("bind");
            (host, listener, datagrams)
        });
        while !program.is_finished() {
            engine
                .turn_and_rest(Duration::from_millis(1))
                .expect("the engine goes on");
        }
        let (host, listener, datagrams) = program.join().expect("the program is set up");
        Near {
            engine,
            host,
            wire,
            listener,
            datagrams,
            connections: Vec::new(),
            ethernet,
            seen: 0,
            inputs: 0,
            written: HashMap::new(),
            read: HashMap::new(),
        }
    }

    pub(crate) fn ethernet(&self) -> bool {
        self.ethernet
    }

    /// It is time for another engine.
    pub(crate) fn is_used_up(&self) -> bool {
        self.seen > MOST / 2 || self.inputs > INPUTS
    }

    /// The input is over.
    pub(crate) fn abort_all(&mut self) {
        self.inputs += 1;
        for socket in std::mem::take(&mut self.connections) {
            self.close(socket, Some(0));
        }
    }

    /// A frame comes; the port may refuse it.
    pub(crate) fn bring(&mut self, frame: &[u8]) {
        let _ = self.wire.send(&TxFrame::whole(frame));
    }

    /// A turn of the engine, and what it has sent in it.
    pub(crate) fn turn(&mut self) -> Vec<Vec<u8>> {
        self.engine.turn().expect("the engine goes on");
        let mut frame = vec![0; 2_000];
        let mut sent = Vec::new();
        while let Some(meta) = self.wire.recv(&mut frame).expect("the wire is there") {
            assert!(meta.gso.is_none(), "{meta:?}");
            sent.push(frame[..meta.len].to_vec());
        }
        sent
    }

    /// The program hears what the engine has told, and accepts who is there.
    pub(crate) fn settle(&mut self) {
        self.host.drain();
        while self.seen < MOST && self.host.has_record(self.listener) {
            let record = self.host.accept(self.listener);
            self.connections.push(record.socket);
            self.seen += 1;
        }
    }

    pub(crate) fn call(&mut self, step: &Step) {
        match *step {
            Step::Connect(who) if self.seen < MOST => {
                let socket = self.host.open_with(SocketKind::Stream, BOTH);
                self.host.put(Request::Connect {
                    socket,
                    tag: 0,
                    waiter: None,
                    peer: peer(who).into(),
                });
                self.connections.push(socket);
                self.seen += 1;
            }
            Step::Send(who, len) => {
                let len = len % 8_000;
                let record = DatagramRecord::new(len.into(), Address::from(peer(who)));
                let mut bytes = record.encode().to_vec();
                bytes.resize(datagram_span(len.into()) as usize, b'd');
                self.write(self.datagrams, &bytes, EdgeFlags::empty());
            }
            Step::Write(which, len) => {
                if let Some(socket) = self.connection(which) {
                    let bytes = vec![b'w'; usize::from(len) % 8_000];
                    self.write(socket, &bytes, EdgeFlags::empty());
                }
            }
            Step::Read(which) => {
                if let Some(socket) = self.connection(which)
                    && let Some(edges) = self.host.edges(socket)
                {
                    let read = self.read.entry(socket.index).or_default();
                    assert!(edges.rcv_edge >= *read, "{edges:?} after {read}");
                    *read = edges.rcv_edge;
                    self.host.consume(socket, edges.rcv_edge);
                }
            }
            Step::Shutdown(which) => {
                if let Some(socket) = self.connection(which) {
                    self.write(socket, &[], EdgeFlags::SHUT_WR);
                }
            }
            Step::Close(which) => {
                if let Some(socket) = self.connection(which) {
                    self.connections.retain(|s| *s != socket);
                    self.close(socket, None);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, socket: SocketId, linger: Option<u32>) {
        self.written.remove(&socket.index);
        self.read.remove(&socket.index);
        self.host.close_with(socket, linger);
    }

    fn write(&mut self, socket: SocketId, bytes: &[u8], flags: EdgeFlags) {
        let most = if socket == self.datagrams {
            8 * MOST_BYTES
        } else {
            MOST_BYTES
        };
        let written = self.written.entry(socket.index).or_default();
        if *written + bytes.len() <= most {
            *written += bytes.len();
            self.host.send(socket, bytes, flags);
        }
    }

    fn connection(&self, which: u8) -> Option<SocketId> {
        let which = usize::from(which) % self.connections.len().max(1);
        self.connections.get(which).copied()
    }
}

fn peer(who: Who) -> SocketAddr {
    let ip = match address_of(who) {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(ip.into(), PORT)
}
