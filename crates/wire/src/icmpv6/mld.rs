//! Multicast listener reports to routers and switches (MLDv2, RFC 3810), and to those that speak
//! MLDv1 alone (RFC 2710).
//!
//! A host that neighbours resolve by multicast must report its groups, or a switch that
//! prunes multicast does not forward their solicitations (RFC 4861 section 7.2.1).

use super::{Icmpv6, sum};
use crate::bytes::{array, front, get16, put, put16, rest, rest_mut};
use crate::ipv6::{ALL_ROUTERS, next_header};
use crate::membership::{Record, emit_record, record_len, sources};
use core::net::Ipv6Addr;

/// The destination of reports: all routers that support MLDv2.
pub const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop limit of MLD messages (RFC 3810 section 5).
pub const HOP_LIMIT: u8 = 1;

/// The version that a router uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 2710.
    V1,
    /// RFC 3810.
    V2,
}

impl Version {
    /// That of a query, of which `data` is what stands behind its [header](Icmpv6::header_len): one
    /// of version 1 ends with the group (RFC 3810 section 8.1).
    #[must_use]
    pub const fn of_query(data: &[u8]) -> Self {
        match data.is_empty() {
            true => Self::V1,
            false => Self::V2,
        }
    }
}

pub(super) const QUERY: u8 = 130;
const OLDER_REPORT: u8 = 131;
const DONE: u8 = 132;
pub(super) const REPORT: u8 = 143;

/// A hop-by-hop header with the router alert option, value 0: MLD (RFC 2711), before each
/// message.
const ROUTER_ALERT: [u8; 8] = [next_header::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
/// Most sources in one report on a group: with them it passes any link (RFC 8200 section 5: 1,280
/// bytes).
pub const MOST_SOURCES: usize = 72;
const _: () = assert!(crate::ipv6::HEADER_LEN + report_len(1, MOST_SOURCES) <= 1280);

/// Where in a query the group's address ends.
const QUERY_LEN: usize = 24;

/// The maximum response delay of a query, in milliseconds, from its code (RFC 3810
/// section 5.1.3; in version 1 each code is the delay).
#[must_use]
pub const fn response_ms(version: Version, code: u16) -> u32 {
    let code = code as u32;
    if matches!(version, Version::V1) || code < 0x8000 {
        return code;
    }
    (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3)
}

/// Length of a report on `groups` groups of `sources` each, with the header before it, bytes.
#[must_use]
pub const fn report_len(groups: usize, sources: usize) -> usize {
    ROUTER_ALERT.len() + super::HEADER_LEN + groups * record_len::<16>(sources)
}

/// Length of a report or a Done of version 1, with the header before it, bytes.
pub const OLDER_LEN: usize = ROUTER_ALERT.len() + QUERY_LEN;

/// Writes a message of version 1 from `source` with its hop-by-hop header: that `group` is listened
/// to, or by nobody here any more (RFC 2710 section 3). Gives its destination.
#[must_use]
pub fn emit_older(
    source: Ipv6Addr,
    is_listener: bool,
    group: Ipv6Addr,
    bytes: &mut [u8; OLDER_LEN],
) -> Ipv6Addr {
    let (kind, destination) = match is_listener {
        true => (OLDER_REPORT, group),
        false => (DONE, ALL_ROUTERS),
    };
    put(bytes, 0, ROUTER_ALERT);
    let message = rest_mut(bytes, ROUTER_ALERT.len());
    put(message, 0, [kind, 0, 0, 0, 0, 0, 0, 0]);
    put(message, super::HEADER_LEN, group.octets());
    let checksum = sum(source, destination, message).finish();
    put16(message, 2, checksum);
    destination
}

/// Writes a report from `source` with its hop-by-hop header; returns its length. The
/// packet's next header is [`next_header::HOP_BY_HOP`], its destination [`ROUTERS`].
/// `bytes` must not be shorter than [`report_len`].
pub fn emit_report<'a>(
    source: Ipv6Addr,
    records: impl Iterator<Item = (Record, Ipv6Addr, &'a [Ipv6Addr])>,
    bytes: &mut [u8],
) -> usize {
    put(bytes, 0, ROUTER_ALERT);
    let message = rest_mut(bytes, ROUTER_ALERT.len());
    let mut at = super::HEADER_LEN;
    let mut count = 0;
    for (record, group, list) in records {
        let sources = list.iter().map(Ipv6Addr::octets);
        at += emit_record(record, group.octets(), sources, rest_mut(message, at));
        count += 1;
    }
    put(message, 0, [REPORT, 0, 0, 0, 0, 0, 0, 0]);
    put16(message, 6, count);
    let checksum = sum(source, ROUTERS, front(message, at)).finish();
    put16(message, 2, checksum);
    ROUTER_ALERT.len() + at
}

/// Parses the query in a message of type 130 (RFC 3810 section 5.1): its group is the
/// unspecified address for all groups. `None` if it is too short, also for the sources that it
/// names.
pub(super) fn parse_query(bytes: &[u8]) -> Option<Icmpv6> {
    let b: &[u8; QUERY_LEN] = bytes.first_chunk()?;
    sources::<16>(rest(bytes, QUERY_LEN))?;
    Some(Icmpv6::MulticastQuery {
        max_response: get16(b, 4),
        group: Ipv6Addr::from(array::<16>(b, 8)),
    })
}

/// The sources that a query asks for, of which `data` is what stands behind its
/// [header](Icmpv6::header_len).
pub fn sources_asked(data: &[u8]) -> impl Iterator<Item = Ipv6Addr> {
    let list = sources::<16>(data).unwrap_or_default();
    list.iter().map(|source| Ipv6Addr::from(*source))
}
