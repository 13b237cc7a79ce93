//! The Unix socket at which programs attach: bound to its path, and removed from there with
//! whoever has it. `server` serves it.

use longshore_ring::refuse_descriptors;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Why programs cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another engine answers at this path.
    #[error("another engine is serving {path}; stop it or choose another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there, which is not to be lost.
    #[error("{path} is there already, and is no socket")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot listen at {path}: {source}")]
    Listen {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        source: Errno,
    },
    /// The threads that attach programs cannot start: they are too many, or there is no memory
    /// for their stacks.
    #[error("cannot start the threads that attach programs: {0}")]
    Threads(#[source] std::io::Error),
}

/// The socket at which programs attach. It is not served yet: a program that connects waits, and is not
/// refused, from when its path is there.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(super) place: Place,
    pub(super) fd: OwnedFd,
    /// Programs cannot even send descriptors.
    pub(super) refuses_descriptors: bool,
}

/// Programs that may wait to be let in.
const BACKLOG: i32 = 128;

/// Where a socket is; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Place(pub(super) PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.0);
    }
}

impl Listener {
    /// Listens at `path`. A socket that nobody answers at is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ListenError> {
        let fd = bound_to(path)?;
        let place = Place(path.to_owned());
        // Before anybody can connect: what is accepted is as its listener was.
        let refuses_descriptors = refuse_descriptors(&fd).is_ok();
        listen(&fd, BACKLOG).map_err(|source| ListenError::Listen {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            place,
            fd,
            refuses_descriptors,
        })
    }
}

/// A socket that is bound to `path`. One that nobody answers at is replaced.
fn bound_to(path: &Path) -> Result<OwnedFd, ListenError> {
    let fail = |source| ListenError::Listen {
        path: path.to_owned(),
        source,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(fail)?;
    let address = SocketAddrUnix::new(path).map_err(fail)?;
    match bind(&listener, &address) {
        Err(Errno::ADDRINUSE) if longshore_hostif::attach::dial(path).is_ok() => {
            return Err(ListenError::InUse {
                path: path.to_owned(),
            });
        }
        Err(Errno::ADDRINUSE) => {
            let there = rustix::fs::lstat(path).map_err(fail)?;
            if !FileType::from_raw_mode(there.st_mode).is_socket() {
                return Err(ListenError::NoSocket {
                    path: path.to_owned(),
                });
            }
            rustix::fs::unlink(path).map_err(fail)?;
            bind(&listener, &address).map_err(fail)?;
        }
        other => other.map_err(fail)?,
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_nobody_answers_at_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine");
        let open = || Listener::bind(&path);
        let first = open().unwrap();
        // A program that comes before it is served waits.
        assert!(longshore_hostif::attach::dial(&path).is_ok());
        assert!(matches!(open(), Err(ListenError::InUse { .. })));
        // As if its engine had been killed.
        let Listener { place, fd, .. } = first;
        std::mem::forget(place);
        drop(fd);
        assert!(path.exists());
        drop(open().unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        let error = open().unwrap_err();
        assert!(matches!(error, ListenError::NoSocket { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
