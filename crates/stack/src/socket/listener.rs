//! A listener at the end of a turn: its host is told of the connections that have come, and what
//! it has accepted is its own. Called by `flush`.

use crate::audience::{AT_ONCE, Report, Whom};
use crate::sessions::Sessions;
use crate::socket::{Kind, Listening, Socket};
use longshore_hostif::adapter::{AdapterSession, Placed, Subscribers};
use longshore_hostif::{Edges, SocketId};
use longshore_tcp::Instant;

/// Connections that have come to a listener, and where its edges are with them.
struct Arrivals<'a> {
    id: SocketId,
    edges: Edges,
    /// The processes that have it.
    all: &'a Subscribers,
    now: Instant,
}

impl Listening {
    /// Tells those of the connections that have come who are to be told now, and wakes as many as
    /// are needed; says what was placed for that.
    fn report(
        &mut self,
        host: &mut AdapterSession,
        report: Report,
        arrivals: &Arrivals<'_>,
    ) -> Placed {
        let (id, edges) = (arrivals.id, arrivals.edges);
        let is_later = report == Report::All && arrivals.all.len() > AT_ONCE;
        let picked = (!is_later).then(|| {
            self.audience
                .pick(host, id.index, arrivals.all, arrivals.now)
        });
        let picked = picked.flatten();
        // A process that has never accepted may never look, as a server's master that forks workers: what
        // only its ring has would keep the place of every later record.
        let may_look = self.audience.has_acceptor();
        let mut placed = Placed::default();
        match self.audience.whom(arrivals.all, report, picked.as_deref()) {
            Whom::Many => {
                self.audience.report_to_many(arrivals.all, report);
                return placed;
            }
            Whom::Picked => {
                placed = host.place_short(&mut self.rcv, None);
                for sleeper in picked.iter().flatten() {
                    host.put_edges(sleeper.channel, id, &edges);
                }
            }
            Whom::These(whom) => {
                let mut tell = |host: &mut AdapterSession| {
                    if may_look {
                        return host.put_stream_to(&mut self.rcv, whom, id, edges);
                    }
                    let placed = host.place_short(&mut self.rcv, None);
                    host.put_edges_to(whom, id, edges);
                    placed
                };
                if picked.is_some() {
                    host.without_waking(|host| placed = tell(host));
                } else {
                    placed = tell(host);
                }
            }
        }
        if let Some(sleepers) = &picked {
            host.wake_sleepers_after_all(id, sleepers);
        }
        placed
    }
}

/// What is left to be done for a listener that was flushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerFlushed {
    /// Connections that its host has accepted are still in its queue, or others may enter it.
    pub(crate) has_accepted: bool,
    /// More of its processes are still to be told, in another turn.
    pub(crate) reports_more: bool,
}

impl Socket {
    /// Says in its block, a listener's, whether own sockets wait to enter its full queue.
    pub(crate) fn mark_entering(&self, sessions: &Sessions) {
        let (Kind::Listener(l), Some(session)) = (&self.kind, sessions.get(self.session)) else {
            return;
        };
        let host = &session.host;
        host.blocks()
            .mark_waiting(self.id.index, l.queue.has_entering());
        // What its host has accepted and said for later.
        host.pending.hurry();
    }

    /// Tells the host of a listener of the connections that have come; `None` if it is none.
    pub(crate) fn flush_listener(
        &mut self,
        sessions: &mut Sessions,
        now: Instant,
    ) -> Option<ListenerFlushed> {
        let edges = self.kind.edges();
        let Kind::Listener(l) = &mut self.kind else {
            return None;
        };
        let session = sessions.get(self.session);
        if l.audience.is_late(now) && session.is_some_and(|s| s.host.pending.hurry()) {
            l.audience.put_off(now);
        }
        let has_accepted = l.has_accepted();
        if let Some(report) = l.audience.note_edge(&self.subscribers, edges.rcv_edge, now)
            && let Some(s) = sessions.get_mut(self.session)
        {
            let arrivals = Arrivals {
                id: self.id,
                edges,
                all: &self.subscribers,
                now,
            };
            let placed = l.report(&mut s.host, report, &arrivals);
            let to_host = &mut self.payload.to_host;
            to_host.add(&placed.into());
        }
        let reports_more = l.audience.reports_to_many() && self.report_to_some(sessions, now);
        Some(ListenerFlushed {
            has_accepted,
            reports_more,
        })
    }

    /// Tells some of the many processes that have a listener of its connections. Whether others
    /// still are to be told.
    #[cold]
    fn report_to_some(&mut self, sessions: &mut Sessions, now: Instant) -> bool {
        let (id, edges) = (self.id, self.kind.edges());
        let Some(s) = sessions.get_mut(self.session) else {
            return false;
        };
        self.place_short(&mut s.host, None);
        let Kind::Listener(l) = &mut self.kind else {
            return false;
        };
        let (some, are_last) = l.audience.take_some();
        // Some may have it no longer.
        for channel in some.into_iter().filter(|c| self.subscribers.contains(*c)) {
            s.host.put_edges(channel, id, &edges);
        }
        if are_last {
            let picked = l
                .audience
                .pick(&mut s.host, id.index, &self.subscribers, now);
            match &picked {
                Some(sleepers) => s.host.wake_sleepers_after_all(id, sleepers),
                None => s.host.note_edges(id, &edges),
            }
        }
        l.audience.reports_to_many()
    }
}
