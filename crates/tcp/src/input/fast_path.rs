//! Header prediction, for both directions (Clark, Jacobson, Romkey, Salwen 1989;
//! RFC 7323 section 4.2 keeps it working with timestamps).
//!
//! Owns [`Tcb::predicts`], tried first for every segment: by the engine straight
//! from the packet's bytes, by [`Tcb::on_segment`] for a header that is already
//! parsed. On a connection where nothing is lost or out of order, the next segment is
//! known but for its payload, acknowledgment and window: no options but the timestamps
//! that were agreed, the ACK flag (PSH aside), the sequence number RCV.NXT.
//! `predict` holds the half word of data offset and flags that this means, worked out
//! by `predict_next` whenever the slow path has run, or [`UNPREDICTABLE`], which is
//! compared with no segment's. (The paper also wants the window unchanged; a receiver
//! that tunes its buffer, or reads at its own pace, changes it all the time, and
//! taking it over costs less than comparing.) What is done then is what the slow path
//! would do; a property test holds them against each other.

use crate::events::Events;
use crate::flags::Flags;
use crate::pos::Pos;
use crate::segment::{Disposition, Ecn, Place, Segment};
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::{HEADER_LEN, Head, PLAIN_LEN, Plain, Stamps, TcpFlags};

/// A segment that a block predicted: nothing has changed yet, and
/// [`take`](Predicted::take) cannot fail.
#[derive(Debug)]
#[must_use]
pub struct Predicted<'t, 'h> {
    tcb: &'t mut Tcb,
    head: Head<'h>,
    stamps: Option<Stamps<'h>>,
    payload_len: u32,
    /// Bytes of the send stream, and FIN, that it acknowledges.
    acked: u32,
}

impl Tcb {
    /// Says whether a segment is the one that was predicted. It begins with `header`
    /// (its other bytes may follow) and has `payload_len` bytes of payload behind as
    /// much of a header as its data offset says. Its packet must not be marked by
    /// congestion ([`Ecn::Congested`]).
    ///
    /// `None` if it is another segment: [`on_segment`](Tcb::on_segment) takes it.
    #[inline(always)]
    pub fn predicts<'t, 'h>(
        &'t mut self,
        header: &'h [u8],
        payload_len: u32,
    ) -> Option<Predicted<'t, 'h>> {
        if self.has_timestamps() {
            self.predicts_as::<true>(header, payload_len)
        } else {
            self.predicts_as::<false>(header, payload_len)
        }
    }

    /// The same for a whole `segment`, and its payload, if timestamps were agreed or not
    /// as `TIMESTAMPS` says: what is predicted has a header of one length then.
    #[inline(always)]
    pub fn predicts_segment<'t, 'h, const TIMESTAMPS: bool>(
        &'t mut self,
        segment: &'h [u8],
    ) -> Option<(Predicted<'t, 'h>, &'h [u8])> {
        let header_len = if TIMESTAMPS { PLAIN_LEN } else { HEADER_LEN };
        let payload = segment.get(header_len..)?;
        let predicted = self.predicts_as::<TIMESTAMPS>(segment, payload.len() as u32)?;
        Some((predicted, payload))
    }

