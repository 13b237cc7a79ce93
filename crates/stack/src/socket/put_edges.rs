//! Reports to programs where their sockets' streams stand, and counts for each socket the
//! payload that crosses by that.
//!
//! All that is told of a stream goes through here: what its receive stream holds to be told
//! in a descriptor counts as there only for the one process that takes it.

use crate::socket::Socket;
use longshore_hostif::Edges;
use longshore_hostif::adapter::AdapterSession;

impl Socket {
    /// Tells all processes that have it where its streams stand.
    #[inline(always)]
    pub(crate) fn put_edges(&mut self, host: &mut AdapterSession, edges: Edges) {
        match self.kind.receive_stream_mut() {
            Some(stream) if stream.has_short() => self.put_short_edges(host, edges),
            _ => host.put_edges_to(&self.subscribers, self.id, edges),
        }
    }

    #[inline(never)]
    pub(crate) fn put_short_edges(&mut self, host: &mut AdapterSession, edges: Edges) {
        if let Some(stream) = self.kind.receive_stream_mut() {
            let placed = host.put_stream_to(stream, &self.subscribers, self.id, edges);
            let to_host = &mut self.payload.to_host;
            to_host.add(&placed.into());
        }
    }

    /// Tells one of those processes; whether there was room.
    pub(crate) fn put_edges_to_one(
        &mut self,
        host: &mut AdapterSession,
        channel: u16,
        edges: Edges,
    ) -> bool {
        self.place_short(host, Some(channel));
        host.put_edges(channel, self.id, &edges)
    }

    /// Places what its receive stream holds, and what others than `to` were told in a
    /// descriptor.
    pub(crate) fn place_short(&mut self, host: &mut AdapterSession, to: Option<u16>) {
        let to = to.filter(|to| self.subscribers.single() == Some(*to));
        if let Some(stream) = self.kind.receive_stream_mut() {
            let placed = host.place_short(stream, to);
            let to_host = &mut self.payload.to_host;
            to_host.add(&placed.into());
        }
    }
}
