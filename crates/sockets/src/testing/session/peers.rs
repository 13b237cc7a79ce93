//! The sockets of the tests' engine, and how bytes get from one to the other.

use super::super::{POISON, SEND_LIMIT};
use super::Session;
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, CHUNK, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Edges,
    SocketId, SocketKind, SocketState, chunk_of, datagram_span,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Bytes that may wait at a receiver.
pub(super) const RECEIVE_WINDOW: u64 = 128 * 1024;

const ECONNRESET: u16 = 104;
const ECONNREFUSED: u16 = 111;

pub(super) enum Kind {
    Idle,
    Listener,
    /// A connection, with the socket at its other end.
    Stream {
        other: Option<u32>,
    },
}

pub(super) struct Peer {
    pub(super) id: SocketId,
    pub(super) protocol: SocketKind,
    pub(super) kind: Kind,
    pub(super) subscribers: Vec<u16>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    snd_edge: u64,
    moved: u64,
    rcv_edge: u64,
    rcv_consumed: u64,
    rcv_urgent: u64,
    chunks: BTreeMap<u64, u32>,
    /// A listener's connections that nobody has accepted, oldest first.
    waiting: VecDeque<u32>,
    flags: EdgeFlags,
    errno: u16,
    pub(super) snd_shut: bool,
    fin_sent: bool,
    holds_back: bool,
    pub(super) orphan: bool,
    pub(super) resets: bool,
    pub(super) unreported: bool,
}

impl Peer {
    pub(super) fn new(id: SocketId, protocol: SocketKind, channel: u16) -> Self {
        Self {
            id,
            protocol,
            kind: Kind::Idle,
            subscribers: vec![channel],
            local: None,
            remote: None,
            snd_edge: 0,
            moved: 0,
            rcv_edge: 0,
            rcv_consumed: 0,
            rcv_urgent: 0,
            chunks: BTreeMap::new(),
            waiting: VecDeque::new(),
            flags: EdgeFlags::empty(),
            errno: 0,
            snd_shut: false,
            fin_sent: false,
            holds_back: false,
            orphan: false,
            resets: false,
            unreported: false,
        }
    }

    /// Another process has the socket, too, and is to be told where it stands.
    pub(super) fn subscribe(&mut self, channel: u16) {
        if !self.subscribers.contains(&channel) {
            self.subscribers.push(channel);
        }
        self.unreported = true;
    }

    pub(super) fn edges(&self) -> Edges {
        Edges {
            rcv_edge: self.rcv_edge,
            snd_acked: if self.holds_back { 0 } else { self.moved },
            flags: self.flags,
            errno: self.errno,
            rcv_urgent: self.rcv_urgent,
        }
    }

    /// A new attempt to connect knows nothing of how the last one ended.
    pub(super) fn revive(&mut self) {
        self.flags = EdgeFlags::empty();
        self.errno = 0;
    }

    pub(super) fn die(&mut self, errno: u16) {
        self.flags |= EdgeFlags::DEAD;
        self.errno = errno;
        self.unreported = true;
    }
}

impl Session {
    /// What the host says about a socket's edges.
    pub(super) fn edges(&mut self, index: u32, snd_edge: u64, consumed: u64, flags: EdgeFlags) {
        let peer = self.peer(index);
        peer.snd_edge = peer.snd_edge.max(snd_edge);
        assert!(consumed <= peer.rcv_edge, "consumed what never came");
        peer.rcv_consumed = peer.rcv_consumed.max(consumed);
        peer.snd_shut |= flags.contains(EdgeFlags::SHUT_WR);
        let unread = (peer.rcv_edge - peer.rcv_consumed).div_ceil(ACCEPT_RECORD as u64);
        while peer.waiting.len() as u64 > unread {
            peer.waiting.pop_front();
        }
        // Chunks that are done with are free again; the last one, too, if all in
        // it is.
        let all = peer.rcv_consumed == peer.rcv_edge;
        let keep = peer.rcv_consumed / CHUNK as u64;
        let free: Vec<u64> = peer
            .chunks
            .keys()
            .copied()
            .filter(|n| all || *n < keep)
            .collect();
        let free: Vec<u32> = free.iter().filter_map(|n| peer.chunks.remove(n)).collect();
        self.rcv_free.extend(free);
    }

    /// The host has read the records of a listener up to that of this connection.
    pub(super) fn accepted(&mut self, connection: u32) {
        let place = |peer: &Peer| {
            peer.waiting
                .iter()
                .position(|waiting| *waiting == connection)
        };
        let found = self.peers.iter().find_map(|(index, peer)| {
            let before = place(peer)?;
            let left = peer.waiting.len() - 1 - before;
            Some((*index, peer.rcv_edge - (left * ACCEPT_RECORD) as u64))
        });
        if let Some((listener, consumed)) = found {
            self.edges(listener, 0, consumed, EdgeFlags::empty());
        }
    }

