//! What errors mean, which are answered, and how many.

use super::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn header(protocol: u8) -> Ipv4Header {
    Ipv4Header {
        tos: 0,
        payload_len: 1_480,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 60,
        protocol,
        source: US,
        destination: THEM,
    }
}

/// The beginning of a packet of 1500 bytes: its IP header and eight more.
fn quote(header: &Ipv4Header) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    header.emit(&mut bytes);
    bytes.extend([0x12, 0x34, 0, 80, 0xaa, 0xbb, 0xcc, 0xdd]);
    bytes
}

fn unreachable(code: u8) -> Icmpv4 {
    Icmpv4::Unreachable {
        code,
        next_hop_mtu: 1_400,
    }
}

#[test]
fn an_error_names_the_connection() {
    let error = parse_error(&unreachable(4), &quote(&header(6))).unwrap();
    let expected = IcmpError {
        fields: ErrorFields {
            kind: 3,
            code: 4,
            info: 1_400,
        },
        payload_at: 28,
        kind: ErrorKind::FragmentationNeeded { mtu: 1_400 },
        protocol: 6,
        source: US.into(),
        destination: THEM.into(),
        src_port: 0x1234,
        dst_port: 80,
        tcp_seq: Some(SeqNumber(0xaabb_ccdd)),
        original_len: 1_500,
    };
    assert_eq!(error, expected);
    let error = parse_error(&unreachable(3), &quote(&header(17))).unwrap();
    assert_eq!(
        (error.kind, error.tcp_seq),
        (ErrorKind::PortUnreachable, None)
    );
    assert_eq!(error.dst_port, 80);
    let error = parse_error(&unreachable(1), &quote(&header(1))).unwrap();
    assert_eq!((error.protocol, error.src_port), (1, 0));
}

#[test]
fn a_router_may_have_changed_the_quoted_header() {
    let mut bytes = quote(&header(6));
    bytes[8] -= 1;
    assert!(parse_error(&unreachable(1), &bytes).is_some());
}

#[test]
fn options_before_the_ports_are_skipped() {
    let mut bytes = quote(&header(17));
    bytes[0] = 0x46;
    bytes.splice(20..20, [1, 1, 1, 0]);
    let error = parse_error(&unreachable(3), &bytes).unwrap();
    assert_eq!((error.src_port, error.original_len), (0x1234, 1_500));
}

#[test]
fn errors_mean_what_they_mean_on_linux() {
    let table = [
        (0, 101, false),
        (1, 113, false),
        (2, 92, true),
        (3, 111, true),
        (4, 90, false),
        (5, 95, false),
        (6, 101, true),
        (7, 112, true),
        (8, 64, true),
        (9, 101, true),
        (10, 113, true),
        (11, 101, false),
        (12, 113, false),
        (13, 113, true),
        (14, 113, true),
        (15, 113, true),
    ];
    for (code, errno, hard) in table {
        let kind = parse_error(&unreachable(code), &quote(&header(17)))
            .unwrap()
            .kind;
        assert_eq!((kind.errno(), kind.is_hard()), (errno, hard), "code {code}");
    }
    let kind = |m: &Icmpv4| parse_error(m, &quote(&header(17))).map(|e| e.kind);
    let exceeded = kind(&Icmpv4::TimeExceeded { code: 0 }).unwrap();
    let reassembly = kind(&Icmpv4::TimeExceeded { code: 1 });
    assert_eq!(reassembly, Some(ErrorKind::ReassemblyTimeExceeded));
    assert_eq!(kind(&Icmpv4::TimeExceeded { code: 2 }), None);
    assert_eq!((exceeded.errno(), exceeded.is_hard()), (113, false));
    let problem = kind(&Icmpv4::ParameterProblem { pointer: 1 }).unwrap();
    assert_eq!((problem.errno(), problem.is_hard()), (71, true));
}

