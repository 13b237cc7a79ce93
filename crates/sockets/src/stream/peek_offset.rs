//! SO_PEEK_OFF: where calls with MSG_PEEK begin to look, in bytes behind what was read. It
//! moves on with each such call, and back with what is read, as Linux has it (socket(7)).
//!
//! It stands in the upper bits of the word of [`more_bits`](crate::block_words::more_bits), one
//! more than it is, and 0 while it is off.

use crate::block_words::more_bits::PEEK_OFFSET_SHIFT as SHIFT;
use crate::holds::Socket;
use longshore_hostif::STREAM_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

const LOWER: u64 = (1 << SHIFT) - 1;
/// The largest that is kept. Linux keeps larger ones, up to 2^31 - 1: nothing lies there.
const MOST: u64 = (u64::MAX >> SHIFT) - 1;
const _: () = assert!(STREAM_MAX <= MOST);

fn decode(word: u64) -> Option<u32> {
    ((word >> SHIFT) as u32).checked_sub(1)
}

fn encode(word: u64, offset: Option<u64>) -> u64 {
    let upper = offset.map_or(0, |offset| offset.min(MOST) + 1);
    word & LOWER | upper << SHIFT
}

/// Where calls with MSG_PEEK on a socket begin to look.
#[derive(Debug, Clone, Copy)]
pub struct PeekOffset<'a> {
    word: &'a AtomicU64,
}

impl<'a> PeekOffset<'a> {
    #[inline]
    pub(crate) fn of(socket: &'a Socket) -> Self {
        let word = socket.block().more_bits();
        Self { word }
    }

    /// Bytes behind what was read, if that was set.
    #[inline]
    pub fn get(self) -> Option<u32> {
        decode(self.word.load(Ordering::Relaxed))
    }

    /// Sets it, or turns it off.
    pub fn set(self, offset: Option<u32>) {
        self.change(|_| offset.map(u64::from));
    }

    /// A call with MSG_PEEK has looked at so many bytes.
    pub fn note_peeked(self, len: usize) {
        self.move_if_on(|offset| offset.saturating_add(len as u64));
    }

    /// So many bytes were read, and are not there any more.
    #[inline]
    pub fn note_consumed(self, len: usize) {
        self.move_if_on(|offset| offset.saturating_sub(len as u64));
    }

    #[inline]
    fn move_if_on(self, to: impl Fn(u64) -> u64) {
        if self.get().is_some() {
            self.change(|offset| offset.map(|offset| to(offset.into())));
        }
    }

    fn change(self, to: impl Fn(Option<u32>) -> Option<u64>) {
        let _ = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                Some(encode(word, to(decode(word))))
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_leaves_the_bits_beside_it_alone() {
        let bits = LOWER;
        assert_eq!(decode(bits), None);
        for offset in [0, 1, MOST] {
            let word = encode(bits, Some(offset));
            assert_eq!(decode(word), Some(offset as u32));
            assert_eq!(word & LOWER, bits);
            assert_eq!(encode(word, None), bits);
        }
        assert_eq!(decode(encode(0, Some(u64::MAX))), Some(MOST as u32));
    }

    /// All that the host keeps of a socket stands below it.
    #[test]
    fn no_other_bit_is_among_those_of_the_offset() {
        use crate::block_words::more_bits::*;
        let others = [
            CORKED,
            UNFINISHED,
            TIMESTAMP,
            TIMESTAMP_NS,
            DROPS,
            DESTINATION,
            DESTINATION6,
            LEFT,
            ZERO_COPY,
            ASKS_FOR_ERRORS,
            IS_TAKEN,
            IS_SPENT,
            HAS_LISTENED,
            IS_REPLACED,
            V6_ONLY,
            LAST_ARRIVAL,
            BY_LOOPBACK,
            BY_LINK,
            ADDRESS_ALONE,
            GROUPS_BY_LOOPBACK,
            GROUPS6_BY_LOOPBACK,
            WITHOUT_PORT,
            TIMESTAMPING,
        ];
        let mut all = 0;
        for bits in others {
            assert_eq!(bits & all, 0, "{bits:x}");
            all |= bits;
        }
        assert_eq!(all & !LOWER, 0);
    }
}
