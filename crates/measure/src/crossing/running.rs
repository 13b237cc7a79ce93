//! A program under `longshore run`, and what its engine has counted.

use crate::child::{self, PAUSE, TIMEOUT};
use crate::crossing::error::{CrossingError, system};
use crate::interrupted;
use longshore_bus::{Counted, Sums};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Says where engines have their sockets.
const ENGINES: &str = "LONGSHORE_RUNTIME_DIR";
/// The engine's process, by the kernel's name for it.
const ENGINE: &str = "longshore-eng";

/// What an engine has counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The longest packet on its wire, in bytes.
    pub mtu: u64,
    /// Crossings to the host.
    pub to_host: Counted,
    /// Crossings to the adapter.
    pub to_adapter: Counted,
}

impl Counts {
    /// From what `longshore stat --json` says of an engine.
    #[must_use]
    pub fn of(stat: &Value) -> Option<Self> {
        let direction = |name: &str| {
            let counts = &stat["crossings"][name];
            let class = |name: &str| {
                let class = &counts["classes"][name];
                Some(Sums {
                    accesses: class["transfers"].as_u64()?,
                    bytes: class["bytes"].as_u64()?,
                    words: class["words"].as_u64()?,
                })
            };
            Some(Counted {
                descriptors: class("descriptor")?,
                payload: class("payload")?,
                control: class("control")?,
                wakeups: counts["wakeups"].as_u64()?,
            })
        };
        Some(Counts {
            mtu: stat["port"]["mtu"].as_u64()?,
            to_host: direction("to_host")?,
            to_adapter: direction("to_adapter")?,
        })
    }

    /// Whether as much crossed as in another time, whoever slept meanwhile.
    pub(crate) fn is_as_much_as(&self, other: &Counts) -> bool {
        let asleep = |counted: &Counted| Counted {
            wakeups: 0,
            ..*counted
        };
        asleep(&self.to_host) == asleep(&other.to_host)
            && asleep(&self.to_adapter) == asleep(&other.to_adapter)
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        let class = |now: &Sums, then: &Sums| Sums {
            accesses: now.accesses.saturating_sub(then.accesses),
            bytes: now.bytes.saturating_sub(then.bytes),
            words: now.words.saturating_sub(then.words),
        };
        let direction = |now: &Counted, then: &Counted| Counted {
            descriptors: class(&now.descriptors, &then.descriptors),
            payload: class(&now.payload, &then.payload),
            control: class(&now.control, &then.control),
            wakeups: now.wakeups.saturating_sub(then.wakeups),
        };
        Counts {
            mtu: self.mtu,
            to_host: direction(&self.to_host, &before.to_host),
            to_adapter: direction(&self.to_adapter, &before.to_adapter),
        }
    }
}

/// A directory for the files of a run, which goes with the value, and if the experiment is
/// interrupted.
///
/// # Errors
/// [`CrossingError::System`] if it cannot be made.
pub(crate) fn scratch_directory() -> Result<TempDir, CrossingError> {
    let made = tempfile::Builder::new()
        .prefix("longshore-measure-")
        .tempdir()
        .map_err(system("make a directory"))?;
    interrupted::note_directory(made.path());
    Ok(made)
}

/// The files of a run, in a directory that goes with it.
pub(crate) struct Place<'a> {
    /// The program `longshore`.
    pub(crate) longshore: &'a Path,
    /// Where the run's files go.
    pub(crate) directory: &'a Path,
    /// Whether the run's frames are recorded.
    pub(crate) captures: bool,
}

impl Place<'_> {
    pub(crate) fn capture(&self) -> PathBuf {
        self.directory.join("wire.pcapng")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn last_stats(&self) -> PathBuf {
        self.directory.join("last-stats")
    }

    fn engines(&self) -> PathBuf {
        self.directory.join("engines")
    }

    /// `longshore run` with a program.
    fn run(&self, options: &[OsString], program: &[OsString]) -> Result<Command, CrossingError> {
        std::fs::create_dir(self.last_stats()).map_err(system("make a directory"))?;
        let mut command = Command::new(self.longshore);
        command
            .env("LONGSHORE_STAT_AT_EXIT", self.last_stats())
            .arg("run")
            .args(options);
        if self.captures {
            command.arg("--capture").arg(self.capture());
        }
        command.arg("--").args(program);
        Ok(command)
    }
}

