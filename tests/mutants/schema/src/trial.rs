//! Runs a test: with one mutant, or with none to see what it reaches.

use crate::compile::Binary;
use crate::point::Id;
use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, prlimit, setrlimit,
    waitid,
};
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The memory that a test may have of its own: a mutant that loops for ever may take more and
/// more.
const MEMORY: u64 = 3 << 30;

/// The most that a test may take at all.
const LONGEST: Duration = Duration::from_secs(600);

/// A test, and what is known of it.
#[derive(Debug)]
pub struct Test {
    /// Which of the binaries it is in.
    pub binary: usize,
    /// Its name there.
    pub name: String,
    /// How long it takes.
    pub takes: Times,
    /// The mutants of which it reaches the place, ascending.
    pub reaches: Vec<Id>,
}

/// How long a test takes, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// By the processor's, which does not go while others run.
    pub processor: Duration,
    /// By the one on the wall, which also goes while it waits.
    pub wall: Duration,
}

/// How much longer than by the processor's clock a test may take by the other one and still be
/// a short one: as much as others on a busy machine hold it up.
const BUSY: u32 = 10;

impl Times {
    /// Whether it is a test of at most so many seconds, whatever else the machine does.
    pub fn within(&self, seconds: f64) -> bool {
        self.processor.as_secs_f64() <= seconds
            && self.wall.as_secs_f64() <= seconds * f64::from(BUSY)
    }
}

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It noticed nothing.
    Passed,
    /// It failed, or was killed.
    Failed,
    /// It did not end.
    TimedOut,
}

/// The tests that a binary has and that run unless asked otherwise.
pub fn list(binary: &Binary) -> io::Result<Vec<String>> {
    let names = |more: &[&str]| -> io::Result<Vec<String>> {
        let output = Command::new(&binary.program)
            .args(["--list", "--format", "terse"])
            .args(more)
            .current_dir(&binary.directory)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text
            .lines()
            .filter_map(|line| line.strip_suffix(": test").map(str::to_owned))
            .collect())
    };
    let ignored = names(&["--ignored"])?;
    Ok(names(&[])?
        .into_iter()
        .filter(|name| !ignored.contains(name))
        .collect())
}

/// What this process may take, its children may.
pub fn limit_memory(limited: bool) {
    let of = Rlimit {
        current: limited.then_some(MEMORY),
        maximum: None,
    };
    // Where that is not permitted, there is no limit, which is how it was.
    let _ = setrlimit(Resource::Data, of);
}

/// Runs a test without mutants, and sees what it reaches: `file` is for that, `count` the number
/// of mutants. An error of its own says why it is no test to try mutants by. With `most` it is
/// one only if it takes no more seconds.
pub fn record(
    binary: &Binary,
    number: usize,
    name: &str,
    (file, count): (&Path, usize),
    most: Option<f64>,
) -> io::Result<Result<Test, Outcome>> {
    fs::write(file, vec![0; count])?;
    let command = command(
        binary,
        &[name],
        "LONGSHORE_MUTANTS_REACHED",
        &file.to_string_lossy(),
    );
    let limit = most.map_or(LONGEST, Duration::from_secs_f64);
    let (outcome, takes) = run(command, limit + Duration::from_secs(1), limit * BUSY)?;
    if outcome != Outcome::Passed {
        return Ok(Err(outcome));
    }
    if most.is_some_and(|most| !takes.within(most)) {
        return Ok(Err(Outcome::TimedOut));
    }
    let reached = fs::read(file)?;
    let reaches = (0..)
        .zip(&reached)
        .filter(|(_, byte)| **byte != 0)
        .map(|(id, _)| id)
        .collect();
    Ok(Ok(Test {
        binary: number,
        name: name.to_owned(),
        takes,
        reaches,
    }))
}

/// Runs tests of a binary with a mutant, for some times as long as they take without: by the
/// processor's clock and, for what only waits, by the other one.
pub fn attempt(binary: &Binary, tests: &[&Test], mutant: Id) -> io::Result<Outcome> {
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let command = command(binary, &names, "LONGSHORE_MUTANT", &mutant.to_string());
    let sum = |of: fn(&Times) -> Duration| tests.iter().map(|test| of(&test.takes)).sum();
    let (processor, wall): (Duration, Duration) = (sum(|t| t.processor), sum(|t| t.wall));
    let processor = Duration::from_secs(1) + 4 * processor;
    Ok(run(command, processor, Duration::from_secs(20) + 8 * wall)?.0)
}

