//! `unshare`, `setns`: they may bring the thread into another network namespace, where sockets are
//! the kernel's (`namespace`).

use crate::namespace;
use crate::real::real;
use libc::c_int;

mod libcs {
    use super::{c_int, real};

    real! {
        unshare(flags: c_int) -> c_int;
        setns(fd: c_int, kind: c_int) -> c_int;
    }
}

/// Whether `setns` with this kind may be about the network: 0 stands for all kinds.
pub(crate) fn may_be_network(kind: c_int) -> bool {
    kind == 0 || kind & libc::CLONE_NEWNET != 0
}

/// `unshare(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    namespace::follow(flags as u64);
    libcs::unshare(flags)
}

/// `setns(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setns(fd: c_int, kind: c_int) -> c_int {
    if may_be_network(kind) {
        namespace::may_differ();
    }
    libcs::setns(fd, kind)
}
