//! Each field of Linux's structure, and where its value comes from.

use crate::ecn::EcnTotals;
use crate::fast_open::FastOpenFailure;
use crate::flight::recovery::tests::{flight, flight_of, sacks, timeout};
use crate::script::{ACK, Script, plain};
use crate::{Config, State, TcpInfo};
use longshore_wire::tcp::TcpOptions;

/// A connection of which no two values are the same.
fn all_different() -> TcpInfo {
    TcpInfo {
        state: State::CloseWait,
        ca_state: 3,
        retransmits: 4,
        probes: 5,
        backoff: 6,
        snd_wscale: 7,
        rcv_wscale: 9,
        rto_us: 201_000,
        ato_us: 40_000,
        snd_mss: 1_000,
        rcv_mss: 1_001,
        advmss: 1_002,
        pmtu: 1_042,
        unacked: 10_500,
        sacked: 2_500,
        lost: 3_500,
        retrans: 4_500,
        last_data_sent_us: 51_999,
        last_data_recv_us: 52_999,
        last_ack_recv_us: 53_999,
        rtt_us: 61_000,
        rttvar_us: 62_000,
        min_rtt_us: 63_000,
        rcv_rtt_us: 64_000,
        rcv_space: 65_000,
        snd_ssthresh: 70_500,
        snd_cwnd: 80_999,
        snd_wnd: 81_000,
        rcv_wnd: 82_000,
        notsent_bytes: 83_000,
        bytes_acked: 90_500,
        bytes_received: 91_000,
        bytes_sent: 92_000,
        bytes_retrans: 93_000,
        segs_out: 101,
        segs_in: 102,
        data_segs_out: 103,
        data_segs_in: 104,
        total_retrans: 105,
        dsack_dups: 106,
        reord_seen: 107,
        reordering: 10_801,
        rcv_ooopack: 109,
        busy_us: 110_000,
        rwnd_limited_us: 111_000,
        sndbuf_limited_us: 112_000,
        delivery_rate: 113_000,
        total_rto: 114,
        total_rto_recoveries: 115,
        total_rto_ms: 116,
        pacing_rate: 117_000,
        max_pacing_rate: 118_000,
        ecn_totals: EcnTotals {
            received_ce: 121,
            delivered_ce: 122,
            delivered_e1_bytes: 123,
            delivered_e0_bytes: 124,
            delivered_ce_bytes: 125,
            received_e1_bytes: 126,
            received_e0_bytes: 127,
            received_ce_bytes: 128,
        },
        ..TcpInfo::default()
    }
}

/// `struct tcp_info` of include/uapi/linux/tcp.h. Packets where Linux counts packets, and
/// milliseconds where it has those.
#[test]
fn every_field_is_at_linuxs_offset() {
    let bytes = all_different().to_linux();
    assert_eq!(bytes[..8], [8, 3, 4, 5, 6, 0, 7 | 9 << 4, 0]);
    let u32s = [
        (8, 201_000),
        (12, 40_000),
        (16, 1_000),
        (20, 1_001),
        (24, 11),
        (28, 3),
        (32, 4),
        (36, 5),
        (40, 0),
        (44, 51),
        (48, 0),
        (52, 52),
        (56, 53),
        (60, 1_042),
        (64, 82_000),
        (68, 61_000),
        (72, 62_000),
        (76, 71),
        (80, 80),
        (84, 1_002),
        (88, 11),
        (92, 64_000),
        (96, 65_000),
        (100, 105),
        (136, 101),
        (140, 102),
        (144, 83_000),
        (148, 63_000),
        (152, 104),
        (156, 103),
        (192, 94),
        (196, 122),
        (216, 106),
        (220, 107),
        (224, 109),
        (228, 81_000),
        (232, 82_000),
        (236, 0),
        (240, 114 | 115 << 16),
        (244, 116),
        (248, 121),
        (252, 123),
        (256, 124),
        (260, 125),
        (264, 126),
        (268, 127),
        (272, 128),
        (276, 0),
    ];
    for (at, value) in u32s {
        let field = u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(field, value, "at {at}");
    }
    let u64s = [
        (104, 117_000),
        (112, 118_000),
        (120, 90_500),
        (128, 91_000),
        (160, 113_000),
        (168, 110_000),
        (176, 111_000),
        (184, 112_000),
        (200, 92_000),
        (208, 93_000),
    ];
    for (at, value) in u64s {
        let field = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(field, value, "at {at}");
    }
}

