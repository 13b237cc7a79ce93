//! Header prediction, for both directions (Clark, Jacobson, Romkey, Salwen 1989;
//! RFC 7323 section 4.2 keeps it working with timestamps).
//!
//! Owns [`Predicted`], tried first for every segment: by the engine on the packet's
//! bytes ([`Tcb::predicts`]), by [`Tcb::on_segment`] for a parsed header. On a connection where nothing is
//! lost or out of order, the next segment is known except for its payload, acknowledgment
//! and window: no options but the negotiated timestamps, the ACK flag (PSH aside), the
//! sequence number RCV.NXT. [`Prediction`](crate::prediction::Prediction) holds the
//! corresponding half word of data offset and flags, derived after each pass of the slow
//! path, or one that equals that of no segment. (The paper also requires an
//! unchanged window; a receiver that tunes its buffer, or reads at its own pace, changes
//! it all the time, and copying it costs less than comparing.) The effect is that of the
//! slow path; a property test compares the two.

use crate::events::Events;
use crate::flags::Flags;
use crate::pos::Pos;
use crate::segment::{Disposition, Ecn, Place, Segment};
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::{HEADER_LEN, Head, PLAIN_LEN, Plain, Stamps, TcpFlags};

/// A segment that matched the prediction: nothing has changed yet, and
/// [`take`](Predicted::take) cannot fail.
#[derive(Debug)]
#[must_use]
pub struct Predicted<'t, 'h> {
    tcb: &'t mut Tcb,
    head: Head<'h>,
    stamps: Option<Stamps<'h>>,
    payload_len: u32,
    /// Newly acknowledged bytes of the send stream, with the FIN.
    acked: u32,
}

impl<'t, 'h> Predicted<'t, 'h> {
    /// See [`Tcb::predicts`].
    #[inline(always)]
    pub(super) fn of_header(tcb: &'t mut Tcb, header: &'h [u8], payload_len: u32) -> Option<Self> {
        if tcb.has_timestamps() {
            Self::of::<true>(tcb, header, payload_len)
        } else {
            Self::of::<false>(tcb, header, payload_len)
        }
    }

    /// See [`Tcb::predicts_segment`].
    #[inline(always)]
    pub(super) fn of_segment<const TIMESTAMPS: bool>(
        tcb: &'t mut Tcb,
        segment: &'h [u8],
    ) -> Option<(Self, &'h [u8])> {
        let header_len = if TIMESTAMPS { PLAIN_LEN } else { HEADER_LEN };
        let payload = segment.get(header_len..)?;
        let predicted = Self::of::<TIMESTAMPS>(tcb, segment, payload.len() as u32)?;
        Some((predicted, payload))
    }

    /// The segment with this header, if it is the one that the connection expects;
    /// `TIMESTAMPS` says whether timestamps are in use.
    #[inline(always)]
    fn of<const TIMESTAMPS: bool>(
        tcb: &'t mut Tcb,
        header: &'h [u8],
        payload_len: u32,
    ) -> Option<Self> {
        let stamps = if TIMESTAMPS {
            Some(Stamps::of(header)?)
        } else {
            None
        };
        let (head, at) = (Head::of(header)?, tcb.rcv.nxt());
        // A predicted header has the length of one with timestamps, or of one without.
        if head.control() & !TcpFlags::PSH.0 != tcb.prediction.control()
            || head.seq() != tcb.rcv.seq(at)
            || tcb.has_timestamps() != TIMESTAMPS
        {
            return None;
        }
        let older = |s: Stamps<'_>| (s.val().wrapping_sub(tcb.stamps.recent()) as i32) < 0;
        if stamps.is_some_and(older) {
            return None;
        }
        let acked = head.ack().0.wrapping_sub(tcb.snd.seq(tcb.snd.una()).0);
        if acked != 0 {
            // It must not acknowledge data that was not sent, and the acknowledgment of
            // our FIN changes the state.
            let ack = tcb.snd.una() + i64::from(acked);
            if ack > tcb.snd.nxt() || ack > tcb.snd.edge() {
                return None;
            }
        } else if payload_len == 0 {
            return None;
        }
        if payload_len != 0
            && (!tcb.prediction.has_data() || at + i64::from(payload_len) > tcb.rcv.adv())
        {
            return None;
        }
        Some(Predicted {
            tcb,
            head,
            stamps,
            payload_len,
            acked,
        })
    }
}

impl Predicted<'_, '_> {
    /// The position in the receive stream where its payload belongs.
    #[inline(always)]
    #[must_use]
    pub fn stream_offset(&self) -> u64 {
        self.tcb.rcv.nxt() as u64
    }

    /// Whether it acknowledges nothing new.
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

    /// Processes the segment, once its checksum is verified and its payload is copied or
    /// about to be. `gso_size` is as in [`Segment`]; it is called for segments that are
    /// longer than all before.
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

    /// As [`take`](Self::take), for a segment that [is data
    /// alone](Predicted::is_data_alone).
    #[inline(always)]
    pub fn take_data(self, gso_size: impl FnOnce() -> u16, now: Instant) {
        self.take_as::<true, false>(gso_size, now);
    }

