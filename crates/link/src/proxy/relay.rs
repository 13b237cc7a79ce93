//! The sockets of a link at the engine's end: requests go to the engine, what it says comes
//! back, and payload goes both ways.
//!
//! Owns [`Relay`] and what is done for the host's end; `reports` has what goes to it.

mod reports;

use super::ProxyError;
use crate::link::{LinkError, Outbox};
use crate::protocol::{ADAPTERS, Message, Words};
use longshore_hostif::{
    Address, Completion, EdgeFlags, Edges, HostChannel, HostSession, OpenFlags, OptionName,
    PutError, Request, STREAM_MAX, SocketId, SocketKind,
};
use longshore_ring::Doorbell;
use std::collections::{HashMap, VecDeque};

/// Questions that wait for their turn, at most: no host's end has more processes.
const MOST_QUERIES: usize = 2048;
/// Connections that are told of before their listeners, at which those are looked through that
/// are none any more.
const MOST_EARLY: usize = 1024;
/// ENOBUFS: what is asked of a socket for which there was no block.
const NO_BUFFERS: u16 = 105;
/// ECONNRESET.
const RESET: u16 = 104;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    Done,
    /// It is to be tried again: there is no room.
    NoRoom,
    /// It was the last.
    Over,
}

/// A socket of the session.
#[derive(Debug)]
struct Mirror {
    /// Its block here.
    id: SocketId,
    is_stream: bool,
    is_listener: bool,
    /// How far its send stream was written here.
    written: u64,
    /// How far its receive stream went over the link.
    relayed: u64,
    /// Where its edges are, and what is to be told.
    edges: Edges,
    is_due: bool,
    /// What was told of it beside descriptors.
    words: Words,
}

