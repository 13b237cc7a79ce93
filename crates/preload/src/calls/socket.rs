//! `socket`.

use crate::calls::{guard, set_errno};
use crate::fds::{self, Entry, Undecided};
use crate::lifecycle;
use crate::namespace;
use crate::real;
use crate::state::{self, Mode};
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Whether the engine could have such a socket.
fn is_ours(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && matches!(
            (kind, protocol),
            (
                libc::SOCK_STREAM,
                0 | libc::IPPROTO_TCP | libc::IPPROTO_MPTCP
            ) | (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP)
        )
}

/// An entry for a socket that nobody has decided about.
pub(crate) fn undecided(domain: c_int, stream: bool) -> Undecided {
    Undecided {
        v6: domain == libc::AF_INET6,
        stream,
        duplicated: false,
        shut_read: false,
        shut_write: false,
        shared: false,
        number: NUMBER.fetch_add(1, Ordering::Relaxed) & 0x7f_ffff,
        options: 0,
    }
}

/// `socket(2)`: a kernel socket in any case; a TCP or UDP socket may become the
/// engine's later, unless the thread is in another network namespace than the program was started
/// in. ENETDOWN if the program is on Longshore and the engine cannot be joined, EMFILE where that is
/// for want of descriptors.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let plain = || real::socket(domain, kind, protocol);
    if state::is_off() || !is_ours(domain, kind, protocol) {
        return plain();
    }
    guard(|| match state::mode() {
        Mode::Off => plain(),
        Mode::Failed(errno) => {
            if namespace::is_another() {
                return plain();
            }
            set_errno(errno);
            -1
        }
        Mode::On(_) => {
            // The engine speaks TCP where a program would rather have MPTCP,
            // as the kernel does with a peer that has none.
            let protocol = if protocol == libc::IPPROTO_MPTCP {
                libc::IPPROTO_TCP
            } else {
                protocol
            };
            let fd = real::socket(domain, kind, protocol);
            if fd >= 0 && !namespace::has_made_elsewhere(fd) {
                let stream =
                    kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM;
                let before = fds::put(fd, Entry::Undecided(undecided(domain, stream)));
                lifecycle::give_up(before);
            }
            fd
        }
    })
}
