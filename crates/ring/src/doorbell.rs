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

    /// An eventfd: rung by one side, waited for and cleared by the other.
    #[derive(Debug)]
    pub struct Doorbell(OwnedFd);

    impl Doorbell {
        /// Makes a new one, non-blocking and closed on exec.
        ///
        /// # Errors
        /// The kernel's, most likely that the limit of descriptors is reached.
        pub fn new() -> io::Result<Self> {
            Ok(Self(eventfd(
                0,
                EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
            )?))
        }

        /// Takes over an eventfd of a side that is trusted; of others see
        /// [`EventfdSignaler`](crate::EventfdSignaler).
        pub fn from_fd(fd: OwnedFd) -> Self {
            Self(fd)
        }

        /// Wakes whoever waits for it. A doorbell that rings already is left so.
        pub fn ring(&self) {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }

        /// Silences it.
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

    /// What an eventfd does: it counts, and who waits for it goes on when it has.
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

        /// As `write` to it.
        pub fn ring(&self) {
            *self.count.lock().expect("no model panics with it") += 1;
            self.rung.notify_all();
        }

        /// As `read` from it.
        pub fn clear(&self) {
            *self.count.lock().expect("no model panics with it") = 0;
        }

        /// As `poll` for it, without a time limit.
        pub fn wait(&self) {
            let mut count = self.count.lock().expect("no model panics with it");
            while *count == 0 {
                count = self.rung.wait(count).expect("no model panics with it");
            }
        }
    }
}
