//! Samples of processes, by perf: how many fell into each function.

use super::symbols::Owner;
use crate::crossing::running::scratch_directory;
use crate::experiment::{ExperimentError, system};
use crate::installed;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nanoseconds of processor time from one sample to the next: no part of the usual timers'.
/// With a frequency perf would begin with far longer ones.
pub(super) const PERIOD_NS: u64 = 199_500;
/// How long perf may take to begin.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A function, and how many samples fell into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) count: u64,
    pub(super) owner: Owner,
    pub(super) function: String,
}

/// Samples that are being taken.
pub(super) struct Recording {
    perf: PathBuf,
    child: Child,
    directory: TempDir,
}

fn failed(what: &str, said: &[u8]) -> ExperimentError {
    let said = String::from_utf8_lossy(said);
    ExperimentError::Program {
        program: format!("perf {what}"),
        why: format!(
            "it cannot sample here (the sysctl kernel.perf_event_paranoid may forbid it): {}",
            said.trim()
        ),
    }
}

/// Makes a pipe with a name, through which perf takes orders or answers them.
fn pipe(path: &Path) -> Result<File, ExperimentError> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(system("make a pipe for perf"))?;
    // Open both ways, it does not wait for its other end.
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    open.map_err(system("open a pipe to perf"))
}

impl Recording {
    /// Begins to sample these processes, with all their threads.
    pub(super) fn begin(processes: &[u32]) -> Result<Self, ExperimentError> {
        let perf = installed::find("perf")?;
        let directory = scratch_directory()?;
        let at = |name: &str| directory.path().join(name);
        let (mut orders, mut answers) = (pipe(&at("orders"))?, pipe(&at("answers"))?);
        let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
        let control = format!(
            "fifo:{},{}",
            at("orders").display(),
            at("answers").display()
        );
        let mut child = Command::new(&perf)
            .args(["record", "--quiet", "--event", "cpu-clock"])
            .args(["--count", &PERIOD_NS.to_string()])
            .args(["--delay", "-1", "--control", &control])
            .args(["--pid", &pids.join(","), "--output"])
            .arg(at("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(system("start perf"))?;
        orders
            .write_all(b"enable\n")
            .map_err(system("give perf an order"))?;
        // It needs a moment to look at the processes.
        let deadline = Instant::now() + TIMEOUT;
        while answers.read(&mut [0; 16]).is_err() {
            if let Ok(Some(_)) = child.try_wait() {
                let said = child.wait_with_output().map_err(system("wait for perf"))?;
                return Err(failed("record", &said.stderr));
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("record", b"it does not begin"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Recording {
            perf,
            child,
            directory,
        })
    }

    /// Ends it; what was sampled, the most frequent first.
    pub(super) fn end(self) -> Result<Vec<Sampled>, ExperimentError> {
        // As a person would end it: it then writes what it has.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let said = self
            .child
            .wait_with_output()
            .map_err(system("wait for perf"))?;
        let report = Command::new(&self.perf)
            .args(["report", "--stdio", "--no-children", "--call-graph", "none"])
            .args([
                "--fields",
                "sample,sym",
                "--field-separator",
                "|",
                "--input",
            ])
            .arg(self.directory.path().join("data"))
            .stdin(Stdio::null())
            .output()
            .map_err(system("start perf"))?;
        if !report.status.success() {
            return Err(failed("record", &[said.stderr, report.stderr].concat()));
        }
        let all = sampled(&String::from_utf8_lossy(&report.stdout));
        if all.is_empty() {
            return Err(failed("report", &[said.stderr, report.stderr].concat()));
        }
        Ok(all)
    }
}

/// What a report says: lines of a count and a function, with a letter for where it belongs.
fn sampled(report: &str) -> Vec<Sampled> {
    let line = |line: &str| {
        let (count, function) = line.split_once('|')?;
        let function = function.trim();
        let (owner, function) = match function.strip_prefix("[k] ") {
            Some(function) => (Owner::Kernel, function),
            None => (Owner::Program, function.strip_prefix("[.] ")?),
        };
        Some(Sampled {
            count: count.trim().parse().ok()?,
            owner,
            function: function.trim().to_owned(),
        })
    };
    report.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let report = "# Samples: 633  of event 'cpu-clock'\n#\n#      Samples|Symbol\n\n \
                      49         |[k] clear_page_erms    \n \
                      21         |[.] <longshore_tcp::tcb::Tcb>::on_segment\n";
        let all = sampled(report);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].count, all[0].owner), (49, Owner::Kernel));
        assert_eq!(all[0].function, "clear_page_erms");
        assert_eq!(all[1].function, "<longshore_tcp::tcb::Tcb>::on_segment");
    }
}
