//! MSG_ERRQUEUE: the reports of ICMP errors that a program has asked for by IP_RECVERR
//! or IPV6_RECVERR. `recv` and `recvmsg` come here.

use crate::address::Native;
use crate::calls::control::Filling;
use crate::calls::last_error;
use crate::cancel::held;
use crate::real;
use libc::{c_int, msghdr, sock_extended_err, sockaddr_in, sockaddr_in6};
use longshore_hostif::ErrorReport;
use longshore_sockets::{Socket, SocketError};
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};

/// A report, as [`next`] found it.
pub(crate) enum Found {
    /// The engine's, with the length of what it quotes.
    Engine(ErrorReport, usize),
    /// The kernel's, of the socket beside; the bytes are where they belong.
    Kernel(usize),
}

/// Takes the oldest report; never waits. `kernel` asks the kernel socket beside, if
/// there is one.
pub(crate) fn next(
    socket: &Socket,
    parts: &mut [IoSliceMut<'_>],
    kernel: impl FnOnce() -> isize,
) -> Result<Found, SocketError> {
    match socket.take_error_report(parts) {
        Err(SocketError::WouldBlock) if socket.has_kernel_side() => match kernel() {
            -1 => Err(last_error()),
            len => Ok(Found::Kernel(len as usize)),
        },
        found => found.map(|(report, len)| Found::Engine(report, len)),
    }
}

/// Where the packet went that a report is about, as the program's socket has it.
pub(crate) fn destination(report: &ErrorReport, socket: &Socket) -> Native {
    Native::of_engine(report.to, socket.is_v6())
}

/// Reads a report by `recvmsg`.
///
/// # Safety
/// As libc's `recvmsg`; `parts` are those of `msg`.
pub(crate) unsafe fn recv_message(
    fd: c_int,
    socket: &Socket,
    msg: *mut msghdr,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Result<usize, SocketError> {
    // SAFETY: the caller's promise.
    let kernel = || held(|| unsafe { real::recvmsg(fd, msg, flags) });
    let room: usize = parts.iter().map(|p| p.len()).sum();
    let (report, len) = match next(socket, parts, kernel)? {
        Found::Kernel(len) => return Ok(len),
        Found::Engine(report, len) => (report, len),
    };
    // SAFETY: the caller's promise.
    let m = unsafe { &mut *msg };
    let to = destination(&report, socket);
    // SAFETY: the caller's promise.
    unsafe { to.copy_out(m.msg_name.cast(), &raw mut m.msg_namelen) }?;
    m.msg_flags = libc::MSG_ERRQUEUE;
    if room < len {
        m.msg_flags |= libc::MSG_TRUNC;
    }
    // SAFETY: the caller's promise.
    unsafe { describe(m, socket, &report) };
    Ok(len.min(room))
}

/// The value of the control message.
#[repr(C)]
struct Value<A> {
    error: sock_extended_err,
    offender: A,
}

/// Says beside the quoted bytes what has happened.
///
/// # Safety
/// `message`'s control buffer may be written to.
unsafe fn describe(message: &mut msghdr, socket: &Socket, report: &ErrorReport) {
    let error = sock_extended_err {
        ee_errno: u32::from(report.errno),
        ee_origin: match report.offender {
            IpAddr::V4(_) => libc::SO_EE_ORIGIN_ICMP,
            IpAddr::V6(_) => libc::SO_EE_ORIGIN_ICMP6,
        },
        ee_type: report.kind,
        ee_code: report.code,
        ee_pad: 0,
        ee_info: report.info,
        ee_data: 0,
    };
    let offender = Native::of_engine(SocketAddr::new(report.offender, 0), socket.is_v6());
    let mut filling = Filling::new(message);
    // SAFETY: the control buffer by the caller's promise; the storage of an address is
    // longer than that of any family.
    unsafe {
        if socket.is_v6() {
            let offender: sockaddr_in6 = offender.as_ptr().cast::<sockaddr_in6>().read();
            let value = Value { error, offender };
            filling.add(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, value);
        } else {
            let offender: sockaddr_in = offender.as_ptr().cast::<sockaddr_in>().read();
            let value = Value { error, offender };
            filling.add(libc::IPPROTO_IP, libc::IP_RECVERR, value);
        }
    }
    filling.finish();
}
