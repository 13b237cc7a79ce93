//! The files that programs hand to the tests' engine, of which ranges may stand in send streams.

use super::Session;
use longshore_hostif::Arena;
use longshore_hostif::adapter::{AdapterSession, OfferedFile, SendStreams};
use longshore_hostif::attach::{Message, Refusal, send_as};
use longshore_ring::EventfdSignaler;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Longer than a file stays that is not used, in microseconds.
const LONG: u64 = 60_000_000;

/// The send streams of a session, as the adapter reads them.
pub(super) fn send_streams(arena: &Arc<Arena>) -> SendStreams {
    let signaler = Arc::new(EventfdSignaler::for_one());
    AdapterSession::new(arena.clone(), signaler).send
}

impl Session {
    /// Takes a file that a program has handed over, unless it is to be refused.
    pub(super) fn take_file(&mut self, client: usize, ask: u64, fds: Vec<OwnedFd>) {
        self.seen.lock().expect("not poisoned").offered += 1;
        let refuses = self.behavior.refuses_files.load(Ordering::Relaxed);
        let one: Option<[OwnedFd; 1]> = fds.try_into().ok().filter(|_| !refuses);
        let file = one.and_then(|[fd]| OfferedFile::check(fd).ok());
        let is_taken = file.is_some_and(|file| self.send.lend_file(file, 0).is_ok());
        let answer = if is_taken {
            Message::File { ask }
        } else {
            Message::Refused(Refusal::NoResources)
        };
        let client = self.clients[client].as_fd();
        let _ = send_as(&self.versions, client, &answer, &[]);
    }

    /// Lets go of those files that are not used, if it is to.
    pub(super) fn look_at_files(&mut self) {
        if self.behavior.lets_files_go.load(Ordering::Relaxed) {
            // The first look finds that they were used, and the second that they were not since.
            for now in [0, LONG] {
                drop(self.send.look_at_files(now));
            }
        }
    }
}
