//! Full segments that vanish, probes that pass and probes that do not.

mod choice;

use super::*;
use crate::flight::recovery::tests::{RTT, established, repeated, sacks};
use crate::script::{ACK, Script};
use crate::{BurstConfig, Config};
use longshore_wire::tcp::TcpOptions;

/// A connection whose segments have 1460 bytes, with SACK.
fn connection() -> Script {
    let cfg = Config {
        timestamps: false,
        window_scaling: false,
        burst: BurstConfig::with_initial_window(20),
        ..Config::default()
    };
    let options = TcpOptions {
        mss: Some(1460),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = established(&cfg, options);
    // The script's interface has 1000; this test's has more.
    s.tcb.flight.mtu = MtuSearch::new(1460);
    s.tcb.snd.set_path_mss(1460);
    s.tcb.snd.set_peer_mss(1460);
    s.tcb.segment_size().bound_segments();
    s.max_payload = 1460;
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    s
}

/// Timers run out until the machine has timed out `n` times; nothing arrives.
fn timeouts(s: &mut Script, n: u16) {
    while s.tcb.info(s.now).total_rto < n {
        s.until_timer();
        s.sent();
    }
}

/// The path passes packets of up to `mtu` bytes of payload; everything that does pass
/// is acknowledged, with SACK. Runs until `total` bytes are, and gives the largest
/// packet that passed.
fn run(s: &mut Script, mtu: u64, total: u64) -> u64 {
    s.writes(total);
    let mut arrived = crate::ranges::RangeSet::<64, 64>::new();
    let (mut ack, mut largest) = (s.tcb.snd_acked() as i64, 0);
    for _ in 0..10_000 {
        let sent = s.sent();
        if ack as u64 == total {
            return largest;
        }
        if sent.is_empty() {
            s.until_timer();
            continue;
        }
        s.now = s.now.after_ms(RTT);
        let packets = sent.iter().flat_map(|t| {
            let cuts = t.payload.clone().step_by(usize::from(t.mss));
            cuts.map(|start| (start, t.payload.end.min(start + u64::from(t.mss))))
        });
        for (start, end) in packets.filter(|(start, end)| end - start <= mtu) {
            largest = largest.max(end - start);
            let (start, end) = (start as i64, end as i64);
            let _ = arrived.insert(0, start, end);
            ack = arrived.find(0, ack).map_or(ack, |(_, e)| e);
            if end > ack {
                let block = arrived.find(0, start).expect("just inserted");
                sacks(s, ack, &[block]);
            } else {
                sacks(s, ack, &[]);
            }
        }
    }
    panic!("no progress: {:?}", s.tcb.info(s.now));
}

#[test]
fn full_segments_that_vanish_become_smaller() {
    let mut s = connection();
    s.writes(100_000);
    s.sent();
    timeouts(&mut s, 2);
    assert_eq!(s.tcb.mss(), 1460);
    timeouts(&mut s, 3);
    assert_eq!((s.tcb.mss(), s.tcb.info(s.now).black_holes), (1024, 1));
    timeouts(&mut s, 4);
    assert_eq!(s.tcb.mss(), 512);
    timeouts(&mut s, 7);
    assert_eq!((s.tcb.mss(), s.tcb.info(s.now).black_holes), (512, 2));
}

/// In IPv6 every link takes 1280 bytes (RFC 8899 section 5.1.2).
#[test]
fn in_ipv6_nothing_below_the_least_mtu_is_tried() {
    let mut s = connection();
    s.tcb.cfg.ipv6 = true;
    s.writes(100_000);
    s.sent();
    timeouts(&mut s, 3);
    assert_eq!((s.tcb.mss(), s.tcb.info(s.now).black_holes), (1220, 1));
    assert_eq!(s.tcb.info(s.now).pmtu, 1280);
    timeouts(&mut s, 8);
    assert_eq!((s.tcb.mss(), s.tcb.info(s.now).black_holes), (1220, 1));
}

#[test]
fn small_segments_that_vanish_are_not_suspected() {
    let mut s = connection();
    s.writes(400);
    s.sent();
    timeouts(&mut s, 8);
    assert_eq!((s.tcb.mss(), s.tcb.info(s.now).black_holes), (1460, 0));
}

#[test]
fn it_can_be_turned_off() {
    let mut s = connection();
    s.tcb.cfg.mtu_probing = false;
    s.writes(100_000);
    s.sent();
    timeouts(&mut s, 8);
    assert_eq!(s.tcb.mss(), 1460);
}

#[test]
fn a_black_hole_is_found_and_the_search_closes_in() {
    for path in [1460, 1400, 1100, 600] {
        let mut s = connection();
        run(&mut s, path, 4_000_000);
        let mss = u64::from(s.tcb.mss());
        assert!(
            mss <= path && path - mss <= u64::from(FINE_ENOUGH),
            "{path} {mss}"
        );
        let info = s.tcb.info(s.now);
        assert_eq!(info.black_holes == 0, path == 1460);
        // What the probes cost: their own bytes, again in small segments.
        assert!(info.total_retrans < 200, "{path} {}", info.total_retrans);
    }
}

#[test]
fn a_blackout_is_not_taken_for_a_small_path() {
    let mut s = connection();
    s.writes(200_000);
    s.sent();
    timeouts(&mut s, 4);
    assert_eq!(s.tcb.mss(), 512);
    run(&mut s, 1460, 200_000);
    assert_eq!(s.tcb.mss(), 1460);
    assert!(!s.tcb.flight.mtu.is_searching());
}

#[test]
fn a_lost_probe_does_not_lower_the_window() {
    let mut s = connection();
    s.tcb.snd.set_path_mss(1024);
    s.tcb.segment_size().bound_segments();
    s.tcb.flight.mtu.search_up_to(1460, s.now);
    s.writes(100_000);
    let sent = s.sent();
    assert_eq!((sent[0].payload_len(), sent[0].mss), (1460, 1460));
    assert!(sent[1..].iter().all(|t| t.payload_len() <= 1024));
    let (cwnd, end) = (
        s.tcb.send_status().cwnd(),
        s.tcb.send_status().sent() as i64,
    );
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 0, &[(1460, end)]);
    // Its bytes go again, in segments that pass.
    let again = s.sent();
    let pieces: Vec<_> = again.iter().filter(|t| t.retransmission).collect();
    assert_eq!(pieces.iter().map(|t| t.payload_len()).sum::<usize>(), 1460);
    assert!(pieces.iter().all(|t| t.payload_len() <= 1024));
    assert!(s.tcb.send_status().cwnd() >= cwnd);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
    // Their arrival is not the probe's.
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, end, &[]);
    assert_eq!(s.tcb.mss(), 1024);
}

