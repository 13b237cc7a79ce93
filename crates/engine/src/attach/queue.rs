//! The queue of events from the threads that attach programs to the loop: of bounded length,
//! with a doorbell that wakes the loop.
//!
//! [`queue`] makes it. `server` and `files` put events in at one end, [`Queue`], and wait while
//! there are many; the loop takes a few between two turns at the other, [`Inbox`].

use super::Event;
use longshore_ring::Doorbell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Events that wait for the loop; the threads wait when there are more.
const MOST_WAITING: usize = 256;
/// Events that the loop takes between two turns.
const AT_ONCE: usize = 16;

/// Both ends of an empty queue.
pub(super) fn queue() -> std::io::Result<(Queue, Inbox)> {
    let (send, events) = sync_channel(MOST_WAITING);
    let doorbell = Arc::new(Doorbell::new()?);
    let queue = Queue {
        events: send,
        doorbell: doorbell.clone(),
    };
    Ok((queue, Inbox { events, doorbell }))
}

/// The threads' end of the queue of events.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    events: SyncSender<Event>,
    doorbell: Arc<Doorbell>,
}

/// The loop has ended.
pub(super) struct Ended;

impl Queue {
    pub(super) fn put(&self, event: Event) -> Result<(), Ended> {
        self.events.send(event).map_err(|_| Ended)?;
        self.doorbell.ring();
        Ok(())
    }
}

/// The loop's end of the queue of events.
#[derive(Debug)]
pub(crate) struct Inbox {
    events: Receiver<Event>,
    /// Rung when there are some.
    doorbell: Arc<Doorbell>,
}

impl Inbox {
    /// Readable when there may be events.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_ref().as_fd()
    }

    /// Takes some of the events that there are; the others are taken the next time.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.doorbell.clear();
        let events: Vec<Event> = self.events.try_iter().take(AT_ONCE).collect();
        if events.len() == AT_ONCE {
            self.doorbell.ring();
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// However many programs ask at once, the loop takes some of them between two turns, and
    /// learns that there are more.
    #[test]
    fn the_loop_takes_some_events_at_a_time() {
        let (queue, inbox) = queue().unwrap();
        for number in 0..20 {
            assert!(queue.put(Event::Gone(number)).is_ok());
        }
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
