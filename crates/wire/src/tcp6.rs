//! A TCP segment over IPv6 with the same headers below TCP as the previous one.
//!
//! Owns [`CachedHeaders6`], the counterpart of
//! [`CachedHeaders4`](crate::tcp4::CachedHeaders4), with which the engine's fast path
//! compares packets. Other packets are parsed by [`Ipv6Header`](crate::ipv6::Ipv6Header),
//! which also reports errors.

use crate::bytes::{array, get16};
use crate::checksum::Partial;
use crate::ethernet;
use crate::ipv4::protocol;
use crate::ipv6::HEADER_LEN;
use crate::start::Start;
use crate::tcp;

/// The headers of IPv6 and TCP, without options.
const BOTH_LEN: usize = HEADER_LEN + tcp::HEADER_LEN;

/// The headers below TCP, and the ports, of a validated segment. The next one of its
/// connection differs only in length: there is no identification and no checksum, and all
/// packets of a flow have one flow label (RFC 6437 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedHeaders6 {
    /// Ethernet header (zeros on a link without one), version and most of the traffic
    /// class.
    start: Start,
    /// The rest of the flow label.
    label: u16,
    /// Next header and hop limit.
    inside: u16,
    addresses: [u64; 4],
    ports: u32,
}

impl CachedHeaders6 {
    /// Matches no packet of IPv6.
    pub const NONE: Self = Self {
        start: Start::NONE,
        label: 0,
        inside: 0,
        addresses: [0; 4],
        ports: 0,
    };

    /// The headers of a packet without extension headers that carries TCP; `link` is the
    /// Ethernet header before it, or zeros. `None` for another packet, or one that is too
    /// short.
    #[must_use]
    pub fn of(link: &[u8; ethernet::HEADER_LEN], packet: &[u8]) -> Option<Self> {
        let b: &[u8; BOTH_LEN] = packet.first_chunk()?;
        if b[0] >> 4 != 6 || b[6] != protocol::TCP {
            return None;
        }
        Some(Self {
            start: Start::new(link, [b[0], b[1]]),
            label: u16::from_ne_bytes(array(b, 2)),
            inside: u16::from_ne_bytes(array(b, 6)),
            addresses: addresses(b),
            ports: u32::from_ne_bytes(array(b, HEADER_LEN)),
        })
    }

    /// The segment in a frame with these headers, TCP header and payload; `None` for any
    /// other frame. Bytes beyond the packet's end are ignored. `bare` if the link has no
    /// header.
    #[inline(always)]
    #[must_use]
    pub fn segment_of<'a>(&self, frame: &'a [u8], bare: bool) -> Option<&'a [u8]> {
        const FRAME: usize = ethernet::HEADER_LEN + BOTH_LEN;
        self.rest(self.start.packet_of::<BOTH_LEN, FRAME>(frame, bare)?)
    }

    /// Compares the bytes after the first two.
    #[inline(always)]
    fn rest<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let b: &[u8; BOTH_LEN] = packet.first_chunk()?;
        let same = u16::from_ne_bytes(array(b, 2)) == self.label
            && u16::from_ne_bytes(array(b, 6)) == self.inside
            && u32::from_ne_bytes(array(b, HEADER_LEN)) == self.ports
            && addresses(b) == self.addresses;
        if !same {
            return None;
        }
        let len = usize::from(get16(b, 4));
        if len < tcp::HEADER_LEN {
            return None;
        }
        packet.get(HEADER_LEN..HEADER_LEN + len)
    }

    /// Whether the TCP checksum of a segment between these addresses is correct.
    #[inline(never)]
    #[must_use]
    pub fn verify(&self, segment: &[u8]) -> bool {
        self.is_right(segment.len(), Partial::of(segment))
    }

    /// As [`verify`](Self::verify), of a segment of `len` bytes whose `sum` is known.
    #[inline]
    #[must_use]
    pub fn is_right(&self, len: usize, sum: Partial) -> bool {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.addresses) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        // RFC 8200 section 8.1: the addresses, the length and the protocol, 32 bits each.
        let len = (len as u32).to_be_bytes();
        let rest = [len, u32::from(protocol::TCP).to_be_bytes()];
        let pseudo = Partial::of(&bytes).plus(Partial::of(rest.as_flattened()));
        pseudo.is_correct_with(sum)
    }
}

/// Both addresses, as they are stored in a header.
#[inline(always)]
fn addresses(b: &[u8; BOTH_LEN]) -> [u64; 4] {
    [8, 16, 24, 32].map(|at| u64::from_ne_bytes(array(b, at)))
}

#[cfg(test)]
mod tests;
