//! Acceptability of a segment: PAWS (RFC 7323 section 5), the sequence number (RFC 9293
//! section 3.10.7.4, first), RST and SYN in a synchronized state with RFC 5961's protection
//! against blind attacks, and the acknowledgment number (fifth, with RFC 5961 section 5).
//!
//! Owns [`Checks`], by which `input/mod.rs` has a segment checked.

use super::Arrival;
use crate::acks::OwedAcks;
use crate::drop::DropReason;
use crate::events::Error;
use crate::flags::Flags;
use crate::liveness::Liveness;
use crate::pos::SYN_POS;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::Disposition;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::time::{Instant, SECOND};
use longshore_wire::tcp::TcpFlags;

/// RFC 7323 section 5.5: TS.Recent is invalid after 24 days without a segment.
const PAWS_IDLE_US: u64 = 24 * 24 * 3600 * SECOND;

/// Why a segment is not processed any further.
#[derive(Debug)]
pub(super) enum Refused {
    /// It is dropped; the peer may be answered.
    Dropped(Disposition),
    /// It is a reset that ends the connection, with the error that the user gets.
    Reset(Option<Error>),
}

impl From<DropReason> for Refused {
    fn from(reason: DropReason) -> Refused {
        Refused::Dropped(Disposition::dropped(reason))
    }
}

/// What decides whether a segment is acceptable, and answers one that is not.
pub(super) struct Checks<'t> {
    pub(super) state: State,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t SendSide,
    pub(super) rcv: &'t ReceiveSide,
    pub(super) acks: &'t OwedAcks,
    pub(super) stamps: &'t mut TimestampState,
    pub(super) reassembly: &'t mut Reassembly,
    pub(super) liveness: &'t mut Liveness,
}

