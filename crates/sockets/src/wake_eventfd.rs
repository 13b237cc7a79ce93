//! An eventfd that wakes a thread or a poll set of this process. `descriptor_requests` has the engine make
//! it; the thread or set that sleeps on it keeps it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// An eventfd that the engine made and rings.
#[derive(Debug)]
pub(crate) struct WakeEventfd(OwnedFd);

impl WakeEventfd {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for WakeEventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for WakeEventfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