#[test]
fn what_is_no_error_of_ours() {
    let whole = quote(&header(6));
    assert_eq!(parse_error(&unreachable(16), &whole), None);
    let source_quench = Icmpv4::Other { kind: 4, code: 0 };
    assert_eq!(parse_error(&source_quench, &whole), None);
    assert_eq!(
        parse_error(&unreachable(1), &whole[..27]),
        None,
        "too short"
    );
    assert_eq!(parse_error(&unreachable(1), &[]), None);
    let later = Ipv4Header {
        fragment_offset: 8,
        ..header(6)
    };
    assert_eq!(parse_error(&unreachable(1), &quote(&later)), None);
}

#[test]
fn when_an_error_may_be_sent() {
    let ok = Ipv4Header {
        source: THEM,
        destination: US,
        ..header(17)
    };
    assert!(may_answer_error(&ok, false, false));
    assert!(!may_answer_error(&ok, true, false));
    assert!(!may_answer_error(&ok, false, true));
    let no = |change: fn(&mut Ipv4Header)| {
        let mut h = ok;
        change(&mut h);
        !may_answer_error(&h, false, false)
    };
    assert!(no(|h| h.fragment_offset = 8));
    assert!(no(|h| h.destination = Ipv4Addr::BROADCAST));
    assert!(no(|h| h.destination = Ipv4Addr::new(224, 0, 0, 1)));
    assert!(no(|h| h.source = Ipv4Addr::UNSPECIFIED));
    assert!(no(|h| h.source = Ipv4Addr::new(224, 0, 0, 1)));
    assert!(no(|h| h.source = Ipv4Addr::BROADCAST));
}

#[test]
fn a_burst_then_a_rate() {
    let mut limit = RateLimit::new(10, 3);
    let start = Instant(0);
    assert_eq!((0..9).filter(|_| limit.allow(start)).count(), 3);
    assert_eq!(limit.refused(), 6);
    assert!(!limit.allow(start.after_ms(99)));
    assert!(limit.allow(start.after_ms(100)));
    assert!(!limit.allow(start.after_ms(100)));
    let later = start.after_ms(1_000_000);
    assert_eq!((0..9).filter(|_| limit.allow(later)).count(), 3);
}

/// However high the rate, a token takes a microsecond.
#[test]
fn the_highest_rate_is_one_in_a_microsecond() {
    for (rate, wait) in [
        (1_000_000, 1),
        (1_000_001, 1),
        (u32::MAX, 1),
        (500_000, 2),
        (0, 1_000_000),
        (1, 1_000_000),
    ] {
        let mut limit = RateLimit::new(rate, 0);
        let start = Instant(9_000_000);
        assert!(limit.allow(start) && !limit.allow(start));
        assert!(!limit.allow(Instant(start.0 + wait - 1)));
        assert!(limit.allow(Instant(start.0 + wait)), "{rate}");
        assert_eq!(limit.refused(), 2);
    }
}

proptest! {
    #[test]
    fn any_quote_is_survived(code: u8, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse_error(&unreachable(code), &bytes);
    }

    #[test]
    fn changed_quotes_are_survived(at in 0usize..28, value: u8, cut in 0usize..=28) {
        let mut bytes = quote(&header(6));
        bytes[at] = value;
        let _ = parse_error(&unreachable(1), &bytes[..cut]);
    }

    /// In no window are there more than the burst and what the rate gives.
    #[test]
    fn the_rate_is_kept(rate in 1u32..2_000, burst in 1u32..60, gaps in proptest::collection::vec(0u64..5_000, 1..300)) {
        let mut limit = RateLimit::new(rate, burst);
        let mut now = Instant(0);
        let mut sent = Vec::new();
        for gap in gaps {
            now = Instant(now.0 + gap);
            if limit.allow(now) {
                sent.push(now);
            }
        }
        let interval = 1_000_000 / u64::from(rate);
        for (i, from) in sent.iter().enumerate() {
            for (n, to) in sent[i..].iter().enumerate() {
                prop_assert!(n as u64 <= u64::from(burst) + to.since(*from) / interval);
            }
        }
    }
}
