//! Payload that is sent from where the host wrote it.
//!
//! This is the only place where memory that a program may write at any moment becomes
//! slices: for ports, which pass them to the kernel, for checksums, and for copies.
//! `stack` calls it.

use longshore_ring::SharedBytes;
use std::io::IoSlice;

/// Pieces of a payload, for a port, a checksum or a copy. No decision may depend on the
/// bytes, which may change between two accesses.
#[inline(always)]
#[must_use]
pub fn in_place<'b, 'a>(pieces: &'b [SharedBytes<'a>]) -> &'b [IoSlice<'a>] {
    // SAFETY: all users of the slices pass the bytes to the kernel, or copy or sum each
    // once; a checksum that is then wrong harms only the program itself.
    unsafe { SharedBytes::io_slices(pieces) }
}