impl Checks<'_> {
    /// Checks a segment in the order of RFC 9293 section 3.10.7.4. TS.Recent is taken from
    /// one that is acceptable.
    pub(super) fn check(&mut self, a: &Arrival<'_>) -> Result<(), Refused> {
        self.check_timestamp(a)?;
        if a.has(TcpFlags::RST) {
            return Err(self.check_rst(a));
        }
        self.check_sequence(a)?;
        self.check_syn(a)?;
        self.check_ack(a)?;
        self.note_timestamp(a);
        Ok(())
    }

    /// RFC 7323 section 5.3, R1: a segment whose timestamp is older than TS.Recent is an
    /// old duplicate: it is acknowledged and dropped. Resets are exempt.
    fn check_timestamp(&mut self, a: &Arrival<'_>) -> Result<(), Refused> {
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
        if a.end > self.rcv.nxt() && self.reassembly.admits_late(self.rcv, ts.val) {
            return Ok(());
        }
        self.reassembly
            .note_duplicate(self.snd, self.rcv, self.flags, a.first_byte(), a.data_end);
        self.acknowledge_unacceptable(a);
        Err(DropReason::Paws.into())
    }

    /// RFC 7323 section 4.3: TS.Recent is taken from a segment that spans Last.ACK.sent.
    fn note_timestamp(&mut self, a: &Arrival<'_>) {
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
            self.reassembly.follow_paws_bound(self.rcv, self.stamps);
        }
    }

    /// RFC 9293 section 3.10.7.4, first: part of the segment must lie in the window. A
    /// segment that begins right at the window's end is accepted too: its acknowledgment
    /// counts even if its payload does not (the RFC allows this for a zero window, Linux
    /// for any).
    fn check_sequence(&mut self, a: &Arrival<'_>) -> Result<(), Refused> {
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
            .note_duplicate(self.snd, self.rcv, self.flags, a.first_byte(), a.data_end);
        let may_repeat = reason == DropReason::Duplicate && self.state.is_synchronized();
        if may_repeat && self.is_plausible(a) {
            // RFC 7323 section 5.3 takes TS.Recent from acceptable segments only (R2
            // before R3). But a retransmission of data that has arrived means that our
            // acknowledgment was lost; if the answer to it echoed the old timestamp, the
            // peer would measure the whole outage as a round trip. Before the handshake is
            // over, nothing but a SYN has arrived.
            self.reassembly.follow_paws_bound(self.rcv, self.stamps);
            self.note_timestamp(a);
        }
        if self.state == State::SynReceived && a.start == SYN_POS && a.has(TcpFlags::SYN) {
            // The peer retransmits its SYN: it has not received our SYN-ACK.
            if self.liveness.may_challenge(a.now) {
                *self.flags |= Flags::SYN_DUE;
            }
        } else {
            self.acknowledge_unacceptable(a);
        }
        Err(reason.into())
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

    /// RFC 5961 section 3.2 (RFC 9293 section 3.10.7.4, second): a RST outside the window
    /// is dropped; one exactly at RCV.NXT resets; one elsewhere in the window is
    /// challenged.
    fn check_rst(&mut self, a: &Arrival<'_>) -> Refused {
        let exact = a.start == self.rcv.nxt() || self.rst_has_fin_seq(a);
        let inside = a.start > self.rcv.nxt() && a.start < self.rcv.adv();
        if !exact && !inside {
            return DropReason::RstUnacceptable.into();
        }
        if !exact {
            self.challenge(a.now);
            return DropReason::RstNotExact.into();
        }
        Refused::Reset(match self.state {
            // RFC 9293 section 3.10.7.4: an active open is refused. A passive one is
            // discarded, unless its program already has it (RFC 7413).
            State::SynReceived if self.flags.contains(Flags::ACTIVE) => Some(Error::Refused),
            State::CloseWait => Some(Error::BrokenPipe),
            // Both sides have closed: no data is lost.
            State::Closing | State::LastAck => None,
            _ => Some(Error::Reset),
        })
    }

    /// Some systems that close and then reset give the reset the sequence number of their
    /// FIN. Like Linux we accept it: it is as hard to guess as RCV.NXT.
    fn rst_has_fin_seq(&self, a: &Arrival<'_>) -> bool {
        let has_closed = matches!(
            self.state,
            State::CloseWait | State::Closing | State::LastAck
        );
        has_closed && a.start == self.rcv.fin()
    }

    /// RFC 5961 section 4.2: a SYN in a synchronized state is challenged, whatever its
    /// sequence number.
    fn check_syn(&mut self, a: &Arrival<'_>) -> Result<(), Refused> {
        if !a.has(TcpFlags::SYN) {
            return Ok(());
        }
        if self.state == State::SynReceived && a.start == SYN_POS && a.has(TcpFlags::ACK) {
            return Ok(());
        }
        if self.state == State::SynReceived && a.start == SYN_POS {
            // A retransmitted SYN with data (RFC 7413): our SYN-ACK is lost.
            if self.liveness.may_challenge(a.now) {
                *self.flags |= Flags::SYN_DUE;
            }
            return Err(DropReason::EarlyData.into());
        }
        self.challenge(a.now);
        Err(DropReason::SynInConnection.into())
    }

    /// RFC 9293 section 3.10.7.4, fifth, and RFC 5961 section 5: a segment without ACK is
    /// dropped; an ACK of data that was never sent, or older than the largest window, is
    /// answered and dropped.
    fn check_ack(&mut self, a: &Arrival<'_>) -> Result<(), Refused> {
        if !a.has(TcpFlags::ACK) {
            return Err(DropReason::NoAck.into());
        }
        let ack = self.snd.pos(a.segment.header.ack);
        if self.state == State::SynReceived {
            // "If the segment acknowledgment is not acceptable, form a reset
            // segment and send it."
            if ack <= self.snd.una() || ack > self.snd.nxt() {
                return Err(Refused::Dropped(Disposition {
                    reset: true,
                    ..Disposition::dropped(DropReason::AckUnsent)
                }));
            }
            return Ok(());
        }
        if ack > self.snd.nxt() {
            self.challenge(a.now);
            return Err(DropReason::AckUnsent.into());
        }
        if ack < self.snd.una() - i64::from(self.snd.max_wnd()) {
            self.challenge(a.now);
            return Err(DropReason::AckTooOld.into());
        }
        Ok(())
    }

    /// Answers an unacceptable segment. Payload is always answered (the peer may
    /// retransmit it for lack of an answer); bare segments at a limited rate, so that two
    /// ends out of step do not flood the path.
    fn acknowledge_unacceptable(&mut self, a: &Arrival<'_>) {
        if a.segment.payload_len > 0 || a.has(TcpFlags::FIN) {
            *self.flags |= Flags::ACK_NOW;
        } else {
            self.challenge(a.now);
        }
    }

    /// Sends a challenge ACK (RFC 5961), if the rate limit allows it.
    fn challenge(&mut self, now: Instant) {
        if self.liveness.may_challenge(now) {
            *self.flags |= Flags::ACK_NOW;
        }
    }
}
