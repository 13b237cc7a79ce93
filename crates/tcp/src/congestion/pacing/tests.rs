//! The pace in virtual time, with the timer that belongs to it.

use crate::config::{BurstConfig, Config};
use crate::congestion::Congestion;
use crate::script::{ACK, MSS, Script, plain};
use crate::time::Instant;
use longshore_wire::tcp::TcpOptions;

/// Bytes per second: a packet of 1000 bytes in 1 ms.
const RATE: u64 = 1_000_000;

fn paced(rate: u64) -> Script {
    let cfg = Config {
        max_pacing_rate: rate,
        burst: BurstConfig::with_initial_window(100),
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.max_payload = 64 * usize::from(MSS);
    // A window and a round trip from which the bound is what holds.
    s.window = u16::MAX;
    let _ = s.arrives(ACK, 0, 0, 1);
    s.sent();
    s
}

#[test]
fn data_goes_out_at_the_rate() {
    let mut s = paced(RATE);
    s.writes(60_000);
    let start = s.now;
    let mut sent = s.sent().iter().map(|t| t.payload_len()).sum::<usize>();
    assert!(sent <= 4 * usize::from(MSS), "{sent}");
    while sent < 60_000 {
        let deadline = s.tcb.deadline().expect("a timer");
        assert!(deadline > s.now);
        // As the engine's wheel: up to a millisecond late.
        s.now = Instant(deadline.0.div_ceil(1_000) * 1_000);
        s.tcb.on_timer(s.now);
        for t in s.sent() {
            assert!(t.payload_len() <= 2 * usize::from(MSS), "a quantum");
            sent += t.payload_len();
        }
    }
    let elapsed = s.now.since(start);
    assert!((55_000..62_000).contains(&elapsed), "{elapsed}");
}

/// What is sent again takes its time, too.
#[test]
fn retransmissions_count() {
    let mut s = paced(RATE);
    s.writes(1_000);
    s.sent();
    crate::flight::recovery::tests::timeout(&mut s);
    assert!(s.sent_one().retransmission);
    let from = s.now.0 - super::CREDIT_US;
    assert_eq!(s.tcb.congestion.pacer.next, Instant(from + 1_000));
}

#[test]
fn acknowledgments_do_not_wait() {
    let mut s = paced(RATE);
    s.writes(60_000);
    s.sent();
    let _ = s.arrives(ACK, 1, 0, 1000);
    let _ = s.arrives(ACK, 1001, 0, 1000);
    s.acks(2001);
}

#[test]
fn a_bound_that_is_lifted_is_gone() {
    let mut s = paced(RATE);
    s.writes(60_000);
    s.sent();
    assert!(s.tcb.congestion.pacer.must_wait(s.now));
    s.tcb.settings().set_max_pacing_rate(u64::MAX);
    let sent: usize = s.sent().iter().map(|t| t.payload_len()).sum();
    assert!(sent > 50_000, "{sent}");
    assert_eq!(s.tcb.info(s.now).pacing_rate, u64::MAX);
}

#[test]
fn nothing_is_paced_unless_asked_for() {
    let s = Script::established();
    assert!(!s.tcb.congestion.pacer.is_on());
    assert_eq!(
        s.tcb
            .congestion
            .paced_payload(&s.tcb.snd, s.tcb.cfg.burst.min_batch, 65_000),
        65_000
    );
    assert!(!s.tcb.congestion.rate.is_on());
}

#[test]
fn bbr_is_paced_from_the_start_and_other_algorithms_from_when_they_are_chosen() {
    let mut s = Script::established();
    s.tcb.settings().set_congestion(Congestion::Bbr, s.now);
    assert!(s.tcb.congestion.pacer.is_on() && s.tcb.congestion.rate.is_on());
    s.tcb.settings().set_congestion(Congestion::Cubic, s.now);
    assert!(!s.tcb.congestion.pacer.is_on() && !s.tcb.congestion.rate.is_on());
    let cfg = Config {
        congestion: Congestion::Bbr,
        ..plain()
    };
    let s = Script::established_with(&cfg, TcpOptions::default());
    assert!(s.tcb.congestion.pacer.is_on() && s.tcb.congestion.rate.is_on());
}

#[test]
fn a_quantum_is_a_millisecond_but_two_packets_at_least() {
    let mut s = paced(RATE);
    assert_eq!(s.tcb.congestion.pacer.quantum(1_000), 2_000);
    s.tcb.settings().set_max_pacing_rate(1);
    assert_eq!(s.tcb.congestion.pacer.rate(), Some(super::SLOWEST));
    s.tcb.congestion.pacer.rate = 125_000_000;
    assert_eq!(s.tcb.congestion.pacer.quantum(1_000), 125_000);
}

/// An established connection with a window of ten packets and this round trip.
fn after_round_trip(micros: u64) -> Script {
    let mut s = Script::established();
    s.max_payload = 64_000;
    s.window = u16::MAX;
    s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
    s.tcb.snd.rtt.sample(micros);
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.send_status().cwnd(), 10 * u32::from(MSS));
    s.writes(60_000);
    s
}

