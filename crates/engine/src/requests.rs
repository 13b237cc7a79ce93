//! What the host asks: taking requests out of the channels and doing them.
//!
//! Every field is a claim. A request for a socket that the session does not
//! have, or an edge that cannot be, is counted and passed over; it can harm
//! nobody but its sender.

mod edges;
mod setup;

use crate::attach::turns::Of;
use crate::connection::RequestError;
use crate::engine::Engine;
use crate::session::{LONGEST_STALL, SHORTEST_STALL, Session};
use crate::socket::{Kind, Options};
use longshore_hostif::{
    Address, Completion, EdgeFlags, OptionName, Query, RING, Request, SendQueue, SocketId,
};
use longshore_tcp::Instant;
use std::sync::atomic::Ordering;

/// Requests taken from one channel in one turn, so that a busy process does not
/// keep packets and timers waiting.
const BATCH: u32 = 256;

/// Requests taken from one session in one turn; those of one user have a share, too
/// (`attach::turns`).
const BATCH_OF_A_SESSION: u32 = 1024;

/// How long one session may be served in one turn, and how long all may be, in microseconds:
/// some requests take long, as those for a port where hardly any is free.
const SHARE: u64 = 250;
const ALL_SHARES: u64 = 1_000;

/// Which session, channel and socket a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    session: u32,
    channel: u16,
}

/// What a session may still have of this turn.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Requests.
    left: u32,
    /// When its time is over, once a request was served that may take long.
    until: Option<Instant>,
    /// The first session of this turn whose user had had all that it may.
    denied: Option<u32>,
}

impl Share {
    fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// What a program wants to know of a socket. It is answered at the end of the
/// turn, when the packets that came before it was asked have been taken, and what
/// they led to has been sent.
#[derive(Debug)]
pub(crate) struct Question {
    from: From,
    request: Request,
    query: Query,
}

/// A request to bind to an address that is in use. It is done once more when all that
/// was published before it has been taken: another process may have closed its socket.
#[derive(Debug)]
pub(crate) struct LateBind {
    from: From,
    request: Request,
    local: Address,
}

/// What a request is answered by that has been done, and of which there is no more to say.
const NOTHING: (u64, Address) = (0, Address::NONE);

impl Engine {
    /// Takes requests from all sessions whose processes have published some;
    /// says whether there were any.
    pub(crate) fn take_requests(&mut self) -> bool {
        let mut any = false;
        let end = self.sessions.end();
        let first = if self.first_session < end {
            self.first_session
        } else {
            0
        };
        self.share.denied = None;
        for session in (first..end).chain(0..first) {
            any |= self.take_requests_in(session);
            if self.slow_request && self.clock.now().since(self.now) >= ALL_SHARES {
                // Those after this one begin the next turn.
                self.first_session = session + 1;
                self.counters.request_waits += 1;
                break;
            }
        }
        // Whose user had no more of this turn comes first in the next.
        if let Some(denied) = self.share.denied {
            self.first_session = denied;
        }
        self.slow_request = false;
        any
    }

    /// Takes requests from one session, if its processes have published some.
    pub(crate) fn take_requests_in(&mut self, session: u32) -> bool {
        let Some(s) = self.sessions.get(session) else {
            return false;
        };
        let pending = &s.arena.header().requests_pending;
        if pending.any.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let user_has = self.requests_left(session);
        let (arena, words) = (s.arena.clone(), s.processes.len() / 64);
        if user_has == 0 {
            self.share.denied.get_or_insert(session);
            self.counters.request_waits += 1;
            return true;
        }
        let first = s.first_word % words;
        let pending = &arena.header().requests_pending;
        pending.any.store(0, Ordering::SeqCst);
        self.share.left = BATCH_OF_A_SESSION.min(user_has);
        self.share.until = None;
        let before = self.share.left;
        for i in (first..words).chain(0..first) {
            let bits = &pending.channels[i];
            let mut word = bits.swap(0, Ordering::AcqRel);
            while word != 0 && !self.share.is_spent() {
                let channel = (i * 64) as u16 + word.trailing_zeros() as u16;
                word &= word - 1;
                self.take_from(From { session, channel });
            }
            if self.share.is_spent() {
                bits.fetch_or(word, Ordering::AcqRel);
                pending.any.store(1, Ordering::Release);
                if let Some(s) = self.sessions.get_mut(session) {
                    s.first_word = i + 1;
                }
                self.counters.request_waits += 1;
                break;
            }
        }
        self.spend_requests(session, before - self.share.left);
        self.share.left != before
    }

