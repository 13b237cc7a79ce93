//! An eventfd that wakes a process which sleeps in the kernel.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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

    /// Takes over an eventfd of a side that is trusted.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Takes over a descriptor of a side that is not trusted: a pipe or a file in the
    /// place of the eventfd could hold up whoever rings it.
    ///
    /// # Errors
    /// `InvalidInput` if it is no eventfd; the kernel's reason if that cannot be found
    /// out or it cannot be made non-blocking.
    pub fn from_stranger(fd: OwnedFd) -> io::Result<Self> {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if std::fs::read_link(link)?.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self(fd))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "no /proc and no eventfd flags there")]
    fn a_strangers_doorbell_is_an_eventfd_and_never_blocks() {
        let (_, pipe) = rustix::pipe::pipe().unwrap();
        let kind = Doorbell::from_stranger(pipe).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::InvalidInput);
        let full = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        Doorbell::from_stranger(full).unwrap().ring();
    }
}
