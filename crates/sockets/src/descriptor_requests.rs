//! What a process asks the engine over its Unix socket: the eventfds that it sleeps on, and
//! what raises the signals of a socket's owner. The engine makes those descriptors, since it
//! takes none.
//!
//! Processes that a `fork` has made share the connection. So one asks at a time, under a
//! lock in the arena, and each question has a mark that comes back: the answer to one that
//! has died in between is passed over. Called by `wait` and `ready_set`, and by `preload`
//! for owners.

use crate::errors::SocketError;
use crate::host::Host;
use crate::wake_eventfd::WakeEventfd;
use longshore_hostif::attach::{self, AttachError, Message};
use longshore_hostif::{Request, SocketId};
use longshore_ring::is_confined;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Times that a thread waits for an answer, a tenth of a second each: the engine answers at
/// once, if it is not stopped.
const ATTEMPTS: usize = 100;
const ATTEMPT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A mark that no other question of this session's processes has.
fn mark() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
    thread << 32 | COUNT.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX)
}

/// What a process asks of its engine over their Unix socket.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorRequests {
    host: &'static Host,
}

impl Host {
    /// The requests by which descriptors pass between this process and its engine.
    #[inline]
    pub fn descriptor_requests(&'static self) -> DescriptorRequests {
        DescriptorRequests { host: self }
    }
}

impl DescriptorRequests {
    /// Has the engine make the eventfd of a waiter. None under a filter of system calls, or
    /// if the engine has none to give.
    pub(crate) fn make_eventfd(self, waiter: u32) -> Option<WakeEventfd> {
        if is_confined() {
            return None;
        }
        let ask = mark();
        let question = Message::Eventfd { waiter, ask };
        let mut made = None;
        (self.host.hooks.with_room)(&mut || {
            let answer = self.ask(&question, |m| match m {
                Message::Eventfd { ask: theirs, .. } => *theirs == ask,
                _ => false,
            });
            let fd = answer.and_then(|(_, fds)| fds.into_iter().next());
            made = fd.map(|fd| WakeEventfd::new((self.host.hooks.keep)(fd)));
        });
        made
    }

    /// What becomes readable when a signal is due to whoever owns a socket: one Unix socket
    /// for SIGURG, and a second one, if there are to be two, for SIGIO. The caller has them
    /// raise the signals, and then calls [`owner_is_set`](Self::owner_is_set). None if there are to be
    /// none, or if the engine has none to give.
    pub fn owner_signals(self, socket: SocketId, signals: u32) -> Vec<OwnedFd> {
        let ask = mark();
        let question = Message::Owner {
            socket,
            signals,
            ask,
        };
        let mut answer = None;
        (self.host.hooks.with_room)(&mut || {
            answer = self.ask(&question, |m| match m {
                Message::Owner { ask: theirs, .. } => *theirs == ask,
                _ => false,
            });
        });
        let fds = answer.map_or_else(Vec::new, |(_, fds)| fds);
        if fds.len() == signals as usize {
            fds
        } else {
            Vec::new()
        }
    }

    /// From now on the owner of a socket gets the signals of [`DescriptorRequests::owner_signals`], or
    /// none if there were to be none.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Reentered`].
    pub fn owner_is_set(self, socket: SocketId) -> Result<(), SocketError> {
        self.host
            .messages()
            .call(|tag, waiter| Request::Owner {
                socket,
                tag,
                waiter,
            })
            .map(drop)
    }

    /// Hands a file over, of which ranges may be sent if the engine takes it.
    pub(crate) fn offer_file(self, file: BorrowedFd<'_>) {
        let ask = mark();
        let is_answer = |m: &Message| matches!(m, Message::File { ask: theirs } if *theirs == ask);
        self.ask_with(&Message::File { ask }, &[file], is_answer);
    }

    /// Asks, and waits for the answer. A signal handler that interrupts this thread while it
    /// does so gets none.
    fn ask(
        self,
        question: &Message,
        is_answer: impl Fn(&Message) -> bool,
    ) -> Option<(Message, Vec<OwnedFd>)> {
        self.ask_with(question, &[], is_answer)
    }

    /// As `ask`, with descriptors beside the question.
    fn ask_with(
        self,
        question: &Message,
        fds: &[BorrowedFd<'_>],
        is_answer: impl Fn(&Message) -> bool,
    ) -> Option<(Message, Vec<OwnedFd>)> {
        // Held over system calls, but by a thread that waits for the engine alone.
        let _alone = self
            .host
            .session
            .asking(self.host.connection.asks_by())
            .lock()
            .ok()?;
        if attach::send(self.host.connection.as_fd(), question, fds).is_err() {
            self.host.look_at_engine();
            return None;
        }
        for _ in 0..ATTEMPTS {
            match attach::receive_now(self.host.connection.as_fd()) {
                Ok((answer, fds)) if is_answer(&answer) => return Some((answer, fds)),
                Ok((Message::Refused(_), _)) => return None,
                // Of one that has died before it came.
                Ok(_) => continue,
                Err(AttachError::Broken(Errno::AGAIN)) => {}
                Err(_) => {
                    self.host.look_at_engine();
                    return None;
                }
            }
            self.host.connection.wait_readable(&ATTEMPT);
            if self.host.is_gone() {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Engine;
    use crate::testing::fixture::engine;
    use longshore_hostif::SocketKind;
    use std::time::Duration;

    /// The tests' engine answers another process's question first.
    #[test]
    fn an_owner_has_as_many_descriptors_as_signals() {
        let (_engine, host, _directory) = engine();
        let id = Engine::open(host, SocketKind::Stream).into_use();
        for signals in [0, 1, 2] {
            let given = host.descriptor_requests().owner_signals(id, signals);
            assert_eq!(given.len(), signals as usize);
        }
    }

    /// More signals than there are make no sense to the engine.
    #[test]
    fn who_gets_no_answer_has_no_descriptors() {
        let (_engine, host, _directory) = engine();
        let id = Engine::open(host, SocketKind::Stream).into_use();
        assert!(host.descriptor_requests().owner_signals(id, 3).is_empty());
    }

    #[test]
    fn an_engine_that_is_gone_answers_nothing() {
        let (mut engine, host, _directory) = engine();
        let id = Engine::open(host, SocketKind::Stream).into_use();
        // It does not say so.
        engine.kill();
        assert!(!host.is_gone());
        assert!(host.descriptor_requests().owner_signals(id, 1).is_empty());
        assert!(host.is_gone(), "it is noticed");
        let set = host.descriptor_requests().owner_is_set(id);
        assert_eq!(set, Err(SocketError::EngineGone));
        assert!(host.descriptor_requests().make_eventfd(0).is_none());
    }

    /// The tests' engine does not answer such a question.
    #[test]
    fn an_engine_that_dies_before_it_answers_is_gone() {
        let (mut engine, host, _directory) = engine();
        std::thread::scope(|scope| {
            let ask = || host.descriptor_requests().ask(&Message::Known, |_| false);
            let asks = scope.spawn(ask);
            std::thread::sleep(Duration::from_millis(20));
            engine.kill();
            assert!(asks.join().unwrap().is_none());
        });
        assert!(host.is_gone());
    }

    #[test]
    fn no_question_has_the_mark_of_another() {
        let marks = [(); 3].map(|()| mark());
        assert!(marks[0] < marks[1] && marks[1] < marks[2]);
        let other = std::thread::spawn(mark).join().unwrap();
        assert!(marks.iter().all(|mark| mark >> 32 != other >> 32));
    }
}
