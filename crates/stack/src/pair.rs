//! Cut-through: a connection both of whose ends are this engine's own sockets.
//!
//! No packet is built and no TCP runs: what one end's host writes is copied to
//! where the other end's host reads it, as far as there is room, or, if it is much and both
//! are of one session, is read where it was written. It owns the steps;
//! [`Pair`], one end of such a connection, is `pair_end`'s. A flag of the engine turns it
//! off, so that tests can send the same bytes through TCP.

mod copy;
mod deferral;
mod loan;
mod orphan;
mod pace;
mod room;
mod urgent;

use crate::Stack;
use crate::access::Transport;
use crate::counters::EngineDrop;
use crate::demux::{Flow, Found};
use crate::low_water::Marks;
use crate::pair_end::{PIECES_A_TURN, Pair, RESET};
use crate::request_error::RequestError;
use crate::socket::{Kind, Options, Socket};
use longshore_hostif::NONE;
use longshore_hostif::SocketId;
use std::net::SocketAddr;

/// How long after it had no memory the other end is tried again, in microseconds.
const AGAIN_US: u64 = 10_000;

impl Stack {
    /// Connects `key` to one of our own listeners.
    pub(crate) fn open_pair(
        &mut self,
        key: u32,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), RequestError> {
        let spread = self.demux.hash((remote, local));
        let reached = self
            .settings
            .access
            .may_accept(Transport::Tcp, local.ip(), remote.port());
        if !reached {
            self.counters.drop(EngineDrop::AccessDenied);
        }
        let listener = self.demux.tcp.find_listener(remote, spread);
        let listener = listener.filter(|_| reached);
        let corked = self
            .sockets
            .get(key)
            .is_some_and(|s| s.options.tcp.delay.cork);
        let mut pair = Pair::new(NONE, remote, corked);
        pair.connecting = true;
        let to_itself = listener.is_none() && local == remote;
        if to_itself {
            // Its own SYN would meet it (a simultaneous open, RFC 9293 section
            // 3.5): what it writes it reads.
            pair.other = key;
            pair.connecting = false;
        } else if listener.is_none() {
            // As a reset would tell it: refused.
            pair.dead = Some(111);
        }
        pair.listener = listener;
        let is_open = listener.is_some() || to_itself;
        let flow = is_open.then(|| Flow::new(local, remote));
        pair.flow = flow;
        self.let_received_go(key);
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        socket.kind = Kind::Pair(pair);
        socket.local = Some(local);
        if let Some(flow) = flow {
            self.demux.insert(flow, key);
            self.counters.tcp.active_opens += 1;
            self.enter_listener(key);
        }
        if to_itself {
            self.apply_reading(key);
        }
        self.sockets.touch(key);
        Ok(())
    }

    /// Lets a connecting end through its listener, or puts it in the line of
    /// those that wait for room in the accept queue.
    pub(crate) fn enter_listener(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let (Kind::Pair(p), Some(client)) = (&socket.kind, socket.local) else {
            return;
        };
        // One that stood in a line may be gone, and its key another's.
        let is_to_enter = p.connecting || p.deferral.is_under_way();
        let (Some(listener), true, server) = (p.listener, is_to_enter, p.remote) else {
            return;
        };
        let Some(l) = self.sockets.get_mut(listener) else {
            return self.refuse(key);
        };
        let (options, session) = (l.options, l.session);
        // A listener that is gone while its connections are deferred may have left its key to
        // another.
        if !matches!(&l.kind, Kind::Listener(l) if !l.shut) || !l.is_at(server) {
            return self.refuse(key);
        }
        let until_data_us = match options.defer_accept_s {
            0 => 1000 * u64::from(self.accepts_on_data(server.port(), &options)),
            seconds => 1_000_000 * u64::from(seconds),
        };
        if until_data_us != 0 && self.defer(key, until_data_us) {
            return;
        }
        let Some(Kind::Listener(listening)) = self.sockets.get_mut(listener).map(|l| &mut l.kind)
        else {
            return self.refuse(key);
        };
        if !listening.listener.may_establish() {
            listening.queue.push_entering(key);
            return self.mark_entering(listener);
        }
        let flow = Flow::new(server, client);
        self.take_place_of_single(&flow);
        let mut pair = Pair::new(key, client, options.tcp.delay.cork);
        pair.flow = Some(flow);
        pair.listener = Some(listener);
        let Some(other) = self.insert_accepted(flow, server, pair, (session, options)) else {
            return self.refuse(key);
        };
        if let Some(p) = self.sockets.pair_mut(key) {
            p.other = other;
            p.connecting = false;
            p.listener = None;
        }
        self.name_ends(key, other);
        self.apply_reading(key);
        self.sockets.touch(other);
        self.sockets.touch(key);
    }

