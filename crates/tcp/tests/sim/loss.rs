//! What loss recovery is for, on a path that makes it necessary: how rarely the
//! retransmission timer is needed, and how little is repeated in vain.

use crate::endpoint::Program;
use crate::wire::Faults;
use crate::world::{Outcome, Scenario};
use crate::{bulk_program, run};
use longshore_tcp::{BurstConfig, Config, ReceiveLimits, TcpInfo};

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
        moves: 0,
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

/// A queue that overflows loses every other packet of a window. What arrives between
/// them is remembered on both sides: far less than the window is repeated.
#[test]
fn an_overflowing_queue_costs_what_it_loses() {
    for (queue, rtt_us) in [(60_000, 20_000), (300_000, 20_000), (1_500_000, 100_000)] {
        let path = Faults {
            delay_us: rtt_us / 2,
            rate: 12_500,
            queue,
            ..Faults::NONE
        };
        let cfg = Config {
            rcv: ReceiveLimits::new(16 << 20, 16 << 20),
            // So much is let go that slow start has no time to see the queue grow.
            burst: BurstConfig::with_initial_window(200),
            ..Config::default()
        };
        let writer = bulk_program(10_000_000);
        let back = Faults {
            queue: 1 << 20,
            ..path
        };
        let outcome = run(Scenario {
            seed: 1,
            client: (cfg, writer, 1460),
            server: (cfg, Program { total: 0, ..writer }, 1460),
            there: path,
            back,
            iss: (1, 2),
            fast_open: None,
            moves: 0,
        });
        let info = outcome.client.tcb.info(outcome.elapsed);
        println!(
            "{queue} lost {} repeated {}",
            outcome.wire_lost, info.total_retrans
        );
        let most = outcome.wire_lost + outcome.wire_lost / 10;
        let repeated = u64::from(info.total_retrans);
        assert!(
            repeated <= most + 3,
            "{queue}: {} {info:?}",
            outcome.wire_lost
        );
    }
}

/// RFC 9438 section 4.3: the mean window, in segments, of CUBIC's Reno-friendly region
/// where one segment in `1 / p` is lost.
fn response_function(p: f64) -> f64 {
    (1.5 / p).sqrt()
}

/// An engine takes what has come in bursts. On a fast path a whole window's
/// acknowledgments, the loss among them, are one: that must not make the window smaller
/// than single ones would.
#[test]
fn bursts_of_acknowledgments_cost_no_goodput() {
    const RTT_US: u64 = 20_000;
    const SEEDS: u64 = 6;
    for (turn_us, permille, least) in [
        (0, 10, 0.9),
        (500, 10, 0.85),
        (2_000, 10, 0.75),
        (0, 30, 0.8),
        (500, 30, 0.75),
    ] {
        let path = Faults {
            rate: 125_000,
            queue: 2_500_000,
            turn_us,
            ..PATH
        };
        let segments = response_function(f64::from(permille) / 1_000.0);
        let expected = segments * 1_448.0 * 1e6 / RTT_US as f64;
        // Thirty seconds.
        let total = (30.0 * expected) as u64;
        let mut sum = 0.0;
        for seed in 0..SEEDS {
            let there = Faults {
                loss: permille,
                ..path
            };
            let (outcome, _) = send(seed, total, there, path);
            sum += total as f64 * 1e6 / (outcome.elapsed.0 - 5_000_000) as f64;
        }
        let share = sum / SEEDS as f64 / expected;
        assert!(share > least, "{permille} in 1000, {turn_us} us: {share}");
    }
}

/// A bulk transfer of `total` bytes over 1 Gb/s and 20 ms with a queue of as much. One
/// packet in a hundred comes later by `late_us`.
fn send_with_late_packets(
    (turn_us, late_us): (u64, u64),
    (seed, total): (u64, u64),
    paws_of_linux: bool,
) -> Outcome {
    let path = Faults {
        rate: GIGABIT,
        queue: GIGABIT * 20,
        turn_us,
        ..PATH
    };
    let late = Faults {
        reorder: 10,
        late_us,
        ..path
    };
    let cfg = Config::default();
    let writer = bulk_program(total);
    let reader = Program {
        total: 0,
        paws_of_linux,
        ..writer
    };
    run(Scenario {
        seed,
        client: (cfg, writer, 1460),
        server: (cfg, reader, 1460),
        there: late,
        back: path,
        iss: (1, 2),
        fast_open: None,
        moves: 0,
    })
}

/// Bytes in a millisecond.
const GIGABIT: u64 = 125_000;

/// How often arrivals are looked at, and how late packets are, microseconds: by a quarter
/// of a round trip or by nearly a whole one, as over paths of unequal length.
const LATE: [(u64, u64); 3] = [(0, 5_000), (500, 5_000), (200, 18_000)];

/// What is repeated for packets that are late, or because slow start has filled the queue
/// until it overflows, must not make the receiver drop what is late; and where some packet
/// always is, the sender must not go on as after a loss.
#[test]
fn late_packets_cost_little() {
    let (total, seeds) = (100_000_000, 2);
    for late in LATE {
        let time = |seed| {
            let outcome = send_with_late_packets(late, (seed, total), false);
            outcome.elapsed.0 - 5_000_000
        };
        let times: Vec<u64> = (1..=seeds).map(time).collect();
        let goodput = total * seeds * 1_000 / times.iter().sum::<u64>();
        assert!(goodput > GIGABIT * 6 / 10, "{late:?}: {goodput} {times:?}");
    }
}

/// As `late_packets_cost_little`, with a receiver that admits nothing that is older than TS.Recent,
/// as Linux. A repetition must not take that past the timestamps of what is late: of those, each
/// drop makes a repetition, and each repetition, of some packets, a drop.
#[test]
fn repetitions_do_not_make_linux_drop_what_is_late() {
    let (mut lost, mut dropped) = (0, 0);
    for late in LATE {
        for seed in 1..=2 {
            let total = 100_000_000;
            let outcome = send_with_late_packets(late, (seed, total), true);
            lost += outcome.wire_lost;
            dropped += outcome.server.linux.as_ref().map_or(0, |l| l.dropped);
            let goodput = total * 1_000 / (outcome.elapsed.0 - 5_000_000);
            assert!(
                goodput > GIGABIT * 6 / 10,
                "{late:?}, seed {seed}: {goodput}, {lost} lost, {dropped} dropped"
            );
        }
    }
    // The queue overflows; how late packets can be is learned meanwhile.
    assert!(lost > 500 && dropped * 50 < lost, "{lost} {dropped}");
}
