//! The engine's door: the Unix socket at which launchers ask for sessions and
//! programs join them.
//!
//! It owns the connections; what it decides about them it hands to the engine
//! as [`Knock`]s, which answers through [`Door::answer`].

use crate::spare::Spare;
use longshore_hostif::attach::{AttachError, Message, Refusal, receive, send, turn_away};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, bind, listen, socket_with,
    sockopt::socket_peercred,
};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// Connections at most, so that a program cannot take all our descriptors.
const MOST_CONNECTIONS: usize = 4096;

/// Why the door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
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

/// A connection that is open.
#[derive(Debug)]
struct Visitor {
    fd: OwnedFd,
    credentials: UCred,
    /// The session that it has joined.
    session: Option<u32>,
}

/// What a visitor wants.
#[derive(Debug)]
pub(crate) enum Knock {
    /// A message came, with descriptors beside it.
    Message(Message, Vec<OwnedFd>),
    /// The connection is closed.
    Gone,
}

/// The door.
#[derive(Debug)]
pub(crate) struct Door {
    listener: OwnedFd,
    path: PathBuf,
    visitors: HashMap<RawFd, Visitor>,
    spare: Spare,
}

impl Door {
    /// Opens the door at `path`. A socket that nobody answers at is replaced.
    pub(crate) fn open(path: &Path) -> Result<Self, DoorError> {
        let fail = |source| DoorError::Listen {
            path: path.to_owned(),
            source,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(fail)?;
        let address = SocketAddrUnix::new(path).map_err(fail)?;
        match bind(&listener, &address) {
            Err(Errno::ADDRINUSE) if longshore_hostif::attach::dial(path).is_ok() => {
                return Err(DoorError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(Errno::ADDRINUSE) => {
                let there = rustix::fs::lstat(path).map_err(fail)?;
                if !FileType::from_raw_mode(there.st_mode).is_socket() {
                    return Err(DoorError::NoSocket {
                        path: path.to_owned(),
                    });
                }
                rustix::fs::unlink(path).map_err(fail)?;
                bind(&listener, &address).map_err(fail)?;
            }
            other => other.map_err(fail)?,
        }
        listen(&listener, 128).map_err(fail)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            visitors: HashMap::new(),
            spare: Spare::new(),
        })
    }

    /// The listening socket, to sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Lets the next visitor in, if one waits.
    pub(crate) fn let_in(&mut self) -> Option<RawFd> {
        let full = |fd: OwnedFd| turn_away(&fd, Refusal::NoResources);
        let fd = self.spare.accept(&self.listener, full)?;
        let credentials = socket_peercred(&fd).ok()?;
        if self.visitors.len() >= MOST_CONNECTIONS {
            full(fd);
            return None;
        }
        let raw = fd.as_raw_fd();
        self.visitors.insert(
            raw,
            Visitor {
                fd,
                credentials,
                session: None,
            },
        );
        Some(raw)
    }

    /// A visitor's connection, to sleep on.
    pub(crate) fn visitor(&self, raw: RawFd) -> Option<BorrowedFd<'_>> {
        self.visitors.get(&raw).map(|v| v.fd.as_fd())
    }

    /// Who a visitor is: its pid and uid.
    pub(crate) fn credentials(&self, raw: RawFd) -> Option<(u32, u32)> {
        let c = self.visitors.get(&raw)?.credentials;
        Some((c.pid.as_raw_nonzero().get() as u32, c.uid.as_raw()))
    }

    /// Notes which session a visitor has joined.
    pub(crate) fn belongs_to(&mut self, raw: RawFd, session: u32) {
        if let Some(visitor) = self.visitors.get_mut(&raw) {
            visitor.session = Some(session);
        }
    }

    /// The connections of a session.
    pub(crate) fn visitors_of(&self, session: u32) -> Vec<RawFd> {
        let of = self
            .visitors
            .iter()
            .filter(|(_, v)| v.session == Some(session));
        of.map(|(raw, _)| *raw).collect()
    }

    /// The session that a visitor has joined.
    pub(crate) fn session_of(&self, raw: RawFd) -> Option<u32> {
        self.visitors.get(&raw)?.session
    }

    /// What a visitor says, if it says something.
    pub(crate) fn hear(&mut self, raw: RawFd) -> Option<Knock> {
        let visitor = self.visitors.get(&raw)?;
        match receive(visitor.fd.as_fd()) {
            Ok((message, fds)) => Some(Knock::Message(message, fds)),
            Err(AttachError::Broken(Errno::AGAIN)) => None,
            Err(AttachError::Refused(why)) => {
                self.answer(raw, &Message::Refused(why), &[]);
                Some(Knock::Gone)
            }
            Err(_) => Some(Knock::Gone),
        }
    }

    /// Answers a visitor.
    pub(crate) fn answer(&self, raw: RawFd, message: &Message, fds: &[BorrowedFd<'_>]) {
        if let Some(visitor) = self.visitors.get(&raw) {
            let _ = send(visitor.fd.as_fd(), message, fds);
        }
    }

    /// Closes a visitor's connection.
    pub(crate) fn see_off(&mut self, raw: RawFd) {
        self.visitors.remove(&raw);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_nobody_answers_at_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine");
        let first = Door::open(&path).unwrap();
        assert!(matches!(Door::open(&path), Err(DoorError::InUse { .. })));
        // As if its engine had been killed.
        let kept = dir.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        drop(first);
        std::fs::rename(&kept, &path).unwrap();
        drop(Door::open(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        let error = Door::open(&path).unwrap_err();
        assert!(matches!(error, DoorError::NoSocket { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
