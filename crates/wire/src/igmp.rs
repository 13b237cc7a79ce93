//! IGMP, by which hosts report IPv4 group memberships to routers and switches: version 3
//! (RFC 3376), and those messages of versions 1 and 2 (RFC 1112, RFC 2236) that a host
//! sends to an older router.

use crate::WireError;
use crate::bytes::{front, get16, put, put8, put16, rest, rest_mut};
use crate::checksum::Partial;
use crate::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use crate::membership::{Record, emit_record, record_len, sources};
use core::net::Ipv4Addr;

/// The all-systems group, of which all hosts are members without reporting it.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The destination of leave messages in version 2.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The destination of version 3 reports.
pub const REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// The TTL of messages (RFC 3376 section 4).
pub const TTL: u8 = 1;

/// The router alert option (RFC 2113), which each message has.
const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
/// Internetwork control (RFC 3376 section 4).
const SERVICE: u8 = 0xc0;
const MESSAGE: usize = 8;
/// Most sources in one report: with them it passes any link (RFC 791 section 3.1: 576 bytes).
pub const MOST_SOURCES: usize = 128;
/// Length of the longest packet, bytes.
pub const PACKET_LEN: usize =
    HEADER_LEN + ROUTER_ALERT.len() + MESSAGE + record_len::<4>(MOST_SOURCES);
const _: () = assert!(PACKET_LEN <= 576);

/// The version that a router uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 1112.
    V1,
    /// RFC 2236.
    V2,
    /// RFC 3376.
    V3,
}

/// A router's membership query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The version of the router.
    pub version: Version,
    /// The group; unspecified for all.
    pub group: Ipv4Addr,
    /// The maximum response delay, in milliseconds.
    pub within_ms: u32,
}

impl Query {
    /// Parses a message. `None` if it is valid, but not a query.
    ///
    /// # Errors
    /// [`WireError`] if it is too short, also for the sources that it names, or its checksum is
    /// wrong.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        const QUERY: u8 = 0x11;
        const V3_LEN: usize = 12;
        let b: &[u8; MESSAGE] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        if Partial::of(bytes).finish() != 0 {
            return Err(WireError::BadChecksum);
        }
        if b[0] != QUERY {
            return Ok(None);
        }
        // RFC 3376 section 7.1; tenths of a second.
        let (version, tenths) = match (bytes.len(), b[1]) {
            (MESSAGE, 0) => (Version::V1, 100),
            (MESSAGE, code) => (Version::V2, u32::from(code)),
            (V3_LEN.., code) => (Version::V3, tenths_of(code)),
            _ => return Err(WireError::BadLength),
        };
        sources::<4>(rest(bytes, MESSAGE)).ok_or(WireError::BadLength)?;
        Ok(Some(Self {
            version,
            group: Ipv4Addr::new(b[4], b[5], b[6], b[7]),
            within_ms: tenths * 100,
        }))
    }
}

/// The sources that a message asks for, which [`Query::parse`] has found to be a query.
pub fn sources_asked(bytes: &[u8]) -> impl Iterator<Item = Ipv4Addr> {
    let list = sources::<4>(rest(bytes, MESSAGE)).unwrap_or_default();
    list.iter().map(|source| Ipv4Addr::from(*source))
}

/// Decodes a time in version 3, a small floating-point number (RFC 3376 section 4.1.1).
fn tenths_of(code: u8) -> u32 {
    if code < 128 {
        return u32::from(code);
    }
    let (mantissa, exponent) = (u32::from(code & 15), u32::from(code >> 4 & 7));
    (mantissa | 0x10) << (exponent + 3)
}

/// A packet from `source` that reports this record for `group`, with the first [`MOST_SOURCES`] of
/// `list`, to routers of `version`: those before 3 have no lists. `None` if there is no such
/// message: version 1 cannot report leaving.
#[must_use]
pub fn report(
    source: Ipv4Addr,
    version: Version,
    record: Record,
    (group, list): (Ipv4Addr, &[Ipv4Addr]),
) -> Option<([u8; PACKET_LEN], usize)> {
    let (kind, destination) = match (version, record) {
        (Version::V3, _) => (0x22, REPORTS),
        (Version::V2, Record::ToInclude) => (0x17, ALL_ROUTERS),
        (Version::V1, Record::ToInclude) => return None,
        (Version::V2, _) => (0x16, group),
        (Version::V1, _) => (0x12, group),
    };
    let mut packet = [0; PACKET_LEN];
    let begins = HEADER_LEN + ROUTER_ALERT.len();
    let message = rest_mut(&mut packet, begins);
    put8(message, 0, kind);
    let len = if version == Version::V3 {
        put16(message, 6, 1);
        let sources = list.iter().take(MOST_SOURCES).map(Ipv4Addr::octets);
        let room = rest_mut(message, MESSAGE);
        MESSAGE + emit_record(record, group.octets(), sources, room)
    } else {
        put(message, 4, group.octets());
        MESSAGE
    };
    let sum = Partial::of(front(message, len)).finish();
    put16(message, 2, sum);
    let header = Ipv4Header {
        tos: SERVICE,
        payload_len: (ROUTER_ALERT.len() + len) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: TTL,
        protocol: protocol::IGMP,
        source,
        destination,
    };
    header.emit(&mut packet);
    // The option makes the header longer than `emit` assumes.
    packet[0] = 0x40 | (begins / 4) as u8;
    put(&mut packet, HEADER_LEN, ROUTER_ALERT);
    put16(&mut packet, 10, 0);
    let sum = Partial::of(front(&packet, begins)).finish();
    put16(&mut packet, 10, sum);
    Some((packet, begins + len))
}

