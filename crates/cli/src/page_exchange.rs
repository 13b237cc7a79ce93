//! Whether this kernel lets pages of a program be exchanged (`longshore run --zero-copy`).
//!
//! The shim asks the kernel what the program has mapped where before it maps anything over it
//! (PROCMAP_QUERY, since Linux 6.11); where it gets no answer it copies. Called by `run`, so that
//! who has asked for an exchange is told that there is none.

use crate::errors::{Error, system};
use crate::log::say;
use longshore_hostif::zero_copy::{ZERO_COPY_PAGE, ZeroCopy};
use rustix::ioctl::{Direction, Opcode, opcode};
use std::fs::File;
use std::os::fd::AsRawFd;

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`, whose structure has 104 bytes.
const PROCMAP_QUERY: Opcode = opcode::from_components(Direction::ReadWrite, b'f', 17, 104);

/// Says, or returns as an error, that nothing will be exchanged although it was asked for.
///
/// # Errors
/// [`Error::ZeroCopyOfKernel`], if pages were to be exchanged always; [`Error::ZeroCopyPages`].
pub(crate) fn check(wanted: ZeroCopy) -> Result<(), Error> {
    check_pages(wanted, rustix::param::page_size())?;
    if wanted == ZeroCopy::Never || is_known(PROCMAP_QUERY)? {
        return Ok(());
    }
    if wanted == ZeroCopy::Always {
        return Err(Error::ZeroCopyOfKernel);
    }
    say("warning: --zero-copy auto: all is copied, since page exchange needs Linux 6.11");
    Ok(())
}

/// Whether pages of `size` bytes, which are the kernel's, can be exchanged, if any are to be.
///
/// # Errors
/// [`Error::ZeroCopyPages`].
fn check_pages(asked_for: ZeroCopy, size: usize) -> Result<(), Error> {
    if asked_for != ZeroCopy::Never && size != ZERO_COPY_PAGE {
        return Err(Error::ZeroCopyPages(size));
    }
    Ok(())
}

/// Whether the kernel knows this request of the maps of a process.
fn is_known(request: Opcode) -> Result<bool, Error> {
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
    #[test]
    fn pages_of_another_size_are_not_exchanged() {
        for asked_for in [ZeroCopy::Always, ZeroCopy::Auto] {
            assert!(check_pages(asked_for, 4096).is_ok());
            let refusal = check_pages(asked_for, 65536).unwrap_err();
            assert!(refusal.to_string().contains("65536"), "{refusal}");
        }
        assert!(check_pages(ZeroCopy::Never, 65536).is_ok());
    }
}
