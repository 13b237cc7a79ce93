//! Connections that are let in through their listeners: what came from the link once its handshake
//! is done, and a connection between two of our own.
//!
//! Owns [`Admission`], which borrows the sockets and all that a new one of them is entered in: the
//! table that finds it, its session, the accept queue and the stream of its listener. `tcp_input`
//! calls it when a handshake is complete, `pair` for connections of our own, `requests` and `flush`
//! as hosts accept what waits.

use crate::at_work::AtWork;
use crate::counters::{Counters, EngineDrop};
use crate::endings::Endings;
use crate::endpoints::Endpoints;
use crate::link::Link;
use crate::messages::Messages;
use crate::session::Session;
use crate::settings::Settings;
use crate::socket::{Kind, PayloadMoved, Socket, as_family, not_sent_of};
use crate::transfers::Transfers;
use crate::unaccepted::Next;
use longshore_hostif::adapter::Subscribers;
use longshore_hostif::{ACCEPT_RECORD, AcceptRecord, EdgeFlags, Moved, NotSent};
use longshore_tcp::Instant;

/// Connections that are taken out of a queue, and of those in line that are let in, at once.
const AT_ONCE: usize = 64;

/// Lets connections in.
pub(crate) struct Admission<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) link: &'a mut Link,
    pub(crate) settings: &'a Settings,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Admission<'_> {
    /// What moves bytes from one socket to another.
    pub(crate) fn transfers(&mut self) -> Transfers<'_> {
        self.endpoints.transfers(self.counters, self.now)
    }

    /// What ends sockets.
    pub(crate) fn endings(&mut self) -> Endings<'_> {
        Endings {
            endpoints: self.endpoints,
            link: self.link,
            counters: self.counters,
            now: self.now,
        }
    }

    /// A connection that came in is established: it gets a block, and its
    /// listener's host a record of it.
    pub(crate) fn established(&mut self, key: u32) {
        if self.hand_over(key).is_none() {
            if let Some(c) = self.endpoints.sockets.connection_mut(key) {
                c.listener = None;
            }
            self.transfers().abort(key);
        }
    }

    /// Gives a connection a block and its listener's host a record of it; `None` if there
    /// is no room for either, which is counted.
    pub(crate) fn hand_over(&mut self, key: u32) -> Option<()> {
        let socket = self.endpoints.sockets.get(key)?;
        let (session_key, options) = (socket.session, socket.options);
        let (listener_key, remote, is_pair) = match &socket.kind {
            Kind::Stream(c) => (c.listener?, c.remote, false),
            Kind::Pair(p) => (p.listener?, p.remote, true),
            _ => return None,
        };
        let not_sent = first_not_sent(socket);
        let port = socket.bound.local()?.port();
        let [local, peer] =
            [socket.bound.local()?, remote].map(|a| as_family(a, options.ipv6).into());
        let (is_own, now) = (
            self.link.addresses.contains(remote.ip().to_canonical()),
            self.now,
        );
        let listener = self.endpoints.sockets.get_mut(listener_key)?;
        let Kind::Listener(l) = &mut listener.kind else {
            return None;
        };
        let subscriber = l.audience.single(&listener.subscribers, is_own, now);
        let session = self.endpoints.sessions.get_mut(session_key)?;
        let Some(id) = session.take_block() else {
            self.counters.drop(EngineDrop::NoSocketLeft);
            return None;
        };
        let record = AcceptRecord {
            socket: id,
            local,
            peer,
            send_limit: options.send_buffer,
            subscriber,
            has_mark: not_sent.is_some(),
        };
        if let Some(not_sent) = not_sent {
            session.host.blocks().begin_not_sent(id.index, &not_sent);
        }
        if is_pair {
            session.host.blocks().begin(options.block_flags(), &record);
        }
        let rule = match listener.messages.as_deref() {
            Some(messages) => Some(messages.timed()),
            None => self.settings.messages.get(&port).copied(),
        };
        let messages = rule.filter(|_| !is_pair);
        let messages = messages.map(|rule| Box::new(Messages::new(rule, 0)));
        let Some(number) = put_accept_record(listener, session, &record) else {
            session.host.blocks().give_back(id);
            self.endpoints
                .sessions
                .arena_is_full(session_key, self.counters);
            return None;
        };
        session.enter(id, key);
        let socket = self.endpoints.sockets.get_mut(key)?;
        socket.id = id;
        socket.subscribers = Subscribers::of_accepted(subscriber);
        socket.messages = messages;
        note_record(&mut socket.kind, number);
        socket.apply_widest_window(&self.endpoints.sessions);
        let options = &socket.options;
        socket.bound.hold(false, options, &mut self.endpoints.demux);
        self.counters.tcp.passive_opens += 1;
        self.endpoints.sockets.touch(listener_key);
        Some(())
    }

    /// Takes some of the connections out of a listener's queue that the host has accepted, and
    /// lets those of our own in for which there is room now. The rest has its turn.
    pub(crate) fn take_accepted(&mut self, listener: u32) {
        let mut left = AT_ONCE;
        while let Some(socket) = self.endpoints.sockets.get_mut(listener)
            && let Kind::Listener(l) = &mut socket.kind
            && l.queue.has_accepted()
        {
            if left == 0 {
                self.endpoints.sockets.touch(listener);
                break;
            }
            left -= 1;
            let session = socket.session;
            if let Some((id, by)) = l.queue.pop_accepted()
                && let Some(key) = self.endpoints.key_of(session, id)
                && let Some(socket) = self.endpoints.sockets.get_mut(key)
            {
                socket.accepted(by, &mut self.endpoints.sessions, self.now);
            }
        }
        self.let_in(listener);
    }

    /// If a listener has room again, some of those in line enter, no more than it has room for.
    /// The rest has its turn.
    fn let_in(&mut self, listener: u32) {
        let mut left = AT_ONCE;
        let mut has_entering = false;
        while let Some(Kind::Listener(l)) = self
            .endpoints
            .sockets
            .get_mut(listener)
            .map(|s| &mut s.kind)
            && l.queue.has_entering()
        {
            has_entering = true;
            if !l.listener.may_establish() {
                break;
            }
            if left == 0 {
                self.endpoints.sockets.touch(listener);
                break;
            }
            left -= 1;
            if let Some(first) = l.queue.pop_entering() {
                self.enter_listener(first);
            }
        }
        if has_entering && let Some(socket) = self.endpoints.sockets.get(listener) {
            socket.mark_entering(&self.endpoints.sessions);
        }
    }

    /// The process of `channel`, if that still lives, has read the record of this connection, and
    /// so those of all before it. Nothing, if the connection waits no more, or never did.
    #[cold]
    pub(crate) fn host_accepted(&mut self, key: u32, channel: Option<u16>) {
        let Some(socket) = self.endpoints.sockets.get(key) else {
            return;
        };
        let (listener, number) = match &socket.kind {
            Kind::Stream(c) => (c.listener, c.record),
            Kind::Pair(p) => (p.listener, p.record),
            _ => return,
        };
        let (id, session) = (socket.id, socket.session);
        // Where its listener is over, another may have that one's place.
        let Some(listener) = listener else {
            return;
        };
        let of_session = self
            .endpoints
            .sockets
            .get_mut(listener)
            .filter(|l| l.session == session);
        let Some(Kind::Listener(l)) = of_session.map(|l| &mut l.kind) else {
            return;
        };
        let (Some(read), Some(s)) = (
            l.read_with(id, number),
            self.endpoints.sessions.get_mut(session),
        ) else {
            return;
        };
        let taken = l.take_records_read(read, channel, &mut s.host.receive);
        debug_assert!(taken.is_ok(), "it has that record");
        self.take_accepted(listener);
    }

    /// Resets some of those whose listeners are over.
    #[inline(never)]
    pub(crate) fn reset_some_waiting(&mut self) {
        for _ in 0..AT_ONCE {
            match self.endpoints.sockets.given_up.next() {
                None => break,
                Some(Next::Accepted(session, id, by)) => {
                    if let Some(key) = self.endpoints.key_of(session, id) {
                        self.endpoints.sessions.at_work = AtWork::Socket(key);
                        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
                            socket.accepted(by, &mut self.endpoints.sessions, self.now);
                        }
                    }
                }
                Some(Next::Reset(session, id)) => {
                    if let Some(key) = self.endpoints.key_of(session, id) {
                        self.endpoints.sessions.at_work = AtWork::Socket(key);
                        self.transfers().abort(key);
                    }
                }
                Some(Next::Refuse(key)) => {
                    self.endpoints.sessions.at_work = AtWork::Socket(key);
                    self.enter_listener(key);
                }
            }
        }
        self.endpoints.sessions.at_work = AtWork::Nobodys;
    }
}

