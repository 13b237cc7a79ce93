//! What the host asks: taking requests out of the channels and doing them.
//!
//! Every field is a claim. A request for a socket that the session does not
//! have, or an edge that cannot be, is counted and passed over; it can harm
//! nobody but its sender.

use crate::connection::RequestError;
use crate::engine::Engine;
use crate::session::Session;
use crate::socket::{Datagram, Kind, Listening, Options, Socket};
use crate::streams::RcvStream;
use longshore_hostif::{
    Address, Completion, EdgeFlags, OpenFlags, OptionName, Query, Request, STREAM_MAX, SocketId,
    SocketKind,
};
use longshore_tcp::{FastOpenQueue, Listener};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Requests taken from one channel in one turn, so that a busy process does not
/// keep packets and timers waiting.
const BATCH: u32 = 256;

/// Which session, channel and socket a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    session: u32,
    channel: u16,
}

/// What a program wants to know of a socket. It is answered at the end of the
/// turn, when the packets that came before it was asked have been taken, and what
/// they led to has been sent.
#[derive(Debug)]
pub(crate) struct Question {
    from: From,
    socket: SocketId,
    tag: u32,
    waiter: Option<u16>,
}

impl Engine {
    /// Takes requests from all sessions whose processes have published some;
    /// says whether there were any.
    pub(crate) fn take_requests(&mut self) -> bool {
        let mut any = false;
        for session in 0..self.sessions.end() {
            let Some(s) = self.sessions.get(session) else {
                continue;
            };
            if s.arena
                .header()
                .requests_pending
                .any
                .load(Ordering::Relaxed)
                == 0
            {
                continue;
            }
            let (arena, words) = (s.arena.clone(), s.processes.len() / 64);
            let pending = &arena.header().requests_pending;
            pending.any.store(0, Ordering::SeqCst);
            for (i, bits) in pending.channels[..words].iter().enumerate() {
                let mut word = bits.swap(0, Ordering::AcqRel);
                while word != 0 {
                    let channel = (i * 64) as u16 + word.trailing_zeros() as u16;
                    word &= word - 1;
                    any |= self.take_from(From { session, channel });
                }
            }
        }
        any
    }

