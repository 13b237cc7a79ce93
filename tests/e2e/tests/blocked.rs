//! What ends a call that waits: each call that may wait, and each thing that may happen to its
//! socket meanwhile (`programs/blocked.c`), gives the same on the kernel and on Longshore.
//!
//! `LONGSHORE_CASES` is a part of the names of the cases to run, all of which are printed then.

use longshore_e2e::conformance::{self, Cases};
use longshore_e2e::{Host, Stack, Testbed, run};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// For how long what is expected may take to come, in milliseconds.
const TIMEOUT: u32 = 3000;

/// As many cases there are at least.
const LEAST_CASES: usize = 1000;

/// So many cases may differ once and not again: a thread that is not asleep yet when its event
/// comes, or is not seen to be, gives something else, and the machine may have much else to do.
const MOST_ONCE: usize = 10;

/// The program on a host, for cases whose names have this in them.
struct Program<'l> {
    path: &'l Path,
    bed: &'l Testbed,
}

impl Program<'_> {
    fn lines(&self, host: &Host<'_>, expected: Option<&Cases>, only: &str) -> Cases {
        // A thread that is not woken sleeps on.
        let mut command = host.cmd(self.path).env("LONGSHORE_LOOKS", "never");
        if let Some(expected) = expected {
            let mut text = String::new();
            for (name, gives) in expected {
                let _ = writeln!(text, "{name}: {gives}");
            }
            let file = self.bed.file("expected", text);
            command = command.arg(file).arg(TIMEOUT.to_string());
        }
        if !only.is_empty() {
            command = command.arg(only);
        }
        conformance::cases(&command.timeout(Duration::from_secs(600)).check())
    }
}

/// What both runs say; what they do not agree on is the moment's.
fn agreed(one: Cases, other: &Cases) -> Cases {
    one.into_iter()
        .filter(|(name, gives)| other.get(name) == Some(gives))
        .collect()
}

#[test]
fn as_on_the_kernel() {
    run(Stack::Longshore, Duration::from_secs(900), |bed| {
        let only = std::env::var("LONGSHORE_CASES").unwrap_or_default();
        let kernel_bed = Testbed::new(Stack::Kernel);
        let kernel = kernel_bed.host(0);
        let longshore = bed.host(0).option("--loopback").option("engine");
        let path = conformance::compile(bed, "blocked");
        let program = Program { path: &path, bed };
        let first = program.lines(&kernel, None, &only);
        let expected = agreed(first, &program.lines(&kernel, None, &only));
        let differing = |only: &str| -> BTreeMap<String, (String, String)> {
            let given = program.lines(&longshore, Some(&expected), only);
            let both = given.into_iter().filter_map(|(name, gives)| {
                let should = expected.get(&name)?.clone();
                (should != gives).then_some((name, (should, gives)))
            });
            both.collect()
        };
        let mut differs = differing(&only);
        let once = differs.len();
        differs.retain(|name, _| differing(name).contains_key(name));
        for (name, (should, gives)) in &differs {
            println!("{name}\n    kernel:    {should}\n    longshore: {gives}");
        }
        println!(
            "{} cases, of which {} differ, and {} did once only",
            expected.len(),
            differs.len(),
            once - differs.len()
        );
        if only.is_empty() {
            assert!(
                expected.len() >= LEAST_CASES,
                "the kernel agrees with itself"
            );
        } else {
            println!("{expected:#?}");
        }
        assert!(
            differs.is_empty(),
            "calls that wait end otherwise than on the kernel"
        );
        assert!(once <= MOST_ONCE, "{once} cases differ once");
    });
}
