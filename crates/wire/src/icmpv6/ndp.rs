//! Neighbour discovery messages and their options (RFC 4861 section 4).

use super::Icmpv6;
use crate::bytes::{array, get8, get16, get32, put, put16, put32, rest_mut};
use crate::ipv6::Ipv6Header;
use crate::{MacAddr, WireError};
use core::net::Ipv6Addr;

const ROUTER_SOLICIT: u8 = 133;
const ROUTER_ADVERT: u8 = 134;
const NEIGHBOR_SOLICIT: u8 = 135;
const NEIGHBOR_ADVERT: u8 = 136;

const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;
const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;

/// Parses a message of types 133 to 136 whose code, hop limit and checksum are correct.
pub(super) fn parse(kind: u8, ip: &Ipv6Header, bytes: &[u8]) -> Result<Icmpv6, WireError> {
    let group = ip.destination.is_multicast();
    let message = match kind {
        ROUTER_SOLICIT => Icmpv6::RouterSolicit,
        ROUTER_ADVERT => {
            let b: &[u8; 16] = bytes.first_chunk().ok_or(WireError::Truncated)?;
            if !ip.source.is_unicast_link_local() {
                return Err(WireError::BadField);
            }
            Icmpv6::RouterAdvert {
                hop_limit: b[4],
                managed: b[5] & MANAGED != 0,
                other: b[5] & OTHER != 0,
                lifetime: get16(b, 6),
                reachable_ms: get32(b, 8),
                retransmit_ms: get32(b, 12),
            }
        }
        NEIGHBOR_SOLICIT => Icmpv6::NeighborSolicit {
            target: target(bytes)?,
        },
        _ => {
            let flags = get32(bytes, 4);
            let solicited = flags & SOLICITED != 0;
            if group && solicited {
                return Err(WireError::BadField);
            }
            Icmpv6::NeighborAdvert {
                router: flags & ROUTER != 0,
                solicited,
                override_known: flags & OVERRIDE != 0,
                target: target(bytes)?,
            }
        }
    };
    let options = NdpOptions::parse(bytes.get(message.header_len()..).unwrap_or_default())?;
    if ip.source.is_unspecified() {
        // A host without an address has no link-layer address option, and probes the
        // group.
        let probe = options.source_link.is_none()
            && match message {
                Icmpv6::RouterSolicit => true,
                Icmpv6::NeighborSolicit { target } => {
                    ip.destination == crate::ipv6::solicited_node(target)
                }
                _ => false,
            };
        if !probe {
            return Err(WireError::BadField);
        }
    }
    Ok(message)
}

fn target(bytes: &[u8]) -> Result<Ipv6Addr, WireError> {
    let b: &[u8; 24] = bytes.first_chunk().ok_or(WireError::Truncated)?;
    let target = Ipv6Addr::from(array::<16>(b, 8));
    if target.is_multicast() {
        return Err(WireError::BadField);
    }
    Ok(target)
}

/// Writes the message after its first eight bytes; returns the type and the second word.
pub(super) fn emit(message: &Icmpv6, bytes: &mut [u8]) -> (u8, u32) {
    match *message {
        Icmpv6::RouterAdvert {
            hop_limit,
            managed,
            other,
            lifetime,
            reachable_ms,
            retransmit_ms,
        } => {
            put32(bytes, 8, reachable_ms);
            put32(bytes, 12, retransmit_ms);
            let flags = if managed { MANAGED } else { 0 } | if other { OTHER } else { 0 };
            let word = u32::from_be_bytes([hop_limit, flags, 0, 0]) | u32::from(lifetime);
            (ROUTER_ADVERT, word)
        }
        Icmpv6::NeighborSolicit { target } => {
            put(bytes, 8, target.octets());
            (NEIGHBOR_SOLICIT, 0)
        }
        Icmpv6::NeighborAdvert {
            router,
            solicited,
            override_known,
            target,
        } => {
            put(bytes, 8, target.octets());
            let flag = |set, bit| if set { bit } else { 0 };
            let word =
                flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(override_known, OVERRIDE);
            (NEIGHBOR_ADVERT, word)
        }
        _ => (ROUTER_SOLICIT, 0),
    }
}

