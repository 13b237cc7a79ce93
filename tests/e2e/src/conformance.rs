//! Runs the socket-API checks (`programs/*.c`): the same C program on the
//! kernel and on Longshore, against a kernel peer and against itself.

use crate::{Host, Stack, Testbed};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs all checks of one program on the testbed's stack.
///
/// # Panics
/// If a check fails that should pass.
pub fn run(bed: &Testbed, program: &str) {
    run_checks(bed, program, &How::default());
}

/// As [`run`], on a host that runs programs with these options (`longshore run`).
///
/// # Panics
/// If a check fails that should pass.
pub fn run_with(bed: &Testbed, program: &str, options: &[&str]) {
    let how = How {
        options,
        ..How::default()
    };
    run_checks(bed, program, &how);
}

/// As [`run`], of a program that is compiled with these flags, too.
///
/// # Panics
/// If a check fails that should pass.
pub fn run_built(bed: &Testbed, program: &str, flags: &[&str]) {
    let how = How {
        flags,
        ..How::default()
    };
    run_checks(bed, program, &how);
}

/// As [`run`], with the program, and the launcher before it, started by a command that executes
/// what it is given.
///
/// # Panics
/// If a check fails that should pass.
pub fn run_by(bed: &Testbed, program: &str, command: &[&OsStr]) {
    let how = How {
        command,
        ..How::default()
    };
    run_checks(bed, program, &how);
}

/// As [`run`], with both ends on one engine, of a program that makes the calls of sockets by system
/// calls of its own (`programs/own_calls.h`).
///
/// # Panics
/// If a check fails that should pass.
pub fn run_without_libc(bed: &Testbed, program: &str) {
    by_own_calls(bed, program, "-O1");
}

/// As [`run_without_libc`], of a program that is compiled without optimisation.
///
/// # Panics
/// If a check fails that should pass.
pub fn run_unoptimised_without_libc(bed: &Testbed, program: &str) {
    by_own_calls(bed, program, "-O0");
}

fn by_own_calls(bed: &Testbed, program: &str, optimisation: &str) {
    let how = How {
        flags: &[
            "-include",
            concat!(env!("CARGO_MANIFEST_DIR"), "/programs/own_calls.h"),
            optimisation,
        ],
        own_calls: true,
        ..How::default()
    };
    run_checks(bed, program, &how);
}

/// How a program of checks is compiled and run.
#[derive(Default)]
struct How<'h> {
    /// The compiler's.
    flags: &'h [&'h str],
    /// Of `longshore run`.
    options: &'h [&'h str],
    /// What executes it.
    command: &'h [&'h OsStr],
    /// Its own system calls are not the kernel's, as those of an end on the kernel are.
    own_calls: bool,
}

fn run_checks(bed: &Testbed, program: &str, how: &How<'_>) {
    let binary = compile_with(bed, program, how.flags);
    let checks = list(&binary);
    assert!(!checks.is_empty(), "{program} has no checks");
    let mut wrong = Vec::new();
    let far_ends: &[&str] = if how.own_calls {
        &["self"]
    } else {
        &["kernel", "self"]
    };
    for far in far_ends {
        let report = run_all(bed, (&binary, how), &checks, far);
        for check in &checks {
            let passed = report.lines().any(|l| l == format!("PASS {check}"));
            if passed {
                continue;
            }
            let why = report
                .lines()
                .find(|l| l.starts_with(&format!("FAIL {check}:")))
                .or_else(|| {
                    report
                        .lines()
                        .skip_while(|l| *l != format!("RUN {check}"))
                        .skip(1)
                        .take_while(|l| !l.starts_with("RUN "))
                        .next()
                })
                .unwrap_or("no word from it");
            wrong.push(format!("{check} (far end: {far}): {why}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{program}: {} of {} checks are wrong:\n  {}",
        wrong.len(),
        far_ends.len() * checks.len(),
        wrong.join("\n  ")
    );
    println!("{program}: {} checks, against {far_ends:?}", checks.len());
}

/// Every check is a process of its own, all of them children of one shell, and
/// so of one session.
fn run_all(
    bed: &Testbed,
    (binary, how): (&Path, &How<'_>),
    checks: &[String],
    far: &str,
) -> String {
    // A check is both ends in one process, one of them on the kernel.
    let (host, peer) = (bed.host(0).with_its_engine(), bed.peer());
    let host = how.options.iter().fold(host, Host::option);
    let host = host.executed_by(how.command);
    // With the kernel under test, its own loopback is the far end.
    let (far_ip, far_ip6) = match (far, bed.stack()) {
        ("kernel", Stack::Longshore) => (peer.ip(), peer.ip6()),
        _ => (host.ip(), host.ip6()),
    };
    let stack = match bed.stack() {
        Stack::Longshore => "longshore",
        _ => "kernel",
    };
    let script = format!(
        "for check in {}; do echo \"RUN $check\"; \"{}\" \"$check\" || echo \"STATUS $?\"; done",
        checks.join(" "),
        binary.display()
    );
    host.sh(&script)
        .env("FAR", far)
        .env(
            "LONGSHORE_OWN_CALLS",
            if how.own_calls { "" } else { "kernel" },
        )
        // A thread that is not woken sleeps on.
        .env("LONGSHORE_LOOKS", "never")
        .env("STACK", stack)
        .env("ADDR", host.ip().to_string())
        .env("FAR_ADDR", far_ip.to_string())
        .env("ADDR6", host.ip6().to_string())
        .env("FAR_ADDR6", far_ip6.to_string())
        .timeout(Duration::from_secs(240))
        .check()
}

fn list(binary: &Path) -> Vec<String> {
    let output = Command::new(binary)
        .arg("--list")
        .output()
        .expect("run a check program");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Compiles `programs/<name>.c` among the scenario's files.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile(bed: &Testbed, name: &str) -> PathBuf {
    compile_with(bed, name, &[])
}

/// As [`compile`], with these flags, too.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile_with(bed: &Testbed, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(format!("{name}.c"));
    let binary = bed.directory("programs").join(name);
    let output = Command::new("gcc")
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .expect("gcc is installed");
    assert!(
        output.status.success(),
        "{} does not compile:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    binary
}

/// What each case gives, by its name.
pub type Cases = BTreeMap<String, String>;

/// The cases that a program has printed, each in a line: its name, a colon, and what it gives.
///
/// # Panics
/// If a line is none.
#[must_use]
pub fn cases(said: &str) -> Cases {
    let lines = said.lines().map(|line| {
        line.split_once(": ")
            .unwrap_or_else(|| panic!("not of a case: {line}"))
    });
    lines
        .map(|(name, gives)| (name.to_owned(), gives.to_owned()))
        .collect()
}
