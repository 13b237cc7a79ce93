//! ICMP for IPv6: decoding of errors, and when an error may be sent.
//!
//! Pure functions; the stack calls them for messages that `input6` has let through, and before it
//! answers a packet by an error.

use crate::icmp::{ErrorFields, ErrorKind, IcmpError};
use core::net::IpAddr;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv6::{HEADER_LEN, Ipv6Header, walk};

/// Codes of "destination unreachable" (RFC 4443 section 3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Communication is administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The address is unreachable.
    pub const ADDRESS: u8 = 3;
    /// The port is not open.
    pub const PORT: u8 = 4;
    /// The source address fails a policy.
    pub const POLICY: u8 = 5;
    /// A route rejects it.
    pub const REJECT: u8 = 6;
}

/// Codes of "parameter problem" (RFC 4443 section 3.4).
pub mod problem {
    /// A field has an invalid value.
    pub const FIELD: u8 = 0;
    /// A next header is not understood.
    pub const NEXT_HEADER: u8 = 1;
    /// An option that must be understood is not.
    pub const OPTION: u8 = 2;
}

const fn kind_of(message: &Icmpv6) -> Option<ErrorKind> {
    Some(match *message {
        Icmpv6::Unreachable { code } => match code {
            unreachable::NO_ROUTE => ErrorKind::NetUnreachable,
            unreachable::BEYOND_SCOPE | unreachable::ADDRESS => ErrorKind::HostUnreachable,
            unreachable::PORT => ErrorKind::PortUnreachable,
            unreachable::PROHIBITED | unreachable::POLICY | unreachable::REJECT => {
                ErrorKind::Prohibited
            }
            // Codes that later documents have added are hard errors, as in Linux.
            _ => ErrorKind::ParameterProblem,
        },
        Icmpv6::PacketTooBig { mtu } => ErrorKind::FragmentationNeeded {
            // An MTU above the largest packet is reduced to that.
            mtu: if mtu > 0xffff { 0xffff } else { mtu as u16 },
        },
        Icmpv6::TimeExceeded { code: 0 } => ErrorKind::TimeExceeded,
        Icmpv6::TimeExceeded { code: 1 } => ErrorKind::ReassemblyTimeExceeded,
        Icmpv6::ParameterProblem {
            code: problem::NEXT_HEADER,
            ..
        } => ErrorKind::NextHeaderUnknown,
        Icmpv6::ParameterProblem { .. } => ErrorKind::ParameterProblem,
        _ => return None,
    })
}

/// The fields of `message`, if it is an error.
const fn fields_of(message: &Icmpv6) -> Option<ErrorFields> {
    let (kind, code, info) = match *message {
        Icmpv6::Unreachable { code } => (1, code, 0),
        Icmpv6::PacketTooBig { mtu } => (2, 0, mtu),
        Icmpv6::TimeExceeded { code } => (3, code, 0),
        Icmpv6::ParameterProblem { code, pointer } => (4, code, pointer),
        _ => return None,
    };
    Some(ErrorFields { kind, code, info })
}

/// Decodes `message`, with `data` after its header. `None` if it is not an error, or
/// quotes too little of the packet to identify its socket.
#[must_use]
pub fn parse_error(message: &Icmpv6, data: &[u8]) -> Option<IcmpError> {
    let kind = kind_of(message)?;
    let ip = Ipv6Header::parse_quoted(data).ok()?;
    let payload = data.get(HEADER_LEN..).unwrap_or_default();
    let upper = walk(ip.next_header, payload).ok()?;
    if upper.fragment.is_some_and(|f| f.offset != 0) {
        return None;
    }
    let mut error = IcmpError {
        kind,
        protocol: upper.next_header,
        source: IpAddr::V6(ip.source),
        destination: IpAddr::V6(ip.destination),
        src_port: 0,
        dst_port: 0,
        tcp_seq: None,
        original_len: ip.payload_len.saturating_add(HEADER_LEN as u16),
        fields: fields_of(message)?,
        payload_at: HEADER_LEN + upper.at + longshore_wire::udp::HEADER_LEN,
    };
    error.read_transport(payload.get(upper.at..).unwrap_or_default())?;
    Some(error)
}

