//! The completion that carries payload: the last bytes of a receive stream beside its edge.
//!
//! It takes one message, and one more for each 64 bytes that do not fit beside its fields.
//! Whoever takes it off the ring writes the bytes to the chunk that it names, and then
//! applies its edges. The adapter does not use that chunk for anything else until it was
//! taken, so the one who takes it need not ask whether the bytes are still wanted.

use super::codec::{kind, word1};
use super::{EdgeFlags, SocketId};
use crate::abi::CHUNK;
use longshore_ring::spsc::Message;

/// Where in the first message the payload begins.
pub(crate) const DATA_AT: usize = 24;
/// Bytes of payload beside the fields.
const INSIDE: usize = FURTHER - DATA_AT;
/// Bytes of each further message.
const FURTHER: usize = size_of::<Message>();
/// Further messages that there can be.
const MOST_FURTHER: usize = 21;
/// Most bytes of payload in one such completion.
pub const MOST_DATA: usize = INSIDE + MOST_FURTHER * FURTHER;

/// Bits of [`Data::rcv_edge`], of [`Data::len`] and of [`Data::chunk`].
const EDGE_BITS: u32 = 48;
const LEN_BITS: u32 = 11;
const CHUNK_BITS: u32 = 21;

/// The fields of the completion. The edge of the send stream is cut to its lower half, which
/// [`Data::snd_acked`] makes whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    /// The socket whose streams they are.
    pub(crate) socket: SocketId,
    /// What else happened: no error.
    pub(crate) flags: EdgeFlags,
    /// The receive stream reaches this far, below 2^48. The payload ends there.
    pub(crate) rcv_edge: u64,
    /// How far the send stream is acknowledged, modulo 2^32.
    pub(crate) snd_acked: u32,
    /// Bytes of payload, 1 to [`MOST_DATA`], within one part of the stream of a chunk's size.
    pub(crate) len: u16,
    /// The chunk of the receive slab where they belong, below 2^21.
    pub(crate) chunk: u32,
}

impl Data {
    /// Whether it can be told so.
    pub(crate) fn fits(&self) -> bool {
        let len = u64::from(self.len);
        let fits = (1..=MOST_DATA as u64).contains(&len)
            && self.rcv_edge >> EDGE_BITS == 0
            && self.chunk >> CHUNK_BITS == 0;
        // All in one chunk.
        fits && len <= self.rcv_edge && self.within() + usize::from(self.len) <= CHUNK
    }

    /// Where in the chunk the payload begins.
    pub(crate) fn within(&self) -> usize {
        let from = self.rcv_edge - u64::from(self.len);
        from as usize % CHUNK
    }

    /// Messages that so many bytes of payload take.
    pub(crate) fn messages(len: usize) -> u32 {
        1 + len.saturating_sub(INSIDE).div_ceil(FURTHER) as u32
    }

    /// Words that it takes with so many bytes of payload.
    pub(crate) fn words(len: usize) -> u32 {
        (DATA_AT + len).div_ceil(8) as u32
    }

    /// How far the send stream is acknowledged, of which `written` bytes are written: those
    /// that are not acknowledged are fewer than 2^32.
    pub(crate) fn acked(&self, written: u64) -> u64 {
        let unacked = (written as u32).wrapping_sub(self.snd_acked);
        written.saturating_sub(unacked.into())
    }

    /// The words of its first message before the payload.
    pub(crate) fn fields(&self) -> [u64; DATA_AT / 8] {
        let len = u64::from(self.len) << u32::BITS;
        let chunk = u64::from(self.chunk) << (u32::BITS + LEN_BITS);
        [
            u64::from(kind::DATA) | u64::from(self.flags.bits() as u8) << 8 | self.rcv_edge << 16,
            word1(self.socket),
            u64::from(self.snd_acked) | len | chunk,
        ]
    }

    /// Reads its first message; `None` if it is none, or one that cannot be.
    pub(crate) fn decode(m: &Message) -> Option<Self> {
        if m[0] as u8 != kind::DATA {
            return None;
        }
        let data = Self {
            socket: SocketId {
                index: m[1] as u32,
                generation: (m[1] >> 32) as u32,
            },
            flags: EdgeFlags::from_bits_retain(u16::from((m[0] >> 8) as u8)),
            rcv_edge: m[0] >> 16,
            snd_acked: m[2] as u32,
            len: (m[2] >> u32::BITS) as u16 & ((1 << LEN_BITS) - 1),
            chunk: (m[2] >> (u32::BITS + LEN_BITS)) as u32,
        };
        data.fits().then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(len: usize) -> Data {
        Data {
            socket: SocketId {
                index: 7,
                generation: 9,
            },
            flags: EdgeFlags::CONNECTED,
            rcv_edge: 3 * CHUNK as u64 + len as u64,
            snd_acked: 5,
            len: len as u16,
            chunk: 11,
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            index: u32, generation: u32, flags: u8, snd_acked: u32,
            end in 1u64..1 << EDGE_BITS, chunk in 0u32..1 << CHUNK_BITS,
            len in 1..=MOST_DATA,
        ) {
            let data = Data {
                socket: SocketId { index, generation },
                flags: EdgeFlags::from_bits_retain(flags.into()),
                rcv_edge: end,
                snd_acked,
                len: len as u16,
                chunk,
            };
            let mut first = [0; 8];
            first[..DATA_AT / 8].copy_from_slice(&data.fields());
            prop_assert_eq!(Data::decode(&first), data.fits().then_some(data));
        }

        #[test]
        fn any_message_is_survived(message: [u64; 8]) {
            if let Some(data) = Data::decode(&message) {
                prop_assert!(data.within() + usize::from(data.len) <= CHUNK);
            }
        }
    }

    #[test]
    fn the_acknowledged_edge_is_made_whole() {
        for acked in [0, 1, u64::from(u32::MAX), 1 << 32, (5 << 32) + 3] {
            for unacked in [0, 1, 1 << 31] {
                let data = Data {
                    snd_acked: acked as u32,
                    ..data(1)
                };
                assert_eq!(data.acked(acked + unacked), acked);
            }
        }
    }

    #[test]
    fn what_lies_in_two_chunks_or_too_far_is_refused() {
        assert!(data(MOST_DATA).fits() && !data(0).fits() && !data(MOST_DATA + 1).fits());
        let across = Data {
            rcv_edge: 3 * CHUNK as u64 + 1,
            ..data(2)
        };
        assert!(!across.fits());
        for far in [
            Data {
                rcv_edge: (1 << EDGE_BITS) + 1,
                ..data(1)
            },
            Data {
                chunk: 1 << CHUNK_BITS,
                ..data(1)
            },
        ] {
            assert!(!far.fits());
        }
    }
}
