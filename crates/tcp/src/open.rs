//! Opening a connection: the active and the passive open.
//!
//! Owns [`Tcb::connect`] and [`Tcb::accept`], and the negotiation of options in the
//! handshake. The engine calls them; `input/syn_sent.rs` continues an active open.

use crate::Segment;
use crate::accounting::Accounting;
use crate::acks::{MAX_QUICK_ACKS, OwedAcks};
use crate::config::Config;
use crate::congestion::{CongestionState, Controller};
use crate::ecn::EcnState;
use crate::events::Events;
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::{Flight, XmitTimer};
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::output::TIMESTAMPS_LEN;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::receive_buffer::{ReceiveBuffer, scale_for};
use crate::snd::MIN_MSS;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::timers::Timers;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;

/// The MSS of a peer that does not send the option (RFC 9293 section 3.7.1): what fits
/// the smallest packet that every host accepts.
pub(crate) const fn default_mss(ipv6: bool) -> u16 {
    if ipv6 { 1220 } else { 536 }
}

/// Estimate of the peer's segment size before any data has arrived, bytes. The estimate
/// only grows, so it starts low in either version of IP: if it were too high, full
/// segments would be acknowledged too seldom.
const LEAST_RCV_MSS: u16 = 536;

impl Tcb {
    /// The active open (RFC 9293 section 3.10.1): a block in SYN-SENT, whose SYN
    /// `poll_transmit` returns.
    ///
    /// * `iss`: the initial sequence number, unpredictable (RFC 6528).
    /// * `ts_offset`: added to the timestamp clock (RFC 7323 section 7.1).
    /// * `mss`: bytes of TCP payload that fit the interface's MTU beside IP and TCP
    ///   headers without options; it is advertised, and is the initial path MSS.
    #[must_use]
    pub fn connect(cfg: &Config, mss: u16, iss: SeqNumber, ts_offset: u32, now: Instant) -> Tcb {
        let mut tcb = Tcb::new(cfg, mss, iss, ts_offset, now);
        tcb.state = State::SynSent;
        tcb.flags = Flags::ACTIVE | Flags::SYN_DUE;
        tcb
    }

    /// The passive open (RFC 9293 section 3.10.7.2): a block in SYN-RECEIVED for the SYN
    /// that a [`Listener`](crate::Listener) accepted; `poll_transmit` returns the
    /// SYN-ACK. The other arguments are as in [`Tcb::connect`].
    #[must_use]
    pub fn accept(
        cfg: &Config,
        syn: &Segment<'_>,
        mss: u16,
        iss: SeqNumber,
        ts_offset: u32,
        now: Instant,
    ) -> Tcb {
        let mut tcb = Tcb::new(cfg, mss, iss, ts_offset, now);
        tcb.state = State::SynReceived;
        tcb.flags = Flags::SYN_DUE;
        tcb.accounting.counters.slow_segs_in = 1;
        tcb.handle_syn(syn.header, now);
        tcb.ecn.on_syn(&tcb.cfg, syn);
        tcb
    }

    fn new(cfg: &Config, mss: u16, iss: SeqNumber, ts_offset: u32, now: Instant) -> Tcb {
        let mss = mss.max(MIN_MSS);
        let adv_mss = match cfg.mss {
            0 => mss,
            clamp => mss.min(clamp.max(MIN_MSS)),
        };
        let most = cfg.rcv.buffer.max(cfg.rcv.buffer_max);
        let wscale = if cfg.window_scaling {
            scale_for(most)
        } else {
            0
        };
        let default_peer_mss = default_mss(cfg.ipv6);
        let buffer = ReceiveBuffer::new(cfg.rcv.buffer.max(1), cfg.rcv.buffer_max, now);
        let controller = Controller::new(cfg.congestion, adv_mss, cfg.burst.initial_window);
        let mut tcb = Tcb {
            prediction: Prediction::OFF,
            state: State::Closed,
            flags: Flags::empty(),
            snd: SendSide::new(
                iss,
                default_peer_mss.min(adv_mss),
                default_peer_mss,
                mss,
                cfg.mss,
            ),
            stamps: TimestampState::new(ts_offset, now),
            acks: OwedAcks::new(LEAST_RCV_MSS.min(adv_mss)),
            rcv: ReceiveSide::new(adv_mss, wscale, buffer),
            outcome: Outcome::new(),
            liveness: Liveness::new(now),
            timers: Timers::new(),
            cfg: *cfg,
            ecn: EcnState::new(),
            fast_open: FastOpen::new(),
            congestion: CongestionState::new(controller),
            accounting: Accounting::new(),
            reassembly: Reassembly::new(),
            flight: Flight::new(mss, now),
        };
        tcb.settings().set_max_pacing_rate(cfg.max_pacing_rate);
        tcb
    }

