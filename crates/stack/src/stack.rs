//! The stack, as its caller sees it.
//!
//! Owns [`Stack`] with all of its calls. What it does by itself is in files of its own: which part a
//! packet or a request is for (`served`), the parts with what each borrows (`parts`), the packets
//! that are predicted (`fast_input`, `in_place`), and what becomes of a panic (`containment`).

mod containment;
mod fast_input;
pub(crate) mod in_place;
mod late_binds;
mod lifecycle;
mod parts;
mod served;

use crate::answer_limit::AnswerLimits;
use crate::at_work::AtWork;
use crate::counters::Counters;
use crate::endpoints::Endpoints;
use crate::fragments::Fragments;
use crate::link::routing::AddressError;
use crate::link::{Interface, Link};
use crate::requests::{From, Unanswered};
use crate::responder::Responder;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::status::Status;
use crate::violation::Violation;
use containment::Containment;
use in_place::{BulkRun, Received};
pub use late_binds::LateBinds;
pub use lifecycle::Lifecycle;
use longshore_frames::{Port, RecvBuffer, RxMeta};
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{Loopback, Request};
use longshore_tcp::Instant;

/// The stack. Its caller makes these calls, in each turn in this order:
///
/// 1. [`begin_turn`](Self::begin_turn), with the time, by which all goes until the next;
/// 2. [`handle_request`](Self::handle_request) for each request of a program, of which some may be
///    left to the next turn;
/// 3. [`frame_in`](Self::frame_in) for each frame of the port, of whose length
///    [`note_received`](Self::note_received) is told before, or
///    [`receive_bulk`](Self::receive_bulk), which takes it from the port itself, where
///    [`expects_bulk`](Self::expects_bulk) says so; [`looked_at_port`](Self::looked_at_port) when
///    there is none left; and [`take_own_packets`](Self::take_own_packets) for those that were sent
///    to addresses of its own;
/// 4. [`handle_timeouts`](Self::handle_timeouts), due at
///    [`next_timeout`](Self::next_timeout) at the latest,
///    [`relieve_memory_pressure`](Self::relieve_memory_pressure), and
///    [`flush`](Self::flush), which sends what is to be sent;
/// 5. what [`late_binds`](Self::late_binds) has,
///    [`answer_questions`](Self::answer_questions), and [`publish`](Self::publish), by which programs
///    see what has come of it; then what the port holds back is flushed
///    ([`port_mut`](Self::port_mut)).
///
/// If [`has_work_left`](Self::has_work_left) then, the next turn is due at once. The other calls may
/// stand between any two of these, among them those by which sessions begin and end
/// ([`lifecycle`](Self::lifecycle)).
pub struct Stack {
    /// The time of this turn.
    now: Instant,
    link: Link,
    /// The sockets, and the sessions that have them.
    pub endpoints: Endpoints,
    fragments: Fragments,
    limits: AnswerLimits,
    /// What the operator has chosen.
    pub settings: Settings,
    unanswered: Unanswered,
    /// What has been done, and dropped.
    pub counters: Counters,
    /// When deadlines are looked at next.
    next_tick: Instant,
    bulk_run: BulkRun,
}

impl Stack {
    /// A stack without sockets.
    ///
    /// # Errors
    /// [`AddressError`], if the addresses cannot be.
    pub fn new(
        interface: Interface<'_>,
        settings: Settings,
        secrets: &Secrets,
        now: Instant,
    ) -> Result<Self, AddressError> {
        let loopback = settings.loopback == Loopback::Engine;
        let link = Link::new(interface, loopback, secrets, now)?;
        Ok(Self {
            now,
            link,
            endpoints: Endpoints::new(secrets, now),
            fragments: Fragments::new(),
            limits: AnswerLimits::default(),
            settings,
            unanswered: Unanswered::default(),
            counters: Counters::new(),
            next_tick: now,
            bulk_run: BulkRun::new(),
        })
    }

    /// Its port.
    #[inline]
    pub fn port(&self) -> &dyn Port {
        self.link.output.device.port()
    }

    /// Its port, to take frames from and to flush.
    #[inline]
    pub fn port_mut(&mut self) -> &mut dyn Port {
        self.link.output.device.port_mut()
    }

    /// The port's interface has come, changed or gone ([`Port::link_events_fd`]).
    pub fn handle_port_change(&mut self) {
        self.link.take_port_events(self.now);
        self.endpoints.demux.forget_known();
    }

