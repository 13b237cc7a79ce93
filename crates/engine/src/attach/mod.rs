//! Attaching programs: the Unix socket at which launchers ask for sessions and programs
//! join them.
//!
//! `server` has the listener and the connections, in a thread of its own, so that nothing
//! that a program does to its connection holds up packets; `usage` counts what each user
//! has. What is to be decided about sessions goes to the engine's loop as an [`Event`], over
//! a queue of bounded length, and the loop answers on the [`Connection`] itself, which never
//! blocks. The engine takes no descriptors from programs but files, from those users who can
//! harm it anyway, and a thread of its own sees to these (`files`): closing one may last as
//! long as its owner likes.

mod disposal;
mod events;
mod files;
mod server;
mod usage;

use disposal::{Disposal, Dispose};
pub use server::ListenError;
pub(crate) use server::{Listener, Policy, Server, Terms};
pub use usage::UserLimits;
pub(crate) use usage::{Share, User};

use crate::session::Session;
use longshore_hostif::adapter::OfferedFile;
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::{Message, SessionOptions, Token, send};
use longshore_hostif::{SocketId, Versions};
use longshore_ring::Doorbell;
use longshore_stack::Session as Half;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Events that the loop takes between two turns.
const AT_ONCE: usize = 16;

/// A session, by its place in the engine's table and its number, which no other ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) key: u32,
    pub(crate) serial: u64,
}

/// A program's connection. Whoever drops it last has it closed elsewhere.
#[derive(Debug)]
pub(crate) struct Connection {
    fd: Dispose<OwnedFd>,
    /// Its number among all that there ever were.
    pub(crate) number: u64,
    /// The user that made it.
    pub(crate) user: Arc<User>,
    /// Counts it among the connections of the user.
    _share: Share,
    membership: std::sync::OnceLock<Membership>,
    /// It has a session, or has asked for one: it may be silent.
    settled: AtomicBool,
}

impl Connection {
    /// Answers. What the program has no room for is lost.
    pub(crate) fn answer(&self, message: &Message, fds: &[BorrowedFd<'_>]) {
        let _ = send(self.fd.as_fd(), message, fds);
    }

    /// The session that it has joined.
    pub(crate) fn membership(&self) -> Option<Membership> {
        self.membership.get().copied()
    }

    /// It has joined a session, and stays in it.
    pub(crate) fn join(&self, session: Membership) {
        let _ = self.membership.set(session);
        self.settle();
    }

    /// From now on it may be silent.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
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

/// The loop's end of the queue of events.
#[derive(Debug)]
pub(crate) struct Inbox {
    events: Receiver<Event>,
    /// Rung when there are some.
    bell: Arc<Doorbell>,
}

impl Inbox {
    /// Readable when there may be events.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_ref().as_fd()
    }

    /// Takes some of the events that there are; the others are taken the next time.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.bell.clear();
        let events: Vec<Event> = self.events.try_iter().take(AT_ONCE).collect();
        if events.len() == AT_ONCE {
            self.bell.ring();
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// However many programs ask at once, the loop takes some of them between two turns, and
    /// is told that there are more.
    #[test]
    fn the_loop_takes_some_events_at_a_time() {
        let (queue, events) = std::sync::mpsc::channel();
        let bell = Arc::new(Doorbell::new().unwrap());
        let inbox = Inbox {
            events,
            bell: bell.clone(),
        };
        for number in 0..20 {
            queue.send(Event::Gone(number)).unwrap();
        }
        bell.ring();
        let rings = || {
            let mut fds = [PollFd::from_borrowed_fd(inbox.fd(), PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
        };
        assert!(rings());
        assert_eq!(inbox.take().len(), 16);
        assert!(rings());
        assert_eq!(inbox.take().len(), 4);
        assert!(!rings());
    }
}