    /// Makes the end at `server` of a connection that its listener takes, with the session and
    /// the options of that, and hands it over; `None` if there is no place for it.
    fn insert_accepted(
        &mut self,
        flow: Flow,
        server: SocketAddr,
        pair: Pair,
        (session, options): (u32, Options),
    ) -> Option<u32> {
        if self.demux.is_taken(&flow) {
            return None;
        }
        let share = self
            .sessions
            .take_socket_share(session, &mut self.counters)?;
        let id = SocketId {
            index: NONE,
            generation: 0,
        };
        let mut accepted = Socket::new(id, session, None, options, Kind::Pair(pair));
        accepted.share = share;
        accepted.local = Some(server);
        let other = self.sockets.insert(accepted);
        self.demux.insert(flow, other);
        if self.hand_over(other).is_none() {
            self.forget(other);
            return None;
        }
        Some(other)
    }

    /// An end that was reset, or whose other end is gone, and that its host has not closed yet,
    /// has no use for its place in the table: nothing comes for it any more, and a client may
    /// connect from that port again, to which it was bound or which it was given.
    fn take_place_of_single(&mut self, flow: &Flow) {
        if let Some(Found::Socket(key)) = self.demux.peek(flow)
            && let Some(p) = self.sockets.pair_mut(key)
            && (p.dead.is_some() || p.has_lost_other())
            && p.flow.take().is_some()
        {
            self.demux.remove(flow);
        }
    }

    /// Says in the block of each end which socket the other is, if they are of one session:
    /// whoever finds nothing to read there may see that something is under way.
    fn name_ends(&self, one: u32, other: u32) {
        let (Some(one), Some(other)) = (self.sockets.get(one), self.sockets.get(other)) else {
            return;
        };
        let session = self.sessions.get(one.session);
        if let Some(session) = session.filter(|_| one.session == other.session) {
            session.host.set_other_end(one.id.index, other.id.index);
            session.host.set_other_end(other.id.index, one.id.index);
        }
    }

    fn refuse(&mut self, key: u32) {
        if let Some(p) = self.sockets.pair_mut(key) {
            // Refused, or reset if it was connected already.
            p.dead = Some(if p.connecting { 111 } else { RESET });
            p.listener = None;
        }
        self.leave_table(key);
        self.sockets.touch(key);
    }

    /// An end has no place in the table of connections any more.
    pub(crate) fn leave_table(&mut self, key: u32) {
        if let Some(flow) = self.sockets.pair_mut(key).and_then(|p| p.flow.take()) {
            self.demux.remove(&flow);
        }
    }

    /// Moves what can be moved and tells both hosts what is new.
    pub(crate) fn flush_pair(&mut self, key: u32) {
        let (now, mut moved) = (self.now, 0);
        if let Some(p) = self.sockets.pair_mut(key) {
            p.waits.end_retry();
            let (deferred, urgent) = (p.deferral.is_under_way(), p.snd.is_urgent());
            if deferred {
                self.end_deferral(key);
            }
            if urgent {
                self.pass_on_urgent(key);
            }
        }
        if self
            .sockets
            .pair_mut(key)
            .is_some_and(|p| p.snd.unmoved() != 0 && p.holds_back(now))
        {
            self.note_done(key);
            self.tell_pair(key);
            return self.sockets.arm(key);
        }
        while moved < PIECES_A_TURN && self.move_piece(key) {
            moved += 1;
        }
        self.end_unread(key);
        self.note_done(key);
        self.pass_on_end(key);
        if let Some(was_made) = self
            .sockets
            .pair_mut(key)
            .and_then(|p| p.is_over().then_some(!p.connecting))
        {
            self.leave_table(key);
            if let Some(socket) = self.sockets.get_mut(key) {
                socket.give_port_back(key, &mut self.demux);
            }
            if !was_made && let Some(socket) = self.sockets.get_mut(key) {
                socket.leave_address(key, &mut self.demux);
            }
        }
        if moved == PIECES_A_TURN {
            self.sockets.touch(key);
        }
        if moved != 0 {
            self.note_read(key);
        }
        self.tell_pair(key);
        self.sockets.arm_quiet_pair(key, now);
        self.end_pair(key);
    }

    /// What is written to an end that is gone is answered by a reset.
    fn end_unread(&mut self, key: u32) {
        if let Some(p) = self.sockets.pair_mut(key)
            && p.has_lost_other()
            && p.snd.unmoved() != 0
        {
            p.reset();
        }
    }

    /// The other end of a connection, or its listener, is gone without a word.
    pub(crate) fn lose_other_end(&mut self, key: u32) {
        if let Some(p) = self.sockets.pair_mut(key) {
            p.other = NONE;
        }
        self.refuse(key);
    }

