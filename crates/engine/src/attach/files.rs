//! Files that programs hand over are checked, mapped and, where they are refused, closed in a
//! thread of their own: a strange file system may hold it up for as long as it likes, and then
//! no more files are taken.

use super::queue::Queue;
use super::{Connection, Event};
use longshore_hostif::adapter::OfferedFile;
use longshore_hostif::attach::{Message, Refusal};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Files that wait to be checked; others are refused.
const MOST_WAITING: usize = 16;

/// A file that a program has handed over: what came beside its message, its mark, and whom to
/// answer.
type Offer = (Vec<OwnedFd>, u64, Arc<Connection>);

/// The way to the thread.
pub(super) struct OfferedFiles(SyncSender<Offer>);

impl OfferedFiles {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start(queue: Queue) -> std::io::Result<Self> {
        let (send, offers) = sync_channel::<Offer>(MOST_WAITING);
        std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || {
                for (fds, ask, connection) in offers {
                    let one: Result<[OwnedFd; 1], _> = fds.try_into();
                    let file = one.ok().and_then(|[fd]| OfferedFile::check(fd).ok());
                    match file {
                        Some(file) => {
                            let event = Event::File(Box::new(file), ask, connection);
                            if queue.put(event).is_err() {
                                return;
                            }
                        }
                        None => refuse(&connection),
                    }
                }
            })?;
        Ok(Self(send))
    }

    /// Has a file checked, if not too many wait for that. What is not, is given back.
    pub(super) fn offer(&self, offer: Offer) -> Vec<OwnedFd> {
        match self.0.try_send(offer) {
            Ok(()) => Vec::new(),
            Err(TrySendError::Full(offer) | TrySendError::Disconnected(offer)) => {
                refuse(&offer.2);
                offer.0
            }
        }
    }
}

fn refuse(connection: &Connection) {
    connection.answer(&Message::Refused(Refusal::NoResources), &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::queue::queue;
    use crate::attach::{Disposal, testing};
    use crate::users::{Limits, Users};
    use longshore_hostif::attach::receive;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;

    /// A connection, and the program's end of it.
    fn connection() -> (Arc<Connection>, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (engines, programs) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        let user = Users::new(Limits::of_one(64, 64)).get(0);
        let disposal = Disposal::start().unwrap();
        let connection = testing::connection(engines, user, &disposal);
        (connection, programs)
    }

    /// How often the program is refused before its connection is closed.
    fn refusals(program: &OwnedFd) -> usize {
        let refused = Message::Refused(Refusal::NoResources);
        let answers = std::iter::from_fn(|| receive(program.as_fd()).ok());
        answers.filter(|(answer, _)| *answer == refused).count()
    }

    fn file() -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        file.into()
    }

    #[test]
    fn what_is_not_one_file_is_refused() {
        let (queue, inbox) = queue().unwrap();
        let files = OfferedFiles::start(queue).unwrap();
        let (connection, program) = connection();
        let empty = tempfile::tempfile().unwrap().into();
        for fds in [vec![], vec![file(), file()], vec![empty]] {
            assert!(files.offer((fds, 1, connection.clone())).is_empty());
        }
        drop((files, connection));
        assert_eq!(refusals(&program), 3);
        assert!(inbox.take().is_empty());
    }

    /// The thread that checks them may be held up for as long as a file system likes.
    #[test]
    fn a_file_that_cannot_wait_to_be_checked_is_refused_and_given_back() {
        let (send, waiting) = sync_channel(1);
        let files = OfferedFiles(send);
        let (connection, program) = connection();
        let given_back = |ask| files.offer((vec![file()], ask, connection.clone())).len();
        assert_eq!([1, 2].map(given_back), [0, 1]);
        assert_eq!(waiting.recv().map(|(_, ask, _)| ask), Ok(1));
        drop(waiting);
        assert_eq!(given_back(3), 1);
        drop(connection);
        assert_eq!(refusals(&program), 2);
    }
}
