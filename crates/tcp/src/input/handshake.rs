//! The handshake: the peer's SYN, SYN-SENT (RFC 9293 section 3.10.7.3), and what makes a
//! connection ESTABLISHED.
//!
//! Owns [`Handshake`], to which `input/mod.rs` passes segments of a connection that is not
//! established yet, and `open.rs` the SYN of a passive open.

use super::checks::Refused;
use super::{Arrival, Step};
use crate::accounting::Accounting;
use crate::acks::{LEAST_RCV_MSS, MAX_QUICK_ACKS, OwedAcks};
use crate::config::Config;
use crate::congestion::{CongestionState, Controller};
use crate::drop::DropReason;
use crate::ecn::EcnState;
use crate::events::{Error, Events};
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::output::TIMESTAMPS_LEN;
use crate::pos::SYN_POS;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::{Disposition, Segment};
use crate::snd::{MIN_MSS, SendSide, default_mss};
use crate::stamps::TimestampState;
use crate::state::State;
use crate::time::Instant;
use crate::timers::Timers;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// What the handshake changes.
pub(crate) struct Handshake<'t> {
    pub(crate) state: &'t mut State,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t mut SendSide,
    pub(crate) stamps: &'t mut TimestampState,
    pub(crate) acks: &'t mut OwedAcks,
    pub(crate) rcv: &'t mut ReceiveSide,
    pub(crate) liveness: &'t mut Liveness,
    pub(crate) cfg: &'t mut Config,
    pub(crate) ecn: &'t mut EcnState,
    pub(crate) fast_open: &'t mut FastOpen,
    pub(crate) outcome: &'t mut Outcome,
    pub(crate) timers: &'t mut Timers,
    pub(crate) congestion: &'t mut CongestionState,
    pub(crate) accounting: &'t mut Accounting,
    pub(crate) reassembly: &'t mut Reassembly,
    pub(crate) flight: &'t mut Flight,
}

// ---- Segments. ----

impl Handshake<'_> {
    /// The SYN that a listener has accepted.
    pub(crate) fn on_syn(&mut self, segment: &Segment<'_>, now: Instant) {
        self.handle_syn(segment.header, now);
        self.ecn.on_syn(self.cfg, segment);
    }

    /// RFC 9293 section 3.10.7.3, in SYN-SENT: checks everything that comes before the SYN's own
    /// numbers. Returns whether the SYN acknowledges ours.
    pub(super) fn check_answer(&self, h: &TcpHeader) -> Result<bool, Refused> {
        let has_ack = h.flags.contains(TcpFlags::ACK);
        // First: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST
        // bit is set)".
        let acceptable = has_ack && (0..=self.snd.nxt()).contains(&self.snd.pos(h.ack));
        if has_ack && !acceptable {
            let rst = h.flags.contains(TcpFlags::RST);
            return Err(Refused::Dropped(Disposition {
                reset: !rst,
                ..Disposition::dropped(if rst {
                    DropReason::RstUnacceptable
                } else {
                    DropReason::AckUnsent
                })
            }));
        }
        // Second: a RST counts only with an acceptable ACK (RFC 5961 section 3.2).
        if h.flags.contains(TcpFlags::RST) {
            return Err(match acceptable {
                true => Refused::Reset(Some(Error::Refused)),
                false => DropReason::RstUnacceptable.into(),
            });
        }
        // Fourth: the SYN.
        match h.flags.contains(TcpFlags::SYN) {
            true => Ok(acceptable),
            false => Err(DropReason::NoFlags.into()),
        }
    }

    /// A simultaneous open: "enter SYN-RECEIVED, form a SYN,ACK segment". Payload and
    /// FIN are left for the peer to retransmit.
    pub(super) fn on_simultaneous_syn(
        &mut self,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Disposition {
        self.handle_syn(segment.header, now);
        *self.state = State::SynReceived;
        *self.flags |= Flags::SYN_DUE;
        let early = segment.payload_len > 0;
        Disposition {
            drop: early.then_some(DropReason::EarlyData),
            ack_now: true,
            ..Disposition::default()
        }
    }

    /// The SYN-ACK that completes an active open. "If there are other controls or text in
    /// the segment, then continue processing at the sixth step": payload and FIN are
    /// processed after this.
    pub(super) fn on_syn_ack(&mut self, segment: &Segment<'_>, now: Instant) -> Step {
        let h = segment.header;
        if self.answers_another_syn(h, now) {
            return Err(Disposition {
                reset: true,
                ..Disposition::dropped(DropReason::Paws)
            });
        }
        self.handle_syn(h, now);
        self.ecn.on_syn_ack(segment);
        self.handle_syn_ack(h, now);
        if h.flags.contains(TcpFlags::URG) {
            self.rcv
                .handle_urgent_pointer(self.cfg, self.outcome, h, SYN_POS);
        }
        Ok(())
    }

    /// Whether a SYN-ACK echoes a timestamp that none of our SYNs had: it answers the SYN
    /// of an earlier connection. As in Linux it is answered by a reset, and the right one
    /// may still arrive.
    fn answers_another_syn(&self, h: &TcpHeader, now: Instant) -> bool {
        let Some(ts) = h.options.timestamps.as_ref().filter(|ts| ts.echo != 0) else {
            return false;
        };
        let (clock, first) = (self.stamps.clock(now), self.flight.round_trip.began());
        let age = clock.wrapping_sub(ts.echo);
        self.cfg.timestamps && age > clock.wrapping_sub(self.stamps.clock(first))
    }

    /// Processes the acknowledgment of the SYN-ACK, which ends the handshake.
    fn handle_syn_ack(&mut self, h: &TcpHeader, now: Instant) {
        let ack = self.snd.pos(h.ack);
        self.fast_open.handle_answer(ack, h.options.fast_open);
        self.flight
            .round_trip
            .end_if_running(&mut self.snd.rtt, now);
        self.flight.disarm_xmit(self.timers);
        self.flight
            .handle_first_ack(self.snd, self.stamps, ack, now);
        if ack > 0 {
            self.outcome.report(Events::SND_ACKED);
        }
        self.establish(now);
        *self.flags |= Flags::ACK_NOW;
        if self.snd.nxt() < self.snd.edge() {
            // More was written than was sent with the SYN (RFC 7413): the acknowledgment
            // is piggybacked on it, and the connection is interactive from the start.
            *self.flags |= Flags::INTERACTIVE;
        }
        if self.snd.in_flight() > 0 {
            // RFC 7413 section 4.2.1: the server did not accept the data on the SYN.
            self.flight.retransmit_refused_data(self.snd);
            self.flight.arm_loss_timer(self.snd, now);
        }
    }

    /// RFC 9293 section 3.10.7.4, fifth, SYN-RECEIVED: the ACK of our SYN.
    pub(super) fn on_ack(&mut self, a: &Arrival<'_>) -> Step {
        let h = a.segment.header;
        let simultaneous = a.has(TcpFlags::SYN);
        self.flight
            .round_trip
            .end_if_running(&mut self.snd.rtt, a.now);
        self.flight.disarm_xmit(self.timers);
        self.flight
            .handle_first_ack(self.snd, self.stamps, 0, a.now);
        // "Set SND.WND <- SEG.WND, SND.WL1 <- SEG.SEQ, SND.WL2 <- SEG.ACK"; a SYN's
        // window is not scaled.
        let scale = if simultaneous { 0 } else { self.snd.wscale() };
        let window = u32::from(h.window) << scale;
        self.snd.take_window(a.start, self.snd.una(), window);
        self.ecn.on_handshake_ack(a.segment);
        self.establish(a.now);
        if self.snd.in_flight() > 0 {
            self.flight.arm_loss_timer(self.snd, a.now);
        }
        if simultaneous {
            // The peer may still wait for the ACK of its SYN, and that SYN has arrived
            // twice (RFC 2883).
            self.reassembly
                .note_dsack(self.snd, self.rcv, self.flags, SYN_POS, 0);
            *self.flags |= Flags::ACK_NOW;
            return Err(Disposition::default());
        }
        Ok(())
    }
}

