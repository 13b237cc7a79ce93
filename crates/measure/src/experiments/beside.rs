//! Programs on the kernel's stack that experiments start beside Longshore: servers, and the
//! small programs ([`crate::programs`]) that say a figure.

use crate::child::{self, TIMEOUT};
use crate::experiment::{ExperimentError, system};
use crate::installed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to say its figure.
const LONGEST: Duration = TIMEOUT.saturating_mul(3);

/// One of them; ended when dropped.
#[derive(Debug)]
pub(super) struct Beside {
    name: String,
    child: Child,
}

impl Beside {
    /// Starts a server, which says nothing.
    pub(super) fn server(command: &mut Command) -> Result<Self, ExperimentError> {
        let name = command.get_program().to_string_lossy().into_owned();
        Self::spawn(name, command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Starts the small program of which `words` are the name and the arguments, on the
    /// processors of this thread.
    pub(super) fn program(longshore: &Path, words: &[&str]) -> Result<Self, ExperimentError> {
        let mut command = Command::new(longshore);
        command.arg(installed::WORD).args(words);
        Self::spawn(
            words.join(" "),
            command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        )
    }

    fn spawn(name: String, command: &mut Command) -> Result<Self, ExperimentError> {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.map_err(system(format!("start {name}")))?;
        Ok(Beside { name, child })
    }

    /// Waits until it serves there.
    pub(super) fn wait_until_served(&mut self, server: SocketAddr) -> Result<(), ExperimentError> {
        child::wait_until_served(&mut self.child, server).map_err(|how| self.failed(how))
    }

    /// Waits for its end; the first of the figures that it says.
    pub(super) fn figure(mut self) -> Result<f64, ExperimentError> {
        let said = self.said()?;
        self.child.wait().map_err(system("wait for a program"))?;
        let figures: Option<Vec<f64>> = said.split_whitespace().map(|w| w.parse().ok()).collect();
        if let Some([first, ..]) = figures.as_deref() {
            return Ok(*first);
        }
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut errors);
        }
        Err(self.failed(format!("{said}{errors}").trim().to_owned()))
    }

    /// What it says until its end.
    fn said(&mut self) -> Result<String, ExperimentError> {
        let deadline = Instant::now() + LONGEST;
        let mut said = Vec::new();
        let Some(mut stdout) = self.child.stdout.take() else {
            return Ok(String::new());
        };
        let mut piece = [0; 256];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let ready = poll(&mut [PollFd::new(&stdout, PollFlags::IN)], left.as_ref());
            if ready.map_err(system("wait for a program"))? == 0 {
                return Err(self.failed("it does not end".to_owned()));
            }
            match stdout
                .read(&mut piece)
                .map_err(system("read what it says"))?
            {
                0 => return Ok(String::from_utf8_lossy(&said).into_owned()),
                n => said.extend_from_slice(&piece[..n]),
            }
        }
    }

    fn failed(&self, why: String) -> ExperimentError {
        ExperimentError::Program {
            program: self.name.clone(),
            why,
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        child::end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<f64, ExperimentError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Beside::spawn("shell".to_owned(), &mut command)?.figure()
    }

    #[test]
    fn the_first_figure_counts_and_without_one_what_was_said() {
        assert_eq!(shell("echo 2.5 7").unwrap(), 2.5);
        for (script, why) in [
            ("echo no way >&2", "shell: no way"),
            ("echo 2.5; echo Gb/s", "shell: 2.5\nGb/s"),
            ("true", "shell: "),
        ] {
            assert_eq!(shell(script).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        // Nobody else has a port that was just let go.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        let mut server = Beside::server(&mut Command::new("false")).unwrap();
        let error = server.wait_until_served(at).unwrap_err();
        assert!(error.to_string().contains("ended too soon"), "{error}");
    }
}
