//! News of interfaces from the kernel, over rtnetlink (RFC 3549, linux/rtnetlink.h).
//!
//! A message says only that something about some interface has changed; what
//! it is now, the caller asks by ioctl. So nothing of the messages is parsed,
//! and messages that were lost cost nothing: any one of them is enough.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The group of messages about interfaces (`RTMGRP_LINK`).
const LINK_GROUP: u32 = 1;
/// Messages thrown away in one call; the rest keep the socket readable.
const MAX_DRAINED: usize = 64;

/// A subscription to news of all interfaces of this network namespace.
#[derive(Debug)]
pub(crate) struct LinkNews {
    fd: OwnedFd,
}

impl LinkNews {
    /// Subscribes. No privilege is needed.
    pub(crate) fn subscribe() -> Result<Self, Errno> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            // NETLINK_ROUTE is protocol 0.
            None,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, LINK_GROUP))?;
        Ok(LinkNews { fd })
    }

    /// Throws away what has come; says whether there was anything.
    pub(crate) fn drain(&self) -> bool {
        let mut any = false;
        for _ in 0..MAX_DRAINED {
            // A message is cut to the room, and the rest of it is gone.
            match recv(&self.fd, &mut [0u8; 16], RecvFlags::empty()) {
                Ok(_) => any = true,
                // Some were lost: that, too, says that something has changed.
                Err(Errno::NOBUFS) => any = true,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        any
    }

    /// Readable when there is news.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_network_has_no_news() {
        let news = LinkNews::subscribe().unwrap();
        while news.drain() {}
        assert!(!news.drain());
    }
}
