//! The system calls of packet sockets that have no safe wrapper.

use crate::bpf::{self, Instruction};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Creates a packet socket that receives nothing until it is bound.
pub(super) fn socket() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket() takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sets an option whose value is a `T`.
///
/// # Safety
/// The kernel must accept a `T` for this option, and access nothing else but what `value`
/// points to, which the caller keeps alive.
unsafe fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a live `T` of `len` bytes; the rest is this
    // function's contract.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// A virtio-net header of 10 bytes before each frame, both ways.
pub(super) fn set_vnet_header(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: PACKET_VNET_HDR takes an int.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32) }
}

/// Frames sent by this machine are not received.
pub(super) fn ignore_outgoing(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: PACKET_IGNORE_OUTGOING takes an int.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32) }
}

/// Passes only frames for which the program returns other than 0.
pub(super) fn attach_filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> Result<(), Errno> {
    bpf::with_program(program, |program| {
        // SAFETY: SO_ATTACH_FILTER takes a sock_fprog and copies the `len` instructions that
        // it points to, which live as long as this runs.
        unsafe { set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program) }
    })
}

/// Requests kernel buffers of `bytes` in each direction; beyond the system's limits if
/// permitted, else up to them.
pub(super) fn set_buffers(fd: BorrowedFd<'_>, bytes: i32) {
    let options = [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ];
    for (force, ask) in options {
        // SAFETY: all four take an int.
        let forced = unsafe { set(fd, libc::SOL_SOCKET, force, &bytes) };
        if forced.is_err() {
            // The size that the system grants is used.
            // SAFETY: as above.
            let _ = unsafe { set(fd, libc::SOL_SOCKET, ask, &bytes) };
        }
    }
}

/// Makes the interface accept a multicast group's frames.
pub(super) fn join(fd: BorrowedFd<'_>, index: i32, group: [u8; 6]) -> Result<(), Errno> {
    let request = membership(index, group);
    // SAFETY: PACKET_ADD_MEMBERSHIP takes a packet_mreq.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request) }
}

/// Has the interface accept them no longer.
pub(super) fn leave(fd: BorrowedFd<'_>, index: i32, group: [u8; 6]) -> Result<(), Errno> {
    let request = membership(index, group);
    // SAFETY: PACKET_DROP_MEMBERSHIP takes a packet_mreq.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_DROP_MEMBERSHIP, &request) }
}

fn membership(index: i32, group: [u8; 6]) -> libc::packet_mreq {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
        mr_alen: 6,
        mr_address: address,
    }
}

/// Binds the socket to an interface and starts reception. The binding persists while the
/// interface goes down and up, but not when it is removed.
pub(super) fn bind(fd: BorrowedFd<'_>, index: i32) -> Result<(), Errno> {
    // SAFETY: `sockaddr_ll` is plain data for which all bytes zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_ll of `len` bytes.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// Frames lost because the socket's buffer was full, since the last call.
pub(super) fn lost(fd: &OwnedFd) -> u64 {
    let mut stats = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: PACKET_STATISTICS writes at most `len` bytes of a tpacket_stats.
    let result = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        u64::from(stats.tp_drops)
    } else {
        0
    }
}