/// Whether an error may be sent about a packet (RFC 4443 section 2.4 e): it is not an
/// error itself, and was sent by one host. If the packet was sent to a group, by its
/// address or that of its frame (`link_group`), only errors that are `to_group_too` are
/// sent: "packet too big", and an option that asks for it.
#[must_use]
pub const fn may_answer_error(
    ip: &Ipv6Header,
    link_group: bool,
    is_error: bool,
    to_group_too: bool,
) -> bool {
    let to_group = link_group || ip.destination.is_multicast();
    // Only our own packets come from the loopback address.
    let has_source = crate::input6::may_be_source(ip.source) || ip.source.is_loopback();
    !is_error && (!to_group || to_group_too) && has_source
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use longshore_wire::SeqNumber;
    use longshore_wire::ipv4::protocol;
    use longshore_wire::ipv6::{FRAGMENT_LEN, FragmentHeader, next_header};
    use proptest::prelude::*;

    const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const THEM: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn header(next_header: u8) -> Ipv6Header {
        Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 1_000,
            next_header,
            hop_limit: 64,
            source: US,
            destination: THEM,
        }
    }

    /// The beginning of a packet of ours, as an error quotes it.
    fn quoted(next_header: u8, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        header(next_header).emit(&mut bytes);
        bytes.extend(behind);
        bytes
    }

    const TRANSPORT: [u8; 8] = [0, 80, 0x12, 0x34, 1, 2, 3, 4];
    const PORT: Icmpv6 = Icmpv6::Unreachable {
        code: unreachable::PORT,
    };

    #[test]
    fn what_is_quoted_says_whose_it_was() {
        let e = parse_error(&PORT, &quoted(protocol::TCP, &TRANSPORT)).unwrap();
        assert_eq!((e.source, e.destination), (US.into(), THEM.into()));
        assert_eq!((e.src_port, e.dst_port), (80, 0x1234));
        assert_eq!(e.tcp_seq, Some(SeqNumber(0x0102_0304)));
        assert_eq!(
            (e.kind, e.original_len),
            (ErrorKind::PortUnreachable, 1_040)
        );
        let e = parse_error(&PORT, &quoted(protocol::UDP, &TRANSPORT)).unwrap();
        assert_eq!((e.protocol, e.tcp_seq), (protocol::UDP, None));
        let short = &TRANSPORT[..7];
        assert_eq!(parse_error(&PORT, &quoted(protocol::UDP, short)), None);
    }

    #[test]
    fn extension_headers_are_looked_behind() {
        let mut behind = vec![protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
        behind.extend(TRANSPORT);
        let quote = quoted(next_header::DESTINATION_OPTIONS, &behind);
        assert_eq!(parse_error(&PORT, &quote).unwrap().src_port, 80);
        for (offset, seen) in [(0, true), (8, false)] {
            let mut behind = vec![0; FRAGMENT_LEN];
            let fragment = FragmentHeader {
                next_header: protocol::UDP,
                offset,
                more: true,
                identification: 1,
            };
            fragment.emit(&mut behind);
            behind.extend(TRANSPORT);
            let error = parse_error(&PORT, &quoted(next_header::FRAGMENT, &behind));
            assert_eq!(error.is_some(), seen, "offset {offset}");
        }
    }

    #[test]
    fn errors_mean_what_linux_has_them_mean() {
        let errno = |message: Icmpv6| {
            let e = parse_error(&message, &quoted(protocol::UDP, &TRANSPORT))?;
            Some((e.kind.errno(), e.kind.is_hard()))
        };
        let unreachable = |code| errno(Icmpv6::Unreachable { code });
        assert_eq!(unreachable(0), Some((101, false)));
        assert_eq!(unreachable(1), Some((13, true)));
        assert_eq!(unreachable(2), Some((113, false)));
        assert_eq!(unreachable(3), Some((113, false)));
        assert_eq!(unreachable(4), Some((111, true)));
        assert_eq!(unreachable(5), Some((13, true)));
        assert_eq!(unreachable(6), Some((13, true)));
        assert_eq!(unreachable(7), Some((71, true)));
        assert_eq!(errno(Icmpv6::TimeExceeded { code: 0 }), Some((113, false)));
        let problem = |code| errno(Icmpv6::ParameterProblem { code, pointer: 6 });
        assert_eq!(problem(0), Some((71, true)));
        assert_eq!(problem(1), Some((71, true)));
        assert_eq!(errno(Icmpv6::RouterSolicit), None);
        for (mtu, expected) in [(1_280, 1_280), (0, 0), (100_000, 65_535)] {
            let e = parse_error(
                &Icmpv6::PacketTooBig { mtu },
                &quoted(protocol::UDP, &TRANSPORT),
            );
            let kind = ErrorKind::FragmentationNeeded { mtu: expected };
            assert_eq!(e.map(|e| e.kind), Some(kind));
        }
    }

    /// RFC 4443 sections 3.2 to 3.4: each message is what it says.
    #[test]
    fn kinds_are_told_apart() {
        let kind = |message: Icmpv6| {
            let e = parse_error(&message, &quoted(protocol::UDP, &TRANSPORT))?;
            assert_eq!(e.payload_at, HEADER_LEN + longshore_wire::udp::HEADER_LEN);
            Some(e.kind)
        };
        let time = |code| kind(Icmpv6::TimeExceeded { code });
        assert_eq!(time(0), Some(ErrorKind::TimeExceeded));
        assert_eq!(time(1), Some(ErrorKind::ReassemblyTimeExceeded));
        assert_eq!(time(2), None);
        let problem = |code| kind(Icmpv6::ParameterProblem { code, pointer: 6 });
        assert_eq!(problem(0), Some(ErrorKind::ParameterProblem));
        assert_eq!(problem(1), Some(ErrorKind::NextHeaderUnknown));
        assert_eq!(problem(2), Some(ErrorKind::ParameterProblem));
        for (mtu, expected) in [(65_535, 65_535), (65_536, 65_535)] {
            let big = kind(Icmpv6::PacketTooBig { mtu });
            assert_eq!(big, Some(ErrorKind::FragmentationNeeded { mtu: expected }));
        }
        // What lies before the transport's header is not its payload.
        let fragment = FragmentHeader {
            offset: 0,
            more: true,
            identification: 7,
            next_header: protocol::UDP,
        };
        let mut behind = vec![0; FRAGMENT_LEN];
        fragment.emit(&mut behind);
        behind.extend(TRANSPORT);
        let e = parse_error(&PORT, &quoted(next_header::FRAGMENT, &behind)).expect("an error");
        let at = HEADER_LEN + FRAGMENT_LEN + longshore_wire::udp::HEADER_LEN;
        assert_eq!(e.payload_at, at);
    }

    #[test]
    fn when_an_error_may_be_sent() {
        let one = header(protocol::UDP);
        assert!(may_answer_error(&one, false, false, false));
        assert!(!may_answer_error(&one, false, true, true), "about an error");
        assert!(!may_answer_error(&one, true, false, false));
        assert!(may_answer_error(&one, true, false, true));
        let group = Ipv6Header {
            destination: longshore_wire::ipv6::ALL_NODES,
            ..one
        };
        assert!(!may_answer_error(&group, false, false, false));
        assert!(may_answer_error(&group, false, false, true));
        let own = Ipv6Header {
            source: Ipv6Addr::LOCALHOST,
            ..one
        };
        assert!(may_answer_error(&own, false, false, false));
        for source in [Ipv6Addr::UNSPECIFIED, longshore_wire::ipv6::ALL_NODES] {
            let nobody = Ipv6Header { source, ..one };
            assert!(!may_answer_error(&nobody, false, false, true));
        }
    }

    proptest! {
        #[test]
        fn any_quote_is_survived(next: u8, behind in proptest::collection::vec(any::<u8>(), 0..60), cut in 0usize..100) {
            let quote = quoted(next, &behind);
            let _ = parse_error(&PORT, &quote[..cut.min(quote.len())]);
        }
    }
}
