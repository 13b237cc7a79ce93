//! What a turn has touched is flushed at its end: what there is to send is sent, and hosts
//! are told what there is to tell.
//!
//! A few sockets are flushed at once. Of many, each user's have a share of the turn
//! (`turns`): those beyond it wait in their session's queue and have their turn
//! again, so that a program that sends on thousands of sockets makes others wait no longer than one
//! that sends on a few. Owns [`Flush`], by which the stack ends a turn in which more is to be done
//! than the usual, and the order of those that wait.

use crate::account::Account;
use crate::admission::Admission;
use crate::at_work::AtWork;
use crate::counters::Counters;
use crate::datagram::DatagramOutput;
use crate::endpoints::Endpoints;
use crate::link::Link;
use crate::output::Sent;
use crate::request_error::RequestError;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::socket::{Kind, Reporter, Socket};
use crate::sockets::Sockets;
use crate::timers::Wheel;
use crate::turns::{Of, PIECE, SEGMENT};
use longshore_hostif::EdgeFlags;
use longshore_tcp::{Events, Instant};
use std::sync::Arc;

/// So many sockets are flushed whatever they have to send.
pub(crate) const FEW: usize = 4;

/// What is seen to beside reporting to the host where the streams stand.
const MORE_THAN_EDGES: Events = Events::URGENT
    .union(Events::SND_ACKED)
    .union(Events::RCVBUF)
    .union(Events::CLOSED)
    .union(Events::TIME_WAIT);

/// What is left to be done for a socket that is flushed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Left {
    /// It is a connection, and sending went so.
    Sent(Sent),
    /// It is a connection, sending went so, and this has happened to it, of which its host is to be told, too.
    Events(Sent, Events),
    /// It is none.
    Other,
}

