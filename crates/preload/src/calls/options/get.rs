//! `getsockopt`: what the engine knows, and else what the kernel socket has.

use super::has_connection;
use crate::address::Native;
use crate::calls::names::peer_of;
use crate::calls::{answer, refused, sources};
use crate::fds::{self, Entry};
use crate::options::{congestion, has_switch, int, read_back, set_by_program};
use crate::signals::within;
use crate::user::Out;
use crate::{real, vectors};
use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IP6, IPPROTO_TCP as TCP};
use libc::{SOL_SOCKET, c_int, c_void, socklen_t};
use longshore_hostif::SocketState;
use longshore_posix::options::known::{self, What, is_about_sources};
use longshore_posix::options::timestamping::Flags;
use longshore_sockets::{Socket, host_bits};

const TCP_ZEROCOPY_RECEIVE: c_int = 35;
const IPV6_PATHMTU: c_int = 61;
/// The length of its answer, a `struct ip6_mtuinfo`.
const MTU_INFO: usize = size_of::<libc::sockaddr_in6>() + size_of::<u32>();

/// Whether an option asks for the path's MTU, be it of another version of IP than the socket's: as
/// Linux has it, a socket of IPv6 is asked by those of both.
fn asks_for_mtu(socket: &Socket, level: c_int, name: c_int) -> bool {
    (level, name) == (IP, libc::IP_MTU) || (level, name) == (IP6, libc::IPV6_MTU) && socket.is_v6()
}

/// `getsockopt(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: Out<'_, c_void>,
    len: Out<'_, socklen_t>,
) -> c_int {
    within(|| get(fd, level, name, value, len))
}

fn get(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: Out<'_, c_void>,
    len: Out<'_, socklen_t>,
) -> c_int {
    let plain = || real::getsockopt(fd, level, name, value, len);
    let Some(socket) = fds::engine(fd) else {
        return match (fds::get(fd), level, name) {
            (Entry::Undecided(u), TCP, libc::TCP_CONGESTION) if u.stream => {
                congestion::before_decided(u.options, value, len).unwrap_or_else(plain)
            }
            _ => plain(),
        };
    };
    // The kernel knows what to say to pointers that lead nowhere.
    if !vectors::can_be_written(len, size_of::<socklen_t>()) {
        return plain();
    }
    let room = len.get().unwrap_or(0);
    if room.cast_signed() < 0 || !vectors::can_be_written(value, room as usize) {
        return plain();
    }
    let give = |bytes: &[u8]| {
        let take = bytes.len().min(room as usize);
        value.put_bytes(&bytes[..take]);
        len.put(take as socklen_t);
    };
    let known = match level {
        // The kernel socket behind an accepted connection has it not, and one that is still bound
        // where this one is no more does not take it.
        IP6 if name == libc::IPV6_V6ONLY && socket.is_v6() => {
            give(&c_int::from(socket.options().is_v6_only()).to_ne_bytes());
            Some(0)
        }
        IP6 if name == known::IPV6_ADDRFORM && socket.is_v6() && is_established(&socket) => {
            give(&libc::AF_INET6.to_ne_bytes());
            Some(0)
        }
        SOL_SOCKET if name == libc::SO_PEERNAME => Some(peer_name(&socket, room, &give)),
        SOL_SOCKET => of_socket(fd, &socket, name, &give),
        TCP if !socket.is_datagram() => of_tcp(&socket, name, &give),
        _ => None,
    };
    if let Some(result) = known {
        return result;
    }
    if socket.is_datagram() && is_about_sources(level, name) {
        let bytes = value.as_in().cast::<u8>().slice(room as usize);
        if let Some(told) = sources::get(&socket, (level, name), bytes) {
            return answer(|| {
                give(&told?);
                Ok(0)
            });
        }
    }
    let is_path = (level, name) == (IP6, IPV6_PATHMTU) && socket.is_v6();
    if is_path && (room as usize) < MTU_INFO {
        return answer(|| Err(refused(libc::EINVAL)));
    }
    let has_path = socket.is_datagram() || has_connection(&socket);
    if has_path && asks_for_mtu(&socket, level, name) {
        return answer(|| {
            give(&socket.queries().path_mtu()?.to_ne_bytes());
            Ok(0)
        });
    }
    if has_path && is_path {
        return answer(|| {
            // An address that says nothing here, and the number.
            let mut info = [0; MTU_INFO];
            info[MTU_INFO - size_of::<u32>()..]
                .copy_from_slice(&socket.queries().path_mtu()?.to_ne_bytes());
            give(&info);
            Ok(0)
        });
    }
    plain()
}

