//! What the agent has of the sockets of its programs.

use crate::protocol::{Accepted, Words};
use longshore_hostif::adapter::{ReceiveSlab, ReceiveStream, Subscribers};
use longshore_hostif::{Edges, SocketId};
use std::collections::{HashMap, VecDeque};

/// A socket of a program.
#[derive(Debug)]
pub(super) struct Socket {
    /// Its block here.
    pub(super) id: SocketId,
    /// What the other end knows it by.
    pub(super) name: SocketId,
    /// The processes that are told of it.
    pub(super) subscribers: Subscribers,
    /// How far its send stream went over the link.
    pub(super) relayed: u64,
    /// How far its receive stream was placed, and how far its program has read.
    pub(super) placed: u64,
    pub(super) consumed: u64,
    pub(super) rcv: ReceiveStream,
    /// Where its edges are, as its program is told.
    pub(super) edges: Edges,
    /// What the engine says of it by words.
    pub(super) words: Words,
    /// TCP_NOTSENT_LOWAT, bytes; 0 for none.
    pub(super) low_water: u32,
    /// Of a listener: connections that nobody has accepted, by their blocks, with where the
    /// record of each ends.
    pub(super) unaccepted: VecDeque<(u64, u32)>,
    /// Of a connection: the listener that has a record of it, and where that ends.
    pub(super) record: Option<(SocketId, u64)>,
    /// No process has it any more, and what it is closed with was not sent yet.
    pub(super) is_orphan: bool,
    /// It is on the list of those whose send streams became idle.
    pub(super) is_idle_noted: bool,
}

impl Socket {
    pub(super) fn new(id: SocketId, name: SocketId, subscribers: Subscribers) -> Self {
        Self {
            id,
            name,
            subscribers,
            relayed: 0,
            placed: 0,
            consumed: 0,
            rcv: ReceiveStream::EMPTY,
            edges: Edges::default(),
            words: Words::default(),
            low_water: 0,
            unaccepted: VecDeque::new(),
            record: None,
            is_orphan: false,
            is_idle_noted: false,
        }
    }

    /// Its program has read up to `consumed`; the connections that it has accepted so.
    pub(super) fn consume(&mut self, consumed: u64, slab: &mut ReceiveSlab) -> Vec<u32> {
        self.consumed = self.consumed.max(consumed);
        self.rcv
            .consume(self.consumed, self.consumed == self.placed, slab);
        let mut accepted = Vec::new();
        while let Some((end, index)) = self.unaccepted.front()
            && *end <= self.consumed
        {
            accepted.push(*index);
            self.unaccepted.pop_front();
        }
        accepted
    }
}

/// The sockets of a session.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// By their blocks.
    all: HashMap<u32, Socket>,
    /// The blocks of those that have a name.
    names: HashMap<SocketId, u32>,
    /// Connections for which there was no block.
    pub(super) waiting: VecDeque<Accepted>,
    /// Closed sockets whose blocks are kept until the engine is done with what they had sent,
    /// by their names.
    pub(super) leaving: HashMap<SocketId, SocketId>,
}

impl Sockets {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The blocks that have sockets.
    pub(super) fn blocks(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    pub(super) fn has_block(&self, index: u32) -> bool {
        self.all.contains_key(&index) || self.leaving.values().any(|id| id.index == index)
    }

    pub(super) fn at(&mut self, index: u32) -> Option<&mut Socket> {
        self.all.get_mut(&index)
    }

    /// The socket, if its block still has it.
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.at(id.index).filter(|s| s.id == id)
    }

    pub(super) fn named(&mut self, name: SocketId) -> Option<&mut Socket> {
        let index = *self.names.get(&name)?;
        self.at(index)
    }

    pub(super) fn insert(&mut self, socket: Socket) {
        self.names.insert(socket.name, socket.id.index);
        self.all.insert(socket.id.index, socket);
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Socket> {
        let socket = self.all.remove(&index)?;
        self.names.remove(&socket.name);
        Some(socket)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.all.values_mut()
    }
}
