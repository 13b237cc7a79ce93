//! Answers to `longshore stat` and `longshore ss`, made when they are asked for.
//!
//! Gathers them from the stack, the port and the sessions into the types of `control`. `sleep`
//! calls it when a request has come over the control socket.

use crate::catalog::{BAD_DESCRIPTORS, Counted, MISROUTED_REQUESTS, values};
use crate::control::{
    Asker, ControlReply, ControlRequest, Counts, CrossingsStat, PortStat, ROWS_AT_ONCE,
    SessionStat, SsReply, SsRow, StatReply, TcpStat, TrafficStat,
};
use crate::session::Session;
use crate::{About, Engine};
use longshore_hostif::Loopback;
use longshore_stack::{Session as Half, SocketStatus, Transport};
use longshore_tcp::TcpInfo;
use std::net::{IpAddr, SocketAddr};

/// Where [`SsReply::next`] begins to number connections in TIME-WAIT; no socket's key is as
/// large.
const WAITING: u32 = 1 << 31;
/// Where it begins to number half-open connections: before those, and beyond sockets.
const HALF_OPEN: u32 = 1 << 30;

/// What an engine reports of itself to a client that asks.
pub(crate) struct Report<'a> {
    pub(crate) counted: Counted<'a>,
    pub(crate) about: &'a About,
}

impl Engine {
    pub(crate) fn answer_control(&mut self) {
        let Some(mut control) = self.control.take() else {
            return;
        };
        let report = self.report();
        control.serve(&mut |asker, request| {
            if report.may_ask(asker) {
                report.reply(asker, request)
            } else {
                ControlReply::Error {
                    message: format!("user {} may not use it", asker.uid),
                }
            }
        });
        self.control = Some(control);
    }

    /// What `longshore stat` shows of it to its own user.
    #[must_use]
    pub fn statistics(&self) -> StatReply {
        self.report().stat(Asker::own_user())
    }
}

impl Report<'_> {
    /// What the engine's own user may see.
    pub(crate) fn to_own_user(&self, request: ControlRequest) -> ControlReply {
        self.reply(Asker::own_user(), request)
    }

    fn reply(&self, asker: Asker, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Stat => ControlReply::Stat(Box::new(self.stat(asker))),
            ControlRequest::Ss { from } => ControlReply::Ss(self.ss(asker, from)),
        }
    }

    /// Every user that may use the engine may ask it.
    fn may_ask(&self, asker: Asker) -> bool {
        asker.sees_all() || self.counted.attach.is_listed(asker.uid)
    }

    /// Whether a session's sockets are shown to a client that asks.
    fn is_shown(&self, asker: Asker, session: u32) -> bool {
        let own = |s: &Session| s.uid == asker.uid;
        asker.sees_all() || self.counted.programs.sessions.get(session).is_some_and(own)
    }

    /// Totals are of the whole engine, whoever asks; sessions are those that the asker may
    /// see.
    fn stat(&self, asker: Asker) -> StatReply {
        let c = &self.counted.stack.counters;
        let mut meter = self.counted.programs.past_meter();
        for (_, s) in self.counted.stack.endpoints.sessions.iter() {
            meter.add(&s.host.crossings());
        }
        let mut drops: Counts = c.drops().map(|(name, n)| (name.to_owned(), n)).collect();
        let halves = self.counted.stack.endpoints.sessions.iter();
        let requests: u64 = halves.map(|(_, s)| s.host.meter.bad_descriptors()).sum();
        let halves = self.counted.stack.endpoints.sessions.iter();
        let misrouted: u64 = halves.map(|(_, s)| s.host.meter.misrouted()).sum();
        let sessions = self.counted.programs.sessions.iter();
        let claims: u64 = sessions.map(|(_, s)| s.processes.bad_claims()).sum();
        // They count as bad, too, where they are decoded.
        let bad = requests.saturating_sub(misrouted) + claims;
        drops.insert(BAD_DESCRIPTORS.to_owned(), bad);
        drops.insert(MISROUTED_REQUESTS.to_owned(), misrouted);
        StatReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            abi: longshore_hostif::ABI_VERSION,
            pid: std::process::id(),
            uptime_ms: self.counted.stack.now().0 / 1000,
            addresses: self
                .counted
                .stack
                .status()
                .addresses()
                .map(|c| c.to_string())
                .collect(),
            gateways: self
                .counted
                .stack
                .status()
                .gateways()
                .iter()
                .map(IpAddr::to_string)
                .collect(),
            loopback: if self.counted.stack.settings.loopback == Loopback::Engine {
                "engine"
            } else {
                "kernel"
            }
            .to_owned(),
            sandbox: self.about.sandbox.clone(),
            port: self.port_stat(),
            drops,
            crossings: CrossingsStat::from(&meter),
            tcp: self.counts("tcp"),
            net: self.counts("net"),
            engine: self.counts("engine"),
            sessions: self
                .counted
                .stack
                .endpoints
                .sessions
                .iter()
                .filter(|(key, _)| self.is_shown(asker, *key))
                .filter_map(|(key, half)| {
                    Some(self.counted.programs.sessions.get(key)?.stat(key, half))
                })
                .collect(),
        }
    }

    fn port_stat(&self) -> PortStat {
        let port = self.counted.stack.port().counters();
        PortStat {
            name: self.about.port_name.clone(),
            mtu: self.counted.stack.port().capabilities().mtu as u32,
            rx: TrafficStat {
                frames: port.rx_frames,
                bytes: port.rx_bytes,
                gso_frames: port.rx_gso_frames,
                calls: port.rx_calls,
            },
            tx: TrafficStat {
                frames: port.tx_frames,
                bytes: port.tx_bytes,
                gso_frames: port.tx_gso_frames,
                calls: port.tx_calls,
            },
            tx_full: port.tx_full,
        }
    }

    /// The counters of a section of the catalog.
    fn counts(&self, section: &str) -> Counts {
        let of = values().filter(|c| c.info.section == section);
        of.map(|c| (c.info.name.to_owned(), (c.value)(&self.counted)))
            .collect()
    }

    /// The sockets from the key `from` on, then half-open connections, from [`HALF_OPEN`] on,
    /// then those in TIME-WAIT, from [`WAITING`] on. Those in TIME-WAIT are nobody's any more,
    /// and so for those who see all.
    fn ss(&self, asker: Asker, from: u32) -> SsReply {
        let mut reply = SsReply::default();
        let is_full = |reply: &SsReply| reply.rows.len() as u32 == ROWS_AT_ONCE;
        for (key, socket) in self.counted.stack.status().sockets(from) {
            if is_full(&reply) {
                reply.next = Some(key);
                return reply;
            }
            if self.is_shown(asker, socket.session) {
                reply.rows.push(self.row(&socket));
            }
        }
        let first = from.saturating_sub(HALF_OPEN);
        for (key, half) in self.counted.stack.status().half_open(first) {
            if is_full(&reply) {
                reply.next = Some(HALF_OPEN + key);
                return reply;
            }
            if self.is_shown(asker, half.session) {
                reply.rows.push(SsRow {
                    proto: "tcp".to_owned(),
                    state: "SYN-RECV".to_owned(),
                    local: half.local.to_string(),
                    peer: half.peer.to_string(),
                    timer: Some(("on".to_owned(), half.retransmitted_in / 1000)),
                    timer_repeats: half.repeats.into(),
                    session: half.session,
                    ..SsRow::default()
                });
            }
        }
        if !asker.sees_all() {
            return reply;
        }
        let first = from.saturating_sub(WAITING);
        for (wait, number) in self.counted.stack.status().waits().zip(0..WAITING) {
            if number < first {
                continue;
            }
            if is_full(&reply) {
                reply.next = Some(WAITING + number);
                return reply;
            }
            reply.rows.push(SsRow {
                proto: "tcp".to_owned(),
                state: "TIME-WAIT".to_owned(),
                local: wait.local.to_string(),
                peer: wait.peer.to_string(),
                timer: Some(("timewait".to_owned(), wait.lasts / 1000)),
                ..SsRow::default()
            });
        }
        reply
    }

    fn row(&self, socket: &SocketStatus) -> SsRow {
        let text = |a: Option<SocketAddr>| a.map_or("*:*".to_owned(), |a| a.to_string());
        let session = self.counted.programs.sessions.get(socket.session);
        let holders = |index| session.map(|s| s.processes.holders(index));
        SsRow {
            proto: match socket.transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
            }
            .to_owned(),
            state: socket.state.to_owned(),
            local: text(socket.local),
            peer: text(socket.peer),
            recv_q: socket.recv_q,
            send_q: socket.send_q,
            timer: socket.timer.map(|(name, us)| (name.to_owned(), us / 1000)),
            timer_repeats: socket
                .tcp
                .as_ref()
                .map_or(0, |info| info.retransmits.max(info.probes).into()),
            session: socket.session,
            pids: socket.block.and_then(holders).unwrap_or_default(),
            tcp: socket.tcp.as_ref().map(tcp_stat),
            crossings: CrossingsStat::from(&socket.meter),
        }
    }
}

