//! The stack of a whole host: what packets and requests mean.
//!
//! [`Stack`] is composed of parts, each of which owns its fields: the sockets with what is
//! to be done for them, the tables that find the socket of a packet, the link with its
//! neighbors and routes, fragments, limits, settings. The engine's loop calls it, in each
//! turn in this order:
//!
//! 1. [`begin_turn`](Stack::begin_turn), with the time, by which all goes until the next;
//! 2. [`handle_request`](Stack::handle_request) for each request of a program,
//!    [`frame_in`](Stack::frame_in) or [`receive_bulk`](Stack::receive_bulk) for each frame of the port, [`take_own_packets`](Stack::take_own_packets) for those
//!    that were sent to addresses of its own;
//! 3. [`handle_timeouts`](Stack::handle_timeouts), due at
//!    [`next_timeout`](Stack::next_timeout) at the latest, and
//!    [`flush`](Stack::flush), which sends what is to be sent;
//! 4. [`answer_questions`](Stack::answer_questions) and [`publish`](Stack::publish), by
//!    which programs see what has come of it.
//!
//! | file | what it has |
//! | --- | --- |
//! | `sockets`, `socket`, `told`, `slab`, `timers`, `timeouts` | the sockets, and what is to be done for which |
//! | `sessions`, `session`, `account`, `turns` | whose sockets they are, which of them are looked at in a turn, how many there may be, and each user's share of a turn |
//! | `in_place`, `fast_input` | packets in, as they nearly always are |
//! | `input`, `input6`, `fragments`, `icmp`, `tcp_input`, `udp_input`, `datagram` | packets in, whatever they are |
//! | `passive`, `half_open`, `admission`, `accept_queue`, `accepted`, `unaccepted`, `cookies`, `fast_open`, `audience` | connections that come in, and who is told of them |
//! | `responder` | what is answered to packets of no socket: resets, SYN-ACKs, cookies, echoes, errors |
//! | `answer_limit`, `syn_drop` | how much of that is answered, and how many SYNs the port lets through |
//! | `requests`, `request_error` | what programs ask, and why it is refused |
//! | `binding` | what sockets are bound to, and from which addresses they connect |
//! | `connection`, `endings`, `orphans` | a connection's life, how sockets end, and what becomes of those that no process holds |
//! | `parts` | the parts below [`Stack`], with the fields that each borrows |
//! | `at_work`, `containment` | whose work is done, and what becomes of a session whose work has led to a panic |
//! | `flush`, `telling` | what a turn has touched: sent and told, each user its share |
//! | `transfers`, `forward`, `forwards` | bytes that go from one socket to another |
//! | `pair`, `pair_end` | connections between two of our own sockets |
//! | `fast_output` | packets out, as they nearly always are |
//! | `output`, `address_pair`, `link` | packets out: headers, routes, neighbors; addresses from servers and routers; a link that has come back |
//! | `errors`, `error_queue` | ICMP errors, as programs are told of them |
//! | `groups` | multicast and broadcasts |
//! | `buffers`, `memory_pressure`, `returns`, `quiet` | how much a connection may hold, what if there is no more, and chunks of send streams that go back |
//! | `demux` | the tables that find the socket of a packet |
//! | `access`, `host`, `settings`, `published` | what the operator has chosen, and what programs read of it |
//! | `counters`, `info`, `status` | what a run costs, and how sockets stand |
//! | `check`, `violation` | whether the parts agree with each other |
//! | `bytes` | writing to headers |
//!
//! Modules use each other in no circle (`scripts/check-boundaries.sh` sees to it): types stand
//! below the handlers. These are methods of the part that they change, or of a small type that
//! borrows the parts which they need and returns what is left to be done; [`Stack`] has those that
//! say what comes after what, and they may call each other.
//!
//! Time, the key of its secrets and the settings of the machine are given to it.
//! What the operator should be told is left in [`Counters::notices`]. The stack reads
//! no clock, waits for nothing and starts nothing.

