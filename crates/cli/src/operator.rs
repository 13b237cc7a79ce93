//! What signals ask of an engine: to end, to read its configuration again, to write what it
//! has done to its log.
//!
//! Owns the thread that takes the signals of `longshore engine` and of a private engine.
//! The engine's own thread goes on meanwhile: it is sent orders, and asked what `longshore stat` and
//! `longshore ss` ask, through its handle.
//!
//! | signal | what it does |
//! | --- | --- |
//! | TERM, INT, QUIT | drain and end; a second one ends the engine at once |
//! | HUP | read the configuration again |
//! | USR1 | write the statistics to the log |
//! | USR2 | write the table of sockets to the log |

use crate::errors::{Error, report, system};
use crate::log::say;
use crate::reload::Reload;
use crate::signals::Signals;
use longshore_engine::Handle;
use longshore_engine::control::{ControlReply, ControlRequest};
use std::time::Duration;

/// An engine answers at once, or something is wrong with it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The signals that an engine takes.
pub(crate) const TAKEN: [i32; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// What is done when signals come.
pub(crate) struct Operator {
    pub(crate) handle: Handle,
    /// None for a private engine, which has no configuration.
    pub(crate) reload: Option<Reload>,
}

impl Operator {
    /// Starts the thread, which ends with the process.
    pub(crate) fn serve(mut self, signals: Signals) -> Result<(), Error> {
        let serve = move || {
            let mut draining = false;
            loop {
                match signals.wait().number {
                    libc::SIGHUP => self.reload(),
                    libc::SIGUSR1 => self.log_stat(),
                    libc::SIGUSR2 => self.log_ss(),
                    again if draining => std::process::exit(128 + again),
                    _ => {
                        draining = true;
                        self.drain();
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(serve)
            .map_err(system("wait for signals"))?;
        Ok(())
    }

    fn drain(&self) {
        if let Some(reload) = &self.reload {
            say(&format!(
                "engine {} takes no more programs; it ends with the last it has, or in {} s, or \
                 at a second signal",
                std::process::id(),
                reload.drain().as_secs()
            ));
        }
        self.handle.stop();
    }

    /// Writes what `longshore stat` shows to the log, line by line.
    fn log_stat(&self) {
        match self.handle.ask(ControlRequest::Stat, TIMEOUT) {
            Some(ControlReply::Stat(stat)) => crate::stat::block(&stat).lines().for_each(say),
            _ => report(&Error::EngineSilent),
        }
    }

    /// Writes what `longshore ss` shows.
    fn log_ss(&self) {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let request = ControlRequest::Ss { from: at };
            let Some(ControlReply::Ss(some)) = self.handle.ask(request, TIMEOUT) else {
                return report(&Error::EngineSilent);
            };
            rows.extend(some.rows);
            from = some.next;
        }
        crate::ss::listing(&rows).lines().for_each(say);
    }

    fn reload(&mut self) {
        match &mut self.reload {
            Some(reload) => reload.now(&self.handle),
            None => say("a private engine has no configuration to read again"),
        }
    }
}
