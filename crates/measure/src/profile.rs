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

/// A profile that is being recorded.
#[derive(Debug)]
pub struct Profile {
    perf: Child,
    data: PathBuf,
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
        let perf = Command::new("perf")
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
            .stderr(Stdio::piped())
            .spawn()
            .map_err(ProfileError::NoPerf)?;
        Ok(Profile { perf, data })
    }

    /// Ends it and writes beside the record what it shows: the share of each process,
    /// and of each function in it. Gives the path of the text.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn end(self) -> Result<PathBuf, ProfileError> {
        // As a person would end it: it then writes what it has.
        let pid = rustix::process::Pid::from_child(&self.perf);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let done = self.perf.wait_with_output().map_err(ProfileError::NoPerf)?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let by_process = report(&self.data, "comm", &said)?;
        let by_function = report(&self.data, "comm,symbol", &said)?;
        let path = self.data.with_extension("txt");
        let text = format!("by process\n{by_process}\nby function\n{by_function}");
        std::fs::write(&path, text).map_err(|source| ProfileError::Write {
            path: path.clone(),
            source,
        })?;
        // Tens of megabytes, which nobody reads.
        let _ = std::fs::remove_file(&self.data);
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

    #[test]
    fn names_of_files_have_no_blanks() {
        let name = "redis GET, pipeline of 16 (free, halt), Longshore";
        assert_eq!(
            file_name(name),
            "redis-get-pipeline-of-16-free-halt-longshore"
        );
    }
}