#![forbid(unsafe_code)]
// No number from the wire or from a program may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod accept_queue;
mod accepted;
mod access;
mod account;
mod address_pair;
mod admission;
mod answer_limit;
mod at_work;
mod audience;
#[cfg(feature = "bench")]
pub mod bench;
mod binding;
mod buffers;
mod bulk_senders;
mod bytes;
mod check;
mod connection;
mod containment;
mod cookies;
mod counters;
mod datagram;
mod demux;
mod endings;
mod error_queue;
mod errors;
mod fast_input;
mod fast_open;
mod fast_output;
mod fetched;
mod flush;
mod forward;
mod forwards;
mod fragments;
mod groups;
mod half_open;
mod host;
mod icmp;
mod in_place;
mod info;
mod input;
mod input6;
mod link;
mod local_ports;
mod low_water;
mod memory_pressure;
mod messages;
mod orphans;
mod output;
mod pair;
mod pair_end;
mod parts;
mod passive;
mod published;
mod quiet;
mod reported;
mod request_error;
mod requests;
mod responder;
mod returns;
mod secrets;
mod session;
mod sessions;
mod settings;
mod slab;
mod socket;
mod sockets;
mod status;
mod syn_drop;
mod tcp_input;
mod telling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod timeouts;
mod timers;
mod transfers;
mod turns;
mod udp_input;
mod unaccepted;
mod violation;

pub use access::{Access, BadRule, LowPorts, Rule, Rules, Transport};
pub use account::Account;
pub use counters::{Counters, EngineDrop, Notice};
pub use half_open::HALF_OPEN_BYTES;
pub use host::{Defaults, Host};
pub use in_place::Received;
pub use link::Interface;
pub use link::automatic::{Automatic, MissingAddress};
pub use link::routing::AddressError;
pub use local_ports::LocalPorts;
pub use messages::TimedRule;
pub use orphans::Undelivered;
pub use requests::{From, LateBind};
pub use secrets::Secrets;
pub use session::Session;
pub use sessions::Sessions;
pub use settings::Settings;
pub use status::{HalfOpenStatus, SOCKET_BYTES, SocketStatus, Status, WaitStatus};
pub use turns::{Of, Spent};
pub use violation::Violation;

use answer_limit::AnswerLimits;
use at_work::AtWork;
use bulk_senders::BulkSenders;
use check::Check;
use demux::Demux;
use fragments::Fragments;
use half_open::HalfOpens;
use in_place::BulkRun;
use input::Arrived;
use link::Link;
use longshore_frames::{Port, RxMeta};
use longshore_hostif::Loopback;
use longshore_hostif::adapter::UnderWay;
use longshore_tcp::Instant;
use requests::Unanswered;
use sockets::Sockets;

