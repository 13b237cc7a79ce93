//! What one connection has received, and another of its session sends where it lies: nothing is
//! copied, and no program has touched it (`Request::Forward`).
//!
//! The ranges are in the send stream of the one that sends. What it names must stay until it is
//! acknowledged, so the bytes count as read only then, and the window of the connection that has
//! received them opens then. What its host has read meanwhile is kept here. If that connection
//! is closed first, its chunks stay here without it.
//!
//! Owns [`Forwards`], which each session has, and [`Forwarding`], which a socket has that takes
//! part. Called by `requests`, and by `connection` and `pair` when something is acknowledged or
//! a socket ends.

use crate::Stack;
use crate::request_error::RequestError;
use crate::requests::From;
use crate::socket::{Kind, Socket};
use longshore_hostif::adapter::ReceiveStream;
use longshore_hostif::{EdgeFlags, LEAST_FORWARD, SocketId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What a request says of the connection whose bytes are sent.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Which it is.
    pub(crate) source: SocketId,
    /// Bytes of its receive stream.
    pub(crate) range: Range<u64>,
}

/// A range that another socket sends, and whether that is done with it.
#[derive(Debug)]
struct Sent {
    range: Range<u64>,
    is_done: bool,
}

/// A connection of whose receive stream others send ranges.
#[derive(Debug)]
struct Source {
    /// Its key, as long as its program has it.
    key: Option<u32>,
    /// Its chunks, after that.
    remains: Option<ReceiveStream>,
    /// In order; the first is not done.
    ranges: VecDeque<Sent>,
    /// How far its host has read.
    consumed: u64,
}

/// The connections of a session of whose receive streams others send ranges.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    names: u64,
    sources: BTreeMap<u64, Source>,
}

/// Part of a send stream that is another's receive stream.
#[derive(Debug)]
struct Part {
    /// Where it ends.
    end: u64,
    source: u64,
    /// Where it begins there.
    from: u64,
}

/// What of others a socket sends, and what others send of it.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    source: Option<u64>,
    parts: VecDeque<Part>,
}

impl Forwards {
    /// The host of a source has read up to there: how far it counts.
    fn held_back(&mut self, source: u64, consumed: u64) -> u64 {
        let Some(source) = self.sources.get_mut(&source) else {
            return consumed;
        };
        source.consumed = source.consumed.max(consumed);
        let first = source.ranges.front().map(|sent| sent.range.start);
        first.map_or(source.consumed, |first| first.min(source.consumed))
    }

    /// The range of a source that begins at `from` is done with. If more is read by that, its
    /// key and how far; if nothing of it is needed any more, its chunks.
    fn end(&mut self, name: u64, from: u64) -> (Option<(u32, u64)>, Option<ReceiveStream>) {
        let Some(source) = self.sources.get_mut(&name) else {
            return (None, None);
        };
        if let Ok(at) = source
            .ranges
            .binary_search_by_key(&from, |sent| sent.range.start)
        {
            source.ranges[at].is_done = true;
        }
        let before = source.ranges.len();
        while source.ranges.pop_front_if(|sent| sent.is_done).is_some() {}
        let moved = source.ranges.len() != before;
        let read = source
            .key
            .filter(|_| moved)
            .map(|key| (key, source.consumed));
        if source.ranges.is_empty() && source.key.is_none() {
            let gone = self.sources.remove(&name);
            return (None, gone.and_then(|gone| gone.remains));
        }
        (read, None)
    }

    /// Chunks of connections that are closed.
    pub(crate) fn remaining_chunks(&self) -> u64 {
        let remains = self.sources.values().filter_map(|s| s.remains.as_ref());
        remains.map(ReceiveStream::chunks).sum()
    }
}

impl Socket {
    /// Its host has read up to there: how far that counts, as others still send of it.
    #[inline]
    pub(crate) fn held_back(&self, forwards: &mut Forwards, consumed: u64) -> u64 {
        match self.forwarding.as_ref().and_then(|f| f.source) {
            Some(source) => forwards.held_back(source, consumed),
            None => consumed,
        }
    }

    /// How far its receive stream reaches, and how far it counts as read.
    fn received(&self) -> Option<(u64, u64)> {
        match &self.kind {
            Kind::Stream(c) => Some((c.tcb.rcv_consumed(), c.tcb.rcv_edge())),
            Kind::Pair(p) => Some((p.rcv_consumed, p.rcv_edge)),
            _ => None,
        }
    }
}

impl Stack {
    /// The host of `sink` has written what another connection has received. If that cannot be,
    /// `sink` is reset: what follows in its stream is not what its host meant.
    pub(crate) fn forward(
        &mut self,
        from: From,
        sink: u32,
        received: &Received,
        (snd_edge, rcv_consumed, flags): (u64, u64, EdgeFlags),
    ) -> Result<(), RequestError> {
        let entered = self.enter_forward(from.session, sink, received, snd_edge);
        let entered = entered.and_then(|source| {
            self.host_edges(sink, Some(from.channel), snd_edge, rcv_consumed, flags)?;
            self.note_end_of_forward(sink, snd_edge)?;
            let none = EdgeFlags::empty();
            self.host_edges(source, Some(from.channel), 0, received.range.end, none)
        });
        match entered {
            Ok(()) => self.counters.forwarded_bytes += received.range.end - received.range.start,
            Err(_) => self.reset_sender(sink),
        }
        entered
    }

