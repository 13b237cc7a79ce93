//! What the scheduler says of a program's process: on which processor it is, and how long it was
//! ready to run and had none.
//!
//! Owns [`Program`], by which `placement` asks. Read from /proc (proc_pid_stat(5)), each time by
//! the same two descriptors: of a process that has ended they give nothing more.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The field of the line that is the processor, counted from the one behind the name.
const PROCESSOR: usize = 36;
/// More than the line has.
const ROOM: usize = 1024;

/// A process that is looked at.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) pid: u32,
    stat: File,
    waits: File,
}

/// What was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// The processor on which its first thread runs, or ran last.
    pub(super) processor: usize,
    /// For how long that thread has waited for a processor so far, in nanoseconds.
    pub(super) waited: u64,
}

impl Program {
    /// The process of this pid.
    ///
    /// # Errors
    /// It is not there, or not to be seen from here.
    pub(super) fn new(pid: u32) -> io::Result<Self> {
        Self::shown_in(Path::new(&format!("/proc/{pid}")), pid)
    }

    /// The process of this pid, of which the files of this directory say how it is.
    pub(super) fn shown_in(directory: &Path, pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid,
            stat: File::open(directory.join("stat"))?,
            waits: File::open(directory.join("schedstat"))?,
        })
    }

    /// What is to be seen of it now, if it is still there.
    pub(super) fn look(&self) -> Option<Seen> {
        let mut room = [0; ROOM];
        let len = self.stat.read_at(&mut room, 0).ok()?;
        // The name may have any character, the rest none of these.
        let line = &room[..len];
        let name = line.iter().rposition(|byte| *byte == b')')?;
        let processor = field(&line[name + 1..], PROCESSOR)?;
        let len = self.waits.read_at(&mut room, 0).ok()?;
        Some(Seen {
            processor: usize::try_from(processor).ok()?,
            waited: field(&room[..len], 1)?,
        })
    }
}

/// The number in this place of a line.
fn field(line: &[u8], at: usize) -> Option<u64> {
    std::str::from_utf8(line)
        .ok()?
        .split_ascii_whitespace()
        .nth(at)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::process::{Child, Command};

    /// A process that wants a processor all the time, until this goes.
    struct Busy(Child);

    impl Busy {
        fn end(&mut self) {
            let _ = self.0.kill();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            self.end();
        }
    }

    #[test]
    fn a_process_is_seen_where_it_runs_until_it_ends() {
        let all = sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|cpu| all.is_set(*cpu)).unwrap();
        let mut only = CpuSet::new();
        only.set(last);
        // A name that looks like the fields behind it.
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("a) 1 (b");
        std::os::unix::fs::symlink("/bin/sh", &name).unwrap();
        // Two that take turns on one processor wait for it.
        let busy = || {
            let mut command = Command::new(&name);
            let child = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
            sched_setaffinity(Some(rustix::process::Pid::from_child(&child)), &only).unwrap();
            Busy(child)
        };
        let (mut child, _other) = (busy(), busy());
        let pid = child.0.id();
        let program = Program::new(pid).unwrap();
        let began = std::time::Instant::now();
        loop {
            let seen = program.look().unwrap();
            if seen.processor == last && seen.waited > 0 {
                break;
            }
            assert!(began.elapsed().as_secs() < 10, "{seen:?}");
        }
        child.end();
        assert_eq!(program.look(), None);
        assert!(Program::new(pid).is_err());
    }

    #[test]
    fn this_process_is_on_one_of_its_processors() {
        let program = Program::new(std::process::id()).unwrap();
        let seen = program.look().unwrap();
        assert!(sched_getaffinity(None).unwrap().is_set(seen.processor));
    }
}
