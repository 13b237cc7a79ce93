//! C's buffers and lists of them as slices. Empty buffers, which may have no
//! address, are left out.
//!
//! A kernel finds out that a pointer is bad when it copies. We would die of it,
//! so pointers to where no program has memory are refused (EFAULT) before: the
//! page at zero, with what is small enough to be an offset from a null pointer,
//! and all that is not the program's half of the address space.

use crate::calls::refused;
use libc::{c_void, iovec};
use longshore_sockets::SocketError;
use std::io::{IoSlice, IoSliceMut};

/// Most buffers in a list (IOV_MAX).
pub(crate) const MOST: usize = 1024;
/// Most bytes that Linux moves in one call (MAX_RW_COUNT): it does no more, and
/// says so.
const MOST_BYTES: usize = 0x7fff_f000;
/// Below this address there is no memory.
const LOWEST: usize = 4096;
/// Nor above this one: 47 bits on x86-64, up to 52 elsewhere.
const HIGHEST: usize = if cfg!(target_arch = "x86_64") {
    1 << 47
} else {
    1 << 52
};

/// Refuses a pointer to where no program has memory.
///
/// # Errors
/// EFAULT.
#[inline]
pub(crate) fn check<T>(at: *const T, len: usize) -> Result<(), SocketError> {
    let start = at as usize;
    let inside = start >= LOWEST && start.checked_add(len).is_some_and(|end| end <= HIGHEST);
    if inside {
        Ok(())
    } else {
        Err(refused(libc::EFAULT))
    }
}

/// The buffers of a list; `too_many` is the errno for one that is longer than
/// Linux takes.
///
/// # Errors
/// `too_many`, EINVAL for a length that is none, EFAULT.
///
/// # Safety
/// `iov` points to `count` buffers that may be read for as long as the result
/// is used.
pub(crate) unsafe fn sources<'a>(
    iov: *const iovec,
    count: usize,
    too_many: i32,
) -> Result<Vec<IoSlice<'a>>, SocketError> {
    // SAFETY: the caller's promise.
    let list = unsafe { list(iov, count, too_many)? };
    let filled = list.iter().filter(|v| v.iov_len != 0);
    // SAFETY: as above.
    filled
        .map(|v| unsafe { source(v.iov_base, v.iov_len) })
        .collect()
}

/// The same, to be filled.
///
/// # Errors
/// As [`sources`].
///
/// # Safety
/// As [`sources`], and they may be written to and do not overlap.
pub(crate) unsafe fn sinks<'a>(
    iov: *const iovec,
    count: usize,
    too_many: i32,
) -> Result<Vec<IoSliceMut<'a>>, SocketError> {
    // SAFETY: the caller's promise.
    let list = unsafe { list(iov, count, too_many)? };
    let filled = list.iter().filter(|v| v.iov_len != 0);
    // SAFETY: as above.
    filled
        .map(|v| unsafe { sink(v.iov_base, v.iov_len) })
        .collect()
}

unsafe fn list<'a>(
    iov: *const iovec,
    count: usize,
    too_many: i32,
) -> Result<&'a [iovec], SocketError> {
    match count {
        0 => return Ok(&[]),
        1..=MOST => check(iov, count * size_of::<iovec>())?,
        _ => return Err(refused(too_many)),
    }
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(iov, count) };
    if list.iter().any(|v| isize::try_from(v.iov_len).is_err()) {
        return Err(refused(libc::EINVAL));
    }
    Ok(list)
}

/// One buffer.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// `base` points to `len` readable bytes, or to nowhere, or `len` is 0.
pub(crate) unsafe fn source<'a>(
    base: *const c_void,
    len: usize,
) -> Result<IoSlice<'a>, SocketError> {
    if len == 0 {
        return Ok(IoSlice::new(&[]));
    }
    let len = len.min(MOST_BYTES);
    check(base, len)?;
    // SAFETY: the caller's promise.
    Ok(IoSlice::new(unsafe {
        std::slice::from_raw_parts(base.cast(), len)
    }))
}

/// One buffer to be filled.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// `base` points to `len` writable bytes, or to nowhere, or `len` is 0.
pub(crate) unsafe fn sink<'a>(
    base: *mut c_void,
    len: usize,
) -> Result<IoSliceMut<'a>, SocketError> {
    if len == 0 {
        return Ok(IoSliceMut::new(&mut []));
    }
    let len = len.min(MOST_BYTES);
    check(base, len)?;
    // SAFETY: the caller's promise.
    Ok(IoSliceMut::new(unsafe {
        std::slice::from_raw_parts_mut(base.cast(), len)
    }))
}