    /// What was forwarded to `sink` may be over already: other requests have told of its edge
    /// before, or nothing is sent any more.
    fn note_end_of_forward(&mut self, sink: u32, snd_edge: u64) -> Result<(), RequestError> {
        let socket = self.sockets.get(sink).ok_or(RequestError::NoSocket)?;
        let is_over = match &socket.kind {
            Kind::Stream(c) => c.retired || c.tcb.error().is_some(),
            Kind::Pair(p) => p.dead.is_some(),
            _ => true,
        };
        if !is_over && socket.snd_edge() < snd_edge {
            return Err(RequestError::BadEdge);
        }
        let acked = socket.edges().snd_acked;
        self.forwarded(sink, if is_over { u64::MAX } else { acked });
        Ok(())
    }

    /// Notes that `sink` sends what was received, before either stream moves; whose it is.
    fn enter_forward(
        &mut self,
        session: u32,
        sink: u32,
        received: &Received,
        snd_edge: u64,
    ) -> Result<u32, RequestError> {
        let range = &received.range;
        let key = self.key_of(session, received.source);
        let key = key
            .filter(|key| *key != sink)
            .ok_or(RequestError::NoSocket)?;
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let s = self
            .sessions
            .get_mut(session)
            .ok_or(RequestError::NoSocket)?;
        let (consumed, edge) = socket.received().ok_or(RequestError::Invalid)?;
        // What is lent to it already, its sender keeps until it is read.
        let is_lent = matches!(&socket.kind, Kind::Pair(p) if range.end > p.lent_from);
        let len = range.end.saturating_sub(range.start);
        let is_possible = len >= LEAST_FORWARD && range.end <= edge && !is_lent && !socket.orphan;
        if !is_possible || !s.host.begin_forwards() {
            return Err(RequestError::Invalid);
        }
        let forwarding = socket.forwarding.get_or_insert_default();
        let forwards = &mut s.forwards;
        let name = *forwarding.source.get_or_insert_with(|| {
            forwards.names += 1;
            forwards.names
        });
        let source = forwards.sources.entry(name).or_insert_with(|| Source {
            key: Some(key),
            remains: None,
            ranges: VecDeque::new(),
            consumed,
        });
        // What was read before may be gone.
        if range.start < source.consumed {
            return Err(RequestError::BadEdge);
        }
        source.ranges.push_back(Sent {
            range: range.clone(),
            is_done: false,
        });
        if let Some(sink) = self.sockets.get_mut(sink) {
            let parts = &mut sink.forwarding.get_or_insert_default().parts;
            parts.push_back(Part {
                end: snd_edge,
                source: name,
                from: range.start,
            });
        }
        Ok(key)
    }

    fn reset_sender(&mut self, key: u32) {
        match self.sockets.get_mut(key).map(|s| &mut s.kind) {
            Some(Kind::Stream(c)) => c.tcb.abort(),
            Some(Kind::Pair(_)) => self.close_pair(key, true),
            _ => {}
        }
        self.sockets.touch(key);
    }

    /// What `key` has written is done with up to `done`: whose bytes it was, those have read it.
    #[cold]
    pub(crate) fn forwarded(&mut self, key: u32, done: u64) {
        while self.end_first_part(key, done) {}
    }

    /// Ends the first part of what `key` sends of others, if that is done with.
    fn end_first_part(&mut self, key: u32, done: u64) -> bool {
        let Some(socket) = self.sockets.get_mut(key) else {
            return false;
        };
        let session = socket.session;
        let Some(forwarding) = &mut socket.forwarding else {
            return false;
        };
        let Some(part) = forwarding.parts.pop_front_if(|part| part.end <= done) else {
            return false;
        };
        let Some(s) = self.sessions.get_mut(session) else {
            return false;
        };
        let (read, remains) = s.forwards.end(part.source, part.from);
        if let Some(mut remains) = remains {
            remains.consume(0, true, &mut s.host.receive);
        }
        if let Some((key, consumed)) = read {
            let _ = self.host_edges(key, None, 0, consumed, EdgeFlags::empty());
        }
        true
    }

    /// The block of `key` is given back.
    #[cold]
    pub(crate) fn end_forwarding(&mut self, key: u32) {
        self.forwarded(key, u64::MAX);
        self.leave_received(key);
    }

    /// No program has `key` any more: what it has received stays as long as others send of it,
    /// and counts as read.
    pub(crate) fn leave_received(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(forwarding) = &mut socket.forwarding else {
            return;
        };
        let Some(name) = forwarding.source.take() else {
            return;
        };
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        let Some(source) = s.forwards.sources.get_mut(&name) else {
            return;
        };
        let consumed = source.consumed;
        if source.ranges.is_empty() {
            s.forwards.sources.remove(&name);
            return;
        }
        source.key = None;
        source.remains = match &mut socket.kind {
            Kind::Stream(c) => Some(std::mem::replace(&mut c.rcv, ReceiveStream::EMPTY)),
            Kind::Pair(p) => Some(std::mem::replace(&mut p.rcv, ReceiveStream::EMPTY)),
            _ => None,
        };
        let _ = self.host_edges(key, None, 0, consumed, EdgeFlags::empty());
    }
}
