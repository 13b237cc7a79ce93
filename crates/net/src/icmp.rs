//! ICMP: decoding of errors, for both versions of IP; and when an error may be sent, for
//! IPv4. The parts specific to IPv6 are in [`icmp6`](crate::icmp6).

use crate::Instant;
use crate::input::may_be_source;
use core::net::IpAddr;
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::{Icmpv4, unreachable};
use longshore_wire::ipv4::{Ipv4Header, protocol};

/// The kind of error that a packet of ours has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no route to the network.
    NetUnreachable,
    /// The host does not answer.
    HostUnreachable,
    /// The host does not support the protocol.
    ProtocolUnreachable,
    /// The port is not open.
    PortUnreachable,
    /// The packet was too long for a link ("packet too big" in IPv6).
    FragmentationNeeded {
        /// The MTU of that link, 0 if the router does not report it (RFC 1191; in IPv6 it
        /// must).
        mtu: u16,
    },
    /// The source route failed.
    SourceRouteFailed,
    /// The network is unknown.
    NetUnknown,
    /// The host is unknown.
    HostUnknown,
    /// The source host is isolated.
    HostIsolated,
    /// Communication with the network is administratively prohibited.
    NetProhibited,
    /// Communication, or communication with the host, is administratively prohibited.
    HostProhibited,
    /// An administrator or a route prohibits it (IPv6 only).
    Prohibited,
    /// The hop limit was exceeded.
    TimeExceeded,
    /// The reassembly of its fragments timed out.
    ReassemblyTimeExceeded,
    /// Its header was not understood.
    ParameterProblem,
    /// The header after the IP header was not understood (IPv6 only).
    NextHeaderUnknown,
}

impl ErrorKind {
    /// The errno that a program gets for it on Linux.
    #[must_use]
    pub const fn errno(self) -> u16 {
        match self {
            Self::NetUnreachable | Self::NetUnknown | Self::NetProhibited => 101,
            Self::HostUnreachable
            | Self::HostProhibited
            | Self::TimeExceeded
            | Self::ReassemblyTimeExceeded => 113,
            Self::ProtocolUnreachable => 92,
            Self::PortUnreachable => 111,
            Self::FragmentationNeeded { .. } => 90,
            Self::SourceRouteFailed => 95,
            Self::HostUnknown => 112,
            Self::HostIsolated => 64,
            Self::Prohibited => 13,
            Self::ParameterProblem | Self::NextHeaderUnknown => 71,
        }
    }

    /// Whether a connected UDP socket that has not asked for all errors is notified: hard
    /// errors are permanent, the others may be transient (RFC 1122 section 3.2.2.1).
    #[must_use]
    pub const fn is_hard(self) -> bool {
        !matches!(
            self,
            Self::NetUnreachable
                | Self::HostUnreachable
                | Self::FragmentationNeeded { .. }
                | Self::SourceRouteFailed
                | Self::TimeExceeded
                | Self::ReassemblyTimeExceeded
        )
    }

    const fn of(message: &Icmpv4) -> Option<Self> {
        Some(match *message {
            Icmpv4::Unreachable { code, next_hop_mtu } => match code {
                unreachable::NET | 11 => Self::NetUnreachable,
                unreachable::HOST | 12 => Self::HostUnreachable,
                unreachable::PROTOCOL => Self::ProtocolUnreachable,
                unreachable::PORT => Self::PortUnreachable,
                unreachable::FRAGMENTATION_NEEDED => {
                    Self::FragmentationNeeded { mtu: next_hop_mtu }
                }
                5 => Self::SourceRouteFailed,
                6 => Self::NetUnknown,
                7 => Self::HostUnknown,
                8 => Self::HostIsolated,
                9 => Self::NetProhibited,
                10 | 13..=15 => Self::HostProhibited,
                _ => return None,
            },
            Icmpv4::TimeExceeded { code: 0 } => Self::TimeExceeded,
            Icmpv4::TimeExceeded { code: 1 } => Self::ReassemblyTimeExceeded,
            Icmpv4::ParameterProblem { .. } => Self::ParameterProblem,
            // Source quench must be ignored (RFC 6633), and redirects are not errors.
            _ => return None,
        })
    }
}

/// The fields of an ICMP error in the numbering of its version of IP, for programs that
/// ask for them (IP_RECVERR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorFields {
    /// The message's type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The MTU, or the position of the problem in the header; 0 if there is neither.
    pub info: u32,
}

/// An error about a packet that we have supposedly sent. Anyone can forge one: before
/// acting on it, check that it refers to something in flight (RFC 5927).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The packet's protocol.
    pub protocol: u8,
    /// The packet's source: one of our addresses, if we sent it.
    pub source: IpAddr,
    /// The packet's destination.
    pub destination: IpAddr,
    /// Our port; 0 if the protocol has none.
    pub src_port: u16,
    /// The destination port; 0 if the protocol has none.
    pub dst_port: u16,
    /// The sequence number of a TCP segment.
    pub tcp_seq: Option<SeqNumber>,
    /// The packet's length from the IP header on, in bytes.
    pub original_len: u16,
    /// The message's own fields.
    pub fields: ErrorFields,
    /// Offset of the quoted UDP datagram's payload in the message's data; it may be
    /// beyond the end of the quotation.
    pub payload_at: usize,
}

