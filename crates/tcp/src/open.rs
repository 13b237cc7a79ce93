//! Opening a connection: the active and the passive open.
//!
//! Owns [`Tcb::connect`] and [`Tcb::accept`], which the engine calls. What the two ends agree on
//! afterwards is in `input/handshake.rs`.

use crate::Segment;
use crate::accounting::Accounting;
use crate::acks::{LEAST_RCV_MSS, OwedAcks};
use crate::config::Config;
use crate::congestion::{CongestionState, Controller};
use crate::ecn::EcnState;
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::receive_buffer::{ReceiveBuffer, scale_for};
use crate::snd::{MIN_MSS, SendSide, default_mss};
use crate::stamps::TimestampState;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::timers::Timers;
use longshore_wire::SeqNumber;

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
        tcb.handshake().on_syn(syn, now);
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
}
