//! The program's half of the interface, as small as it gets. It reads nothing of what it
//! receives but records of connections, and gives chunks of its send streams back as soon as
//! they are done with.

use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Arena, BlockFlags, CHUNK, Completion, EdgeFlags, Edges,
    HostChannel, MAX_IMMEDIATE, OpenFlags, Request, SocketId, SocketKind, SocketState,
};
use longshore_ring::Doorbell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Requests that are on their way at once, fewer than a ring holds.
const AT_ONCE: u32 = 200;
/// Bytes of a send stream that are not done with, at most.
const MOST_BYTES: u64 = 64 * 1024;

/// Where the streams of a socket stand.
#[derive(Debug, Clone, Copy, Default)]
struct Streams {
    told: Edges,
    written: u64,
    read: u64,
}

/// The program.
pub(crate) struct Program {
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    streams: HashMap<SocketId, Streams>,
}

impl Program {
    pub(crate) fn new(arena: Arc<Arena>, channel: u16) -> Self {
        Self {
            channel: HostChannel::new(arena.clone(), channel.into()),
            arena,
            doorbell: Doorbell::new().expect("a descriptor"),
            streams: HashMap::new(),
        }
    }

    pub(crate) fn put(&mut self, request: Request) {
        assert!(self.channel.staged() < AT_ONCE);
        self.channel.put(&request).expect("there is room");
        self.channel.publish(&self.doorbell, true);
    }

    /// Takes what the stack has reported.
    pub(crate) fn drain(&mut self) {
        let mut is_more = false;
        while let Some(completion) = self.channel.get().expect("the ring is whole") {
            match completion.expect("the stack makes sense") {
                Completion::Done { .. } => {}
                Completion::Edges { socket, edges } => {
                    if let Some(streams) = self.streams.get_mut(&socket) {
                        let told = &mut streams.told;
                        assert!(edges.rcv_edge >= told.rcv_edge, "{edges:?} after {told:?}");
                        assert!(
                            edges.snd_acked >= told.snd_acked,
                            "{edges:?} after {told:?}"
                        );
                        *told = edges;
                    }
                }
                Completion::More => is_more = true,
            }
        }
        self.channel.release();
        if is_more {
            self.channel.ask_for_more(&self.doorbell);
        }
    }

