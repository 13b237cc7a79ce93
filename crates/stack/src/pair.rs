//! Cut-through: a connection both of whose ends are this engine's own sockets.
//!
//! No packet is built and no TCP runs: what one end's host writes is copied to
//! where the other end's host reads it, as far as there is room, or, if it is much and both
//! are of one session, is read where it was written. It owns the steps;
//! [`Pair`], one end of such a connection, is `pair_end`'s. A flag of the engine turns it
//! off, so that tests can send the same bytes through TCP.

mod copy;
mod deferral;
mod ends;
mod loan;
mod orphan;
mod pace;
mod room;
mod urgent;

use crate::access::Transport;
use crate::admission::Admission;
use crate::counters::EngineDrop;
use crate::demux::{Demux, Flow, Found};
use crate::pair_end::{Pair, RESET};
use crate::request_error::RequestError;
use crate::socket::{Kind, Options, Socket};
use crate::sockets::Sockets;
use longshore_hostif::NONE;
use longshore_hostif::SocketId;
use std::net::SocketAddr;

impl Admission<'_> {
    /// Connects `key` to one of our own listeners.
    pub(crate) fn open_pair(
        &mut self,
        key: u32,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), RequestError> {
        let spread = self.endpoints.demux.hash((remote, local));
        let reached = self
            .settings
            .access
            .may_accept(Transport::Tcp, local.ip(), remote.port());
        if !reached {
            self.counters.drop(EngineDrop::AccessDenied);
        }
        let listener = self.endpoints.demux.tcp.find_listener(remote, spread);
        let listener = listener.filter(|_| reached);
        let corked = self
            .endpoints
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
        self.transfers().let_received_go(key);
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        socket.kind = Kind::Pair(pair);
        socket.bound.set_local(local);
        if let Some(flow) = flow {
            self.endpoints.demux.insert(flow, key);
            self.counters.tcp.active_opens += 1;
            self.enter_listener(key);
        }
        if to_itself {
            let mut transfers = self.transfers();
            transfers.name_ends(key, key);
            transfers.apply_reading(key);
        }
        self.endpoints.sockets.touch(key);
        Ok(())
    }

    /// Lets a connecting end through its listener, or puts it in the line of
    /// those that wait for room in the accept queue.
    pub(crate) fn enter_listener(&mut self, key: u32) {
        let Some(socket) = self.endpoints.sockets.get(key) else {
            return;
        };
        let (Kind::Pair(p), Some(client)) = (&socket.kind, socket.bound.local()) else {
            return;
        };
        // One that stood in a line may be gone, and its key another's.
        let is_to_enter = p.connecting || p.deferral.is_under_way();
        let (Some(listener), true, server) = (p.listener, is_to_enter, p.remote) else {
            return;
        };
        let Some(of) = self.listener_at(listener, server) else {
            return self.endpoints.sockets.refuse(key);
        };
        let options = &of.1;
        let until_data_us = match options.defer_accept_s {
            0 => 1000 * u64::from(self.settings.accepts_on_data(server.port(), options)),
            seconds => 1_000_000 * u64::from(seconds),
        };
        if until_data_us != 0 && self.endpoints.sockets.defer(key, until_data_us, self.now) {
            return;
        }
        if let Some(socket) = self.endpoints.sockets.get_mut(listener)
            && let Kind::Listener(l) = &mut socket.kind
            && !l.listener.may_establish()
        {
            l.queue.push_entering(key);
            socket.mark_entering(&self.endpoints.sessions);
            if let Some(p) = self.endpoints.sockets.pair_mut(key) {
                p.deferral.stand_in_line();
            }
            return;
        }
        if self.meet(key, client, (listener, server), of).is_none() {
            self.endpoints.sockets.refuse(key);
        }
    }

    /// The session and the options of the listener of this key, if it listens at `server`: one that
    /// is gone while its connections are deferred may have left its key to another.
    fn listener_at(&self, key: u32, server: SocketAddr) -> Option<(u32, Options)> {
        let socket = self.endpoints.sockets.get(key)?;
        let listens = matches!(&socket.kind, Kind::Listener(l) if !l.shut);
        (listens && socket.bound.is_at(server)).then_some((socket.session, socket.options))
    }

    /// The end of `key`, at `client`, is connected to one that its listener, which is of this
    /// session and these options, is given; `None` if there is no place for that.
    fn meet(
        &mut self,
        key: u32,
        client: SocketAddr,
        (listener, server): (u32, SocketAddr),
        of: (u32, Options),
    ) -> Option<()> {
        let flow = Flow::new(server, client);
        self.endpoints
            .sockets
            .take_place_of_single(&flow, &mut self.endpoints.demux);
        let mut pair = Pair::new(key, client, of.1.tcp.delay.cork);
        pair.flow = Some(flow);
        pair.listener = Some(listener);
        let other = self.insert_accepted(flow, server, pair, of)?;
        if let Some(p) = self.endpoints.sockets.pair_mut(key) {
            p.other = other;
            p.connecting = false;
            p.listener = None;
            p.deferral.end();
        }
        let mut transfers = self.transfers();
        transfers.name_ends(key, other);
        transfers.apply_reading(key);
        self.endpoints.sockets.touch(other);
        self.endpoints.sockets.touch(key);
        Some(())
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
        if self.endpoints.demux.is_taken(&flow) {
            return None;
        }
        let share = self
            .endpoints
            .sessions
            .take_socket_share(session, self.counters)?;
        let id = SocketId {
            index: NONE,
            generation: 0,
        };
        let mut accepted = Socket::new(id, session, None, options, Kind::Pair(pair));
        accepted.share = share;
        accepted.bound.set_local(server);
        let other = self.endpoints.sockets.insert(accepted);
        self.endpoints.demux.insert(flow, other);
        if self.hand_over(other).is_none() {
            self.endings().forget(other);
            return None;
        }
        Some(other)
    }

    /// Moves what can be moved and tells both hosts what is new.
    pub(crate) fn flush_pair(&mut self, key: u32) {
        if let Some(p) = self.endpoints.sockets.pair_mut(key) {
            p.waits.end_retry();
            let (deferred, urgent) = (p.deferral.is_under_way(), p.snd.is_urgent());
            if deferred {
                self.end_deferral(key);
            }
            if urgent {
                self.endpoints.sockets.pass_on_urgent(key);
            }
        }
        let Some(moved) = self.transfers().move_pieces(key) else {
            return;
        };
        if let Some(p) = self.endpoints.sockets.pair_mut(key)
            && p.is_over()
        {
            let was_made = !p.connecting;
            let is_given_up = p.snd.is_shut() || p.rcv.is_shut();
            self.endpoints
                .sockets
                .leave_table(key, &mut self.endpoints.demux);
            if let Some(socket) = self.endpoints.sockets.get_mut(key) {
                socket.bound.give_port_back(key, &mut self.endpoints.demux);
                if !was_made && is_given_up {
                    let v6 = socket.options.ipv6;
                    socket
                        .bound
                        .leave_address(v6, key, &mut self.endpoints.demux);
                }
            }
        }
        let mut transfers = self.transfers();
        transfers.report_moved(key, moved);
        if transfers.is_pair_done(key) {
            self.endings().forget(key);
        }
    }

    /// If an end was deferred and need not be any more, lets it through to its listener.
    fn end_deferral(&mut self, key: u32) {
        let now = self.now;
        let Some(p) = self.endpoints.sockets.pair_mut(key) else {
            return;
        };
        if p.dead.is_none() && p.deferral.is_over(now, p.snd.has_begun()) {
            self.enter_listener(key);
        }
        self.endpoints.sockets.arm(key);
    }
}

