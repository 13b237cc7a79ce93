//! IPV6_FLOWINFO_SEND: the addresses that a program gives have a flow label.
//!
//! The kernel socket keeps whether that is so. The engine's packets have no label of a program's, so
//! that an address with one is refused, as Linux refuses a label that is not the socket's where
//! labels are exclusive. The traffic class beside it changes no packet in Linux either.

use crate::address::{self, Given};
use crate::calls::refused;
use crate::user::{In, Out};
use crate::{decide, place, real, vectors};
use libc::{c_int, sockaddr, sockaddr_in6, socklen_t};
use longshore_hostif::Owner;
use longshore_posix::options::known::IPV6_FLOWINFO_SEND;
use longshore_sockets::SocketError;

/// The label in the 32 bits of a `sin6_flowinfo`.
const LABEL: u32 = 0xf_ffff;

/// Looks for a label that `fd` is to use to somebody whom the engine reaches.
///
/// # Errors
/// EINVAL if there is one.
pub(crate) fn check(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> Result<(), SocketError> {
    // First what nearly all addresses are sorted out by: each datagram comes here.
    let len_of_six = size_of::<sockaddr_in6>();
    if (len as usize) < len_of_six || !vectors::can_be_read(addr, len_of_six) {
        return Ok(());
    }
    let Some(six) = addr.cast::<sockaddr_in6>().get() else {
        return Ok(());
    };
    let is_six = c_int::from(six.sin6_family) == libc::AF_INET6;
    if !is_six || u32::from_be(six.sin6_flowinfo) & LABEL == 0 || !is_sent(fd) {
        return Ok(());
    }
    let Given::Inet(to) = address::read(addr, len) else {
        return Ok(());
    };
    // Packets of IPv4 have none.
    if to.ip().to_canonical().is_ipv4() {
        return Ok(());
    }
    match place::attached().map(|host| decide::owner_of(host, to)) {
        Some(Owner::Engine) => Err(refused(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// Whether `fd` has IPV6_FLOWINFO_SEND.
fn is_sent(fd: c_int) -> bool {
    let mut on: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    let value = Out::from(&mut on).cast();
    let name = IPV6_FLOWINFO_SEND;
    real::getsockopt(fd, libc::IPPROTO_IPV6, name, value, Out::from(&mut len)) == 0 && on != 0
}
