//! Where the bytes of a stream lie.

use crate::abi::CHUNK;
use std::ops::Range;

/// Bytes of a send stream that are gathered at once, at most.
pub const MAX_GATHERED: usize = 4 * CHUNK;

/// Where the bytes `range` of a stream lie: the chunk's number in the
/// stream, the offset in it and the length.
pub(super) fn spans(range: Range<u64>) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let within = (at % CHUNK as u64) as usize;
        let len = ((range.end - at) as usize).min(CHUNK - within);
        let number = at / CHUNK as u64;
        at += len as u64;
        Some((number, within, len))
    })
}
