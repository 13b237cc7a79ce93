//! Payload that leaves from where its host wrote it.
//!
//! The one place where memory that a program may write at any moment becomes slices: for
//! ports, which hand them to the kernel, for checksums, and for copies. `stack` calls it.

use longshore_ring::SharedBytes;
use std::io::IoSlice;

/// Pieces of a payload, for a port, a checksum or a copy. Nobody decides anything by the bytes,
/// which may be others at each look.
#[inline(always)]
#[must_use]
pub fn in_place<'b, 'a>(pieces: &'b [SharedBytes<'a>]) -> &'b [IoSlice<'a>] {
    // SAFETY: all that takes them passes the bytes to the kernel, or copies or sums each once:
    // a checksum that is wrong by then is the program's own harm.
    unsafe { SharedBytes::io_slices(pieces) }
}
