//! Sending a datagram: what may be wrong with it, in the order in which Linux looks, and its leaving.
//! `send` comes here for what is no stream.

use crate::calls::{Way, groups, refused, wait_unless_nonblocking};
use crate::decide;
use libc::c_int;
use longshore_sockets::{Departure, Socket, SocketError};
use std::io::IoSlice;
use std::net::SocketAddr;

/// Of linux/socket.h.
const MSG_PROBE: c_int = 0x10;

/// Sends what `parts` hold as one datagram, to `to` or the socket's peer. `asked` reads what is
/// said beside it.
pub(crate) fn send_datagram(
    fd: c_int,
    socket: &Socket,
    parts: &[IoSlice<'_>],
    flags: c_int,
    to: Option<SocketAddr>,
    asked: impl FnOnce() -> Result<Departure, SocketError>,
) -> Result<usize, SocketError> {
    let len = parts.iter().map(|p| p.len()).sum();
    let mut departure = check_datagram(fd, socket, (len, flags), to, asked)?;
    if flags & MSG_PROBE != 0 {
        // All was looked at, and nothing leaves.
        return Ok(len);
    }
    let to = to.map(|to| decide::effective_for(socket, to));
    if departure.segment == 0 {
        departure.segment = socket.datagrams().segment();
    }
    wait_unless_nonblocking(fd, socket, flags, Way::Out, || {
        if flags & libc::MSG_MORE != 0 {
            socket.datagrams().begin(parts, to, departure)
        } else {
            socket.datagrams().send(parts, to, departure)
        }
    })
}

/// Whether so many bytes may go to `to`, or to the peer, as far as can be told without them; what
/// is said beside them. It binds the socket, as each attempt to send does.
///
/// # Errors
/// What Linux says, of several things that are wrong the one that it looks at first: with what goes
/// by IPv4 the length and the flags come before the address, by IPv6 after all else.
pub(crate) fn check_datagram(
    fd: c_int,
    socket: &Socket,
    (len, flags): (usize, c_int),
    to: Option<SocketAddr>,
    asked: impl FnOnce() -> Result<Departure, SocketError>,
) -> Result<Departure, SocketError> {
    socket.datagrams().bind_to_send()?;
    let to = to.map(|to| decide::effective_for(socket, to));
    let goal = to.or_else(|| socket.addresses().peer().ok());
    let is_v4 = |goal: SocketAddr| goal.ip().to_canonical().is_ipv4();
    let is_for_v4 = !socket.is_v6() || goal.is_some_and(is_v4);
    if is_for_v4 && socket.addresses().reaches_v6_alone() {
        return Err(refused(libc::ENETUNREACH));
    }
    let begun = socket.datagrams().begun_for()?;
    let goes_by_v4 = is_for_v4 || begun.is_some_and(is_v4);
    if goes_by_v4 && len > usize::from(u16::MAX) {
        return Err(refused(libc::EMSGSIZE));
    }
    if goes_by_v4 && flags & libc::MSG_OOB != 0 {
        return Err(refused(libc::EOPNOTSUPP));
    }
    if begun.is_some() {
        // To what was begun it is added, wherever that goes, and whatever is said beside it.
        return Ok(Departure::default());
    }
    let goal = goal.ok_or(refused(libc::EDESTADDRREQ))?;
    if goes_by_v4 && !is_v4(goal) {
        return Err(refused(libc::EAFNOSUPPORT));
    }
    if to.is_some() && goal.port() == 0 {
        return Err(refused(libc::EINVAL));
    }
    let departure = asked()?;
    if to.is_some() {
        groups::check_broadcast(fd, socket.host(), goal)?;
    }
    Ok(departure)
}
