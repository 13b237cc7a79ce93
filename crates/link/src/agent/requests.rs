//! What programs ask: taken out of their channels, and sent on with what they have written.
//!
//! As long as the link takes no more, nothing more is taken: programs find their rings full,
//! as they do when an engine does not keep up.

use super::{Agent, Asked};
use crate::agent::sockets::Socket;
use crate::protocol::{Message, PAYLOAD};
use longshore_hostif::adapter::{Next, Subscribers};
use longshore_hostif::{
    Address, Completion, EdgeFlags, OptionName, RING, Request, STREAM_MAX, SocketId,
};

/// Requests taken from one channel at a time.
const BATCH: u32 = 256;
/// Completions for which there is to be room before a request is taken.
const ROOM: u32 = 8;
/// EBADF: there is no such socket.
const NO_SOCKET: u16 = 9;
/// ECONNRESET.
const RESET: u16 = 104;

/// What a request says of the streams.
#[derive(Debug, Clone, Copy)]
struct Moved {
    snd_edge: u64,
    rcv_consumed: u64,
    flags: EdgeFlags,
}

impl Moved {
    fn of(request: &Request) -> Option<Self> {
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

/// The same edges, which do not say that their connection was accepted.
fn without_accepted(mut request: Request) -> Request {
    if let Request::Edges { flags, .. } = &mut request {
        flags.remove(EdgeFlags::ACCEPTED);
    }
    request
}

impl Agent {
    /// Takes what programs ask, as long as the link takes it; whether there was anything.
    pub(super) fn take_requests(&mut self) -> bool {
        let had_unsent = !self.unsent.is_empty();
        self.send_unsent();
        if !self.may_take() || !self.session.pending.has_any() {
            return had_unsent && self.unsent.is_empty();
        }
        self.session.pending.begin();
        for word in 0..self.session.pending.words() {
            let mut flags = self.session.pending.take_flags(word);
            while flags != 0 {
                if !self.may_take() {
                    self.session.pending.flag_again(word, flags);
                    return true;
                }
                let channel = (word * 64) as u16 + flags.trailing_zeros() as u16;
                flags &= flags - 1;
                self.take_from(channel);
            }
        }
        true
    }

    /// Whether the link takes more.
    fn may_take(&self) -> bool {
        self.unsent.is_empty() && !self.link.out.is_congested()
    }

    /// Takes on children that have claimed channels.
    pub(super) fn take_claims(&mut self) {
        for channel in self.processes.claimed() {
            self.open_claimed(channel);
        }
    }

    fn open_claimed(&mut self, channel: u16) -> bool {
        let is_claimed = self.processes.take_claimed(channel).is_some();
        if is_claimed {
            self.session.open_channel(channel);
            self.watch_process(channel);
        }
        is_claimed
    }

    fn take_from(&mut self, channel: u16) {
        if !self.session.channels.is_open(channel) && !self.open_claimed(channel) {
            return;
        }
        self.report_rest(channel);
        self.take_some(channel, BATCH, ROOM, false);
    }

    /// Takes all that a process published before it ended or became another program.
    pub(super) fn take_last_requests(&mut self, channel: u16) {
        // One descriptor may say two things of its socket.
        self.take_some(channel, 2 * RING as u32, 0, true);
    }

    /// Takes at most `most` requests of a channel, while there is `room`. The `last` ones are
    /// taken though they have to wait.
    fn take_some(&mut self, channel: u16, most: u32, room: u32, last: bool) {
        let mut taken = 0;
        loop {
            if taken == most || !(last || self.may_take()) {
                self.session.pending.flag_channel(channel);
                break;
            }
            let message = match self.session.next_request(channel, room) {
                Next::Request(message, _) => message,
                Next::NoRoom => {
                    self.stalled.push(channel);
                    break;
                }
                Next::Nothing | Next::Broken => break,
            };
            taken += 1;
            let handled = match Request::decode(&message) {
                Ok(request) => self.handle_request(channel, request),
                Err(_) => None,
            };
            if handled.is_none() {
                self.session.meter.note_bad_descriptor();
            }
        }
        if taken != 0 {
            self.session.channels.note_taken(channel);
        }
    }

    /// Does what a process asks; `None` if it makes no sense.
    fn handle_request(&mut self, channel: u16, request: Request) -> Option<()> {
        let id = request.socket();
        if let Request::Open { .. } = request {
            return self.open(channel, request);
        }
        if self.sockets.get(id).is_none() {
            // Late words of a socket that is gone are no fault, but one is answered who waits.
            self.answer(channel, &request, NO_SOCKET);
            return Some(());
        }
        let request = match request {
            Request::Edges { flags, .. } if flags.contains(EdgeFlags::ACCEPTED) => {
                self.take_accepted(channel, id);
                without_accepted(request)
            }
            request => request,
        };
        if let Some(moved) = Moved::of(&request) {
            self.handle_move(channel, id, &moved)?;
            self.send(request);
            return Some(());
        }
        let socket = self.sockets.get(id)?;
        match request {
            // Its bytes travel.
            Request::Forward { .. } | Request::SendFile { .. } => return None,
            Request::Subscribe { .. } => {
                socket.subscribers.add(channel);
                self.session.put_edges(channel, id, &socket.edges);
                self.session.wakeups.note_socket(id.index);
            }
            Request::Unsubscribe { .. } => {
                socket.subscribers.remove(channel);
                self.note_transit(id.index);
            }
            Request::Owner { .. } => {
                let edges = socket.edges;
                self.session.owners().set(id, edges);
                self.answer(channel, &request, 0);
            }
            // What comes over the link is told whether it is enough or not.
            Request::SetOption {
                name:
                    OptionName::ReceiveLowWater
                    | OptionName::ReceiveMessages
                    | OptionName::ReceiveMessagesWithin
                    | OptionName::AcceptOnData,
                ..
            } => {}
            Request::SetOption { name, value, .. } => {
                if name == OptionName::NotSentLowat {
                    socket.low_water = u32::try_from(value).unwrap_or(u32::MAX);
                }
                self.send(request);
            }
            Request::Bind { .. } => {
                // The socket that had the address may have ended.
                self.look_for_ends();
                self.ask(channel, request);
            }
            _ => self.ask(channel, request),
        }
        Some(())
    }

    /// A process has accepted a connection, and so read the record of it: the engine is told that
    /// by the listener's edges.
    fn take_accepted(&mut self, channel: u16, connection: SocketId) {
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
    fn open(&mut self, channel: u16, request: Request) -> Option<()> {
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
    fn handle_move(&mut self, channel: u16, id: SocketId, moved: &Moved) -> Option<()> {
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
    fn answer(&mut self, channel: u16, request: &Request, errno: u16) {
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
    fn ask(&mut self, channel: u16, request: Request) {
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
    fn send_unsent(&mut self) {
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
            let pieces = 1 + (at % super::CHUNK_BYTES + len as u64 - 1) / super::CHUNK_BYTES;
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
    fn report_rest(&mut self, channel: u16) {
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
}
