//! A listener at the end of a turn: its host is told of the connections that have come, and what
//! it has accepted is its own. Called by `flush`.

use crate::Stack;
use crate::socket::Kind;

impl Stack {
    /// Tells a listener's host of the connections that have come.
    pub(crate) fn flush_listener(&mut self, key: u32) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let edges = socket.edges();
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        let session = self.sessions.get(socket.session);
        if l.audience.is_late(now) && session.is_some_and(|s| s.host.hurry_requests()) {
            l.audience.put_off(now);
        }
        let has_accepted = l.has_accepted();
        // Who has never accepted may never look, as a server's master that forks workers: what
        // only its ring has would keep the place of every later record.
        let may_look = l.audience.has_acceptor();
        let unreported = l
            .audience
            .take_unreported(&socket.subscribers, edges.rcv_edge, now);
        if let Some(unreported) = unreported
            && let Some(s) = self.sessions.get_mut(socket.session)
        {
            let placed = if may_look {
                s.host
                    .put_stream_to(&mut l.rcv, unreported, socket.id, edges)
            } else {
                let placed = s.host.place_short(&mut l.rcv, None);
                s.host.put_edges_to(unreported, socket.id, edges);
                placed
            };
            let to_host = &mut socket.payload.to_host;
            to_host.count(placed.pieces.into(), placed.bytes);
        }
        if l.audience.tells_many() {
            self.tell_some(key);
        }
        if has_accepted {
            self.take_accepted(key);
        }
        self.sockets.arm(key);
    }

    /// Tells some of the many processes that have a listener of its connections. The others
    /// have their turn.
    #[cold]
    fn tell_some(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let (id, edges) = (socket.id, socket.edges());
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        socket.place_short(&mut s.host, None);
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        let (some, are_last) = l.audience.take_some();
        // Some may have it no longer.
        for channel in some.into_iter().filter(|c| socket.subscribers.contains(*c)) {
            s.host.put_edges(channel, id, &edges);
        }
        if are_last {
            s.host.note_edges(id, &edges);
        }
        if l.audience.tells_many() {
            self.sockets.touch(key);
        }
    }
}