#[test]
fn options_are_bits() {
    let bits = |set: fn(&mut TcpInfo)| {
        let mut info = all_different();
        set(&mut info);
        let bytes = info.to_linux();
        (bytes[5], bytes[7])
    };
    assert_eq!(bits(|i| i.timestamps = true), (1, 0));
    assert_eq!(bits(|i| i.sack = true), (2, 0));
    assert_eq!(bits(|i| i.window_scaling = true), (4, 0));
    assert_eq!(bits(|i| i.ecn = true), (8, 0));
    assert_eq!(bits(|i| i.ecn_seen = true), (16, 0));
    assert_eq!(bits(|i| i.syn_data = true), (32, 0));
    assert_eq!(bits(|i| i.delivery_rate_app_limited = true), (0, 1));
    let failed = bits(|i| {
        i.fast_open_failure = FastOpenFailure::Repeated;
        i.delivery_rate_app_limited = true;
    });
    assert_eq!(failed, (0, 7));
    let all = bits(|i| (i.timestamps, i.sack, i.ecn, i.syn_data) = (true, true, true, true));
    assert_eq!(all, (1 | 2 | 8 | 32, 0));
}

/// What is more than a field holds is the most that it holds; Linux has no threshold as this.
#[test]
fn what_does_not_fit_is_the_most() {
    let mut info = all_different();
    info.notsent_bytes = 1 << 40;
    info.snd_ssthresh = u32::MAX;
    info.snd_mss = 0;
    info.reordering = 0;
    let bytes = info.to_linux();
    let at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(at(144), u32::MAX);
    assert_eq!(at(76), 0x7fff_ffff);
    assert_eq!((at(24), at(88)), (10_500, 3));
}

/// tcpi_delivered: a packet for the SYN, and those that arrived; data on our SYN are in its.
#[test]
fn the_syn_is_a_packet_that_was_delivered() {
    let delivered = |set: fn(&mut TcpInfo)| {
        let mut info = all_different();
        (info.bytes_acked, info.sacked, info.syn_bytes) = (5_000, 500, 400);
        set(&mut info);
        u32::from_ne_bytes(info.to_linux()[192..196].try_into().unwrap())
    };
    assert_eq!(delivered(|_| ()), 7);
    for opening in [State::SynSent, State::SynReceived, State::Closed] {
        let mut info = all_different();
        (info.state, info.bytes_acked, info.sacked) = (opening, 0, 0);
        let bytes = info.to_linux();
        assert_eq!(bytes[192..196], [0; 4], "{opening:?}");
    }
    assert_eq!(delivered(|i| (i.syn_data, i.active) = (true, true)), 7);
    assert_eq!(
        delivered(|i| (i.syn_data, i.active, i.syn_bytes) = (true, true, 600)),
        6
    );
    assert_eq!(delivered(|i| (i.syn_data, i.syn_bytes) = (true, 600)), 7);
    assert_eq!(delivered(|i| (i.active, i.syn_bytes) = (true, 600)), 7);
    assert_eq!(
        delivered(|i| (i.syn_data, i.active, i.syn_bytes) = (true, true, 9_999)),
        1
    );
}

