//! Connection information in Linux's terms.
//!
//! Owns [`TcpInfo`], which [`Tcb::info`](crate::Tcb::info) makes, and Linux's `struct tcp_info`.
//! The engine asks for it for TCP_INFO and for `longshore ss`. Linux counts packets where
//! Longshore counts bytes; bytes are converted by the MSS.

use crate::accounting::Accounting;
use crate::congestion::{CongestionState, Rate};
use crate::ecn::{EcnState, EcnTotals};
use crate::fast_open::{FastOpen, FastOpenFailure};
use crate::flags::Flags;
use crate::flight::{Flight, Phase};
use crate::liveness::Liveness;
use crate::rcv::ReceiveSide;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::{Instant, MS};

/// Length of Linux's `struct tcp_info` in bytes (version 6.18). Programs check the length
/// before they read fields of newer versions. The following are always zero: tcpi_fackets
/// and tcpi_last_ack_sent, as in Linux; tcpi_rehash, since no hash of Longshore chooses a
/// path; and the failure mode and the received options of accurate ECN, since Linux has
/// moved those two since 6.18, and a program cannot tell which layout it reads.
pub const LINUX_TCP_INFO_LEN: usize = 280;

/// The state of a connection as reported to users. Times in microseconds, sizes in bytes. Flat as
/// Linux's `struct tcp_info` is, whose fields it has: each is looked up by that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named as their Linux counterparts (tcpi_...)")]
pub struct TcpInfo {
    pub state: State,
    /// 0 open, 1 disorder, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    /// ECN was negotiated, and an ECN-capable packet was received.
    pub ecn: bool,
    pub ecn_seen: bool,
    /// The counters of accurate ECN.
    pub ecn_totals: EcnTotals,
    /// Data on the SYN was accepted (RFC 7413), and its length in bytes.
    pub syn_data: bool,
    pub syn_bytes: u16,
    /// The connection was opened actively.
    pub fast_open_failure: FastOpenFailure,
    /// The connection was made from here.
    pub active: bool,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub rto_us: u64,
    pub ato_us: u64,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub advmss: u32,
    pub pmtu: u32,
    pub unacked: u64,
    pub sacked: u64,
    /// Bytes considered lost and not yet acknowledged, retransmitted or not.
    pub lost: u64,
    /// Bytes retransmitted and not yet acknowledged.
    pub retrans: u64,
    pub last_data_sent_us: u64,
    pub last_data_recv_us: u64,
    pub last_ack_recv_us: u64,
    pub rtt_us: u64,
    pub rttvar_us: u64,
    pub min_rtt_us: u32,
    pub rcv_rtt_us: u32,
    pub rcv_space: u32,
    pub rcvbuf: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub notsent_bytes: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub total_retrans: u32,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    /// The longest distance by which a packet was reordered, bytes.
    pub reordering: u32,
    pub rcv_ooopack: u32,
    /// How long there was data to deliver, and how much of that time the peer's window
    /// alone limited sending.
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    /// How much of it the send buffer alone limited the user.
    pub sndbuf_limited_us: u64,
    /// Recent delivery rate in bytes per second, and whether the application had less to
    /// send than the path would have taken.
    pub delivery_rate: u64,
    pub delivery_rate_app_limited: bool,
    pub total_rto: u16,
    /// Recoveries that began with a timeout, including those of the handshake, and their
    /// total duration in milliseconds.
    pub total_rto_recoveries: u16,
    pub total_rto_ms: u32,
    /// Tail loss probes sent (RFC 8985).
    pub tail_probes: u32,
    /// How often the path was suspected to drop full segments (RFC 4821).
    pub black_holes: u32,
    /// Recoveries that were spurious and were undone.
    pub undos: u32,
    /// Segments that header prediction took.
    pub fast_path_hits: u32,
    /// Bytes per second; `u64::MAX` if not paced, or not bounded.
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    /// Name of the congestion control.
    pub congestion: &'static str,
}