impl Mirror {
    /// Checks a request of the host's for its socket, and notes what it says.
    fn check(&mut self, request: &Request, host: &HostSession) -> Result<(), ProxyError> {
        match *request {
            Request::Edges { flags, .. } if flags.contains(EdgeFlags::ACCEPTED) => {
                return Err(claim("edges that the host's end tells otherwise"));
            }
            Request::Edges {
                snd_edge,
                rcv_consumed,
                ..
            }
            | Request::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            }
            | Request::Close {
                snd_edge,
                rcv_consumed,
                ..
            } => {
                if snd_edge > self.written || rcv_consumed > self.relayed {
                    return Err(claim("an edge beyond what there is"));
                }
                host.note_consumed(self.id.index, rcv_consumed);
            }
            Request::Listen { .. } => self.is_listener = true,
            Request::Forward { .. }
            | Request::SendFile { .. }
            | Request::Subscribe { .. }
            | Request::Unsubscribe { .. }
            | Request::Owner { .. } => {
                return Err(claim("a request that is not for the engine"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The sockets of a link at the engine's end.
#[derive(Debug)]
pub(super) struct Relay {
    waiter: u32,
    /// By the names that go over the link.
    sockets: HashMap<SocketId, Mirror>,
    /// The names of those with a block, by its index.
    names: HashMap<u32, SocketId>,
    /// Those of which the host's end is to be told.
    due: VecDeque<SocketId>,
    /// Closed ones that the engine still has, of which the host's end waits to be told.
    closing: Vec<(SocketId, SocketId)>,
    /// Questions: there is one mailbox.
    queries: VecDeque<Request>,
    asked: Option<(u32, SocketId)>,
    /// Where the edges of connections are of which the listener's record was not read yet.
    early: HashMap<SocketId, Edges>,
}

fn claim(what: &'static str) -> ProxyError {
    LinkError::Claim(what).into()
}

/// Puts a request into the ring, if there is room.
fn put(channel: &mut HostChannel, request: &Request) -> Result<Handled, ProxyError> {
    match channel.put(request) {
        Ok(()) => Ok(Handled::Done),
        Err(PutError::Full) => Ok(Handled::NoRoom),
        Err(PutError::Corrupt(_) | PutError::NoWorker(_)) => Err(ProxyError::Broken),
    }
}

impl Relay {
    pub(super) fn new(waiter: u32) -> Self {
        Self {
            waiter,
            sockets: HashMap::new(),
            names: HashMap::new(),
            due: VecDeque::new(),
            closing: Vec::new(),
            queries: VecDeque::new(),
            asked: None,
            early: HashMap::new(),
        }
    }

    pub(super) fn is_closing_any(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Does what a message says. One for which there is no room changes nothing but what can
    /// be changed again.
    pub(super) fn handle(
        &mut self,
        message: Message<'_>,
        host: &HostSession,
        channel: &mut HostChannel,
        out: &mut Outbox,
    ) -> Result<Handled, ProxyError> {
        match message {
            Message::Payload { socket, at, bytes } => self.write(host, socket, at, bytes),
            Message::Descriptor(words) => {
                let request = Request::decode(&words).map_err(|_| claim("no request"))?;
                self.request(request, host, channel, out)
            }
            Message::Bye => Ok(Handled::Over),
            _ => Err(claim("a message that is the engine's end's")),
        }
    }

    fn write(
        &mut self,
        host: &HostSession,
        socket: SocketId,
        at: u64,
        bytes: &[u8],
    ) -> Result<Handled, ProxyError> {
        let Some(mirror) = self.sockets.get_mut(&socket) else {
            // For want of a block; its requests are answered so.
            return Ok(Handled::Done);
        };
        let end = at.checked_add(bytes.len() as u64);
        let end = end.ok_or(claim("a place beyond all"))?;
        // What found no room at first is written now.
        if mirror.written < at || mirror.written > end {
            return Err(claim("payload out of order"));
        }
        if end.saturating_sub(mirror.edges.snd_acked) > STREAM_MAX {
            return Err(claim("more than a send stream holds"));
        }
        let rest = &bytes[(mirror.written - at) as usize..];
        let written = host.append(mirror.id.index, rest)?;
        mirror.written += written as u64;
        if written == rest.len() {
            Ok(Handled::Done)
        } else {
            Ok(Handled::NoRoom)
        }
    }

    fn request(
        &mut self,
        request: Request,
        host: &HostSession,
        channel: &mut HostChannel,
        out: &mut Outbox,
    ) -> Result<Handled, ProxyError> {
        let name = request.socket();
        // The proxy is to be woken for the answer.
        let request = match request.asked() {
            Some((tag, _)) => request.asked_as(tag, u16::try_from(self.waiter).ok()),
            None => request,
        };
        if let Request::Open { kind, flags, .. } = request {
            return self.open((kind, flags), request, host, channel, out);
        }
        let Some(mirror) = self.sockets.get_mut(&name) else {
            if let Some((tag, _)) = request.asked() {
                let none = answer(name, tag, NO_BUFFERS);
                out.put(&Message::Descriptor(none.encode()));
            }
            if matches!(request, Request::Close { .. }) {
                out.put(&Message::Gone(name));
            }
            return Ok(Handled::Done);
        };
        let id = mirror.id;
        if let Request::Query { tag, .. } = request {
            return self.query(tag, request, id, channel);
        }
        mirror.check(&request, host)?;
        let request = self.in_names_of_engine(request);
        let done = put(channel, &request.about(id))?;
        if done == Handled::Done && matches!(request, Request::Close { .. }) {
            self.close(name, host, channel.index(), out);
        }
        Ok(done)
    }

    /// What a request says of another socket, by the name that the engine has for that.
    fn in_names_of_engine(&self, request: Request) -> Request {
        match request {
            Request::SetOption {
                socket,
                name: name @ OptionName::PortOf,
                value,
            } => {
                let other = self.sockets.get(&SocketId::decode(value));
                Request::SetOption {
                    socket,
                    name,
                    value: other.map_or(u64::MAX, |other| other.id.encode()),
                }
            }
            request => request,
        }
    }

    /// Opens a socket of the engine's for one that was opened at the host.
    fn open(
        &mut self,
        (kind, flags): (SocketKind, OpenFlags),
        request: Request,
        host: &HostSession,
        channel: &mut HostChannel,
        out: &mut Outbox,
    ) -> Result<Handled, ProxyError> {
        let name = request.socket();
        if name.index & ADAPTERS != 0 || self.sockets.contains_key(&name) {
            return Err(claim("a socket that there is"));
        }
        let Some(id) = host.open_block(channel.index(), kind, flags)? else {
            Self::report_dead(name, NO_BUFFERS, out);
            return Ok(Handled::Done);
        };
        let opened = put(channel, &request.about(id))?;
        if opened == Handled::NoRoom {
            host.give_unopened_back(channel.index(), id)?;
            return Ok(opened);
        }
        self.enter(name, id, kind == SocketKind::Stream, host);
        Ok(Handled::Done)
    }

    /// Asks a query of socket `id`, or keeps it until the one before is answered: there is one
    /// mailbox.
    fn query(
        &mut self,
        tag: u32,
        request: Request,
        id: SocketId,
        channel: &mut HostChannel,
    ) -> Result<Handled, ProxyError> {
        if self.asked.is_some() {
            if self.queries.len() >= MOST_QUERIES {
                return Err(claim("more questions than there are processes"));
            }
            self.queries.push_back(request);
            return Ok(Handled::Done);
        }
        let asked = put(channel, &request.about(id))?;
        if asked == Handled::Done {
            self.asked = Some((tag, request.socket()));
        }
        Ok(asked)
    }

    fn enter(&mut self, name: SocketId, id: SocketId, is_stream: bool, host: &HostSession) {
        host.block(id.index).add_waiter(self.waiter);
        self.names.insert(id.index, name);
        let mirror = Mirror {
            id,
            is_stream,
            is_listener: false,
            written: 0,
            relayed: 0,
            edges: Edges::default(),
            is_due: false,
            words: Words::default(),
        };
        self.sockets.insert(name, mirror);
    }

    /// There is no such socket here: to the host's end it is dead.
    fn report_dead(name: SocketId, errno: u16, out: &mut Outbox) {
        let edges = Edges {
            flags: EdgeFlags::DEAD,
            errno,
            ..Edges::default()
        };
        let dead = Completion::Edges {
            socket: name,
            edges,
        };
        out.put(&Message::Descriptor(dead.encode()));
    }

    /// A socket was closed. The host's end keeps its memory until the engine needs it no more.
    fn close(&mut self, name: SocketId, host: &HostSession, channel: u32, out: &mut Outbox) {
        let Some(mirror) = self.sockets.remove(&name) else {
            return;
        };
        self.names.remove(&mirror.id.index);
        host.set_held(channel, mirror.id.index, false);
        if mirror.edges.snd_acked == mirror.written {
            out.put(&Message::Gone(name));
        } else {
            self.closing.push((name, mirror.id));
        }
    }

    /// Tells the host's end of closed sockets of which the engine has nothing any more.
    pub(super) fn look_at_closing(&mut self, host: &HostSession, out: &mut Outbox) {
        self.closing.retain(|(name, id)| {
            let is_there = host.block(id.index).is(*id);
            if !is_there {
                out.put(&Message::Gone(*name));
            }
            is_there
        });
    }

    /// Resets all connections: nobody is at the other end any more.
    pub(super) fn reset_all(
        &mut self,
        host: &HostSession,
        channel: &mut HostChannel,
        doorbell: &Doorbell,
    ) {
        for (_, mirror) in self.sockets.drain() {
            let reset = Request::Close {
                socket: mirror.id,
                snd_edge: mirror.written,
                rcv_consumed: mirror.relayed,
                linger: Some(0),
            };
            while channel.put(&reset) == Err(PutError::Full) {
                channel.publish(doorbell, true);
                // The engine may wait for room in the other ring.
                while let Ok(Some(_)) = channel.get() {}
                channel.release();
                if host.is_closed() {
                    return;
                }
                std::thread::yield_now();
            }
        }
        channel.publish(doorbell, true);
    }
}

/// An answer that the engine is not asked for.
fn answer(socket: SocketId, tag: u32, errno: u16) -> Completion {
    Completion::Done {
        socket,
        tag,
        errno,
        value: 0,
        address: Address::NONE,
    }
}
