//! C's buffers and lists of them as slices. Empty buffers, which may have no
//! address, are left out.
//!
//! A kernel finds out that a pointer is bad when it copies. We would die of it,
//! so pointers to where no program has memory are refused (EFAULT) before: the
//! page at zero, with what is small enough to be an offset from a null pointer,
//! all that is not the program's half of the address space, and pages that the
//! program has not, or not for this (`pages`).

use crate::pages::{self, Known};
use crate::results::refused;
use crate::user::{Buffer, In, Out, Pointer};
use libc::c_void;
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

/// So many bytes are asked for, as many as a structure has: a buffer may be said to be longer than it
/// is where less is moved.
const ASKED_FOR: usize = 256;

/// Whether the program has `len` bytes of memory there that may be read.
#[inline]
pub(crate) fn can_be_read(at: impl Pointer, len: usize) -> bool {
    is_there(at.address(), len, &pages::READABLE)
}

/// Whether they may be written.
#[inline]
pub(crate) fn can_be_written(at: impl Pointer, len: usize) -> bool {
    is_there(at.address(), len, &pages::WRITABLE)
}

#[inline]
fn is_there(at: usize, len: usize, known: &Known) -> bool {
    let asked_for = len.min(ASKED_FOR);
    let is_known = known.has(at, asked_for);
    is_known && len <= ASKED_FOR || is_found(at, len, is_known, known)
}

/// As `is_there`, where not all is known, or there is more.
fn is_found(at: usize, len: usize, is_known: bool, known: &Known) -> bool {
    const ROOM: usize = HIGHEST - LOWEST;
    // An address below wraps to one far above.
    let is_programs = len <= ROOM && at.wrapping_sub(LOWEST) <= ROOM - len;
    is_programs && (is_known || len == 0 || known.is_told(at, len.min(ASKED_FOR)))
}

/// Refuses a pointer to what cannot be read.
///
/// # Errors
/// EFAULT.
#[inline]
pub(crate) fn check(at: impl Pointer, len: usize) -> Result<(), SocketError> {
    refuse_unless(can_be_read(at, len))
}

/// Refuses a pointer to what cannot be written.
///
/// # Errors
/// EFAULT.
#[inline]
pub(crate) fn check_room(at: impl Pointer, len: usize) -> Result<(), SocketError> {
    refuse_unless(can_be_written(at, len))
}

#[inline]
fn refuse_unless(is_there: bool) -> Result<(), SocketError> {
    if is_there {
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
pub(crate) fn sources<'a>(
    iov: In<'a, Buffer<'a>>,
    count: usize,
    too_many: i32,
) -> Result<Vec<IoSlice<'a>>, SocketError> {
    let filled = list(iov, count, too_many)?
        .iter()
        .filter(|v| v.iov_len != 0);
    filled
        .map(|v| source(v.iov_base.as_in(), v.iov_len))
        .collect()
}

/// As `sources`, to be filled.
///
/// # Errors
/// As [`sources`].
pub(crate) fn sinks<'a>(
    iov: In<'a, Buffer<'a>>,
    count: usize,
    too_many: i32,
) -> Result<Vec<IoSliceMut<'a>>, SocketError> {
    let filled = list(iov, count, too_many)?
        .iter()
        .filter(|v| v.iov_len != 0);
    filled.map(|v| sink(v.iov_base, v.iov_len)).collect()
}

fn list<'a>(
    iov: In<'a, Buffer<'a>>,
    count: usize,
    too_many: i32,
) -> Result<&'a [Buffer<'a>], SocketError> {
    match count {
        0 => return Ok(&[]),
        1..=MOST => check(iov, count * size_of::<Buffer<'_>>())?,
        _ => return Err(refused(too_many)),
    }
    let list = iov.slice(count);
    if list.iter().any(|v| isize::try_from(v.iov_len).is_err()) {
        return Err(refused(libc::EINVAL));
    }
    Ok(list)
}

/// One buffer.
///
/// # Errors
/// EFAULT.
pub(crate) fn source(base: In<'_, c_void>, len: usize) -> Result<IoSlice<'_>, SocketError> {
    let len = len.min(MOST_BYTES);
    if len != 0 {
        check(base, len)?;
    }
    Ok(IoSlice::new(base.cast().slice(len)))
}

/// One buffer to be filled.
///
/// # Errors
/// EFAULT.
pub(crate) fn sink(base: Out<'_, c_void>, len: usize) -> Result<IoSliceMut<'_>, SocketError> {
    let len = len.min(MOST_BYTES);
    if len != 0 {
        check_room(base, len)?;
    }
    Ok(IoSliceMut::new(base.cast().slice_mut(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn a_pointer_with_a_tag_leads_to_where_it_does_without() {
        let mut byte = 7_u8;
        let at = &raw mut byte;
        let tagged = at.map_addr(|address| address | 0xa5 << 56);
        assert!(can_be_read(tagged, 1) && can_be_written(tagged, 1));
        let nowhere: *mut u8 = std::ptr::without_provenance_mut(0xa5 << 56 | 8);
        assert!(!can_be_read(nowhere, 1));
    }

    #[test]
    fn the_kernels_half_is_nobodys() {
        let there: *const u8 = std::ptr::without_provenance(HIGHEST);
        assert!(!can_be_read(there, 1));
    }
}