    fn take_from(&mut self, from: From) -> bool {
        if let Some(s) = self.sessions.get_mut(from.session)
            && s.processes[usize::from(from.channel)].is_none()
        {
            match s.adopt(from.channel) {
                Some(_) => self.watch_process(from.session, from.channel),
                None => return false,
            }
        }
        let mut taken = 0;
        while let Some(s) = self.sessions.get_mut(from.session) {
            let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel)) else {
                break;
            };
            // An answer must find room: otherwise the rest waits until the
            // process has taken what it has.
            let room = process.channel.room(&s.arena).unwrap_or(0);
            if taken == BATCH || room < 8 {
                Self::look_again(s, from.channel);
                break;
            }
            let message = match process.channel.get(&s.arena) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => {
                    s.bad_descriptors += 1;
                    break;
                }
            };
            taken += 1;
            match Request::decode(&message) {
                Ok(request) => {
                    if self.serve(from, &request).is_err() {
                        self.count_bad(from.session);
                    }
                }
                Err(_) => self.count_bad(from.session),
            }
        }
        if taken != 0
            && let Some(s) = self.sessions.get_mut(from.session)
            && let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel))
        {
            process.channel.release(&s.arena);
            s.meter.to_adapter.batch(taken);
        }
        taken != 0
    }

    fn look_again(s: &Session, channel: u16) {
        let pending = &s.arena.header().requests_pending;
        pending.channels[usize::from(channel) / 64].fetch_or(1 << (channel % 64), Ordering::AcqRel);
        pending.any.store(1, Ordering::Release);
    }

    fn count_bad(&mut self, session: u32) {
        if let Some(s) = self.sessions.get_mut(session) {
            s.bad_descriptors += 1;
        }
    }

    /// The engine's key of a socket, if it is still the same one.
    fn key_of(&self, session: u32, id: SocketId) -> Option<u32> {
        let key = self.sessions.get(session)?.key(id.index)?;
        (self.sockets.get(key)?.id == id).then_some(key)
    }

    fn serve(&mut self, from: From, request: &Request) -> Result<(), RequestError> {
        let id = request.socket();
        if let Request::Open { kind, flags, .. } = *request {
            return self.open(from, id, kind, flags);
        }
        let Some(key) = self.key_of(from.session, id) else {
            // Late words of a socket that is gone are no fault; but whoever
            // waits for an answer gets one.
            self.answer_missing(from, request);
            return Ok(());
        };
        match *request {
            Request::Open { .. } => Ok(()),
            Request::Bind {
                tag, waiter, local, ..
            } => {
                let answer = self.bind(key, local);
                self.done(
                    from,
                    id,
                    tag,
                    waiter,
                    answer.map(|local| (0, Address::from(local))),
                );
                Ok(())
            }
            Request::Listen {
                tag,
                waiter,
                backlog,
                ..
            } => {
                let answer = self.listen(key, backlog);
                self.done(from, id, tag, waiter, answer.map(|()| (0, Address::NONE)));
                Ok(())
            }
            Request::Connect {
                tag, waiter, peer, ..
            } => {
                let answer = self.connect(key, peer);
                self.done(
                    from,
                    id,
                    tag,
                    waiter,
                    answer.map(|local| (0, Address::from(local))),
                );
                Ok(())
            }
            Request::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => {
                let moved = self.host_edges(key, snd_edge, rcv_consumed, flags);
                if flags.intersects(EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR) {
                    self.tell_others(from, key);
                }
                moved
            }
            Request::Close {
                snd_edge,
                rcv_consumed,
                linger,
                ..
            } => {
                // What was written and read last comes with the close.
                let moved = self.host_edges(key, snd_edge, rcv_consumed, EdgeFlags::empty());
                self.close(key, Options::linger(linger));
                moved
            }
            Request::SetOption { name, value, .. } => {
                self.set_option(key, name, value);
                Ok(())
            }
            Request::Query {
                tag,
                waiter,
                query: Query::TcpInfo,
                ..
            } => {
                self.questions.push(Question {
                    from,
                    socket: id,
                    tag,
                    waiter,
                });
                Ok(())
            }
            Request::Subscribe { .. } => {
                self.subscribe(from, key);
                Ok(())
            }
            Request::Unsubscribe { .. } => {
                if let Some(socket) = self.sockets.get_mut(key) {
                    socket.subscribers.remove(from.channel);
                    let index = socket.id.index;
                    if let Some(s) = self.sessions.get_mut(from.session) {
                        s.note_transit(key, index, self.now);
                    }
                }
                Ok(())
            }
        }
    }

    fn set_option(&mut self, key: u32, name: OptionName, value: u64) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.options.set(name, value);
        let options = socket.options;
        if name == OptionName::SendBuffer
            && socket.has_block()
            && let Some(s) = self.sessions.get(socket.session)
        {
            // Tuning may have overtaken the host's own note of it.
            let limit = &s.arena.block(socket.id.index).snd.limit;
            limit.store(options.send_buffer, Ordering::Release);
        }
        match &mut socket.kind {
            Kind::Stream(c) => options.apply(name, &mut c.tcb, now),
            Kind::Listener(l) => {
                l.listener.set_defer_accept(options.defer_accept_s);
                l.fast_open.set_limit(options.fast_open);
            }
            Kind::Pair(p) if name == OptionName::Cork => p.release_hold(options.tcp.cork),
            Kind::Pair(_) | Kind::Datagram(_) | Kind::Idle(_) => return,
        }
        self.touch(key);
    }

    /// Answers what was asked this turn.
    pub(crate) fn answer_questions(&mut self) {
        let mut questions = std::mem::take(&mut self.questions);
        for q in questions.drain(..) {
            let answer = match self.key_of(q.from.session, q.socket) {
                Some(key) => self.tcp_info(q.from, key),
                None => Err(RequestError::NoSocket),
            };
            let answer = answer.map(|len| (len as u64, Address::NONE));
            self.done(q.from, q.socket, q.tag, q.waiter, answer);
        }
        self.questions = questions;
    }

    fn answer_missing(&mut self, from: From, request: &Request) {
        if let Request::Bind {
            socket,
            tag,
            waiter,
            ..
        }
        | Request::Listen {
            socket,
            tag,
            waiter,
            ..
        }
        | Request::Connect {
            socket,
            tag,
            waiter,
            ..
        }
        | Request::Query {
            socket,
            tag,
            waiter,
            ..
        } = *request
        {
            self.done(from, socket, tag, waiter, Err(RequestError::NoSocket));
        }
    }

    /// Answers a request.
    fn done(
        &mut self,
        from: From,
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        answer: Result<(u64, Address), RequestError>,
    ) {
        let (errno, value, address) = match answer {
            Ok((value, address)) => (0, value, address),
            Err(e) => (e.errno(), 0, Address::NONE),
        };
        if let Some(s) = self.sessions.get_mut(from.session) {
            s.put(
                from.channel,
                &Completion::Done {
                    socket,
                    tag,
                    errno,
                    value,
                    address,
                },
            );
            s.wake_later(waiter);
        }
    }

    fn open(
        &mut self,
        from: From,
        id: SocketId,
        kind: SocketKind,
        flags: OpenFlags,
    ) -> Result<(), RequestError> {
        let mut options = Options::new(flags);
        if let (SocketKind::Stream, Some(settings)) = (kind, &mut self.host_settings) {
            options.tcp = settings.tcp(self.now);
        }
        options.tcp.ecn = self.ecn.unwrap_or(options.tcp.ecn);
        let s = self
            .sessions
            .get_mut(from.session)
            .ok_or(RequestError::NoSocket)?;
        if s.arena.get_block(id.index).is_none() || s.key(id.index).is_some() {
            return Err(RequestError::NoSocket);
        }
        let socket = Socket::new(
            id,
            from.session,
            Some(from.channel),
            options,
            Kind::Idle(kind),
        );
        let key = self.sockets.insert(socket);
        s.enter(id, key);
        Ok(())
    }

    /// Binds a socket; port 0 asks for any.
    fn bind(&mut self, key: u32, local: Address) -> Result<SocketAddr, RequestError> {
        let mut local = local.get().ok_or(RequestError::Invalid)?;
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let Kind::Idle(kind) = socket.kind else {
            return Err(RequestError::Invalid);
        };
        if socket.local.is_some() {
            return Err(RequestError::Invalid);
        }
        let (reuse, v6_only) = (socket.options.reuse, socket.options.v6_only);
        if !local.ip().is_unspecified() {
            local = Self::meant(&socket.options, local).map_err(|_| RequestError::Invalid)?;
            if !self.is_local(local.ip()) {
                return Err(RequestError::AddressNotAvailable);
            }
        }
        let ports = match kind {
            SocketKind::Stream => &mut self.demux.tcp,
            SocketKind::Datagram => &mut self.demux.udp,
        };
        if local.port() == 0 {
            let port = ports.pick((key, self.now.0), |p| ports.is_free(p));
            local.set_port(port.ok_or(RequestError::AddressInUse)?);
        }
        if !ports.bind(local, key, reuse, v6_only) {
            return Err(RequestError::AddressInUse);
        }
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        socket.local = Some(local);
        if kind == SocketKind::Datagram {
            socket.kind = Kind::Datagram(Datagram::default());
        }
        Ok(local)
    }

    fn listen(&mut self, key: u32, backlog: u32) -> Result<(), RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let v6 = socket.options.ipv6;
        if matches!(socket.kind, Kind::Idle(SocketKind::Stream)) && socket.local.is_none() {
            let any: IpAddr = if v6 {
                Ipv6Addr::UNSPECIFIED.into()
            } else {
                Ipv4Addr::UNSPECIFIED.into()
            };
            self.bind(key, Address::from(SocketAddr::new(any, 0)))?;
        }
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let local = socket.local.ok_or(RequestError::Invalid)?;
        match &mut socket.kind {
            Kind::Idle(SocketKind::Stream) => {
                if !self.demux.tcp.listen(local, key) {
                    return Err(RequestError::AddressInUse);
                }
                socket.kind = Kind::Listener(Listening {
                    listener: Self::new_listener(backlog, &socket.options),
                    fast_open: {
                        let mut queue = FastOpenQueue::new();
                        queue.set_limit(socket.options.fast_open);
                        queue
                    },
                    rcv: RcvStream::EMPTY,
                    rcv_edge: 0,
                    rcv_consumed: 0,
                    queue: std::collections::VecDeque::new(),
                    line: Vec::new(),
                    told: 0,
                });
                Ok(())
            }
            Kind::Listener(l) => {
                l.listener.set_backlog(backlog);
                Ok(())
            }
            _ => Err(RequestError::Invalid),
        }
    }

    fn new_listener(backlog: u32, options: &Options) -> Listener {
        let mut listener = Listener::new(backlog);
        listener.set_defer_accept(options.defer_accept_s);
        listener.set_cookies(options.tcp.syn_cookies);
        listener.set_abort_on_overflow(options.tcp.abort_on_overflow);
        listener
    }

    fn connect(&mut self, key: u32, peer: Address) -> Result<SocketAddr, RequestError> {
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        if let (Address::NONE, Kind::Datagram(d), Some(local)) =
            (peer, &mut socket.kind, socket.local)
        {
            d.peer = None;
            return Ok(local);
        }
        let peer = peer.get().ok_or(RequestError::Invalid)?;
        match &socket.kind {
            Kind::Idle(SocketKind::Stream) => self.open_connection(key, peer),
            // A connection that failed or is over may be tried again on the same
            // socket, from the same address if it was bound.
            Kind::Stream(c) if c.retired => self.open_connection(key, peer),
            Kind::Pair(p) if p.dead.is_some() => self.open_connection(key, peer),
            Kind::Idle(SocketKind::Datagram) | Kind::Datagram(_) => {
                self.connect_datagram(key, peer)
            }
            Kind::Stream(_) | Kind::Pair(_) => Err(RequestError::AlreadyConnected),
            Kind::Listener(_) => Err(RequestError::Invalid),
        }
    }

    /// Edges from the host. Old ones are no fault: two processes may overtake
    /// each other.
    pub(crate) fn host_edges(
        &mut self,
        key: u32,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
    ) -> Result<(), RequestError> {
        let now = self.now;
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let session = self
            .sessions
            .get_mut(socket.session)
            .ok_or(RequestError::NoSocket)?;
        match &mut socket.kind {
            Kind::Stream(c) => {
                if rcv_consumed > c.tcb.rcv_edge()
                    || snd_edge.saturating_sub(c.tcb.snd_acked()) > STREAM_MAX
                {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > c.tcb.rcv_consumed() {
                    c.tcb.set_rcv_room(session.rcv_slab.room());
                    c.tcb.set_rcv_consumed(rcv_consumed, now);
                    let all = rcv_consumed == c.tcb.rcv_edge() && !c.tcb.has_out_of_order();
                    c.rcv.consume(rcv_consumed, all, &mut session.rcv_slab);
                }
                if snd_edge > c.tcb.snd_edge() && !c.tcb.send_shut() {
                    c.tcb
                        .set_snd_edge(snd_edge, !flags.contains(EdgeFlags::MORE));
                }
                if flags.contains(EdgeFlags::SHUT_WR) {
                    c.tcb.shutdown_send();
                }
                if flags.contains(EdgeFlags::SHUT_RD) {
                    c.tcb.shutdown_recv();
                }
                self.touch(key);
                Ok(())
            }
            Kind::Listener(l) => {
                let accepted = Self::records_read(l, rcv_consumed, session)?;
                let line = if accepted.is_empty() {
                    Vec::new()
                } else {
                    std::mem::take(&mut l.line)
                };
                for key in accepted {
                    match self.sockets.get_mut(key).map(|s| &mut s.kind) {
                        Some(Kind::Stream(c)) => c.listener = None,
                        Some(Kind::Pair(p)) => p.listener = None,
                        _ => {}
                    }
                }
                self.next_in_line(line);
                Ok(())
            }
            Kind::Pair(p) => {
                if rcv_consumed > p.rcv_edge || snd_edge.saturating_sub(p.snd_moved) > STREAM_MAX {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > p.rcv_consumed {
                    p.rcv_consumed = rcv_consumed;
                    p.rcv.consume(
                        rcv_consumed,
                        rcv_consumed == p.rcv_edge,
                        &mut session.rcv_slab,
                    );
                }
                if !p.shut {
                    p.snd_edge = p.snd_edge.max(snd_edge);
                    p.more_follows = flags.contains(EdgeFlags::MORE);
                }
                p.shut |= flags.contains(EdgeFlags::SHUT_WR);
                p.deaf |= flags.contains(EdgeFlags::SHUT_RD);
                let other = p.other;
                self.touch(key);
                self.touch(other);
                Ok(())
            }
            Kind::Datagram(d) => {
                if rcv_consumed > d.rcv_edge || snd_edge.saturating_sub(d.snd_done) > STREAM_MAX {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > d.rcv_consumed {
                    d.rcv_consumed = rcv_consumed;
                    let all = rcv_consumed == d.rcv_edge;
                    if let Some(rcv) = &mut d.rcv {
                        rcv.consume(rcv_consumed, all, &mut session.rcv_slab);
                    }
                }
                d.snd_edge = d.snd_edge.max(snd_edge);
                self.touch(key);
                Ok(())
            }
            Kind::Idle(_) => Err(RequestError::Invalid),
        }
    }

    fn records_read(
        l: &mut Listening,
        consumed: u64,
        session: &mut Session,
    ) -> Result<Vec<u32>, RequestError> {
        const RECORD: u64 = longshore_hostif::ACCEPT_RECORD as u64;
        if consumed > l.rcv_edge || !consumed.is_multiple_of(RECORD) {
            return Err(RequestError::BadEdge);
        }
        if consumed <= l.rcv_consumed {
            return Ok(Vec::new());
        }
        let read = ((consumed - l.rcv_consumed) / RECORD) as usize;
        let accepted: Vec<u32> = l.queue.drain(..read.min(l.queue.len())).collect();
        accepted.iter().for_each(|_| l.listener.on_accepted());
        l.rcv_consumed = consumed;
        l.rcv
            .consume(consumed, consumed == l.rcv_edge, &mut session.rcv_slab);
        Ok(accepted)
    }

    fn subscribe(&mut self, from: From, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(socket.session) else {
            return;
        };
        if !socket.subscribers.add(from.channel) {
            // Too many to be told each time: it looks when it is told to.
            session
                .arena
                .control(u32::from(from.channel))
                .lost
                .store(1, Ordering::Release);
        }
        let completion = Completion::Edges {
            socket: socket.id,
            edges: socket.edges(),
        };
        session.put(from.channel, &completion);
        session.wake_for(socket.id.index);
        socket.note_told();
    }

    /// A process has shut a half of a socket down that others have too: they look
    /// at its block, where it says so.
    fn tell_others(&mut self, from: From, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if socket.subscribers.single() == Some(from.channel) {
            return;
        }
        let (id, to, edges) = (socket.id, socket.subscribers, socket.edges());
        socket.note_told();
        socket.meter.to_host.descriptors += 1;
        if let Some(s) = self.sessions.get_mut(from.session) {
            s.post(id.index, &to, &Completion::Edges { socket: id, edges });
        }
    }

    fn tcp_info(&mut self, from: From, key: u32) -> Result<usize, RequestError> {
        let now = self.now;
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let session = self
            .sessions
            .get(socket.session)
            .ok_or(RequestError::NoSocket)?;
        let bytes = match &socket.kind {
            Kind::Stream(c) => crate::info::linux_tcp_info(&c.tcb.info(now)),
            Kind::Pair(p) => {
                let other = self.sockets.get(p.other).and_then(|s| match &s.kind {
                    Kind::Pair(q) => Some((q, &s.options)),
                    _ => None,
                });
                crate::info::of_pair(p, &socket.options, other)
            }
            Kind::Listener(_) | Kind::Idle(_) => crate::info::without_connection(&socket.kind),
            Kind::Datagram(_) => return Err(RequestError::Invalid),
        };
        Ok(session
            .arena
            .control(u32::from(from.channel))
            .write_mailbox(&bytes))
    }

    /// No process holds the socket any more: what was written is still
    /// delivered, unless it lingers for no time at all.
    pub(crate) fn close(&mut self, key: u32, linger: longshore_tcp::Linger) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.orphan = true;
        match &mut socket.kind {
            Kind::Stream(c) => {
                c.tcb.set_linger(linger);
                c.tcb.close(now);
                self.touch(key);
            }
            Kind::Pair(_) => self.close_pair(key, linger == longshore_tcp::Linger::Reset),
            Kind::Listener(l) => {
                let queue: Vec<u32> = l.queue.drain(..).collect();
                let line = std::mem::take(&mut l.line);
                let children = self.children_of(key);
                for child in queue.into_iter().chain(children) {
                    self.abort(child);
                }
                self.forget(key);
                self.next_in_line(line);
            }
            Kind::Datagram(_) => self.touch(key),
            Kind::Idle(_) => self.forget(key),
        }
    }

    /// Resets a connection.
    pub(crate) fn abort(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.orphan = true;
        match &mut socket.kind {
            Kind::Stream(c) => c.tcb.abort(),
            Kind::Pair(_) => self.close_pair(key, true),
            _ => {}
        }
        self.touch(key);
    }

    /// Half-open connections of a listener.
    fn children_of(&self, listener: u32) -> Vec<u32> {
        let is_child =
            |s: &Socket| matches!(&s.kind, Kind::Stream(c) if c.listener == Some(listener));
        self.sockets
            .iter()
            .filter(|(_, s)| is_child(s))
            .map(|(key, _)| key)
            .collect()
    }
}