/// tcpi_ca_state: open, disorder, recovery, loss.
#[test]
fn the_state_of_congestion_is_that_of_recovery() {
    let state = |s: &Script| s.tcb.info(s.now).ca_state;
    let mut s = flight(true);
    assert_eq!(state(&s), 0);
    sacks(&mut s, 0, &[(1_000, 2_000)]);
    assert_eq!(state(&s), 1);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert_eq!(state(&s), 3);
    let info = s.tcb.info(s.now);
    assert_eq!((info.unacked, info.sacked), (20_000, 19_000));
    assert_eq!((info.lost, info.retrans), (1_000, 0));
    s.sent();
    let info = s.tcb.info(s.now);
    assert_eq!((info.lost, info.retrans), (1_000, 1_000));
    assert_eq!((info.total_retrans, info.bytes_retrans), (1, 1_000));
    let mut s = flight(false);
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(state(&s), 1);
    let mut s = flight_of(true, 20_000);
    timeout(&mut s);
    assert_eq!(state(&s), 4);
    let info = s.tcb.info(s.now);
    assert_eq!((info.retransmits, info.probes, info.backoff), (1, 0, 1));
    assert_eq!((info.total_rto, info.total_rto_recoveries), (1, 1));
}

/// Retries of a probe are probes, as Linux has them.
#[test]
fn what_is_repeated_into_a_closed_window_is_a_probe() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    for probes in 1..4 {
        s.until_timer();
        s.sent();
        let info = s.tcb.info(s.now);
        assert_eq!((info.retransmits, info.probes), (0, probes));
    }
}

#[test]
fn times_are_counted_from_what_happened() {
    let mut s = Script::established();
    s.writes(100);
    s.sent();
    s.now = s.now.after_ms(3);
    let _ = s.arrives(ACK, 0, 0, 10);
    s.now = s.now.after_ms(4);
    let _ = s.arrives(ACK, 10, 100, 0);
    s.now = s.now.after_ms(5);
    let info = s.tcb.info(s.now);
    assert_eq!(info.last_data_sent_us, 12_000);
    assert_eq!(info.last_data_recv_us, 9_000);
    assert_eq!(info.last_ack_recv_us, 5_000);
    // The handshake took no time, and this 7 ms.
    assert_eq!((info.rtt_us, info.min_rtt_us), (875, 1));
    assert_eq!(info.ato_us, 40_000);
}

#[test]
fn sizes_are_those_of_the_connection() {
    for ipv6 in [false, true] {
        let cfg = Config { ipv6, ..plain() };
        let mut s = Script::established_with(&cfg, TcpOptions::default());
        let info = s.tcb.info(s.now);
        assert_eq!(info.pmtu, if ipv6 { 1_060 } else { 1_040 });
        assert_eq!((info.snd_mss, info.advmss), (1_000, 1_000));
        assert_eq!(
            (info.rcvbuf, info.rcv_wnd, info.snd_wnd),
            (20_000, 20_000, 30_000)
        );
        assert!(info.active && !info.sack && !info.timestamps && !info.window_scaling);
        s.window = 1_500;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.writes(5_000);
        s.sent();
        let sent = s.tcb.send_status().sent();
        assert_eq!(s.tcb.info(s.now).notsent_bytes, 5_000 - sent);
        s.tcb.shutdown_send();
        assert_eq!(s.tcb.info(s.now).notsent_bytes, 5_000 - sent);
    }
    // Nothing was sent of what is written before the handshake.
    let mut s = Script::connecting(&plain());
    s.writes(700);
    assert_eq!(s.tcb.info(s.now).notsent_bytes, 700);
    let s = Script::established_with(&Config::default(), crate::input::tests::full_options());
    let info = s.tcb.info(s.now);
    assert!(info.sack && info.timestamps && info.window_scaling);
    assert_eq!(info.snd_wscale, 3);
    assert_eq!(info.rcv_wscale, s.tcb.rcv.wscale());
    assert!(info.rcv_wscale > 0);
    assert!(!Script::in_state(State::SynReceived).tcb.info(s.now).active);
}