/// A program under `longshore run`; ended when dropped.
pub(crate) struct Running<'a> {
    place: &'a Place<'a>,
    program: String,
    child: Child,
    /// For how long nothing is counted once all has crossed.
    pub(crate) settles_in: Duration,
}

impl<'a> Running<'a> {
    /// Starts `program` and its arguments with these options of `longshore run`. What it says
    /// goes to a file that is shown if it fails.
    pub(crate) fn quietly(
        place: &'a Place<'a>,
        options: &[OsString],
        program: &[OsString],
    ) -> Result<Self, CrossingError> {
        let mut command = place.run(options, program)?;
        let log = File::create(place.log()).map_err(system("write a log"))?;
        let second = log.try_clone().map_err(system("write a log"))?;
        command
            .env(ENGINES, place.engines())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(second);
        Self::spawn(place, command, program)
    }

    /// As `quietly`, for a program that has this process's terminal. What it prints goes to stderr.
    pub(crate) fn in_front(
        place: &'a Place<'a>,
        options: &[OsString],
        program: &[OsString],
        adjust: &dyn Fn(&mut Command),
    ) -> Result<Self, CrossingError> {
        let mut command = place.run(options, program)?;
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(stderr.map_err(system("share stderr"))?);
        adjust(&mut command);
        Self::spawn(place, command, program)
    }

    fn spawn(
        place: &'a Place<'a>,
        mut command: Command,
        program: &[OsString],
    ) -> Result<Self, CrossingError> {
        let child = command.spawn().map_err(system("start longshore"))?;
        let name = program.first().map(|name| name.to_string_lossy());
        Ok(Running {
            place,
            program: name.unwrap_or_default().into_owned(),
            child,
            settles_in: PAUSE,
        })
    }

    /// Where its frames are recorded.
    pub(crate) fn capture(&self) -> PathBuf {
        self.place.capture()
    }

    /// What `longshore stat --json` says of its engine.
    fn stat(&self) -> Result<Value, CrossingError> {
        let engine = self.child.id().to_string();
        let said = Command::new(self.place.longshore)
            .args(["stat", "--json", "--engine"])
            .arg(self.place.engines().join(engine))
            .output()
            .map_err(system("start longshore"))?;
        let all: Result<Value, _> = serde_json::from_slice(&said.stdout);
        all.map(|all| all[0].clone()).map_err(|_| {
            let errors = String::from_utf8_lossy(&said.stderr);
            CrossingError::Stat(errors.trim().to_owned())
        })
    }

    /// What its engine has counted so far.
    pub(crate) fn counts(&self) -> Result<Counts, CrossingError> {
        Counts::of(&self.stat()?)
            .ok_or_else(|| CrossingError::Stat("no crossings are in its answer".to_owned()))
    }

    /// Some of its engine's other counters.
    pub(crate) fn counters<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[u64; N], CrossingError> {
        let stat = self.stat()?;
        let mut values = [0; N];
        for (value, name) in values.iter_mut().zip(names) {
            *value = find(&stat, name)
                .ok_or_else(|| CrossingError::Stat(format!("no {name} is in its answer")))?;
        }
        Ok(values)
    }

