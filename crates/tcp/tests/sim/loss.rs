//! What loss recovery is for, on a path that makes it necessary: how rarely the
//! retransmission timer is needed, and how little is repeated in vain.

use crate::endpoint::Program;
use crate::wire::Faults;
use crate::world::{Outcome, Scenario};
use crate::{bulk_program, run};
use longshore_tcp::{Config, TcpInfo};

/// A path of 20 ms there and back, 100 Mb/s.
const PATH: Faults = Faults {
    delay_us: 10_000,
    rate: 12_500,
    queue: 600_000,
    ..Faults::NONE
};

/// Paths that a figure is the mean of.
const SEEDS: u64 = 10;

/// Sends `total` bytes from the client through `there`; acknowledgments come `back`.
fn send(seed: u64, total: u64, there: Faults, back: Faults) -> (Outcome, TcpInfo) {
    let cfg = Config::default();
    // More in flight would only fill the queue until it overflows.
    let writer = Program {
        sndbuf: 400_000,
        ..bulk_program(total)
    };
    let outcome = run(Scenario {
        seed,
        client: (cfg, writer, 1460),
        server: (cfg, Program { total: 0, ..writer }, 1460),
        there,
        back,
        iss: (1, 2),
        fast_open: None,
    });
    let info = outcome.client.tcb.info(outcome.elapsed);
    (outcome, info)
}

fn lossy(permille: u32) -> Faults {
    Faults {
        loss: permille,
        ..PATH
    }
}

#[test]
fn short_transfers_seldom_wait_for_the_timer() {
    // Thirty segments each: every loss is near the tail. What is left to the timer is
    // mostly a lost SYN, and a probe that is lost with its segment.
    let (mut lost, mut timeouts, mut probes) = (0, 0, 0);
    for seed in 0..300 {
        let (outcome, info) = send(seed, 30 * 1448, lossy(30), PATH);
        lost += outcome.wire_lost;
        timeouts += u64::from(info.total_rto);
        probes += u64::from(info.tail_probes);
    }
    assert!(lost > 200 && probes > 4, "{lost} {probes}");
    assert!(timeouts * 8 < lost, "{timeouts} timeouts for {lost} losses");
}

#[test]
fn lost_repetitions_do_not_wait_for_the_timer() {
    // At 10 % loss one repetition in ten is lost again. One path may have bad luck.
    let (mut lost, mut timeouts, mut repeated) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (outcome, info) = send(seed, 2_000_000, lossy(100), PATH);
        lost += outcome.wire_lost;
        timeouts += u64::from(info.total_rto);
        repeated += u64::from(info.total_retrans);
    }
    assert!(lost > 100 * SEEDS, "{lost}");
    assert!(timeouts <= 6 * SEEDS, "{timeouts} timeouts");
    // Hardly anything is repeated that was not lost.
    let vain = repeated as f64 / lost as f64;
    assert!(vain < 1.05, "{vain}");
}

#[test]
fn lost_acknowledgments_repeat_little() {
    let (_, info) = send(1, 2_000_000, PATH, lossy(200));
    let share = f64::from(info.total_retrans) / f64::from(info.data_segs_out);
    // The SYN-ACK may be among them.
    assert!(share < 0.002 && info.total_rto <= 1, "{share} {info:?}");
}

#[test]
fn reordering_is_learned() {
    // Every segment may be overtaken by those of a third of a round trip.
    let jitter = Faults {
        jitter_us: 7_000,
        ..PATH
    };
    let (mut repeated, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let (_, info) = send(seed, 5_000_000, jitter, PATH);
        assert!(info.reord_seen > 0 && info.total_rto == 0, "{info:?}");
        repeated += u64::from(info.total_retrans);
        all += u64::from(info.data_segs_out);
    }
    let share = repeated as f64 / all as f64;
    assert!(share < 0.02, "{share}");
}

#[test]
fn a_delay_is_not_taken_for_loss() {
    // The path stands still for a second in the middle and loses nothing.
    let stall = Faults {
        stall: (6_000_000, 7_000_000),
        ..PATH
    };
    let (outcome, info) = send(1, 30_000_000, stall, PATH);
    assert!(info.total_rto >= 1 && info.undos >= 1, "{info:?}");
    assert!(info.total_retrans < 40, "{info:?}");
    // 2.4 s for the bytes alone, and the second.
    let took = outcome.elapsed.0 - 5_000_000;
    assert!(took < 4_500_000, "{took}");
}

#[test]
fn a_blackout_costs_little_more_than_its_time() {
    let dark = Faults {
        blackout: (6_000_000, 9_000_000),
        ..PATH
    };
    let (outcome, info) = send(1, 30_000_000, dark, PATH);
    // The backoff has grown to some seconds by then (RFC 6298 section 5.5).
    let took = outcome.elapsed.0 - 5_000_000;
    assert!(took < 12_000_000, "{took} {info:?}");
    assert!(info.total_rto < 8, "{info:?}");
}

#[test]
fn a_path_that_becomes_narrow_is_found_out() {
    for tells in [true, false] {
        let narrow = Faults {
            narrow: (6_000_000, u64::MAX, 1_300),
            tells,
            ..PATH
        };
        let (outcome, info) = send(1, 30_000_000, narrow, PATH);
        assert!((1_260..=1_300 - 12).contains(&info.snd_mss), "{info:?}");
        assert_eq!(info.black_holes, u32::from(!tells), "{info:?}");
        let took = outcome.elapsed.0 - 5_000_000;
        assert!(took < 10_000_000, "{took} {info:?}");
    }
}
