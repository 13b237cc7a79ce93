//! A descriptor held back for when there are none left.
//!
//! Without one, a connection to the engine's sockets could be neither taken nor refused:
//! a program that asks would wait without end, and the engine be woken for it again and again.
//! The `attach` server and the `control` server have one each.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::OwnedFd;

/// The descriptor; none if there was none to hold back.
#[derive(Debug)]
pub(crate) struct ReserveFd(Option<OwnedFd>);

impl ReserveFd {
    pub(crate) fn new() -> Self {
        let mut reserve_fd = Self(None);
        reserve_fd.refill();
        reserve_fd
    }

    /// An eventfd, as it is no name in any directory.
    fn refill(&mut self) {
        self.0 = eventfd(0, EventfdFlags::CLOEXEC).ok();
    }

    /// Takes the next connection, which does not block. If the process, or the system, has
    /// no descriptor left for it, `turn_away` gets it and closes it.
    pub(crate) fn accept(
        &mut self,
        listener: &OwnedFd,
        turn_away: impl FnOnce(OwnedFd),
    ) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(listener, flags) {
            Ok(fd) => Some(fd),
            Err(Errno::MFILE | Errno::NFILE) => {
                self.0 = None;
                if let Ok(fd) = accept_with(listener, flags) {
                    turn_away(fd);
                }
                self.refill();
                None
            }
            Err(_) => None,
        }
    }
}
