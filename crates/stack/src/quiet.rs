//! Sockets that have become quiet: their hosts are told of what nobody waits for, and the chunks
//! of their send streams are taken back.
//!
//! The timers of the sockets say when; `timeouts` calls it, and `datagram` and `pair` as they
//! are flushed. How many chunks of a session are taken back in a turn is said by its
//! [`Returns`](crate::returns::Returns).

use crate::returns::{LATER_US, QUIET_US};
use crate::sessions::Sessions;
use crate::socket::Kind;
use crate::sockets::Sockets;
use longshore_tcp::Instant;

impl Sockets {
    /// Sees to it that the host is told, some day, that what it sent is gone, and that its
    /// chunks are taken back.
    pub(crate) fn arm_quiet_datagram(&mut self, key: u32, now: Instant) {
        let Some(Kind::Datagram(d)) = self.get_mut(key).map(|s| &mut s.kind) else {
            return;
        };
        if d.report_due.is_some() {
            return;
        }
        let returns = d.reported.returns_at(d.snd_done, d.snd_edge, now);
        if d.snd_done != d.reported.snd_acked || !returns.is_never() {
            d.report_due = Some(now.after_us(QUIET_US));
            self.arm(key);
        }
    }

    /// Sees to it that the chunks of what was moved are taken back, some day.
    pub(crate) fn arm_quiet_pair(&mut self, key: u32, now: Instant) {
        let Some(p) = self.pair_mut(key) else { return };
        if !p.waits.report_due().is_never() {
            return;
        }
        let returns = p.reported.returns_at(p.snd.done(), p.snd.edge(), now);
        p.waits.set_report_due(returns);
        if !returns.is_never() {
            self.arm(key);
        }
    }

    /// The end of a socket's send stream has been quiet: takes its chunks back, if all is
    /// done with.
    pub(crate) fn take_back_chunks(
        &mut self,
        key: u32,
        sessions: &mut Sessions,
        turn: u64,
        now: Instant,
    ) {
        let Some(socket) = self.get_mut(key) else {
            return;
        };
        let index = socket.id.index;
        let Some(session) = sessions.get_mut(socket.session) else {
            return;
        };
        let Some((reported, edge)) = socket.kind.finished() else {
            return;
        };
        if edge <= reported.returned {
            return;
        }
        if session.returns.may_go_on(turn) {
            reported.returned = edge;
            session.returns.chunks += session.host.send_slab().take_chunks(index, edge);
        } else {
            socket.kind.look_again(now.after_us(LATER_US));
            self.arm(key);
        }
    }
}
