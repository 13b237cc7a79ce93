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
