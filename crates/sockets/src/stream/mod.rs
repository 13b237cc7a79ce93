//! The two streams of a socket: bytes in shared chunks, and the edges that say
//! how far they reach.

mod commit;
mod file;
mod forward;
mod in_place;
mod kept;
mod peek_offset;
mod prepare;
mod recv;
mod send;
mod sending;
mod stamps;
mod urgent;

pub use file::{Appended, SharedFile};
pub use forward::{Forwarded, Forwarding, NotForwarded};
pub use in_place::MOST_PIECES_IN_PLACE;
pub use kept::{Keeping, KeptBytes, MOST_PIECES_KEPT};
pub use peek_offset::PeekOffset;
pub use prepare::{MOST_PREPARED, Prepared};
pub use recv::{Peeked, ReceiveStream};
pub use send::{Reserved, SendStream};
pub use sending::Sending;
pub use stamps::StampedWhen;
pub use urgent::UrgentData;

use crate::errors::SocketError;
use longshore_hostif::CHUNK;

/// Where byte `at` of a stream lies: its chunk's number and the offset in it.
fn split(at: u64) -> (u64, usize) {
    (at / CHUNK as u64, (at % CHUNK as u64) as usize)
}

/// Pieces that the bytes `from..to` of a stream lie in: chunk number, offset,
/// length.
fn spans(from: u64, to: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= to {
            return None;
        }
        let (number, within) = split(at);
        let len = (CHUNK - within).min((to - at) as usize);
        at += len as u64;
        Some((number, within, len))
    })
}

/// The places in memory of `len` bytes of a stream from `from` on, in order: `chunk` says
/// what its directory has for one, and `place` where that chunk's bytes lie.
fn places(
    from: u64,
    len: usize,
    chunk: impl Fn(u64) -> u32,
    place: impl Fn(u32, usize, usize) -> Option<usize>,
) -> impl Iterator<Item = Result<(usize, usize), SocketError>> {
    spans(from, from + len as u64).map(move |(number, within, len)| {
        let place = place(chunk(number), within, len);
        place.map(|p| (p, len)).ok_or(SocketError::Broken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_at_chunks() {
        let c = CHUNK as u64;
        let all: Vec<_> = spans(c - 3, 2 * c + 5).collect();
        assert_eq!(all, [(0, CHUNK - 3, 3), (1, 0, CHUNK), (2, 0, 5)]);
        assert_eq!(spans(7, 7).count(), 0);
    }
}
