//! UDP headers (RFC 768).

use crate::WireError;
use crate::bytes::{get16, put16};

/// Length of a header, bytes.
pub const HEADER_LEN: usize = 8;

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload.
    pub payload_len: u16,
    /// The checksum field; 0 means that there is none.
    pub checksum: u16,
}

impl UdpHeader {
    /// Parses a header. The checksum is not verified.
    ///
    /// # Errors
    /// [`WireError`] if the length field contradicts the number of bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let len = get16(b, 4);
        if usize::from(len) < HEADER_LEN || usize::from(len) > bytes.len() {
            return Err(WireError::BadLength);
        }
        Ok(Self {
            src_port: get16(b, 0),
            dst_port: get16(b, 2),
            payload_len: len - HEADER_LEN as u16,
            checksum: get16(b, 6),
        })
    }

    /// Writes the header; returns its length. `bytes` must not be shorter.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        put16(bytes, 0, self.src_port);
        put16(bytes, 2, self.dst_port);
        put16(bytes, 4, self.payload_len + HEADER_LEN as u16);
        put16(bytes, 6, self.checksum);
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Its length counts the header, and no more than has come; bytes beyond it are padding.
    #[test]
    fn a_length_agrees_with_the_bytes() {
        let parsed = |len: u16, bytes: usize| {
            let mut datagram = vec![0; bytes];
            put16(&mut datagram, 4, len);
            UdpHeader::parse(&datagram).map(|h| h.payload_len)
        };
        assert_eq!(parsed(8, 8), Ok(0));
        assert_eq!(parsed(9, 20), Ok(1));
        assert_eq!(parsed(7, 8), Err(WireError::BadLength));
        assert_eq!(parsed(0, 20), Err(WireError::BadLength));
        assert_eq!(parsed(21, 20), Err(WireError::BadLength));
        assert_eq!(parsed(8, 7), Err(WireError::Truncated));
    }

    proptest! {
        #[test]
        fn comes_back(src_port: u16, dst_port: u16, payload_len in 0u16..100, checksum: u16) {
            let h = UdpHeader { src_port, dst_port, payload_len, checksum };
            let mut bytes = vec![0; HEADER_LEN + usize::from(payload_len)];
            h.emit(&mut bytes);
            prop_assert_eq!(UdpHeader::parse(&bytes), Ok(h));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = UdpHeader::parse(&bytes);
        }
    }
}
