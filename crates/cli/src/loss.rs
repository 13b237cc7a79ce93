//! What becomes of a program whose engine is gone, by a crash or because it was ended.
//!
//! Its connections are lost, and nobody can reach it any more. So that whoever watches over
//! the service starts it anew, the program is ended, and `longshore run` with it. Or it stays, and
//! its session is opened anew at the engine that comes next, where it attaches for its next sockets.
//! Used by `run`, which waits for both.

use crate::log::say;
use longshore_hostif::attach::{self, AttachError, SessionOptions, Token};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the program may take to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is looked whether there is another engine.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What is done about it (`--on-engine-loss`).
#[derive(Debug)]
pub(crate) enum Then {
    /// The program is ended.
    End,
    /// It is left alone.
    Stay,
    /// Its session is opened anew.
    Attach(Renewal),
}

/// How a session is opened anew.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// Where the next engine listens.
    pub(crate) engine: PathBuf,
    /// The session's token, which its programs have.
    pub(crate) token: Token,
    pub(crate) options: SessionOptions,
    /// The user of the engine at which the session was opened first.
    pub(crate) engine_user: u32,
}

/// Whether the engine has been lost, and what was done about it.
#[derive(Debug)]
pub(crate) struct Loss {
    then: Then,
    since: Option<Instant>,
    killed: bool,
    /// Why the session was not opened anew, as it was last reported.
    last_reason: Option<String>,
}

impl Loss {
    pub(crate) fn new(then: Then) -> Self {
        Self {
            then,
            since: None,
            killed: false,
            last_reason: None,
        }
    }

    /// Whether the engine was lost while the program, or what it had left behind, ran.
    pub(crate) fn has_come(&self) -> bool {
        self.since.is_some()
    }

    /// Whether this connection to an engine has lost it.
    pub(crate) fn is_reported_by(session: &OwnedFd) -> bool {
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
        if !matches!(self.then, Then::End) {
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

    /// How long until [`Loss::remind`] or [`Loss::renew`] has something to do.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self.then {
            Then::End => self.grace(),
            Then::Stay => None,
            Then::Attach(_) => self.since.map(|_| LOOK_EVERY),
        }
    }

    /// How long the program may still take to end.
    fn grace(&self) -> Option<Duration> {
        let ends = matches!(self.then, Then::End) && !self.killed;
        let since = self.since.filter(|_| ends)?;
        Some(GRACE.saturating_sub(since.elapsed()))
    }

    /// Opens the session anew, if it is to be and there is another engine: its connection.
    pub(crate) fn renew(&mut self, name: &str) -> Option<OwnedFd> {
        let Then::Attach(renewal) = &self.then else {
            return None;
        };
        self.since?;
        let Renewal {
            engine,
            token,
            options,
            engine_user,
        } = renewal;
        match attach::renew(engine, *token, *options, *engine_user) {
            Ok(session) => {
                (self.since, self.last_reason) = (None, None);
                say(&format!(
                    "another engine is there: {name} has new sockets there once it has closed the others"
                ));
                Some(session)
            }
            Err(why @ (AttachError::Refused(_) | AttachError::OtherUser { .. })) => {
                let why = why.to_string();
                if self.last_reason.as_ref() != Some(&why) {
                    say(&format!(
                        "another engine is there, and {name} has no session: {why}"
                    ));
                    self.last_reason = Some(why);
                }
                None
            }
            // There is none yet, or it is going.
            Err(_) => None,
        }
    }

    /// Kills `processes` if they have had their time.
    pub(crate) fn remind(&mut self, name: &str, processes: &[Pid]) {
        if self.grace() != Some(Duration::ZERO) {
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