/// The destination of a packet from [`report`].
#[must_use]
pub fn destination(packet: &[u8; PACKET_LEN]) -> Ipv4Addr {
    let at = get16(packet, 16);
    let [a, b] = at.to_be_bytes();
    let [c, d] = get16(packet, 18).to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    fn query(code: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        bytes[0] = 0x11;
        bytes[1] = code;
        bytes[4..8].copy_from_slice(&GROUP.octets());
        let sum = Partial::of(&bytes).finish();
        put16(&mut bytes, 2, sum);
        bytes
    }

    #[test]
    fn versions_are_told_by_length_and_code() {
        for (code, len, version, within_ms) in [
            (0, 8, Version::V1, 10_000),
            (100, 8, Version::V2, 10_000),
            (10, 12, Version::V3, 1_000),
            (10, 16, Version::V3, 1_000),
            (0x80, 12, Version::V3, 12_800),
            (0xff, 12, Version::V3, 3_174_400),
        ] {
            let expected = Query {
                version,
                group: GROUP,
                within_ms,
            };
            assert_eq!(Query::parse(&query(code, len)), Ok(Some(expected)));
        }
        assert_eq!(Query::parse(&query(0, 10)), Err(WireError::BadLength));
        let mut bad = query(0, 8);
        bad[7] ^= 1;
        assert_eq!(Query::parse(&bad), Err(WireError::BadChecksum));
    }

    #[test]
    fn reports_are_whole_packets() {
        for (version, record, kind, to) in [
            (Version::V3, Record::ToExclude, 0x22, REPORTS),
            (Version::V3, Record::ToInclude, 0x22, REPORTS),
            (Version::V2, Record::IsExclude, 0x16, GROUP),
            (Version::V2, Record::ToInclude, 0x17, ALL_ROUTERS),
            (Version::V1, Record::ToExclude, 0x12, GROUP),
        ] {
            let (packet, len) = report(US, version, record, (GROUP, &[])).unwrap();
            let (ip, payload) = Ipv4Header::parse(&packet[..len]).unwrap();
            assert_eq!((ip.source, ip.destination, ip.ttl), (US, to, 1));
            assert_eq!(destination(&packet), to);
            assert_eq!(payload.start, 24, "with the option");
            let message = &packet[payload];
            assert_eq!(message[0], kind);
            assert!(message.ends_with(&GROUP.octets()));
            assert_eq!(Query::parse(message), Ok(None), "its checksum is right");
        }
        assert_eq!(
            report(US, Version::V1, Record::ToInclude, (GROUP, &[])),
            None
        );
        let (packet, _) = report(US, Version::V3, Record::ToInclude, (GROUP, &[])).unwrap();
        assert_eq!(packet[20..24], [148, 4, 0, 0], "RFC 2113");
        assert_eq!(packet[30..32], [0, 1], "one record");
        assert_eq!(packet[32..36], [3, 0, 0, 0], "to listen to no source");
    }

    #[test]
    fn a_report_names_sources_as_far_as_there_is_room() {
        let list: Vec<_> = (0..=MOST_SOURCES as u32).map(Ipv4Addr::from).collect();
        for count in [1, MOST_SOURCES, MOST_SOURCES + 1] {
            let named = (GROUP, &list[..count]);
            let (packet, len) = report(US, Version::V3, Record::Allow, named).unwrap();
            let held = count.min(MOST_SOURCES);
            assert_eq!(len, 24 + 8 + 8 + 4 * held);
            let (_, payload) = Ipv4Header::parse(&packet[..len]).unwrap();
            assert_eq!(Partial::of(&packet[payload]).finish(), 0, "its checksum");
            assert_eq!(packet[32..36], [5, 0, (held >> 8) as u8, held as u8]);
            assert_eq!(packet[len - 4..len], list[held - 1].octets());
        }
        let (_, len) = report(US, Version::V2, Record::Allow, (GROUP, &list)).unwrap();
        assert_eq!(len, 24 + 8, "version 2 has none");
    }

    #[test]
    fn a_query_names_as_many_sources_as_it_says() {
        let mut bytes = query(10, 20);
        for (said, read) in [(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, None)] {
            bytes[11] = said;
            bytes[16..20].copy_from_slice(&GROUP.octets());
            bytes[2..4].fill(0);
            let sum = Partial::of(&bytes).finish();
            put16(&mut bytes, 2, sum);
            let parsed = Query::parse(&bytes)
                .ok()
                .map(|_| sources_asked(&bytes).count());
            assert_eq!(parsed, read);
        }
        bytes[11] = 2;
        assert_eq!(sources_asked(&bytes).last(), Some(GROUP));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Query::parse(&bytes);
        }
    }
}