/// Flushes what a turn has touched: borrows the sockets with their sessions, the link that they send
/// over, and all that is let in, ended or told by it.
pub(crate) struct Flush<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) link: &'a mut Link,
    pub(crate) settings: &'a Settings,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Flush<'_> {
    /// What lets connections in, and ends them.
    pub(crate) fn admission(&mut self) -> Admission<'_> {
        Admission {
            endpoints: self.endpoints,
            link: self.link,
            settings: self.settings,
            counters: self.counters,
            now: self.now,
        }
    }

    /// What sends datagrams.
    pub(crate) fn datagrams(&mut self) -> DatagramOutput<'_> {
        DatagramOutput {
            endpoints: self.endpoints,
            link: self.link,
            settings: self.settings,
            counters: self.counters,
            now: self.now,
        }
    }

    #[inline(never)]
    fn other(&mut self, key: u32) {
        match self
            .endpoints
            .sockets
            .get_mut(key)
            .map(|socket| &socket.kind)
        {
            Some(Kind::Pair(_)) => {
                self.admission().flush_pair(key);
                self.note_sent_stamps(key);
            }
            Some(Kind::Listener(_)) => self.listener(key),
            Some(Kind::Datagram(_)) => {
                if self.datagrams().flush(key) {
                    self.admission().endings().forget(key);
                }
            }
            Some(Kind::Stream(_) | Kind::Idle(_)) | None => {}
        }
    }

    /// Ends an attempt to connect, and tells its processes so before it is answered: the next
    /// attempt of the same socket begins after that.
    pub(crate) fn cancel_connecting(&mut self, key: u32) -> Result<(), RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        let (cancelled, opens) = match &mut socket.kind {
            Kind::Stream(c) => (c.tcb.closing().cancel_opening(), c.tcb.state().is_opening()),
            Kind::Pair(p) => (p.cancel_connecting(), false),
            _ => (false, false),
        };
        match (cancelled, opens, &socket.kind) {
            (true, _, Kind::Pair(_)) => self.admission().flush_pair(key),
            (true, ..) => self.connection(key),
            (false, true, _) => return Err(RequestError::UnderWay),
            (false, false, _) => return Err(RequestError::NotUnderWay),
        }
        Ok(())
    }

    /// Flushes a socket.
    #[inline(never)]
    fn one(&mut self, key: u32) {
        let (sessions, link, counters) = (
            &mut self.endpoints.sessions,
            &mut *self.link,
            &mut *self.counters,
        );
        let left = self
            .endpoints
            .sockets
            .flush_one(key, sessions, link, counters, self.now);
        if let Some(left) = left {
            self.finish(key, left);
        }
    }

    /// Sends what a connection has to send, and tells its host, before its turn is flushed.
    fn connection(&mut self, key: u32) {
        let (link, counters) = (&mut *self.link, &mut *self.counters);
        let left = self
            .endpoints
            .sockets
            .get_with_wheel(key)
            .and_then(|(socket, wheel)| {
                socket.flush(
                    key,
                    wheel,
                    &mut self.endpoints.sessions,
                    (link, counters),
                    self.now,
                )
            });
        if let Some(left) = left {
            self.finish(key, left);
        }
    }

    /// Does what is left to be done for a socket: what was not sent is sent in the next turn, or when
    /// the next hop has answered.
    #[inline(never)]
    pub(crate) fn finish(&mut self, key: u32, left: Left) {
        let (sent, events) = match left {
            Left::Sent(sent) => (sent, None),
            Left::Events(sent, events) => (sent, Some(events)),
            Left::Other => return self.other(key),
        };
        match sent {
            Sent::All => {}
            Sent::More => self.endpoints.sockets.touch(key),
            Sent::Unresolved => self.endpoints.sockets.unresolved.push(key),
        }
        if let Some(events) = events {
            self.handle_events(key, events);
        }
    }

    /// Does what there is to do for a connection to which this has happened, or whose program
    /// has closed it or not accepted it yet, or waits for so much.
    #[inline(never)]
    fn handle_events(&mut self, key: u32, events: Events) {
        let Some((socket, senders)) = self.endpoints.sockets.get_with_senders(key) else {
            return;
        };
        let (has_block, orphan) = (socket.has_block(), socket.orphan);
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        // What its host is told from now on does not say so any more.
        if events.contains(Events::CLOSED) {
            c.was_made |= c.reported.flags.contains(EdgeFlags::CONNECTED);
        }
        // Over before its program closed it: no event is to come.
        let is_done = orphan && c.is_over;
        let mut sent_for_others = None;
        // What makes a report worth its while beside the edges themselves.
        let mut also = events.contains(Events::URGENT);
        if events.contains(Events::SND_ACKED) {
            self.link.output.hops.confirm(c.remote.ip(), self.now);
            sent_for_others = socket.forwarding.is_some().then(|| c.tcb.snd_acked());
            let size = socket.options.send_buffer;
            let wanted = c.send_buffer_wanted(size, senders, self.now);
            if wanted != u64::from(size) {
                also |= socket.tune_send_buffer(wanted, &self.endpoints.sessions);
            }
        }
        if let Some(acked) = sent_for_others {
            self.admission().transfers().forwarded(key, acked);
        }
        if events.intersects(Events::RCVBUF | Events::CONNECTED)
            && let Some(socket) = self.endpoints.sockets.get(key)
        {
            socket.apply_widest_window(&self.endpoints.sessions);
        }
        if has_block && !orphan {
            if let Some(socket) = self.endpoints.sockets.get_mut(key) {
                if events.contains(Events::URGENT) {
                    socket.notify_owner_of_urgent(&mut self.endpoints.sessions);
                }
                if socket.has_marks() {
                    let is_below =
                        socket.report_by_lowat(&mut self.endpoints.sessions, self.now, also);
                    self.counters.waits.below_low_water += u64::from(is_below);
                } else {
                    socket.report_also(&mut self.endpoints.sessions, self.now, also);
                }
                if socket.waits_for_stamps() {
                    self.note_sent_stamps(key);
                }
            }
        } else if has_block {
            self.admission().endings().release_if_delivered(key);
        }
        // One turn may bring the FIN and a reset after it: then TIME-WAIT is over already.
        if events.contains(Events::CLOSED) {
            self.admission().endings().disconnect(key);
        } else if events.contains(Events::TIME_WAIT) {
            self.admission().endings().enter_time_wait(key);
        } else if is_done {
            self.admission().endings().forget(key);
        } else {
            self.endpoints.sockets.arm(key);
        }
    }

    /// What a program wants to know the time of may have been sent, or acknowledged.
    fn note_sent_stamps(&mut self, key: u32) {
        let socket = self.endpoints.sockets.get_mut(key);
        if let Some(socket) = socket.filter(|socket| socket.waits_for_stamps()) {
            let reporter = Reporter {
                sessions: &mut self.endpoints.sessions,
                counters: self.counters,
                now: self.now,
            };
            socket.note_sent_stamps(reporter, || self.settings.host.time_of_day_ns());
        }
    }

    /// Tells a listener's host of the connections that have come.
    fn listener(&mut self, key: u32) {
        let socket = self.endpoints.sockets.get_mut(key);
        let flushed = socket.and_then(|s| s.flush_listener(&mut self.endpoints.sessions, self.now));
        let Some(flushed) = flushed else {
            return;
        };
        if flushed.reports_more {
            self.endpoints.sockets.touch(key);
        }
        if flushed.has_accepted {
            self.admission().take_accepted(key);
        }
        self.endpoints.sockets.arm(key);
    }

    /// Flushes many: those of each user as far as its share goes.
    #[inline(never)]
    pub(crate) fn by_shares(&mut self) {
        let turn = self.counters.event_loop.turns;
        let mut dirty = std::mem::take(&mut self.endpoints.sockets.dirty);
        for key in dirty.drain(..) {
            let Some(session) = self.endpoints.sockets.get(key).map(|s| s.session) else {
                continue;
            };
            if self.endpoints.sessions.has_output_left(session, turn) {
                self.one_of(session, key);
            } else {
                self.endpoints.sockets.postpone(
                    session,
                    key,
                    &mut self.endpoints.sessions,
                    self.counters,
                );
            }
        }
        dirty.append(&mut self.endpoints.sockets.dirty);
        self.endpoints.sockets.dirty = dirty;
        for _ in 0..self.endpoints.sockets.waiting_sessions.len() {
            let Some(session) = self.endpoints.sockets.waiting_sessions.pop_front() else {
                break;
            };
            self.postponed_of(session);
        }
    }

    /// Serves those that wait in a session, as far as their user's share goes.
    fn postponed_of(&mut self, session: u32) {
        let turn = self.counters.event_loop.turns;
        while let Some(s) = self.endpoints.sessions.get_mut(session) {
            let spent = |account: &Arc<Account>| account.spent.left(Of::Output, turn) == 0;
            if s.postponed.is_empty() {
                return;
            }
            if s.account.as_ref().is_some_and(spent) {
                return self.endpoints.sockets.waiting_sessions.push_back(session);
            }
            if let Some(key) = s.postponed.pop_front() {
                self.one_of(session, key);
            }
        }
    }

    /// Flushes a socket, which counts against the share of the user of its session.
    fn one_of(&mut self, session: u32, key: u32) {
        let before = self.counters.output();
        self.one(key);
        let cost = self.counters.output().wrapping_sub(before).max(1);
        if let Some(account) = self.endpoints.sessions.account_of(session) {
            let cost = u32::try_from(cost).unwrap_or(u32::MAX);
            account
                .spent
                .spend(Of::Output, self.counters.event_loop.turns, cost);
        }
    }
}

