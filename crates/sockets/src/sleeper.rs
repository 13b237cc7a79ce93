//! A thread's place to sleep in the kernel's poll or select, for sockets and for what else
//! the program waits for. `preload` makes the call itself.

use crate::errors::SocketError;
use crate::holds::Socket;
use crate::host::Host;
use longshore_ring::Sleep;
use std::cell::RefCell;
use std::os::fd::{BorrowedFd, RawFd};

/// A thread's place to sleep in the kernel's poll, listed at some sockets for as
/// long as this lives.
#[derive(Debug)]
pub struct Sleeper {
    host: &'static Host,
    mine: Option<(u32, RawFd)>,
    listed: RefCell<Vec<Socket>>,
}

impl Host {
    /// This thread's place to sleep.
    pub fn sleeper(&'static self) -> Sleeper {
        Sleeper {
            host: self,
            mine: self.threads().thread_eventfd(),
            listed: RefCell::new(Vec::new()),
        }
    }
}

impl Sleeper {
    /// The eventfd to sleep on. `None` if there is no waiter or no descriptor
    /// left: then nobody wakes this thread, and it must not sleep for long
    /// ([`BLIND_SLEEP`](crate::BLIND_SLEEP)).
    pub fn wake_fd(&self) -> Option<RawFd> {
        self.mine.map(|(_, wake_fd)| wake_fd)
    }

    /// From now on, what happens to `socket` wakes this thread.
    pub fn list(&self, socket: &Socket) {
        if let Some((waiter, _)) = self.mine {
            socket.block().add_waiter(waiter);
            self.listed.borrow_mut().push(socket.clone());
        }
    }

    /// Says that the thread is about to sleep. It has to look at its sockets
    /// once more before it does.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::Reentered`].
    pub fn declare(&self) -> Result<(), SocketError> {
        if let Some((waiter, _)) = self.mine {
            self.host
                .session
                .waiters()
                .at(waiter)
                .declare(Sleep::Eventfd);
        }
        self.host.messages().flush()?;
        self.host.messages().drain()
    }

    /// Says that it is awake again, and silences the eventfd if it `rang`.
    pub fn awake(&self, rang: bool) {
        let Some((waiter, wake_fd)) = self.mine else {
            return;
        };
        self.host.session.waiters().at(waiter).cancel();
        if rang {
            // SAFETY: the eventfd is this thread's, which keeps it open.
            let wake_fd = unsafe { BorrowedFd::borrow_raw(wake_fd) };
            let _ = rustix::io::read(wake_fd, &mut [0u8; 8]);
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if let Some((waiter, _)) = self.mine {
            self.host.session.waiters().at(waiter).cancel();
            for socket in self.listed.borrow().iter() {
                socket.block().remove_waiter(waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests;
