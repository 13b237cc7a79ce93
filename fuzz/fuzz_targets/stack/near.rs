//! The stack and its program, in virtual time. Calls are put and not waited for: the stack
//! does them in its next turn.

use crate::far::{PORT, address_of};
use crate::program::Program;
use crate::{Step, Who};
use longshore_frames::{Port, RecvBuffer, TxFrame};
use longshore_hostif::adapter::{AdapterSession, Next};
use longshore_hostif::agent::{Peer, Processes};
use longshore_hostif::{
    Address, Arena, DatagramRecord, EdgeFlags, Geometry, Loopback, Request, SocketId, SocketKind,
    datagram_span,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ring::EventfdSignaler;
use longshore_stack::{
    Automatic, Defaults, From, Host, Interface, Secrets, Session, Settings, Stack,
};
use longshore_tcp::{FastOpenKey, Instant};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 128,
    snd_chunks: 128,
    rcv_chunks: 256,
    workers: 1,
};
/// Connections that the program has at once.
const MOST: usize = 32;
/// Longer than anything lasts that no process holds, in microseconds: a handshake that is not
/// answered, TIME-WAIT, fragments that do not come.
const ALL_IS_OVER: u64 = 400_000_000;
/// How often fragments that do not come are looked for, in microseconds.
const FRAGMENTS_US: u64 = 10_000_000;
/// The listener and the datagram socket.
const OWN_SOCKETS: usize = 2;
/// Turns without a frame and with work, one after the other.
const MOST_TURNS: usize = 10_000;

/// Bytes of a write are fewer than this.
const LONGEST: u16 = 8_000;

/// How many bytes of a write of the length that `len` says travel with its request: none, all, or
/// about half, by the rest of it.
fn immediate_of(len: u16) -> usize {
    match len / LONGEST % 3 {
        0 => 0,
        1 => usize::MAX,
        _ => usize::from(len % LONGEST) / 2,
    }
}

/// A machine with nobody's settings, where it is always the same time of day.
struct Alone;

impl Host for Alone {
    fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
        None
    }

    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        None
    }

    fn time_of_day_ns(&self) -> u64 {
        0
    }
}

/// The stack, its program, and the other end of the wire.
pub(crate) struct Near {
    stack: Stack,
    session: u32,
    channel: u16,
    program: Program,
    now: Instant,
    buffer: RecvBuffer,
    wire: MemoryPort,
    /// What is taken from the wire.
    frame: Vec<u8>,
    listener: SocketId,
    datagrams: SocketId,
    connections: Vec<SocketId>,
}

