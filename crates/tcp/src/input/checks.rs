//! Acceptability of a segment: PAWS (RFC 7323 section 5), the sequence number (RFC 9293
//! section 3.10.7.4, first), the acknowledgment number (fifth, with RFC 5961 section 5),
//! and the rate limit of challenge ACKs (RFC 5961 section 7).
//!
//! `input/mod.rs` calls these in the RFC's order.

use super::{Arrival, Step};
use crate::drop::DropReason;
use crate::flags::Flags;
use crate::liveness::Liveness;
use crate::pos::SYN_POS;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::Disposition;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::{Instant, MS, SECOND};
use longshore_wire::tcp::TcpFlags;

/// Minimum interval between answers to unacceptable segments without payload on a
/// connection, microseconds (Linux's tcp_invalid_ratelimit).
const CHALLENGE_INTERVAL_US: u64 = 500 * MS;

/// RFC 7323 section 5.5: TS.Recent is invalid after 24 days without a segment.
const PAWS_IDLE_US: u64 = 24 * 24 * 3600 * SECOND;

impl Reassembly {
    /// The first hole is about to appear: TS.Recent may advance with the next segment
    /// that fills one, while missing segments were sent earlier.
    pub(super) fn note_first_hole(&mut self, rcv: &ReceiveSide, stamps: &TimestampState) {
        if self.ranges.is_empty() {
            self.follow_paws_floor(rcv, stamps);
        }
    }

    /// TS.Recent may advance past the timestamps of segments that have not arrived yet.
    fn follow_paws_floor(&mut self, rcv: &ReceiveSide, stamps: &TimestampState) {
        self.floor.follow(stamps.recent(), rcv.nxt(), rcv.adv());
    }
}

impl Liveness {
    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        let last = self.last_challenge();
        let may = last.is_never() || now.since(last) >= CHALLENGE_INTERVAL_US;
        if may {
            self.note_challenge(now);
        }
        may
    }
}

impl Tcb {
    /// RFC 7323 section 5.3, R1: a segment whose timestamp is older than TS.Recent is an
    /// old duplicate: it is acknowledged and dropped. Resets are exempt.
    pub(super) fn check_timestamp(&mut self, a: &Arrival<'_>) -> Step {
        if !self.flags.contains(Flags::TIMESTAMPS) || a.has(TcpFlags::RST) {
            return Ok(());
        }
        let Some(ts) = &a.segment.header.options.timestamps else {
            // RFC 7323 section 3.2 drops a segment without timestamps; like Linux we
            // accept it, since some middleboxes strip them.
            return Ok(());
        };
        let older = (ts.val.wrapping_sub(self.stamps.recent()) as i32) < 0;
        if !older || a.now.since(self.stamps.recent_at()) > PAWS_IDLE_US {
            return Ok(());
        }
        let late =
            !self.reassembly.ranges.is_empty() || self.rcv.nxt() < self.reassembly.floor.until;
        if late && a.end > self.rcv.nxt() && self.reassembly.floor.admits(ts.val) {
            return Ok(());
        }
        self.reassembly
            .note_duplicate(&self.snd, &self.rcv, &mut self.flags, a);
        self.acknowledge_unacceptable(a);
        Err(Disposition::dropped(DropReason::Paws))
    }

    /// RFC 7323 section 4.3: TS.Recent is taken from a segment that spans Last.ACK.sent.
    pub(super) fn note_timestamp(&mut self, a: &Arrival<'_>) {
        if !self.flags.contains(Flags::TIMESTAMPS) {
            return;
        }
        if a.start <= self.acks.last_sent()
            && let Some(ts) = &a.segment.header.options.timestamps
            && (ts.val.wrapping_sub(self.stamps.recent()) as i32 >= 0
                || a.now.since(self.stamps.recent_at()) > PAWS_IDLE_US)
        {
            self.stamps.take(ts.val, a.now);
        }
        if !self.reassembly.ranges.is_empty() {
            self.reassembly.follow_paws_floor(&self.rcv, &self.stamps);
        }
    }

