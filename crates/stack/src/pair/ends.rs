//! What the two ends of a connection between two of our own do to each other as one of them is
//! flushed or closed: bytes, ends of streams, resets. `pair` calls it in this order.

use crate::pair_end::{PIECES_A_TURN, Pair, RESET};
use crate::socket::Kind;
use crate::transfers::Transfers;
use longshore_hostif::NONE;

impl Transfers<'_> {
    /// Moves what can be moved of what `key` sends; how many pieces that were. `None` if what there
    /// is is held back.
    pub(super) fn move_pieces(&mut self, key: u32) -> Option<usize> {
        let now = self.now;
        if let Some(p) = self.sockets.pair_mut(key)
            && p.snd.unmoved() != 0
            && p.holds_back(now)
        {
            self.note_done(key);
            self.report_pair(key);
            self.sockets.arm(key);
            return None;
        }
        let moved = self.move_a_turn(key);
        self.end_unread(key);
        self.note_done(key);
        self.pass_on_end(key);
        Some(moved)
    }

    /// Moves as many pieces of what `key` sends as are moved in one turn, if there are so many; how
    /// many that were.
    fn move_a_turn(&mut self, key: u32) -> usize {
        let mut moved = 0;
        while moved < PIECES_A_TURN && self.move_piece(key) {
            moved += 1;
        }
        moved
    }

    /// So many pieces of what `key` sends were moved: its host is told what is new.
    pub(super) fn report_moved(&mut self, key: u32, moved: usize) {
        if moved == PIECES_A_TURN {
            self.sockets.touch(key);
        }
        if moved != 0
            && let Some(p) = self.sockets.pair_mut(key)
        {
            // The other end has read of what it sends.
            p.waits.keep();
        }
        self.report_pair(key);
        self.sockets.arm_quiet_pair(key, self.now);
    }

    fn report_pair(&mut self, key: u32) {
        if let Some(socket) = self.sockets.get_mut(key) {
            let is_below = socket.report_pair(self.sessions, self.now);
            self.counters.waits.below_low_water += u64::from(is_below);
        }
    }

    /// Says in the block of each end which socket the other is, if they are of one session:
    /// whoever finds nothing to read there may see that something is under way.
    pub(super) fn name_ends(&self, one: u32, other: u32) {
        let (Some(one), Some(other)) = (self.sockets.get(one), self.sockets.get(other)) else {
            return;
        };
        let session = self.sessions.get(one.session);
        if let Some(session) = session.filter(|_| one.session == other.session) {
            session
                .host
                .blocks()
                .set_other_end(one.id.index, other.id.index);
            session
                .host
                .blocks()
                .set_other_end(other.id.index, one.id.index);
        }
    }

    /// What is written to an end that is gone is answered by a reset.
    fn end_unread(&mut self, key: u32) {
        if let Some(p) = self.sockets.pair_mut(key)
            && p.has_lost_other()
            && p.snd.unmoved() != 0
        {
            p.reset();
        }
    }

    /// `key` is about to be reset by its other end: what that has sent, and said of its end,
    /// comes before.
    pub(super) fn pass_on_before_reset(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key).filter(|p| !p.is_shut()) else {
            return;
        };
        let other = p.other;
        // As much as an end holds unread, which is little.
        self.sockets.pass_on_urgent(other);
        while self.move_piece(other) {}
        self.pass_on_end(other);
    }

    /// More urgent data of `key` is to come: what it has sent so far is told of before. Who stands at the
    /// last urgent byte passes it as the next one comes.
    pub(crate) fn pass_on_last_urgent(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        let (other, is_made) = (p.other, !p.connecting && !p.deferral.is_under_way());
        if p.snd.urgent() == 0 || !is_made {
            return;
        }
        self.sockets.pass_on_urgent(key);
        let other_end = self.sockets.pair_mut(other);
        if other_end.is_some_and(|q| q.rcv.has_unreported_urgent()) {
            self.move_a_turn(key);
            self.report_pair(other);
        }
    }

    /// The host of `key` shuts halves of it down, `sends` or `receives` no more. If it is the end of
    /// both, what the other end has sent before that comes first, as much as a turn moves: what
    /// comes later is answered by a reset.
    pub(crate) fn receive_before_shut(&mut self, key: u32, sends: bool, receives: bool) {
        let now = self.now;
        let Some(p) = self.sockets.pair_mut(key).filter(|p| !p.is_shut()) else {
            return;
        };
        let (other, is_last) = (
            p.other,
            (p.snd.is_shut() || !sends) && (p.rcv.is_shut() || !receives),
        );
        let comes = self
            .sockets
            .pair_mut(other)
            .is_some_and(|q| q.dead.is_none() && q.snd.unmoved() != 0 && !q.holds_back(now));
        if is_last && comes {
            self.sockets.pass_on_urgent(other);
            self.move_a_turn(other);
        }
    }

    /// What `key` sends meets an end of which both halves are shut down: both are reset.
    pub(super) fn reset_pair(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        p.reset();
        let other = p.other;
        if let Some(q) = self.sockets.pair_mut(other) {
            q.dead.get_or_insert(RESET);
        }
        self.sockets.touch_other_end(other);
    }

    /// The end of the stream, once all before it is there.
    fn pass_on_end(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        // A reset is no end.
        let all_moved = p.snd.unmoved() == 0 && p.dead.is_none();
        let (ended, other) = (p.snd.is_shut() && all_moved, p.other);
        if ended
            && let Some(q) = self.sockets.pair_mut(other)
            && q.rcv.note_fin()
        {
            self.sockets.touch_other_end(other);
        }
    }

    /// Whether an end goes: one that no process holds does when the other end has all it sent, and reads
    /// nothing in its chunks any more, or never will.
    pub(super) fn is_pair_done(&mut self, key: u32) -> bool {
        let Some(socket) = self.sockets.get(key) else {
            return false;
        };
        let Kind::Pair(p) = &socket.kind else {
            return false;
        };
        if !socket.orphan {
            return false;
        }
        let other = p.other;
        let other_reads = matches!(self.sockets.get(other).map(|s| &s.kind), Some(Kind::Pair(q)) if q.dead.is_none());
        let is_awaited = other_reads && p.snd.unmoved() != 0;
        // One that has not been let through has all it has said still to say.
        if p.dead.is_none() && (is_awaited || p.deferral.is_under_way()) {
            if !self.sockets.is_given_up(key, self.now) {
                return false;
            }
            self.reset_pair(key);
        }
        let socket = self.sockets.get(key);
        if self.has_lent(key) || socket.is_some_and(|s| s.is_lent_on(self.sessions)) {
            return false;
        }
        self.pass_on_end(key);
        if let Some(q) = self.sockets.pair_mut(other) {
            // What the other end still has to send reaches nobody.
            q.other = NONE;
            self.sockets.touch_other_end(other);
        }
        true
    }

    /// The host has closed an end: with unread data, be it still on its way, or without
    /// lingering, the other end is reset, as TCP would have it, unless both have ended the connection
    /// before. What it has room for of what was sent before, it gets.
    pub(crate) fn close_pair(&mut self, key: u32, reset: bool) {
        let read = self.sockets.get(key);
        let read = read.map_or(0, |s| s.read_by_host(self.sessions));
        let now = self.now;
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        let (other, received, is_over) = (p.other, p.rcv.edge(), p.is_over());
        let is_under_way =
            |q: &mut Pair| q.dead.is_none() && q.snd.unmoved() != 0 && !q.holds_back(now);
        let may_reset = !is_over
            && (reset || received > read || self.sockets.pair_mut(other).is_some_and(is_under_way));
        if may_reset {
            // As much as an end holds unread, which is little; and the end, if that was said
            // before, as the other's.
            self.sockets.pass_on_urgent(key);
            while self.move_piece(key) {}
            self.pass_on_end(key);
            self.pass_on_end(other);
        }
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        let resets = may_reset && (p.dead.is_some() || !p.is_over());
        p.snd.shut();
        p.rcv.shut();
        if resets {
            p.snd.abandon_rest();
            p.dead.get_or_insert(RESET);
            if let Some(q) = self.sockets.pair_mut(other) {
                q.reset();
            }
        }
        self.sockets.touch_other_end(other);
        self.sockets.touch(key);
    }
}
