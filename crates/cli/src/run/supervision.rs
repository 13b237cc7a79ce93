//! How `longshore run` waits: for the program, for what that leaves behind, and for the engine,
//! with signals passed on and ended processes reaped.

use crate::errors::{ENGINE_LOST, OWN_FAILURE, SIGNAL_BASE};
use crate::loss::Loss;
use crate::signals::{Signal, Signals};
use crate::warnings::Warnings;
use rustix::process::{Pid, WaitOptions, WaitStatus, kill_process, wait};
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// After this long, a program that is in the background is spoken of.
const BACKGROUND_NOTICE: Duration = Duration::from_secs(2);

/// What is waited for.
pub(super) struct Supervision {
    /// The engine, and what leads to it, if they are ours.
    pub(super) engines: Vec<Pid>,
    pub(super) program: Option<Pid>,
    /// The session's connection, held until the program and all that it left
    /// behind have ended: these may not have joined the session yet.
    pub(super) session: Option<OwnedFd>,
    pub(super) name: String,
    /// The program's exit code, once it has ended.
    pub(super) code: Option<u8>,
    /// When the program ended.
    pub(super) since: Instant,
    pub(super) notified: bool,
    pub(super) loss: Loss,
    /// What the shim says in the program.
    pub(super) warnings: Warnings,
}

impl Supervision {
    /// Waits until all have ended; the exit code of the program.
    pub(super) fn wait_for_all(mut self, signals: &Signals) -> u8 {
        while !self.is_over() {
            self.wait(signals);
            // First of all, so that a signal does not go to a program that has
            // just ended.
            self.reap();
            self.warnings.show();
            while let Some(signal) = signals.next() {
                self.pass_on(signal);
                // It may report a death after the reaping above, and
                // there will be no other.
                self.reap();
            }
            self.look_after_engine();
            if self.program.is_none() && self.orphans().is_empty() {
                self.session = None;
            }
        }
        self.warnings.show();
        if self.loss.has_come() {
            return ENGINE_LOST;
        }
        self.code.unwrap_or(OWN_FAILURE)
    }

    /// Ends the program, and what it has left behind, if the engine is gone.
    fn look_after_engine(&mut self) {
        let is_lost = self.session.as_ref().is_some_and(Loss::is_reported_by);
        if !is_lost {
            return;
        }
        let processes: Vec<Pid> = self.program.into_iter().chain(self.orphans()).collect();
        self.loss.comes(&self.name, &processes);
        self.loss.remind(&self.name, &processes);
        if let Some(session) = self.loss.renew(&self.name) {
            self.session = Some(session);
        }
    }

    /// Whether the program has ended with an error right now: for one whose connections have
    /// ended with its engine this can be before the engine's end is known.
    fn has_just_failed(&self) -> bool {
        self.program.is_none() && self.code != Some(0) && self.since.elapsed() < BACKGROUND_NOTICE
    }

    fn is_over(&self) -> bool {
        self.program.is_none() && self.session.is_none() && self.engines.is_empty()
    }

    /// Sleeps until a signal comes, or it is time for a word.
    fn wait(&mut self, signals: &Signals) {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&self.warnings, PollFlags::IN),
        ];
        // Its end is reported once.
        if let Some(session) = self.session.as_ref().filter(|_| !self.loss.has_come()) {
            fds.push(PollFd::new(session, PollFlags::RDHUP));
        }
        let talks = self.program.is_none() && !self.notified;
        let pause = [talks.then_some(BACKGROUND_NOTICE), self.loss.pause()];
        let pause = pause.into_iter().flatten().min();
        let pause = pause.and_then(|p| rustix::time::Timespec::try_from(p).ok());
        let _ = poll(&mut fds, pause.as_ref());
        if talks && self.since.elapsed() >= BACKGROUND_NOTICE && !self.name.is_empty() {
            self.notified = true;
            if std::io::stderr().is_terminal() && !self.orphans().is_empty() {
                eprintln!(
                    "longshore: {} is in the background; waiting for the last of its processes",
                    self.name
                );
            }
        }
    }

    /// Processes that the program left behind. Without a private engine they
    /// do not become ours, and none are known.
    fn orphans(&self) -> Vec<Pid> {
        let me = rustix::process::getpid().as_raw_nonzero();
        let list = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children"));
        let pids = list.unwrap_or_default();
        let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(Pid::from_raw)
            .filter(|pid| !self.engines.contains(pid))
            .collect()
    }

    fn pass_on(&self, signal: Signal) {
        let Some(number) = rustix::process::Signal::from_named_raw(signal.number) else {
            return;
        };
        if signal.number == libc::SIGCHLD {
            return;
        }
        if let Some(program) = self.program {
            if !signal.from_terminal {
                let _ = kill_process(program, number);
            }
            return;
        }
        // The program itself is gone; what it left behind is in the background
        // and has not had the terminal's signals.
        let orphans = self.orphans();
        for pid in &orphans {
            let _ = kill_process(*pid, number);
        }
        let ending = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
        if orphans.is_empty() && ending.contains(&signal.number) && !signal.ignored {
            for engine in &self.engines {
                let _ = kill_process(*engine, rustix::process::Signal::TERM);
            }
        }
    }

    /// Takes note of all children that have ended.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    // No child is left at all.
                    self.engines.clear();
                    self.program = None;
                    self.session = None;
                    return;
                }
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if !(status.exited() || status.signaled()) {
            return;
        }
        if self.program == Some(pid) {
            self.code = Some(exit_code(status));
            self.since = Instant::now();
            self.program = None;
        } else if let Some(place) = self.engines.iter().position(|engine| *engine == pid) {
            self.engines.remove(place);
            let failed = status.exit_status() != Some(0);
            if failed || self.program.is_some() {
                eprintln!("longshore: the engine has ended{}", how(status));
            }
            if failed && self.has_just_failed() {
                self.loss.comes(&self.name, &[]);
            }
        }
    }
}

fn how(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => " before the program".to_owned(),
        (Some(code), _) => format!(" with exit code {code}"),
        (None, Some(signal)) => format!(" by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// The exit code that stands for a program's end.
fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => SIGNAL_BASE.wrapping_add(signal as u8),
        (None, None) => OWN_FAILURE,
    }
}
