//! Where the time of a run goes: `perf` over the whole machine while it lasts.
//!
//! `longshore-bench --profile` asks for it, once for each stack and measurement, beside
//! the figures and not while they are taken. Time samples, for this works where there
//! are no hardware counters.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What stands in the way of a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// `perf` cannot be started.
    #[error("cannot run perf, which makes the profiles (Debian: apt install linux-perf): {0}")]
    NoPerf(#[source] io::Error),
    /// `perf` was started and failed.
    #[error("perf {step}: {said}")]
    Failed {
        /// Which of its commands.
        step: &'static str,
        /// What it wrote.
        said: String,
    },
    /// The text cannot be written.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A profile that is being recorded. Dropped, as by a panic of what is measured, it ends, and
/// leaves no record.
#[derive(Debug)]
pub struct Profile {
    perf: Recorder,
    data: PathBuf,
}

/// A program that records until it is interrupted; it does not outlive this.
#[derive(Debug)]
struct Recorder(Option<Child>);

impl Recorder {
    fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(|child| Self(Some(child)))
    }

    /// Interrupts it, as a person would: it then writes what it has. Says what it has written
    /// to its standard error.
    fn stop(&mut self) -> io::Result<String> {
        let Some(child) = self.0.take() else {
            return Ok(String::new());
        };
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let done = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = self.perf.stop();
        // Tens of megabytes, which nobody reads.
        let _ = std::fs::remove_file(&self.data);
    }
}

/// Samples a second on each processor: no multiple of the usual timers.
const FREQUENCY: &str = "1999";
/// What is not worth a line, in percent of all samples.
const LEAST: &str = "0.5";

impl Profile {
    /// Begins to record into `directory`, which is made if need be.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn begin(directory: &Path, name: &str) -> Result<Self, ProfileError> {
        let data = directory.join(format!("{}.perf", file_name(name)));
        std::fs::create_dir_all(directory).map_err(|source| ProfileError::Write {
            path: directory.to_owned(),
            source,
        })?;
        let mut command = Command::new("perf");
        command
            .args([
                "record",
                "--quiet",
                "--all-cpus",
                "--freq",
                FREQUENCY,
                "--output",
            ])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let perf = Recorder::start(&mut command).map_err(ProfileError::NoPerf)?;
        Ok(Profile { perf, data })
    }

    /// Ends it and writes beside the record what it shows: the share of each process,
    /// and of each function in it. Gives the path of the text.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn end(mut self) -> Result<PathBuf, ProfileError> {
        let said = self.perf.stop().map_err(ProfileError::NoPerf)?;
        let by_process = report(&self.data, "comm", &said)?;
        let by_function = report(&self.data, "comm,symbol", &said)?;
        let path = self.data.with_extension("txt");
        let text = format!("by process\n{by_process}\nby function\n{by_function}");
        std::fs::write(&path, text).map_err(|source| ProfileError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

/// `perf report` sorted by these `keys`, without its comments.
fn report(data: &Path, keys: &str, recorded: &str) -> Result<String, ProfileError> {
    let done = Command::new("perf")
        .args([
            "report",
            "--stdio",
            "--no-children",
            "--percent-limit",
            LEAST,
            "--sort",
        ])
        .arg(keys)
        .arg("--input")
        .arg(data)
        .output()
        .map_err(ProfileError::NoPerf)?;
    if !done.status.success() {
        let said = format!("{recorded}{}", String::from_utf8_lossy(&done.stderr));
        return Err(ProfileError::Failed {
            step: "report",
            said,
        });
    }
    let lines = String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .fold(String::new(), |text, line| text + line.trim_end() + "\n");
    Ok(lines)
}

/// A measurement's name as that of a file.
fn file_name(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let dashed: String = name.chars().map(word).collect();
    let words: Vec<&str> = dashed.split('-').filter(|w| !w.is_empty()).collect();
    words.join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, test_kill_process};

    /// A measurement that panics leaves neither perf, which would record until the disk is
    /// full, nor its record.
    #[test]
    fn a_profile_ends_with_the_measurement_that_panics() {
        let directory = std::env::temp_dir().join(format!("profile-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let data = directory.join("panics.perf");
        std::fs::write(&data, b"samples").unwrap();
        let mut command = Command::new("sleep");
        command.arg("300").stderr(Stdio::piped());
        let perf = Recorder::start(&mut command).unwrap();
        let pid = Pid::from_child(perf.0.as_ref().unwrap());
        let profile = Profile { perf, data };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _profile = profile;
            std::panic::resume_unwind(Box::new("the measurement"));
        }));
        assert!(outcome.is_err());
        assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn names_of_files_have_no_blanks() {
        let name = "redis GET, pipeline of 16 (free, halt), Longshore";
        assert_eq!(
            file_name(name),
            "redis-get-pipeline-of-16-free-halt-longshore"
        );
    }
}
