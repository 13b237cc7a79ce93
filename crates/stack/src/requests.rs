//! What the host asks, and doing it. `intake` takes the requests out of the channels.
//!
//! Every field is a claim. A request for a socket that the session does not
//! have, or an edge that cannot be, is counted and passed over; it can harm
//! nobody but its sender.
//!
//! Owns [`Requests`], and [`Setup`] in `setup`; how edges are taken is in `edges`. The stack takes
//! those itself that ask for no more, since nearly all do.

mod answers;
mod edges;
mod options;
mod questions;
mod setup;
mod sources;
mod unanswered;

use crate::at_work::AtWork;
use crate::counters::EngineDrop;
use crate::forwards::Received;
use crate::request_error::RequestError;
use crate::socket::{Options, Reporter};
pub(crate) use edges::EdgesTaken;
use longshore_hostif::{Address, EdgeFlags, Query, Request};
use longshore_tcp::Linger;
use questions::Reader;
pub(crate) use setup::Setup;
pub use unanswered::LateBind;
pub(crate) use unanswered::{Question, Unanswered};

/// Which session and channel a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct From {
    /// The key of the session.
    pub session: u32,
    /// The channel of the process.
    pub channel: u16,
}

/// How far a socket's host has written, and how far it has read, as it says; with what it says
/// besides.
pub(crate) type Moved = (u64, u64, EdgeFlags);

/// What asks for more than that edges are taken.
pub(crate) const MORE_THAN_EDGES: EdgeFlags = EdgeFlags::ACCEPTED
    .union(EdgeFlags::SHUT_RD)
    .union(EdgeFlags::SHUT_WR)
    .union(EdgeFlags::RECORD_END);

/// What a request is answered by that has been done, and of which there is no more to say.
pub(crate) const NOTHING: (u64, Address) = (0, Address::NONE);

/// Does what processes ask: borrows what [`Setup`] does, and the requests that are not answered yet.
pub(crate) struct Requests<'a> {
    pub(crate) setup: Setup<'a>,
    pub(crate) unanswered: &'a mut Unanswered,
}

