//! The first 16 bytes of an expected frame, as two words: the Ethernet header and the
//! first two bytes of the IP header.
//!
//! Owns [`Start`], which is part of [`CachedHeaders4`](crate::tcp4::CachedHeaders4) and
//! [`CachedHeaders6`](crate::tcp6::CachedHeaders6).

use crate::bytes::array;
use crate::ethernet;

/// The two words. On a link without a link header it is replaced by zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start([u64; 2]);

impl Start {
    /// Matches no packet: version 0.
    pub(crate) const NONE: Self = Self([0; 2]);

    /// The start of a packet that begins with `first`, after the header `link`.
    #[inline(always)]
    pub(crate) fn new(link: &[u8; ethernet::HEADER_LEN], first: [u8; 2]) -> Self {
        let [c, d, e, f, g, h] = array(link, 8);
        let [version, service] = first;
        Self([
            u64::from_ne_bytes(array(link, 0)),
            u64::from_ne_bytes([c, d, e, f, g, h, version, service]),
        ])
    }

    /// The packet in a frame that begins like this, without the link header; `bare` if
    /// the link has none. A packet has at least `LEN` bytes, and `FRAME` with that
    /// header.
    #[inline(always)]
    pub(crate) fn packet_of<'a, const LEN: usize, const FRAME: usize>(
        &self,
        frame: &'a [u8],
        bare: bool,
    ) -> Option<&'a [u8]> {
        const { assert!(LEN >= 2 && FRAME == ethernet::HEADER_LEN + LEN) };
        if bare {
            let b: &[u8; LEN] = frame.first_chunk()?;
            let last = self.0[1].to_ne_bytes();
            return (array(b, 0) == [last[6], last[7]]).then_some(frame);
        }
        let b: &[u8; FRAME] = frame.first_chunk()?;
        let words = [
            u64::from_ne_bytes(array(b, 0)),
            u64::from_ne_bytes(array(b, 8)),
        ];
        if words[0] != self.0[0] || words[1] != self.0[1] {
            return None;
        }
        frame.get(ethernet::HEADER_LEN..)
    }
}
