//! Two whole stacks with their programs on a simulated wire, in virtual time: connections, also
//! such as a proxy passes on, and datagrams, fragments, addresses from a DHCP server, floods of
//! SYNs, links that go down and come back. Whatever the wire does and whoever dies, every byte
//! arrives once and in its place or the connection says that it has failed, and nothing is left
//! of it in the end.
//!
//! A seed is a whole run: it gives the scenario, the secrets of the stacks and what the wire
//! does to each frame. One that fails is printed with its scenario and fails again with
//! `LONGSHORE_SEED=n cargo test -p longshore-stack simulation`; `LONGSHORE_SEEDS=n` runs
//! more of them, `LONGSHORE_MINUTES=n` new ones for that long (`make soak`).

mod accepting;
mod address_alone;
mod big_tcp;
mod binding;
mod bounds;
mod bulk;
mod calls;
mod claims;
mod closing;
mod containment;
mod crossings;
mod datagrams;
mod failed_attempts;
mod fast_open;
mod filtering;
mod flood;
mod forgotten;
mod forwards;
mod given_back;
mod group_shares;
mod groups;
mod hostile_program;
mod in_place;
mod incoming;
mod ipv4;
mod ipv6;
mod leases;
mod live_options;
mod low_water;
mod machine;
mod machine_settings;
mod memberships;
mod memory;
mod multicast_sources;
mod numbers;
mod observer;
mod off_path;
mod on_data;
mod orphans;
mod own_addresses;
mod own_connections;
mod own_endings;
mod own_ends;
mod own_waiting;
mod owners;
mod path_discovery;
mod plug;
mod prediction;
mod program;
mod questions;
mod quiet_streams;
mod reconnect;
mod refused;
mod relay;
mod report;
mod reported_errors;
mod responses;
mod routers;
mod scenario;
mod segment_errors;
mod sent_stamps;
mod session_ends;
mod sessions;
mod single;
mod status;
mod streams;
mod syn_flood;
mod talk;
mod udp;
mod unheld;
mod wakeups;
mod world;

use report::Report;
use scenario::Scenario;
use std::time::{Duration, Instant, SystemTime};
use world::World;

/// Seeds that each test runs when nobody says how many.
const SEEDS: u64 = 1_000;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says which seed was run if that panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!("failed: LONGSHORE_SEED={seed}\n{:#?}", Scenario::of(seed));
        }
    }
}

fn run(seed: u64) -> Report {
    let _named = Named(seed);
    World::new(seed).run()
}

/// Runs seeds from `first` on, or what the environment asks for: one, so many, or new ones
/// for so many minutes. Each of what is tested must happen in a good part of them.
fn run_from(first: u64) {
    if let Some(seed) = number_from_environment("LONGSHORE_SEED") {
        run(seed);
        return;
    }
    let mut all = Report::default();
    if let Some(minutes) = number_from_environment("LONGSHORE_MINUTES") {
        let begun = Instant::now();
        let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let first = today.map_or(0, |time| time.as_secs()) * 10_000_000 + first;
        let mut seeds = 0;
        while begun.elapsed() < Duration::from_secs(60 * minutes) {
            all.add(&run(first + seeds));
            seeds += 1;
        }
        println!("{seeds} seeds from {first} on: {all:?}");
        return check_happened(&all, seeds);
    }
    let seeds = number_from_environment("LONGSHORE_SEEDS").unwrap_or(SEEDS);
    (first..first + seeds).for_each(|seed| all.add(&run(seed)));
    check_happened(&all, seeds);
}

fn check_happened(all: &Report, seeds: u64) {
    let happened = [
        (all.whole, seeds),
        (all.short, seeds / 100),
        (all.retransmissions, seeds),
        (all.resets, seeds / 100),
        (all.bad_checksums, seeds / 100),
        (all.predicted, 10 * seeds),
        (all.datagrams, 10 * seeds),
        (all.long_datagrams, seeds),
        (all.cookies_sent, seeds),
        (all.cookies_taken, seeds / 100),
        (all.returns, seeds / 10),
        (all.leases, seeds / 10),
        (all.panics, seeds / 20),
        (all.lent, 10_000 * seeds),
        (all.in_place, 1),
        (all.in_place_missed, 1),
        (all.forwarded, 10_000 * seeds),
    ];
    assert!(happened.iter().all(|(n, least)| n > least), "{all:#?}");
}

#[test]
fn simulation_delivers_all_or_says_so_and_leaves_nothing_a() {
    run_from(0);
}

#[test]
fn simulation_delivers_all_or_says_so_and_leaves_nothing_b() {
    run_from(1_000_000);
}

#[test]
fn simulation_delivers_all_or_says_so_and_leaves_nothing_c() {
    run_from(2_000_000);
}

#[test]
fn simulation_does_the_same_again() {
    for seed in 0..50 {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
    assert_ne!(run(1).trace, run(2).trace);
}

/// A FIN and a reset of the connection within one turn left a record in TIME-WAIT that no
/// timer ended, and with it the port.
#[test]
fn simulation_of_a_fin_and_a_reset_in_one_turn_leaves_nothing() {
    run(17_954_050_951_007_573);
}
