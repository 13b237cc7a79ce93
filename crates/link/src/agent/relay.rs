//! What passes between the channels of programs and the link: requests with what was written before
//! them, out; completions with what has come, in (`deliver`).
//!
//! Owns [`Relay`], with the sockets and the session of the agent. It knows no processes: `requests`
//! takes what they ask and hands it in, `ends` has sockets closed that nobody has any more.

use super::CHUNK_BYTES;
use super::sockets::{Socket, Sockets};
use crate::link::Link;
use crate::protocol::{Message, PAYLOAD};
use longshore_hostif::adapter::{AdapterSession, Subscribers};
use longshore_hostif::{Address, Completion, EdgeFlags, Request, STREAM_MAX, SocketId};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long a send stream is idle before its chunks are taken back.
pub(super) const IDLE_FOR: Duration = Duration::from_millis(100);
/// ECONNRESET.
const RESET: u16 = 104;

/// The process and the request that the engine is to answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) channel: u16,
    pub(super) tag: u32,
    pub(super) waiter: Option<u16>,
    pub(super) socket: SocketId,
}

/// What a request says of the streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    snd_edge: u64,
    rcv_consumed: u64,
    flags: EdgeFlags,
}

impl Moved {
    pub(super) fn of(request: &Request) -> Option<Self> {
        match *request {
            Request::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => Some(Self {
                snd_edge,
                rcv_consumed,
                flags,
            }),
            Request::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            }
            | Request::Close {
                snd_edge,
                rcv_consumed,
                ..
            } => Some(Self {
                snd_edge,
                rcv_consumed,
                flags: EdgeFlags::empty(),
            }),
            _ => None,
        }
    }
}

/// The link and the session, with what stands between them.
pub(super) struct Relay {
    pub(super) link: Link,
    pub(super) session: AdapterSession,
    pub(super) sockets: Sockets,
    /// What waits for an answer of the engine's, by the tags that go over the link.
    pub(super) asked: HashMap<u32, Asked>,
    next_tag: u32,
    /// Requests that have not gone yet, or not all of them: the link takes no more.
    unsent: VecDeque<Request>,
    /// Sockets whose send streams became idle, and when.
    pub(super) idle: VecDeque<(Instant, SocketId)>,
}

impl Relay {
    pub(super) fn new(link: Link, session: AdapterSession) -> Self {
        Self {
            link,
            session,
            sockets: Sockets::default(),
            asked: HashMap::new(),
            next_tag: 0,
            unsent: VecDeque::new(),
            idle: VecDeque::new(),
        }
    }

