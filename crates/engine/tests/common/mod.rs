//! A host by hand: the program's half of the interface, as small as it gets, to
//! drive an engine without the socket library.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod engines;
pub(crate) mod far;
pub(crate) mod proxy;
pub(crate) mod second;

use longshore_hostif::attach::{Joined, Token, join, new_session};
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Address, Arena, BlockFlags, CHUNK, Completion, EdgeFlags, Edges,
    HostChannel, OpenFlags, OptionName, Query, Request, SocketId, SocketKind, SocketState,
};
use longshore_ring::Doorbell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A program with one process.
pub(crate) struct Host {
    pub(crate) arena: Arc<Arena>,
    pub(crate) channel: HostChannel,
    pub(crate) doorbell: Doorbell,
    pub(crate) connection: OwnedFd,
    pub(crate) launcher: Option<OwnedFd>,
    pub(crate) token: Token,
    done: HashMap<u32, (u16, u64, Address)>,
    /// By sockets, not their indices: of one that was closed something may still come.
    edges: HashMap<SocketId, Edges>,
    sent: HashMap<u32, u64>,
    read: HashMap<u32, u64>,
    tag: u32,
}

/// How long anything may take: machines are slow, and busy with other tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

impl Host {
    pub(crate) fn new(path: &Path) -> Self {
        let (launcher, token) = new_session(path, Default::default()).unwrap();
        let mut host = Self::join(path, token);
        host.launcher = Some(launcher);
        host
    }

    pub(crate) fn join(path: &Path, token: Token) -> Self {
        let Joined {
            connection,
            channel,
            geometry,
            arena,
            doorbell,
            ..
        } = join(path, token).unwrap();
        let arena = Arc::new(Arena::open(arena, geometry).unwrap());
        Self {
            channel: HostChannel::new(arena.clone(), channel),
            arena,
            doorbell: Doorbell::from_fd(doorbell),
            connection,
            launcher: None,
            token,
            done: HashMap::new(),
            edges: HashMap::new(),
            sent: HashMap::new(),
            read: HashMap::new(),
            tag: 0,
        }
    }

    pub(crate) fn put(&mut self, request: Request) {
        self.channel.put(&request).unwrap();
        self.channel.publish(&self.doorbell, true);
    }