fn batches(s: &mut Script) -> Vec<usize> {
    s.sent().iter().map(|t| t.payload_len()).collect()
}

#[test]
fn a_batch_is_what_the_path_carries_in_a_millisecond_but_two_packets_at_least() {
    let mut s = after_round_trip(100_000);
    assert_eq!(batches(&mut s), [2_000; 5]);
    // 20 packets in 6.6 ms, in slow start.
    let mut s = after_round_trip(6_600);
    assert_eq!(batches(&mut s), [3_000, 3_000, 2_000, 2_000]);
    let mut s = after_round_trip(100_000);
    s.tcb.cfg.burst.min_batch = 4;
    assert_eq!(batches(&mut s), [4_000, 4_000, 2_000]);
}

/// Wherever in the stream: three packets and one become two and two, two and one stay.
#[test]
fn the_last_of_a_window_does_not_go_alone() {
    let mut s = after_round_trip(6_600);
    s.tcb.snd.advance(26_000);
    s.tcb.snd.acknowledge(20_000);
    let c = &mut s.tcb.congestion;
    let batch = c.batch_payload(&s.tcb.snd, s.tcb.cfg.burst.min_batch, 64_000);
    assert_eq!(batch, 2_000);
    let mut s = after_round_trip(100_000);
    s.tcb.congestion.controller.resume(9_000, u32::MAX);
    assert_eq!(batches(&mut s), [2_000, 2_000, 2_000, 2_000, 1_000]);
}

#[test]
fn a_batch_on_a_short_path_is_half_the_window() {
    let mut s = after_round_trip(100);
    assert_eq!(batches(&mut s), [5_000, 5_000]);
}

/// On a path of 3 ms, what it carries in a millisecond and 2 KiB for its nearness, in whole packets.
#[test]
fn the_nearer_the_larger_is_a_batch() {
    for (micros, expected) in [
        // 64 KiB, halved for each half millisecond, beside 48,000 bytes in a round trip.
        (3_000, 18_000),
        (3_072, 16_000),
        (6_000, 8_000),
        (20_000, 2_000),
    ] {
        let mut s = after_round_trip(micros);
        s.tcb.congestion.controller.resume(40_000, 40_000);
        let batch = s
            .tcb
            .congestion
            .batch_payload(&s.tcb.snd, s.tcb.cfg.burst.min_batch, 64_000);
        assert_eq!(batch, expected, "{micros}");
    }
}

/// Twice the window in a round trip in the first half of slow start, then 1.2 times.
#[test]
fn the_rate_of_a_window_is_higher_in_slow_start() {
    let rate = |cwnd, ssthresh| {
        let mut s = after_round_trip(10_000);
        s.tcb.congestion.controller.resume(cwnd, ssthresh);
        super::window_rate(&s.tcb.congestion.controller, &s.tcb.snd.rtt)
    };
    assert_eq!(rate(10_000, u32::MAX), 2_000_000);
    assert_eq!(rate(10_000, 20_002), 2_000_000);
    assert_eq!(rate(10_000, 20_000), 1_200_000);
}
