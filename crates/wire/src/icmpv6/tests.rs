//! Messages there and back, and those that must not be believed.

use super::*;
use crate::MacAddr;
use crate::ipv6::solicited_node;
use proptest::prelude::*;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const TARGET: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);

fn ip(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6Header {
    Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: next_header::ICMPV6,
        hop_limit: 255,
        source,
        destination,
    }
}

fn bytes_of(ip: &Ipv6Header, message: &Icmpv6, behind: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xee; message.header_len()];
    bytes.extend(behind);
    message.emit(ip.source, ip.destination, &mut bytes);
    bytes
}

const SOLICIT: Icmpv6 = Icmpv6::NeighborSolicit { target: TARGET };

fn advert(solicited: bool) -> Icmpv6 {
    Icmpv6::NeighborAdvert {
        router: false,
        solicited,
        override_known: true,
        target: TARGET,
    }
}

fn all() -> Vec<Icmpv6> {
    vec![
        Icmpv6::Unreachable { code: 4 },
        Icmpv6::PacketTooBig { mtu: 70_000 },
        Icmpv6::TimeExceeded { code: 1 },
        Icmpv6::ParameterProblem {
            code: 2,
            pointer: 0x0102_0304,
        },
        Icmpv6::EchoRequest {
            identifier: 0x1234,
            sequence: 0x5678,
        },
        Icmpv6::EchoReply {
            identifier: 0x1234,
            sequence: 0x5678,
        },
        Icmpv6::RouterSolicit,
        Icmpv6::RouterAdvert {
            hop_limit: 64,
            managed: true,
            other: false,
            lifetime: 1_800,
            reachable_ms: 30_000,
            retransmit_ms: 1_000,
        },
        SOLICIT,
        advert(true),
        Icmpv6::MulticastQuery {
            max_response: 10_000,
            group: Ipv6Addr::new(0xff02, 1, 2, 3, 4, 5, 6, 7),
        },
        Icmpv6::Other { kind: 143, code: 0 },
        Icmpv6::Other { kind: 128, code: 1 },
        Icmpv6::Other { kind: 129, code: 1 },
        Icmpv6::Other { kind: 130, code: 1 },
    ]
}

#[test]
fn messages_come_back() {
    let ip = ip(ROUTER, HOST);
    // A hardware address as an option, or anything behind the others.
    let behind = [1, 1, 0, 0, 2, 0, 0, 9];
    for message in all() {
        let mut bytes = bytes_of(&ip, &message, &behind);
        assert_eq!(Icmpv6::parse(&ip, &bytes), Ok(message));
        assert!(bytes.ends_with(&behind));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let expected = Err(WireError::BadChecksum);
        assert_eq!(Icmpv6::parse(&ip, &bytes), expected);
    }
}

#[test]
fn errors_are_told_from_the_rest() {
    let errors: Vec<bool> = all().iter().map(Icmpv6::is_error).collect();
    let expected: Vec<bool> = (0..all().len()).map(|i| i < 4).collect();
    assert_eq!(errors, expected);
    let unknown_error = Icmpv6::Other { kind: 100, code: 0 };
    assert!(unknown_error.is_error());
}

#[test]
fn what_has_passed_a_router_is_not_believed() {
    let mut far = ip(ROUTER, HOST);
    far.hop_limit = 254;
    for message in all() {
        let bytes = bytes_of(&far, &message, &[]);
        let discovery = (133..=136).contains(&bytes[0]);
        let refused = Icmpv6::parse(&far, &bytes) == Err(WireError::BadField);
        assert_eq!(refused, discovery, "{message:?}");
    }
}

#[test]
fn discovery_keeps_to_its_rules() {
    let refused = |ip: Ipv6Header, message: Icmpv6, behind: &[u8]| {
        Icmpv6::parse(&ip, &bytes_of(&ip, &message, behind)).err()
    };
    let field = Some(WireError::BadField);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    // A solicited answer goes to one.
    assert_eq!(refused(ip(HOST, group), advert(true), &[]), field);
    assert_eq!(refused(ip(HOST, group), advert(false), &[]), None);
    // Groups have no hardware address of their own.
    let for_group = Icmpv6::NeighborSolicit { target: group };
    assert_eq!(refused(ip(HOST, ROUTER), for_group, &[]), field);
    // Routers speak from their link-local address.
    let router = all()[7];
    assert_eq!(refused(ip(TARGET, HOST), router, &[]), field);
    // A probe has no source, goes to the target's group, says no hardware address.
    let none = Ipv6Addr::UNSPECIFIED;
    let here = [1, 1, 2, 0, 0, 0, 0, 9];
    assert_eq!(
        refused(ip(none, solicited_node(TARGET)), SOLICIT, &[]),
        None
    );
    assert_eq!(
        refused(ip(none, solicited_node(TARGET)), SOLICIT, &here),
        field
    );
    assert_eq!(refused(ip(none, group), SOLICIT, &[]), field);
    assert_eq!(refused(ip(none, group), advert(false), &[]), field);
    assert_eq!(
        refused(ip(none, group), Icmpv6::RouterSolicit, &here),
        field
    );
    assert_eq!(refused(ip(none, group), Icmpv6::RouterSolicit, &[]), None);
    // Options of no length, cut off, or beyond the end.
    let length = Some(WireError::BadLength);
    for options in [
        &[9, 0, 0, 0, 0, 0, 0, 0][..],
        &[9],
        &[9, 2, 0, 0, 0, 0, 0, 0],
    ] {
        assert_eq!(refused(ip(HOST, ROUTER), SOLICIT, options), length);
    }
}

