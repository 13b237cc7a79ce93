//! SO_BINDTODEVICE and SO_BINDTOIFINDEX: the engine has one link, and a socket that is
//! bound to another interface is the kernel's.

use crate::calls::refused;
use crate::fds::Entry;
use crate::user::{In, Text};
use crate::{decide, place, vectors};
use libc::{SOL_SOCKET, c_int, c_void, socklen_t};
use longshore_sockets::SocketError;
use std::ffi::CStr;

unsafe extern "C" {
    safe fn if_nametoindex(name: Text<'_>) -> u32;
}

/// `SO_BINDTOIFINDEX` of asm-generic/socket.h.
const SO_BINDTOIFINDEX: c_int = 62;

/// Whether an option names an interface.
pub(super) fn is_about(level: c_int, name: c_int) -> bool {
    level == SOL_SOCKET && matches!(name, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX)
}

/// Leaves a socket of which nothing is decided to the kernel if it is bound to an interface
/// that is not the engine's link. The kernel is then to be told, and says what is wrong
/// with an interface that is none.
///
/// # Errors
/// ENODEV for a socket that is the engine's already.
pub(super) fn choose(
    fd: c_int,
    entry: Entry,
    name: c_int,
    value: In<'_, c_void>,
    len: socklen_t,
) -> Result<(), SocketError> {
    let Some(host) = place::attached() else {
        return Ok(());
    };
    let index = index_of(name, value, len);
    if index == 0 || index == host.routes().link_scope() {
        return Ok(());
    }
    match entry {
        Entry::Undecided(_) => {
            decide::leave_to_kernel(fd);
            Ok(())
        }
        _ => Err(refused(libc::ENODEV)),
    }
}

/// The number of the interface that is named; 0 if it is none.
fn index_of(name: c_int, value: In<'_, c_void>, len: socklen_t) -> u32 {
    let len = (len as usize).min(libc::IFNAMSIZ - 1);
    if vectors::check(value, len).is_err() {
        return 0;
    }
    let mut text = [0u8; libc::IFNAMSIZ];
    text[..len].copy_from_slice(value.cast().slice(len));
    if name == SO_BINDTOIFINDEX {
        return u32::from_ne_bytes([text[0], text[1], text[2], text[3]]);
    }
    CStr::from_bytes_until_nul(&text).map_or(0, |name| if_nametoindex(Text::from(name)))
}