#[test]
fn a_probe_lost_among_others_is_congestion() {
    let mut s = connection();
    s.tcb.snd.set_path_mss(1024);
    s.tcb.segment_size().bound_segments();
    s.tcb.flight.mtu.search_up_to(1460, s.now);
    s.writes(100_000);
    s.sent();
    let (cwnd, end) = (
        s.tcb.send_status().cwnd(),
        s.tcb.send_status().sent() as i64,
    );
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 0, &[(1460 + 2048, end)]);
    assert!(!repeated(&mut s).is_empty());
    assert!(s.tcb.congestion.controller.ssthresh() < cwnd);
    assert!(!s.tcb.flight.mtu.is_probing());
}

#[test]
fn a_routers_word_is_doubted_after_ten_minutes() {
    let mut s = connection();
    run(&mut s, 1460, 10_000);
    s.tcb.segment_size().set_path_mss(1200);
    run(&mut s, 1200, 100_000);
    assert_eq!(s.tcb.mss(), 1200);
    s.now = s.now.after_ms(601_000);
    let _ = s.arrives(ACK, 0, 100_000, 0);
    run(&mut s, 1300, 3_000_000);
    let mss = s.tcb.mss();
    assert!((1300 - FINE_ENOUGH..=1300).contains(&mss), "{mss}");
}
