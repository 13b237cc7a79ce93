//! The sockets at which an engine is found, bound before the engine is made.
//!
//! The user that runs an engine may need privileges to bind them that the engine is not to have,
//! and which are given up before the engine starts threads. Owned by the caller until
//! [`Engine::at`](crate::Engine::at) takes them; whoever connects before that waits for the
//! engine's first turn.

use crate::EngineError;
use crate::attach::Listener;
use crate::control::ControlServer;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open, umask};
use std::path::Path;

/// What a socket's file is not to have, where all may connect.
const ALL_BUT_EXECUTION: Mode = Mode::from_raw_mode(0o111);

/// Whether the kernel tells of processes that end, without which an engine that other processes
/// find cannot serve them: it would never let go of what they held.
///
/// # Errors
/// [`EngineError::Deaths`]: it names no process by a descriptor (before Linux 5.3, or by a filter
/// of system calls).
pub fn check_kernel() -> Result<(), EngineError> {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Err(error @ (Errno::NOSYS | Errno::PERM | Errno::ACCESS)) => {
            Err(EngineError::Deaths(error))
        }
        // What else may be the matter concerns other calls, too.
        _ => Ok(()),
    }
}

/// Sockets that are bound.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) attach: Listener,
    pub(crate) control: Option<ControlServer>,
}

impl Listeners {
    /// Binds the socket at which programs attach, and the control socket if there is to be
    /// one, in place of sockets at which nobody answers.
    ///
    /// # Errors
    /// [`EngineError::Attach`] and [`EngineError::Control`]: somebody answers there, or the
    /// kernel refuses.
    pub fn bind(attach: &Path, control: Option<&Path>) -> Result<Self, EngineError> {
        Ok(Self {
            attach: Listener::bind(attach)?,
            control: control.map(ControlServer::open).transpose()?,
        })
    }

    /// As [`bind`](Self::bind), with the first socket open to all users. It has that mode from
    /// the moment that its path is there: a program that waits for the path and connects then is
    /// not refused. No other thread may make files meanwhile, since the process's mask of modes
    /// is another.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_for_all(attach: &Path, control: Option<&Path>) -> Result<Self, EngineError> {
        let before = umask(ALL_BUT_EXECUTION);
        let attach = Listener::bind(attach);
        umask(before);
        Ok(Self {
            attach: attach?,
            control: control.map(ControlServer::open).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_for_all_has_its_mode_from_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (open, own) = (dir.path().join("open"), dir.path().join("own"));
        let _open = Listeners::bind_for_all(&open, None).unwrap();
        let _own = Listeners::bind(&own, None).unwrap();
        assert_eq!(mode(&open), 0o666);
        assert_ne!(mode(&own), 0o666);
    }
}