impl Sockets {
    /// Does for a socket what nearly always is all: sends what it has to send, and tells its host
    /// where its streams stand. What is left to be done, if there is more.
    #[inline(always)]
    pub(crate) fn flush_one(
        &mut self,
        key: u32,
        sessions: &mut Sessions,
        link: &mut Link,
        counters: &mut Counters,
        now: Instant,
    ) -> Option<Left> {
        sessions.at_work = AtWork::Socket(key);
        let (socket, wheel) = self.get_with_wheel(key)?;
        socket.dirty = false;
        socket.flush(key, wheel, sessions, (link, counters), now)
    }
}

impl Socket {
    /// As [`Sockets::flush_one`], of it, whose key this is.
    #[inline(always)]
    fn flush(
        &mut self,
        key: u32,
        wheel: &mut Wheel<u32>,
        sessions: &mut Sessions,
        (link, counters): (&mut Link, &mut Counters),
        now: Instant,
    ) -> Option<Left> {
        let Kind::Stream(c) = &self.kind else {
            return Some(Left::Other);
        };
        let sent = match c.tcb.may_have_to_send() {
            true => self.transmit(sessions, link, counters, now),
            false => Sent::All,
        };
        self.count_landed(sessions);
        let Kind::Stream(c) = &mut self.kind else {
            return None;
        };
        c.tcb
            .send_stream()
            .note_buffer(self.options.send_buffer, now);
        let events = c.tcb.take_events();
        let is_plain = self.has_block() && !self.orphan && !self.has_marks();
        if events.intersects(MORE_THAN_EDGES) || !is_plain {
            return Some(Left::Events(sent, events));
        }
        self.report(sessions, now);
        if let Kind::Stream(c) = &self.kind {
            wheel.set_or_clear(&mut self.alarm, key, c.deadline());
        }
        (sent != Sent::All).then_some(Left::Sent(sent))
    }
}