fn command(binary: &Binary, names: &[&str], variable: &str, value: &str) -> Command {
    let mut command = Command::new(&binary.program);
    command
        .args(["--exact", "--test-threads=1"])
        .args(names)
        .current_dir(&binary.directory)
        .env("CARGO_MANIFEST_DIR", &binary.directory)
        .env(variable, value)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// Runs it, for at most so long by each clock.
fn run(mut command: Command, processor: Duration, wall: Duration) -> io::Result<(Outcome, Times)> {
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    // In whole seconds, as the system has it.
    let seconds = processor.as_secs_f64().ceil() as u64;
    let limit = Rlimit {
        current: Some(seconds),
        maximum: Some(seconds + 1),
    };
    // One that has ended already needs no limit.
    let _ = prlimit(Some(group), Resource::Cpu, limit);
    let mut waited = Duration::ZERO;
    let ended = wait(group, wall, &mut waited);
    let takes = Times {
        processor: processor_time(group),
        wall: waited,
    };
    // With what it has started.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let outcome = if ended? {
        outcome(status)
    } else {
        Outcome::TimedOut
    };
    Ok((outcome, takes))
}

/// What a process that has not been waited for, and those that it has waited for, have taken of
/// the processors.
fn processor_time(of: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", of.as_raw_pid())).unwrap_or_default();
    // Its name is in parentheses, and may have some; utime, stime, cutime and cstime are the
    // 14th and the next three of all fields, so the 12th after the name.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

fn outcome(status: ExitStatus) -> Outcome {
    if status.success() {
        Outcome::Passed
    } else if status.signal() == Some(Signal::XCPU.as_raw()) {
        Outcome::TimedOut
    } else {
        Outcome::Failed
    }
}

/// The most that one look at a test counts for. Where more lies between two of them, all was
/// held up, the test as well: the machine slept, or others had it.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

fn count(waited: &mut Duration, since_last_look: Duration) {
    *waited += since_last_look.min(LONGEST_LOOK);
}

/// Whether it ends within that time, and how long it was waited for. It is left to be reaped.
fn wait(child: Pid, at_most: Duration, waited: &mut Duration) -> io::Result<bool> {
    let mut looked = Instant::now();
    let mut pause = Duration::from_micros(500);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        if waitid(WaitId::Pid(child), options)?.is_some() {
            return Ok(true);
        }
        if *waited > at_most {
            return Ok(false);
        }
        std::thread::sleep(pause);
        count(waited, looked.elapsed());
        looked = Instant::now();
        pause = (pause * 5 / 4).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(script: &str) -> (Outcome, Times) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        run(command, Duration::from_secs(2), Duration::from_secs(60)).unwrap()
    }

    fn shell(script: &str) -> Outcome {
        timed(script).0
    }

    #[test]
    fn what_comes_of_a_test_is_how_it_ends() {
        assert_eq!(shell("exit 0"), Outcome::Passed);
        assert_eq!(shell("exit 101"), Outcome::Failed);
        assert_eq!(shell("kill -ABRT $$"), Outcome::Failed);
        assert_eq!(shell("while :; do :; done"), Outcome::TimedOut);
    }

    #[test]
    fn what_a_test_takes_is_not_what_it_waits_for() {
        let (outcome, takes) = timed("sleep 1");
        assert_eq!(outcome, Outcome::Passed);
        assert!(takes.wall >= Duration::from_secs(1), "{takes:?}");
        assert!(takes.processor < Duration::from_secs(1), "{takes:?}");
        let (outcome, takes) = timed("while :; do :; done");
        assert_eq!(outcome, Outcome::TimedOut);
        assert!(takes.processor >= Duration::from_secs(1), "{takes:?}");
    }

    #[test]
    fn what_holds_up_everybody_is_not_counted() {
        let mut waited = Duration::from_secs(1);
        count(&mut waited, Duration::from_millis(10));
        assert_eq!(waited, Duration::from_millis(1010));
        count(&mut waited, Duration::from_secs(300));
        assert_eq!(waited, Duration::from_millis(1010) + LONGEST_LOOK);
    }

    #[test]
    fn a_busy_machine_makes_no_long_test_of_a_short_one() {
        let takes = |processor, wall| Times {
            processor: Duration::from_millis(processor),
            wall: Duration::from_millis(wall),
        };
        assert!(takes(900, 9_000).within(1.0));
        assert!(!takes(1_100, 1_100).within(1.0));
        // It waits for something.
        assert!(!takes(10, 11_000).within(1.0));
    }
}
