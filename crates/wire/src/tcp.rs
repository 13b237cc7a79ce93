//! TCP headers (RFC 9293 section 3.1).

mod options;
mod plain;

use crate::bytes::{front_mut, get16, get32, put16, put32};
use options::ALIGNED_TIMESTAMPS;
pub use options::{AccurateEcn, FastOpenCookie, SackBlocks, TcpOptions, Timestamps};
pub use plain::{Head, PLAIN_LEN, Plain, Stamps, control};

use crate::{SeqNumber, WireError};
use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// Length of a header without options, bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header, bytes.
pub const MAX_HEADER_LEN: usize = 60;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// The control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// The sender has no more data.
    pub const FIN: Self = Self(1);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(2);
    /// Reset the connection.
    pub const RST: Self = Self(4);
    /// Push.
    pub const PSH: Self = Self(8);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(16);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(32);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(64);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(128);
    /// Accurate ECN (RFC 9768).
    pub const AE: Self = Self(256);
    /// No flags.
    pub const NONE: Self = Self(0);

    /// Whether all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of bits.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for TcpFlags {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for TcpFlags {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0 & 0x1ff)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [char; 9] = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W', 'A'];
        let set = LETTERS
            .iter()
            .enumerate()
            .filter(|(i, _)| self.0 & 1 << i != 0);
        set.map(|(_, letter)| *letter)
            .try_for_each(|c| write!(f, "{c}"))?;
        if self.0 == 0 {
            f.write_str("-")
        } else {
            Ok(())
        }
    }
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// The sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The next expected sequence number, if the ACK bit is set.
    pub ack: SeqNumber,
    /// The control bits.
    pub flags: TcpFlags,
    /// The window field, unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// The options.
    pub options: TcpOptions,
}

impl TcpHeader {
    /// Parses a header at the start of a segment; also returns its length, after which
    /// the payload follows. The checksum is not verified.
    ///
    /// # Errors
    /// [`WireError`] if the data offset points outside the segment.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let len = usize::from(b[12] >> 4) * 4;
        if len < HEADER_LEN {
            return Err(WireError::BadLength);
        }
        let options = bytes.get(HEADER_LEN..len).ok_or(WireError::Truncated)?;
        let header = Self {
            src_port: get16(b, 0),
            dst_port: get16(b, 2),
            seq: SeqNumber(get32(b, 4)),
            ack: SeqNumber(get32(b, 8)),
            flags: TcpFlags(get16(b, 12) & 0x1ff),
            window: get16(b, 14),
            urgent: get16(b, 18),
            options: TcpOptions::parse(options),
        };
        Ok((header, len))
    }

    /// The length of the header with its options, in bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.emitted_len()
    }

    /// Writes the header with a checksum of zero; returns its length. `bytes` must not be
    /// shorter.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let len = self.header_len();
        let room = front_mut(bytes, len).split_first_chunk_mut::<HEADER_LEN>();
        debug_assert!(room.is_some(), "no room for a header");
        if let Some((b, options)) = room {
            put16(b, 0, self.src_port);
            put16(b, 2, self.dst_port);
            put32(b, 4, self.seq.0);
            put32(b, 8, self.ack.0);
            put16(b, 12, ((len / 4) as u16) << 12 | self.flags.0 & 0x1ff);
            put16(b, 14, self.window);
            put16(b, 16, 0);
            put16(b, 18, self.urgent);
            self.options.emit(options);
        }
        len
    }
}

#[cfg(test)]
mod tests;
