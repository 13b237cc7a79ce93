//! How a connection begins: the active and the passive open.
//!
//! Owns [`Tcb::connect`] and [`Tcb::accept`], and what both sides of a handshake
//! agree on. The engine calls them; `input/syn_sent.rs` continues an active open.

use crate::Segment;
use crate::assembler::Assembler;
use crate::busy::BusyTimes;
use crate::config::Config;
use crate::congestion::Controller;
use crate::ecn::EcnState;
use crate::events::Events;
use crate::fast_open::FastOpen;
use crate::icmp::MIN_MSS;
use crate::input::{Floor, UNPREDICTABLE};
use crate::output::TIMESTAMPS_LEN;
use crate::pacing::Pacer;
use crate::plpmtu::MtuSearch;
use crate::rate::RateSampler;
use crate::recovery::Recovery;
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::state::State;
use crate::tcb::{Counters, Flags, NO_POS, SYN_POS, Tcb};
use crate::time::Instant;
use crate::timers::{Timers, XmitTimer};
use crate::window::{ReceiveBuffer, ToldWindow, scale_for};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;

/// The MSS of a peer that does not tell (RFC 9293 section 3.7.1): what fits the least
/// packet that every host takes.
pub(crate) const fn default_mss(ipv6: bool) -> u16 {
    if ipv6 { 1220 } else { 536 }
}

/// What is taken for the size of the peer's full segments before any has come, bytes. It
/// only grows, so it begins low, whatever the version of IP: taken for more than they
/// have, full segments would be acknowledged too seldom.
const LEAST_RCV_MSS: u16 = 536;

impl Tcb {
    /// The active open (RFC 9293 section 3.10.1): a block in SYN-SENT whose SYN
    /// `poll_transmit` hands out.
    ///
    /// * `iss`: the initial sequence number, unpredictable (RFC 6528).
    /// * `ts_offset`: added to the timestamp clock (RFC 7323 section 7.1).
    /// * `mss`: bytes of TCP payload that fit the interface's MTU beside IP and TCP
    ///   headers without options; it is advertised, and the path starts with it.
    #[must_use]
    pub fn connect(cfg: &Config, mss: u16, iss: SeqNumber, ts_offset: u32, now: Instant) -> Tcb {
        let mut tcb = Tcb::new(cfg, mss, iss, ts_offset, now);
        tcb.state = State::SynSent;
        tcb.flags = Flags::ACTIVE | Flags::SYN_DUE;
        tcb
    }