impl Sockets {
    /// An end that wants to be connected is refused, or reset if it was connected already. It leaves
    /// the table of connections as it is flushed.
    fn refuse(&mut self, key: u32) {
        if let Some(p) = self.pair_mut(key) {
            p.dead = Some(if p.connecting { 111 } else { RESET });
            p.listener = None;
            p.deferral.end();
        }
        self.touch(key);
    }

    /// An end has no place in the table of connections any more.
    pub(crate) fn leave_table(&mut self, key: u32, demux: &mut Demux) {
        if let Some(flow) = self.pair_mut(key).and_then(|p| p.flow.take()) {
            demux.remove(&flow);
        }
    }

    /// The other end of a connection, or its listener, is gone without a word.
    pub(crate) fn lose_other_end(&mut self, key: u32) {
        if let Some(p) = self.pair_mut(key) {
            p.other = NONE;
        }
        self.refuse(key);
    }

    /// An end that was reset, or whose other end is gone, and that its host has not closed yet,
    /// has no use for its place in the table: nothing comes for it any more, and a client may
    /// connect from that port again, to which it was bound or which it was given.
    fn take_place_of_single(&mut self, flow: &Flow, demux: &mut Demux) {
        if let Some(Found::Socket(key)) = demux.peek(flow)
            && let Some(p) = self.pair_mut(key)
            && (p.dead.is_some() || p.has_lost_other())
            && p.flow.take().is_some()
        {
            demux.remove(flow);
        }
    }
}