    /// Whether all that programs have asked has gone.
    pub(super) fn has_sent_all(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Whether the link takes more.
    pub(super) fn may_take(&self) -> bool {
        self.unsent.is_empty() && !self.link.out.is_congested()
    }

    /// A process has accepted a connection, and so read the record of it: the engine is told that
    /// by the listener's edges.
    pub(super) fn take_accepted(&mut self, channel: u16, connection: SocketId) {
        let record = self.sockets.get(connection).and_then(|c| c.record.take());
        let Some((listener, end)) = record else {
            return;
        };
        let is_read = |listener: &mut Socket| listener.consumed >= end;
        if self.sockets.get(listener).is_none_or(is_read) {
            return;
        }
        let moved = Moved {
            snd_edge: 0,
            rcv_consumed: end,
            flags: EdgeFlags::empty(),
        };
        if self.handle_move(channel, listener, &moved).is_some() {
            self.send(Request::Edges {
                socket: listener,
                snd_edge: 0,
                rcv_consumed: end,
                flags: EdgeFlags::empty(),
                immediate: 0,
            });
        }
    }

    /// A process opens a socket; `None` if it cannot be that one.
    pub(super) fn open(&mut self, channel: u16, request: Request) -> Option<()> {
        let id = request.socket();
        let is_free = self.session.blocks().has(id.index) && !self.sockets.has_block(id.index);
        if !is_free {
            return None;
        }
        let socket = Socket::new(id, id, Subscribers::one(channel));
        self.sockets.insert(socket);
        self.send(request);
        Some(())
    }

    /// A process has written to a socket, or read from it; `None` if it cannot have.
    pub(super) fn handle_move(&mut self, channel: u16, id: SocketId, moved: &Moved) -> Option<()> {
        let socket = self.sockets.get(id)?;
        let is_possible = moved.rcv_consumed <= socket.placed
            && moved.snd_edge.saturating_sub(socket.edges.snd_acked) <= STREAM_MAX;
        if !is_possible {
            return None;
        }
        let accepted = socket.consume(moved.rcv_consumed, &mut self.session.receive);
        if moved
            .flags
            .intersects(EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR)
            && socket.subscribers.single() != Some(channel)
        {
            // They look at its block, where it says so.
            let edges = socket.edges;
            self.session.put_edges_to(&socket.subscribers, id, edges);
        }
        for index in accepted {
            self.accepted(index);
        }
        Some(())
    }

    /// Answers a request, if it is one that is answered.
    pub(super) fn answer(&mut self, channel: u16, request: &Request, errno: u16) {
        if let Some((tag, waiter)) = request.asked() {
            let done = Completion::Done {
                socket: request.socket(),
                tag,
                errno,
                value: 0,
                address: Address::NONE,
            };
            self.session.put_answer(channel, &done);
            self.session.wakeups.note_waiter(waiter, request.socket());
        }
    }

    /// Sends what is to be answered by the engine.
    pub(super) fn ask(&mut self, channel: u16, request: Request) {
        let Some((tag, waiter)) = request.asked() else {
            return;
        };
        self.next_tag = self.next_tag.wrapping_add(1);
        let asked = Asked {
            channel,
            tag,
            waiter,
            socket: request.socket(),
        };
        self.asked.insert(self.next_tag, asked);
        self.session.channels.owe_answer(channel);
        self.send(request.asked_as(self.next_tag, None));
    }

    /// Sends a request after those that wait.
    pub(super) fn send(&mut self, request: Request) {
        self.unsent.push_back(request);
        self.send_unsent();
    }

    /// Sends requests that wait, as long as the link takes them.
    pub(super) fn send_unsent(&mut self) {
        while let Some(request) = self.unsent.front().copied() {
            if !self.try_send(&request) {
                break;
            }
            self.unsent.pop_front();
        }
    }

    /// Sends a request, and what was written before it; whether all of it went.
    fn try_send(&mut self, request: &Request) -> bool {
        let out = &mut self.link.out;
        if out.is_congested() {
            return false;
        }
        let Some(socket) = self.sockets.get(request.socket()) else {
            return true;
        };
        let (name, index) = (socket.name, socket.id.index);
        let moved = Moved::of(request);
        while let Some(moved) = moved
            && socket.relayed < moved.snd_edge
        {
            if out.is_congested() {
                return false;
            }
            let at = socket.relayed;
            let len = (moved.snd_edge - at).min(PAYLOAD as u64) as usize;
            let streams = &self.session.send;
            let filled = out.put_payload(name, at, len, |to| streams.copy_out(index, at, to));
            if filled.is_err() {
                self.session.meter.note_bad_descriptor();
                self.reset(request.socket());
                return true;
            }
            socket.relayed += len as u64;
            // Where it lay is the program's affair: a piece for each chunk that it touches.
            let pieces = 1 + (at % CHUNK_BYTES + len as u64 - 1) / CHUNK_BYTES;
            let crossed = longshore_hostif::Moved::of_stream(pieces, at, len as u64);
            self.session.meter.to_adapter.payload.add(&crossed);
        }
        let request = request.about(name);
        out.put(&Message::Descriptor(request.encode()));
        if let Request::Close { .. } = request {
            self.finish_close(index);
        }
        true
    }

    /// A send stream does not hold what its program says: its connection is reset.
    fn reset(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get(id) else {
            return;
        };
        let close = Request::Close {
            socket: socket.name,
            snd_edge: socket.relayed,
            rcv_consumed: socket.consumed,
            linger: Some(0),
        };
        socket.edges.flags |= EdgeFlags::DEAD;
        socket.edges.errno = RESET;
        self.link.out.put(&Message::Descriptor(close.encode()));
        let (edges, subscribers) = (socket.edges, &socket.subscribers);
        self.session.put_edges_to(subscribers, id, edges);
    }

    /// Tells a process that may have room again of the sockets for which it had none.
    pub(super) fn report_rest(&mut self, channel: u16) {
        if !self.session.channels.has_pending(channel) {
            return;
        }
        while let Some(index) = self.session.channels.next_pending(channel) {
            let Some(socket) = self.sockets.at(index) else {
                continue;
            };
            if !socket.subscribers.contains(channel) {
                continue;
            }
            let mut edges = socket.edges;
            if self.session.blocks().has_error(socket.id) && !edges.flags.contains(EdgeFlags::DEAD)
            {
                edges.flags |= EdgeFlags::SOFT_ERROR;
                edges.errno = 0;
            }
            if !self.session.put_edges(channel, socket.id, &edges) {
                break;
            }
            self.session.wakeups.note_socket(index);
        }
    }

    // ---- What is closed, or idle. ----

    /// Closes a socket that nobody has; what its program has written is delivered, unless it has
    /// said that closing it resets its connection (SO_LINGER).
    pub(super) fn close_orphan(&mut self, index: u32) {
        let Some(socket) = self.sockets.at(index).filter(|s| !s.is_orphan) else {
            return;
        };
        socket.is_orphan = true;
        // As its program has noted, checked as if it had said so.
        let noted = self.session.blocks().edges_noted(socket.id);
        let linger = self.session.blocks().linger_noted(socket.id);
        let (written, read) = noted.unwrap_or((socket.relayed, socket.consumed));
        let most = socket.edges.snd_acked.saturating_add(STREAM_MAX);
        let close = Request::Close {
            socket: socket.id,
            snd_edge: if written <= most {
                written
            } else {
                socket.relayed
            },
            rcv_consumed: if read <= socket.placed {
                read
            } else {
                socket.consumed
            },
            linger: linger.filter(|seconds| *seconds == 0),
        };
        self.send(close);
    }

    /// A socket's Close has gone. Its block is kept until the engine's end is done with it.
    fn finish_close(&mut self, index: u32) {
        let Some(mut socket) = self.sockets.remove(index) else {
            return;
        };
        self.session.owners().forget(index);
        let slab = &mut self.session.receive;
        socket.consume(socket.placed, slab);
        self.sockets.leaving.insert(socket.name, socket.id);
        let mut refused: Vec<_> = Vec::new();
        for (_, index) in std::mem::take(&mut socket.unaccepted) {
            if let Some(mut connection) = self.sockets.remove(index) {
                connection.consume(connection.placed, &mut self.session.receive);
                self.session.blocks().give_back(connection.id);
                refused.push((connection.name, connection.relayed, connection.consumed));
            }
        }
        let listener = socket.name;
        self.sockets.waiting.retain(|waiting| {
            if waiting.listener == listener {
                refused.push((waiting.socket, 0, 0));
            }
            waiting.listener != listener
        });
        for (socket, snd_edge, rcv_consumed) in refused {
            let reset = Request::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger: Some(0),
            };
            self.link.out.put(&Message::Descriptor(reset.encode()));
        }
    }

    /// When the send stream that has been idle longest is to be looked at.
    pub(super) fn next_idle(&self) -> Option<Instant> {
        self.idle.front().map(|(at, _)| *at)
    }

    /// Takes back the chunks of send streams that are idle.
    pub(super) fn take_idle_chunks(&mut self, now: Instant) {
        while let Some((at, id)) = self.idle.front().copied()
            && at <= now
        {
            self.idle.pop_front();
            let Some(socket) = self.sockets.get(id) else {
                continue;
            };
            socket.is_idle_noted = false;
            if socket.edges.snd_acked == socket.relayed {
                self.session
                    .send_slab()
                    .take_chunks(id.index, socket.relayed);
            }
        }
    }
}