impl TcpInfo {
    /// What the ends have agreed on.
    pub(crate) fn describe_handshake(&mut self, snd: &SendSide, rcv: &ReceiveSide, flags: Flags) {
        self.timestamps = flags.contains(Flags::TIMESTAMPS);
        self.sack = snd.sack();
        self.window_scaling = flags.contains(Flags::SCALING);
        self.snd_wscale = snd.wscale();
        self.rcv_wscale = rcv.wscale();
    }

    /// What came of ECN.
    pub(crate) fn describe_ecn(&mut self, ecn: &EcnState) {
        self.ecn = ecn.is_on();
        self.ecn_seen = ecn.seen();
        self.ecn_totals = ecn.totals();
    }

    /// What came of Fast Open.
    pub(crate) fn describe_fast_open(
        &mut self,
        fast_open: &FastOpen,
        snd: &SendSide,
        flags: Flags,
    ) {
        self.syn_data = fast_open.syn_data_taken();
        self.syn_bytes = fast_open.sent();
        self.fast_open_failure = fast_open.failure(snd, flags);
    }

    /// What the timers repeat, and how long ago something has come.
    pub(crate) fn describe_timers(&mut self, snd: &SendSide, liveness: &Liveness, now: Instant) {
        let (retries, probes) = (liveness.retries(), liveness.keepalive_probes());
        (self.retransmits, self.probes) = if snd.in_flight() > 0 {
            (retries, probes)
        } else {
            (0, probes.max(retries))
        };
        self.backoff = snd.rtt.backoff();
        self.rto_us = snd.rtt.rto();
        self.ato_us = 40 * MS;
        self.rtt_us = snd.rtt.srtt().unwrap_or(0);
        self.rttvar_us = snd.rtt.rttvar();
        self.min_rtt_us = snd.rtt.min_rtt().unwrap_or(0);
        self.last_data_recv_us = now.since(liveness.last_data());
        self.last_ack_recv_us = now.since(liveness.last_ack());
    }

    /// What is in the network, and what is known to be lost there.
    pub(crate) fn describe_flight(&mut self, snd: &SendSide, flight: &Flight, now: Instant) {
        let r = &flight.recovery;
        let scoreboard = &flight.scoreboard;
        self.ca_state = match r.phase {
            Phase::Open if scoreboard.sacked() == 0 && r.dup_acks == 0 => 0,
            Phase::Open => 1,
            Phase::Fast | Phase::Mtu => 3,
            Phase::Loss => 4,
        };
        self.last_data_sent_us = now.since(flight.last_sent);
        self.unacked = snd.in_flight();
        self.sacked = scoreboard.sacked();
        self.retrans = scoreboard.retransmitted_in_network(snd.una());
        self.lost = scoreboard.lost() + self.retrans;
        self.reord_seen = r.rack.reorderings;
        self.reordering = r.rack.max_distance;
    }

    /// Sizes of segments, windows and buffers.
    pub(crate) fn describe_windows(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        congestion: &CongestionState,
    ) {
        self.snd_mss = u32::from(snd.mss());
        self.advmss = u32::from(rcv.full_segment());
        self.rcv_rtt_us = rcv.buffer.rtt_us();
        self.rcv_space = rcv.buffer.space();
        self.rcvbuf = rcv.buffer.size();
        self.snd_ssthresh = congestion.controller.ssthresh();
        self.snd_cwnd = congestion.controller.cwnd();
        self.snd_wnd = snd.wnd();
        self.rcv_wnd = rcv.offered();
        self.notsent_bytes = (snd.edge() - snd.nxt().max(0)).max(0) as u64;
    }

    /// How fast it is, and how fast it may be.
    pub(crate) fn describe_rates(&mut self, delivery: Rate, congestion: &CongestionState) {
        self.delivery_rate = delivery.bytes;
        self.delivery_rate_app_limited = delivery.app_limited;
        self.pacing_rate = congestion.pacer.rate().unwrap_or(u64::MAX);
        self.max_pacing_rate = congestion.pacer.limit();
    }

