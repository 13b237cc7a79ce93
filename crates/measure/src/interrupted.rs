//! What an experiment that is interrupted would leave behind: the processes that it has started,
//! and directories with their files.
//!
//! Owns the list of those directories, which `crossing::running` adds to. The command that is
//! ended by a signal calls [`abandon`] before it ends.

use crate::child::{PAUSE, alive, children};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long processes have to end by themselves before they are killed.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Directories that an experiment has made. Those that are gone already do no harm.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory is to be removed if the experiment is interrupted.
pub(crate) fn note_directory(path: &Path) {
    let mut all = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(path.to_owned());
}

/// Ends all processes that this one has started and starts meanwhile, and removes the
/// directories of its experiment.
pub fn abandon() {
    end_children();
    let mut all = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
    for directory in all.drain(..) {
        let _ = std::fs::remove_dir_all(directory);
    }
    crate::report::progress("");
}

fn end_children() {
    let deadline = Instant::now() + STOPS_WITHIN;
    let mut told = HashSet::new();
    loop {
        let left: Vec<u32> = running_children();
        if left.is_empty() {
            return;
        }
        let is_late = Instant::now() > deadline;
        for pid in left {
            if is_late {
                send(pid, Signal::KILL);
            } else if told.insert(pid) {
                send(pid, Signal::TERM);
            }
        }
        if is_late {
            return;
        }
        sleep(PAUSE);
    }
}

/// The children of this process that have not ended; another thread may wait for them.
fn running_children() -> Vec<u32> {
    let mut all = children(std::process::id());
    all.retain(|pid| alive(*pid));
    all
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}
