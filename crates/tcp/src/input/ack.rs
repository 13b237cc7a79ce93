//! The acknowledgment (RFC 9293 section 3.10.7.4, fifth): what it covers, the
//! scoreboard, the round trip, the peer's window.
//!
//! Called by `input/mod.rs` for every acceptable segment, and in part by
//! `fast_path.rs`. Congestion and recovery are told at the end
//! (`Tcb::on_ack_news`).

use super::fast_path::UNPREDICTABLE;
use super::{Arrival, Step};
use crate::events::Events;
use crate::recovery::{AckNews, Delivery};
use crate::segment::Disposition;
use crate::state::State;
use crate::tcb::{Flags, NO_POS, Pos, Tcb};
use crate::time::{Instant, MS};
use longshore_wire::tcp::{TcpFlags, TcpHeader, control};

/// How far below the acknowledgment a duplicate may be reported, bytes: more than any
/// window, less than what would make sequence numbers ambiguous.
const MAX_DSACK_AGE: u32 = 1 << 30;

impl Tcb {
    /// Takes the acknowledgment of an acceptable segment.
    pub(super) fn on_ack(&mut self, a: &Arrival<'_>) -> Step {
        let h = a.segment.header;
        let ack = self.snd_pos(h.ack);
        self.liveness.last_ack = a.now;
        self.liveness.keepalive_probes = 0;
        let old_una = self.snd.una;
        let acked = (ack - old_una).max(0) as u64;
        let feedback = self.ecn_feedback(a.segment, acked);
        let mut news = AckNews {
            acked,
            window_used: acked > 0 && self.window_was_used(),
            congested: feedback.congested,
            echo: self.echo(h),
            ..AckNews::default()
        };
        let mut delivery = self.start_delivery(news.echo, a.now);
        self.take_sack(h, ack.max(old_una), &mut news, &mut delivery);
        let old_window = self.snd.wnd;
        self.update_window(a, ack);
        news.duplicate = ack == old_una
            && self.in_flight() > 0
            && a.end == a.start
            && (news.sacked > 0 || (self.snd.wnd == old_window && !self.expects_sack()));
        if news.acked > 0 {
            self.take_delivered(old_una, ack, &mut delivery);
            self.advance_una(ack, self.echo(h), a.now);
        }
        self.flight.recovery.rack.on_ack(&delivery);
        news.delivered = delivery.bytes;
        news.original = delivery.original;
        if news.acked > 0 || news.sacked > 0 || news.duplicate || news.dsack.is_some() {
            self.on_ack_news(news, a.now);
            self.end_timeout_repair(a.now);
            self.note_delivery(news.delivered, a.now);
        }
        self.ecn_on_feedback(feedback);
        self.after_ack(a.now)
    }

    /// With SACK, a duplicate acknowledgment is one that reports something new (RFC
    /// 6675 section 2).
    fn expects_sack(&self) -> bool {
        self.flags.contains(Flags::SACK)
    }

    /// Whether the congestion window was what limited us when the data that is being
    /// acknowledged was sent. In slow start, it is enough that more than half of it was
    /// in use at some time in this round trip: bursts end below it.
    #[inline(always)]
    pub(crate) fn window_was_used(&mut self) -> bool {
        // First, so that the most of a round trip counts though it began with a full window.
        let half_used = self.congestion.controller.in_slow_start()
            && self.most_in_flight() * 2 > self.congestion.controller.cwnd();
        half_used || self.snd.una <= self.congestion.full_at
    }

    /// The most that was in flight since the window's worth of data began that is being
    /// acknowledged, bytes.
    #[inline(always)]
    fn most_in_flight(&mut self) -> u32 {
        // A window at most, which is 1 GiB at most.
        let flight = self.in_flight() as u32;
        if self.snd.una >= self.congestion.flight_until || flight > self.congestion.most_flight {
            self.congestion.most_flight = flight;
            self.congestion.flight_until = self.snd.nxt;
        }
        self.congestion.most_flight
    }

    /// Everything from `from`, where the scoreboard begins, to `ack` is delivered.
    #[inline]
    pub(super) fn take_delivered(&mut self, from: Pos, ack: Pos, d: &mut Delivery) {
        let rack = &mut self.flight.recovery.rack;
        self.flight
            .scoreboard
            .advance(from, ack, |s| rack.on_delivered(s, false, d));
    }

