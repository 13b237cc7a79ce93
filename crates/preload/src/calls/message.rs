//! The parts of a message of `sendmsg` and `recvmsg`, as C has passed it.

use crate::user::{In, Out};
use libc::{iovec, msghdr, sockaddr};

/// Where the name goes.
pub(crate) fn name_of<'a>(m: &msghdr) -> Out<'a, sockaddr> {
    // SAFETY: of a message that C has passed, which promises as much for its parts.
    unsafe { Out::new(m.msg_name.cast()) }
}

/// The list of buffers.
pub(crate) fn iov_of<'a>(m: &msghdr) -> In<'a, iovec> {
    // SAFETY: as above.
    unsafe { In::new(m.msg_iov) }
}
