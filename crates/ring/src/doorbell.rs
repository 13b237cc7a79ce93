//! An eventfd that wakes a process which sleeps in the kernel.

#[cfg(not(loom))]
pub use kernel::Doorbell;
#[cfg(loom)]
pub use model::Doorbell;

#[cfg(not(loom))]
mod kernel {
    use rustix::event::{EventfdFlags, eventfd};
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    /// An eventfd that one side signals and the other waits for and clears.
    #[derive(Debug)]
    pub struct Doorbell(OwnedFd);

    impl Doorbell {
        /// Creates a new one, non-blocking and close-on-exec.
        ///
        /// # Errors
        /// The kernel's, most likely that the limit on descriptors is reached.
        pub fn new() -> io::Result<Self> {
            Ok(Self(eventfd(
                0,
                EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
            )?))
        }

        /// Takes over an eventfd of a trusted side; for untrusted ones see
        /// [`EventfdSignaler`](crate::EventfdSignaler).
        pub fn from_fd(fd: OwnedFd) -> Self {
            Self(fd)
        }

        /// Wakes the thread that waits for it. Signalling it again before it is cleared
        /// has no further effect.
        pub fn ring(&self) {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }

        /// Clears it.
        pub fn clear(&self) {
            let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
        }
    }

    impl AsFd for Doorbell {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::{Condvar, Mutex};

    /// The semantics of an eventfd: it counts, and a waiting thread continues once the
    /// count is not 0.
    #[derive(Debug)]
    pub struct Doorbell {
        count: Mutex<u64>,
        rung: Condvar,
    }

    impl Doorbell {
        /// A new one.
        pub fn new() -> std::io::Result<Self> {
            Ok(Self {
                count: Mutex::new(0),
                rung: Condvar::new(),
            })
        }

        /// As `write` on the eventfd.
        pub fn ring(&self) {
            *self.count.lock().expect("no model panics with it") += 1;
            self.rung.notify_all();
        }

        /// As `read` on the eventfd.
        pub fn clear(&self) {
            *self.count.lock().expect("no model panics with it") = 0;
        }

        /// As `poll` on the eventfd, without a timeout.
        pub fn wait(&self) {
            let mut count = self.count.lock().expect("no model panics with it");
            while *count == 0 {
                count = self.rung.wait(count).expect("no model panics with it");
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    #[cfg_attr(miri, ignore = "it reads an eventfd")]
    fn one_that_was_cleared_is_as_if_it_had_not_been_rung() {
        let doorbell = Doorbell::new().unwrap();
        let read = || rustix::io::read(&doorbell, &mut [0; 8]);
        doorbell.ring();
        doorbell.ring();
        assert_eq!(read(), Ok(8));
        doorbell.ring();
        doorbell.clear();
        assert_eq!(read(), Err(Errno::AGAIN));
    }
}