    /// SND.UNA <- SEG.ACK, with what follows for the timers and the round trip. `echo`
    /// is the timestamp echo that came with it, if one did that can be used.
    pub(super) fn advance_una(&mut self, ack: Pos, echo: Option<u32>, now: Instant) {
        let old = self.snd.una;
        self.snd.una = ack;
        if ack.min(self.snd.edge) > old {
            self.outcome.events |= Events::SND_ACKED;
        }
        self.take_round_trip(ack, || echo, now);
        // RFC 6298 section 5.2 and 5.3.
        if self.in_flight() == 0 {
            self.disarm_xmit();
            self.accounting.busy.end(now);
        } else {
            self.arm_loss_timer(now);
            self.arm_user_timeout(now);
        }
    }

    /// New data was acknowledged: the round trip, and whatever counted attempts is over.
    #[inline(always)]
    pub(super) fn take_round_trip(
        &mut self,
        ack: Pos,
        echo: impl FnOnce() -> Option<u32>,
        now: Instant,
    ) {
        self.sample_round_trip(ack, echo, now);
        self.liveness.retries = 0;
        self.outcome.soft_error = None;
        self.rtt.clear_backoff();
    }

    /// RFC 6298 section 3: the timed segment, if nothing was repeated meanwhile;
    /// otherwise the echoed timestamp (RFC 7323 section 4.1), which repetition does
    /// not spoil unless it was held back.
    #[inline(always)]
    fn sample_round_trip(&mut self, ack: Pos, echo: impl FnOnce() -> Option<u32>, now: Instant) {
        if ack >= self.flight.timed {
            self.end_timing(now);
        } else if !self.is_timing()
            && let Some(echo) = echo()
            && !self.may_be_held_back(echo)
        {
            let clock = self.timestamp_clock(now);
            let elapsed = clock.wrapping_sub(echo);
            // An echo from the future, or from long ago, is the peer's mistake.
            if elapsed < 120_000 {
                self.rtt.sample((u64::from(elapsed) * MS).max(MS / 2));
            }
        }
    }

    /// The timestamp that a segment echoes, if they are agreed and it has one.
    pub(super) fn echo(&self, h: &TcpHeader) -> Option<u32> {
        let echo = h.options.timestamps.as_ref()?.echo;
        self.usable_echo(echo).then_some(echo)
    }

    /// Whether a timestamp echo means anything.
    #[inline]
    pub(super) fn usable_echo(&self, echo: u32) -> bool {
        self.flags.contains(Flags::TIMESTAMPS) && echo != 0
    }

    /// The timed round trip is over, if one is timed.
    pub(super) fn take_timed_sample(&mut self, now: Instant) {
        if self.is_timing() {
            self.end_timing(now);
        }
    }

    #[inline(always)]
    fn end_timing(&mut self, now: Instant) {
        self.flight.timed = NO_POS;
        self.rtt.sample_since(self.flight.timed_at, now);
    }

    /// RFC 2018 section 5: takes the SACK blocks. What lies below `una` or is
    /// nonsense is passed over.
    fn take_sack(&mut self, h: &TcpHeader, una: Pos, news: &mut AckNews, d: &mut Delivery) {
        if h.options.sack.is_empty() || !self.flags.contains(Flags::SACK) {
            return;
        }
        news.dsack = self.find_dsack(h, una);
        if news.dsack.is_some() {
            self.accounting.counters.dsacks = self.accounting.counters.dsacks.wrapping_add(1);
        }
        let base = self.snd.una;
        for (left, right) in h.options.sack.iter() {
            let (start, end) = (self.snd_pos(left), self.snd_pos(right));
            let start = start.max(una);
            if start < end && end <= self.snd.nxt {
                let rack = &mut self.flight.recovery.rack;
                news.sacked += self
                    .flight
                    .scoreboard
                    .sack(base, start, end, |s| rack.on_delivered(s, true, d));
            }
        }
    }

