//! The Unix socket between a process and its engine, and what names both ends of it.
//!
//! Owns [`EngineConnection`]. `descriptor_requests` puts questions by it, `fork` claims channels, and
//! [`Host`](super::Host) looks at it to know whether the engine lives.

use longshore_hostif::attach::{self, AttachError, Token};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// A process's connection to its engine, which the processes that a `fork` makes share.
#[derive(Debug)]
pub(crate) struct EngineConnection {
    socket: OwnedFd,
    asks_by: u32,
    path: PathBuf,
    token: Token,
}

impl EngineConnection {
    /// `socket` was made by the process that joined by channel `asks_by`, to the engine that
    /// listens at `path`, for the session `token`.
    pub(crate) fn new(socket: OwnedFd, asks_by: u32, path: PathBuf, token: Token) -> Self {
        Self {
            socket,
            asks_by,
            path,
            token,
        }
    }

    /// The channel under whose lock the processes that share the connection ask.
    pub(crate) fn asks_by(&self) -> u32 {
        self.asks_by
    }

    /// Claims `channel` by a connection of the caller's own, so that the engine sees which
    /// process that is.
    ///
    /// # Errors
    /// [`AttachError`].
    pub(crate) fn claim(&self, channel: u32) -> Result<(), AttachError> {
        attach::claim(&self.path, self.token, channel)
    }

    /// The user of the engine.
    ///
    /// # Errors
    /// [`AttachError::Broken`].
    pub(crate) fn engine_user(&self) -> Result<u32, AttachError> {
        attach::engine_user(self.socket.as_fd())
    }

    /// Whether the engine's end is closed. Does not wait.
    pub(crate) fn has_hung_up(&self) -> bool {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut fds, Some(&AT_ONCE)).is_ok_and(|n| n != 0)
            && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Waits until there is something to receive, or the engine's end is closed, for `time`
    /// at most.
    pub(crate) fn wait_readable(&self, time: &Timespec) {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let _ = poll(&mut fds, Some(time));
    }
}

impl AsFd for EngineConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_engine_that_answers_has_not_hung_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let connection = EngineConnection::new(ours.into(), 7, PathBuf::new(), Token([1; 16]));
        assert_eq!(connection.asks_by(), 7);
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(connection.engine_user().unwrap(), own);
        assert!(!connection.has_hung_up());
        theirs.write_all(b"an answer").unwrap();
        assert!(!connection.has_hung_up());
        drop(theirs);
        assert!(connection.has_hung_up());
    }
}
