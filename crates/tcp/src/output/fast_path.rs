//! The common path out: new data, or an acknowledgment, with a plain header.
//!
//! Owns [`Tcb::poll_whole`] and [`Tcb::poll_plain`], which the engine asks in this order
//! before [`poll_transmit`](Tcb::poll_transmit). Nothing is repeated or probed, no SACK
//! block is owed, the handshake is over, neither pace nor ECN matters, nothing is urgent:
//! then what is left of the segment is its numbers, flags and timestamps, and a header of
//! known layout. What to send and what follows from it are decided by the same functions,
//! so that both ways send the same.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::segment::PlainTransmit;
use crate::tcb::Tcb;
use crate::tcb::UNPREDICTABLE;
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

/// What the common path knows nothing of.
const UNCOMMON: Flags = Flags::SYN_DUE
    .union(Flags::RST_DUE)
    .union(Flags::PROBE_DUE)
    .union(Flags::DSACK)
    .union(Flags::CAREFUL)
    .union(Flags::URGENT)
    .union(Flags::TELL_TIMEOUT);

/// What the commonest segments know nothing of.
const UNLIKE_OTHERS: Flags = UNCOMMON
    .union(Flags::FORCE_SMALL)
    .union(Flags::WINDOW_LIMITED);

impl Tcb {
    /// The next segment to send, if it is of the commonest kind: new data in whole
    /// packets, behind other that is in flight; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` says that it is another, or that
    /// there is none: [`poll_plain`](Tcb::poll_plain) knows.
    #[inline(always)]
    pub fn poll_whole(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        // What input predicts says as much of output: established, and nothing is lost,
        // reported, probed for or out of order.
        let usual = self.predict != UNPREDICTABLE
            && !self.flags.intersects(UNLIKE_OTHERS)
            && !self.snd.fin()
            && !self.flight.mtu.is_due(now);
        if !usual {
            return None;
        }
        let (start, end) = self.select_whole(max_payload)?;
        self.note_more(end, now);
        let payload_len = (end - start) as u32;
        let push = self.push_of_whole(end, payload_len);
        Some(PlainTransmit {
            // The segment that is expected has the same options, and ACK alone.
            header: self.settle_as(start, self.predict | push.0, now),
            payload_start: start as u64,
            payload_len,
            mss: self.snd.mss(),
        })
    }

    /// New data goes out behind other that is in flight, in whole packets, and nothing
    /// is lost, reported or probed for: [`note_new`](Tcb::note_new), less what it would
    /// not do then.
    #[inline(always)]
    fn note_more(&mut self, end: Pos, now: Instant) {
        self.snd.advance(end);
        // What is uncommon is called with the whole block, which is in a register.
        if !self.flight.scoreboard.send_with_last(end, now) {
            self.send_apart(end, now);
        }
        if !self.flight.rearm_probe(&self.snd, now) {
            self.arm_probe(now);
        }
        if !self.flight.is_timing() {
            self.time_round_trip(end, now);
        }
        self.note_payload_sent(now);
        self.timers.hold = Instant::NEVER;
    }

    #[inline(never)]
    fn send_apart(&mut self, end: Pos, now: Instant) {
        self.flight.send_apart(&self.snd, end, now);
    }

    #[inline(never)]
    fn arm_probe(&mut self, now: Instant) {
        self.flight.arm_probe(&self.snd, now);
    }

    /// What [`flags_of`](Tcb::flags_of) adds to ACK for whole packets of data and no FIN.
    #[inline(always)]
    fn push_of_whole(&mut self, end: Pos, len: u32) -> TcpFlags {
        let mss = u32::from(self.snd.mss());
        let (packets, batch) = if len == mss {
            (1, false)
        } else {
            (len.div_ceil(mss.max(1)), true)
        };
        self.accounting.counters.data_segs_out =
            self.accounting.counters.data_segs_out.wrapping_add(packets);
        if batch || end == self.snd.push() {
            TcpFlags::PSH
        } else {
            TcpFlags(0)
        }
    }

    /// The next segment to send, if it is one of the common kinds; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` says that it is another, or that
    /// there is none: `poll_transmit` knows.
    #[inline]
    pub fn poll_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        match self.poll_whole(now, max_payload) {
            None => self.poll_less_plain(now, max_payload),
            whole => whole,
        }
    }

    /// The same where [`poll_whole`](Tcb::poll_whole) has found none: the first data
    /// after a silence, the last of what was written, the FIN; data of which it takes
    /// more to say whether it is common.
    #[inline(never)]
    pub fn poll_less_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        let common = !self.flags.intersects(UNCOMMON)
            && self.state.may_transmit_data()
            && self.flight.recovery.is_quiet()
            && !self.flight.mtu.is_due(now)
            && self.reassembly.ranges.is_empty();
        if !common {
            return None;
        }
        if self.snd.nxt() < self.snd.end()
            && let Some((start, end)) = self.select_new(now, max_payload)
        {
            self.note_new(start, end, now);
            let (flags, data_end) = self.flags_of(start, end);
            return Some(self.plain(start, data_end, flags, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.snd.ack_pos();
            return Some(self.plain(pos, pos, TcpFlags::ACK, now));
        }
        None
    }

    #[inline(always)]
    fn plain(&mut self, start: i64, data_end: i64, flags: TcpFlags, now: Instant) -> PlainTransmit {
        let header = self.settle(start, flags, now);
        PlainTransmit {
            header,
            payload_start: start.max(0) as u64,
            payload_len: (data_end - start).max(0) as u32,
            mss: self.snd.mss(),
        }
    }
}
