//! `shutdown`.

use crate::calls::{answer, refused};
use crate::{fds, real};
use libc::c_int;
use longshore_sockets::Half;

/// `shutdown(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if !fds::is_engines(fd) {
        return real::shutdown(fd, how);
    }
    answer(|| {
        let socket = fds::engine_or_closed(fd)?;
        let half = match how {
            libc::SHUT_RD => Half::Read,
            libc::SHUT_WR => Half::Write,
            libc::SHUT_RDWR => Half::Both,
            _ => return Err(refused(libc::EINVAL)),
        };
        if socket.has_kernel_side() {
            real::shutdown(fd, how);
        }
        socket.shutdown(half)?;
        Ok(0)
    })
}
