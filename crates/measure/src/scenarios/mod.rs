//! What is measured. Each scenario runs once on a testbed of either stack and
//! gives a figure; the bench makes medians of it.

mod bulk;
mod database;
mod flood;
mod idle;
mod link;
mod one_host;
mod redis;
mod round_trip;
mod servers;
mod sockperf;

use crate::Crossings;
use crate::generator::Service;
use crate::installed;
use crate::report::{Better, Target};
use longshore_testbed::{Host, Testbed};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Wherever the scheduler puts them.
    Free,
    /// All on one core.
    SameCore,
    /// The stack under test with its program on one, the peer on another.
    TwoCores,
}

impl Placement {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Placement::Free => "free",
            Placement::SameCore => "same core",
            Placement::TwoCores => "two cores",
        }
    }

    /// The testbed's host 0 and its peer, in their places.
    #[must_use]
    pub fn hosts(self, bed: &Testbed) -> (Host<'_>, Host<'_>) {
        let (host, peer) = self.processors();
        (bed.host(0).on_cpu(host), bed.peer().on_cpu(peer))
    }

    /// The processors of the host and of its peer, if they are bound to some.
    fn processors(self) -> (Option<usize>, Option<usize>) {
        match self {
            Placement::Free => (None, None),
            Placement::SameCore => (Some(0), Some(0)),
            Placement::TwoCores => (Some(1), Some(0)),
        }
    }
}

/// How long runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For a look.
    Quick,
    /// For the record.
    Full,
}

impl Effort {
    /// One of two values.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}

/// What a run gives.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The figure.
    pub value: f64,
    /// What crossed meanwhile, on Longshore.
    pub crossings: Option<Crossings>,
}

/// What a row of the table says of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub better: Better,
    /// What is aimed at.
    pub target: Option<Target>,
    /// What is aimed at where no processor sleeps, if it is measured there, too.
    pub awake: Option<Target>,
}

impl About {
    /// One of which more is better, and for which nothing is aimed at.
    const fn higher(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            better: Better::Higher,
            target: None,
            awake: None,
        }
    }

    /// As `higher`, of which less is better.
    const fn lower(name: &'static str, unit: &'static str) -> Self {
        Self {
            better: Better::Lower,
            ..Self::higher(name, unit)
        }
    }

    /// With this ratio to the kernel aimed at.
    const fn ratio(self, ratio: f64) -> Self {
        Self {
            target: Some(Target::Ratio(ratio)),
            ..self
        }
    }

    /// With this one aimed at where no processor sleeps.
    const fn ratio_awake(self, ratio: f64) -> Self {
        Self {
            awake: Some(Target::Ratio(ratio)),
            ..self
        }
    }

    /// With this figure itself aimed at.
    const fn value(self, value: f64) -> Self {
        Self {
            target: Some(Target::Value(value)),
            ..self
        }
    }
}

/// Something to be measured.
pub trait Scenario {
    /// What its row says of it.
    fn about(&self) -> About;
    /// The placements in which it is of interest.
    fn placements(&self) -> &[Placement] {
        &[Placement::Free]
    }
    /// Whether the kernel has something to be compared with.
    fn has_baseline(&self) -> bool {
        true
    }
    /// Runs it once.
    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample;
    /// Runs it once against a bare generator on Longshore's port, in the place of stack and
    /// server, if that can give what is asked for.
    fn run_bare(&self, _bed: &Testbed, _placement: Placement, _effort: Effort) -> Option<f64> {
        None
    }
}

/// All of them, in the order of the table.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let mut all: Vec<Box<dyn Scenario>> = Vec::new();
    all.extend(bulk::all());
    all.push(Box::new(round_trip::RoundTrip));
    all.extend(sockperf::all());
    all.extend(servers::all());
    all.extend(redis::all());
    all.extend(database::all());
    all.extend(one_host::all());
    all.extend(link::all());
    all.extend(idle::all());
    all.extend(flood::all());
    all
}

/// This program, to run one of [`crate::programs`].
fn program(host: &Host<'_>, name: &str) -> longshore_testbed::Cmd {
    host.cmd(me()).arg(installed::WORD).arg(name)
}

/// One of the native ones, which do without the POSIX shim.
fn without_shim(host: &Host<'_>, name: &str) -> longshore_testbed::Cmd {
    host.cmd("env")
        .args(["-u", "LD_PRELOAD"])
        .arg(me())
        .arg(installed::WORD)
        .arg(name)
}

fn me() -> PathBuf {
    std::env::current_exe().expect("a program has a path")
}

/// What `ask` gives of a server in whose place, and in its stack's, a bare generator does `service`
/// on the port that Longshore has: the bound of each stack there.
fn beside_generator(
    bed: &Testbed,
    placement: Placement,
    (port, service): (u16, Service),
    ask: impl FnOnce(&Host<'_>, SocketAddr) -> f64,
) -> f64 {
    let (host, peer) = placement.hosts(bed);
    let (processor, _) = placement.processors();
    let served = format!("{port}={service}");
    let _generator = program(&bed.peer().on_cpu(processor), "generator")
        .args([DEVICE, &host.ip().to_string(), &served])
        .spawn();
    peer.wait_for(host.at(port));
    ask(&peer, host.at(port))
}

/// The TAP device of a testbed's host 0.
const DEVICE: &str = "host0";

/// Runs `work` and counts what crosses meanwhile.
fn counted<T>(bed: &Testbed, work: impl FnOnce() -> T) -> (T, Option<Crossings>) {
    if bed.stack() == longshore_testbed::Stack::Kernel {
        return (work(), None);
    }
    let peer = bed.peer();
    let before = Crossings::so_far(&peer);
    let result = work();
    let crossed = Crossings::so_far(&peer) - before;
    (result, Some(crossed))
}

/// Requests a second of a report of wrk's, which has seen no errors.
fn rate_of_wrk(report: &str) -> f64 {
    assert!(
        !report.contains("Non-2xx") && !report.contains("Socket errors"),
        "wrk saw errors:\n{report}"
    );
    let rate = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    first_number(rate.unwrap_or_else(|| panic!("no rate in wrk's report:\n{report}")))
}

/// The first number in a program's output.
fn first_number(text: &str) -> f64 {
    text.split_whitespace()
        .find_map(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no figure in {text:?}"))
}
