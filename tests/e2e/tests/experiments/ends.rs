//! How experiments end that are interrupted, or have no room for what they find.

use super::scenario;
use longshore_e2e::{Testbed, with_mounts};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn is_empty(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).expect("a directory");
    entries.next().is_none()
}

/// Interrupts `longshore measure` with these arguments once nginx runs, by a signal to it alone:
/// it ends by that, and neither processes nor files are left.
fn interrupt(bed: &Testbed, arguments: &[&str], signal: Signal) {
    let scratch = bed.directory("scratch");
    let measure = bed.peer().longshore().arg("measure").args(arguments);
    let measure = measure.directory(&bed.directory("report"));
    let measure = measure.env("TMPDIR", &scratch).spawn();
    let _ = measure.program_pid("nginx");
    let family = measure.family();
    assert!(!is_empty(&scratch));
    measure.signal(signal);
    let end = measure.wait();
    assert_eq!(end.status.signal(), Some(signal.as_raw()), "{end:?}");
    assert!(!end.stderr.contains("longshore: "), "{end:?}");
    let left: Vec<i32> = family.into_iter().filter(|pid| is_running(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(is_empty(&scratch), "{}", scratch.display());
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    scenario(|bed| {
        let bus = ["bus", "--size", "512", "--fetches", "1000"];
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            interrupt(bed, &bus, signal);
        }
        interrupt(bed, &["all", "--only", "bus"], Signal::TERM);
    });
}

/// The disk is full: that is said, once, and why.
#[test]
fn what_cannot_be_kept_is_left_out_and_said() {
    scenario(|bed| {
        let at = bed.directory("small");
        let before = format!("mount -t tmpfs -o size=4k none {}", at.display());
        let page = at.join("all.html");
        let all = "measure all --quick --only path --out";
        let end = with_mounts(bed, &before, &format!("{all} {}", page.display())).run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        let said = |words: &str| end.stderr.matches(words).count();
        assert_eq!(said("path.json: No space left"), 1, "{end:?}");
        assert_eq!(said("path is left out: it ended with"), 1, "{end:?}");
    });
}

/// A plot's file is not there before the plot is.
#[test]
fn a_failed_experiment_leaves_no_plot() {
    scenario(|bed| {
        let plot = bed.directory("plots").join("x.svg");
        let line = format!("measure latency --quick --plot {}", plot.display());
        let end = with_mounts(bed, "mount -t tmpfs none /dev/net", &line).run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        assert!(!plot.exists());
    });
}
