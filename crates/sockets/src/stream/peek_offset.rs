//! SO_PEEK_OFF: where calls with MSG_PEEK begin to look, in bytes behind what was read. It
//! moves on with each such call, and back with what is read, as Linux has it (socket(7)).
//!
//! It stands in the upper half of the word of [`more_bits`](crate::block_words::more_bits), one
//! more than it is, and 0 while it is off.

use crate::errors::SocketError;
use crate::holds::Socket;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

const SHIFT: u32 = u32::BITS;
const LOWER: u64 = u32::MAX as u64;
/// The largest that Linux keeps.
const MOST: u64 = i32::MAX as u64;

fn decode(word: u64) -> Option<u32> {
    ((word >> SHIFT) as u32).checked_sub(1)
}

fn encode(word: u64, offset: Option<u64>) -> u64 {
    let upper = offset.map_or(0, |offset| offset.min(MOST) + 1);
    word & LOWER | upper << SHIFT
}

impl Socket {
    /// Where calls with MSG_PEEK begin to look, if that was set.
    #[inline]
    pub fn peek_offset(&self) -> Option<u32> {
        decode(self.block().more_bits().load(Ordering::Relaxed))
    }

    /// Sets it, or turns it off.
    pub fn set_peek_offset(&self, offset: Option<u32>) {
        self.change_peek_offset(|_| offset.map(u64::from));
    }

    /// A call with MSG_PEEK has looked at so many bytes.
    pub fn note_peeked(&self, len: usize) {
        self.move_peek_offset(|offset| offset.saturating_add(len as u64));
    }

    /// So many bytes were read, and are not there any more.
    #[inline]
    pub fn note_consumed(&self, len: usize) {
        self.move_peek_offset(|offset| offset.saturating_sub(len as u64));
    }

    #[inline]
    fn move_peek_offset(&self, to: impl Fn(u64) -> u64) {
        if self.peek_offset().is_some() {
            self.change_peek_offset(|offset| offset.map(|offset| to(offset.into())));
        }
    }

    fn change_peek_offset(&self, to: impl Fn(Option<u32>) -> Option<u64>) {
        let word = self.block().more_bits();
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            Some(encode(word, to(decode(word))))
        });
    }

    /// Copies out what lies behind the first `offset` bytes of a receive stream, and leaves
    /// it there; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`Socket::peek`]; [`SocketError::WouldBlock`] if there is no more than `offset`.
    pub(super) fn peek_from(
        &self,
        offset: usize,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<usize, SocketError> {
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().max(1);
        let mut is_over = false;
        loop {
            let peeked = self.look(offset.saturating_add(wanted), true)?;
            if peeked.len() > offset {
                let mut at = offset;
                for part in parts {
                    let fits = part.len().min(peeked.len() - at);
                    peeked.read_at(at, &mut part[..fits])?;
                    at += fits;
                }
                drop(peeked);
                self.note_peeked(at - offset);
                return Ok(at - offset);
            }
            if is_over {
                return Ok(0);
            }
            self.end_of_stream()?;
            // It may have come after we looked, and bytes before it.
            is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_leaves_the_bits_beside_it_alone() {
        let bits = 0x1ff;
        assert_eq!(decode(bits), None);
        for offset in [0, 1, MOST] {
            let word = encode(bits, Some(offset));
            assert_eq!(decode(word), Some(offset as u32));
            assert_eq!(word & LOWER, bits);
            assert_eq!(encode(word, None), bits);
        }
        assert_eq!(decode(encode(0, Some(u64::MAX))), Some(MOST as u32));
    }
}