/// Most prefixes that are read from one message; further ones are skipped.
pub const MAX_PREFIXES: usize = 8;

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;
const DNS_SERVERS: u8 = 25;
const DNS_SEARCH: u8 = 31;

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// A prefix of the link (RFC 4861 section 4.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixInfo {
    /// The prefix; bits beyond its length are meaningless.
    pub prefix: Ipv6Addr,
    /// Its length, at most 128.
    pub len: u8,
    /// Its addresses are on the link.
    pub on_link: bool,
    /// Hosts may generate an address with it (RFC 4862).
    pub autonomous: bool,
    /// How long it is on the link, seconds; all ones for infinity.
    pub valid: u32,
    /// How long addresses generated from it are preferred, seconds.
    pub preferred: u32,
}

/// The options of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NdpOptions {
    /// The sender's link-layer address.
    pub source_link: Option<MacAddr>,
    /// The target's link-layer address.
    pub target_link: Option<MacAddr>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// The first prefixes.
    pub prefixes: [Option<PrefixInfo>; MAX_PREFIXES],
    /// It has resolvers or domains (RFC 8106), which are not read.
    pub names_dns: bool,
}

impl NdpOptions {
    /// Parses options. Unknown ones are skipped.
    ///
    /// # Errors
    /// [`WireError::BadLength`] for a length of zero or beyond the end: the whole
    /// message must be dropped (RFC 4861 section 4.6).
    pub fn parse(mut bytes: &[u8]) -> Result<Self, WireError> {
        let mut options = Self::default();
        let mut prefixes = options.prefixes.iter_mut();
        while let [kind, words, ..] = *bytes {
            let len = usize::from(words) * 8;
            let option = bytes.get(..len).ok_or(WireError::BadLength)?;
            match (kind, len) {
                (_, 0) => return Err(WireError::BadLength),
                (SOURCE_LINK, 8) => options.source_link = Some(mac(option)),
                (TARGET_LINK, 8) => options.target_link = Some(mac(option)),
                (MTU, 8) => options.mtu = Some(get32(option, 4)),
                (PREFIX, 32) if get8(option, 2) <= 128 => {
                    if let Some(place) = prefixes.next() {
                        *place = Some(prefix(option));
                    }
                }
                (DNS_SERVERS | DNS_SEARCH, _) => options.names_dns = true,
                _ => {}
            }
            bytes = bytes.get(len..).unwrap_or_default();
        }
        if bytes.is_empty() {
            Ok(options)
        } else {
            Err(WireError::BadLength)
        }
    }

    /// Length of the options, bytes.
    #[must_use]
    pub fn emitted_len(&self) -> usize {
        let small = [
            self.source_link.is_some(),
            self.target_link.is_some(),
            self.mtu.is_some(),
        ];
        let prefixes = self.prefixes.iter().flatten().count();
        8 * small.into_iter().filter(|there| *there).count() + 32 * prefixes
    }

    /// Writes the options; returns their length. `bytes` must not be shorter.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        for (kind, link) in [
            (SOURCE_LINK, self.source_link),
            (TARGET_LINK, self.target_link),
        ] {
            if let Some(mac) = link {
                put(bytes, at, [kind, 1]);
                put(bytes, at + 2, mac.0);
                at += 8;
            }
        }
        if let Some(mtu) = self.mtu {
            put(bytes, at, [MTU, 1]);
            put16(bytes, at + 2, 0);
            put32(bytes, at + 4, mtu);
            at += 8;
        }
        for p in self.prefixes.iter().flatten() {
            let option = rest_mut(bytes, at);
            let flag = |set, bit| if set { bit } else { 0 };
            let flags = flag(p.on_link, ON_LINK) | flag(p.autonomous, AUTONOMOUS);
            put(option, 0, [PREFIX, 4, p.len, flags]);
            put32(option, 4, p.valid);
            put32(option, 8, p.preferred);
            put32(option, 12, 0);
            put(option, 16, p.prefix.octets());
            at += 32;
        }
        at
    }
}

/// The hardware address in an option of eight bytes.
fn mac(option: &[u8]) -> MacAddr {
    MacAddr(array(option, 2))
}

/// Parses the contents of an option of 32 bytes.
fn prefix(option: &[u8]) -> PrefixInfo {
    PrefixInfo {
        prefix: Ipv6Addr::from(array::<16>(option, 16)),
        len: get8(option, 2),
        on_link: get8(option, 3) & ON_LINK != 0,
        autonomous: get8(option, 3) & AUTONOMOUS != 0,
        valid: get32(option, 4),
        preferred: get32(option, 8),
    }
}
