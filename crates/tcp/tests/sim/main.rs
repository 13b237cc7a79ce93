//! Two machines on a simulated path in virtual time: whatever the path does, every
//! byte arrives once, in its place, and the connection ends.
//!
//! A failing seed is run alone with `LONGSHORE_SEED=n cargo test -p longshore-tcp
//! --test sim`, with `LONGSHORE_TRACE=1` to see each segment; `LONGSHORE_SEEDS=n` runs
//! more of them, `LONGSHORE_MINUTES=n` new ones for that long (`make soak`).

mod endpoint;
mod linux;
mod loss;
mod rng;
mod wire;
mod world;

use endpoint::Program;
use longshore_tcp::{Config, Congestion, DelayConfig, EcnMode, Keepalive, ReceiveLimits, Retries};
use rng::Rng;
use std::time::{Duration, Instant, SystemTime};
use wire::Faults;
use world::{Outcome, Scenario, World};

fn config(rng: &mut Rng) -> Config {
    let rcvbuf = rng.pick(&[2_000, 20_000, 128 * 1024, 1 << 20]);
    Config {
        window_scaling: rng.permille(850),
        timestamps: rng.permille(800),
        sack: rng.permille(800),
        rcv: ReceiveLimits::new(rcvbuf, rng.pick(&[rcvbuf, 4 << 20])),
        delay: DelayConfig {
            nodelay: rng.permille(500),
            cork: rng.permille(100),
            quickack: rng.permille(100),
        },
        congestion: rng.pick(&Congestion::ALL),
        ecn: rng.pick(&[
            EcnMode::Accept,
            EcnMode::Request,
            EcnMode::RequestAccurate,
            EcnMode::AcceptAccurate,
        ]),
        max_pacing_rate: rng.pick(&[u64::MAX, u64::MAX, u64::MAX, 1_000_000]),
        keepalive: Keepalive {
            enabled: rng.permille(200),
            idle_ms: 500,
            ..Keepalive::default()
        },
        // Giving up is tested elsewhere; here bad luck must not do it.
        retries: Retries {
            syn: 30,
            syn_ack: 30,
            data: 30,
            orphan: 30,
        },
        ..Config::default()
    }
}

fn program(rng: &mut Rng, merged: bool, most: u64) -> Program {
    Program {
        total: rng.pick(&[0, 1, 1000, most / 8, most]),
        write: rng.pick(&[1, 100, 3000, 65_536, 1 << 20]),
        sndbuf: rng.pick(&[4000, 64 * 1024, 1 << 20]),
        read: rng.pick(&[500, 4096, 65_536, 1 << 20]),
        pause_us: rng.pick(&[1, 100, 5000, 200_000]),
        max_payload: rng.pick(&[1400, 20_000, 65_000]),
        merged,
        paws_of_linux: false,
    }
}

fn faults(rng: &mut Rng, hard: u32) -> Faults {
    let delay_us = rng.pick(&[20, 500, 10_000, 80_000]);
    Faults {
        loss: rng.pick(&[0, 1, 10, 30, 100, hard]),
        duplicate: rng.pick(&[0, 0, 20, 100]),
        reorder: rng.pick(&[0, 0, 20, 200]),
        corrupt: rng.pick(&[0, 0, 10, 50]),
        late_us: 0,
        delay_us,
        jitter_us: rng.pick(&[0, 0, delay_us / 2, delay_us * 2]),
        rate: rng.pick(&[0, 0, 125, 12_500]),
        queue: rng.pick(&[5_000, 60_000, 2_000_000]),
        turn_us: 0,
        mark: rng.pick(&[u64::MAX, u64::MAX, 10_000]),
        blackout: sometimes(rng, 100, 20_000_000),
        stall: sometimes(rng, 100, 3_000_000),
        narrow: {
            let (from, to) = sometimes(rng, 200, 60_000_000);
            (from, to, rng.pick(&[600, 800, 1200, 1400]))
        },
        tells: rng.permille(500),
    }
}

/// A while in the first seconds or minute of a run, this often.
fn sometimes(rng: &mut Rng, permille: u32, longest_us: u64) -> (u64, u64) {
    if !rng.permille(permille) {
        return (0, 0);
    }
    let from = 5_000_000 + rng.range(0, 2_000_000);
    (from, from + rng.range(1, longest_us))
}

