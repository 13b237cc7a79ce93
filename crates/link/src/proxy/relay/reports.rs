//! What the engine says of the sockets of a link, on its way to the host's end: completions,
//! payload that was received, connections of listeners, and words.
//!
//! Its methods are [`Relay`]'s; the loop of `proxy` calls them.

use super::{Handled, MOST_EARLY, NO_BUFFERS, RESET, Relay, answer, put};
use crate::link::Outbox;
use crate::protocol::{ADAPTERS, Accepted, Message, PAYLOAD, Words};
use crate::proxy::ProxyError;
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, BlockFlags, Completion, EdgeFlags, Edges, HostChannel,
    HostSession, SocketId,
};
use longshore_ring::Doorbell;
use std::sync::atomic::Ordering;

impl Relay {
    /// Takes what the engine has said; whether it has said anything.
    pub(in crate::proxy) fn take_completions(
        &mut self,
        host: &HostSession,
        channel: &mut HostChannel,
        doorbell: &Doorbell,
        out: &mut Outbox,
    ) -> Result<bool, ProxyError> {
        let (mut any, mut is_more) = (false, false);
        while let Some(completion) = channel.get()? {
            any = true;
            match completion {
                Some(Completion::Edges { socket, edges }) => {
                    self.note_edges(host, socket, edges)?
                }
                Some(done @ Completion::Done { socket, tag, .. }) => {
                    self.answered(host, channel.index(), done, socket, tag, out);
                }
                Some(Completion::More) => is_more = true,
                None => {}
            }
        }
        if any {
            channel.release();
        }
        if is_more {
            channel.ask_for_more(doorbell);
        }
        while self.asked.is_none()
            && let Some(query) = self.queries.front().copied()
        {
            let name = query.socket();
            let done = match (self.sockets.get(&name), query.asked()) {
                (Some(mirror), Some((tag, _))) => {
                    let put = put(channel, &query.about(mirror.id))?;
                    if put == Handled::NoRoom {
                        break;
                    }
                    self.asked = Some((tag, name));
                    None
                }
                (_, asked) => asked.map(|(tag, _)| answer(name, tag, NO_BUFFERS)),
            };
            if let Some(done) = done {
                out.put(&Message::Descriptor(done.encode()));
            }
            self.queries.pop_front();
        }
        Ok(any)
    }

    fn note_edges(
        &mut self,
        host: &HostSession,
        socket: SocketId,
        edges: Edges,
    ) -> Result<(), ProxyError> {
        let name = self.names.get(&socket.index).copied();
        let mirror = name.and_then(|name| self.sockets.get_mut(&name));
        let (Some(name), Some(mirror)) = (name, mirror.filter(|m| m.id == socket)) else {
            self.note_early(host, socket, edges);
            return Ok(());
        };
        host.acknowledge(socket.index, edges.snd_acked)?;
        let old = mirror.edges;
        // An error that was not told yet is not forgotten for what comes after it.
        let unsaid = if mirror.is_due {
            old.flags & EdgeFlags::SOFT_ERROR
        } else {
            EdgeFlags::empty()
        };
        mirror.edges = Edges {
            rcv_edge: edges.rcv_edge.max(old.rcv_edge),
            snd_acked: edges.snd_acked.max(old.snd_acked),
            flags: edges.flags | unsaid,
            errno: if edges.errno == 0 && mirror.is_due {
                old.errno
            } else {
                edges.errno
            },
            rcv_urgent: edges.rcv_urgent.max(old.rcv_urgent),
        };
        self.note_due(name);
        Ok(())
    }

    /// The engine tells of a socket that is not known: of a connection before the listener's
    /// record of it was read, or of one that was just closed.
    fn note_early(&mut self, host: &HostSession, socket: SocketId, edges: Edges) {
        let is_there = |id: &SocketId| {
            let block = host.get_block(id.index);
            block.is_some_and(|b| b.is(*id) || b.is_before(*id))
        };
        if self.early.len() >= MOST_EARLY {
            self.early.retain(|id, _| is_there(id));
        }
        if is_there(&socket) {
            self.early.insert(socket, edges);
        }
    }

    fn note_due(&mut self, name: SocketId) {
        if let Some(mirror) = self.sockets.get_mut(&name)
            && !mirror.is_due
        {
            mirror.is_due = true;
            self.due.push_back(name);
        }
    }

    /// Passes an answer on, with what is in the mailbox if it was a question.
    fn answered(
        &mut self,
        host: &HostSession,
        channel: u32,
        done: Completion,
        socket: SocketId,
        tag: u32,
        out: &mut Outbox,
    ) {
        let name = self.names.get(&socket.index).copied();
        let done = done.about(name.unwrap_or(socket));
        if self.asked.is_some_and(|(asked, _)| asked == tag) {
            let name = self.asked.take().map(|(_, name)| name);
            let len = match done {
                Completion::Done {
                    errno: 0, value, ..
                } => value as usize,
                _ => 0,
            };
            let mailbox = host.read_mailbox(host.ring(channel, host.worker_of(socket)));
            let bytes = &mailbox[..len.min(mailbox.len())];
            out.put(&Message::Answer(done.encode(), bytes));
            // What was asked for may have been taken off a queue.
            if let Some(name) = name {
                self.look_at_words_of(name, host, out);
            }
        } else {
            out.put(&Message::Descriptor(done.encode()));
        }
    }

