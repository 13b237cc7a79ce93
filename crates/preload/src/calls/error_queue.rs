//! MSG_ERRQUEUE: the reports of ICMP errors that a program has asked for by IP_RECVERR
//! or IPV6_RECVERR, the notices of its sends with MSG_ZEROCOPY, and when they left
//! (SO_TIMESTAMPING). `recv` and `recvmsg`
//! come here.

use crate::address::Native;
use crate::calls::control::{Filling, SENT_HEADERS, add_of_sent};
use crate::calls::wall_clock::stamps_of_software;
use crate::calls::{last_error, refused};
use crate::cancel::held;
use crate::real;
use crate::user::{Message, Out, Zero};
use libc::{c_int, sock_extended_err, sockaddr_in, sockaddr_in6};
use longshore_hostif::{ERROR_PAYLOAD, ErrorReport, Notice, SentStamp, SentStampKind};
use longshore_posix::options::timestamping::Flags;
use longshore_sockets::{Socket, SocketError};
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};

// Of linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;

/// A report, as [`next`] found it.
pub(crate) enum Found {
    /// The engine's, with the length of what it quotes.
    Engine(ErrorReport, usize),
    /// That sends are done with their bytes.
    Notice(Notice),
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
    if let Some(notice) = socket.take_notice() {
        return Ok(Found::Notice(notice));
    }
    match socket.queries().take_error_report(parts) {
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
pub(crate) fn recv_message(
    fd: c_int,
    socket: &Socket,
    msg: Out<'_, Message<'_>>,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Result<usize, SocketError> {
    let kernel = || held(|| real::recvmsg(fd, msg, flags));
    let room: usize = parts.iter().map(|p| p.len()).sum();
    let found = next(socket, parts, kernel)?;
    let Some(m) = msg.as_mut() else {
        return Err(refused(libc::EFAULT));
    };
    let (report, len) = match found {
        Found::Kernel(len) => return Ok(len),
        Found::Engine(report, len) => (report, len),
        Found::Notice(notice) => {
            m.msg_namelen = 0;
            m.msg_flags = libc::MSG_ERRQUEUE;
            write_notice(m, socket, &notice);
            return Ok(0);
        }
    };
    m.msg_flags = libc::MSG_ERRQUEUE;
    if let Some(stamp) = &report.stamp {
        m.msg_namelen = 0;
        if room < len || len == ERROR_PAYLOAD {
            m.msg_flags |= libc::MSG_TRUNC;
        }
        write_stamp(m, socket, (&report, stamp), sent_headers(parts, len));
        return Ok(len.min(room));
    }
    let to = destination(&report, socket);
    let name = m.msg_name;
    to.copy_out(name, Out::from(&mut m.msg_namelen))?;
    if room < len {
        m.msg_flags |= libc::MSG_TRUNC;
    }
    describe(m, socket, &report);
    Ok(len.min(room))
}

/// The value of the control message.
#[derive(Clone, Copy)]
#[repr(C)]
struct Value<A> {
    error: sock_extended_err,
    offender: A,
}

/// Says beside the quoted bytes what has happened.
fn describe(message: &mut Message<'_>, socket: &Socket, report: &ErrorReport) {
    let error = sock_extended_err {
        ee_errno: u32::from(report.errno),
        ee_origin: match report.offender {
            Some(IpAddr::V4(_)) => libc::SO_EE_ORIGIN_ICMP,
            Some(IpAddr::V6(_)) => libc::SO_EE_ORIGIN_ICMP6,
            None => libc::SO_EE_ORIGIN_LOCAL,
        },
        ee_type: report.kind,
        ee_code: report.code,
        ee_pad: 0,
        ee_info: report.info,
        ee_data: 0,
    };
    let of_engine = |ip| Native::of_engine(SocketAddr::new(ip, 0), socket.is_v6());
    let offender = report.offender.map(of_engine);
    if socket.is_v6() {
        let offender = offender.map_or_else(sockaddr_in6::zero, |o| o.whole());
        put(message, error, offender);
    } else {
        let offender = offender.map_or_else(sockaddr_in::zero, |o| o.whole());
        put(message, error, offender);
    }
}

/// An address of either version, which the value of the control message ends with.
trait Offender: Copy {
    /// The level and the kind of the message.
    const MESSAGE: (c_int, c_int);
}

impl Offender for sockaddr_in {
    const MESSAGE: (c_int, c_int) = (libc::IPPROTO_IP, libc::IP_RECVERR);
}

impl Offender for sockaddr_in6 {
    const MESSAGE: (c_int, c_int) = (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
}

fn put<A: Offender>(message: &mut Message<'_>, error: sock_extended_err, offender: A) {
    put_behind(Filling::new(message), error, offender);
}

/// As `put`, behind what is there.
fn put_behind<A: Offender>(mut filling: Filling<'_, '_>, error: sock_extended_err, offender: A) {
    let (level, kind) = A::MESSAGE;
    filling.add(level, kind, Value { error, offender });
    filling.finish();
}

/// Says of which sends the bytes are not needed any more, and whether they were copied.
fn write_notice(message: &mut Message<'_>, socket: &Socket, notice: &Notice) {
    let error = sock_extended_err {
        ee_errno: 0,
        ee_origin: SO_EE_ORIGIN_ZEROCOPY,
        ee_type: 0,
        ee_code: match notice.copied {
            true => SO_EE_CODE_ZEROCOPY_COPIED,
            false => 0,
        },
        ee_pad: 0,
        ee_info: *notice.sends.start(),
        ee_data: *notice.sends.end(),
    };
    if socket.is_v6() {
        put(message, error, sockaddr_in6::zero());
    } else {
        put(message, error, sockaddr_in::zero());
    }
}

/// The headers of the packet that `parts` begin with, of which `len` bytes are there, if they hold them.
fn sent_headers(parts: &[IoSliceMut<'_>], len: usize) -> Option<[u8; SENT_HEADERS]> {
    let mut headers = [0; SENT_HEADERS];
    let all = parts.iter().flat_map(|part| part.iter()).take(len);
    let mut found = 0;
    for (to, from) in headers.iter_mut().zip(all) {
        *to = *from;
        found += 1;
    }
    (found == SENT_HEADERS).then_some(headers)
}

/// Says when what was sent left, or was acknowledged. A stream's packets are not looped back: a program
/// that has not refused them (SOF_TIMESTAMPING_OPT_TSONLY) is told that it was cut off.
fn write_stamp(
    message: &mut Message<'_>,
    socket: &Socket,
    (report, stamp): (&ErrorReport, &SentStamp),
    headers: Option<[u8; SENT_HEADERS]>,
) {
    let flags = Flags::of(socket);
    let has_packet = !flags.contains(Flags::OPT_TSONLY);
    if has_packet && !socket.is_datagram() {
        message.msg_flags |= libc::MSG_TRUNC;
    }
    let error = sock_extended_err {
        ee_errno: u32::from(report.errno),
        ee_origin: SO_EE_ORIGIN_TIMESTAMPING,
        ee_type: report.kind,
        ee_code: report.code,
        ee_pad: 0,
        ee_info: report.info,
        ee_data: stamp.key,
    };
    let mut filling = Filling::new(message);
    if flags.contains(Flags::SOFTWARE) {
        filling.add(
            libc::SOL_SOCKET,
            libc::SCM_TIMESTAMPING,
            stamps_of_software(stamp.at_ns),
        );
    }
    // As Linux has it, where the packet left from, if it has left.
    let has_left = report.info != SentStampKind::Acknowledged as u32;
    let is_told = has_packet && has_left && (socket.is_v6() || flags.contains(Flags::OPT_CMSG));
    let local = match socket.is_datagram() {
        true => Some(report.to),
        false => socket.addresses().local(),
    };
    let local = local.filter(|_| is_told);
    if socket.is_datagram()
        && !socket.is_v6()
        && let Some(headers) = headers
        && let Some(IpAddr::V4(own)) = local.map(|local| local.ip())
    {
        add_of_sent(&mut filling, socket, own, &headers);
    }
    let own = local.map(|local| {
        let own = SocketAddr::new(local.ip(), 0);
        Native::of_engine(own, socket.is_v6())
    });
    if socket.is_v6() {
        let own = own.map_or_else(sockaddr_in6::zero, |o| o.whole());
        put_behind(filling, error, own);
    } else {
        let own = own.map_or_else(sockaddr_in::zero, |o| o.whole());
        put_behind(filling, error, own);
    }
}
