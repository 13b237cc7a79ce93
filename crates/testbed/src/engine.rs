//! A shared engine: `longshore engine --config`, and programs on it.

use crate::{Cmd, Finished, Host, Proc, Testbed};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// A running `longshore engine`.
#[derive(Debug)]
pub struct Engine<'l> {
    host: Host<'l>,
    socket: PathBuf,
    config: PathBuf,
    /// Until it is waited for.
    process: Option<Proc>,
}

impl Host<'_> {
    /// A shared engine with this host's address. Longshore only.
    #[must_use]
    pub fn engine(&self, more: &str) -> Engine<'_> {
        self.engine_with(more, &[])
    }

    /// As `engine`, with further options of `longshore engine`.
    #[must_use]
    pub fn engine_with(&self, more: &str, options: &[&str]) -> Engine<'_> {
        Engine::start(self.bed, self.clone(), more, options)
    }
}

impl<'l> Engine<'l> {
    /// Starts one with the host's address and these options; `more` is added to its
    /// configuration.
    fn start(bed: &Testbed, host: Host<'l>, more: &str, options: &[&str]) -> Self {
        let socket = bed.path(&format!("engine-{}.sock", host.ip()));
        // On a testbed for measurements, as `Host::cmd` has it.
        let port = match host.number {
            Some(number) if bed.cubic => format!("tap:host{number}\"\nsysctl = \"none"),
            _ => "tap:engine".to_owned(),
        };
        let config = bed.file(
            &format!("engine-{}.toml", host.ip()),
            format!(
                "port = \"{port}\"\naddress = [\"{}/24\", \"{}/64\"]\n\
                 gateway = [\"{}\", \"{}\"]\nsocket = \"{}\"\n{more}\n",
                host.ip(),
                host.ip6(),
                host.gateway(),
                host.gateway6(),
                socket.display()
            ),
        );
        let process = host
            .longshore()
            .args(["engine", "--config"])
            .arg(&config)
            .args(options)
            .spawn();
        // Its socket exists a little before the engine is ready.
        crate::eventually("the engine serves", || {
            process.stderr().contains(" serves ").then_some(())
        });
        Engine {
            host,
            socket,
            config,
            process: Some(process),
        }
    }

    /// A program on it.
    #[must_use]
    pub fn cmd(&self, program: &str) -> Cmd {
        self.cmd_with(&[], program)
    }

    /// As `cmd`, with further options of `longshore run`.
    #[must_use]
    pub fn cmd_with(&self, options: &[&str], program: &str) -> Cmd {
        self.host
            .longshore()
            .args(["run", "--engine"])
            .arg(&self.socket)
            .args(options)
            .arg("--")
            .args(self.host.programs_prefix())
            .arg(program)
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// What it has said so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process().stderr()
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process().pid()
    }

    fn process(&self) -> &Proc {
        self.process.as_ref().expect("nobody has waited for it")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Kills it at once.
    pub fn kill(self) {
        self.keep_stat();
        self.signal(Signal::KILL);
        let _ = self.wait();
    }

    /// Waits for its end.
    #[must_use]
    pub fn wait(mut self) -> Finished {
        let process = self.process.take().expect("nobody has waited for it");
        process.wait()
    }

    /// Keeps what it has carried for [`Testbed::assert_carried`]: if it is killed, it cannot
    /// say so itself.
    fn keep_stat(&self) {
        let said = self
            .host
            .longshore()
            .args(["stat", "--json", "--engine"])
            .arg(&self.socket)
            .run();
        self.host.keep_stat(self.pid(), &said.stdout);
    }

    /// What `longshore stat --json` says about it.
    ///
    /// # Panics
    /// If it says nothing.
    #[must_use]
    pub fn stat(&self) -> serde_json::Value {
        let said = self
            .host
            .longshore()
            .args(["stat", "--json", "--engine"])
            .arg(&self.socket)
            .check();
        let all: serde_json::Value =
            serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        all[0].clone()
    }

    /// A number somewhere in [`Engine::stat`], by its key.
    ///
    /// # Panics
    /// If there is none of this name.
    #[must_use]
    pub fn stat_u64(&self, key: &str) -> u64 {
        let stat = self.stat();
        find(&stat, key).unwrap_or_else(|| panic!("no {key} in {stat}"))
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        // Dropping its process kills it.
        if self.process.is_some() && !std::thread::panicking() {
            self.keep_stat();
        }
    }
}

/// The first number (or length of a list) under this key, at any depth.
fn find(value: &serde_json::Value, key: &str) -> Option<u64> {
    match value {
        serde_json::Value::Object(map) => match map.get(key) {
            Some(serde_json::Value::Array(list)) => Some(list.len() as u64),
            Some(found) if found.is_u64() => found.as_u64(),
            _ => map.values().find_map(|inner| find(inner, key)),
        },
        serde_json::Value::Array(list) => list.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}
