//! Notifications about interfaces from the kernel, over rtnetlink (RFC 3549,
//! linux/rtnetlink.h).
//!
//! A message only shows that some interface has changed; the caller reads the present
//! state by ioctl. Lost messages therefore do no harm: any one of them is enough. Only
//! the fact that an interface was down in between cannot be read afterwards, and is taken
//! from the messages ([`Link`]).

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The multicast group for interfaces (`RTMGRP_LINK`).
const LINK_GROUP: u32 = 1;
/// Most messages discarded in one call; further ones keep the socket readable.
const MAX_DRAINED: usize = 64;

/// Offsets in a message about an interface (`struct nlmsghdr`, then `struct ifinfomsg`)
/// of its type, the interface's index and its flags; each in native byte order.
const TYPE_AT: usize = 4;
const INDEX_AT: usize = 20;
const FLAGS_AT: usize = 24;
const HEADERS: usize = 32;
/// `RTM_NEWLINK`: the interface exists, with the flags of the message.
const RTM_NEWLINK: u16 = 16;

/// Whether the link of a port's interface carries frames, and whether it has returned.
#[derive(Debug)]
pub(crate) struct Link {
    /// The flags of an interface whose link is up (`IFF_*`).
    wanted: i32,
    down: bool,
    returned: bool,
}

impl Link {
    /// The initial state, with `flags`; `None` if there is no interface.
    pub(crate) fn new(wanted: i32, flags: Option<i32>) -> Self {
        Link {
            wanted,
            down: flags.is_none_or(|f| f & wanted != wanted),
            returned: false,
        }
    }

    /// The interface had, or has, these flags; `None` if it was removed.
    pub(crate) fn observe(&mut self, flags: Option<i32>) {
        let up = flags.is_some_and(|f| f & self.wanted == self.wanted);
        self.returned |= up && self.down;
        self.down = !up;
    }

    /// Whether it has returned since the last call.
    pub(crate) fn take_returned(&mut self) -> bool {
        std::mem::take(&mut self.returned)
    }
}

/// The index and flags in a message about an interface, if it is one.
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

/// A subscription to notifications about all interfaces of this network namespace.
#[derive(Debug)]
pub(crate) struct LinkEvents {
    fd: OwnedFd,
}

impl LinkEvents {
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
        Ok(LinkEvents { fd })
    }

    /// Reads pending messages; returns whether there were any. Those about the interface
    /// with `index` update `link`.
    pub(crate) fn drain(&self, index: Option<i32>, link: &mut Link) -> bool {
        let mut any = false;
        for _ in 0..MAX_DRAINED {
            let mut message = [0u8; HEADERS];
            // A message is truncated to the buffer, and the rest of it is discarded.
            match recv(&self.fd, &mut message, RecvFlags::empty()) {
                Ok((_, len)) => {
                    any = true;
                    let about = parse(&message[..len.min(HEADERS)]);
                    if let Some((_, flags)) = about.filter(|(of, _)| Some(*of) == index) {
                        link.observe(Some(flags));
                    }
                }
                // Messages were lost, which also means that something has changed.
                Err(Errno::NOBUFS) => any = true,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        any
    }

    /// Readable when messages are pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_network_has_no_news() {
        let link_events = LinkEvents::subscribe().unwrap();
        let mut link = Link::new(1, Some(1));
        while link_events.drain(None, &mut link) {}
        assert!(!link_events.drain(None, &mut link));
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
        // It went down and up again before the first check.
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