    /// `key` is about to be reset by its other end: what that has sent, and said of its end,
    /// comes before.
    fn pass_on_before_reset(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key).filter(|p| !p.is_shut()) else {
            return;
        };
        let other = p.other;
        // As much as an end holds unread, which is little.
        while self.move_piece(other) {}
        self.pass_on_end(other);
    }

    /// What `key` sends meets an end of which both halves are shut down: both are reset.
    fn reset_pair(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        p.reset();
        let other = p.other;
        if let Some(q) = self.sockets.pair_mut(other) {
            q.dead.get_or_insert(RESET);
        }
        self.sockets.touch(other);
    }

    /// The end of the stream, once all before it is there.
    fn pass_on_end(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        // A reset is no end.
        let all_moved = p.snd.unmoved() == 0 && p.dead.is_none();
        let (ended, other) = (p.snd.is_shut() && all_moved, p.other);
        if ended
            && let Some(q) = self.sockets.pair_mut(other)
            && q.rcv.note_fin()
        {
            self.sockets.touch(other);
        }
    }

    fn tell_pair(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if !socket.has_block() || socket.orphan {
            return;
        }
        let edges = socket.edges();
        let quarter = u64::from(socket.options.send_buffer / 4);
        let Kind::Pair(p) = &mut socket.kind else {
            return;
        };
        let marks = Marks::of(&socket.options, socket.options.receive_buffer);
        let (told, written) = (p.told, p.snd.edge());
        let has_lowat = socket.options.have_lowat();
        let has_sent = has_lowat && {
            let s = self.sessions.get(socket.session);
            s.is_some_and(|s| marks.has_sent(s, socket.id, written, p.snd.moved()))
        };
        let is_new = edges.rcv_edge > p.told.rcv_edge
            || edges.flags != p.told.flags
            || p.rcv.has_unreported_urgent()
            || has_sent;
        let unacknowledged = edges.snd_acked - p.told.snd_acked;
        if !is_new && unacknowledged < quarter {
            return;
        }
        let is_urgent = p.rcv.report_urgent();
        socket.note_told(self.now);
        if let Some(s) = self.sessions.get_mut(socket.session) {
            let is_awaited = is_urgent || has_sent || !has_lowat;
            if !is_awaited && marks.is_too_little(s, socket.id, (&told, written), &edges, None) {
                self.counters.waits.below_low_water += 1;
                s.host.without_waking(|host| socket.tell(host, edges));
            } else {
                socket.tell(&mut s.host, edges);
            }
            if is_urgent {
                // With what tells of it, so that a handler of SIGURG finds it.
                s.host.note_urgent(socket.id, &edges);
            }
        }
    }

    /// An end that no process holds goes when the other end has all it sent, and reads
    /// nothing in its chunks any more, or never will.
    fn end_pair(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let Kind::Pair(p) = &socket.kind else { return };
        if !socket.orphan {
            return;
        }
        let other = p.other;
        let other_reads = matches!(self.sockets.get(other).map(|s| &s.kind), Some(Kind::Pair(q)) if q.dead.is_none());
        if p.snd.unmoved() != 0 && p.dead.is_none() && other_reads {
            if !self.is_given_up(key) {
                return;
            }
            self.reset_pair(key);
        }
        let socket = self.sockets.get(key);
        if self.has_lent(key) || socket.is_some_and(|s| s.is_lent_on(&self.sessions)) {
            return;
        }
        self.pass_on_end(key);
        if let Some(q) = self.sockets.pair_mut(other) {
            // What the other end still has to send reaches nobody.
            q.other = NONE;
            self.sockets.touch(other);
        }
        self.forget(key);
    }

    /// The host has closed an end: with unread data, be it still on its way, or without
    /// lingering, the other end is reset, as TCP would have it. What it has room for of what was sent
    /// before, it gets.
    pub(crate) fn close_pair(&mut self, key: u32, reset: bool) {
        let read = self.sockets.get(key);
        let read = read.map_or(0, |s| s.read_by_host(&self.sessions));
        let now = self.now;
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        let (other, received) = (p.other, p.rcv.edge());
        let is_under_way =
            |q: &mut Pair| q.dead.is_none() && q.snd.unmoved() != 0 && !q.holds_back(now);
        let resets =
            reset || received > read || self.sockets.pair_mut(other).is_some_and(is_under_way);
        if resets {
            // As much as an end holds unread, which is little.
            while self.move_piece(key) {}
        }
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        p.snd.shut();
        p.rcv.shut();
        if resets {
            p.snd.abandon_rest();
            p.dead.get_or_insert(RESET);
            if let Some(q) = self.sockets.pair_mut(other) {
                q.reset();
            }
        }
        self.sockets.touch(other);
        self.sockets.touch(key);
    }
}
