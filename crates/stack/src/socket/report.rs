//! What the host of a socket is told of where its streams stand, when that is worth a descriptor,
//! and who is woken by it.
//!
//! Called by `flush` at the end of a turn, by the timers for what was put off, and by `pair`.

use super::low_water::{Marks, not_sent_of};
use crate::messages::Messages;
use crate::returns::QUIET_US;
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, PayloadMoved, Socket};
use longshore_hostif::{EdgeFlags, Edges, is_memory_writable};
use longshore_tcp::{Error, Instant};

impl Connection {
    /// Where its streams stand.
    #[inline(always)]
    pub(crate) fn edges(&self) -> Edges {
        let mut flags = EdgeFlags::empty();
        flags.set(EdgeFlags::CONNECTED, self.tcb.is_open_to_user());
        flags.set(EdgeFlags::PEER_FIN, self.tcb.receive_status().is_closed());
        flags.set(
            EdgeFlags::FIN_ACKED,
            self.lingers && self.tcb.send_status().fin_acked(),
        );
        let mut errno = 0;
        if let Some(error) = self.tcb.error() {
            flags |= EdgeFlags::DEAD;
            let error = match self.unreachable {
                true => Error::HostUnreachable,
                false => error,
            };
            errno = error.errno();
        }
        Edges {
            rcv_edge: self.tcb.rcv_edge(),
            snd_acked: self.tcb.snd_acked(),
            flags,
            errno,
            rcv_urgent: self.tcb.receive_status().urgent(),
        }
    }

    /// When there is something to do for it: a timer of its own, or that what its program was
    /// not told of for a while is told.
    #[inline(always)]
    pub(crate) fn deadline(&self) -> Instant {
        let next = self.tcb.deadline().unwrap_or(Instant::NEVER);
        let next = if self.is_over { Instant::NEVER } else { next };
        next.min(self.report_due)
    }

    /// Sees to it that acknowledgments of which the host was not told are told later, if all
    /// that was `written` is acknowledged.
    #[inline(always)]
    pub(crate) fn report_later(&mut self, snd_acked: u64, written: u64, now: Instant) {
        let is_new = snd_acked != self.reported.snd_acked;
        if is_new && snd_acked == written && self.report_due.is_never() {
            self.report_due = now.after_us(QUIET_US);
        }
    }

    /// The host has just been told of these.
    #[inline]
    pub(crate) fn note_reported(&mut self, edges: &Edges, now: Instant) {
        self.reported.rcv_edge = edges.rcv_edge;
        self.reported.snd_acked = edges.snd_acked;
        self.reported.flags = edges.flags;
        let (done, edge) = (edges.snd_acked, self.tcb.snd_edge());
        self.report_due = self.reported.returns_at(done, edge, now);
    }
}

impl Socket {
    /// The host has just been told where they stand.
    pub(crate) fn note_reported(&mut self, now: Instant) {
        let edges = self.kind.edges();
        match &mut self.kind {
            Kind::Stream(c) => {
                c.note_reported(&edges, now);
                let piece_due = self.messages.as_deref().map(Messages::piece_due);
                c.report_due = c.report_due.min(piece_due.unwrap_or(Instant::NEVER));
            }
            Kind::Pair(p) => {
                p.reported.rcv_edge = edges.rcv_edge;
                p.reported.snd_acked = edges.snd_acked;
                p.reported.flags = edges.flags;
            }
            Kind::Datagram(d) => {
                d.reported.rcv_edge = edges.rcv_edge;
                d.reported.snd_acked = edges.snd_acked;
            }
            Kind::Listener(_) | Kind::Idle(_) => {}
        }
    }

    /// Nothing has happened at it for a while: its host is told of what nobody waits for.
    pub(crate) fn report_quietly(&mut self, sessions: &mut Sessions, now: Instant) {
        let edges = self.kind.edges();
        // An end that has come in this very turn, too: it is noted as told below.
        let is_unreported = self.kind.reported().is_some_and(|reported| {
            edges.snd_acked != reported.snd_acked
                || edges.rcv_edge != reported.rcv_edge
                || edges.flags != reported.flags
        });
        let is_late = self
            .messages
            .as_deref()
            .is_some_and(|m| m.piece_due() <= now);
        if let Some(messages) = self.messages.as_deref_mut().filter(|_| is_late) {
            messages.note_woken();
        }
        self.note_reported(now);
        let piece_due = self.messages.as_deref().map(Messages::piece_due);
        self.kind.look_again(piece_due.unwrap_or(Instant::NEVER));
        if is_late && let Some(s) = sessions.get_mut(self.session) {
            let read = s
                .host
                .blocks()
                .edges_noted(self.id)
                .map_or(0, |(_, read)| read);
            if read < edges.rcv_edge {
                s.host.wake_after_all(self.id);
            }
        }
        if is_unreported && let Some(s) = sessions.get_mut(self.session) {
            self.put_edges(&mut s.host, edges);
        }
    }

    /// Counts the payload that the common path has placed.
    #[inline]
    pub(crate) fn count_landed(&mut self, sessions: &mut Sessions) {
        let Kind::Stream(c) = &mut self.kind else {
            return;
        };
        let landed = c.rcv.take_placed();
        if landed.pieces != 0
            && let Some(session) = sessions.get_unshown_mut(self.session)
        {
            let count = [
                &mut self.payload.to_host,
                &mut session.host.meter.to_host.payload,
            ];
            PayloadMoved::count(count, &landed.into());
        }
    }

