//! What the engine's end says: payload is placed in receive streams, and programs are told.
//!
//! It is always taken: whatever programs are told of finds room, or waits in their sockets.

use super::AgentError;
use super::relay::{IDLE_FOR, Relay};
use super::sockets::Socket;
use crate::link::LinkError;
use crate::protocol::{Accepted, Message, Table, Words};
use longshore_hostif::adapter::{AdapterSession, Subscribers};
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Completion, EdgeFlags, Edges, Moved, NotSent, Request, SocketId,
};
use std::time::Instant;

/// A message that has been taken.
enum Taken {
    Nothing,
    Completion([u64; 8], Vec<u8>),
    Accepted(Accepted),
    Words(SocketId, Words),
    Table(Table),
    Gone(SocketId),
}

fn claim(what: &'static str) -> AgentError {
    LinkError::Claim(what).into()
}

/// Places what came for a socket.
fn place(
    session: &mut AdapterSession,
    socket: &mut Socket,
    at: u64,
    bytes: &[u8],
) -> Result<(), AgentError> {
    if at != socket.placed {
        return Err(claim("payload out of order"));
    }
    let (base, index) = (socket.consumed, socket.id.index);
    let placed = socket
        .rcv
        .place(base, at, bytes, &mut session.receive, index);
    let pieces = placed.map_err(|_| claim("more than a receive stream holds"))?;
    socket.placed += bytes.len() as u64;
    let moved = Moved::of_stream(pieces, at, bytes.len() as u64);
    session.meter.to_host.payload.add(&moved);
    Ok(())
}

impl Relay {
    /// Does what the engine's end says; whether it has said anything.
    pub(super) fn handle_messages(&mut self) -> Result<bool, AgentError> {
        let mut any = false;
        while let Some(message) = self.link.parser.peek().map_err(LinkError::from)? {
            any = true;
            let taken = match message {
                Message::Payload { socket, at, bytes } => {
                    // One that was closed meanwhile takes nothing.
                    if let Some(socket) = self.sockets.named(socket) {
                        place(&mut self.session, socket, at, bytes)?;
                    }
                    Taken::Nothing
                }
                Message::Descriptor(words) => Taken::Completion(words, Vec::new()),
                Message::Answer(words, bytes) => Taken::Completion(words, bytes.to_vec()),
                Message::Accepted(accepted) => Taken::Accepted(accepted),
                Message::Words(socket, words) => Taken::Words(socket, words),
                Message::Table(table) => Taken::Table(table),
                Message::Gone(socket) => Taken::Gone(socket),
                Message::Refused(why) => return Err(LinkError::Refused(why).into()),
                Message::Hello(_) | Message::Welcome(_) | Message::Bye => {
                    return Err(claim("a message out of turn"));
                }
            };
            self.link.parser.take();
            match taken {
                Taken::Nothing => {}
                Taken::Completion(words, answer) => self.complete(&words, &answer)?,
                Taken::Accepted(accepted) => self.take_connection(accepted)?,
                Taken::Words(socket, words) => self.set_words(socket, words),
                Taken::Table(table) => self.set_table(&table),
                Taken::Gone(socket) => self.give_block_back(socket),
            }
        }
        Ok(any)
    }

    /// What the engine says to all.
    pub(super) fn set_table(&self, table: &Table) {
        let header = self.session.header();
        header.publish_routes(&table.routes, table.loopback);
        let mtu = table.link_mtu.map(|mtu| mtu as usize);
        header.publish_mtu(mtu, table.has_narrow_paths);
        header.set_congestion(table.congestion);
    }

    fn complete(&mut self, words: &[u64; 8], answer: &[u8]) -> Result<(), AgentError> {
        match Completion::decode(words).map_err(|_| claim("no completion"))? {
            Completion::Done {
                tag,
                errno,
                value,
                address,
                ..
            } => {
                let Some(asked) = self.asked.remove(&tag) else {
                    return Ok(());
                };
                if !answer.is_empty() {
                    let _ = self.session.write_mailbox(asked.channel, answer);
                }
                self.session.channels.pay_answer(asked.channel);
                let done = Completion::Done {
                    socket: asked.socket,
                    tag: asked.tag,
                    errno,
                    value,
                    address,
                };
                self.session.put_answer(asked.channel, &done);
                self.session.wakeups.note_waiter(asked.waiter, asked.socket);
                Ok(())
            }
            Completion::Edges { socket, edges } => self.move_edges(socket, edges),
            Completion::More => Err(claim("no completion")),
        }
    }

    fn move_edges(&mut self, name: SocketId, mut edges: Edges) -> Result<(), AgentError> {
        let waits = self.sockets.waiting.iter().any(|w| w.listener == name);
        let Some(socket) = self.sockets.named(name) else {
            return Ok(());
        };
        if waits {
            // Connections for which there is no block are told of when there is one.
            edges.rcv_edge = edges.rcv_edge.min(socket.placed);
        }
        let old = socket.edges;
        let is_possible = (old.rcv_edge..=socket.placed).contains(&edges.rcv_edge)
            && (old.snd_acked..=socket.relayed).contains(&edges.snd_acked);
        if !is_possible {
            return Err(claim("edges that cannot be"));
        }
        let id = socket.id;
        socket.edges = edges;
        socket.edges.flags -= EdgeFlags::SOFT_ERROR;
        if edges.rcv_urgent > old.rcv_urgent {
            self.session.owners().note_urgent(id, &edges);
        }
        self.session.put_edges_to(&socket.subscribers, id, edges);
        if edges.snd_acked > old.snd_acked
            && edges.snd_acked == socket.relayed
            && !socket.is_idle_noted
        {
            socket.is_idle_noted = true;
            self.idle.push_back((Instant::now() + IDLE_FOR, id));
        }
        Ok(())
    }