    /// What the host has written ends with an urgent byte: the other end knows at once.
    pub(super) fn urgent(&mut self, index: u32, snd_edge: u64) {
        if let Kind::Stream { other: Some(other) } = self.peer(index).kind {
            let other = self.peer(other);
            other.rcv_urgent = other.rcv_urgent.max(snd_edge);
            other.unreported = true;
        }
    }

    /// Puts bytes at the end of a socket's receive stream.
    fn place(&mut self, index: u32, bytes: &[u8]) {
        let arena = self.arena.clone();
        let mut done = 0;
        while done < bytes.len() {
            let at = self.peer(index).rcv_edge + done as u64;
            let (number, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
            let chunk = match self.peer(index).chunks.get(&number) {
                Some(chunk) => *chunk,
                None => {
                    let chunk = self.rcv_free.pop().expect("enough chunks for the test");
                    let all = arena.rcv_place(chunk, 0, CHUNK).expect("a chunk");
                    arena.memory().write(all, &[POISON; CHUNK]);
                    self.peer(index).chunks.insert(number, chunk);
                    arena
                        .rcv_directory(index)
                        .entry(number)
                        .store(chunk, Ordering::Release);
                    chunk
                }
            };
            let len = (CHUNK - within).min(bytes.len() - done);
            let place = arena.rcv_place(chunk, within, len).expect("inside");
            arena.memory().write(place, &bytes[done..done + len]);
            done += len;
        }
        let peer = self.peer(index);
        peer.rcv_edge += bytes.len() as u64;
        peer.unreported = true;
    }

    /// What `source` has received in this range is what the send stream of socket `to` has up to
    /// `edge`: it is kept, and its host has read it.
    pub(super) fn forward(&mut self, (to, edge): (u32, u64), source: u32, range: Range<u64>) {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        while done < bytes.len() {
            let at = range.start + done as u64;
            let (number, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
            let step = (CHUNK - within).min(bytes.len() - done);
            let chunk = self.peer(source).chunks[&number];
            let place = self.arena.rcv_place(chunk, within, step).expect("inside");
            let piece = &mut bytes[done..done + step];
            self.arena.memory().read(place, piece);
            done += step;
        }
        self.forwarded
            .insert((to, edge - bytes.len() as u64), bytes);
        self.edges(source, 0, range.end, EdgeFlags::empty());
    }

    /// Copies out of a socket's send stream.
    fn take(&self, index: u32, from: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.send.copy_out(index, from, &mut bytes);
        read.expect("what was sent can be read");
        let end = from + len as u64;
        for ((_, at), piece) in self.forwarded.range((index, 0)..(index, end)) {
            let begin = (*at).max(from);
            let piece = piece.get((begin - at) as usize..).unwrap_or_default();
            let room = &mut bytes[(begin - from) as usize..];
            let here = piece.len().min(room.len());
            room[..here].copy_from_slice(&piece[..here]);
        }
        bytes
    }

    /// Resets the connections of a listener that is closed, which now nobody can
    /// accept.
    pub(super) fn refuse_waiting(&mut self, listener: u32) {
        for index in std::mem::take(&mut self.peer(listener).waiting) {
            if let Some(peer) = self.peers.get_mut(&index) {
                peer.orphan = true;
                peer.resets = true;
            }
        }
    }

    /// Connects a socket to the listener that it asked for, if there is one.
    pub(super) fn meet(&mut self, index: u32, local: SocketAddr, to: SocketAddr) {
        let listener = self
            .by_port(SocketKind::Stream, to.port())
            .filter(|l| matches!(self.peers[l].kind, Kind::Listener));
        let Some(listener) = listener else {
            return self.peer(index).die(ECONNREFUSED);
        };
        let arena = self.arena.clone();
        let free = &arena.header().free_sockets;
        let accepted = free.pop(arena.socket_links()).expect("a sane list");
        let accepted = accepted.expect("enough sockets for the test");
        // Where there are several, a process has sockets at each.
        let workers = arena.geometry().workers;
        let worker = (arena.naming().worker(self.peers[&listener].id) + 1) % workers;
        let id = SocketId {
            index: accepted,
            generation: arena
                .block(accepted)
                .next_generation(arena.naming(), worker),
        };
        let channels = self.peers[&listener].subscribers.clone();
        let mut peer = Peer::new(id, SocketKind::Stream, channels[0]);
        // Of several that listen, who accepts it asks.
        peer.subscribers = if channels.len() == 1 {
            channels.clone()
        } else {
            Vec::new()
        };
        peer.kind = Kind::Stream { other: Some(index) };
        self.peers.insert(accepted, peer);
        let record = AcceptRecord {
            socket: id,
            local: to.into(),
            peer: local.into(),
            send_limit: SEND_LIMIT,
            subscriber: (channels.len() == 1).then(|| channels[0]),
            has_mark: false,
        };
        let bytes: [u8; ACCEPT_RECORD] = record.encode();
        self.place(listener, &bytes);
        self.peer(listener).waiting.push_back(accepted);
        let peer = self.peer(index);
        peer.kind = Kind::Stream {
            other: Some(accepted),
        };
        peer.flags |= EdgeFlags::CONNECTED;
        peer.unreported = true;
    }

    /// Moves what one socket has sent to where it goes.
    pub(super) fn move_bytes(&mut self, index: u32) {
        match self.peers.get(&index).map(|p| (p.protocol, &p.kind)) {
            Some((SocketKind::Datagram, _)) => self.move_datagrams(index),
            Some((_, Kind::Stream { other })) => {
                let other = *other;
                self.move_stream(index, other);
            }
            _ => {}
        }
        if self
            .peers
            .get(&index)
            .is_some_and(|p| p.orphan && self.is_over(p))
        {
            self.forget(index);
        }
    }

    /// Whether an orphan has nothing more to do.
    fn is_over(&self, peer: &Peer) -> bool {
        match peer.kind {
            Kind::Stream { other: Some(_) } => {
                peer.fin_sent || peer.resets || peer.flags.contains(EdgeFlags::DEAD)
            }
            _ => true,
        }
    }

    fn move_stream(&mut self, index: u32, other: Option<u32>) {
        let window = self.window();
        let Some(other) = other else {
            let peer = self.peer(index);
            if peer.snd_edge > peer.moved && !peer.flags.contains(EdgeFlags::DEAD) {
                peer.die(ECONNRESET);
            }
            return;
        };
        let to = &self.peers[&other];
        let room = window.saturating_sub(to.rcv_edge - to.rcv_consumed);
        let from = &self.peers[&index];
        let len = (from.snd_edge - from.moved).min(room) as usize;
        if to.orphan && from.snd_edge > from.moved {
            // Nobody will ever read it.
            return self.peer(index).die(ECONNRESET);
        }
        let bytes = self.take(index, from.moved, len);
        if len != 0 {
            self.place(other, &bytes);
        }
        let holds_back = self.behavior.holds_acknowledgments.load(Ordering::Relaxed);
        let peer = self.peer(index);
        peer.unreported |= len != 0 || (peer.holds_back && !holds_back);
        peer.holds_back = holds_back;
        peer.moved += len as u64;
        if peer.snd_shut && peer.moved == peer.snd_edge && !peer.fin_sent {
            peer.fin_sent = true;
            let to = self.peer(other);
            to.flags |= EdgeFlags::PEER_FIN;
            to.unreported = true;
        }
    }

    fn move_datagrams(&mut self, index: u32) {
        loop {
            let peer = &self.peers[&index];
            let (at, connected) = (peer.moved, peer.remote);
            if peer.snd_edge - at < DATAGRAM_HEADER as u64 {
                return;
            }
            let from = peer.local.expect("bound before it sends");
            let header = self.take(index, at, DATAGRAM_HEADER);
            let mut record = DatagramRecord::decode(&header.try_into().expect("a header's length"));
            let span = datagram_span(record.len);
            let payload = self.take(index, at + DATAGRAM_HEADER as u64, record.len as usize);
            let to = record.peer.get().or(connected).expect("a destination");
            match self.by_port(SocketKind::Datagram, to.port()) {
                Some(other) => {
                    record.peer = from.into();
                    self.deliver(other, &record, &payload);
                }
                None if connected.is_some() => {
                    let errno = &self.arena.block(index).errno;
                    errno.store(u32::from(ECONNREFUSED), Ordering::Release);
                    self.peer(index).flags |= EdgeFlags::SOFT_ERROR;
                }
                None => {}
            }
            let peer = self.peer(index);
            peer.moved += span;
            peer.unreported = true;
        }
    }

    fn deliver(&mut self, index: u32, record: &DatagramRecord, payload: &[u8]) {
        let mut bytes = record.encode().to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(datagram_span(record.len) as usize, 0);
        self.place(index, &bytes);
    }

    /// The end of a socket: its chunks and its block are free again.
    fn forget(&mut self, index: u32) {
        let Some(peer) = self.peers.remove(&index) else {
            return;
        };
        self.rcv_free.extend(peer.chunks.values());
        self.forwarded.retain(|(sender, _), _| *sender != index);
        if let Kind::Stream { other: Some(other) } = peer.kind
            && let Some(other) = self.peers.get_mut(&other)
        {
            other.kind = Kind::Stream { other: None };
            if peer.resets {
                other.die(ECONNRESET);
            }
        }
        let arena = &self.arena;
        let block = arena.block(index);
        let held = block.snd.unreturned();
        if !held.is_empty() {
            for number in held.start / CHUNK as u64..held.end.div_ceil(CHUNK as u64) {
                let chunk = arena
                    .snd_directory(index)
                    .entry(number)
                    .load(Ordering::Acquire);
                arena.give_snd_chunk(chunk_of(chunk)).expect("a sane list");
            }
        }
        block.set_state(SocketState::Free);
        let free = &arena.header().free_sockets;
        free.push(arena.socket_links(), index).expect("a sane list");
    }
}