/// What the host is told, of a connection that it has not accepted yet, of what is not sent; `None`
/// if there is no mark for that.
fn first_not_sent(socket: &Socket) -> Option<NotSent> {
    let options = &socket.options;
    if options.not_sent_mark() == 0 && !options.counts_memory() {
        return None;
    }
    match &socket.kind {
        Kind::Stream(c) => Some(not_sent_of(options, &c.tcb)),
        _ => Some(options.not_sent(0, 0)),
    }
}

/// The record of a connection is this one in the receive stream of its listener.
fn note_record(kind: &mut Kind, number: u32) {
    match kind {
        Kind::Stream(c) => {
            // The record says so.
            c.reported.flags = EdgeFlags::CONNECTED;
            c.record = number;
        }
        Kind::Pair(p) => p.record = number,
        Kind::Idle(_) | Kind::Listener(_) | Kind::Datagram(_) => {}
    }
}

/// Puts the record of a connection in the receive stream of its listener, and the connection in
/// its accept queue. Says which one the record is in the stream, modulo 2^32; `None` if there is
/// no room for it.
fn put_accept_record(
    listener: &mut Socket,
    session: &mut Session,
    record: &AcceptRecord,
) -> Option<u32> {
    let Kind::Listener(l) = &mut listener.kind else {
        return None;
    };
    let (base, at, index) = (l.rcv_consumed, l.rcv_edge, listener.id.index);
    let bytes = record.encode();
    let slab = &mut session.host.receive;
    if !l.rcv.hold([base, at, at], &bytes, slab, index) {
        let pieces = l.rcv.place(base, at, &bytes, slab, index).ok()?;
        let count = [
            &mut listener.payload.to_host,
            &mut session.host.meter.to_host.payload,
        ];
        PayloadMoved::count(count, &Moved::of_stream(pieces, at, ACCEPT_RECORD as u64));
    }
    l.rcv_edge += ACCEPT_RECORD as u64;
    l.queue.push(record.socket);
    l.listener.on_waiting();
    Some((at / ACCEPT_RECORD as u64) as u32)
}