    #[inline(always)]
    fn predicts_as<'t, 'h, const TIMESTAMPS: bool>(
        &'t mut self,
        header: &'h [u8],
        payload_len: u32,
    ) -> Option<Predicted<'t, 'h>> {
        let stamps = if TIMESTAMPS {
            Some(Stamps::of(header)?)
        } else {
            None
        };
        let (head, at) = (Head::of(header)?, self.rcv.nxt());
        // What is predicted has the length of a header with timestamps, or of one
        // without.
        if head.control() & !TcpFlags::PSH.0 != self.predict
            || head.seq() != self.rcv.seq(at)
            || self.has_timestamps() != TIMESTAMPS
        {
            return None;
        }
        let older = |s: Stamps<'_>| (s.val().wrapping_sub(self.stamps.recent()) as i32) < 0;
        if stamps.is_some_and(older) {
            return None;
        }
        let acked = head.ack().0.wrapping_sub(self.snd.seq(self.snd.una()).0);
        if acked != 0 {
            // Nothing of the send stream may be acknowledged that was not sent, and
            // the acknowledgment of our FIN changes the state.
            let ack = self.snd.una() + i64::from(acked);
            if ack > self.snd.nxt() || ack > self.snd.edge() {
                return None;
            }
        } else if payload_len == 0 {
            return None;
        }
        if payload_len != 0 && (!self.predict_data || at + i64::from(payload_len) > self.rcv.adv())
        {
            return None;
        }
        Some(Predicted {
            tcb: self,
            head,
            stamps,
            payload_len,
            acked,
        })
    }
}

impl Predicted<'_, '_> {
    /// The position in the receive stream where all of its payload belongs.
    #[inline(always)]
    #[must_use]
    pub fn stream_offset(&self) -> u64 {
        self.tcb.rcv.nxt() as u64
    }

    /// Whether it acknowledges nothing that was not acknowledged before.
    #[inline(always)]
    #[must_use]
    pub fn is_data_alone(&self) -> bool {
        self.acked == 0
    }

    /// How far the user has read, as [`Tcb::rcv_consumed`].
    #[inline(always)]
    #[must_use]
    pub fn rcv_consumed(&self) -> u64 {
        self.tcb.rcv_consumed()
    }

    /// Takes it, once its checksum is known to be right and its payload is where it
    /// belongs, or as good as there. `gso_size` as in [`Segment`]: it is asked for
    /// segments that are longer than those before.
    #[inline(always)]
    pub fn take(self, gso_size: impl FnOnce() -> u16, now: Instant) {
        if self.acked == 0 {
            self.take_data(gso_size, now);
        } else if self.payload_len == 0 {
            self.take_as::<false, true>(gso_size, now);
        } else {
            self.take_as::<true, true>(gso_size, now);
        }
    }

    /// The same for one that [is data alone](Predicted::is_data_alone).
    #[inline(always)]
    pub fn take_data(self, gso_size: impl FnOnce() -> u16, now: Instant) {
        self.take_as::<true, false>(gso_size, now);
    }

    /// The same, as a function of its own: its caller has more registers then.
    #[inline(always)]
    pub fn take_apart(self, gso_size: u16, now: Instant) {
        let lengths = (self.payload_len, self.acked);
        take_apart(self.tcb, self.head, self.stamps, lengths, gso_size, now);
    }

    /// The same for one that has `DATA`, and acknowledges something if it `ACKS`.
    #[inline(always)]
    fn take_as<const DATA: bool, const ACKS: bool>(
        self,
        gso_size: impl FnOnce() -> u16,
        now: Instant,
    ) {
        let Self {
            tcb,
            head,
            stamps,
            payload_len,
            acked,
        } = self;
        let (at, old) = (tcb.rcv.nxt(), tcb.snd.una());
        let ack = if ACKS { old + i64::from(acked) } else { old };
        if DATA {
            tcb.acks.estimate_rcv_mss(&tcb.rcv, payload_len, gso_size);
        }
        if let Some(stamps) = stamps {
            if at <= tcb.acks.last_sent() {
                tcb.stamps.take(stamps.val(), now);
            }
            if DATA {
                tcb.sample_receiver_rtt_by_echo(payload_len, stamps.echo(), now);
            }
        }
        tcb.liveness.heard(now);
        let window = u32::from(head.window()) << tcb.snd.wscale();
        tcb.snd.take_window(at, ack, window);
        if !DATA {
            tcb.accounting.counters.fast_acks_in =
                tcb.accounting.counters.fast_acks_in.wrapping_add(1);
        }
        if ACKS {
            if ack == tcb.snd.nxt() {
                tcb.fast_ack::<true>(ack, stamps, now);
            } else {
                tcb.fast_ack::<false>(ack, stamps, now);
            }
        } else if tcb.liveness.has_retried(&tcb.snd)
            && (tcb.snd.in_flight() == 0 || tcb.snd.wnd() == 0)
        {
            // Progress has done the same.
            tcb.liveness.note_answered(&mut tcb.snd, tcb.flags);
        }
        if DATA {
            tcb.accounting.counters.fast_data_in =
                tcb.accounting.counters.fast_data_in.wrapping_add(1);
            tcb.rcv.advance(at + i64::from(payload_len));
            if stamps.is_none() {
                tcb.rcv.sample_receiver_rtt_by_window(now);
            }
            tcb.after_in_order(false, now);
        }
        tcb.debug_check();
    }
}