impl Sessions {
    /// Whether a session may send in this turn, and none of its own waits for that.
    fn has_output_left(&self, session: u32, turn: u64) -> bool {
        let Some(s) = self.get(session) else {
            return true;
        };
        let left = |account: &Arc<Account>| account.spent.left(Of::Output, turn) != 0;
        s.postponed.is_empty() && s.account.as_ref().is_none_or(left)
    }
}

impl Sockets {
    /// A socket has its turn again.
    fn postpone(
        &mut self,
        session: u32,
        key: u32,
        sessions: &mut Sessions,
        counters: &mut Counters,
    ) {
        let Some(s) = sessions.get_mut(session) else {
            return;
        };
        if s.postponed.is_empty() {
            self.waiting_sessions.push_back(session);
        }
        s.postponed.push_back(key);
        counters.waits.output += 1;
    }

    /// Sockets of a session that is gone are nobody's that waits.
    pub(super) fn release_postponed(&mut self, postponed: impl IntoIterator<Item = u32>) {
        for key in postponed {
            if let Some(socket) = self.get_mut(key) {
                socket.dirty = false;
                self.touch(key);
            }
        }
    }
}

impl Counters {
    /// What was sent since the engine began, in the units of [`Of::Output`].
    fn output(&self) -> u64 {
        let c = self;
        let pieces = c.own_bytes.cut_through / crate::pair_end::PIECE;
        let segments = c.tcp.segments_out + c.tcp.longer_segments_out;
        u64::from(SEGMENT) * segments + u64::from(PIECE) * pieces + c.datagrams.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long segment costs what those would that it stands for, and bytes that are passed on what it
    /// takes to copy them.
    #[test]
    fn output_costs_what_it_stands_for() {
        let mut counters = Counters::new();
        counters.tcp.segments_out = 3;
        counters.tcp.longer_segments_out = 2;
        counters.own_bytes.cut_through = 4 * crate::pair_end::PIECE + 1;
        counters.datagrams.output = 7;
        let expected = 5 * u64::from(SEGMENT) + 4 * u64::from(PIECE) + 7;
        assert_eq!(counters.output(), expected);
    }
}
