//! ICMP for IPv6 (RFC 4443) with neighbour discovery (RFC 4861) and multicast listener
//! queries (RFC 3810).

use crate::WireError;
use crate::bytes::{front_mut, get16, get32, put, put16, put32};
use crate::checksum::Partial;
use crate::ipv6::{Ipv6Header, next_header};
use core::net::Ipv6Addr;

pub mod mld;
mod ndp;

pub use ndp::{MAX_PREFIXES, NdpOptions, PrefixInfo};

/// Length of a header, except those of neighbour discovery, bytes.
pub const HEADER_LEN: usize = 8;

/// A message. Its header is followed by an echo's data, the beginning of the packet that
/// an error refers to, or options of neighbour discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmpv6 {
    /// The packet could not be delivered.
    Unreachable {
        /// The reason: 0 no route, 1 prohibited, 3 address, 4 port unreachable.
        code: u8,
    },
    /// The packet was too long for a link.
    PacketTooBig {
        /// The MTU of the link, in bytes.
        mtu: u32,
    },
    /// The packet's time was exceeded.
    TimeExceeded {
        /// 0: the hop limit; 1: the reassembly time.
        code: u8,
    },
    /// A field of its headers is invalid.
    ParameterProblem {
        /// 0 a field, 1 a next header, 2 an option.
        code: u8,
        /// The offset of the problem, in bytes from the packet's beginning.
        pointer: u32,
    },
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
    /// A host solicits routers.
    RouterSolicit,
    /// A router's advertisement.
    RouterAdvert {
        /// Hop limit for packets; 0 if not specified.
        hop_limit: u8,
        /// Addresses are available by DHCPv6.
        managed: bool,
        /// Other settings are available by DHCPv6.
        other: bool,
        /// Lifetime as a default router, seconds; 0 if it is not one.
        lifetime: u16,
        /// How long neighbours are reachable, milliseconds; 0 if not specified.
        reachable_ms: u32,
        /// Interval between solicitations, milliseconds; 0 if not specified.
        retransmit_ms: u32,
    },
    /// A station asks which host has the target address.
    NeighborSolicit {
        /// The address, never a group's.
        target: Ipv6Addr,
    },
    /// A station has the target address.
    NeighborAdvert {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It overrides existing entries.
        override_known: bool,
        /// The address, never a group's.
        target: Ipv6Addr,
    },
    /// A router asks which hosts are members of this group.
    MulticastQuery {
        /// The maximum response delay, encoded as in RFC 3810 section 5.1.3.
        max_response: u16,
        /// The group; unspecified for all groups.
        group: Ipv6Addr,
    },
    /// Another message.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
    },
}

impl Icmpv6 {
    /// Parses a complete message with the header `ip`; its options or data begin at
    /// [`header_len`](Self::header_len).
    ///
    /// # Errors
    /// [`WireError`] if it is too short, its checksum is wrong, or it is a neighbour
    /// discovery message that RFC 4861 sections 6.1 and 7.1 do not allow, for example
    /// because it has passed a router.
    pub fn parse(ip: &Ipv6Header, bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        if sum(ip.source, ip.destination, bytes).finish() != 0 {
            return Err(WireError::BadChecksum);
        }
        let (code, word) = (b[1], get32(b, 4));
        let (identifier, sequence) = (get16(b, 4), get16(b, 6));
        Ok(match b[0] {
            1 => Self::Unreachable { code },
            2 => Self::PacketTooBig { mtu: word },
            3 => Self::TimeExceeded { code },
            4 => Self::ParameterProblem {
                code,
                pointer: word,
            },
            128 if code == 0 => Self::EchoRequest {
                identifier,
                sequence,
            },
            129 if code == 0 => Self::EchoReply {
                identifier,
                sequence,
            },
            mld::QUERY if code == 0 => mld::parse_query(bytes).ok_or(WireError::Truncated)?,
            kind @ 133..=136 => {
                if code != 0 || ip.hop_limit != 255 {
                    return Err(WireError::BadField);
                }
                ndp::parse(kind, ip, bytes)?
            }
            kind => Self::Other { kind, code },
        })
    }

    /// Length of the message's header, bytes.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        match self {
            Self::RouterAdvert { .. } => 16,
            Self::NeighborSolicit { .. }
            | Self::NeighborAdvert { .. }
            | Self::MulticastQuery { .. } => 24,
            _ => HEADER_LEN,
        }
    }

    /// Whether it reports an error, so that no error may be sent about it (RFC 4443
    /// section 2.4 e).
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::PacketTooBig { .. }
                | Self::TimeExceeded { .. }
                | Self::ParameterProblem { .. }
                | Self::Other { kind: 0..128, .. }
        )
    }

    /// Writes the header before the data that is already in `bytes` after it, and the
    /// checksum over both and the pseudo-header. `bytes` must not be shorter than the
    /// header.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr, bytes: &mut [u8]) {
        front_mut(bytes, self.header_len()).fill(0);
        let (kind, code, word) = match *self {
            Self::Unreachable { code } => (1, code, 0),
            Self::PacketTooBig { mtu } => (2, 0, mtu),
            Self::TimeExceeded { code } => (3, code, 0),
            Self::ParameterProblem { code, pointer } => (4, code, pointer),
            Self::EchoRequest {
                identifier,
                sequence,
            } => (128, 0, u32::from(identifier) << 16 | u32::from(sequence)),
            Self::EchoReply {
                identifier,
                sequence,
            } => (129, 0, u32::from(identifier) << 16 | u32::from(sequence)),
            Self::Other { kind, code } => (kind, code, 0),
            Self::MulticastQuery {
                max_response,
                group,
            } => {
                put(bytes, 8, group.octets());
                (mld::QUERY, 0, u32::from(max_response) << 16)
            }
            Self::RouterSolicit
            | Self::RouterAdvert { .. }
            | Self::NeighborSolicit { .. }
            | Self::NeighborAdvert { .. } => {
                let (kind, word) = ndp::emit(self, bytes);
                (kind, 0, word)
            }
        };
        put(bytes, 0, [kind, code]);
        put32(bytes, 4, word);
        let sum = sum(source, destination, bytes).finish();
        put16(bytes, 2, sum);
    }
}

fn sum(source: Ipv6Addr, destination: Ipv6Addr, bytes: &[u8]) -> Partial {
    let len = bytes.len() as u32;
    Partial::of_pseudo_v6(source, destination, next_header::ICMPV6, len).plus(Partial::of(bytes))
}

#[cfg(test)]
mod tests;