    /// What its engine has counted when nothing moves any more.
    pub(crate) fn counts_at_rest(&self) -> Result<Counts, CrossingError> {
        let deadline = Instant::now() + TIMEOUT;
        let mut last = self.counts()?;
        loop {
            sleep(self.settles_in);
            let now = self.counts()?;
            if now == last || Instant::now() > deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    /// What its engine had counted when it ended.
    pub(crate) fn last_counts(&self) -> Result<Counts, CrossingError> {
        let files =
            std::fs::read_dir(self.place.last_stats()).map_err(system("read a directory"))?;
        for file in files.flatten() {
            let said = std::fs::read(file.path()).map_err(system("read a file"))?;
            let said: Value = serde_json::from_slice(&said)
                .map_err(|error| CrossingError::Stat(error.to_string()))?;
            // One engine, or an array with one.
            let engine = said.get(0).unwrap_or(&said);
            if let Some(counts) = Counts::of(engine) {
                return Ok(counts);
            }
        }
        Err(CrossingError::Stat(
            "the engine left no last word".to_owned(),
        ))
    }

    /// Waits until its program serves there; fails if it ends first.
    pub(crate) fn wait_until_served(&mut self, server: SocketAddr) -> Result<(), CrossingError> {
        child::wait_until_served(&mut self.child, server).map_err(|how| self.failed(&how))
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<CrossingError> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(self.failed(&format!("it ended too soon, with {status}")))
    }

    fn failed(&self, how: &str) -> CrossingError {
        let said = std::fs::read_to_string(self.place.log()).unwrap_or_default();
        let mut why = how.to_owned();
        for line in said.lines().rev().take(5).collect::<Vec<_>>().iter().rev() {
            why.push_str("\n  ");
            why.push_str(line);
        }
        CrossingError::Program {
            program: self.program.clone(),
            why,
        }
    }

    /// Waits for its end, and calls `supervise` with its pid from time to time.
    pub(crate) fn wait(&mut self, supervise: &dyn Fn(u32)) -> Result<ExitStatus, CrossingError> {
        loop {
            let ended = self
                .child
                .try_wait()
                .map_err(system("wait for longshore"))?;
            if let Some(status) = ended {
                return Ok(status);
            }
            supervise(self.child.id());
            sleep(PAUSE);
        }
    }

    /// The program's processes and its engine's.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut all = family(self.child.id());
        all.retain(|pid| *pid != self.child.id());
        all
    }

    /// Nanoseconds of a processor that the program, with all its children and without its
    /// engine, has used so far.
    pub(crate) fn processor_ns(&self) -> u64 {
        self.used_ns(|pid| name_of(pid) != ENGINE && pid != self.child.id())
    }

    /// Nanoseconds of a processor that its engine has used so far.
    pub(crate) fn engine_ns(&self) -> u64 {
        self.used_ns(|pid| name_of(pid) == ENGINE)
    }

    fn used_ns(&self, counts: impl Fn(u32) -> bool) -> u64 {
        let family = family(self.child.id()).into_iter();
        family.filter(|pid| counts(*pid)).map(used_ns).sum()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        child::end(&mut self.child);
    }
}

/// The first number under this key, at any depth.
fn find(value: &Value, key: &str) -> Option<u64> {
    if let Value::Array(all) = value {
        return all.iter().find_map(|inner| find(inner, key));
    }
    let Value::Object(map) = value else {
        return None;
    };
    let here = map.get(key).and_then(Value::as_u64);
    here.or_else(|| map.values().find_map(|inner| find(inner, key)))
}

/// A process and all below it.
fn family(pid: u32) -> Vec<u32> {
    let below = child::children(pid).into_iter().flat_map(family);
    std::iter::once(pid).chain(below).collect()
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

fn used_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of_task = |task: std::fs::DirEntry| {
        let said = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(of_task)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_subtracted() {
        let stat = |n: u64| {
            let direction = |n: u64| {
                let class =
                    |n: u64| serde_json::json!({"transfers": n, "bytes": 64 * n, "words": 8 * n});
                let classes = serde_json::json!({
                    "descriptor": class(n - 1), "payload": class(1), "control": class(0)
                });
                serde_json::json!({"wakeups": 1, "classes": classes})
            };
            serde_json::json!({
                "port": {"mtu": 1500},
                "crossings": {"to_host": direction(n), "to_adapter": direction(2 * n)}
            })
        };
        let (before, now) = (
            Counts::of(&stat(3)).unwrap(),
            Counts::of(&stat(10)).unwrap(),
        );
        let since = now.since(&before);
        assert_eq!(
            (
                since.mtu,
                since.to_host.transfers(),
                since.to_adapter.bytes()
            ),
            (1500, 7, 896)
        );
        assert_eq!(since.to_host.wakeups, 0);
        assert_eq!(since.to_adapter.descriptors, Sums::of(&[64; 14]));
        assert_eq!(since.to_adapter.payload, Sums::default());
        assert_eq!(Counts::of(&Value::Null), None);
    }

    #[test]
    fn a_process_uses_its_processor() {
        let before = used_ns(std::process::id());
        let deadline = Instant::now() + TIMEOUT;
        // Where it shares its processor, it has less of it, and the kernel adds it up by ticks.
        while used_ns(std::process::id()) <= before && Instant::now() < deadline {
            std::hint::spin_loop();
        }
        assert!(used_ns(std::process::id()) > before);
        assert!(family(std::process::id()).contains(&std::process::id()));
    }
}
