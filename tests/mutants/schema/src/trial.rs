//! Runs a test: with one mutant, or with none to see what it reaches.

use crate::compile::Binary;
use crate::point::Id;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit, setrlimit};
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The memory that a test may have of its own: a mutant that loops for ever may take more and
/// more.
const MEMORY: u64 = 3 << 30;

/// A test, and what is known of it.
#[derive(Debug)]
pub struct Test {
    /// Which of the binaries it is in.
    pub binary: usize,
    /// Its name there.
    pub name: String,
    /// How long it takes.
    pub takes: Duration,
    /// The mutants of which it reaches the place, ascending.
    pub reaches: Vec<Id>,
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

/// Runs a test without mutants: none if it fails. `file` is for what it reaches of `count`.
pub fn record(
    binary: &Binary,
    number: usize,
    name: &str,
    file: &Path,
    count: usize,
) -> io::Result<Option<Test>> {
    fs::write(file, vec![0; count])?;
    let begun = Instant::now();
    let command = command(
        binary,
        name,
        "LONGSHORE_MUTANTS_REACHED",
        &file.to_string_lossy(),
    );
    let outcome = run(command, Duration::from_secs(600))?;
    let takes = begun.elapsed();
    if outcome != Outcome::Passed {
        return Ok(None);
    }
    let reached = fs::read(file)?;
    let reaches = (0..)
        .zip(&reached)
        .filter(|(_, byte)| **byte != 0)
        .map(|(id, _)| id)
        .collect();
    Ok(Some(Test {
        binary: number,
        name: name.to_owned(),
        takes,
        reaches,
    }))
}

/// Runs a test with a mutant.
pub fn attempt(binary: &Binary, test: &Test, mutant: Id) -> io::Result<Outcome> {
    let command = command(binary, &test.name, "LONGSHORE_MUTANT", &mutant.to_string());
    run(command, test.takes)
}

fn command(binary: &Binary, name: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(&binary.program);
    command
        .args(["--exact", name, "--test-threads=1"])
        .current_dir(&binary.directory)
        .env("CARGO_MANIFEST_DIR", &binary.directory)
        .env(variable, value)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// Runs it for some times as long as it takes: by the processor's clock, which does not go
/// while others run, and, for what only waits, by the other one.
fn run(mut command: Command, takes: Duration) -> io::Result<Outcome> {
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let seconds = 3 + 4 * takes.as_secs();
    let processor = Rlimit {
        current: Some(seconds),
        maximum: Some(seconds + 1),
    };
    // One that has ended already needs no limit.
    let _ = prlimit(Some(group), Resource::Cpu, processor);
    let ended = wait(&mut child, Duration::from_secs(20) + takes * 8);
    // With what it has started.
    let _ = kill_process_group(group, Signal::KILL);
    let Some(status) = ended? else {
        child.wait()?;
        return Ok(Outcome::TimedOut);
    };
    Ok(outcome(status))
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

fn wait(child: &mut Child, at_most: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > at_most {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, takes: u64) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        run(command, Duration::from_secs(takes)).unwrap()
    }

    #[test]
    fn what_comes_of_a_test_is_how_it_ends() {
        assert_eq!(shell("exit 0", 0), Outcome::Passed);
        assert_eq!(shell("exit 101", 0), Outcome::Failed);
        assert_eq!(shell("kill -ABRT $$", 0), Outcome::Failed);
        assert_eq!(shell("while :; do :; done", 0), Outcome::TimedOut);
    }
}