/// Each flag has a bit of its own.
#[test]
fn flags_come_back_in_all_combinations() {
    let ip = ip(ROUTER, HOST);
    for bits in 0..8u8 {
        let is_set = |bit: u8| bits & 1 << bit != 0;
        let advert = Icmpv6::NeighborAdvert {
            router: is_set(0),
            solicited: is_set(1),
            override_known: is_set(2),
            target: TARGET,
        };
        let router = Icmpv6::RouterAdvert {
            hop_limit: 64,
            managed: is_set(0),
            other: is_set(1),
            lifetime: 1_800,
            reachable_ms: 30_000,
            retransmit_ms: 1_000,
        };
        for message in [advert, router] {
            let bytes = bytes_of(&ip, &message, &[]);
            assert_eq!(Icmpv6::parse(&ip, &bytes), Ok(message));
        }
    }
}

/// RFC 3810 section 5.1.3: up to 32,767 as it is, and a floating-point number above.
#[test]
fn the_delay_of_a_query_is_decoded() {
    for (code, delay) in [
        (0, 0),
        (1, 1),
        (0x7fff, 32_767),
        (0x8000, 32_768),
        (0x8001, 0x1001 << 3),
        (0x9000, 0x1000 << 4),
        (0xefff, 0x1fff << 9),
        (0xffff, 8_387_584),
    ] {
        assert_eq!(mld::response_ms(mld::Version::V2, code), delay, "{code:#x}");
    }
}

/// RFC 4861 sections 4.6.2 and 4.6.4: a sender sets what is reserved to zero.
#[test]
fn nothing_is_left_in_the_reserved_fields_of_options() {
    let mut prefixes = [None; MAX_PREFIXES];
    prefixes[0] = Some(PrefixInfo {
        prefix: TARGET,
        len: 64,
        on_link: true,
        autonomous: false,
        valid: 1,
        preferred: 2,
    });
    let options = NdpOptions {
        mtu: Some(1_500),
        prefixes,
        ..NdpOptions::default()
    };
    let mut bytes = [0xee; 40];
    assert_eq!(options.emit(&mut bytes), bytes.len());
    assert_eq!(bytes[2..4], [0; 2]);
    assert_eq!(bytes[20..24], [0; 4]);
}

#[test]
fn a_prefix_is_no_longer_than_an_address() {
    let mut option = [0; 32];
    option[..3].copy_from_slice(&[3, 4, 128]);
    assert_eq!(
        NdpOptions::parse(&option).unwrap().prefixes[0].map(|p| p.len),
        Some(128)
    );
    option[2] = 129;
    assert_eq!(NdpOptions::parse(&option), Ok(NdpOptions::default()));
}

fn prefix_info() -> impl Strategy<Value = PrefixInfo> {
    (any::<([u8; 16], bool, bool, u32, u32)>(), 0u8..=128).prop_map(|((p, o, a, v, f), len)| {
        PrefixInfo {
            prefix: p.into(),
            len,
            on_link: o,
            autonomous: a,
            valid: v,
            preferred: f,
        }
    })
}

proptest! {
    #[test]
    fn options_come_back(
        links: (Option<[u8; 6]>, Option<[u8; 6]>),
        mtu: Option<u32>,
        prefixes in proptest::collection::vec(prefix_info(), 0..=MAX_PREFIXES),
    ) {
        let options = NdpOptions {
            source_link: links.0.map(MacAddr),
            target_link: links.1.map(MacAddr),
            mtu,
            prefixes: core::array::from_fn(|i| prefixes.get(i).copied()),
            names_dns: false,
        };
        let mut bytes = vec![0xee; options.emitted_len()];
        prop_assert_eq!(options.emit(&mut bytes), bytes.len());
        prop_assert_eq!(NdpOptions::parse(&bytes), Ok(options));
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..12) {
        let ip = ip(ROUTER, HOST);
        let _ = Icmpv6::parse(&ip, &bytes);
        let _ = NdpOptions::parse(&bytes);
        // Beyond the checksum, too.
        if bytes.len() >= 4 {
            bytes[0] = kind + 126;
            bytes[1] = 0;
            bytes[2..4].fill(0);
            let right = sum(ip.source, ip.destination, &bytes).finish();
            bytes[2..4].copy_from_slice(&right.to_be_bytes());
            prop_assert_ne!(Icmpv6::parse(&ip, &bytes), Err(WireError::BadChecksum));
        }
    }
}

