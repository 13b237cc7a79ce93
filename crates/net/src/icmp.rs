//! ICMP: what received errors mean, for both versions of IP; when we may send one, for
//! IPv4. What is IPv6's alone is in [`icmp6`](crate::icmp6).

use crate::Instant;
use crate::input::may_be_source;
use core::net::IpAddr;
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::{Icmpv4, unreachable};
use longshore_wire::ipv4::{Ipv4Header, protocol};

/// What happened to a packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No route to its network.
    NetUnreachable,
    /// Its host does not answer.
    HostUnreachable,
    /// The host does not speak its protocol.
    ProtocolUnreachable,
    /// Nobody is at its port.
    PortUnreachable,
    /// It was too long for a link ("packet too big" in IPv6).
    FragmentationNeeded {
        /// What would have passed, 0 if the router does not say (RFC 1191; in IPv6 it
        /// has to).
        mtu: u16,
    },
    /// Its source route failed.
    SourceRouteFailed,
    /// Its network is not known.
    NetUnknown,
    /// Its host is not known.
    HostUnknown,
    /// We are isolated.
    HostIsolated,
    /// An administrator forbids its network.
    NetProhibited,
    /// An administrator forbids it or its host.
    HostProhibited,
    /// An administrator, or a route that says so, forbids it (IPv6 alone).
    Prohibited,
    /// It had no hops left.
    TimeExceeded,
    /// Its fragments did not come together in time.
    ReassemblyTimeExceeded,
    /// Its header was not understood.
    ParameterProblem,
    /// What follows its header was not understood (IPv6 alone).
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

    /// Whether a connected UDP socket is told without having asked for all errors:
    /// it will not pass by itself. The others may (RFC 1122 section 3.2.2.1).
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
            // Source quench must be ignored (RFC 6633), and redirects are no errors.
            _ => return None,
        })
    }
}

/// What an ICMP error says in the numbers of its version of IP, for programs that ask
/// for it (IP_RECVERR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The message's type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The MTU that would have passed, or where in the header the problem is; 0 without.
    pub info: u32,
}

/// An error about a packet that we are said to have sent. Everybody can forge one:
/// whoever acts on it checks that it fits something in flight (RFC 5927).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// What happened.
    pub kind: ErrorKind,
    /// What the packet carried.
    pub protocol: u8,
    /// The packet's source: one of our addresses, if we sent it.
    pub source: IpAddr,
    /// Where it went.
    pub destination: IpAddr,
    /// Our port; 0 if the protocol has none.
    pub src_port: u16,
    /// The port that it went to; 0 if the protocol has none.
    pub dst_port: u16,
    /// The sequence number of a TCP segment.
    pub tcp_seq: Option<SeqNumber>,
    /// The packet's length from the IP header on, in bytes.
    pub original_len: u16,
    /// The message's own words.
    pub told: Told,
    /// Where in the message's data what a UDP datagram carried begins: it may be beyond
    /// the end of what is quoted.
    pub payload_at: usize,
}

/// What `message`, with `data` after its header, reports. `None` if it is no error,
/// one that is to be ignored, or quotes too little of the packet to tell whose it
/// was.
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
        told: Told::of(message)?,
        payload_at: header_len + longshore_wire::udp::HEADER_LEN,
    };
    error.read_transport(data.get(header_len..).unwrap_or_default())?;
    Some(error)
}

impl Told {
    /// What `message` says, if it is an error.
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
    /// Reads ports and sequence number from the beginning of what the packet carried.
    /// `None` if that is too short to tell whose it was.
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

/// Whether an error may be sent about a packet (RFC 1122 section 3.2.2): it was for
/// one host, from one host, no fragment but the first, and reports no error itself.
/// `link_broadcast` says that its frame was not for us alone.
#[must_use]
pub const fn may_answer_error(ip: &Ipv4Header, link_broadcast: bool, is_error: bool) -> bool {
    !is_error
        && !link_broadcast
        && ip.fragment_offset == 0
        && !ip.destination.is_multicast()
        && !ip.destination.is_broadcast()
        && may_be_source(ip.source)
}

/// A token bucket: how many errors we send at most (RFC 1812 section 4.3.2.8).
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    /// Microseconds for a token.
    interval: u64,
    /// How far behind `now` the bucket can be: `burst` intervals.
    depth: u64,
    /// Advances an interval for each token taken.
    spent_until: Instant,
    refused: u64,
}

impl RateLimit {
    /// At most `per_second` in the long run, `burst` at once; both at least one.
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
        // At time 0 the bucket is full, so its bottom may lie before that.
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

    /// How often there was none.
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