    /// RFC 2883 section 4: the first block reports a duplicate if it lies below the
    /// acknowledgment, or within the second block.
    fn find_dsack(&self, h: &TcpHeader, una: Pos) -> Option<(Pos, Pos)> {
        let mut blocks = h
            .options
            .sack
            .iter()
            .map(|(left, right)| (self.snd_pos(left), self.snd_pos(right)));
        let (start, end) = blocks.next()?;
        let within = |(s, e): (Pos, Pos)| s <= start && end <= e;
        let sane = start < end && end <= self.snd.nxt && start >= una - i64::from(MAX_DSACK_AGE);
        (sane && (end <= una || blocks.next().is_some_and(within))).then_some((start, end))
    }

    /// RFC 9293 section 3.10.7.4: "If SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and
    /// SND.WL2 =< SEG.ACK), set SND.WND <- SEG.WND". As in Linux, what acknowledges
    /// new data is newer in any case, even if its own data has been overtaken; with
    /// the old window, the right edge would move without the peer's word.
    fn update_window(&mut self, a: &Arrival<'_>, ack: Pos) {
        let newer = self.snd.una < ack
            || self.snd.wl1 < a.start
            || (self.snd.wl1 == a.start && self.snd.wl2 <= ack);
        if ack < self.snd.una || !newer {
            return;
        }
        let window = u32::from(a.segment.header.window) << self.snd.wscale;
        if self.snd.wnd == 0 && window > 0 && ack == self.snd.una {
            self.repeat_into_open_window();
        }
        self.snd.wl1 = self.snd.wl1.max(a.start);
        self.snd.wl2 = ack;
        self.snd.max_wnd = self.snd.max_wnd.max(window);
        self.snd.wnd = window;
    }

    /// What an acknowledgment means for the persist timer and for the state.
    fn after_ack(&mut self, now: Instant) -> Step {
        if self.in_flight() == 0 || self.snd.wnd == 0 {
            self.note_answered();
        }
        self.check_fin_acked(now)
    }

    /// The peer lives, and nothing is in flight or it has no room for it. RFC 9293
    /// section 3.8.6.1: as long as probes of a closed window are answered, the
    /// connection is kept, unless no program holds it any more.
    #[inline]
    pub(super) fn note_answered(&mut self) {
        if self.snd.wnd > 0 {
            self.rtt.clear_backoff();
        }
        if !self.is_orphan() {
            self.liveness.retries = 0;
        }
    }

    /// Whether there is something for [`note_answered`](Tcb::note_answered) to end.
    #[inline]
    pub(super) fn has_retried(&self) -> bool {
        self.liveness.retries != 0 || self.rtt.backoff() != 0
    }

    /// RFC 9293 section 3.10.7.4, fifth: what the ACK of our FIN does in each state.
    fn check_fin_acked(&mut self, now: Instant) -> Step {
        if !self.flags.contains(Flags::FIN_QUEUED) || self.snd.una <= self.snd.edge {
            return Ok(());
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.outcome.events |= Events::FIN_ACKED;
                if self.is_orphan() {
                    self.start_fin_wait(now);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => {
                self.die(None, Events::FIN_ACKED);
                return Err(Disposition::default());
            }
            _ => {}
        }
        Ok(())
    }

    /// Header prediction expects what follows from the state now; see
    /// `fast_path.rs`.
    pub(crate) fn predict_next(&mut self) {
        let plain = !matches!(
            self.state,
            State::Closed | State::SynSent | State::SynReceived | State::TimeWait
        ) && self.reassembly.ranges.is_empty()
            && self.flight.scoreboard.is_in_order(self.snd.una)
            && self.flight.recovery.is_quiet()
            && !self.flight.recovery.probe.is_outstanding()
            && !self.mtu.is_probing()
            && self.flight.recovery.dup_acks == 0
            && self.ecn.is_predictable()
            && !self.is_denied_room()
            && self.snd.wl1 <= self.rcv.nxt
            && (self.rcv.fin == NO_POS || self.peer_closed());
        self.predict_data = plain
            && self.state.may_receive_data()
            && !self.flags.intersects(Flags::RCV_SHUT | Flags::ORPHAN);
        self.predict = if plain {
            control(TcpFlags::ACK, self.flags.contains(Flags::TIMESTAMPS))
        } else {
            UNPREDICTABLE
        };
    }
}
