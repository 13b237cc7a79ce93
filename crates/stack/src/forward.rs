//! What one connection has received, and another of its session sends where it lies: nothing is
//! copied, and no program has touched it (`Request::Forward`).
//!
//! The ranges are in the send stream of the one that sends. What it names must stay until it is
//! acknowledged, so the bytes count as read only then, and the window of the connection that has
//! received them opens then. What its host has read meanwhile is kept here. If that connection
//! is closed first, its chunks stay here without it.
//!
//! Works on what `forwards` owns. Called by `requests`, and by `flush` and `pair` when
//! something is acknowledged or a socket ends.

use crate::forwards::Received;
use crate::request_error::RequestError;
use crate::socket::Kind;
use crate::transfers::Transfers;
use longshore_hostif::LEAST_FORWARD;
use longshore_hostif::adapter::ReceiveStream;

impl Transfers<'_> {
    /// What `sink` was to send of others cannot be: it is reset, as what follows in its stream is
    /// not what its host meant.
    pub(crate) fn give_up_forward(&mut self, sink: u32) {
        self.reset(sink);
        self.forwarded(sink, u64::MAX);
    }

    /// Counts what was forwarded, as far as it lies where it was received: no program has
    /// touched that, so it has not crossed.
    pub(crate) fn count_forwarded(
        &mut self,
        session: u32,
        (sink, end): (u32, u64),
        received: &Received,
    ) {
        let len = received.range.end - received.range.start;
        let source = self.sockets.key_of(self.sessions, session, received.source);
        let (Some(sink), Some(s)) = (self.sockets.get(sink), self.sessions.get_mut(session)) else {
            return;
        };
        let range = end.saturating_sub(len)..end;
        let forwarded = s.host.send.forwarded(sink.id.index, range);
        self.counters.own_bytes.forwarded += forwarded.all;
        if let Some(source) = source.and_then(|key| self.sockets.get_mut(key)) {
            let to_host = &mut source.payload.to_host;
            let not_crossed = to_host.share(forwarded.placed);
            to_host.take_out(&not_crossed);
            s.host.meter.to_host.payload.take_out(&not_crossed);
        }
    }

    /// What was forwarded to `sink` may be over already: other requests have told of its edge
    /// before, or nothing is sent any more.
    pub(crate) fn note_end_of_forward(
        &mut self,
        sink: u32,
        snd_edge: u64,
    ) -> Result<(), RequestError> {
        let socket = self.sockets.get(sink).ok_or(RequestError::NoSocket)?;
        let is_over = match &socket.kind {
            Kind::Stream(c) => c.is_over || c.tcb.error().is_some(),
            Kind::Pair(p) => p.dead.is_some(),
            _ => true,
        };
        if !is_over && socket.kind.snd_edge() < snd_edge {
            return Err(RequestError::BadEdge);
        }
        let acked = socket.kind.edges().snd_acked;
        self.forwarded(sink, if is_over { u64::MAX } else { acked });
        Ok(())
    }

    /// Notes that `sink` sends what was received, before either stream moves; whose it is.
    pub(crate) fn enter_forward(
        &mut self,
        session: u32,
        sink: u32,
        received: &Received,
        snd_edge: u64,
    ) -> Result<u32, RequestError> {
        let range = &received.range;
        let key = self.sockets.key_of(self.sessions, session, received.source);
        let key = key
            .filter(|key| *key != sink)
            .ok_or(RequestError::NoSocket)?;
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let s = self
            .sessions
            .get_mut(session)
            .ok_or(RequestError::NoSocket)?;
        let (consumed, edge) = socket.kind.received().ok_or(RequestError::Invalid)?;
        let len = range.end.saturating_sub(range.start);
        let is_possible = len >= LEAST_FORWARD && range.end <= edge && !socket.orphan;
        if !is_possible || !s.host.send.begin_forwards() {
            return Err(RequestError::Invalid);
        }
        let forwarding = socket.forwarding.get_or_insert_default();
        let name = s
            .forwards
            .enter(forwarding, (key, consumed), range.clone())
            .ok_or(RequestError::BadEdge)?;
        if let Some(sink) = self.sockets.get_mut(sink) {
            let forwarding = sink.forwarding.get_or_insert_default();
            forwarding.push(snd_edge, name, range.start);
        }
        Ok(key)
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
        let Some((source, from)) = forwarding.pop(done) else {
            return false;
        };
        let Some(s) = self.sessions.get_mut(session) else {
            return false;
        };
        let (read, remains) = s.forwards.end(source, from);
        if let Some(mut remains) = remains {
            remains.consume(0, true, &mut s.host.receive);
        }
        if let Some((key, consumed)) = read {
            self.take_consumed(key, consumed);
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
        let Some(name) = forwarding.leave() else {
            return;
        };
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        let kind = &mut socket.kind;
        let left = s.forwards.leave(name, || {
            let stream = kind.receive_stream_mut()?;
            Some(std::mem::replace(stream, ReceiveStream::EMPTY))
        });
        let Some(consumed) = left else {
            return;
        };
        self.take_consumed(key, consumed);
    }
}