/// Whether it has a peer, and neither of the two has ended the connection.
pub(super) fn is_established(socket: &Socket) -> bool {
    let is_open = || !socket.halves().shut().1 && !socket.halves().has_peer_ended();
    if socket.is_datagram() {
        socket.addresses().peer().is_ok()
    } else {
        socket.state() == SocketState::Connected && is_open()
    }
}

/// The address of the peer, put by `give`, as far as there is `room`, which may not be more than
/// the address takes.
fn peer_name(socket: &Socket, room: socklen_t, give: &dyn Fn(&[u8])) -> c_int {
    answer(|| {
        let peer = Native::of_engine(peer_of(socket)?, socket.is_v6());
        if room > peer.len {
            return Err(refused(libc::EINVAL));
        }
        give(peer.as_in().cast().slice(peer.len as usize));
        Ok(0)
    })
}

/// What the engine or this process knows of an option of `SOL_SOCKET`, put by `give`; `None` if
/// the kernel socket has it.
fn of_socket(fd: c_int, socket: &Socket, name: c_int, give: &dyn Fn(&[u8])) -> Option<c_int> {
    match name {
        libc::SO_ERROR => {
            let mut errno = socket.pending_error().take() as i32;
            if errno == 0 && socket.has_kernel_side() {
                let mut bytes = [0; 16];
                let known = known::other(libc::SO_ERROR, 0, What::Asked);
                if read_back(fd, &known, &mut bytes).is_some() {
                    errno = int(&bytes);
                }
            }
            give(&errno.to_ne_bytes());
        }
        // The kernel socket of an accepted connection has it not, and others have it, too.
        libc::SO_REUSEADDR | libc::SO_REUSEPORT if is_set(socket, name) => {
            give(&1i32.to_ne_bytes());
        }
        // A negative number that it was set to, the kernel keeps.
        libc::SO_PEEK_OFF => give(&socket.peek_offset().get()?.to_ne_bytes()),
        libc::SO_TIMESTAMPING => {
            // The second number names a clock of hardware.
            let flags = Flags::of(socket).bits();
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&flags.to_ne_bytes());
            give(&bytes);
        }
        libc::SO_ACCEPTCONN => give(&i32::from(socket.is_listening()).to_ne_bytes()),
        // As Linux has it, it is what the connection has come to, unless the program has set it.
        libc::SO_SNDBUF if has_connection(socket) && !is_set(socket, name) => {
            give(
                &i32::try_from(socket.send_stream().limit())
                    .unwrap_or(i32::MAX)
                    .to_ne_bytes(),
            );
        }
        libc::SO_RCVTIMEO | known::SO_RCVTIMEO_NEW
            if socket.host_bits() & host_bits::OUR_TIMEOUT != 0 =>
        {
            give(&[0; 16]);
        }
        _ => return None,
    }
    Some(0)
}

/// Whether the program has set an option of `SOL_SOCKET`, of this socket or its listener.
fn is_set(socket: &Socket, name: c_int) -> bool {
    let known = known::find(!socket.is_datagram(), SOL_SOCKET, name);
    known.is_some_and(|known| set_by_program(socket) & 1 << known.bit != 0)
}

/// What the engine knows of an option of TCP, put by `give`; `None` if the kernel socket has it.
fn of_tcp(socket: &Socket, name: c_int, give: &dyn Fn(&[u8])) -> Option<c_int> {
    let put_switch = |bit| {
        give(&i32::from(has_switch(socket, bit)).to_ne_bytes());
        0
    };
    Some(match name {
        libc::TCP_NODELAY => put_switch(host_bits::NO_DELAY),
        libc::TCP_CORK => put_switch(host_bits::CORK),
        libc::TCP_MAXSEG if has_connection(socket) => answer(|| {
            // What is in use, which the kernel socket cannot know.
            give(&socket.queries().segment_size()?.to_ne_bytes());
            Ok(0)
        }),
        libc::TCP_CONGESTION => answer(|| {
            give(&congestion::padded(socket.queries().congestion()?));
            Ok(0)
        }),
        // Its answer would be of the kernel socket behind, where nothing ever comes.
        TCP_ZEROCOPY_RECEIVE => answer(|| Err(refused(libc::ENOPROTOOPT))),
        libc::TCP_INFO => answer(|| {
            let mut info = [0; longshore_hostif::MAILBOX_BYTES];
            let have = socket.queries().tcp_info(&mut info)?;
            give(&info[..have]);
            Ok(0)
        }),
        _ => return None,
    })
}
