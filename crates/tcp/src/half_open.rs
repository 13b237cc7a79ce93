//! A connection in SYN-RECEIVED as a small record of its own.
//!
//! Owns [`HalfOpen`], with [`HalfOpen::of`], which makes one, and [`HalfOpen::open`],
//! which makes the block again. A passive open whose SYN-ACK was sent is little more than
//! what the SYN said, so a listener's queue holds records, and a block exists only while a
//! segment, a timer or an ICMP error of the connection is handled: the rules of
//! SYN-RECEIVED are those of the block.
//!
//! The record holds what was agreed in the handshake. All else comes from the
//! configuration of the listener at the time, as in Linux, where a connection inherits its
//! listener's options when the handshake is complete. Statistics, and a duplicate that has
//! not been reported yet, are forgotten.

use crate::config::Config;
use crate::ecn::Variant;
use crate::flags::Flags;
use crate::pos::SYN_POS;
use crate::segment::Segment;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader, TcpOptions, Timestamps};

/// A half-open connection: the peer's SYN was answered, and the answer is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfOpen {
    /// When the SYN came and was answered.
    began: Instant,
    /// When the SYN-ACK is retransmitted.
    retransmit_at: Instant,
    /// When the last rate-limited acknowledgment was sent.
    last_challenge: Instant,
    iss: SeqNumber,
    irs: SeqNumber,
    /// TS.Recent, if timestamps were agreed.
    ts_recent: Option<u32>,
    ts_offset: u32,
    /// The user timeout that the peer has advertised and that is in force, milliseconds; 0
    /// for none.
    advised_timeout_ms: u32,
    /// The end of the window that was advertised, in bytes of the receive stream.
    advertised: u32,
    /// SND.WND, which a SYN does not scale.
    window: u16,
    /// The MSS of the peer, the one that we have advertised, that of the interface and that
    /// of the path.
    peer_mss: u16,
    advertised_mss: u16,
    interface_mss: u16,
    path_mss: u16,
    /// The shifts of the peer's windows and of ours, if scaling was agreed.
    shifts: Option<(u8, u8)>,
    sack: bool,
    ecn: Variant,
    /// The flags that report the ECN field of the SYN.
    ecn_handshake: TcpFlags,
    /// Timeouts of the SYN-ACK.
    repeats: u8,
    /// The Fast Open cookie that the SYN-ACK grants.
    cookie: Option<FastOpenCookie>,
}

impl HalfOpen {
    /// The record that may replace a block: `None` unless that is a passive open in
    /// SYN-RECEIVED that no program has yet, whose SYN-ACK was sent.
    #[must_use]
    pub fn of(tcb: &Tcb) -> Option<HalfOpen> {
        let is_half_open = tcb.state == State::SynReceived
            && !tcb.flags.contains(Flags::ACTIVE)
            && !tcb.is_fast_opened()
            && tcb.snd.nxt() > SYN_POS;
        let advised = tcb.flags.contains(Flags::ADVISED_TIMEOUT);
        let scales = tcb.flags.contains(Flags::SCALING);
        is_half_open.then(|| HalfOpen {
            began: tcb.liveness.stalled_since(),
            retransmit_at: tcb.flight.timer.at(),
            last_challenge: tcb.liveness.last_challenge(),
            iss: tcb.snd.seq(SYN_POS),
            irs: tcb.rcv.seq(SYN_POS),
            ts_recent: tcb.has_timestamps().then(|| tcb.stamps.recent()),
            ts_offset: tcb.stamps.offset(),
            advised_timeout_ms: if advised { tcb.cfg.user_timeout_ms } else { 0 },
            advertised: tcb.rcv.adv().clamp(0, i64::from(u32::MAX)) as u32,
            window: tcb.snd.wnd().min(u32::from(u16::MAX)) as u16,
            peer_mss: tcb.snd.peer_mss(),
            advertised_mss: tcb.rcv.mss(),
            interface_mss: tcb.flight.mtu.ceiling(),
            path_mss: tcb.snd.path_mss(),
            shifts: scales.then(|| (tcb.snd.wscale(), tcb.rcv.wscale())),
            sack: tcb.snd.sack(),
            ecn: tcb.ecn.variant(),
            ecn_handshake: tcb.ecn.handshake(),
            repeats: tcb.liveness.retries(),
            cookie: tcb.fast_open.granted(),
        })
    }

