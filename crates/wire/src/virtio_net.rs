//! The virtio-net header that TUN/TAP and AF_PACKET put before each frame
//! (virtio 1.2 section 5.1.6; Linux's `struct virtio_net_hdr`). Little-endian.

use crate::WireError;

/// Bytes of the header.
pub const HEADER_LEN: usize = 10;

/// `flags`: the checksum is partial, from `csum_start` on.
pub const NEEDS_CSUM: u8 = 1;
/// `flags`: the checksum was verified.
pub const DATA_VALID: u8 = 2;
/// `gso_type`: one packet.
pub const GSO_NONE: u8 = 0;
/// `gso_type`: TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// `gso_type`: UDP, to be fragmented by IP.
pub const GSO_UDP: u8 = 3;
/// `gso_type`: TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// `gso_type`: UDP datagrams of `gso_size` each.
pub const GSO_UDP_L4: u8 = 5;
/// `gso_type`, beside a TCP type: the packets carry CWR as ECN has it.
pub const GSO_ECN: u8 = 0x80;

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtioNetHeader {
    /// [`NEEDS_CSUM`], [`DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` types.
    pub gso_type: u8,
    /// Bytes of all headers, link to transport.
    pub hdr_len: u16,
    /// Payload bytes of each packet.
    pub gso_size: u16,
    /// Where summing starts, from the start of the frame.
    pub csum_start: u16,
    /// Where the field is, from `csum_start`.
    pub csum_offset: u16,
}

impl VirtioNetHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let word = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        Ok(Self {
            flags: b[0],
            gso_type: b[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        })
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let (h, g) = (self.hdr_len.to_le_bytes(), self.gso_size.to_le_bytes());
        let (s, o) = (
            self.csum_start.to_le_bytes(),
            self.csum_offset.to_le_bytes(),
        );
        [
            self.flags,
            self.gso_type,
            h[0],
            h[1],
            g[0],
            g[1],
            s[0],
            s[1],
            o[0],
            o[1],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(flags: u8, gso_type: u8, hdr_len: u16, gso_size: u16, csum_start: u16, csum_offset: u16) {
            let h = VirtioNetHeader { flags, gso_type, hdr_len, gso_size, csum_start, csum_offset };
            prop_assert_eq!(VirtioNetHeader::parse(&h.emit()), Ok(h));
            prop_assert_eq!(VirtioNetHeader::parse(&h.emit()[..9]), Err(WireError::Truncated));
        }
    }
}