    /// Sends what the engine has delivered, and where the edges of sockets are, as long as
    /// there is room.
    pub(in crate::proxy) fn tell(
        &mut self,
        host: &HostSession,
        out: &mut Outbox,
    ) -> Result<(), ProxyError> {
        while !out.is_congested()
            && let Some(name) = self.due.pop_front()
        {
            self.look_at_words_of(name, host, out);
            let Some(mirror) = self.sockets.get_mut(&name) else {
                continue;
            };
            if mirror.is_listener {
                self.tell_of_connections(name, host, out)?;
                continue;
            }
            let left = mirror.edges.rcv_edge - mirror.relayed;
            let len = left.min(PAYLOAD as u64) as usize;
            if len != 0 {
                let (at, index) = (mirror.relayed, mirror.id.index);
                out.put_payload(name, at, len, |to| host.copy_received(index, at, to))?;
                mirror.relayed += len as u64;
            }
            let mut edges = mirror.edges;
            if mirror.relayed != edges.rcv_edge {
                self.due.push_back(name);
                if !mirror.is_stream {
                    // Half a record is not reported.
                    continue;
                }
                edges.rcv_edge = mirror.relayed;
                edges.flags -= EdgeFlags::PEER_FIN | EdgeFlags::DEAD | EdgeFlags::SOFT_ERROR;
            } else {
                mirror.is_due = false;
                mirror.edges.flags -= EdgeFlags::SOFT_ERROR;
            }
            let told = Completion::Edges {
                socket: name,
                edges,
            };
            out.put(&Message::Descriptor(told.encode()));
        }
        Ok(())
    }

    /// A listener has connections, or something else is to be told of it.
    fn tell_of_connections(
        &mut self,
        listener: SocketId,
        host: &HostSession,
        out: &mut Outbox,
    ) -> Result<(), ProxyError> {
        loop {
            let Some(mirror) = self.sockets.get_mut(&listener) else {
                return Ok(());
            };
            if mirror.relayed >= mirror.edges.rcv_edge {
                mirror.is_due = false;
                let told = Completion::Edges {
                    socket: listener,
                    edges: mirror.edges,
                };
                mirror.edges.flags -= EdgeFlags::SOFT_ERROR;
                out.put(&Message::Descriptor(told.encode()));
                return Ok(());
            }
            let mut record = [0; ACCEPT_RECORD];
            let (at, index) = (mirror.relayed, mirror.id.index);
            host.copy_received(index, at, &mut record)?;
            mirror.relayed += ACCEPT_RECORD as u64;
            let record = AcceptRecord::decode(&record);
            let block = host.get_block(record.socket.index);
            let block = block.ok_or(ProxyError::Broken)?;
            let name = SocketId {
                index: record.socket.index | ADAPTERS,
                ..record.socket
            };
            out.put(&Message::Accepted(Accepted {
                listener,
                socket: name,
                at,
                local: record.local,
                peer: record.peer,
                send_limit: record.send_limit,
            }));
            if !block.begin_accepted(&record, host.block(index)) {
                // The connection has ended meanwhile.
                self.early.remove(&record.socket);
                Self::report_dead(name, RESET, out);
                continue;
            }
            host.note_used(record.socket.index);
            self.enter(name, record.socket, true, host);
            if let Some(edges) = self.early.remove(&record.socket) {
                self.note_edges(host, record.socket, edges)?;
            }
        }
    }

    /// Tells the host's end of words of a socket that have changed.
    fn look_at_words_of(&mut self, name: SocketId, host: &HostSession, out: &mut Outbox) {
        let Some(mirror) = self.sockets.get_mut(&name) else {
            return;
        };
        let block = host.block(mirror.id.index);
        let word = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Acquire);
        let errno = if word(&block.errno) == 0 {
            0
        } else {
            block.take_errno()
        };
        let words = Words {
            send_limit: word(&block.snd.limit),
            unreported_limit: word(&block.unreported_limit),
            errno,
            reports: word(&block.errors),
            sent: block.snd.sent_or_notices.load(Ordering::Acquire),
            waits: block.flags().contains(BlockFlags::HAS_ENTERING),
        };
        if words != mirror.words {
            out.put(&Message::Words(name, words));
            mirror.words = Words { errno: 0, ..words };
        }
    }

    /// As `look_at_words_of`, of all sockets.
    pub(in crate::proxy) fn look_at_all_words(&mut self, host: &HostSession, out: &mut Outbox) {
        let names: Vec<SocketId> = self.sockets.keys().copied().collect();
        for name in names {
            self.look_at_words_of(name, host, out);
        }
    }
}