/// The stack.
pub struct Stack {
    /// The time of this turn.
    now: Instant,
    link: Link,
    sockets: Sockets,
    half_open: HalfOpens,
    /// Who has them.
    pub sessions: Sessions,
    demux: Demux,
    fragments: Fragments,
    limits: AnswerLimits,
    /// What the operator has chosen.
    pub settings: Settings,
    unanswered: Unanswered,
    /// What has been done, and dropped.
    pub counters: Counters,
    /// When deadlines are looked at next.
    next_tick: Instant,
    bulk_senders: BulkSenders,
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
            sockets: Sockets::new(now),
            half_open: HalfOpens::new(now),
            sessions: Sessions::new(),
            demux: Demux::new(secrets, now),
            fragments: Fragments::new(),
            limits: AnswerLimits::default(),
            settings,
            unanswered: Unanswered::default(),
            counters: Counters::new(),
            next_tick: now,
            bulk_senders: BulkSenders::default(),
            bulk_run: BulkRun::new(),
        })
    }

    /// Its port.
    #[inline]
    pub fn port(&self) -> &dyn Port {
        &*self.link.port
    }

    /// Its port, to take frames from and to flush.
    #[inline]
    pub fn port_mut(&mut self) -> &mut dyn Port {
        &mut *self.link.port
    }

    /// The port's interface has come, changed or gone ([`Port::link_events_fd`]).
    pub fn handle_port_change(&mut self) {
        self.link.take_port_events(self.now);
        self.demux.forget_known();
    }

    /// Addresses that a server has given are its own no longer, and the server is told.
    pub fn give_addresses_back(&mut self) {
        self.link.release(self.now, &mut self.counters);
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
        self.sockets.have_work_left()
            || self.half_open.are_given_up()
            || self.sockets.given_up.are_any()
            || !self.link.own.is_empty()
            || self.has_late_binds()
    }

    /// A frame from the port.
    #[inline]
    pub fn frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        if !self.frame_by_prediction(frame, meta) {
            self.unpredicted_frame_in(frame, meta);
        }
        self.sessions.at_work = AtWork::Nobodys;
    }

    /// A frame of which nothing is known beforehand.
    #[inline(never)]
    fn unpredicted_frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        let arrived = self.packet_input().frame(frame, meta);
        self.take_arrived(arrived);
    }

    /// What a packet has brought goes to those that it is for.
    fn take_arrived(&mut self, arrived: Arrived<'_>) {
        match arrived {
            Arrived::Nothing => {}
            Arrived::Neighbor => self.sockets.retry_unresolved(),
            Arrived::Whole(whole) => {
                let arrived = self.packet_input().whole(&whole);
                self.take_arrived(arrived);
            }
            Arrived::Segment(carried) => self.tcp_input().tcp_in(&carried),
            Arrived::Datagram(carried) => self.udp_input().take(&carried),
            Arrived::Error {
                error,
                offender,
                data,
            } => self
                .icmp_errors()
                .icmp_error(error.as_ref(), offender, data),
        }
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub fn expire_fragments(&mut self) {
        self.packet_input().expire_fragments();
    }

    /// Takes the packets that were sent to addresses of its own; says how many.
    #[inline]
    pub fn take_own_packets(&mut self) -> usize {
        if self.link.own.is_empty() {
            return 0;
        }
        self.take_own()
    }

    #[inline(never)]
    fn take_own(&mut self) -> usize {
        let mut count = 0;
        while let Some(own) = self.link.own.pop_front() {
            count += 1;
            let arrived = self.packet_input().own_packet(&own);
            self.take_arrived(arrived);
        }
        self.sessions.at_work = AtWork::Nobodys;
        count
    }

    /// Does what is due; says whether any socket's timer was. Deadlines are kept to a tick
    /// of the timer wheel, so of many turns in one the first looks at them.
    #[inline]
    pub fn handle_timeouts(&mut self) -> bool {
        let any = self.now >= self.next_tick && self.timeouts().handle_tick();
        if self.link.take_changed() {
            self.sessions.publish_routes(&self.link, &self.settings);
            self.sockets.retry_unresolved();
        }
        any
    }

    /// A look at the port is over, which brought so many frames.
    #[inline]
    pub fn looked_at_port(&mut self, frames: usize, may_have_more: bool) {
        if self.limits.looked(may_have_more) {
            let port = &mut *self.link.port;
            let notice = self
                .limits
                .decide_on_syns(frames, may_have_more, port, self.now);
            self.counters.notices.extend(notice);
        }
    }

    /// Looks at some of the connections that were denied memory, whether there is some now.
    #[inline]
    pub fn relieve_memory_pressure(&mut self) {
        if !self.sockets.denied_memory.is_empty() {
            self.sockets.look_at_denied(&mut self.sessions);
            self.sessions.at_work = AtWork::Nobodys;
        }
    }

    /// Looks at every socket that this turn has touched; says whether there were any.
    #[inline]
    pub fn flush(&mut self) -> bool {
        let were_given_up = self.sockets.given_up.are_any();
        if were_given_up {
            self.admission().reset_some_waiting();
        }
        let are_touched = self.sockets.have_work_left();
        if are_touched {
            self.flushing().touched();
            self.sessions.at_work = AtWork::Nobodys;
        }
        if self.half_open.are_given_up() {
            self.handshakes().reset_some_half_open();
            return true;
        }
        are_touched || were_given_up
    }

    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do, at the earliest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let sockets = self.sockets.next_timeout();
        let waits = self.demux.next_timeout();
        let half_open = self.half_open.next_timeout();
        let neighbors = self.link.neighbor_deadline();
        let syns = self.limits.deadline();
        let first = [sockets, waits, half_open, neighbors, syns]
            .into_iter()
            .flatten()
            .min();
        first.map(|at| at.max(self.next_tick))
    }

    /// Programs see what this turn has done, and are woken for it.
    #[inline]
    pub fn publish(&mut self) {
        let under_way = self.under_way();
        let turn = self.counters.event_loop.turns;
        self.counters.waits.wakeups += self.sessions.publish(turn, self.now, under_way);
        #[cfg(debug_assertions)]
        self.check_turn();
    }

    /// What is under way from one socket to another.
    #[inline]
    fn under_way(&self) -> UnderWay {
        if self.link.own.is_empty() && !self.sockets.are_yet_to_tell {
            return UnderWay::Nothing;
        }
        self.what_is_under_way()
    }

    #[inline(never)]
    fn what_is_under_way(&self) -> UnderWay {
        if self.sockets.have_more_to_pass {
            UnderWay::Queued
        } else if !self.link.own.is_empty() || self.sockets.have_work_left() {
            UnderWay::Passing
        } else {
            // A process that got something in this turn has told of it in this turn, too.
            UnderWay::Nothing
        }
    }

    /// Requests were taken when this turn had been flushed: what they led to is done in the next.
    pub fn has_taken_late(&mut self) {
        self.sockets.are_yet_to_tell = true;
    }

    /// A session begins: its programs learn where their connections go, with which congestion
    /// control their sockets begin, and whether the wildcard is to be bound on the kernel,
    /// too, where their launcher has said so. Its key.
    pub fn open_session(&mut self, mut session: Session, kernel_too: Option<bool>) -> u32 {
        if let Some(batching) = self.settings.batching {
            session.host.set_batching(batching);
        }
        session.publish_routes(&self.link, &self.settings);
        session.publish_congestion(self.settings.default_congestion(self.now));
        let kernel_too = kernel_too.unwrap_or(self.settings.kernel_too);
        session.host.set_engine_alone(!kernel_too);
        self.bulk_run.note_session(self.settings.has_one_session);
        self.sessions.insert(session)
    }

    /// A session is over. Sockets of it that are left have nobody any more.
    pub fn close_session(&mut self, key: u32) -> Option<Session> {
        let mut session = self.sessions.remove(key)?;
        session.host.mark_closed();
        self.sockets.given_up.forget_session(key);
        let postponed = std::mem::take(&mut session.postponed);
        self.sockets.release_postponed(postponed);
        Some(session)
    }

    /// Programs learn with which congestion control their sockets begin.
    pub fn publish_congestion(&mut self) {
        let usual = self.settings.default_congestion(self.now);
        for (_, session) in self.sessions.iter() {
            session.publish_congestion(usual);
        }
    }

    /// Whether a socket that nobody has any more still has something to deliver. To be asked when
    /// no session is left, so that a socket that has nothing will have nothing: those that were
    /// found to be so are not looked at again, and of the others some are at each call.
    pub fn look_for_undelivered(&mut self) -> Undelivered {
        self.sockets.look_for_undelivered()
    }

    /// There is a session again: what has nothing to deliver may have something yet.
    pub fn look_for_undelivered_anew(&mut self) {
        self.sockets.look_for_undelivered_anew();
    }

    /// How everything stands, for those who ask.
    pub fn status(&self) -> Status<'_> {
        Status {
            sockets: &self.sockets,
            half_open: &self.half_open,
            sessions: &self.sessions,
            demux: &self.demux,
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
        Check {
            sockets: &self.sockets,
            half_open: &self.half_open,
            sessions: &self.sessions,
            demux: &self.demux,
        }
        .all()
    }

    /// As `check`, at the end of a turn, in debug builds: in ever fewer turns, the more there is
    /// to look at.
    ///
    /// # Panics
    /// If something is not as it must be.
    #[cfg(debug_assertions)]
    fn check_turn(&self) {
        let count = self.sockets.len() + self.sessions.len();
        if check::is_due(self.counters.event_loop.turns, count)
            && let Err(violation) = self.check()
        {
            panic!("{violation:?}");
        }
    }
}