    /// How many requests the user of a session may still have served in this turn.
    fn requests_left(&self, session: u32) -> u32 {
        let user = self.sessions.get(session).and_then(|s| s.user.as_ref());
        user.map_or(u32::MAX, |user| {
            user.spent.left(Of::Requests, self.counters.turns)
        })
    }

    fn spend_requests(&self, session: u32, n: u32) {
        if let Some(user) = self.sessions.get(session).and_then(|s| s.user.as_ref()) {
            user.spent.spend(Of::Requests, self.counters.turns, n);
        }
    }

    /// A request that may have taken long was served: the session's share of the turn is
    /// over when it did, or when several have.
    #[cold]
    fn spend_time(&mut self) {
        let now = self.clock.now();
        self.slow_request = true;
        let until = *self.share.until.get_or_insert(Instant(now.0 + SHARE));
        if now >= until || now.since(self.now) >= ALL_SHARES {
            self.share.left = 0;
        }
    }

    /// Looks again at channels whose processes took no answers.
    #[cold]
    pub(crate) fn retry_stalled(&mut self) {
        self.stalled_until = Instant::NEVER;
        for session in 0..self.sessions.end() {
            let Some(s) = self.sessions.get_mut(session) else {
                continue;
            };
            if s.stalled_until > self.now {
                self.stalled_until = self.stalled_until.min(s.stalled_until);
                continue;
            }
            s.stalled_until = Instant::NEVER;
            for channel in std::mem::take(&mut s.stalled) {
                Self::look_again(s, channel);
            }
        }
    }

    /// The process takes no answers: its requests wait, ever longer, until it has taken
    /// some. Nothing tells the engine when.
    #[cold]
    fn stall(&mut self, from: From) {
        let now = self.now;
        let Some(s) = self.sessions.get_mut(from.session) else {
            return;
        };
        if !s.stalled.contains(&from.channel) {
            s.stalled.push(from.channel);
        }
        s.stalled_until = s.stalled_until.min(Instant(now.0 + s.stalled_for));
        s.stalled_for = (2 * s.stalled_for).min(LONGEST_STALL);
        self.stalled_until = self.stalled_until.min(s.stalled_until);
        self.counters.stalled_channels += 1;
    }

