//! Whether this kernel lets pages of a program be exchanged (`longshore run --zero-copy`).
//!
//! The shim asks the kernel what the program has mapped where before it maps anything over it
//! (PROCMAP_QUERY, since Linux 6.11); where it gets no answer it copies. Called by `run`, so that
//! who has asked for an exchange is told that there is none.

use crate::errors::{Error, system};
use crate::log::say;
use longshore_hostif::zero_copy::ZeroCopy;
use std::fs::File;
use std::os::fd::AsRawFd;

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`, whose structure has 104 bytes.
const PROCMAP_QUERY: u64 = 3 << 30 | 104 << 16 | 0x66 << 8 | 17;

/// Says, or returns as an error, that nothing will be exchanged although it was asked for.
///
/// # Errors
/// [`Error::ZeroCopyOfKernel`], if pages were to be exchanged always.
pub(crate) fn check(wanted: ZeroCopy) -> Result<(), Error> {
    if wanted == ZeroCopy::Never || is_known(PROCMAP_QUERY)? {
        return Ok(());
    }
    if wanted == ZeroCopy::Always {
        return Err(Error::ZeroCopyOfKernel);
    }
    say("warning: --zero-copy auto: all is copied, since page exchange needs Linux 6.11");
    Ok(())
}

/// Whether the kernel knows this request of the maps of a process.
fn is_known(request: u64) -> Result<bool, Error> {
    let maps = File::open("/proc/self/maps").map_err(system("open /proc/self/maps"))?;
    // SAFETY: the request is given no structure, so the kernel writes nothing. One that knows it
    // finds none there (EFAULT), any other knows no such request (ENOTTY).
    let answer = unsafe { libc::ioctl(maps.as_raw_fd(), request as _, 0) };
    let error = std::io::Error::last_os_error().raw_os_error();
    Ok(answer == 0 || error == Some(libc::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_no_kernel_knows_is_not_known() {
        assert!(!is_known(PROCMAP_QUERY + 100).unwrap());
    }
}