    /// Opens a socket of both versions of IP.
    pub(crate) fn open(&mut self, kind: SocketKind) -> SocketId {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).expect("a list");
        let index = index.expect("a block is free");
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        self.hold(socket);
        self.put(Request::Open {
            socket,
            kind,
            flags: OpenFlags::IPV6,
        });
        socket
    }

    fn hold(&mut self, socket: SocketId) {
        let channel = self.channel.index();
        self.arena.set_held(channel, socket.index, true);
        self.streams.insert(socket, Streams::default());
    }

    /// What has come and is not read.
    pub(crate) fn unread(&self, socket: SocketId) -> u64 {
        let streams = self.streams.get(&socket).copied().unwrap_or_default();
        streams.told.rcv_edge - streams.read
    }

    /// What was written and is not known to be done with.
    pub(crate) fn unsent(&self, socket: SocketId) -> u64 {
        let streams = self.streams.get(&socket).copied().unwrap_or_default();
        streams.written - streams.told.snd_acked
    }

    /// Whether there is a connection to accept.
    pub(crate) fn waits(&self, listener: SocketId) -> bool {
        self.unread(listener) != 0
    }

    /// Accepts a connection, if there is one that is not gone by now.
    pub(crate) fn accept(&mut self, listener: SocketId) -> Option<SocketId> {
        if !self.waits(listener) {
            return None;
        }
        let at = self.streams.get(&listener)?.read;
        let entry = self.arena.rcv_directory(listener.index);
        let chunk = entry.entry(at / CHUNK as u64).load(Ordering::Acquire);
        let within = (at % CHUNK as u64) as usize;
        let place = self.arena.rcv_place(chunk, within, ACCEPT_RECORD)?;
        let mut record = [0; ACCEPT_RECORD];
        self.arena.memory().read(place, &mut record);
        let record = AcceptRecord::decode(&record);
        let socket = record.socket;
        let block = self.arena.get_block(socket.index)?;
        let begun = block.begin_accepted(&record, self.arena.block(listener.index));
        self.consume(listener, ACCEPT_RECORD as u64);
        if !begun {
            return None;
        }
        self.hold(socket);
        self.put(Request::Subscribe { socket });
        Some(socket)
    }

    /// So many bytes more have been read.
    pub(crate) fn consume(&mut self, socket: SocketId, len: u64) {
        let Some(streams) = self.streams.get_mut(&socket) else {
            return;
        };
        streams.read += len;
        let (snd_edge, rcv_consumed) = (streams.written, streams.read);
        self.put(Request::Edges {
            socket,
            snd_edge,
            rcv_consumed,
            flags: EdgeFlags::empty(),
            immediate: 0,
        });
    }

    /// Writes, unless too much is on its way; the last `immediate` bytes, as many of them as can,
    /// travel with the request.
    pub(crate) fn write(
        &mut self,
        socket: SocketId,
        bytes: &[u8],
        immediate: usize,
        flags: EdgeFlags,
    ) {
        self.take_back(socket);
        let Some(streams) = self.streams.get_mut(&socket) else {
            return;
        };
        if streams.written - streams.told.snd_acked + bytes.len() as u64 > MOST_BYTES {
            return;
        }
        let half = &self.arena.block(socket.index).snd;
        let lock = half.lock_to_send().expect("nobody else has it");
        let directory = self.arena.snd_directory(socket.index);
        // The stack takes chunks back that are done with.
        let mut is_new = half.unreturned().is_empty();
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = (streams.written % CHUNK as u64) as usize;
            let entry = directory.entry(streams.written / CHUNK as u64);
            if std::mem::take(&mut is_new) || within == 0 {
                let taken = self.arena.take_snd_chunk().expect("a list");
                entry.store(taken.expect("a chunk is free"), Ordering::Release);
            }
            let (now, later) = rest.split_at(rest.len().min(CHUNK - within));
            let chunk = entry.load(Ordering::Acquire);
            let place = self.arena.snd_place(chunk, within, now.len());
            self.arena.memory().write(place.expect("a place"), now);
            streams.written += now.len() as u64;
            rest = later;
        }
        half.edge.store(streams.written, Ordering::Release);
        drop(lock);
        let (snd_edge, rcv_consumed) = (streams.written, streams.read);
        self.put(Request::Edges {
            socket,
            snd_edge,
            rcv_consumed,
            flags: flags | EdgeFlags::PUSH,
            immediate: immediate.min(bytes.len()).min(MAX_IMMEDIATE) as u16,
        });
    }

    /// Gives chunks of the send stream back that are acknowledged as a whole.
    pub(crate) fn take_back(&mut self, socket: SocketId) {
        let Some(streams) = self.streams.get(&socket) else {
            return;
        };
        let half = &self.arena.block(socket.index).snd;
        let _lock = half.lock_to_send().expect("nobody else has it");
        let directory = self.arena.snd_directory(socket.index);
        let done = streams.told.snd_acked / CHUNK as u64;
        let from = half.returned.load(Ordering::Acquire) / CHUNK as u64;
        half.returned
            .fetch_max(done * CHUNK as u64, Ordering::AcqRel);
        for number in from..done {
            let chunk = directory.entry(number).load(Ordering::Acquire);
            self.arena.give_snd_chunk(chunk).expect("it was taken");
        }
    }

    /// All memory came back but for `sockets` blocks, and the chunk that the datagram socket
    /// may have begun to fill.
    pub(crate) fn check_memory(&self, sockets: u32) {
        let geometry = self.arena.geometry();
        let free = &self.arena.header().free_sockets;
        let blocks = geometry.sockets - free.count(self.arena.socket_links());
        assert_eq!(blocks, sockets, "blocks are lost");
        let (warm, cold) = self.arena.free_snd_chunks();
        let chunks = geometry.snd_chunks - warm - cold;
        assert!(chunks <= 1, "{chunks} chunks of send streams are lost");
    }

    /// Closes with SO_LINGER at so many seconds.
    pub(crate) fn close(&mut self, socket: SocketId, linger: Option<u32>) {
        let channel = self.channel.index();
        self.arena.set_held(channel, socket.index, false);
        let streams = self.streams.remove(&socket).unwrap_or_default();
        self.put(Request::Close {
            socket,
            snd_edge: streams.written,
            rcv_consumed: streams.read,
            linger,
        });
    }
}
