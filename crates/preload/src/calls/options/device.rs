//! SO_BINDTODEVICE, SO_BINDTOIFINDEX, IP_UNICAST_IF and IPV6_UNICAST_IF of datagram sockets, and
//! IPV6_PKTINFO for all datagrams (RFC 3542 section 6.2), of which Linux uses the interface and not
//! the address: the engine has one link, and the loopback if it serves that. A socket that names
//! another interface is the kernel's.

use crate::calls::interfaces::is_there;
use crate::calls::refused;
use crate::fds::Entry;
use crate::options::device::is_engines;
use crate::user::{In, Text};
use crate::{decide, place, vectors};
use libc::{IPPROTO_IPV6 as IP6, SOL_SOCKET, c_int, c_void, in6_pktinfo, socklen_t};
use longshore_posix::options::known::{SO_BINDTOIFINDEX, UNICAST_INTERFACE, UNICAST_INTERFACE6};
use longshore_sockets::SocketError;
use std::ffi::CStr;

unsafe extern "C" {
    safe fn if_nametoindex(name: Text<'_>) -> u32;
}

/// Whether an option names an interface. A `stream` leaves by whichever leads to its peer.
pub(super) fn is_about(stream: bool, level: c_int, name: c_int) -> bool {
    match level {
        SOL_SOCKET => matches!(name, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX),
        IP6 if name == libc::IPV6_PKTINFO => true,
        _ => !stream && is_unicast(level, name),
    }
}

fn is_unicast(level: c_int, name: c_int) -> bool {
    [UNICAST_INTERFACE, UNICAST_INTERFACE6]
        .iter()
        .any(|known| (known.level, known.name) == (level, name))
}

/// Leaves a socket of which nothing is decided to the kernel if it is bound to an interface
/// that is none of the engine's. The kernel is then to be asked, and says what is wrong
/// with an interface that is none.
///
/// # Errors
/// ENODEV for a socket that is the engine's already, or what else the option says of an interface that
/// is not there.
pub(super) fn choose(
    fd: c_int,
    entry: Entry,
    (level, name): (c_int, c_int),
    value: In<'_, c_void>,
    len: socklen_t,
) -> Result<(), SocketError> {
    let Some(host) = place::attached() else {
        return Ok(());
    };
    let is_unicast = is_unicast(level, name);
    let index = match level {
        _ if is_unicast => unicast_index(value, len),
        IP6 => index_in(value, len),
        _ => index_of(name, value, len),
    };
    if index == 0 || is_engines(host, index) {
        return Ok(());
    }
    match entry {
        Entry::Undecided(_) => {
            if is_there(index) {
                decide::leave_to_kernel(fd);
            }
            Ok(())
        }
        _ if is_unicast => Err(refused(libc::EADDRNOTAVAIL)),
        _ => Err(refused(libc::ENODEV)),
    }
}

/// The number of IP_UNICAST_IF, in the network's byte order; 0 if it is of another length than Linux
/// takes.
fn unicast_index(value: In<'_, c_void>, len: socklen_t) -> u32 {
    if len as usize != size_of::<u32>() || !vectors::can_be_read(value, size_of::<u32>()) {
        return 0;
    }
    u32::from_be(value.cast().get().unwrap_or(0))
}

/// The number of the interface in a `struct in6_pktinfo`; 0 if there is none in it, or it is too short.
fn index_in(value: In<'_, c_void>, len: socklen_t) -> u32 {
    let least = size_of::<in6_pktinfo>();
    if (len as usize) < least || !vectors::can_be_read(value, least) {
        return 0;
    }
    let info: Option<in6_pktinfo> = value.cast().get();
    info.map_or(0, |info| info.ipi6_ifindex)
}

/// The number of the interface that is named; 0 if it is none, and the kernel says what is wrong.
fn index_of(name: c_int, value: In<'_, c_void>, len: socklen_t) -> u32 {
    let len = (len as usize).min(libc::IFNAMSIZ - 1);
    let is_short = name == SO_BINDTOIFINDEX && len < size_of::<u32>();
    if is_short || !vectors::can_be_read(value, len) {
        return 0;
    }
    let mut text = [0u8; libc::IFNAMSIZ];
    text[..len].copy_from_slice(value.cast().slice(len));
    if name == SO_BINDTOIFINDEX {
        let number = c_int::from_ne_bytes([text[0], text[1], text[2], text[3]]);
        return u32::try_from(number).unwrap_or(0);
    }
    CStr::from_bytes_until_nul(&text).map_or(0, |name| if_nametoindex(Text::from(name)))
}
