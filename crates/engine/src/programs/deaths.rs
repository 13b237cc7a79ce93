//! Ends of processes, as the kernel reports them: a set of its own for their descriptors, so
//! that all that have ended are known by one call, whatever else there is.

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Ends of processes that are reported at once, at most.
const MOST: usize = 64;

/// What reports the ends of processes.
#[derive(Debug)]
pub(crate) struct Deaths(OwnedFd);

impl Deaths {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Readable while there are ends of processes to be seen to.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Reports the end of the process that has `channel` of `session`, until `pidfd` is closed.
    pub(super) fn watch(&self, pidfd: BorrowedFd<'_>, session: u32, channel: u16) {
        let data = epoll::EventData::new_u64(encode(session, channel));
        let _ = epoll::add(&self.0, pidfd, data, epoll::EventFlags::IN);
    }

    /// Channels whose processes have ended, so many at most, by their sessions; those that are still
    /// watched are reported again.
    pub(crate) fn look(&self, most: usize) -> Vec<(u32, u16)> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); MOST];
        let end = most.min(MOST);
        let at_once = Timespec::default();
        match epoll::wait(&self.0, &mut events[..end], Some(&at_once)) {
            Ok((found, _)) => found.iter().map(|e| decode(e.data.u64())).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn encode(session: u32, channel: u16) -> u64 {
    u64::from(session) << 16 | u64::from(channel)
}

fn decode(data: u64) -> (u32, u16) {
    ((data >> 16) as u32, data as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    #[test]
    fn a_channel_comes_back_from_what_epoll_keeps() {
        for of in [(0, 0), (70_000, 255), (u32::MAX, u16::MAX)] {
            assert_eq!(decode(encode(of.0, of.1)), of);
        }
    }

    #[test]
    fn ended_processes_are_told_of_until_their_descriptors_are_closed_and_so_many_at_once() {
        let deaths = Deaths::new().unwrap();
        let mut children: Vec<_> = (0..3)
            .map(|_| Command::new("true").spawn().unwrap())
            .collect();
        let mut pidfds: Vec<OwnedFd> = children
            .iter()
            .map(|child| {
                let pid = Pid::from_child(child);
                pidfd_open(pid, PidfdFlags::empty()).unwrap()
            })
            .collect();
        for (pidfd, channel) in pidfds.iter().zip(0..) {
            deaths.watch(pidfd.as_fd(), 70_000, channel);
        }
        children.iter_mut().for_each(|child| drop(child.wait()));
        let look = |most| {
            let mut found = deaths.look(most);
            found.sort_unstable();
            found
        };
        for _ in 0..2 {
            assert_eq!(look(MOST), [(70_000, 0), (70_000, 1), (70_000, 2)]);
        }
        assert_eq!(look(2).len(), 2);
        assert_eq!(look(1_000).len(), 3);
        drop(pidfds.remove(1));
        assert_eq!(look(MOST), [(70_000, 0), (70_000, 2)]);
    }
}