/// A scenario that slow programs do not stretch beyond reason.
fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let merged = rng.permille(300);
    let mut one = || {
        let cfg = config(&mut rng);
        let mut p = program(&mut rng, merged, 400_000);
        p.paws_of_linux = seed.is_multiple_of(3);
        if p.pause_us * p.total / p.write.min(p.read) > 400_000_000 {
            p.pause_us = 1;
        }
        if p.write == 1 {
            p.total = p.total.min(3000);
        }
        let mss = rng.pick(&[100, 536, 1460, 1460, 8960]);
        (cfg, p, mss)
    };
    let (client, server) = (one(), one());
    Scenario {
        seed,
        client,
        server,
        there: faults(&mut rng, 200),
        back: faults(&mut rng, 200),
        iss: (
            rng.pick(&[0, u32::MAX - 3, 12345, rng_u32(seed)]),
            rng.next() as u32,
        ),
        fast_open: rng.pick(&[None, None, Some(true), Some(false)]),
        moves: 0,
    }
}

fn rng_u32(seed: u64) -> u32 {
    Rng::new(!seed).next() as u32
}

fn run(scenario: Scenario) -> Outcome {
    World::new(scenario).run()
}

fn run_seed(seed: u64) {
    let result = std::panic::catch_unwind(|| run(scenario(seed)));
    if let Err(panic) = result {
        eprintln!("failed: LONGSHORE_SEED={seed}\n{:#?}", scenario(seed));
        std::panic::resume_unwind(panic);
    }
}

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

/// Runs the seeds, or what the environment asks for: one, so many, or new ones for so
/// many minutes.
fn seeds(from: u64, count: u64) {
    if let Some(seed) = number_from_environment("LONGSHORE_SEED") {
        return run_seed(seed);
    }
    let Some(minutes) = number_from_environment("LONGSHORE_MINUTES") else {
        let count = number_from_environment("LONGSHORE_SEEDS").unwrap_or(count);
        return (from..from + count).for_each(run_seed);
    };
    let start = Instant::now();
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = today.map_or(0, |time| time.as_secs()) * 10_000_000 + from;
    let end = Duration::from_secs(60 * minutes);
    let mut done = 0;
    while start.elapsed() < end {
        run_seed(first + done);
        done += 1;
    }
    println!("{done} seeds from {first} on");
}

#[test]
fn any_path_a() {
    seeds(0, 1_000);
}

#[test]
fn any_path_b() {
    seeds(1_000_000, 1_000);
}

#[test]
fn any_path_c() {
    seeds(2_000_000, 1_000);
}

#[test]
fn any_path_d() {
    seeds(3_000_000, 1_000);
}

