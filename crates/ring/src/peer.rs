//! The credentials of a Unix socket's peer, and refusing descriptors from it: socket
//! options that are not in `rustix`. The engine uses them for each program that attaches.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `SO_PASSRIGHTS` of `linux/socket.h` (Linux 6.16).
const SO_PASSRIGHTS: libc::c_int = 83;
/// `SO_PEERPIDFD` of the same (Linux 6.5).
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected a Unix socket, as it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process id, in our pid namespace; 0 if it is not visible there.
    pub pid: u32,
    /// Its effective user id, in our user namespace.
    pub uid: u32,
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The process that connected this socket.
///
/// # Errors
/// The kernel's.
pub fn peer_credentials(socket: impl AsFd) -> Result<PeerCredentials, Errno> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: room for such a structure, and its length.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    if failed != 0 {
        return Err(last_error());
    }
    Ok(PeerCredentials {
        pid: u32::try_from(found.pid).unwrap_or(0),
        uid: found.uid,
    })
}

/// A descriptor of the process that connected this socket, readable once it has ended.
///
/// # Errors
/// The kernel's: NOPROTOOPT before Linux 6.5, and ESRCH if the process is gone.
pub fn peer_pidfd(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    let mut fd: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: room for a descriptor's number, and its length.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    if failed != 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made it for us; a call that succeeds has written it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// From now on a process that sends descriptors to this Unix socket, or to one accepted
/// from it, gets EPERM. Otherwise the receiver would have to close such a descriptor,
/// which can take as long as its owner likes.
///
/// # Errors
/// The kernel's: NOPROTOOPT before Linux 6.16.
pub fn refuse_descriptors(socket: impl AsFd) -> Result<(), Errno> {
    pass_descriptors(socket, false)
}

/// From now on a process may send descriptors to this Unix socket, though the one that it was
/// accepted from refuses them.
///
/// # Errors
/// As [`refuse_descriptors`].
pub fn accept_descriptors(socket: impl AsFd) -> Result<(), Errno> {
    pass_descriptors(socket, true)
}

fn pass_descriptors(socket: impl AsFd, pass: bool) -> Result<(), Errno> {
    let value = libc::c_int::from(pass);
    // SAFETY: a number and its length.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::cmsg_space;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socket_with, socketpair,
    };
    use std::fs::read_to_string;
    use std::io::IoSlice;
    use std::mem::MaybeUninit;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// A socket without another end.
    fn single() -> OwnedFd {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no sockets of packets")]
    fn the_other_end_is_known() {
        let (ours, _theirs) = pair();
        let who = peer_credentials(&ours).unwrap();
        assert_eq!(who.pid, std::process::id());
        assert_eq!(who.uid, rustix::process::geteuid().as_raw());
        let (pipe, _) = std::io::pipe().unwrap();
        assert_eq!(peer_credentials(&pipe), Err(Errno::NOTSOCK));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no sockets of packets")]
    fn the_other_end_is_had_as_a_descriptor() {
        let (ours, _theirs) = pair();
        let process = match peer_pidfd(&ours) {
            Err(Errno::NOPROTOOPT) => return,
            process => process.unwrap(),
        };
        let info = read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).unwrap();
        let line = format!("Pid:\t{}\n", std::process::id());
        assert!(info.contains(&line), "{info}");
        assert!(peer_pidfd(single()).is_err(), "there is none");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no sockets of packets")]
    fn descriptors_come_unless_they_are_refused() {
        let (ours, theirs) = pair();
        let send = || {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds = [theirs.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&fds));
            sendmsg(
                &theirs,
                &[IoSlice::new(b"x")],
                &mut control,
                SendFlags::NOSIGNAL,
            )
        };
        assert_eq!(send(), Ok(1));
        match refuse_descriptors(&ours) {
            Err(Errno::NOPROTOOPT) => return,
            refused => refused.unwrap(),
        }
        assert_eq!(send(), Err(Errno::PERM));
        accept_descriptors(&ours).unwrap();
        assert_eq!(send(), Ok(1));
        let (pipe, _) = std::io::pipe().unwrap();
        assert_eq!(refuse_descriptors(&pipe), Err(Errno::NOTSOCK));
    }
}