impl Near {
    pub(crate) fn new(ethernet: bool) -> Near {
        let (port, wire) = pair(&MemoryConfig {
            offloads: false,
            ethernet,
            ..MemoryConfig::default()
        });
        let text = ["10.0.0.1/24", "fd00::1/64"];
        let addresses = text.map(|text| text.parse().expect("an address"));
        let now = Instant(1_000_000);
        let interface = Interface {
            port: Box::new(port),
            addresses: &addresses,
            gateways: &["10.0.0.2".parse().expect("an address")],
            automatic: &Automatic::default(),
        };
        let settings = Settings::new(Box::new(Alone), Loopback::Kernel, 0, true);
        let secrets = Secrets::new([7; 16]);
        let mut stack = Stack::new(interface, settings, &secrets, now).expect("a stack");
        let arena = Arc::new(Arena::create(GEOMETRY).expect("memory"));
        let mut host = AdapterSession::new(arena.clone(), Arc::new(EventfdSignaler::for_one()));
        let peer = Peer {
            pid: 1,
            pidfd: None,
        };
        let attached = Processes::of(&host, 0).attach(peer);
        let channel = attached.expect("a channel").channel;
        host.open_channel(channel);
        let session = stack.lifecycle().open_session(Session::new(host, 0), None);
        let mut program = Program::new(arena, channel);
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT);
        let [listener, datagrams] = [SocketKind::Stream, SocketKind::Datagram].map(|kind| {
            let socket = program.open(kind);
            program.put(Request::Bind {
                socket,
                tag: 0,
                waiter: None,
                local: any.into(),
            });
            socket
        });
        program.put(Request::Listen {
            socket: listener,
            tag: 0,
            waiter: None,
            backlog: 16,
        });
        let mut near = Near {
            stack,
            session,
            channel,
            program,
            now,
            buffer: RecvBuffer::new(),
            wire,
            frame: vec![0; 2_000],
            listener,
            datagrams,
            connections: Vec::new(),
        };
        // Addresses of its own are asked for at first.
        near.wait(10_000_000);
        near
    }

    /// A frame comes; the port may refuse it.
    pub(crate) fn bring(&mut self, frame: &[u8]) {
        let _ = self.wire.send(&TxFrame::whole(frame));
    }

    /// Turns until it sends something or has nothing to do, and what it has sent.
    pub(crate) fn turn(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..MOST_TURNS {
            let worked = self.turn_once();
            let sent = self.sent();
            if !worked || !sent.is_empty() {
                return sent;
            }
        }
        panic!("the stack keeps itself busy");
    }

    fn turn_once(&mut self) -> bool {
        self.now = self.now.after_us(1);
        let stack = &mut self.stack;
        stack.begin_turn(self.now);
        let from = From {
            session: self.session,
            channel: self.channel,
        };
        stack.report_rest(from);
        let (mut requests, mut frames) = (0, 0);
        while let Some(session) = stack.endpoints.sessions.get_mut(self.session)
            && let Next::Request(message, immediate) = session.host.next_request(self.channel, 8)
        {
            requests += 1;
            let request = Request::decode(&message).expect("the program makes sense");
            stack.handle_request(from, &request, &immediate);
        }
        if requests != 0
            && let Some(session) = stack.endpoints.sessions.get_mut(self.session)
        {
            session.host.channels.note_taken(self.channel);
        }
        while let Some(meta) = stack
            .port_mut()
            .recv_single(&mut self.buffer)
            .expect("a frame")
        {
            frames += 1;
            stack.frame_in(self.buffer.frame(meta.len), &meta);
        }
        stack.looked_at_port(frames, false);
        let own = stack.take_own_packets();
        stack.handle_timeouts();
        stack.expire_fragments();
        stack.relieve_memory_pressure();
        let flushed = stack.flush();
        for late in stack.late_binds().take() {
            stack.endpoints.sessions.give_bind_up(&late);
        }
        stack.answer_questions();
        stack.publish();
        stack.counters.notices.clear();
        stack.port_mut().flush().expect("the wire is there");
        if !cfg!(debug_assertions) {
            // Otherwise it does so itself.
            stack.check().expect("the parts agree");
        }
        requests != 0 || frames != 0 || own != 0 || flushed
    }

    /// What has been sent and is not taken yet.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let frame = &mut self.frame;
        let mut sent = Vec::new();
        while let Some(meta) = self.wire.recv(frame).expect("the wire is there") {
            assert!(meta.gso.is_none(), "{meta:?}");
            sent.push(frame[..meta.len].to_vec());
        }
        sent
    }

    /// Time passes, in microseconds; what is sent meanwhile is lost.
    pub(crate) fn wait(&mut self, us: u64) {
        let until = self.now.after_us(us);
        while self.now < until {
            self.wait_for_next(until);
        }
        while !self.turn().is_empty() {}
    }

    /// Time passes until the stack has something to do, at most until then.
    fn wait_for_next(&mut self, until: Instant) {
        while !self.turn().is_empty() {}
        let next = self.stack.next_timeout().unwrap_or(until);
        let next = match self.stack.status().has_fragments() {
            true => next.min(self.now.after_us(FRAGMENTS_US)),
            false => next,
        };
        self.now = self.now.max(next.min(until));
    }

    /// The input is over: nothing is left of it in the end.
    pub(crate) fn end(&mut self) {
        // What has come meanwhile is accepted only to be reset.
        while !self.connections.is_empty() || self.program.waits(self.listener) {
            for socket in std::mem::take(&mut self.connections) {
                self.program.close(socket, Some(0));
            }
            while !self.turn().is_empty() {}
            self.flush();
        }
        let until = self.now.after_us(ALL_IS_OVER);
        loop {
            let unread = self.program.unread(self.datagrams);
            self.program.consume(self.datagrams, unread);
            while !self.turn().is_empty() {}
            self.flush();
            if self.is_all_over() {
                break;
            }
            assert!(self.now < until, "left for ever: {}", self.what_is_left());
            self.wait_for_next(until);
        }
        let session = self
            .stack
            .endpoints
            .sessions
            .get(self.session)
            .expect("it goes on");
        assert_eq!(session.host.meter.bad_descriptors(), 0);
        // Of the listener's records, and of the datagrams', the last chunk may be there.
        assert!(session.host.receive.in_use() <= 2, "chunks are lost");
        self.program.take_back(self.datagrams);
        self.program.check_memory(OWN_SOCKETS as u32);
    }

    /// Whether nothing is left but the two sockets that every input begins with, and the
    /// program knows it.
    fn is_all_over(&self) -> bool {
        let are_none =
            self.stack.status().wait_count() == 0 && !self.stack.status().has_fragments();
        let is_told =
            self.program.unsent(self.datagrams) == 0 && self.program.unread(self.datagrams) == 0;
        are_none && is_told && self.stack.status().socket_count() == OWN_SOCKETS
    }

    fn what_is_left(&self) -> String {
        let status = self.stack.status();
        let sockets: Vec<_> = status.sockets(0).collect();
        format!(
            "{} in TIME-WAIT, fragments: {}, records not sent: {}, not read: {}, {sockets:#?}",
            status.wait_count(),
            status.has_fragments(),
            self.program.unsent(self.datagrams),
            self.program.unread(self.datagrams),
        )
    }

    /// The program takes what the stack has reported, and accepts who is there.
    pub(crate) fn flush(&mut self) {
        self.program.drain();
        while self.connections.len() < MOST
            && let Some(socket) = self.program.accept(self.listener)
        {
            self.connections.push(socket);
        }
    }

    pub(crate) fn call(&mut self, step: &Step) {
        match *step {
            Step::Wait(ms) => self.wait(u64::from(ms) * 1_000),
            Step::Connect(who) if self.connections.len() < MOST => {
                let socket = self.program.open(SocketKind::Stream);
                self.program.put(Request::Connect {
                    socket,
                    tag: 0,
                    waiter: None,
                    peer: peer(who).into(),
                });
                self.connections.push(socket);
            }
            Step::Send(who, len) => {
                let (len, immediate) = (len % LONGEST, immediate_of(len));
                let record = DatagramRecord::new(len.into(), Address::from(peer(who)));
                let mut bytes = record.encode().to_vec();
                bytes.resize(datagram_span(len.into()) as usize, b'd');
                self.program
                    .write(self.datagrams, &bytes, immediate, EdgeFlags::empty());
            }
            Step::Write(which, len) => {
                if let Some(socket) = self.connection(which) {
                    let bytes = vec![b'w'; usize::from(len % LONGEST)];
                    self.program
                        .write(socket, &bytes, immediate_of(len), EdgeFlags::empty());
                }
            }
            Step::Read(which) => {
                if let Some(socket) = self.connection(which) {
                    let unread = self.program.unread(socket);
                    self.program.consume(socket, unread);
                }
            }
            Step::Shutdown(which) => {
                if let Some(socket) = self.connection(which) {
                    self.program.write(socket, &[], 0, EdgeFlags::SHUT_WR);
                }
            }
            Step::Close(which) => {
                if let Some(socket) = self.connection(which) {
                    self.connections.retain(|s| *s != socket);
                    self.program.close(socket, None);
                }
            }
            _ => {}
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