    /// What it waited for.
    pub(crate) fn describe_limits(
        &mut self,
        accounting: &Accounting,
        snd: &SendSide,
        flags: Flags,
        state: State,
        now: Instant,
    ) {
        self.busy_us = accounting.busy_us(snd, flags, state, now);
        self.rwnd_limited_us = accounting.window_limited_us(flags, now);
        self.sndbuf_limited_us = accounting.buffer_limited_us(flags, now);
    }

    /// Bytes and segments, both ways.
    pub(crate) fn count_segments(
        &mut self,
        accounting: &Accounting,
        snd: &SendSide,
        rcv: &ReceiveSide,
    ) {
        let c = &accounting.counters;
        let fast = c.fast_data_in.wrapping_add(c.fast_acks_in);
        self.bytes_acked = snd.acked();
        self.bytes_received = rcv.readable();
        self.bytes_sent = snd.sent() + c.bytes_retrans;
        self.bytes_retrans = c.bytes_retrans;
        self.segs_out = c.segs_out;
        self.segs_in = c.slow_segs_in.wrapping_add(fast);
        self.data_segs_out = c.data_segs_out;
        self.data_segs_in = c.slow_data_in.wrapping_add(c.fast_data_in);
        self.total_retrans = c.retrans;
        self.dsack_dups = c.dsacks;
        self.rcv_ooopack = c.rcv_ooo;
        self.fast_path_hits = fast;
    }

    /// Timeouts, probes and recoveries that were undone.
    pub(crate) fn count_recoveries(&mut self, accounting: &Accounting, flags: Flags, now: Instant) {
        let c = &accounting.counters;
        self.total_rto = c.timeouts;
        self.total_rto_recoveries = c.timeout_recoveries;
        self.total_rto_ms = accounting.timeout_recovery_ms(flags, now);
        self.tail_probes = c.probes;
        self.black_holes = c.black_holes;
        self.undos = c.undos;
    }
}