fn tcp_stat(info: &TcpInfo) -> TcpStat {
    let millis = |us: u64| Some(us / 1000);
    TcpStat {
        congestion: info.congestion.to_owned(),
        timestamps: info.timestamps,
        sack: info.sack,
        window_scale: info
            .window_scaling
            .then_some((info.snd_wscale, info.rcv_wscale)),
        rto_us: info.rto_us,
        rtt_us: info.rtt_us,
        rttvar_us: info.rttvar_us,
        mss: info.snd_mss,
        pmtu: info.pmtu,
        cwnd: u64::from(info.snd_cwnd),
        ssthresh: (info.snd_ssthresh != u32::MAX).then_some(u64::from(info.snd_ssthresh)),
        bytes_sent: info.bytes_sent,
        bytes_retransmitted: info.bytes_retrans,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        segs_out: u64::from(info.segs_out),
        segs_in: u64::from(info.segs_in),
        retransmissions: u64::from(info.total_retrans),
        in_flight: info.unacked,
        snd_wnd: u64::from(info.snd_wnd),
        rcv_wnd: u64::from(info.rcv_wnd),
        last_snd_ms: millis(info.last_data_sent_us),
        last_rcv_ms: millis(info.last_data_recv_us),
    }
}

impl Session {
    fn stat(&self, key: u32, half: &Half) -> SessionStat {
        let geometry = half.host.geometry();
        let meter = half.host.crossings();
        SessionStat {
            id: key,
            uid: self.uid,
            processes: self.processes.living() as u32,
            sockets: half.sockets() as u32,
            sockets_max: geometry.sockets,
            snd_chunks: geometry.snd_chunks - half.host.send_slab().free(),
            snd_chunks_max: geometry.snd_chunks,
            rcv_chunks: half.host.receive.in_use(),
            rcv_chunks_max: geometry.rcv_chunks,
            crossings: CrossingsStat::from(&meter),
        }
    }
}

#[cfg(test)]
mod tests;
