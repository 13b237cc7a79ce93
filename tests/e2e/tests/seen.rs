//! What one end of a connection within a host sees right after something was done to its other end:
//! each thing that may be done, by the same thread, another, or another process, and each call that
//! looks (`programs/seen.c`), give the same on the kernel and on Longshore.
//!
//! `LONGSHORE_CASES` is a part of the names of the cases to run, all of which are printed then.

use longshore_e2e::conformance::{self, Cases};
use longshore_e2e::{Host, Stack, Testbed, run};
use std::path::Path;
use std::time::Duration;

/// How often each case is tried.
const TIMES: u32 = 10;

/// As many cases there are at least.
const LEAST_CASES: usize = 1000;

/// So many cases may differ once and not again.
const MOST_ONCE: usize = 10;

/// Cases that differ, by a part of what is done and the end of the name of the call that looks, and
/// why.
const DIFFER: [(&str, &str, &str); 8] = [
    (
        "close with unread bytes",
        "SIOCOUTQ",
        "what a reset overtakes within the engine counts as not acknowledged",
    ),
    (
        "by a child",
        "epoll",
        "epoll_wait that finds something waits for nothing that another process has done",
    ),
    ("and reset by a child", "poll", OF_TWO_STEPS),
    ("and reset by a child", "poll for room", OF_TWO_STEPS),
    (
        "shutdown of writing and close with unread bytes by a child",
        "poll",
        OF_TWO_STEPS,
    ),
    (
        "shutdown of writing and close with unread bytes by a child",
        "poll for room",
        OF_TWO_STEPS,
    ),
    ("send twice by a child", "recv", OF_TWO_SENDS),
    ("send twice by a child", "recv thrice", OF_TWO_SENDS),
];

const OF_TWO_STEPS: &str =
    "poll that finds something waits for no more of what another process has done";

const OF_TWO_SENDS: &str =
    "recv that finds something waits for no more of what another process has sent";

fn is_known(name: &str) -> bool {
    DIFFER.iter().any(|(done, call, _)| {
        name.split_once(", then ")
            .is_some_and(|(all, looks)| all.contains(done) && looks.ends_with(call))
    })
}

fn lines(host: &Host<'_>, program: &Path, only: &str) -> Cases {
    let command = host.cmd(program).arg(TIMES.to_string()).arg(only);
    conformance::cases(&command.timeout(Duration::from_secs(300)).check())
}

#[test]
fn as_on_the_kernel() {
    run(Stack::Longshore, Duration::from_secs(900), |bed| {
        let only = std::env::var("LONGSHORE_CASES").unwrap_or_default();
        let kernel_bed = Testbed::new(Stack::Kernel);
        let longshore = bed.host(0).option("--loopback").option("engine");
        let program = conformance::compile(bed, "seen");
        let expected = lines(&kernel_bed.host(0), &program, &only);
        let given = lines(&longshore, &program, &only);
        assert_eq!(expected.len(), given.len());
        let mut differ: Vec<_> = given
            .into_iter()
            .filter(|(name, gives)| expected[name] != *gives && !is_known(name))
            .collect();
        let once = differ.len();
        // Calls wait for what is under way, but not for ever if an engine has no processor.
        differ.retain_mut(|(name, gives)| {
            *gives = lines(&longshore, &program, name)[name].clone();
            expected[name] != *gives
        });
        for (name, gives) in &differ {
            let should = &expected[name];
            println!("{name}\n    kernel:    {should}\n    longshore: {gives}");
        }
        if only.is_empty() {
            assert!(expected.len() >= LEAST_CASES, "{}", expected.len());
        } else {
            println!("{expected:#?}");
        }
        assert!(differ.is_empty(), "of {} cases", expected.len());
        assert!(once <= MOST_ONCE, "{once} cases differ once");
    });
}
