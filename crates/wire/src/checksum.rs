//! The Internet checksum (RFC 1071): plain, partial and combined, and copying with
//! summing in one pass.
//!
//! A [`Partial`] is a sum before folding and complementing. Sums of pieces are added,
//! wherever each was computed (headers, payload, a port's hardware); a piece at an odd
//! offset of the whole is added with its bytes swapped. The fastest implementation for
//! this processor is selected once, on first use.

use core::cell::Cell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Up to this length, in bytes, scalar summing is faster than calling the vector code.
const SHORT: usize = 128;

/// A sum of 16-bit words in native byte order, with carries not yet folded below 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Partial(u64);

/// Folds a 64-bit one's-complement sum to 32 bits.
#[inline]
const fn fold32(sum: u64) -> u64 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    (sum & 0xffff_ffff) + (sum >> 32)
}

impl Partial {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`, as a piece that begins at an even offset. An odd
    /// last byte counts as if a zero followed.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.len() <= SHORT {
            Self(scalar::sum(bytes))
        } else {
            Self(dispatch::sum(bytes))
        }
    }

    /// The sum of consecutive pieces, the first at an even offset.
    #[inline]
    #[must_use]
    pub fn of_pieces<T: core::ops::Deref<Target = [u8]>>(pieces: &[T]) -> Self {
        let (mut sum, mut at) = (Self::ZERO, 0);
        for piece in pieces {
            sum = sum.followed_by(at, Self::of(piece));
            at += piece.len();
        }
        sum
    }

    /// Copies `from` to `to` and sums it in the same pass. Panics if the lengths differ.
    #[inline]
    #[must_use]
    pub fn of_copy(to: &mut [u8], from: &[u8]) -> Self {
        Self::of_copy_to(Cell::from_mut(to).as_slice_of_cells(), from)
    }

    /// As [`of_copy`](Self::of_copy), to memory that others see, which is written once and never
    /// read.
    #[inline]
    #[must_use]
    pub fn of_copy_to(to: &[Cell<u8>], from: &[u8]) -> Self {
        assert_eq!(to.len(), from.len());
        Self(dispatch::copy_and_sum(to, from))
    }

    /// The sum of the IPv4 pseudo-header (RFC 9293 section 3.1). `len` is that
    /// of the transport header and payload.
    #[inline]
    #[must_use]
    pub fn of_pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u32) -> Self {
        let s = u64::from(u32::from_ne_bytes(source.octets()));
        let d = u64::from(u32::from_ne_bytes(destination.octets()));
        Self(fold32(
            s + d + u64::from((u32::from(protocol)).to_be()) + u64::from(len.to_be()),
        ))
    }

    /// The sum of eight bytes, read as one word in native byte order.
    #[inline]
    #[must_use]
    pub(crate) const fn of_pair(word: u64) -> Self {
        Self((word & 0xffff_ffff) + (word >> 32))
    }

    /// Adds two words, in native byte order of the bytes on the wire.
    #[inline]
    #[must_use]
    pub(crate) const fn plus_word(self, one: u16, other: u16) -> Self {
        Self(self.0 + one as u64 + other as u64)
    }

    /// The sum of two bytes, which are `word` in network order.
    #[inline]
    #[must_use]
    pub const fn of_word(word: u16) -> Self {
        Self(word.to_be() as u64)
    }

    /// This sum of a pseudo-header whose length was 0, with the length `len`, which may be more
    /// than an IP packet's can be: whoever cuts such a packet takes the sum to be of all bits of
    /// it.
    #[inline]
    #[must_use]
    pub const fn with_length(self, len: u32) -> Self {
        Self(self.0 + len.to_be() as u64)
    }

    /// The sum of the IPv6 pseudo-header (RFC 8200 section 8.1).
    #[must_use]
    pub fn of_pseudo_v6(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: u8,
        len: u32,
    ) -> Self {
        Self(scalar::sum(&source.octets()))
            .plus(Self(scalar::sum(&destination.octets())))
            .plus(Self(
                u64::from(u32::from(next_header).to_be()) + u64::from(len.to_be()),
            ))
    }

    /// The pseudo-header's sum for either family. `None` if they differ.
    #[must_use]
    pub fn of_pseudo(source: IpAddr, destination: IpAddr, protocol: u8, len: u32) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Some(Self::of_pseudo_v4(s, d, protocol, len)),
            (IpAddr::V6(s), IpAddr::V6(d)) => Some(Self::of_pseudo_v6(s, d, protocol, len)),
            _ => None,
        }
    }

    /// Adds another piece, which begins at an even offset.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(fold32(fold32(self.0) + fold32(other.0)))
    }

    /// Whether this sum and that of another piece, which begins at an even offset, are of
    /// bytes that include a correct checksum. Not all of the bytes are zero.
    #[inline]
    #[must_use]
    pub(crate) const fn is_correct_with(self, other: Self) -> bool {
        // All ones, folded, is a multiple of 65,535. No sum exceeds 2^40.
        (self.0 + other.0).is_multiple_of(0xffff)
    }

    /// Adds another piece, which begins at an odd offset.
    #[inline]
    #[must_use]
    pub const fn plus_at_odd(self, other: Self) -> Self {
        let folded = other.folded();
        self.plus(Self(folded.swap_bytes() as u64))
    }

    /// The sum of this piece, `len` bytes long, and the piece right after it.
    #[inline]
    #[must_use]
    pub const fn followed_by(self, len: usize, other: Self) -> Self {
        if len.is_multiple_of(2) {
            self.plus(other)
        } else {
            self.plus_at_odd(other)
        }
    }

    #[inline]
    const fn folded(self) -> u16 {
        let sum = fold32(self.0);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }

    /// The value of the checksum field: folded and complemented, so that
    /// [`u16::to_be_bytes`] gives the bytes on the wire. Over bytes that include a
    /// correct checksum it is 0.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        !u16::from_be(self.folded())
    }

    /// The folded sum without the complement: the field's value for a port that completes
    /// the checksum.
    #[inline]
    #[must_use]
    pub const fn unfinished(self) -> u16 {
        u16::from_be(self.folded())
    }
}

/// The checksum after a 16-bit field covered by it changed from `old` to `new` (RFC 1624
/// equation 3).
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = (!checksum) as u32 + (!old) as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Whether the checksum of a TCP segment or UDP datagram is correct.
#[must_use]
pub fn verify_transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> bool {
    let len = segment.len() as u32;
    Partial::of_pseudo(source, destination, protocol, len)
        .is_some_and(|p| p.plus(Partial::of(segment)).finish() == 0)
}

/// Selects the implementation for this processor.
mod dispatch {
    use super::scalar;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const SCALAR: u8 = 1;
    #[cfg(target_arch = "x86_64")]
    const AVX2: u8 = 2;
    #[cfg(target_arch = "x86_64")]
    const AVX512: u8 = 3;

    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[cold]
    fn detect() -> u8 {
        #[cfg(target_arch = "x86_64")]
        let level = if std::is_x86_feature_detected!("avx512bw") {
            AVX512
        } else if std::is_x86_feature_detected!("avx2") {
            AVX2
        } else {
            SCALAR
        };
        #[cfg(not(target_arch = "x86_64"))]
        let level = SCALAR;
        LEVEL.store(level, Ordering::Relaxed);
        level
    }

    #[inline]
    fn level() -> u8 {
        match LEVEL.load(Ordering::Relaxed) {
            UNKNOWN => detect(),
            known => known,
        }
    }

    /// What is longer than the vector code sums in one piece.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    #[inline(never)]
    fn sum_long(bytes: &[u8]) -> u64 {
        bytes.chunks(super::x86::LONGEST).map(sum).sum()
    }

    /// As `sum_long`, for copying.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn copy_and_sum_long(to: &[Cell<u8>], from: &[u8]) -> u64 {
        let to = to.chunks(super::x86::LONGEST);
        let pieces = to.zip(from.chunks(super::x86::LONGEST));
        pieces.map(|(to, from)| copy_and_sum(to, from)).sum()
    }

    #[inline]
    pub(super) fn sum(bytes: &[u8]) -> u64 {
        match level() {
            #[cfg(target_arch = "x86_64")]
            _ if bytes.len() > super::x86::LONGEST => sum_long(bytes),
            // SAFETY: `detect` found that the processor has AVX-512BW.
            #[cfg(target_arch = "x86_64")]
            AVX512 => unsafe { super::x86::sum_avx512(bytes) },
            // SAFETY: `detect` found that the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            AVX2 => unsafe { super::x86::sum_avx2(bytes) },
            _ => scalar::sum(bytes),
        }
    }

    pub(super) fn copy_and_sum(to: &[Cell<u8>], from: &[u8]) -> u64 {
        match level() {
            #[cfg(target_arch = "x86_64")]
            _ if from.len() > super::x86::LONGEST => copy_and_sum_long(to, from),
            // SAFETY: `detect` found that the processor has AVX-512BW.
            #[cfg(target_arch = "x86_64")]
            AVX512 => unsafe { super::x86::copy_and_sum_avx512(to, from) },
            // SAFETY: `detect` found that the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            AVX2 => unsafe { super::x86::copy_and_sum_avx2(to, from) },
            _ => scalar::copy_and_sum(to, from),
        }
    }
}

#[cfg(test)]
mod tests;
