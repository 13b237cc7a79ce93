//! Two whole stacks with their programs on a simulated wire, in virtual time: whatever the
//! wire does and whoever dies, every byte arrives once and in its place or the connection
//! says that it has failed, and nothing is left of it in the end.
//!
//! A seed is a whole run: it gives the scenario, the secrets of the stacks and what the wire
//! does to each frame. One that fails is printed with its scenario and fails again with
//! `LONGSHORE_SEED=n cargo test -p longshore-stack simulation`; `LONGSHORE_SEEDS=n` runs
//! more of them.

mod crossings;
mod machine;
mod observer;
mod program;
mod world;

use world::{Report, Scenario, World};

/// Seeds that are run when nobody says how many.
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

#[test]
fn simulation_delivers_all_or_says_so_and_leaves_nothing() {
    if let Some(seed) = number_from_environment("LONGSHORE_SEED") {
        run(seed);
        return;
    }
    let seeds = number_from_environment("LONGSHORE_SEEDS").unwrap_or(SEEDS);
    let mut all = Report::default();
    for seed in 0..seeds {
        all.add(&run(seed));
    }
    // What is tested does happen.
    let Report {
        whole,
        short,
        retransmissions,
        resets,
        bad_checksums,
        predicted,
        ..
    } = all;
    let happened = [
        whole > seeds,
        short > seeds / 100,
        retransmissions > seeds,
        resets > seeds / 100,
        bad_checksums > seeds / 100,
        predicted > 10 * seeds,
    ];
    assert_eq!(happened, [true; 6], "{all:?}");
}

#[test]
fn simulation_does_the_same_again() {
    for seed in 0..50 {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
    assert_ne!(run(1).trace, run(2).trace);
}