    /// As [`take`](Self::take), out of line: the caller keeps more registers.
    #[inline(always)]
    pub fn take_outlined(self, gso_size: u16, now: Instant) {
        let lengths = (self.payload_len, self.acked);
        take_outlined(self.tcb, self.head, self.stamps, lengths, gso_size, now);
    }

    /// As [`take`](Self::take), for a segment with payload (`DATA`) and a new
    /// acknowledgment (`ACKS`).
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
                let (echoed, segment) = ((payload_len, stamps.echo()), tcb.acks.segment());
                tcb.stamps
                    .sample_receiver_rtt(&mut tcb.rcv, &tcb.snd.rtt, segment, echoed, now);
            }
        }
        tcb.liveness.note_segment(now);
        let window = u32::from(head.window()) << tcb.snd.wscale();
        tcb.snd.take_window(at, ack, window);
        if !DATA {
            tcb.accounting.counters.fast_acks_in =
                tcb.accounting.counters.fast_acks_in.wrapping_add(1);
        }
        if ACKS {
            if ack == tcb.snd.nxt() {
                fast_ack::<true>(tcb, ack, stamps, now);
            } else {
                fast_ack::<false>(tcb, ack, stamps, now);
            }
        } else if tcb.liveness.has_retried(&tcb.snd)
            && (tcb.snd.in_flight() == 0 || tcb.snd.wnd() == 0)
        {
            // With a new acknowledgment, `fast_ack` has done the same.
            tcb.liveness.note_answered(&mut tcb.snd, tcb.flags);
        }
        if DATA {
            tcb.accounting.counters.fast_data_in =
                tcb.accounting.counters.fast_data_in.wrapping_add(1);
            tcb.rcv.advance(at + i64::from(payload_len));
            if stamps.is_none() {
                tcb.rcv.sample_receiver_rtt_by_window(now);
            }
            tcb.placement().after_in_order(false, now);
        }
        tcb.debug_check();
    }
}

/// See [`Predicted::take_outlined`]: the fields are arguments, since a struct would be
/// passed on the stack.
#[inline(never)]
fn take_outlined(
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

/// New data is acknowledged, in order and with nothing lost: everything that was sent
/// (`ALL`), or a part of it.
#[inline(always)]
fn fast_ack<const ALL: bool>(tcb: &mut Tcb, ack: Pos, stamps: Option<Stamps<'_>>, now: Instant) {
    let (acked, window_used) = (
        ack - tcb.snd.una(),
        tcb.congestion.window_was_used(&tcb.snd),
    );
    let echo = || stamps.map(Stamps::echo).filter(|echo| *echo != 0);
    let times = if ALL {
        tcb.flight.scoreboard.finish_in_order()
    } else {
        tcb.flight.scoreboard.advance_in_order(ack)
    };
    tcb.flight
        .recovery
        .rack
        .on_delivered_in_order(ack, times, now);
    tcb.snd.acknowledge(ack);
    tcb.outcome.report(Events::SND_ACKED);
    tcb.flight
        .sample_round_trip(&mut tcb.snd, &tcb.stamps, ack, echo, now);
    tcb.liveness
        .note_acknowledged(&mut tcb.snd, &mut tcb.outcome);
    if ALL {
        tcb.flight.disarm_xmit(&mut tcb.timers);
        tcb.accounting.busy.end(now);
    } else {
        tcb.flight.rearm_loss_timer(&tcb.snd, now);
        tcb.liveness
            .arm_user_timeout(&mut tcb.timers, &tcb.cfg, now);
    }
    if window_used || tcb.flags.contains(Flags::SLOW_OUTPUT) {
        control_congestion(tcb, acked as u64, window_used, now);
    }
}

/// Congestion control for newly acknowledged data; `window_used`: the window was in
/// use.
#[inline(never)]
fn control_congestion(tcb: &mut Tcb, acked: u64, window_used: bool, now: Instant) {
    if window_used {
        tcb.congestion
            .grow_window(&tcb.snd, tcb.flight.recovery.rack.latest_rtt(), acked, now);
    }
    if tcb.flags.contains(Flags::SLOW_OUTPUT) {
        tcb.congestion.note_unmarked(&tcb.snd, acked);
        let repeated = tcb.accounting.counters.bytes_retrans;
        tcb.flight
            .note_delivery(&tcb.snd, &mut tcb.congestion, repeated, acked, now);
        tcb.congestion
            .follow_window(&tcb.snd.rtt, tcb.ecn.is_on(), &mut tcb.flags);
    }
}

impl Predicted<'_, '_> {
    /// Header prediction for a parsed header: takes the segment if it is the one that `tcb`
    /// expects.
    pub(super) fn take_parsed(
        tcb: &mut Tcb,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Option<Disposition> {
        if segment.ecn == Ecn::Congested {
            return None;
        }
        let mut header = [0; PLAIN_LEN];
        Plain::of(segment.header)?.write(&mut header, 0);
        let len = segment.payload_len;
        let predicted = Predicted::of_header(tcb, &header, len)?;
        let stream_offset = predicted.stream_offset();
        predicted.take(|| segment.gso_size, now);
        Some(Disposition {
            place: (len > 0).then_some(Place {
                stream_offset,
                skip: 0,
                len,
            }),
            ack_now: tcb.flags.contains(Flags::ACK_NOW),
            fast_path: true,
            ..Disposition::default()
        })
    }
}
