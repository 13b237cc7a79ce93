//! News of interfaces from the kernel, over rtnetlink (RFC 3549, linux/rtnetlink.h).
//!
//! A message says only that something about some interface has changed; what
//! it is now, the caller asks by ioctl. So messages that were lost cost nothing: any
//! one of them is enough. Only that an interface was down in between cannot be asked
//! afterwards, and is read from the messages ([`Link`]).

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The group of messages about interfaces (`RTMGRP_LINK`).
const LINK_GROUP: u32 = 1;
/// Messages thrown away in one call; the rest keep the socket readable.
const MAX_DRAINED: usize = 64;

/// Where a message of an interface (`struct nlmsghdr`, then `struct ifinfomsg`) has its
/// type, the interface's number and its flags; each in the machine's order.
const TYPE_AT: usize = 4;
const INDEX_AT: usize = 20;
const FLAGS_AT: usize = 24;
const HEADERS: usize = 32;
/// `RTM_NEWLINK`: an interface is there, as the message says.
const RTM_NEWLINK: u16 = 16;

/// Whether the link of a port's interface carries frames, and whether it has come back.
#[derive(Debug)]
pub(crate) struct Link {
    /// The flags that an interface has whose link does (`IFF_*`).
    wanted: i32,
    down: bool,
    returned: bool,
}

impl Link {
    /// With `flags`, at first; `None` if there is no interface.
    pub(crate) fn new(wanted: i32, flags: Option<i32>) -> Self {
        Link {
            wanted,
            down: flags.is_none_or(|f| f & wanted != wanted),
            returned: false,
        }
    }

    /// The interface had, or has, these flags; `None` if it is gone.
    pub(crate) fn observe(&mut self, flags: Option<i32>) {
        let up = flags.is_some_and(|f| f & self.wanted == self.wanted);
        self.returned |= up && self.down;
        self.down = !up;
    }

    /// Whether it has come back since this was last asked.
    pub(crate) fn take_returned(&mut self) -> bool {
        std::mem::take(&mut self.returned)
    }
}

/// The number and flags of the interface that a message is about, if it is one of that kind.
fn parse(message: &[u8]) -> Option<(i32, i32)> {
    let at = |at: usize| {
        message
            .get(at..at + 4)?
            .try_into()
            .ok()
            .map(i32::from_ne_bytes)
    };
    let kind = message.get(TYPE_AT..TYPE_AT + 2)?.try_into().ok()?;
    (u16::from_ne_bytes(kind) == RTM_NEWLINK).then_some((at(INDEX_AT)?, at(FLAGS_AT)?))
}

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

    /// Takes what has come; says whether there was anything. `link` learns what it says of
    /// the interface of number `index`.
    pub(crate) fn drain(&self, index: Option<i32>, link: &mut Link) -> bool {
        let mut any = false;
        for _ in 0..MAX_DRAINED {
            let mut message = [0u8; HEADERS];
            // A message is cut to the room, and the rest of it is gone.
            match recv(&self.fd, &mut message, RecvFlags::empty()) {
                Ok((_, len)) => {
                    any = true;
                    let about = parse(&message[..len.min(HEADERS)]);
                    if let Some((_, flags)) = about.filter(|(of, _)| Some(*of) == index) {
                        link.observe(Some(flags));
                    }
                }
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
        let mut link = Link::new(1, Some(1));
        while news.drain(None, &mut link) {}
        assert!(!news.drain(None, &mut link));
    }

    #[test]
    fn a_link_returns_after_it_was_down_and_once() {
        const UP: i32 = libc::IFF_UP;
        const BOTH: i32 = libc::IFF_UP | libc::IFF_RUNNING;
        let after = |first: Option<i32>, seen: &[Option<i32>]| {
            let mut link = Link::new(BOTH, first);
            seen.iter().for_each(|flags| link.observe(*flags));
            let returned = link.take_returned();
            assert!(!link.take_returned());
            returned
        };
        let other = Some(BOTH | libc::IFF_PROMISC);
        assert!(!after(Some(BOTH), &[Some(BOTH), other]));
        assert!(!after(Some(BOTH), &[Some(UP), None, Some(0)]));
        assert!(!after(None, &[Some(UP)]));
        assert!(after(None, &[Some(UP), Some(BOTH)]));
        assert!(after(Some(UP), &[other]));
        assert!(after(Some(BOTH), &[None, Some(BOTH)]));
        // It was down and up again before anybody looked.
        assert!(after(Some(BOTH), &[Some(UP), Some(BOTH), Some(BOTH)]));
        // And is gone again.
        assert!(after(Some(BOTH), &[Some(UP), Some(BOTH), None]));
    }

    #[test]
    fn messages_are_read_and_others_passed_over() {
        let mut message = [0u8; HEADERS];
        message[TYPE_AT..TYPE_AT + 2].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
        message[INDEX_AT..INDEX_AT + 4].copy_from_slice(&7i32.to_ne_bytes());
        message[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&0x1003i32.to_ne_bytes());
        assert_eq!(parse(&message), Some((7, 0x1003)));
        for len in 0..FLAGS_AT + 4 {
            assert_eq!(parse(&message[..len]), None);
        }
        message[TYPE_AT] ^= 1;
        assert_eq!(parse(&message), None, "RTM_DELLINK");
    }
}