    /// The process broke a ring: nothing is taken from it any more.
    #[cold]
    fn break_channel(&mut self, from: From) {
        if let Some(s) = self.sessions.get_mut(from.session)
            && let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel))
        {
            process.is_broken = true;
            s.bad_descriptors += 1;
            self.counters.broken_channels += 1;
        }
    }

    /// Takes requests of one channel of a session.
    pub(crate) fn take_requests_of(&mut self, session: u32, channel: u32) {
        if let Some(s) = self.sessions.get(session)
            && (channel as usize) < s.processes.len()
        {
            let channel = channel as u16;
            self.share.left = BATCH + 1;
            self.share.until = None;
            self.take_from(From { session, channel });
        }
    }

    fn take_from(&mut self, from: From) -> bool {
        if let Some(s) = self.sessions.get_mut(from.session)
            && s.processes[usize::from(from.channel)].is_none()
        {
            let adopted = s.adopt(from.channel).is_some();
            let has_reservation = s.has_new_reservation;
            // Who claims it was asked of the kernel, which takes its time.
            self.spend_time();
            if !adopted {
                if has_reservation {
                    self.keep_house_soon();
                }
                return false;
            }
            self.watch_process(from.session, from.channel);
        }
        self.tell_rest(from);
        // An answer must find room: otherwise the rest waits until the process has
        // taken what it has.
        self.take_some(from, BATCH, 8)
    }

    /// Tells a process that may have room again of the sockets for which it had none: no
    /// more than there is room for, each where its edges are by now.
    fn tell_rest(&mut self, from: From) {
        let Some(s) = self.sessions.get_mut(from.session) else {
            return;
        };
        if !s.has_untold(from.channel) {
            return;
        }
        while let Some(index) = s.next_untold(from.channel) {
            let key = s.key(index);
            let Some(socket) = key.and_then(|key| self.sockets.get_mut(key)) else {
                continue;
            };
            if !socket.subscribers.contains(from.channel) {
                continue;
            }
            let mut edges = socket.edges();
            // A pending error is told once, which may have been then.
            let block = s.arena.block(index);
            if block.has_error() && !edges.flags.contains(EdgeFlags::DEAD) {
                edges.flags |= EdgeFlags::SOFT_ERROR;
                edges.errno = 0;
            }
            if !s.put_edges(from.channel, socket.id, edges) {
                break;
            }
            socket.meter.to_host.descriptors += 1;
            s.wake_for(index);
        }
    }

    /// Takes all that a process published before it died or became another program,
    /// however much that is. Answers that find no room have nobody to read them.
    pub(crate) fn take_last(&mut self, session: u32, channel: u16) {
        self.share.left = RING as u32 + 1;
        self.take_some(From { session, channel }, RING as u32, 0);
    }

    /// Takes at most `most` requests of one channel, while there is room for `room`
    /// completions; says whether there were any.
    fn take_some(&mut self, from: From, most: u32, room: u32) -> bool {
        let mut taken = 0;
        while let Some(s) = self.sessions.get_mut(from.session) {
            let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel)) else {
                break;
            };
            if process.is_broken {
                break;
            }
            if taken == most || self.share.left == 0 {
                Self::look_again(s, from.channel);
                break;
            }
            match process.channel.room(&s.arena) {
                Ok(free) if free >= room + process.owed => {}
                Ok(_) => {
                    // What it has published is looked at only when there is some.
                    if process.channel.pending(&s.arena) {
                        self.stall(from);
                    }
                    break;
                }
                Err(_) => {
                    self.break_channel(from);
                    break;
                }
            }
            let message = match process.channel.get(&s.arena) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => {
                    self.break_channel(from);
                    break;
                }
            };
            taken += 1;
            self.share.left -= 1;
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
        {
            s.note_taken(from.channel);
            s.stalled_for = SHORTEST_STALL;
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
    pub(crate) fn key_of(&self, session: u32, id: SocketId) -> Option<u32> {
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
            let user = self
                .sessions
                .get(from.session)
                .and_then(|s| s.user.as_ref());
            let why = match user {
                Some(user) if user.is_out_of_sockets() => RequestError::TooManySockets,
                _ => RequestError::NoSocket,
            };
            self.answer(from, request, Err(why));
            return Ok(());
        };
        match *request {
            Request::Open { .. } => {}
            Request::Bind { local, .. } => {
                let bound = self.bind_if_permitted(from, key, local);
                self.spend_time();
                match bound {
                    Err(RequestError::AddressInUse) => {
                        self.owe(from);
                        self.late_binds.push(LateBind {
                            from,
                            request: *request,
                            local,
                        });
                    }
                    bound => self.answer(from, request, bound.map(|local| (0, local.into()))),
                }
            }
            Request::Listen { backlog, .. } => {
                let listens = self.listen(key, backlog);
                self.spend_time();
                self.answer(from, request, listens.map(|()| NOTHING));
            }
            Request::Connect { peer, .. } => {
                let begun = self.connect(key, peer);
                self.spend_time();
                let room = self.syn_room(key);
                self.answer(from, request, begun.map(|local| (room, local.into())));
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
                return moved;
            }
            Request::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            } => {
                self.host_edges(key, snd_edge, rcv_consumed, EdgeFlags::PUSH)?;
                self.host_urgent(key, snd_edge);
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
                self.spend_time();
                return moved;
            }
            Request::Group { group, join, .. } => {
                let changed = self.change_group(key, group, join);
                self.spend_time();
                self.answer(from, request, changed.map(|()| NOTHING));
            }
            Request::SetOption { name, value, .. } => self.set_option(key, name, value),
            Request::Query { query, .. } => {
                self.owe(from);
                self.questions.push(Question {
                    from,
                    request: *request,
                    query,
                });
            }
            Request::Owner { .. } => {
                self.set_owner(from.session, id, key);
                self.answer(from, request, Ok(NOTHING));
            }
            Request::Subscribe { .. } => self.subscribe(from, key),
            Request::Unsubscribe { .. } => self.unsubscribe(from, key),
        }
        Ok(())
    }

    fn unsubscribe(&mut self, from: From, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.subscribers.remove(from.channel);
        if let Some(s) = self.sessions.get_mut(from.session) {
            s.note_transit(key, socket.id.index, self.now);
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
        if matches!(name, OptionName::ReceiveErrors | OptionName::ReceiveErrors6) && value == 0 {
            self.forget_errors(key);
            return;
        }
        match &mut socket.kind {
            Kind::Stream(c) => {
                options.apply(name, &mut c.tcb, now);
                if name == OptionName::ReceiveBuffer {
                    self.heed_receive_buffer(key);
                }
            }
            Kind::Listener(l) => {
                l.listener.set_defer_accept(options.defer_accept_s);
                l.fast_open.set_limit(options.fast_open);
            }
            Kind::Pair(p) if name == OptionName::Cork => p.release_hold(options.tcp.cork),
            Kind::Pair(_) if name == OptionName::SendBuffer => return self.heed_reading(key),
            Kind::Pair(_) | Kind::Datagram(_) | Kind::Idle(_) => return,
        }
        self.touch(key);
    }

    /// Answers what was asked this turn.
    pub(crate) fn answer_questions(&mut self) {
        let mut questions = std::mem::take(&mut self.questions);
        for q in questions.drain(..) {
            let key = self.key_of(q.from.session, q.request.socket());
            let answer = match (key, q.query) {
                (Some(key), Query::TcpInfo) => self.tcp_info(q.from, key),
                (Some(key), Query::Error) => self.take_error(q.from.channel, key),
                (Some(key), Query::SendQueue) => self.send_queue(q.from, key),
                (Some(key), Query::PathMtu) => self.path_mtu(q.from, key),
                (Some(key), Query::Congestion) => self.congestion(q.from, key),
                (None, _) => Err(RequestError::NoSocket),
            };
            let answer = answer.map(|len| (len as u64, Address::NONE));
            self.answer_owed(q.from, &q.request, answer);
        }
        self.questions = questions;
    }

    /// A request is answered later in this turn, or in another: there must be room for it.
    fn owe(&mut self, from: From) {
        if let Some(s) = self.sessions.get_mut(from.session)
            && let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel))
        {
            process.owed += 1;
        }
    }

    /// The answer that was owed.
    fn answer_owed(
        &mut self,
        from: From,
        request: &Request,
        answer: Result<(u64, Address), RequestError>,
    ) {
        if let Some(s) = self.sessions.get_mut(from.session)
            && let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel))
        {
            process.owed = process.owed.saturating_sub(1);
        }
        self.answer(from, request, answer);
    }

    /// Answers a request, if it is one that is answered.
    fn answer(
        &mut self,
        from: From,
        request: &Request,
        answer: Result<(u64, Address), RequestError>,
    ) {
        let Some((tag, waiter)) = request.asked() else {
            return;
        };
        let (errno, value, address) = match answer {
            Ok((value, address)) => (0, value, address),
            Err(e) => (e.errno(), 0, Address::NONE),
        };
        if let Some(s) = self.sessions.get_mut(from.session) {
            s.put_answer(
                from.channel,
                &Completion::Done {
                    socket: request.socket(),
                    tag,
                    errno,
                    value,
                    address,
                },
            );
            s.wake_later(waiter);
        }
    }

    fn send_queue(&self, from: From, key: u32) -> Result<usize, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let (unacked, unsent) = match &socket.kind {
            Kind::Stream(c) => c.tcb.send_queue(),
            // What has crossed is acknowledged.
            Kind::Pair(p) => (p.snd_edge - p.snd_moved, p.snd_edge - p.snd_moved),
            Kind::Datagram(d) => (d.snd_edge - d.snd_done, 0),
            Kind::Listener(_) | Kind::Idle(_) => (0, 0),
        };
        self.answer_at_length(from, &SendQueue { unacked, unsent }.encode())
    }

    fn path_mtu(&self, from: From, key: u32) -> Result<usize, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let peer = match &socket.kind {
            Kind::Datagram(d) => d.peer,
            _ => None,
        };
        let mtu = peer.map(|peer| self.link.mtu_to(peer.ip().to_canonical(), self.now));
        match mtu {
            Some(mtu) => self.answer_at_length(from, &(mtu as u32).to_ne_bytes()),
            None => Ok(0),
        }
    }

    fn congestion(&self, from: From, key: u32) -> Result<usize, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let name = socket.options.tcp.congestion.name();
        self.answer_at_length(from, name.as_bytes())
    }

    /// Writes an answer to the mailbox of who has asked; its length.
    fn answer_at_length(&self, from: From, bytes: &[u8]) -> Result<usize, RequestError> {
        let session = self.sessions.get(from.session);
        let arena = &session.ok_or(RequestError::NoSocket)?.arena;
        Ok(arena.control(u32::from(from.channel)).write_mailbox(bytes))
    }

    fn tcp_info(&self, from: From, key: u32) -> Result<usize, RequestError> {
        let now = self.now;
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
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
        self.answer_at_length(from, &bytes)
    }
}