    /// How often the SYN-ACK was retransmitted for lack of an answer.
    #[must_use]
    pub const fn repeats(&self) -> u8 {
        self.repeats
    }

    /// When the SYN-ACK is retransmitted, or given up.
    #[must_use]
    pub const fn retransmit_at(&self) -> Instant {
        self.retransmit_at
    }

    /// Whether an error that quotes sequence number `seq` can refer to the SYN-ACK.
    #[must_use]
    pub fn is_in_flight(&self, seq: SeqNumber) -> bool {
        seq == self.iss
    }

    /// Whether a segment acknowledges the SYN-ACK and says no more: its sequence and
    /// acknowledgment numbers are those of the third segment of a handshake (RFC 9293, section
    /// 3.5), and it has neither payload nor another flag.
    #[must_use]
    pub fn is_only_completed_by(&self, segment: &Segment<'_>) -> bool {
        let header = segment.header;
        let others = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST | TcpFlags::URG;
        header.flags.contains(TcpFlags::ACK)
            && !header.flags.intersects(others)
            && segment.payload_len == 0
            && (header.seq, header.ack) == (self.irs.add(1), self.iss.add(1))
    }

    /// The block in SYN-RECEIVED that the record has replaced. `cfg` is what the listener's
    /// connections have now.
    #[must_use]
    pub fn open(&self, cfg: &Config) -> Tcb {
        let header = self.syn();
        // What was agreed stays agreed, whatever the listener's options are now.
        let cfg = Config {
            window_scaling: cfg.window_scaling || self.shifts.is_some(),
            timestamps: cfg.timestamps || self.ts_recent.is_some(),
            sack: cfg.sack || self.sack,
            ..*cfg
        };
        let syn = Segment::new(&header, 0);
        let mss = self.interface_mss;
        let mut tcb = Tcb::accept(&cfg, &syn, mss, self.iss, self.ts_offset, self.began);
        tcb.ecn.resume_handshake(self.ecn, self.ecn_handshake);
        tcb.rcv.bound_mss(self.advertised_mss);
        if let Some((_, shift)) = self.shifts {
            tcb.rcv.scale(shift);
        }
        if self.advised_timeout_ms != 0 && tcb.cfg.user_timeout_ms == 0 {
            tcb.cfg.user_timeout_ms = self.advised_timeout_ms;
            tcb.flags |= Flags::ADVISED_TIMEOUT;
        }
        if let Some(cookie) = self.cookie {
            tcb.syn_data().give_cookie(cookie);
        }
        let _ = tcb.poll_transmit(self.began, 0);
        tcb.rcv.advertise_to(i64::from(self.advertised));
        if self.path_mss != self.interface_mss {
            tcb.segment_size().set_path_mss(self.path_mss);
        }
        self.replay_timeouts(&mut tcb);
        tcb.liveness.note_challenge(self.last_challenge);
        tcb
    }

    /// The SYN, with what was agreed of its options.
    fn syn(&self) -> TcpHeader {
        TcpHeader {
            src_port: 0,
            dst_port: 0,
            seq: self.irs,
            ack: SeqNumber(0),
            flags: TcpFlags::SYN,
            window: self.window,
            urgent: 0,
            options: TcpOptions {
                mss: Some(self.peer_mss),
                window_scale: self.shifts.map(|(peer, _)| peer),
                sack_permitted: self.sack,
                timestamps: self.ts_recent.map(|val| Timestamps { val, echo: 0 }),
                ..TcpOptions::default()
            },
        }
    }

    /// The SYN-ACK was retransmitted so often, and its timer restarted.
    fn replay_timeouts(&self, tcb: &mut Tcb) {
        for _ in 0..self.repeats {
            tcb.liveness.note_retry();
            tcb.snd.rtt.back_off();
        }
        if self.repeats > 0 {
            tcb.flags |= Flags::SYN_RETRANSMITTED;
            tcb.flight.round_trip.cancel(&mut tcb.congestion);
            tcb.accounting.counters.retrans = u32::from(self.repeats);
        }
        tcb.flight
            .timer
            .resume_retransmit(&tcb.snd.rtt, self.retransmit_at);
    }
}

#[cfg(test)]
mod tests;
