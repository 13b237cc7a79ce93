//! What the kernel says of a process.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

/// The process at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// By the engine's namespace of pids; 0 if it cannot be seen from there.
    pub pid: u32,
    /// Readable when it is dead. `None` if the kernel would not say.
    pub pidfd: Option<OwnedFd>,
}

/// The real and effective users of a process.
pub(super) fn users_of(pid: u32) -> Option<[u32; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = line.split_whitespace().map_while(|id| id.parse().ok());
    Some([ids.next()?, ids.next()?])
}

/// What is readable once a process has ended.
///
/// # Errors
/// ESRCH if there is none, EINVAL if the number is none of a process; the kernel's.
pub(super) fn watch(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(Errno::INVAL)?, PidfdFlags::empty())
}

/// Whether a process lives, as far as the kernel says so.
#[derive(Debug)]
pub(super) enum Life {
    /// It has ended, though its parent may not have waited for it yet.
    Over,
    /// It lives, and this tells of its end.
    Watched(OwnedFd),
    /// It may live.
    Unknown,
}

/// Asks the kernel of a process.
pub(super) fn lives(pid: u32) -> Life {
    match watch(pid) {
        Ok(fd) if tells_of_an_end(&fd) => Life::Over,
        Ok(fd) => Life::Watched(fd),
        Err(Errno::SRCH | Errno::INVAL) => Life::Over,
        Err(_) => Life::Unknown,
    }
}

/// Whether a process is known to have ended.
pub(super) fn has_ended(pid: u32) -> bool {
    matches!(lives(pid), Life::Over)
}

/// Whether the process of this descriptor has ended.
fn tells_of_an_end(pidfd: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn both_users_of_a_process_are_known_while_it_is_there() {
        use rustix::process::{geteuid, getuid};
        let users = [getuid().as_raw(), geteuid().as_raw()];
        assert_eq!(users_of(std::process::id()), Some(users));
        assert_eq!(users_of(0), None);
    }
}
