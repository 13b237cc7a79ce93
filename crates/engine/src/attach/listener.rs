//! The Unix socket at which programs attach: bound to its path, and removed from there with
//! whoever has it. `server` serves it.

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
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
}

/// The socket at which programs attach, bound and not yet served.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(super) place: Place,
    pub(super) fd: OwnedFd,
}

/// Where a socket is; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Place(pub(super) PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.0);
    }
}

impl Listener {
    /// Binds a socket to `path`. One that nobody answers at is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ListenError> {
        let fd = listener_at(path)?;
        let place = Place(path.to_owned());
        Ok(Self { place, fd })
    }
}

/// Listens at `path`. A socket that nobody answers at is replaced.
fn listener_at(path: &Path) -> Result<OwnedFd, ListenError> {
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
    use rustix::net::listen;

    #[test]
    fn a_socket_that_nobody_answers_at_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine");
        let open = || {
            let listener = listener_at(&path)?;
            listen(&listener, 1).unwrap();
            Ok::<_, ListenError>(listener)
        };
        let first = open().unwrap();
        assert!(matches!(open(), Err(ListenError::InUse { .. })));
        // As if its engine had been killed.
        drop(first);
        drop(open().unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let error = open().unwrap_err();
        assert!(matches!(error, ListenError::NoSocket { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