    /// The passive open (RFC 9293 section 3.10.7.2): a block in SYN-RECEIVED for the
    /// SYN that a [`Listener`](crate::Listener) accepted; `poll_transmit` hands out
    /// the SYN-ACK. The other arguments are as in [`Tcb::connect`].
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
        tcb.counters.slow_segs_in = 1;
        tcb.take_syn(syn.header, now);
        tcb.ecn_on_syn(syn);
        tcb
    }

    fn new(cfg: &Config, mss: u16, iss: SeqNumber, ts_offset: u32, now: Instant) -> Tcb {
        let mss = mss.max(MIN_MSS);
        let adv_mss = match cfg.mss {
            0 => mss,
            clamp => mss.min(clamp.max(MIN_MSS)),
        };
        let mut tcb = Tcb {
            predict: UNPREDICTABLE,
            predict_data: false,
            rcv_echo: 0,
            flags: Flags::empty(),
            rcv_nxt: 0,
            snd_una: SYN_POS,
            snd_nxt: SYN_POS,
            snd_base: iss.0.wrapping_add(1),
            rcv_base: 0,
            ts_recent: 0,
            ts_offset,
            rcv_adv: 0,
            last_ack_sent: 0,
            snd_edge: 0,
            snd_wnd: 0,
            snd_mss: default_mss(cfg.ipv6).min(adv_mss),
            rcv_mss: LEAST_RCV_MSS.min(adv_mss),
            state: State::Closed,
            snd_wscale: 0,
            rcv_wscale: 0,
            quick_acks: 0,
            events: Events::empty(),
            acks_owed: 0,
            error: None,
            timers: Timers::new(),
            last_rcv_data: now,
            last_sent_data: now,
            rtt: RttEstimator::new(),
            rtt_pos: NO_POS,
            rtt_at: now,
            congestion: Controller::new(cfg.congestion, adv_mss, cfg.initial_window),
            ecn: EcnState::new(),
            pacer: Pacer::new(),
            rate: RateSampler::new(),
            repeated_seen: 0,
            recovery: Recovery::new(),
            rcv_consumed: 0,
            rcv_fin: NO_POS,
            rcv_buffer: ReceiveBuffer::new(cfg.rcvbuf.max(1), cfg.rcvbuf_max, now),
            told_wnd: ToldWindow::NONE,
            snd_push: 0,
            snd_wl1: SYN_POS,
            snd_wl2: SYN_POS,
            max_snd_wnd: 0,
            ts_recent_at: now,
            paws: Floor::new(),
            dsack: (SeqNumber(0), SeqNumber(0)),
            recent_ooo: [SeqNumber(0); 3],
            snd_up: 0,
            rcv_up: 0,
            snd_sml: SYN_POS,
            cwnd_full_at: SYN_POS,
            most_flight: 0,
            flight_until: 0,
            last_rcv_ack: now,
            stalled_since: now,
            last_challenge: Instant::NEVER,
            peer_mss: default_mss(cfg.ipv6),
            path_mss: mss,
            mtu: MtuSearch::new(mss),
            adv_mss,
            retries: 0,
            keepalive_probes: 0,
            soft_error: None,
            fast_open: FastOpen::new(),
            cfg: *cfg,
            counters: Counters::default(),
            busy: BusyTimes::new(),
            assembler: Assembler::new(),
            scoreboard: Scoreboard::new(),
        };
        tcb.set_max_pacing_rate(cfg.max_pacing_rate);
        if cfg.window_scaling {
            let most = cfg.rcvbuf.max(cfg.rcvbuf_max);
            tcb.rcv_wscale = scale_for(most);
        }
        tcb
    }

    /// Takes the peer's SYN: its sequence number and its options (RFC 9293 section
    /// 3.7.1, RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2).
    pub(crate) fn take_syn(&mut self, syn: &TcpHeader, now: Instant) {
        let cfg = self.cfg;
        let options = &syn.options;
        self.rcv_base = syn.seq.0.wrapping_add(1);
        self.rcv_nxt = 0;
        self.peer_mss = options.mss.unwrap_or(default_mss(cfg.ipv6)).max(MIN_MSS);
        match options.window_scale {
            Some(shift) if cfg.window_scaling => {
                self.flags |= Flags::SCALING;
                // RFC 7323 section 2.3: "if a value greater than 14 is received,
                // log it and use 14".
                self.snd_wscale = shift.min(14);
            }
            _ => self.rcv_wscale = 0,
        }
        if let (true, Some(ts)) = (cfg.timestamps, &options.timestamps) {
            self.flags |= Flags::TIMESTAMPS;
            self.ts_recent = ts.val;
            self.ts_recent_at = now;
        }
        if cfg.sack && options.sack_permitted {
            self.flags |= Flags::SACK;
        }
        self.take_user_timeout_advice(options.user_timeout);
        // The window field of a SYN is never scaled (RFC 7323 section 2.2).
        self.snd_wnd = u32::from(syn.window);
        self.max_snd_wnd = self.snd_wnd;
        self.snd_wl1 = SYN_POS;
        self.last_rcv_ack = now;
        self.update_mss();
        self.congestion = Controller::new(cfg.congestion, self.snd_mss, cfg.initial_window);
        self.rcv_mss = LEAST_RCV_MSS.min(self.rcv_mss_full());
    }

    /// The handshake is over. Starts what an established connection has running.
    pub(crate) fn establish(&mut self, now: Instant) {
        self.retries = 0;
        self.rtt.clear_backoff();
        self.end_timeout_repair(now);
        if self.flags.contains(Flags::SYN_REPEATED) {
            self.rtt.syn_was_repeated();
            // RFC 5681 section 3.1: with a lost SYN or SYN-ACK, one segment.
            self.congestion.set_cwnd(u32::from(self.snd_mss));
        }
        self.flags.remove(Flags::SYN_DUE);
        self.announce_user_timeout();
        if !self.is_fast_opened() {
            self.events |= Events::CONNECTED;
        }
        self.quick_acks = MAX_QUICK_ACKS;
        self.last_sent_data = now;
        self.last_rcv_data = now;
        self.timers.xmit_kind = XmitTimer::Retransmit;
        self.state = if self.flags.contains(Flags::FIN_QUEUED) {
            State::FinWait1
        } else {
            State::Established
        };
        if self.in_flight() > 0 {
            // Data that went with the SYN, or with our SYN-ACK (RFC 7413).
            self.busy.begin(now);
        }
        self.arm_keepalive(now);
        self.start_congestion_control(now);
    }

    /// The MSS for sending: what the peer, the path and the user allow, less the
    /// options of every segment (RFC 6691 section 2: the MSS counts none).
    pub(crate) fn update_mss(&mut self) {
        let mut mss = self.peer_mss.min(self.path_mss);
        if self.cfg.mss != 0 {
            mss = mss.min(self.cfg.mss.max(MIN_MSS));
        }
        if self.flags.contains(Flags::TIMESTAMPS) {
            mss -= TIMESTAMPS_LEN;
        }
        self.snd_mss = mss;
        self.congestion.set_mss(mss);
    }

    /// Payload bytes of a full segment of the peer, as far as we have let it.
    #[inline]
    pub(crate) fn rcv_mss_full(&self) -> u16 {
        if self.flags.contains(Flags::TIMESTAMPS) {
            self.adv_mss - TIMESTAMPS_LEN
        } else {
            self.adv_mss
        }
    }
}

/// Acknowledgments sent at once at the start, so that the peer's slow start is not
/// slowed (as in Linux).
pub(crate) const MAX_QUICK_ACKS: u8 = 16;