    /// Processes the peer's SYN: its sequence number and its options (RFC 9293 section
    /// 3.7.1, RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2).
    pub(crate) fn handle_syn(&mut self, syn: &TcpHeader, now: Instant) {
        let cfg = self.cfg;
        let options = &syn.options;
        self.rcv.handle_syn(syn.seq);
        let peer_mss = options.mss.unwrap_or(default_mss(cfg.ipv6)).max(MIN_MSS);
        self.snd.handle_syn(peer_mss, syn.window);
        match options.window_scale {
            Some(shift) if cfg.window_scaling => {
                self.flags |= Flags::SCALING;
                self.snd.scale(shift);
            }
            _ => self.rcv.scale(0),
        }
        if let (true, Some(ts)) = (cfg.timestamps, &options.timestamps) {
            self.flags |= Flags::TIMESTAMPS;
            self.snd.set_options_len(TIMESTAMPS_LEN);
            self.rcv.set_options_len(TIMESTAMPS_LEN);
            self.stamps.take(ts.val, now);
        }
        if cfg.sack && options.sack_permitted {
            self.snd.set_sack(true);
        }
        self.liveness.handle_user_timeout_option(
            &self.flight,
            &mut self.timers,
            &mut self.cfg,
            &mut self.flags,
            options.user_timeout,
        );
        self.liveness.note_segment(now);
        self.snd.update_mss();
        self.congestion.controller =
            Controller::new(cfg.congestion, self.snd.mss(), cfg.burst.initial_window);
        self.acks = OwedAcks::new(LEAST_RCV_MSS.min(self.rcv.full_segment()));
    }

    /// The handshake is complete: starts what runs on an established connection.
    pub(crate) fn establish(&mut self, now: Instant) {
        self.liveness.note_progress();
        self.snd.rtt.clear_backoff();
        self.accounting
            .end_timeout_recovery(&self.flight, &mut self.flags, now);
        if self.flags.contains(Flags::SYN_RETRANSMITTED) {
            self.snd.rtt.syn_was_retransmitted();
            // RFC 5681 section 3.1: after the loss of a SYN or SYN-ACK, the window is one
            // segment.
            self.congestion
                .controller
                .set_cwnd(u32::from(self.snd.mss()));
        }
        self.flags.remove(Flags::SYN_DUE);
        self.flags.advertise_user_timeout(&self.cfg);
        if !self.is_fast_opened() {
            self.outcome.report(Events::CONNECTED);
        }
        self.acks.start_quick_acks(MAX_QUICK_ACKS);
        self.flight.last_sent = now;
        self.liveness.note_data(now);
        self.flight.timer.kind = XmitTimer::Retransmit;
        self.state = if self.snd.fin() {
            State::FinWait1
        } else {
            State::Established
        };
        if self.snd.in_flight() > 0 {
            // Data was sent with the SYN, or with our SYN-ACK (RFC 7413).
            self.accounting.busy.begin(now);
        }
        self.liveness
            .arm_keepalive(&mut self.timers, &self.cfg, self.state, now);
        let repeated = self.accounting.counters.bytes_retrans;
        self.congestion
            .start(&self.snd, repeated, self.ecn.is_on(), &mut self.flags, now);
    }
}