/// See [`Predicted::take_apart`]: in pieces, as a whole one would go over the stack.
#[inline(never)]
fn take_apart(
    tcb: &mut Tcb,
    head: Head<'_>,
    stamps: Option<Stamps<'_>>,
    (payload_len, acked): (u32, u32),
    gso_size: u16,
    now: Instant,
) {
    let predicted = Predicted {
        tcb,
        head,
        stamps,
        payload_len,
        acked,
    };
    predicted.take(|| gso_size, now);
}

impl Tcb {
    /// New data is acknowledged, in order and with nothing lost: `ALL` that was sent, or
    /// a part of it.
    #[inline(always)]
    fn fast_ack<const ALL: bool>(&mut self, ack: Pos, stamps: Option<Stamps<'_>>, now: Instant) {
        let (acked, window_used) = (
            ack - self.snd.una(),
            self.congestion.window_was_used(&self.snd),
        );
        let echo = || stamps.map(Stamps::echo).filter(|echo| *echo != 0);
        let times = if ALL {
            self.flight.scoreboard.finish_in_order()
        } else {
            self.flight.scoreboard.advance_in_order(ack)
        };
        self.flight
            .recovery
            .rack
            .on_delivered_in_order(ack, times, now);
        self.snd.acknowledge(ack);
        self.outcome.events |= Events::SND_ACKED;
        self.note_round_trip(ack, echo, now);
        if ALL {
            self.disarm_xmit();
            self.accounting.busy.end(now);
        } else {
            self.flight.rearm_loss_timer(&self.snd, now);
            self.liveness
                .arm_user_timeout(&mut self.timers, &self.cfg, now);
        }
        if window_used || self.flags.contains(Flags::CAREFUL) {
            self.control_congestion(acked as u64, window_used, now);
        }
    }

    /// What congestion control makes of new data that was acknowledged; the window was in
    /// use or not.
    #[inline(never)]
    fn control_congestion(&mut self, acked: u64, window_used: bool, now: Instant) {
        if window_used {
            self.congestion.grow_window(
                &self.snd,
                self.flight.recovery.rack.latest_rtt(),
                acked,
                now,
            );
        }
        if self.flags.contains(Flags::CAREFUL) {
            self.note_predicted_delivery(acked, now);
        }
    }

    /// The same for a header that is parsed.
    pub(super) fn fast_path(&mut self, segment: &Segment<'_>, now: Instant) -> Option<Disposition> {
        if segment.ecn == Ecn::Congested {
            return None;
        }
        let mut header = [0; PLAIN_LEN];
        Plain::of(segment.header)?.write(&mut header, 0);
        let len = segment.payload_len;
        let predicted = self.predicts(&header, len)?;
        let stream_offset = predicted.stream_offset();
        predicted.take(|| segment.gso_size, now);
        Some(Disposition {
            place: (len > 0).then_some(Place {
                stream_offset,
                skip: 0,
                len,
            }),
            ack_now: self.flags.contains(Flags::ACK_NOW),
            fast_path: true,
            ..Disposition::default()
        })
    }
}
