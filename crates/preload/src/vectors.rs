//! C's lists of buffers as slices. Empty buffers, which may have no address,
//! are left out.

use libc::iovec;
use std::io::{IoSlice, IoSliceMut};

/// Most buffers in a list (IOV_MAX).
pub(crate) const MOST: usize = 1024;

/// The buffers of a list, or `None` if it is longer than Linux takes.
///
/// # Safety
/// `iov` points to `count` buffers that may be read for as long as the result
/// is used.
pub(crate) unsafe fn sources<'a>(iov: *const iovec, count: usize) -> Option<Vec<IoSlice<'a>>> {
    // SAFETY: the caller's promise.
    let list = unsafe { list(iov, count)? };
    let filled = list
        .iter()
        .filter(|v| v.iov_len != 0 && !v.iov_base.is_null());
    // SAFETY: as above.
    Some(
        filled
            .map(|v| unsafe { source(v.iov_base, v.iov_len) })
            .collect(),
    )
}

/// The same, to be filled.
///
/// # Safety
/// As [`sources`], and they may be written to and do not overlap.
pub(crate) unsafe fn sinks<'a>(iov: *const iovec, count: usize) -> Option<Vec<IoSliceMut<'a>>> {
    // SAFETY: the caller's promise.
    let list = unsafe { list(iov, count)? };
    let filled = list
        .iter()
        .filter(|v| v.iov_len != 0 && !v.iov_base.is_null());
    // SAFETY: as above.
    Some(
        filled
            .map(|v| unsafe { sink(v.iov_base, v.iov_len) })
            .collect(),
    )
}

unsafe fn list<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    match count {
        0 => Some(&[]),
        1..=MOST if !iov.is_null() => {
            // SAFETY: the caller's promise.
            Some(unsafe { std::slice::from_raw_parts(iov, count) })
        }
        _ => None,
    }
}

/// One buffer.
///
/// # Safety
/// `base` points to `len` readable bytes, or `len` is 0.
pub(crate) unsafe fn source<'a>(base: *const libc::c_void, len: usize) -> IoSlice<'a> {
    if len == 0 || base.is_null() {
        return IoSlice::new(&[]);
    }
    // SAFETY: the caller's promise.
    IoSlice::new(unsafe { std::slice::from_raw_parts(base.cast(), len) })
}

/// One buffer to be filled.
///
/// # Safety
/// `base` points to `len` writable bytes, or `len` is 0.
pub(crate) unsafe fn sink<'a>(base: *mut libc::c_void, len: usize) -> IoSliceMut<'a> {
    if len == 0 || base.is_null() {
        return IoSliceMut::new(&mut []);
    }
    // SAFETY: the caller's promise.
    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(base.cast(), len) })
}