    /// RFC 9293 section 3.10.7.4, first: part of the segment must lie in the window. A
    /// segment that begins right at the window's end is accepted too: its acknowledgment
    /// counts even if its payload does not (the RFC allows this for a zero window, Linux
    /// for any).
    pub(super) fn check_sequence(&mut self, a: &Arrival<'_>) -> Step {
        let beyond = a.start > self.rcv.adv().max(self.rcv.nxt());
        let new = a.end > self.rcv.nxt() || (a.end == a.start && a.start == self.rcv.nxt());
        if !beyond && (new || (self.state == State::SynReceived && self.trims_to_ack(a))) {
            return Ok(());
        }
        let reason = if beyond {
            DropReason::OutOfWindow
        } else {
            DropReason::Duplicate
        };
        self.reassembly
            .note_duplicate(&self.snd, &self.rcv, &mut self.flags, a);
        let may_repeat = reason == DropReason::Duplicate && self.state.is_synchronized();
        if may_repeat && self.is_plausible(a) {
            // RFC 7323 section 5.3 takes TS.Recent from acceptable segments only (R2
            // before R3). But a retransmission of data that has arrived means that our
            // acknowledgment was lost; if the answer to it echoed the old timestamp, the
            // peer would measure the whole outage as a round trip. Before the handshake is
            // over, nothing but a SYN has arrived.
            self.reassembly.follow_paws_floor(&self.rcv, &self.stamps);
            self.note_timestamp(a);
        }
        if self.state == State::SynReceived && a.start == SYN_POS && a.has(TcpFlags::SYN) {
            // The peer retransmits its SYN: it has not received our SYN-ACK.
            if self.liveness.may_challenge(a.now) {
                self.flags |= Flags::SYN_DUE;
            }
        } else {
            self.acknowledge_unacceptable(a);
        }
        Err(Disposition::dropped(reason))
    }

    /// Whether an old segment's numbers are near enough to ours to come from the peer.
    fn is_plausible(&self, a: &Arrival<'_>) -> bool {
        let ack = self.snd.pos(a.segment.header.ack);
        let oldest = self.snd.una() - i64::from(self.snd.max_wnd());
        a.has(TcpFlags::ACK)
            && (oldest..=self.snd.nxt()).contains(&ack)
            && self.rcv.nxt() - a.start <= i64::from(self.rcv.buffer.size())
    }

    /// The SYN-ACK of a simultaneous open (RFC 9293 figure 7): its SYN is a duplicate,
    /// its acknowledgment is the expected one.
    fn trims_to_ack(&self, a: &Arrival<'_>) -> bool {
        a.has(TcpFlags::SYN | TcpFlags::ACK)
            && a.start == SYN_POS
            && self.snd.pos(a.segment.header.ack) == self.snd.nxt()
    }

    /// RFC 9293 section 3.10.7.4, fifth, and RFC 5961 section 5: a segment without ACK is
    /// dropped; an ACK of data that was never sent, or older than the largest window, is
    /// answered and dropped.
    pub(super) fn check_ack(&mut self, a: &Arrival<'_>) -> Step {
        if !a.has(TcpFlags::ACK) {
            return Err(Disposition::dropped(DropReason::NoAck));
        }
        let ack = self.snd.pos(a.segment.header.ack);
        if self.state == State::SynReceived {
            // "If the segment acknowledgment is not acceptable, form a reset
            // segment and send it."
            if ack <= self.snd.una() || ack > self.snd.nxt() {
                return Err(Disposition {
                    reset: true,
                    ..Disposition::dropped(DropReason::AckUnsent)
                });
            }
            return Ok(());
        }
        if ack > self.snd.nxt() {
            self.challenge(a.now);
            return Err(Disposition::dropped(DropReason::AckUnsent));
        }
        if ack < self.snd.una() - i64::from(self.snd.max_wnd()) {
            self.challenge(a.now);
            return Err(Disposition::dropped(DropReason::AckTooOld));
        }
        Ok(())
    }

    /// Answers an unacceptable segment. Payload is always answered (the peer may
    /// retransmit it for lack of an answer); bare segments at a limited rate, so that two
    /// ends out of step do not flood the path.
    fn acknowledge_unacceptable(&mut self, a: &Arrival<'_>) {
        if a.segment.payload_len > 0 || a.has(TcpFlags::FIN) {
            self.flags |= Flags::ACK_NOW;
        } else {
            self.challenge(a.now);
        }
    }

    /// Sends a challenge ACK (RFC 5961), if the rate limit allows it.
    pub(super) fn challenge(&mut self, now: Instant) {
        if self.liveness.may_challenge(now) {
            self.flags |= Flags::ACK_NOW;
        }
    }
}
