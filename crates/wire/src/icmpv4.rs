//! ICMP for IPv4 (RFC 792, RFC 1191).

use crate::WireError;
use crate::bytes::{get16, put, put16};
use crate::checksum::Partial;

/// Length of a header, bytes.
pub const HEADER_LEN: usize = 8;

/// Codes of "destination unreachable".
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not support the protocol.
    pub const PROTOCOL: u8 = 2;
    /// The port is not open.
    pub const PORT: u8 = 3;
    /// The packet is too long for a link and must not be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
}

/// A message. Its header is followed by an echo's data, or by the beginning of the packet
/// that an error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmpv4 {
    /// An echo request.
    EchoRequest {
        /// Identifies the sender's process.
        identifier: u16,
        /// Sequence number of the request.
        sequence: u16,
    },
    /// An echo reply.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// The packet could not be delivered.
    Unreachable {
        /// The reason, see [`mod@unreachable`].
        code: u8,
        /// With [`unreachable::FRAGMENTATION_NEEDED`]: the MTU of the link, 0 from
        /// routers older than RFC 1191.
        next_hop_mtu: u16,
    },
    /// The packet's time was exceeded.
    TimeExceeded {
        /// 0: the hop limit; 1: the reassembly time.
        code: u8,
    },
    /// A field of its header is invalid.
    ParameterProblem {
        /// The offset of the field, in bytes.
        pointer: u8,
    },
    /// Another message.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
    },
}

impl Icmpv4 {
    /// Parses a complete message; its data follows after [`HEADER_LEN`] bytes.
    ///
    /// # Errors
    /// [`WireError`] if it is too short or its checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        if Partial::of(bytes).finish() != 0 {
            return Err(WireError::BadChecksum);
        }
        let (identifier, sequence) = (get16(b, 4), get16(b, 6));
        Ok(match (b[0], b[1]) {
            (8, 0) => Self::EchoRequest {
                identifier,
                sequence,
            },
            (0, 0) => Self::EchoReply {
                identifier,
                sequence,
            },
            (3, code) => Self::Unreachable {
                code,
                next_hop_mtu: sequence,
            },
            (11, code) => Self::TimeExceeded { code },
            (12, 0) => Self::ParameterProblem { pointer: b[4] },
            (kind, code) => Self::Other { kind, code },
        })
    }

    /// Whether it reports an error, so that no error may be sent about it.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::TimeExceeded { .. }
                | Self::ParameterProblem { .. }
                | Self::Other { kind: 4 | 5, .. }
        )
    }

    /// Writes the header before the data that is already in `bytes` after it, and the
    /// checksum over both. `bytes` must not be shorter than a header.
    pub fn emit(&self, bytes: &mut [u8]) {
        let (kind, code, rest): (u8, u8, [u16; 2]) = match *self {
            Self::EchoRequest {
                identifier,
                sequence,
            } => (8, 0, [identifier, sequence]),
            Self::EchoReply {
                identifier,
                sequence,
            } => (0, 0, [identifier, sequence]),
            Self::Unreachable { code, next_hop_mtu } => (3, code, [0, next_hop_mtu]),
            Self::TimeExceeded { code } => (11, code, [0, 0]),
            Self::ParameterProblem { pointer } => (12, 0, [u16::from(pointer) << 8, 0]),
            Self::Other { kind, code } => (kind, code, [0, 0]),
        };
        put(bytes, 0, [kind, code]);
        put16(bytes, 2, 0);
        put16(bytes, 4, rest[0]);
        put16(bytes, 6, rest[1]);
        let sum = Partial::of(bytes).finish();
        put16(bytes, 2, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let all = [
            Icmpv4::EchoRequest {
                identifier: 7,
                sequence: 9,
            },
            Icmpv4::EchoReply {
                identifier: 7,
                sequence: 9,
            },
            Icmpv4::Unreachable {
                code: unreachable::FRAGMENTATION_NEEDED,
                next_hop_mtu: 1400,
            },
            Icmpv4::TimeExceeded { code: 1 },
            Icmpv4::ParameterProblem { pointer: 20 },
            Icmpv4::Other { kind: 13, code: 0 },
        ];
        for m in all {
            let mut bytes = [0x5a; 20];
            m.emit(&mut bytes);
            assert_eq!(Icmpv4::parse(&bytes), Ok(m));
            bytes[12] ^= 1;
            assert_eq!(Icmpv4::parse(&bytes), Err(WireError::BadChecksum));
        }
    }

    /// RFC 1122 section 3.2.2: no error is sent about one, also not about those that are not
    /// read (source quench, redirect).
    #[test]
    fn errors_are_told_from_the_rest() {
        for (kind, is_error) in [
            (0, false),
            (3, true),
            (4, true),
            (5, true),
            (8, false),
            (11, true),
            (12, true),
            (13, false),
        ] {
            let mut bytes = [0; 20];
            Icmpv4::Other { kind, code: 0 }.emit(&mut bytes);
            let message = Icmpv4::parse(&bytes).unwrap();
            assert_eq!(message.is_error(), is_error, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Icmpv4::parse(&bytes);
        }
    }
}