/// Decodes `message`, with `data` after its header. `None` if it is not an error, must be
/// ignored, or quotes too little of the packet to identify its socket.
#[must_use]
pub fn parse_error(message: &Icmpv4, data: &[u8]) -> Option<IcmpError> {
    let kind = ErrorKind::of(message)?;
    let (ip, header_len) = Ipv4Header::parse_quoted(data).ok()?;
    if ip.fragment_offset != 0 {
        return None;
    }
    let mut error = IcmpError {
        kind,
        protocol: ip.protocol,
        source: ip.source.into(),
        destination: ip.destination.into(),
        src_port: 0,
        dst_port: 0,
        tcp_seq: None,
        original_len: ip.payload_len.saturating_add(header_len as u16),
        fields: ErrorFields::of(message)?,
        payload_at: header_len + longshore_wire::udp::HEADER_LEN,
    };
    error.read_transport(data.get(header_len..).unwrap_or_default())?;
    Some(error)
}

impl ErrorFields {
    /// The fields of `message`, if it is an error.
    const fn of(message: &Icmpv4) -> Option<Self> {
        let (kind, code, info) = match *message {
            Icmpv4::Unreachable {
                code: code @ unreachable::FRAGMENTATION_NEEDED,
                next_hop_mtu,
            } => (3, code, next_hop_mtu as u32),
            Icmpv4::Unreachable { code, .. } => (3, code, 0),
            Icmpv4::TimeExceeded { code } => (11, code, 0),
            Icmpv4::ParameterProblem { pointer } => (12, 0, pointer as u32),
            _ => return None,
        };
        Some(Self { kind, code, info })
    }
}

impl IcmpError {
    /// Reads ports and sequence number from the beginning of the quoted payload. `None`
    /// if that is too short to identify the socket.
    pub(crate) fn read_transport(&mut self, transport: &[u8]) -> Option<()> {
        if matches!(self.protocol, protocol::TCP | protocol::UDP) {
            // All errors quote eight bytes at least (RFC 792).
            let [s0, s1, d0, d1, seq @ ..] = *transport.first_chunk::<8>()?;
            self.src_port = u16::from_be_bytes([s0, s1]);
            self.dst_port = u16::from_be_bytes([d0, d1]);
            if self.protocol == protocol::TCP {
                self.tcp_seq = Some(SeqNumber(u32::from_be_bytes(seq)));
            }
        }
        Some(())
    }
}

/// Whether an error may be sent about a packet (RFC 1122 section 3.2.2): it was sent from
/// one host to one host, is not a fragment other than the first, and is not an error
/// itself. `link_broadcast` says that its frame was not addressed to us alone.
#[must_use]
pub const fn may_answer_error(ip: &Ipv4Header, link_broadcast: bool, is_error: bool) -> bool {
    !is_error
        && !link_broadcast
        && ip.fragment_offset == 0
        && !ip.destination.is_multicast()
        && !ip.destination.is_broadcast()
        && may_be_source(ip.source)
}

/// A token bucket that limits the rate of our errors (RFC 1812 section 4.3.2.8).
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    /// Microseconds per token.
    interval: u64,
    /// How far `spent_until` can be behind `now`: `burst` intervals.
    depth: u64,
    /// Advances by one interval for each token taken.
    spent_until: Instant,
    refused: u64,
}

impl RateLimit {
    /// At most `per_second` in the long run and `burst` at once; both at least one.
    #[must_use]
    pub const fn new(per_second: u32, burst: u32) -> Self {
        let rate = if per_second == 0 {
            1
        } else {
            per_second as u64
        };
        let burst = if burst == 0 { 1 } else { burst as u64 };
        let interval = if rate > 1_000_000 {
            1
        } else {
            1_000_000 / rate
        };
        Self {
            interval,
            depth: interval * burst,
            spent_until: Instant(0),
            refused: 0,
        }
    }

    /// Takes a token if there is one.
    #[must_use]
    pub fn allow(&mut self, now: Instant) -> bool {
        // At time 0 the bucket is full, so its start may be before time 0.
        let now = now.0.saturating_add(self.depth);
        let spent = self.spent_until.0.max(now - self.depth);
        let allowed = spent.saturating_add(self.interval) <= now;
        if allowed {
            self.spent_until = Instant(spent.saturating_add(self.interval));
        } else {
            self.refused += 1;
        }
        allowed
    }

    /// How often a token was refused.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

impl Default for RateLimit {
    /// 1000 a second, 50 at once, as on Linux.
    fn default() -> Self {
        Self::new(1_000, 50)
    }
}

#[cfg(test)]
mod tests;
