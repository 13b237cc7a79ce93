//! `mlockall`, which would otherwise fill the arena; `madvise` and `mremap`, which treat
//! buffers whose pages were exchanged (`page_exchange`) as other memory; `mprotect`, which does
//! not come between. After `mprotect`, `munmap` and `mremap` what is known of the pages is forgotten
//! (`pages`).
//!
//! The arena is some gigabytes of address space of which only the pages in use
//! have memory behind them. Locking all that a program maps would put memory
//! behind all of it, at once.

use crate::kernel;
use crate::pages::page_size;
use crate::results::set_errno;
use crate::user::{Out, Pointer};
use crate::{page_exchange, pages as known, real};
use libc::{c_int, c_long, c_void, size_t};
use std::ops::Range;

/// `mlockall(2)`, with each page locked when it is first touched and not
/// before. What was locked is never paged out, as promised; what is touched for
/// the first time faults once.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mlockall(flags: c_int) -> c_int {
    let flags = if flags & (libc::MCL_CURRENT | libc::MCL_FUTURE) != 0 {
        flags | libc::MCL_ONFAULT as c_int
    } else {
        flags
    };
    real::mlockall(flags)
}

/// The addresses of so many bytes, in whole pages.
fn pages(at: Out<'_, c_void>, len: size_t) -> Range<usize> {
    let start = at.address();
    start..start.saturating_add(len.next_multiple_of(page_size()))
}

/// What the kernel says, as libc would; allocators call these, so without libc, which may
/// allocate to find its own functions.
fn done(result: c_long) -> c_long {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

/// As `done`, of a call after which these pages are not what they were known as.
fn done_to(at: Out<'_, c_void>, len: size_t, result: c_long) -> c_long {
    known::forget(&pages(at, len));
    done(result)
}

/// `madvise(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn madvise(at: Out<'_, c_void>, len: size_t, advice: c_int) -> c_int {
    advise(at, len, advice) as c_int
}

/// What `madvise` does and returns. These four are apart from the functions of libc's names, for
/// `syscall`: a library that wants to know of each call (UCX's) overwrites how those begin with a jump
/// into its own, and reaches what they did by `syscall`.
#[inline(always)]
pub(crate) fn advise(at: Out<'_, c_void>, len: size_t, advice: c_int) -> c_long {
    let empties = matches!(
        advice,
        libc::MADV_DONTNEED | libc::MADV_DONTNEED_LOCKED | libc::MADV_FREE
    );
    if empties && page_exchange::is_used() && at.address().is_multiple_of(page_exchange::PAGE) {
        page_exchange::empty(&pages(at, len));
    }
    done(kernel::madvise(at, len, advice))
}

/// `mprotect(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mprotect(at: Out<'_, c_void>, len: size_t, how: c_int) -> c_int {
    protect(at, len, how) as c_int
}

/// What `mprotect` does, not while the pages are exchanged: they would be writable after it.
#[inline(always)]
pub(crate) fn protect(at: Out<'_, c_void>, len: size_t, how: c_int) -> c_long {
    let stopped = page_exchange::is_used().then(page_exchange::stop);
    let result = kernel::mprotect(at, len, how);
    drop(stopped);
    done_to(at, len, result)
}

/// `munmap(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn munmap(at: Out<'_, c_void>, len: size_t) -> c_int {
    unmap(at, len) as c_int
}

/// What `munmap` does.
#[inline(always)]
pub(crate) fn unmap(at: Out<'_, c_void>, len: size_t) -> c_long {
    done_to(at, len, kernel::munmap(at, len))
}

/// `mremap(2)`. It takes its last argument as a variadic one; on this architecture that comes
/// in the same place.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mremap(
    at: Out<'_, c_void>,
    len: size_t,
    new_len: size_t,
    flags: c_int,
    to: Out<'_, c_void>,
) -> *mut c_void {
    remap(at, len, new_len, flags, to) as *mut c_void
}

/// What `mremap` does.
#[inline(always)]
pub(crate) fn remap(
    at: Out<'_, c_void>,
    len: size_t,
    new_len: size_t,
    flags: c_int,
    to: Out<'_, c_void>,
) -> c_long {
    if page_exchange::is_used() && at.address().is_multiple_of(page_exchange::PAGE) {
        page_exchange::make_plain(&pages(at, len));
    }
    done_to(at, len, kernel::mremap(at, len, new_len, flags, to))
}
