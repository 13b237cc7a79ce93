//! Chunks that lie in two streams: what one socket of a session has written, another reads
//! where it lies.
//!
//! An entry of a receive directory names a chunk of the receive slab, or, with a bit, one of
//! the send slab, which the other end's send stream keeps until it was read here.

/// In an entry of a receive directory: the chunk is one of the send slab.
const LENT: u32 = 1 << 31;

/// The entry for a chunk of the send slab.
pub(crate) fn lent_entry(chunk: u32) -> u32 {
    LENT | chunk
}

/// The chunk of the send slab that an entry names, if it names one.
#[inline]
pub(crate) fn lent_chunk(entry: u32) -> Option<u32> {
    (entry & LENT != 0).then_some(entry & !LENT)
}
