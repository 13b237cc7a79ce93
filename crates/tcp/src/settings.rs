//! What the user may change about a connection at any time: socket options.
//!
//! Owns [`Settings`], which [`Tcb::settings`](crate::Tcb::settings) gives. Each setting is kept
//! in the [`Config`] in force, and brings the parts that depend on it up to date.

use crate::accounting::Accounting;
use crate::acks::OwedAcks;
use crate::config::{Config, Keepalive, Linger};
use crate::congestion::{Congestion, CongestionState};
use crate::ecn::EcnState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::rcv::ReceiveSide;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;
use crate::timers::Timers;

/// The settings of a connection. As with all calls of the user, `poll_transmit` is called
/// afterwards: a setting may release what was held back.
#[derive(Debug)]
pub struct Settings<'t> {
    pub(crate) state: State,
    pub(crate) cfg: &'t mut Config,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t mut SendSide,
    pub(crate) rcv: &'t mut ReceiveSide,
    pub(crate) acks: &'t mut OwedAcks,
    pub(crate) liveness: &'t mut Liveness,
    pub(crate) timers: &'t mut Timers,
    pub(crate) congestion: &'t mut CongestionState,
    pub(crate) flight: &'t Flight,
    pub(crate) ecn: &'t EcnState,
    pub(crate) accounting: &'t Accounting,
}

impl Settings<'_> {
    /// TCP_NODELAY. Setting it sends what is held back, corked or not, as in Linux.
    pub fn set_nodelay(&mut self, on: bool) {
        self.cfg.delay.nodelay = on;
        if on && self.snd.edge() > self.snd.nxt() {
            *self.flags |= Flags::FORCE_SMALL;
        }
    }

    /// TCP_CORK; clearing it sends what is held back.
    pub fn set_cork(&mut self, on: bool) {
        self.cfg.delay.cork = on;
        if !on {
            self.snd.set_push();
            self.timers.hold = Instant::NEVER;
        }
    }

    /// TCP_QUICKACK. On: owed acknowledgments are sent at once, and further ones without
    /// delay for a while; off: acknowledgments are delayed.
    pub fn set_quickack(&mut self, on: bool) {
        self.cfg.delay.quickack = on;
        if on {
            self.flags.remove(Flags::INTERACTIVE);
            if self.flags.contains(Flags::ACK_OWED) {
                *self.flags |= Flags::ACK_NOW;
            }
        } else {
            self.acks.stop_quick_acks();
            *self.flags |= Flags::INTERACTIVE;
        }
    }

    /// SO_KEEPALIVE and its times.
    pub fn set_keepalive(&mut self, keepalive: Keepalive, now: Instant) {
        self.cfg.keepalive = keepalive;
        self.liveness
            .arm_keepalive(self.timers, self.cfg, self.state, now);
    }

    /// SO_LINGER.
    pub fn set_linger(&mut self, linger: Linger) {
        self.cfg.linger = linger;
    }

    /// TCP_LINGER2, milliseconds.
    pub fn set_fin_wait(&mut self, ms: u32) {
        self.cfg.fin_wait_ms = ms;
    }

    /// TCP_SYNCNT.
    pub fn set_syn_retries(&mut self, retries: u8) {
        self.cfg.retries.syn = retries;
    }

    /// TCP_USER_TIMEOUT, milliseconds; 0 for none. Overrides the peer's advice. With
    /// `user_timeout_option` in the [`Config`], a segment that advertises it is sent at
    /// once.
    pub fn set_user_timeout(&mut self, ms: u32) {
        self.flags
            .remove(Flags::ADVISED_TIMEOUT | Flags::USER_TIMEOUT_DUE);
        self.liveness
            .change_user_timeout(self.flight, self.timers, self.cfg, ms);
        if self.state.is_synchronized() && self.flags.advertise_user_timeout(self.cfg) {
            *self.flags |= Flags::ACK_NOW;
        }
    }

    /// SO_RCVBUF: fixes the size of the receive buffer, which is no longer tuned. Before
    /// the SYN is sent it also determines the window scale.
    pub fn set_rcvbuf(&mut self, bytes: u32) {
        self.rcv.buffer.fix(bytes.max(1));
        self.rcv.buffer.forget_advertised();
        self.cfg.rcv.buffer = bytes.max(1);
        self.cfg.rcv.buffer_max = self.cfg.rcv.buffer;
        self.tell_of_room();
    }

    /// The receive buffer is to have so many bytes, if it is tuned and has less (SO_RCVLOWAT).
    pub fn grow_rcvbuf(&mut self, bytes: u32) {
        self.rcv.buffer.grow(bytes);
        self.rcv.buffer.forget_advertised();
        self.tell_of_room();
    }

    /// TCP_WINDOW_CLAMP; 0 for none.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        self.cfg.rcv.window_clamp = bytes;
        self.rcv.buffer.forget_advertised();
        self.tell_of_room();
    }

    /// A window update may have become due.
    fn tell_of_room(&mut self) {
        if self.state.may_receive_data() && self.rcv.window_update_due(self.cfg) {
            *self.flags |= Flags::ACK_NOW;
        }
    }

    /// TCP_CONGESTION.
    pub fn set_congestion(&mut self, which: Congestion, now: Instant) {
        self.cfg.congestion = which;
        if which != self.congestion.controller.which() {
            self.congestion.controller.choose(which);
            if self.state.is_synchronized() {
                let repeated = self.accounting.counters.bytes_retrans;
                self.congestion
                    .start(self.snd, repeated, self.ecn.is_on(), self.flags, now);
            }
        }
    }

    /// SO_MAX_PACING_RATE, bytes per second; `u64::MAX` for none.
    pub fn set_max_pacing_rate(&mut self, bytes_per_second: u64) {
        self.cfg.max_pacing_rate = bytes_per_second.max(1);
        self.congestion.set_pacing_limit(self.cfg.max_pacing_rate);
        self.congestion
            .update_pacing(&self.snd.rtt, self.ecn.is_on(), self.flags);
    }
}