/// Writes fields one after the other in native byte order.
struct Writer<'a> {
    bytes: &'a mut [u8; LINUX_TCP_INFO_LEN],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, field: &[u8]) {
        let end = self.at + field.len();
        if let Some(room) = self.bytes.get_mut(self.at..end) {
            room.copy_from_slice(field);
        }
        self.at = end;
    }

    fn u32s(&mut self, fields: &[u64]) {
        for &f in fields {
            self.put(&(f.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
        }
    }

    fn u64s(&mut self, fields: &[u64]) {
        for &f in fields {
            self.put(&f.to_ne_bytes());
        }
    }
}

impl TcpInfo {
    /// Packets delivered to the peer; our SYN counts as one, with data on it or without.
    fn delivered(&self) -> u64 {
        let opening = matches!(
            self.state,
            State::Closed | State::SynSent | State::SynReceived
        );
        let on_syn = if self.syn_data && self.active {
            self.syn_bytes
        } else {
            0
        };
        let arrived = self.bytes_acked + self.sacked;
        let data = arrived.saturating_sub(u64::from(on_syn));
        data.div_ceil(u64::from(self.snd_mss.max(1))) + u64::from(!opening)
    }

    /// Linux's `struct tcp_info`, as returned by getsockopt(TCP_INFO); a caller that asks
    /// for less gets the front part.
    #[must_use]
    pub fn to_linux(&self) -> [u8; LINUX_TCP_INFO_LEN] {
        let mut bytes = [0; LINUX_TCP_INFO_LEN];
        let mut w = Writer {
            bytes: &mut bytes,
            at: 0,
        };
        w.put(&self.linux_head());
        self.put_path(&mut w);
        self.put_counts(&mut w);
        self.put_ecn(&mut w);
        bytes
    }

    /// The fields of one byte, with which Linux's structure begins.
    fn linux_head(&self) -> [u8; 8] {
        let options = u8::from(self.timestamps)
            | u8::from(self.sack) << 1
            | u8::from(self.window_scaling) << 2
            | u8::from(self.ecn) << 3
            | u8::from(self.ecn_seen) << 4
            | u8::from(self.syn_data) << 5;
        [
            self.state as u8,
            self.ca_state,
            self.retransmits,
            self.probes,
            self.backoff,
            options,
            self.snd_wscale | self.rcv_wscale << 4,
            u8::from(self.delivery_rate_app_limited) | (self.fast_open_failure as u8) << 1,
        ]
    }

    /// From the retransmission timeout to the total of retransmissions: what TCP knows of the
    /// path, and what is in flight.
    fn put_path(&self, w: &mut Writer<'_>) {
        let mss = u64::from(self.snd_mss.max(1));
        let packets = |n: u64| n.div_ceil(mss);
        let ssthresh = match self.snd_ssthresh {
            u32::MAX => 0x7fff_ffff,
            bytes => packets(u64::from(bytes)),
        };
        w.u32s(&[self.rto_us, self.ato_us]);
        w.u32s(&[u64::from(self.snd_mss), u64::from(self.rcv_mss)]);
        w.u32s(&[packets(self.unacked), packets(self.sacked)]);
        // Linux no longer maintains fackets either.
        w.u32s(&[packets(self.lost), packets(self.retrans), 0]);
        let ms = |us: u64| us / MS;
        // last_ack_sent is 0 in Linux, too.
        w.u32s(&[ms(self.last_data_sent_us), 0]);
        w.u32s(&[ms(self.last_data_recv_us), ms(self.last_ack_recv_us)]);
        w.u32s(&[u64::from(self.pmtu), u64::from(self.rcv_wnd)]);
        w.u32s(&[self.rtt_us, self.rttvar_us, ssthresh]);
        // Linux's reordering threshold starts at 3; RACK does not use one.
        let reordering = packets(u64::from(self.reordering)).max(3);
        let cwnd = u64::from(self.snd_cwnd) / mss;
        w.u32s(&[cwnd, u64::from(self.advmss), reordering]);
        w.u32s(&[u64::from(self.rcv_rtt_us), u64::from(self.rcv_space)]);
        w.u32s(&[u64::from(self.total_retrans)]);
    }

    /// From the pacing rate to the peer's window: rates, and counts of bytes and segments.
    fn put_counts(&self, w: &mut Writer<'_>) {
        w.u64s(&[self.pacing_rate, self.max_pacing_rate]);
        w.u64s(&[self.bytes_acked, self.bytes_received]);
        w.u32s(&[u64::from(self.segs_out), u64::from(self.segs_in)]);
        w.u32s(&[self.notsent_bytes, u64::from(self.min_rtt_us)]);
        w.u32s(&[u64::from(self.data_segs_in), u64::from(self.data_segs_out)]);
        w.u64s(&[self.delivery_rate, self.busy_us]);
        w.u64s(&[self.rwnd_limited_us, self.sndbuf_limited_us]);
        let delivered_ce = self.ecn_totals.delivered_ce;
        w.u32s(&[self.delivered(), u64::from(delivered_ce)]);
        w.u64s(&[self.bytes_sent, self.bytes_retrans]);
        w.u32s(&[u64::from(self.dsack_dups), u64::from(self.reord_seen)]);
        w.u32s(&[u64::from(self.rcv_ooopack)]);
        w.u32s(&[u64::from(self.snd_wnd), u64::from(self.rcv_wnd), 0]);
        w.put(&self.total_rto.to_ne_bytes());
        w.put(&self.total_rto_recoveries.to_ne_bytes());
        w.u32s(&[u64::from(self.total_rto_ms)]);
    }

    /// The counters of accurate ECN, the last fields.
    fn put_ecn(&self, w: &mut Writer<'_>) {
        let ecn = &self.ecn_totals;
        for field in [
            ecn.received_ce,
            ecn.delivered_e1_bytes,
            ecn.delivered_e0_bytes,
            ecn.delivered_ce_bytes,
            ecn.received_e1_bytes,
            ecn.received_e0_bytes,
            ecn.received_ce_bytes,
        ] {
            w.put(&field.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
