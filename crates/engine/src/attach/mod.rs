//! Attaching programs: the Unix socket at which launchers ask for sessions and programs
//! join them.
//!
//! `listener` is the socket; `server` has it and the connections, in a thread of its own, so that
//! nothing that a program does to its connection holds up packets; `policy` says who may attach;
//! `users` counts what each user
//! has. What is to be decided about sessions goes to the engine's loop as an [`Event`], over a
//! queue of bounded length, and the loop answers on the [`Connection`] itself, which never blocks.
//! The engine takes no descriptors from programs but files, from those users who can harm it
//! anyway, and a thread of its own sees to these (`files`): closing one may last as long as its
//! owner likes.

mod disposal;
mod files;
mod listener;
mod policy;
mod queue;
mod server;
#[cfg(test)]
mod testing;

pub(crate) use disposal::Disposal;
use disposal::Dispose;
pub use listener::ListenError;
pub(crate) use listener::Listener;
pub(crate) use policy::{Policy, Terms};
pub(crate) use queue::Inbox;
pub(crate) use server::Server;

use crate::session::Session;
use crate::users::{Share, User};
use longshore_hostif::adapter::OfferedFile;
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::{Message, SessionOptions, Token, send_as};
use longshore_hostif::{SocketId, Versions};
use longshore_stack::Session as Half;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A session, by its place in the engine's table and its number, which no other ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) key: u32,
    pub(crate) serial: u64,
}

/// A program's connection. Its last owner has it closed elsewhere when it drops it.
#[derive(Debug)]
pub(crate) struct Connection {
    fd: Dispose<OwnedFd>,
    /// Its number among all that there ever were.
    pub(crate) number: u64,
    /// The user that made it.
    pub(crate) user: Arc<User>,
    /// What the engine speaks over it.
    speaks: Versions,
    /// Counts it among the connections of the user.
    _share: Share,
    membership: std::sync::OnceLock<Membership>,
    /// It has a session, or has asked for one, and need not say more.
    may_be_silent: AtomicBool,
}

impl Connection {
    /// Answers. What the program has no room for is lost.
    pub(crate) fn answer(&self, message: &Message, fds: &[BorrowedFd<'_>]) {
        let _ = send_as(&self.speaks, self.fd.as_fd(), message, fds);
    }

    /// The session that it has joined.
    pub(crate) fn membership(&self) -> Option<Membership> {
        self.membership.get().copied()
    }

    /// It has joined a session, and stays in it.
    pub(crate) fn join(&self, session: Membership) {
        let _ = self.membership.set(session);
        self.allow_silence();
    }

    /// From now on it may be silent.
    pub(crate) fn allow_silence(&self) {
        self.may_be_silent.store(true, Ordering::Release);
    }

    /// Whether it may be.
    pub(crate) fn may_be_silent(&self) -> bool {
        self.may_be_silent.load(Ordering::Acquire)
    }
}

/// What a program wants of a session.
#[derive(Debug)]
pub(crate) enum Event {
    /// A launcher has asked for this session, whose sockets are to be the stack's.
    New(Box<(Session, Half)>, SessionOptions, Arc<Connection>),
    /// A process joins the session of this token.
    Join(Token, Versions, Peer, Arc<Connection>),
    /// It claims a channel of the session of this token.
    Child(Token, u32, Peer, Arc<Connection>),
    /// It wants an eventfd for a waiter; the mark comes back.
    Eventfd(u32, u64, Arc<Connection>),
    /// It wants so many signals for the owner of a socket; the mark comes back.
    Owner(SocketId, u32, u64, Arc<Connection>),
    /// It has handed over a file; the mark comes back.
    File(Box<OfferedFile>, u64, Arc<Connection>),
    /// The connection of this number, which had asked for a session, is closed.
    Gone(u64),
    /// The session of this number is to end: its user's take more memory than they may.
    Overdrawn(u64),
}
