//! TCP_INFO: what a connection knows of itself, as Linux lays it out.

use crate::bytes::put;
use crate::pair_end::{PIECES_A_TURN, Pair};
use crate::socket::{Kind, Listening, Options};
use longshore_tcp::{LINUX_TCP_INFO_LEN, State, TcpInfo};

/// Linux's `struct tcp_info` up to `tcpi_rcv_ooopack`, little-endian. A connection in TIME-WAIT has
/// left its socket there, which is closed.
pub(crate) fn linux_tcp_info(info: &TcpInfo) -> Vec<u8> {
    let state = match info.state {
        State::TimeWait => State::Closed,
        other => other,
    };
    TcpInfo { state, ..*info }.to_linux().to_vec()
}

/// Linux's number of the state LISTEN.
const LISTEN: u8 = 10;

/// Where Linux says how many connections wait at a listener (tcpi_unacked) and its backlog
/// (tcpi_sacked).
const WAITING_AT: usize = 24;
const BACKLOG_AT: usize = 28;

fn only_state(state: u8) -> Vec<u8> {
    let mut bytes = vec![state];
    bytes.resize(LINUX_TCP_INFO_LEN, 0);
    bytes
}

fn of_listener(l: &Listening) -> Vec<u8> {
    let mut bytes = only_state(LISTEN);
    for (at, number) in [
        (WAITING_AT, l.listener.waiting()),
        (BACKLOG_AT, l.listener.backlog()),
    ] {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    bytes
}

/// The payload of the largest packet that could carry a piece between two of our
/// own.
const PAIR_MSS: u32 = 65_535 - 40;
/// How long a piece takes from the one to the other, in microseconds: it goes in
/// the turn that finds it, which is below what the clock tells apart.
const PAIR_RTT: u64 = 1;
/// Linux's shortest retransmission timeout, in microseconds. Nothing is ever
/// repeated here.
const PAIR_RTO: u64 = 200_000;

/// The state that this end's TCP would be in.
pub(crate) fn state_of_pair(p: &Pair) -> State {
    match (
        p.connecting,
        p.dead.is_some(),
        p.snd.is_shut(),
        p.rcv.has_fin(),
    ) {
        (_, true, _, _) => State::Closed,
        (true, ..) => State::SynSent,
        (_, _, false, false) => State::Established,
        (_, _, false, true) => State::CloseWait,
        (_, _, true, false) => State::FinWait2,
        (_, _, true, true) => State::TimeWait,
    }
}

/// A connection between two of our own. No TCP runs: the counts are of the bytes
/// that went across, the options are those that the two would have agreed on, and
/// of a path there is nothing to measure.
pub(crate) fn of_pair(p: &Pair, mine: &Options, other: Option<(&Pair, &Options)>) -> Vec<u8> {
    let (q, others) = other.unwrap_or((p, mine));
    let (a, b) = (&mine.tcp, &others.tcp);
    let room = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
    // What was set (TCP_MAXSEG) is what TCP would have kept to.
    let set = |mss: u16| if mss == 0 { PAIR_MSS } else { u32::from(mss) };
    let mss = set(a.mss).min(set(b.mss));
    let packets = |bytes: u64| bytes.div_ceil(u64::from(mss)) as u32;
    let info = TcpInfo {
        state: state_of_pair(p),
        timestamps: a.timestamps && b.timestamps,
        sack: a.sack && b.sack,
        window_scaling: a.window_scaling && b.window_scaling,
        rto_us: PAIR_RTO,
        rtt_us: PAIR_RTT,
        min_rtt_us: PAIR_RTT as u32,
        snd_mss: mss,
        rcv_mss: mss,
        advmss: set(a.mss),
        pmtu: PAIR_MSS + 40,
        rcvbuf: mine.receive_buffer,
        snd_ssthresh: u32::MAX,
        // What a turn moves.
        snd_cwnd: PAIR_MSS * PIECES_A_TURN as u32,
        snd_wnd: room(q.room(others, mine)),
        rcv_wnd: room(p.room(mine, others)),
        notsent_bytes: p.snd.unmoved(),
        bytes_acked: p.snd.moved(),
        bytes_sent: p.snd.moved(),
        bytes_received: p.rcv.edge(),
        data_segs_out: packets(p.snd.moved()),
        data_segs_in: packets(p.rcv.edge()),
        segs_out: packets(p.snd.moved()),
        segs_in: packets(p.rcv.edge()),
        ..TcpInfo::default()
    };
    linux_tcp_info(&info)
}

/// A socket that has no connection.
pub(crate) fn without_connection(kind: &Kind) -> Vec<u8> {
    match kind {
        Kind::Listener(l) if !l.shut => of_listener(l),
        _ => only_state(State::Closed as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_never_in_time_wait() {
        for (state, shown) in [
            (State::TimeWait, State::Closed),
            (State::LastAck, State::LastAck),
        ] {
            let info = TcpInfo {
                state,
                ..TcpInfo::default()
            };
            assert_eq!(linux_tcp_info(&info).first(), Some(&(shown as u8)));
        }
    }
}
