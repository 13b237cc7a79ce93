//! What becomes of a program whose engine is gone, by a crash or because it was ended.
//!
//! Its connections are lost, and nobody can reach it any more. So that whoever watches over
//! the service starts it anew, the program is ended, and `longshore run` with it. Used by
//! `run`, which waits for both.

use crate::log::say;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the program may take to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Whether the engine has been lost, and what was done about it.
#[derive(Debug)]
pub(crate) struct Loss {
    /// The program is left alone (`--on-engine-loss stay`).
    stays: bool,
    since: Option<Instant>,
    killed: bool,
}

impl Loss {
    pub(crate) fn new(stays: bool) -> Self {
        Self {
            stays,
            since: None,
            killed: false,
        }
    }

    /// Whether the engine was lost while the program, or what it had left behind, ran.
    pub(crate) fn has_come(&self) -> bool {
        self.since.is_some()
    }

    /// Whether this connection to an engine has lost it.
    pub(crate) fn is_told_by(session: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(session, PollFlags::RDHUP)];
        let at_once = rustix::time::Timespec::default();
        let over = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0) && fds[0].revents().intersects(over)
    }

    /// The engine is gone: `processes`, of the program `name`, are to end.
    pub(crate) fn comes(&mut self, name: &str, processes: &[Pid]) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(Instant::now());
        if self.stays {
            say(&format!("the engine is gone: {name} has lost its sockets"));
            return;
        }
        say(&format!(
            "the engine is gone: {name} has lost its sockets, and is ended"
        ));
        for pid in processes {
            let _ = kill_process(*pid, Signal::TERM);
        }
    }

    /// How long until [`Loss::remind`] has something to do.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let since = self.since.filter(|_| !self.stays && !self.killed)?;
        Some(GRACE.saturating_sub(since.elapsed()))
    }

    /// Kills `processes` if they have had their time.
    pub(crate) fn remind(&mut self, name: &str, processes: &[Pid]) {
        if self.pause() != Some(Duration::ZERO) {
            return;
        }
        self.killed = true;
        say(&format!(
            "{name} has not ended within {} s, and is killed",
            GRACE.as_secs()
        ));
        for pid in processes {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}