    /// Tells the server that has given an address that it is not used any more. The stack still
    /// has it: this is for one that is about to end.
    pub fn give_addresses_back(&mut self) {
        self.link.release(self.now, &mut self.counters);
    }

    /// Its link.
    #[cfg(test)]
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// The time by which all goes.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time has passed within a turn, or between two.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// A turn begins at this time, which is not before that of the last.
    #[inline]
    pub fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        self.counters.event_loop.turns += 1;
    }

    /// Whether a turn has left something for the next, beside requests and timers.
    #[inline]
    #[must_use]
    pub fn has_work_left(&self) -> bool {
        self.endpoints.sockets.have_work_left()
            || self.endpoints.half_open.are_given_up()
            || self.endpoints.sockets.given_up.are_any()
            || !self.link.output.own.is_empty()
            || self.unanswered.has_late_binds()
    }

    /// Does what a process asks, with the immediate data that came with it. What makes no sense
    /// is counted as its session's fault.
    pub fn handle_request(&mut self, from: From, request: &Request, immediate: &Immediate) {
        self.endpoints.sessions.at_work = AtWork::Session(from.session);
        let served = match *request {
            Request::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => self.serve_edges(from, request, immediate, (snd_edge, rcv_consumed, flags)),
            _ => self.serve(from, request),
        };
        if served.is_err() {
            self.endpoints.sessions.count_bad(from.session);
        }
        self.endpoints.sessions.at_work = AtWork::Nobodys;
    }

    /// Tells a process that may have room again of the sockets for which it had none: no
    /// more than there is room for, each where its edges are by now.
    pub fn report_rest(&mut self, from: From) {
        self.endpoints
            .sockets
            .report_rest(from, &mut self.endpoints.sessions);
    }

    /// Whether the next frame is probably bulk of the same connection as those before, so that
    /// [`receive_bulk`](Self::receive_bulk) takes it.
    #[inline(always)]
    #[must_use]
    pub fn expects_bulk(&self) -> bool {
        self.bulk_run.is_likely()
    }

    /// A frame of this length was received, and goes to [`frame_in`](Self::frame_in).
    #[inline(always)]
    pub fn note_received(&mut self, len: usize) {
        self.bulk_run.note_frame(len);
    }

    /// Takes a frame from the port into `buffer`, or a segment into place. `is_first`: before a
    /// frame is dealt with, the caller does what programs have asked; if they have asked for
    /// something, no segment is taken into place.
    #[inline(never)]
    pub fn receive_bulk(&mut self, buffer: &mut RecvBuffer, is_first: bool) -> Received {
        let received = self.receive_next(buffer, is_first);
        self.endpoints.sessions.at_work = AtWork::Nobodys;
        received.unwrap_or_else(|| {
            Received::Usual(self.link.output.device.port_mut().recv_single(buffer))
        })
    }

    /// A frame from the port.
    #[inline]
    pub fn frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        if !self.frame_by_prediction(frame, meta) {
            self.unpredicted_frame_in(frame, meta);
        }
        self.endpoints.sessions.at_work = AtWork::Nobodys;
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub fn expire_fragments(&mut self) {
        let responder = &mut Responder::new(
            &mut self.link,
            &mut self.limits,
            &mut self.counters,
            self.now,
        );
        self.fragments.expire(responder);
    }

    /// Takes the packets that were sent to addresses of its own; says how many.
    #[inline]
    pub fn take_own_packets(&mut self) -> usize {
        if self.link.output.own.is_empty() {
            return 0;
        }
        self.answering().take_own()
    }

    /// Does what is due; says whether any socket's timer was. Deadlines are kept to a tick
    /// of the timer wheel, so of many turns in one the first looks at them.
    #[inline]
    pub fn handle_timeouts(&mut self) -> bool {
        let any = self.now >= self.next_tick && self.handle_tick();
        if self.link.auto.take_changed() {
            self.endpoints
                .sessions
                .publish_routes(&self.link, &self.settings);
            self.endpoints.sockets.retry_unresolved();
        }
        any
    }

    /// A look at the port is over, which brought so many frames.
    #[inline]
    pub fn looked_at_port(&mut self, frames: usize, may_have_more: bool) {
        if self.limits.looked(may_have_more) {
            self.handle_flood(frames, may_have_more);
        }
    }

    /// There may be more than can be read, or was: the port is told how many SYNs it is to let through,
    /// and what was left last is answered if the end was seen.
    #[cold]
    fn handle_flood(&mut self, frames: usize, may_have_more: bool) {
        let port = self.link.output.device.port_mut();
        let notice = self
            .limits
            .decide_on_syns(frames, may_have_more, port, self.now);
        self.counters.notices.extend(notice);
        while let Some(left) = self.limits.take_unanswered() {
            self.frame_in(left.bytes(), &left.meta);
        }
    }

    /// Looks at some of the connections that are short of memory, whether there is some now.
    #[inline]
    pub fn relieve_memory_pressure(&mut self) {
        if !self.endpoints.sockets.short_of_memory.is_empty() {
            self.endpoints
                .sockets
                .look_at_short(&mut self.endpoints.sessions);
            self.endpoints.sessions.at_work = AtWork::Nobodys;
        }
    }

    /// Looks at every socket that this turn has touched; says whether there were any.
    #[inline]
    pub fn flush(&mut self) -> bool {
        let were_given_up =
            self.endpoints.sockets.given_up.are_any() || self.endpoints.half_open.are_given_up();
        if were_given_up {
            self.reset_some();
        }
        let are_touched = self.endpoints.sockets.have_work_left();
        if are_touched {
            self.flush_touched();
            self.endpoints.sessions.at_work = AtWork::Nobodys;
        }
        are_touched || were_given_up
    }

    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do, at the earliest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let endpoints = self.endpoints.next_timeout();
        let neighbors = self.link.neighbor_deadline();
        let syns = self.limits.deadline();
        let first = [endpoints, neighbors, syns].into_iter().flatten().min();
        first.map(|at| at.max(self.next_tick))
    }

    /// Answers what was asked this turn.
    #[inline]
    pub fn answer_questions(&mut self) {
        if self.unanswered.has_questions() {
            self.requests().answer_all();
        }
    }

    /// A process takes no answers any more: what it has asked in this turn has none.
    pub fn forget_unanswered(&mut self, from: From) {
        self.unanswered.forget(from);
    }

    /// Programs see what this turn has done, and are woken for it.
    #[inline]
    pub fn publish(&mut self) {
        let under_way = self
            .endpoints
            .sockets
            .under_way(!self.link.output.own.is_empty());
        let turn = self.counters.event_loop.turns;
        self.counters.waits.wakeups += self.endpoints.sessions.publish(turn, self.now, under_way);
        #[cfg(debug_assertions)]
        self.check_turn();
    }

    /// Requests were taken when this turn had been flushed: what they led to is done in the next.
    pub fn has_taken_late(&mut self) {
        self.endpoints.sockets.are_yet_to_report = true;
    }

    /// Programs learn with which congestion control their sockets begin.
    pub fn publish_congestion(&mut self) {
        let usual = self.settings.default_congestion(self.now);
        for (_, session) in self.endpoints.sessions.iter() {
            session.publish_congestion(usual);
        }
    }

    /// A panic was caught that came out of a method of this stack. The sessions to be ended:
    /// that whose work it was, and those whose sockets its end has led to a panic, too. They
    /// have no sockets any more, and their peers were reset. None are to be ended for a
    /// half-open connection. `None` if it was nobody's work, or such a panic came of its end: the
    /// stack cannot go on.
    pub fn contain_panic(&mut self) -> Option<Vec<u32>> {
        Containment::of(self).contain()
    }

    /// How everything stands, for those who ask.
    pub fn status(&self) -> Status<'_> {
        Status {
            endpoints: &self.endpoints,
            fragments: &self.fragments,
            link: &self.link,
            limits: &self.limits,
            now: self.now,
        }
    }

    /// Whether the parts agree with each other.
    ///
    /// # Errors
    /// The first [`Violation`] that is found.
    pub fn check(&self) -> Result<(), Violation> {
        self.endpoints.check()
    }

    /// As `check`, at the end of a turn, in debug builds: in ever fewer turns, the more there is
    /// to look at.
    ///
    /// # Panics
    /// If something is not as it must be.
    #[cfg(debug_assertions)]
    fn check_turn(&self) {
        let count = self.endpoints.sockets.len() + self.endpoints.sessions.len();
        if crate::endpoints::check::is_due(self.counters.event_loop.turns, count)
            && let Err(violation) = self.check()
        {
            panic!("{violation:?}");
        }
    }
}