    pub(crate) fn drain(&mut self) {
        let mut is_more = false;
        while let Some(completion) = self.channel.get().unwrap() {
            match completion.expect("the engine makes sense") {
                Completion::Done {
                    tag,
                    errno,
                    value,
                    address,
                    ..
                } => {
                    self.done.insert(tag, (errno, value, address));
                }
                Completion::Edges { socket, edges } => {
                    self.edges.insert(socket, edges);
                }
                Completion::More => is_more = true,
            }
        }
        self.channel.release();
        if is_more {
            self.channel.ask_for_more(&self.doorbell);
        }
    }

    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            self.drain();
            if let Some(found) = ready(self) {
                return found;
            }
            assert!(start.elapsed() < TIMEOUT, "waited too long for {what}");
            std::thread::yield_now();
        }
    }

    /// The answer to a question was taken.
    pub(crate) fn done_with(&mut self, tag: u32) -> Option<()> {
        self.done.remove(&tag).map(drop)
    }

    fn answer(&mut self, tag: u32) -> (u16, u64, Address) {
        self.wait("an answer", |h| h.done.remove(&tag))
    }

    pub(crate) fn open(&mut self, kind: SocketKind) -> SocketId {
        self.open_with(kind, OpenFlags::REUSE_ADDRESS)
    }

    pub(crate) fn open_with(&mut self, kind: SocketKind, flags: OpenFlags) -> SocketId {
        let index = self
            .arena
            .header()
            .free_sockets
            .pop(self.arena.socket_links())
            .unwrap()
            .unwrap();
        let generation = self
            .arena
            .block(index)
            .begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        self.arena.set_held(self.channel.index(), index, true);
        self.put(Request::Open {
            socket,
            kind,
            flags,
        });
        socket
    }

    pub(crate) fn set(&mut self, socket: SocketId, name: OptionName, value: u64) {
        self.put(Request::SetOption {
            socket,
            name,
            value,
        });
    }

    pub(crate) fn bind(&mut self, socket: SocketId, local: SocketAddr) -> Result<SocketAddr, u16> {
        self.tag += 1;
        self.put(Request::Bind {
            socket,
            tag: self.tag,
            waiter: None,
            local: local.into(),
        });
        match self.answer(self.tag) {
            (0, _, address) => Ok(address.get().unwrap()),
            (errno, ..) => Err(errno),
        }
    }

    /// Puts a request that is answered; its errno.
    pub(crate) fn call(&mut self, request: impl FnOnce(u32) -> Request) -> u16 {
        self.tag += 1;
        self.put(request(self.tag));
        self.answer(self.tag).0
    }

    pub(crate) fn listen(&mut self, socket: SocketId) -> u16 {
        self.tag += 1;
        self.put(Request::Listen {
            socket,
            tag: self.tag,
            waiter: None,
            backlog: 128,
        });
        self.answer(self.tag).0
    }

    /// A new listener at `local`.
    pub(crate) fn listening(&mut self, local: &str) -> SocketId {
        let listener = self.open(SocketKind::Stream);
        self.bind(listener, local.parse().unwrap()).unwrap();
        assert_eq!(self.listen(listener), 0);
        listener
    }

    /// Sets a datagram socket's peer.
    pub(crate) fn connect_datagram(&mut self, socket: SocketId, peer: SocketAddr) {
        self.tag += 1;
        self.put(Request::Connect {
            socket,
            tag: self.tag,
            waiter: None,
            peer: peer.into(),
        });
        assert_eq!(self.answer(self.tag).0, 0);
    }

    /// Begins to connect: an errno, and what a SYN that waits for data takes of them.
    pub(crate) fn start_connect(&mut self, socket: SocketId, peer: SocketAddr) -> (u16, u64) {
        self.tag += 1;
        self.put(Request::Connect {
            socket,
            tag: self.tag,
            waiter: None,
            peer: peer.into(),
        });
        let (errno, syn_room, _) = self.answer(self.tag);
        (errno, syn_room)
    }

    /// Connects and waits for the outcome: 0 or an errno. A SYN that waits for the
    /// first write is as good as a connection.
    pub(crate) fn connect(&mut self, socket: SocketId, peer: SocketAddr) -> u16 {
        let (errno, syn_room) = self.start_connect(socket, peer);
        if errno != 0 || syn_room != 0 {
            return errno;
        }
        self.wait("a connection", |h| {
            let edges = h.edges.get(&socket)?;
            if edges.flags.contains(EdgeFlags::DEAD) {
                return Some(edges.errno);
            }
            edges.flags.contains(EdgeFlags::CONNECTED).then_some(0)
        })
    }

    pub(crate) fn edges(&self, socket: SocketId) -> Option<Edges> {
        self.edges.get(&socket).copied()
    }

    pub(crate) fn accept(&mut self, listener: SocketId) -> AcceptRecord {
        let record = self.accept_silently(listener);
        let at = self.read.get(&listener.index).copied().unwrap_or(0);
        self.consume(listener, at + ACCEPT_RECORD as u64);
        record
    }

    /// As `accept`, and the engine does not hear of it.
    pub(crate) fn accept_silently(&mut self, listener: SocketId) -> AcceptRecord {
        let at = self.read.get(&listener.index).copied().unwrap_or(0);
        let end = at + ACCEPT_RECORD as u64;
        self.wait("a connection to accept", |h| {
            (h.edges.get(&listener)?.rcv_edge >= end).then_some(())
        });
        let mut bytes = [0; ACCEPT_RECORD];
        self.copy_out(listener, at, &mut bytes);
        let record = AcceptRecord::decode(&bytes);
        let block = self.arena.block(record.socket.index);
        let begun = block.begin_accepted(&record, self.arena.block(listener.index));
        assert!(begun, "the connection is gone");
        self.arena
            .set_held(self.channel.index(), record.socket.index, true);
        if record.subscriber != Some(self.channel.index() as u16) {
            self.put(Request::Subscribe {
                socket: record.socket,
            });
        }
        record
    }

    /// Whether there is a connection to accept.
    pub(crate) fn has_record(&mut self, listener: SocketId) -> bool {
        self.drain();
        let at = self.read.get(&listener.index).copied().unwrap_or(0);
        self.edges(listener).is_some_and(|e| e.rcv_edge > at)
    }

    /// Linux's `struct tcp_info`.
    pub(crate) fn tcp_info(&mut self, socket: SocketId) -> Vec<u8> {
        self.ask(socket, Query::TcpInfo)
    }

    /// What comes in the mailbox.
    pub(crate) fn ask(&mut self, socket: SocketId, query: Query) -> Vec<u8> {
        self.tag += 1;
        self.put(Request::Query {
            socket,
            tag: self.tag,
            waiter: None,
            query,
        });
        let (errno, len, _) = self.answer(self.tag);
        assert_eq!(errno, 0);
        let channel = self.channel.index();
        self.arena.control(channel).read_mailbox()[..len as usize].to_vec()
    }

    fn copy_out(&self, socket: SocketId, at: u64, to: &mut [u8]) {
        for (i, byte) in to.iter_mut().enumerate() {
            let o = at + i as u64;
            let number = o / CHUNK as u64;
            let entry = self
                .arena
                .rcv_directory(socket.index)
                .entry(number)
                .load(Ordering::Acquire);
            let place = self
                .arena
                .received_place(entry, (o % CHUNK as u64) as usize, 1)
                .unwrap();
            self.arena.memory().read(place, std::slice::from_mut(byte));
        }
    }

    pub(crate) fn consume(&mut self, socket: SocketId, edge: u64) {
        self.read.insert(socket.index, edge);
        let snd_edge = self.sent.get(&socket.index).copied().unwrap_or(0);
        self.put(Request::Edges {
            socket,
            snd_edge,
            rcv_consumed: edge,
            flags: EdgeFlags::empty(),
            immediate: 0,
        });
    }

    /// Writes to the send stream, taking chunks as they are needed.
    pub(crate) fn send(&mut self, socket: SocketId, bytes: &[u8], flags: EdgeFlags) {
        let mut at = self.sent.get(&socket.index).copied().unwrap_or(0);
        let directory = self.arena.snd_directory(socket.index);
        let half = &self.arena.block(socket.index).snd;
        let lock = half.lock_to_send().unwrap();
        // The engine takes chunks back that are done with.
        let mut none = half.unreturned().is_empty();
        for part in bytes.chunks(1) {
            let number = at / CHUNK as u64;
            if std::mem::take(&mut none) || at % CHUNK as u64 == 0 {
                let chunk = self.arena.take_snd_chunk().unwrap().unwrap();
                directory.entry(number).store(chunk, Ordering::Release);
            }
            let chunk = directory.entry(number).load(Ordering::Acquire);
            let place = self
                .arena
                .snd_place(chunk, (at % CHUNK as u64) as usize, 1)
                .unwrap();
            self.arena.memory().write(place, part);
            at += 1;
        }
        self.sent.insert(socket.index, at);
        half.edge.store(at, Ordering::Release);
        drop(lock);
        let rcv_consumed = self.read.get(&socket.index).copied().unwrap_or(0);
        self.put(Request::Edges {
            socket,
            snd_edge: at,
            rcv_consumed,
            flags: flags | EdgeFlags::PUSH,
            immediate: 0,
        });
    }

    /// Gives chunks of the send stream back, from this number on, that are acknowledged
    /// as a whole; says which one is not.
    pub(crate) fn reclaim(&mut self, socket: SocketId, from: u64) -> u64 {
        let acked = self.edges.get(&socket).map_or(0, |e| e.snd_acked);
        let directory = self.arena.snd_directory(socket.index);
        let half = &self.arena.block(socket.index).snd;
        let _lock = half.lock_to_send().unwrap();
        let from = from.max(half.returned.load(Ordering::Acquire) / CHUNK as u64);
        let returned = acked / CHUNK as u64 * CHUNK as u64;
        half.returned.fetch_max(returned, Ordering::AcqRel);
        for number in from..acked / CHUNK as u64 {
            let chunk = directory.entry(number).load(Ordering::Acquire);
            self.arena.give_snd_chunk(chunk).unwrap();
        }
        from.max(acked / CHUNK as u64)
    }

    /// Reads exactly `len` bytes.
    pub(crate) fn receive(&mut self, socket: SocketId, len: usize) -> Vec<u8> {
        let at = self.read.get(&socket.index).copied().unwrap_or(0);
        let mut out = vec![0; len];
        let mut done = 0;
        while done < len {
            let from = at + done as u64;
            let edge = self.wait("data", |h| {
                h.edges
                    .get(&socket)
                    .map(|e| e.rcv_edge)
                    .filter(|e| *e > from)
            });
            let now = ((edge - from) as usize).min(len - done);
            self.copy_out(socket, from, &mut out[done..done + now]);
            done += now;
            self.consume(socket, from + now as u64);
        }
        out
    }

    pub(crate) fn wait_flag(&mut self, socket: SocketId, flag: EdgeFlags) -> Edges {
        self.wait("a flag", |h| {
            h.edges
                .get(&socket)
                .copied()
                .filter(|e| e.flags.contains(flag))
        })
    }

    pub(crate) fn close(&mut self, socket: SocketId) {
        self.close_with(socket, None);
    }

    /// Closes with SO_LINGER at so many seconds.
    pub(crate) fn close_with(&mut self, socket: SocketId, linger: Option<u32>) {
        self.arena
            .set_held(self.channel.index(), socket.index, false);
        let snd_edge = self.sent.remove(&socket.index).unwrap_or(0);
        let rcv_consumed = self.read.remove(&socket.index).unwrap_or(0);
        self.edges.remove(&socket);
        self.put(Request::Close {
            socket,
            snd_edge,
            rcv_consumed,
            linger,
        });
    }
}