#[test]
fn a_report_says_which_groups_we_listen_to() {
    use crate::ipv6::{Upper, walk};
    let groups = [solicited_node(TARGET), crate::ipv6::ALL_NODES];
    let mut bytes = [0xee; 200];
    let record = |group| (crate::membership::Record::ToExclude, group, &[][..]);
    let len = mld::emit_report(HOST, groups.into_iter().map(record), &mut bytes);
    assert_eq!(len, mld::report_len(2, 0));
    let upper = Upper {
        next_header: next_header::ICMPV6,
        at: 8,
        fragment: None,
    };
    // The option is understood no further, and passed over.
    assert_eq!(walk(next_header::HOP_BY_HOP, &bytes[..len]), Ok(upper));
    let message = &bytes[8..len];
    let other = Icmpv6::Other { kind: 143, code: 0 };
    assert_eq!(Icmpv6::parse(&ip(HOST, mld::ROUTERS), message), Ok(other));
    assert_eq!(get16(message, 6), 2);
    for (record, group) in message[8..].chunks(20).zip(groups) {
        assert_eq!(record[..4], [4, 0, 0, 0]);
        assert_eq!(record[4..], group.octets());
    }
}

#[test]
fn reports_and_queries_name_sources() {
    let list = [HOST, TARGET];
    let mut bytes = [0xee; 200];
    let record = (crate::membership::Record::Allow, TARGET, &list[..]);
    let len = mld::emit_report(HOST, std::iter::once(record), &mut bytes);
    assert_eq!(len, mld::report_len(1, 2));
    assert_eq!(bytes[16..20], [5, 0, 0, 2]);
    assert_eq!(bytes[52..len], TARGET.octets());
    let query = Icmpv6::MulticastQuery {
        max_response: 10,
        group: TARGET,
    };
    let (at, ip) = (query.header_len(), ip(ROUTER, HOST));
    for (said, read) in [(0, Some(0)), (2, Some(2)), (3, None)] {
        let mut message = vec![0; at + 4];
        message[at + 3] = said;
        message.extend(list.iter().flat_map(Ipv6Addr::octets));
        query.emit(ip.source, ip.destination, &mut message);
        let parsed = Icmpv6::parse(&ip, &message).ok();
        assert_eq!(
            parsed.map(|_| mld::sources_asked(&message[at..]).count()),
            read
        );
    }
}

/// RFC 2710 section 3, and 3810 section 8.1.
#[test]
fn routers_of_version_1_are_told_of_one_group() {
    for (is_listener, kind, to) in [(true, 131, TARGET), (false, 132, crate::ipv6::ALL_ROUTERS)] {
        let mut bytes = [0xee; mld::OLDER_LEN];
        assert_eq!(mld::emit_older(HOST, is_listener, TARGET, &mut bytes), to);
        let message = &bytes[8..];
        assert_eq!(bytes[..8], [58, 0, 5, 2, 0, 0, 1, 0]);
        let other = Icmpv6::Other { kind, code: 0 };
        assert_eq!(Icmpv6::parse(&ip(HOST, to), message), Ok(other));
        assert_eq!(message[4..8], [0; 4]);
        assert_eq!(message[8..], TARGET.octets());
    }
    assert_eq!(mld::Version::of_query(&[]), mld::Version::V1);
    assert_eq!(mld::Version::of_query(&[0; 4]), mld::Version::V2);
    assert_eq!(mld::response_ms(mld::Version::V1, 0xffff), 65_535);
}

#[test]
fn resolvers_are_seen_and_not_read() {
    let mut servers = [0; 24];
    servers[..2].copy_from_slice(&[25, 3]);
    assert!(NdpOptions::parse(&servers).unwrap().names_dns);
    assert!(
        NdpOptions::parse(&[31, 1, 0, 0, 0, 0, 0, 0])
            .unwrap()
            .names_dns
    );
    assert!(
        !NdpOptions::parse(&[14, 1, 0, 0, 0, 0, 0, 0])
            .unwrap()
            .names_dns
    );
}