// ---- What the ends agree on. ----

impl Handshake<'_> {
    /// Processes the peer's SYN: its sequence number and its options (RFC 9293 section
    /// 3.7.1, RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2).
    fn handle_syn(&mut self, syn: &TcpHeader, now: Instant) {
        let cfg = *self.cfg;
        let options = &syn.options;
        self.rcv.handle_syn(syn.seq);
        let peer_mss = options.mss.unwrap_or(default_mss(cfg.ipv6)).max(MIN_MSS);
        self.snd.handle_syn(peer_mss, syn.window);
        match options.window_scale {
            Some(shift) if cfg.window_scaling => {
                *self.flags |= Flags::SCALING;
                self.snd.scale(shift);
            }
            _ => self.rcv.scale(0),
        }
        if let (true, Some(ts)) = (cfg.timestamps, &options.timestamps) {
            *self.flags |= Flags::TIMESTAMPS;
            self.snd.set_options_len(TIMESTAMPS_LEN);
            self.rcv.set_options_len(TIMESTAMPS_LEN);
            self.stamps.take(ts.val, now);
        }
        if cfg.sack && options.sack_permitted {
            self.snd.set_sack(true);
        }
        self.liveness.handle_user_timeout_option(
            self.flight,
            self.timers,
            self.cfg,
            self.flags,
            options.user_timeout,
        );
        self.liveness.note_segment(now);
        self.snd.update_mss();
        self.congestion.controller =
            Controller::new(cfg.congestion, self.snd.mss(), cfg.burst.initial_window);
        *self.acks = OwedAcks::new(LEAST_RCV_MSS.min(self.rcv.full_segment()));
    }

    /// The handshake is complete: starts what runs on an established connection.
    fn establish(&mut self, now: Instant) {
        self.liveness.note_progress();
        self.snd.rtt.clear_backoff();
        self.accounting
            .end_timeout_recovery(self.flight, self.flags, now);
        if self.flags.contains(Flags::SYN_RETRANSMITTED) {
            self.snd.rtt.syn_was_retransmitted();
            // RFC 5681 section 3.1: after the loss of a SYN or SYN-ACK, the window is one
            // segment.
            self.congestion
                .controller
                .set_cwnd(u32::from(self.snd.mss()));
        }
        self.flags.remove(Flags::SYN_DUE);
        self.flags.advertise_user_timeout(self.cfg);
        if !self.fast_open.has_opened(*self.state) {
            self.outcome.report(Events::CONNECTED);
        }
        self.acks.start_quick_acks(MAX_QUICK_ACKS);
        self.flight.last_sent = now;
        self.liveness.note_data(now);
        *self.state = if self.snd.fin() {
            State::FinWait1
        } else {
            State::Established
        };
        if self.snd.in_flight() > 0 {
            // Data was sent with the SYN, or with our SYN-ACK (RFC 7413).
            self.accounting.busy.begin(now);
        }
        self.liveness
            .arm_keepalive(self.timers, self.cfg, *self.state, now);
        let repeated = self.accounting.counters.bytes_retrans;
        self.congestion
            .start(self.snd, repeated, self.ecn.is_on(), self.flags, now);
    }
}