impl Requests<'_> {
    /// Does what a process asks of the socket of this key, for whose datagrams that is not too
    /// early.
    pub(crate) fn serve(
        &mut self,
        from: From,
        request: &Request,
        key: u32,
    ) -> Result<(), RequestError> {
        match *request {
            Request::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            } => return self.write_urgent(from, key, snd_edge, rcv_consumed),
            Request::Forward {
                snd_edge,
                rcv_consumed,
                flags,
                source,
                from: begin,
                to,
                ..
            } => {
                let received = Received {
                    source,
                    range: begin..to,
                };
                return self.forward(from, key, &received, (snd_edge, rcv_consumed, flags));
            }
            Request::SendFile {
                snd_edge,
                rcv_consumed,
                flags,
                ref extent,
                ..
            } => {
                self.move_edges(from, key, (snd_edge, rcv_consumed, flags))?;
                if let Some(socket) = self.setup.endpoints.sockets.get_mut(key) {
                    socket.kind.note_extent(extent, snd_edge);
                }
            }
            Request::Close {
                snd_edge,
                rcv_consumed,
                linger,
                ..
            } => {
                let moved = (snd_edge, rcv_consumed);
                return self.close_by_host(from, key, moved, linger);
            }
            Request::SetOption { name, value, .. } => self.set_option(key, name, value),
            Request::Subscribe { .. } => {
                if let Some(socket) = self.setup.endpoints.sockets.get_mut(key) {
                    socket.subscribe(
                        from.channel,
                        &mut self.setup.endpoints.sessions,
                        self.setup.now,
                    );
                }
            }
            Request::Unsubscribe { .. } => {
                let now = self.setup.now;
                self.setup
                    .endpoints
                    .sockets
                    .forget_subscriber(key, from.channel, now);
            }
            Request::Bind { .. }
            | Request::Listen { .. }
            | Request::Connect { .. }
            | Request::Group { .. }
            | Request::Sources { .. }
            | Request::TooLong { .. }
            | Request::Query { .. }
            | Request::Owner { .. } => self.serve_asked(from, request, key),
            // The stack has done those.
            Request::Edges { .. } | Request::Open { .. } | Request::Cancel { .. } => {}
        }
        Ok(())
    }

    /// Closes a socket that no process holds any more; what was written and read last comes with
    /// the close.
    fn close_by_host(
        &mut self,
        from: From,
        key: u32,
        (snd_edge, rcv_consumed): (u64, u64),
        linger: Option<u32>,
    ) -> Result<(), RequestError> {
        let (channel, none) = (Some(from.channel), EdgeFlags::empty());
        let moved = self.host_edges(key, channel, (snd_edge, rcv_consumed, none));
        self.setup
            .admission()
            .endings()
            .close(key, Options::linger(linger));
        moved
    }

    /// What a process that has ended had written or read and not yet told us of is taken
    /// from the socket's block, checked like any request.
    fn take_last_edges(&mut self, key: u32) {
        let Some(socket) = self.setup.endpoints.sockets.get(key) else {
            return;
        };
        let Some(s) = self.setup.endpoints.sessions.get(socket.session) else {
            return;
        };
        if !socket.has_block() {
            return;
        }
        if let Some((snd, rcv)) = s.host.blocks().edges_noted(socket.id) {
            // Nobody keeps the bytes of others that it was about to send.
            let reported = socket.kind.snd_edge().min(snd);
            let snd = s.host.send.first_forwarded(socket.id.index, reported..snd);
            let _ = self.host_edges(key, None, (snd, rcv, EdgeFlags::PUSH));
        }
    }

    /// Edges from the host, from the process of `channel` if it still lives. Old ones are no
    /// fault: two processes may overtake each other.
    fn host_edges(
        &mut self,
        key: u32,
        channel: Option<u16>,
        moved: Moved,
    ) -> Result<(), RequestError> {
        let (_, _, flags) = moved;
        if flags.contains(EdgeFlags::ACCEPTED) {
            self.setup.admission().host_accepted(key, channel);
        }
        let taken = self.setup.transfers().take_edges(key, channel, moved)?;
        self.finish_edges(key, channel, moved, taken)
    }

    /// Does what is left to be done when edges were taken.
    pub(crate) fn finish_edges(
        &mut self,
        key: u32,
        channel: Option<u16>,
        (snd_edge, rcv_consumed, _): Moved,
        taken: EdgesTaken,
    ) -> Result<(), RequestError> {
        match taken {
            EdgesTaken::All => {}
            EdgesTaken::AreAccepted => self.setup.admission().take_accepted(key),
            EdgesTaken::IsShut => {
                self.setup.admission().endings().stop_listening(key);
                let moved = (snd_edge, rcv_consumed, EdgeFlags::empty());
                let mut transfers = self.setup.transfers();
                if transfers.take_edges(key, channel, moved)? == EdgesTaken::AreAccepted {
                    self.setup.admission().take_accepted(key);
                }
            }
        }
        Ok(())
    }

    /// Takes where the host's edges are, and what goes with that.
    pub(crate) fn move_edges(
        &mut self,
        from: From,
        key: u32,
        moved: Moved,
    ) -> Result<(), RequestError> {
        let (snd_edge, _, flags) = moved;
        let taken = self.host_edges(key, Some(from.channel), moved);
        if flags.intersects(EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR)
            && let Some(socket) = self.setup.endpoints.sockets.get_mut(key)
        {
            socket.report_to_others(
                from.channel,
                &mut self.setup.endpoints.sessions,
                self.setup.now,
            );
            // The program has ended its attempt to connect, or knows that it has failed.
            if flags.contains(EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR) && socket.kind.has_failed() {
                let (v6, demux) = (socket.options.ipv6, &mut self.setup.endpoints.demux);
                socket.bound.leave_address(v6, key, demux);
            }
        }
        if flags.contains(EdgeFlags::RECORD_END) {
            let socket = self.setup.endpoints.sockets.get_mut(key);
            if socket.is_some_and(|s| !s.kind.end_record(snd_edge)) {
                self.setup.counters.drop(EngineDrop::RecordEndsFull);
            }
        }
        taken
    }

    /// Takes bytes of which the last is urgent.
    fn write_urgent(
        &mut self,
        from: From,
        key: u32,
        snd_edge: u64,
        rcv_consumed: u64,
    ) -> Result<(), RequestError> {
        let options = self
            .setup
            .endpoints
            .sockets
            .get(key)
            .map(|socket| &socket.options);
        let mut flags = EdgeFlags::PUSH;
        flags.set(EdgeFlags::CORK, options.is_some_and(|o| o.tcp.delay.cork));
        self.setup.transfers().pass_on_last_urgent(key);
        self.host_edges(key, Some(from.channel), (snd_edge, rcv_consumed, flags))?;
        if let Some(socket) = self.setup.endpoints.sockets.get_mut(key) {
            socket.kind.set_urgent(snd_edge);
        }
        Ok(())
    }

    /// The host of `sink` has written what another connection has received. If that cannot be,
    /// `sink` is reset: what follows in its stream is not what its host meant.
    fn forward(
        &mut self,
        from: From,
        sink: u32,
        received: &Received,
        moved: Moved,
    ) -> Result<(), RequestError> {
        let (snd_edge, ..) = moved;
        let (session, channel) = (from.session, Some(from.channel));
        let source = self
            .setup
            .transfers()
            .enter_forward(session, sink, received, snd_edge);
        let entered = source.and_then(|source| {
            self.host_edges(sink, channel, moved)?;
            self.setup.transfers().note_end_of_forward(sink, snd_edge)?;
            self.host_edges(source, channel, (0, received.range.end, EdgeFlags::empty()))
        });
        let mut transfers = self.setup.transfers();
        match entered {
            Ok(()) => transfers.count_forwarded(session, (sink, snd_edge), received),
            Err(_) => transfers.give_up_forward(sink),
        }
        entered
    }

    /// Does what is asked of a socket with a request that is answered.
    fn serve_asked(&mut self, from: From, request: &Request, key: u32) {
        let done = match *request {
            Request::Bind { local, .. } => return self.bind_or_wait(from, request, key, local),
            Request::Query { query, .. } => {
                return self.answer_at_end_of_turn(from, request, query);
            }
            Request::Connect { peer, .. } => {
                let begun = self.setup.connect(key, peer);
                let socket = self.setup.endpoints.sockets.get(key);
                let room = socket.map_or(0, |s| s.kind.syn_room());
                begun.map(|local| (room, local.into()))
            }
            Request::Listen { backlog, .. } => self.setup.listen(key, backlog).map(|()| NOTHING),
            Request::Group { group, join, .. } => {
                let changed = self.setup.change_group(key, group, join);
                changed.map(|()| NOTHING)
            }
            Request::Sources {
                group,
                source,
                change,
                ..
            } => {
                let names = (group, source);
                self.setup.change_sources(key, from.channel, names, change)
            }
            Request::TooLong { to, .. } => {
                if let Some(socket) = self.setup.endpoints.sockets.get_mut(key) {
                    let reporter = Reporter {
                        sessions: &mut self.setup.endpoints.sessions,
                        counters: self.setup.counters,
                        now: self.setup.now,
                    };
                    socket.report_too_long(to, self.setup.link, reporter);
                }
                Ok(NOTHING)
            }
            Request::Owner { .. } => {
                let edges = self.setup.endpoints.sockets.get(key);
                let edges = edges.map(|s| s.kind.edges()).unwrap_or_default();
                self.setup
                    .endpoints
                    .sessions
                    .set_owner(from.session, request.socket(), edges);
                Ok(NOTHING)
            }
            // The others have no tag to answer.
            _ => return,
        };
        self.setup.endpoints.sessions.answer(from, request, done);
    }

    /// Binds a socket and answers; later, if the address is in use.
    fn bind_or_wait(&mut self, from: From, request: &Request, key: u32, local: Address) {
        match self.setup.bind(key, local) {
            Err(RequestError::AddressInUse) => {
                self.setup.endpoints.sessions.owe(from);
                self.unanswered.late_binds.push(LateBind {
                    from,
                    request: *request,
                    local,
                });
            }
            bound => self.setup.endpoints.sessions.answer(
                from,
                request,
                bound.map(|local| (0, local.into())),
            ),
        }
    }

    /// Binds a socket whose address was in use once more, and answers; `false` if the address
    /// still is.
    pub(crate) fn bind_again(&mut self, late: &LateBind) -> bool {
        let bound = match self
            .setup
            .endpoints
            .key_of(late.from.session, late.request.socket())
        {
            Some(key) => self.setup.bind(key, late.local),
            None => Err(RequestError::NoSocket),
        };
        if bound == Err(RequestError::AddressInUse) {
            return false;
        }
        let answer = bound.map(|local| (0, local.into()));
        self.setup
            .endpoints
            .sessions
            .answer_owed(late.from, &late.request, answer);
        true
    }

    /// A question is answered when this turn has done all that comes before it.
    fn answer_at_end_of_turn(&mut self, from: From, request: &Request, query: Query) {
        self.setup.endpoints.sessions.owe(from);
        self.unanswered.questions.push_back(Question {
            from,
            request: *request,
            query,
        });
    }

    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub(crate) fn close_unheld(&mut self, key: u32) {
        self.take_last_edges(key);
        let socket = self.setup.endpoints.sockets.get(key);
        let linger = socket.map_or(Linger::Background, |s| {
            s.linger_noted(&self.setup.endpoints.sessions)
        });
        self.setup.admission().endings().close(key, linger);
    }

    /// Writes the answer to a question to the mailbox of the process that has asked; its length.
    fn answer_question(
        &mut self,
        from: From,
        key: u32,
        query: Query,
    ) -> Result<usize, RequestError> {
        if query == Query::Error {
            let socket = self
                .setup
                .endpoints
                .sockets
                .get_mut(key)
                .ok_or(RequestError::NoSocket)?;
            return socket.take_error(from.channel, &self.setup.endpoints.sessions);
        }
        let reader = Reader {
            sockets: &mut self.setup.endpoints.sockets,
            link: self.setup.link,
            now: self.setup.now,
        };
        let answer = reader.answer(key, query)?;
        if answer.is_empty() {
            return Ok(0);
        }
        self.setup
            .endpoints
            .sessions
            .answer_at_length(from, &answer)
    }

    /// Answers what was asked this turn.
    pub(crate) fn answer_all(&mut self) {
        while let Some(q) = self.unanswered.questions.pop_front() {
            self.setup.endpoints.sessions.at_work = AtWork::Session(q.from.session);
            let key = self
                .setup
                .endpoints
                .key_of(q.from.session, q.request.socket());
            let answer = match key {
                Some(key) => self.answer_question(q.from, key, q.query),
                None => Err(RequestError::NoSocket),
            };
            let answer = answer.map(|len| (len as u64, Address::NONE));
            self.setup
                .endpoints
                .sessions
                .answer_owed(q.from, &q.request, answer);
        }
        self.setup.endpoints.sessions.at_work = AtWork::Nobodys;
    }
}