    /// A listener has a connection.
    fn take_connection(&mut self, accepted: Accepted) -> Result<(), AgentError> {
        if self.sockets.named(accepted.listener).is_none() {
            self.refuse(accepted.socket);
            return Ok(());
        }
        if !self.sockets.waiting.is_empty() || !self.hand_over(&accepted)? {
            self.sockets.waiting.push_back(accepted);
        }
        Ok(())
    }

    fn refuse(&mut self, socket: SocketId) {
        let reset = Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: Some(0),
        };
        self.link.out.put(&Message::Descriptor(reset.encode()));
    }

    /// Gives a connection a block, and its listener's program a record of it; `false` if no
    /// block is free.
    fn hand_over(&mut self, accepted: &Accepted) -> Result<bool, AgentError> {
        let sockets = &self.sockets;
        let taken = self.session.blocks().take(|index| sockets.has_block(index));
        let Some(id) = taken else {
            return Ok(false);
        };
        let listener = self.sockets.named(accepted.listener);
        let listener = listener.ok_or(claim("a connection of no listener"))?;
        let subscriber = listener.subscribers.single();
        let record = AcceptRecord {
            socket: id,
            local: accepted.local,
            peer: accepted.peer,
            send_limit: accepted.send_limit,
            subscriber,
            has_mark: false,
        };
        place(&mut self.session, listener, accepted.at, &record.encode())?;
        let end = accepted.at + ACCEPT_RECORD as u64;
        listener.unaccepted.push_back((end, id.index));
        let subscribers = Subscribers::of_accepted(subscriber);
        let record = Some((listener.id, end));
        let mut connection = Socket::new(id, accepted.socket, subscribers);
        connection.record = record;
        self.sockets.insert(connection);
        Ok(true)
    }

    /// The engine's end is done with a socket that was closed.
    fn give_block_back(&mut self, name: SocketId) {
        if let Some(id) = self.sockets.leaving.remove(&name) {
            self.session.send_slab().release_chunks(id);
            self.session.blocks().give_back(id);
        }
    }

    /// Hands over connections that wait for a block, as far as there are some.
    pub(super) fn hand_over_waiting(&mut self) -> Result<(), AgentError> {
        while let Some(accepted) = self.sockets.waiting.front().copied() {
            if self.sockets.named(accepted.listener).is_none() {
                self.refuse(accepted.socket);
            } else if !self.hand_over(&accepted)? {
                break;
            }
            self.sockets.waiting.pop_front();
            if let Some(listener) = self.sockets.named(accepted.listener) {
                listener.edges.rcv_edge = listener.placed;
                let (id, edges) = (listener.id, listener.edges);
                self.session.put_edges_to(&listener.subscribers, id, edges);
            }
        }
        Ok(())
    }

    /// What the engine says of a socket beside descriptors. Of a connection that nobody has
    /// accepted, the block is not begun: it is said again then.
    fn set_words(&mut self, name: SocketId, words: Words) {
        let Some(socket) = self.sockets.named(name) else {
            return;
        };
        let (session, id) = (&mut self.session, socket.id);
        let old = std::mem::replace(&mut socket.words, words);
        if words.send_limit != old.send_limit && words.send_limit != 0 {
            session.blocks().set_send_limit(id.index, words.send_limit);
            // A larger buffer is room for whoever waits for some.
            session.wakeups.note_socket(id.index);
        }
        let blocks = session.blocks();
        blocks.set_unreported_limit(id, words.unreported_limit);
        blocks.set_error_reports(id, words.reports);
        if words.errno != 0 {
            blocks.set_error(id, words.errno, words.reports);
        }
        blocks.mark_waiting(id.index, words.waits);
        if words.sent != old.sent && socket.low_water != 0 {
            let written = blocks.edges_noted(id).map_or(0, |(written, _)| written);
            // Of the rest the engine's end says nothing: what is not sent ends at the mark.
            let not_sent = NotSent {
                sendable: words.sent,
                ..NotSent::default()
            };
            if blocks.note_sent(id, written, &not_sent, socket.low_water) {
                session.wakeups.note_socket(id.index);
                let edges = socket.edges;
                session.put_edges_to(&socket.subscribers, id, edges);
            }
        }
    }

    /// A connection was accepted: what could not be said of it in a block that was not begun is
    /// said now.
    pub(super) fn accepted(&mut self, index: u32) {
        let Some(socket) = self.sockets.at(index) else {
            return;
        };
        let (session, id, words) = (&mut self.session, socket.id, socket.words);
        if words.send_limit != 0 {
            session.blocks().set_send_limit(index, words.send_limit);
        }
        let blocks = session.blocks();
        blocks.set_unreported_limit(id, words.unreported_limit);
        blocks.set_error(id, words.errno, words.reports);
        if socket.edges.flags.contains(EdgeFlags::DEAD) {
            session.put_edges_to(&socket.subscribers, id, socket.edges);
        }
    }
}