/// One end after the other moves to another process, at any moment: every byte still
/// arrives once, and the connection ends.
#[test]
fn any_path_while_connections_move() {
    for seed in 4_000_000..4_001_000 {
        let scenario = Scenario {
            moves: [1, 20, 300][seed as usize % 3],
            ..scenario(seed)
        };
        let result = std::panic::catch_unwind(|| run(scenario));
        if let Err(panic) = result {
            eprintln!("failed: {scenario:#?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A program that writes `total` bytes as fast as it may.
fn bulk_program(total: u64) -> Program {
    Program {
        total,
        write: 1 << 20,
        sndbuf: 16 << 20,
        read: 1 << 20,
        pause_us: 50,
        max_payload: 65_000,
        merged: false,
        paws_of_linux: false,
    }
}

/// A bulk transfer of `total` bytes over a path of `rate` bytes per millisecond,
/// half of `rtt_us` each way, with a queue of one bandwidth-delay product.
fn bulk(total: u64, rate: u64, rtt_us: u64, loss: u32, congestion: Congestion) -> Outcome {
    let cfg = Config {
        congestion,
        ..Config::default()
    };
    bulk_with(&cfg, total, rate, rtt_us, loss)
}

fn bulk_with(cfg: &Config, total: u64, rate: u64, rtt_us: u64, loss: u32) -> Outcome {
    let queue = (rate * rtt_us / 1000).max(100_000);
    bulk_queued(cfg, total, rate, rtt_us, loss, queue)
}

fn bulk_queued(cfg: &Config, total: u64, rate: u64, rtt_us: u64, loss: u32, queue: u64) -> Outcome {
    let faults = Faults {
        loss,
        delay_us: rtt_us / 2,
        rate,
        queue,
        ..Faults::NONE
    };
    bulk_over(cfg, total, faults)
}

fn bulk_over(cfg: &Config, total: u64, faults: Faults) -> Outcome {
    let (cfg, writer) = (*cfg, bulk_program(total));
    run(Scenario {
        seed: 7,
        client: (cfg, writer, 1460),
        server: (cfg, Program { total: 0, ..writer }, 1460),
        there: faults,
        back: Faults { loss: 0, ..faults },
        iss: (1, 2),
        fast_open: None,
        moves: 0,
    })
}

#[test]
fn a_clean_path_repeats_nothing_and_is_predicted() {
    for congestion in Congestion::ALL {
        let outcome = bulk(1_200_000, 125_000, 10_000, 0, congestion);
        let client = outcome.client.tcb.info(outcome.elapsed);
        let server = outcome.server.tcb.info(outcome.elapsed);
        assert_eq!((client.total_retrans, client.total_rto), (0, 0));
        assert_eq!(server.rcv_ooopack, 0);
        for info in [client, server] {
            let share = f64::from(info.fast_path_hits) / f64::from(info.segs_in);
            assert!(share > 0.95, "{share} of {}", info.segs_in);
        }
    }
}

#[test]
fn random_loss_is_repaired_without_timeouts() {
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        let outcome = bulk(5_000_000, 12_500, 20_000, 10, congestion);
        let info = outcome.client.tcb.info(outcome.elapsed);
        assert!(info.total_rto <= 1, "{info:?}");
        // One packet in a hundred is lost; few more are repeated.
        let share = f64::from(info.total_retrans) / f64::from(info.data_segs_out);
        assert!((0.005..0.02).contains(&share), "{share}");
    }
}

#[test]
fn the_receive_buffer_grows_with_the_path() {
    let outcome = bulk(20_000_000, 125_000, 100_000, 0, Congestion::Cubic);
    assert!(
        outcome.server.tcb.receive_status().buffer_size() >= 6 << 20,
        "{:?}",
        outcome.server
    );
    let outcome = bulk(3_000_000, 0, 40, 0, Congestion::Cubic);
    assert!(outcome.server.tcb.receive_status().buffer_size() <= 6 << 20);

    // 1 Gb/s and 100 ms without a setting: slow start takes a second or so, and then
    // nothing holds it back.
    let total = 150_000_000;
    let outcome = bulk(total, 125_000, 100_000, 0, Congestion::Cubic);
    let slow_start = 1_500_000;
    let full = total * 1_000 / 125_000;
    let took = outcome.elapsed.0 - 5_000_000;
    assert!(took < slow_start + full, "{took} us");
}

/// Bytes per millisecond from the first SYN to the last FIN.
fn goodput_of(outcome: &Outcome, total: u64) -> u64 {
    total * 1_000 / (outcome.elapsed.0 - 5_000_000)
}

/// A queue that takes what conservative slow start sends too much: without HyStart++,
/// slow start ends where the queue does.
#[test]
fn slow_start_ends_before_it_loses_anything() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        let cfg = Config {
            congestion,
            rcv: ReceiveLimits::new(16 << 20, 16 << 20),
            ..Config::default()
        };
        let (rate, rtt_us) = (12_500, 60_000);
        let queue = 6 * rate * rtt_us / 1_000;
        // Long enough for slow start to fill path and queue; what CUBIC does to it later
        // is another matter.
        let outcome = bulk_queued(&cfg, 20_000_000, rate, rtt_us, 0, queue);
        let info = outcome.client.tcb.info(outcome.elapsed);
        assert_eq!(info.total_retrans, 0, "{congestion:?} {info:?}");
        assert!(info.snd_ssthresh < u32::MAX, "{congestion:?}");
    }
}

/// One packet in a hundred is lost at random: BBR goes down to what the path still
/// delivers, and not on and on.
#[test]
fn bbr_fills_a_path_with_random_loss() {
    let bbr = goodput_of(
        &bulk(20_000_000, 12_500, 40_000, 10, Congestion::Bbr),
        20_000_000,
    );
    let reno = goodput_of(
        &bulk(20_000_000, 12_500, 40_000, 10, Congestion::NewReno),
        20_000_000,
    );
    assert!(bbr > 8_000, "{bbr} of 12500");
    assert!(bbr > 4 * reno, "{bbr} {reno}");
}

/// A clean path is filled, and its queue is not.
#[test]
fn bbr_keeps_the_queue_short() {
    for (rate, rtt_us, total) in [(1_250, 20_000, 10_000_000), (12_500, 100_000, 60_000_000)] {
        let outcome = bulk(total, rate, rtt_us, 0, Congestion::Bbr);
        let goodput = goodput_of(&outcome, total);
        assert!(goodput > rate * 70 / 100, "{goodput} of {rate}");
        let info = outcome.client.tcb.info(outcome.elapsed);
        assert!(info.rtt_us < rtt_us * 3 / 2, "{} {info:?}", info.rtt_us);
        assert!(info.pacing_rate < u64::MAX);
    }
}

/// SO_MAX_PACING_RATE holds whatever the window would allow, and costs little of the
/// rate that it grants.
#[test]
fn a_bound_of_the_pace_is_kept() {
    for congestion in Congestion::ALL {
        let total = 5_000_000;
        let cfg = Config {
            congestion,
            max_pacing_rate: 1_250_000,
            ..Config::default()
        };
        let goodput = goodput_of(&bulk_with(&cfg, total, 125_000, 20_000, 0), total);
        assert!(
            (1_100..=1_260).contains(&goodput),
            "{congestion:?} {goodput}"
        );
    }
}

/// A queue that marks keeps every algorithm from losing anything, and with DCTCP it is
/// as short as the mark says although the path is full.
#[test]
fn marks_take_the_place_of_losses() {
    for ecn in [EcnMode::Request, EcnMode::RequestAccurate] {
        for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
            let cfg = Config {
                ecn,
                congestion,
                rcv: ReceiveLimits::new(4 << 20, 4 << 20),
                ..Config::default()
            };
            // 1 Gb/s and 400 us: a window of 50 kB, marked from 30 kB waiting.
            let faults = Faults {
                delay_us: 200,
                rate: 125_000,
                queue: 1_000_000,
                mark: 30_000,
                ..Faults::NONE
            };
            let total = 40_000_000;
            let outcome = bulk_over(&cfg, total, faults);
            let what = format!("{ecn:?} {congestion:?}");
            let info = outcome.client.tcb.info(outcome.elapsed);
            assert!(info.ecn, "{what}");
            assert_eq!(info.total_retrans, 0, "{what}");
            assert!(info.snd_ssthresh < u32::MAX, "{what}");
            let goodput = goodput_of(&outcome, total);
            assert!(goodput > 125_000 * 80 / 100, "{what} {goodput}");
            if congestion == Congestion::Dctcp {
                assert!(info.rtt_us < 1_000, "{what} {}", info.rtt_us);
                assert!(goodput > 125_000 * 90 / 100, "{what} {goodput}");
            }
        }
    }
}

/// Not a test of speed, but a table to look at: virtual goodput by loss and round
/// trip, `cargo test -p longshore-tcp --release --test sim goodput -- --ignored
/// --nocapture`.
#[test]
#[ignore = "prints a table"]
fn goodput() {
    println!("Mb/s      rtt ms  loss %  cc       goodput Mb/s  timeouts  repeated");
    for (rate, total) in [(12_500, 20_000_000), (125_000, 60_000_000)] {
        for rtt_us in [1_000, 20_000, 100_000] {
            for loss in [0, 1, 10, 30] {
                for congestion in Congestion::ALL {
                    let outcome = bulk(total, rate, rtt_us, loss, congestion);
                    let seconds = (outcome.elapsed.0 - 5_000_000) as f64 / 1e6;
                    let info = outcome.client.tcb.info(outcome.elapsed);
                    println!(
                        "{:<9} {:<7} {:<7} {:<8} {:<13.1} {:<9} {}",
                        rate * 8 / 1000,
                        rtt_us / 1000,
                        f64::from(loss) / 10.0,
                        congestion.name(),
                        total as f64 * 8.0 / seconds / 1e6,
                        info.total_rto,
                        info.total_retrans,
                    );
                }
            }
        }
    }
}