    /// Its owner is to be told that there is urgent data.
    #[cold]
    pub(crate) fn notify_owner_of_urgent(&self, sessions: &mut Sessions) {
        if let Some(session) = sessions.get_mut(self.session) {
            session
                .host
                .owners()
                .note_urgent(self.id, &self.kind.edges());
        }
    }

    /// Tells the host of a connection what it may be waiting for. Acknowledgments are told
    /// when a quarter of the buffer has become free; fewer wait for something to ride on.
    #[inline(always)]
    pub(crate) fn report(&mut self, sessions: &mut Sessions, now: Instant) {
        self.report_by::<false>(sessions, now, false);
    }

    /// As `report`, in any case if `also` has it (the send buffer has become larger, or there is
    /// urgent data).
    #[inline(never)]
    pub(crate) fn report_also(&mut self, sessions: &mut Sessions, now: Instant, also: bool) {
        self.report_by::<false>(sessions, now, also);
    }

    /// As `report_also`, for a socket with a low-water mark in one of its streams; whether it was
    /// told of less than it waits for, and so nobody is woken.
    #[inline(never)]
    pub(crate) fn report_by_lowat(
        &mut self,
        sessions: &mut Sessions,
        now: Instant,
        also: bool,
    ) -> bool {
        self.report_by::<true>(sessions, now, also)
    }

    #[inline(always)]
    fn report_by<const LOWAT: bool>(
        &mut self,
        sessions: &mut Sessions,
        now: Instant,
        also: bool,
    ) -> bool {
        let quarter = u64::from(self.options.send_buffer / 4);
        let Kind::Stream(c) = &mut self.kind else {
            return false;
        };
        let edges = c.edges();
        let (reported, written) = (c.reported, c.tcb.snd_edge());
        // A few bytes may take all the memory, and somebody wait for that of each.
        let is_short_of_memory = LOWAT
            && self.options.counts_memory()
            && !is_memory_writable(
                written - reported.snd_acked,
                self.options.send_buffer.into(),
                c.tcb.send_status().size_goal(),
            );
        let quarter = if is_short_of_memory { 1 } else { quarter };
        let has_sent = LOWAT && {
            let s = sessions.get(self.session);
            let marks = Marks::of(&self.options, c.tcb.widest_window());
            let not_sent = || not_sent_of(&self.options, &c.tcb);
            s.is_some_and(|s| marks.has_sent(s, self.id, written, not_sent))
        };
        let also = also || has_sent;
        let is_new = edges.rcv_edge > reported.rcv_edge || edges.flags != reported.flags || also;
        if !is_new && edges.snd_acked - reported.snd_acked < quarter {
            c.report_later(edges.snd_acked, written, now);
            return false;
        }
        let is_awaited = also || (LOWAT && c.tcb.is_short_of_room());
        let marks = Marks::of(&self.options, c.tcb.widest_window());
        c.note_reported(&edges, now);
        let Some(s) = sessions.get_mut(self.session) else {
            return false;
        };
        let is_too_little = LOWAT && {
            let messages = self.messages.as_deref_mut();
            let messages = messages.map(|messages| (messages, &c.rcv));
            let before = (&reported, written);
            marks.is_too_little(s, self.id, before, &edges, messages)
        };
        let is_put_off = is_too_little && !is_awaited;
        if LOWAT && let Some(messages) = self.messages.as_deref_mut() {
            if is_put_off {
                messages.put_off(now);
            } else {
                messages.note_woken();
            }
            c.report_due = c.report_due.min(messages.piece_due());
        }
        if is_put_off {
            s.host.without_waking(|host| self.put_edges(host, edges));
            return true;
        }
        if c.rcv.has_short() {
            self.put_short_edges(&mut s.host, edges);
        } else {
            s.host.put_edges_to(&self.subscribers, self.id, edges);
        }
        false
    }

    /// Tells the host of an end where its streams stand, if that is worth it; whether it was told of
    /// less than it waits for, and so nobody is woken.
    pub(crate) fn report_pair(&mut self, sessions: &mut Sessions, now: Instant) -> bool {
        if !self.has_block() || self.orphan {
            return false;
        }
        let edges = self.kind.edges();
        let quarter = u64::from(self.options.send_buffer / 4);
        let Kind::Pair(p) = &mut self.kind else {
            return false;
        };
        let marks = Marks::of(
            &self.options,
            p.room_in_all.min(self.options.receive_buffer),
        );
        let (reported, written) = (p.reported, p.snd.edge());
        let has_sent = self.options.have_lowat() && {
            let s = sessions.get(self.session);
            // There are no buffers between the two ends: what is not sent ends at the mark.
            let not_sent = || self.options.not_sent(p.snd.moved(), 0);
            s.is_some_and(|s| marks.has_sent(s, self.id, written, not_sent))
        };
        let is_new = edges.rcv_edge > p.reported.rcv_edge
            || edges.flags != p.reported.flags
            || p.rcv.has_unreported_urgent()
            || has_sent;
        let unacknowledged = edges.snd_acked - p.reported.snd_acked;
        if !is_new && unacknowledged < quarter {
            return false;
        }
        let is_urgent = p.rcv.report_urgent();
        self.note_reported(now);
        if let Some(s) = sessions.get_mut(self.session) {
            let is_awaited = is_urgent || has_sent;
            if !is_awaited && marks.is_too_little(s, self.id, (&reported, written), &edges, None) {
                s.host.without_waking(|host| self.put_edges(host, edges));
                return true;
            } else {
                self.put_edges(&mut s.host, edges);
            }
            if is_urgent {
                // With what tells of it, so that a handler of SIGURG finds it.
                s.host.owners().note_urgent(self.id, &edges);
            }
        }
        false
    }
}
