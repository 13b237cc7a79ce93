//! DHCP messages for IPv4 (RFC 2131 section 2) with the options that our client requests
//! (RFC 2132, RFC 3442).
//!
//! [`Reply`] is a server's message, [`Request`] a client's. Text, domain names and all
//! other options that an address does not need are skipped.

use crate::bytes::{array, front_mut, get8, get16, get32, put, put_all, put8, put16, put32};
use crate::{MacAddr, WireError};
use core::net::Ipv4Addr;

/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 68;
/// The UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// Length of the longest message of [`Request::emit`], padded as old relays expect (RFC
/// 951 section 3), bytes.
pub const MAX_REQUEST_LEN: usize = 576 - 28;
/// Most routes that are read from one message; further ones are skipped.
pub const MAX_ROUTES: usize = 8;
/// Length of the longest client identifier that is sent, bytes.
pub const MAX_CLIENT_ID: usize = 32;

/// Offset of the options, after the fixed fields and the cookie.
const OPTIONS_AT: usize = 240;
const COOKIE: u32 = 0x6382_5363;
const SERVER_NAME: core::ops::Range<usize> = 44..108;
const BOOT_FILE: core::ops::Range<usize> = 108..236;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;
/// Answers must be broadcast: the client has no address yet (RFC 2131 section 4.1).
const BROADCAST: u16 = 0x8000;

mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED_ADDRESS: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER_ID: u8 = 54;
    pub(super) const PARAMETERS: u8 = 55;
    pub(super) const MAX_SIZE: u8 = 57;
    pub(super) const RENEWAL_TIME: u8 = 58;
    pub(super) const REBINDING_TIME: u8 = 59;
    pub(super) const CLIENT_ID: u8 = 61;
    pub(super) const CLASSLESS_ROUTES: u8 = 121;
    pub(super) const END: u8 = 255;
}

/// The options that a client requests; classless routes before the router, as in RFC
/// 3442.
const ASKED_FOR: [u8; 7] = [
    option::SUBNET_MASK,
    option::CLASSLESS_ROUTES,
    option::ROUTER,
    option::MTU,
    option::LEASE_TIME,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
];

/// The type of a message (RFC 2132 section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A client looks for servers.
    Discover = 1,
    /// A server offers an address.
    Offer = 2,
    /// A client requests an offered address, or a renewal.
    Request = 3,
    /// Another station has the address.
    Decline = 4,
    /// The server grants the address.
    Ack = 5,
    /// The server refuses the address.
    Nak = 6,
    /// The client gives the address up.
    Release = 7,
}

/// A route in a server's message (RFC 3442).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticRoute {
    /// The network; bits behind the prefix are zero.
    pub network: Ipv4Addr,
    /// The length of its prefix, at most 32.
    pub prefix_len: u8,
    /// The router; unspecified if the network is on the link.
    pub router: Ipv4Addr,
}

/// A server's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Offer, ACK or NAK.
    pub kind: Kind,
    /// The client's transaction id.
    pub xid: u32,
    /// The client's hardware address.
    pub client: MacAddr,
    /// The address for the client.
    pub address: Ipv4Addr,
    /// The server's address; every message of one has it.
    pub server: Ipv4Addr,
    /// Length of the network's prefix in bits, if present.
    pub prefix_len: Option<u8>,
    /// The first router, if present.
    pub router: Option<Ipv4Addr>,
    /// The interface's MTU, in bytes.
    pub mtu: Option<u16>,
    /// Lease time in seconds; all ones for infinity.
    pub lease: Option<u32>,
    /// Seconds until renewal (T1).
    pub renew: Option<u32>,
    /// Seconds until rebinding (T2).
    pub rebind: Option<u32>,
    /// Routes, which replace `router` if there are any.
    pub routes: [Option<StaticRoute>; MAX_ROUTES],
}

impl Reply {
    /// Parses the payload of a datagram from a server.
    ///
    /// # Errors
    /// [`WireError`] if it is not an answer to a client on Ethernet, if its options do
    /// not end within it, or if it has no type or server.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; OPTIONS_AT] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let on_ethernet = (b[1], b[2]) == (ETHERNET, 6);
        if b[0] != REPLY || !on_ethernet || get32(b, 236) != COOKIE {
            return Err(WireError::BadField);
        }
        let mut found = Found::default();
        let overload = found.read(bytes.get(OPTIONS_AT..).unwrap_or_default())?;
        // RFC 2131 section 4.1: the `file` field first, then `sname`.
        if overload & 1 != 0 {
            found.read(&b[BOOT_FILE])?;
        }
        if overload & 2 != 0 {
            found.read(&b[SERVER_NAME])?;
        }
        Ok(Self {
            kind: found.kind.ok_or(WireError::BadField)?,
            xid: get32(b, 4),
            client: MacAddr(array(b, 28)),
            address: address(b, 16),
            server: found.server.ok_or(WireError::BadField)?,
            prefix_len: found.prefix_len,
            router: found.router,
            mtu: found.mtu,
            lease: found.lease,
            renew: found.renew,
            rebind: found.rebind,
            routes: found.routes,
        })
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(get32(bytes, at))
}

/// The options read so far. If one is repeated, the first counts.
#[derive(Default)]
struct Found {
    kind: Option<Kind>,
    server: Option<Ipv4Addr>,
    prefix_len: Option<u8>,
    router: Option<Ipv4Addr>,
    mtu: Option<u16>,
    lease: Option<u32>,
    renew: Option<u32>,
    rebind: Option<u32>,
    routes: [Option<StaticRoute>; MAX_ROUTES],
}

impl Found {
    /// Reads one field of options; returns which other fields contain options. The end of
    /// the field counts as an end option.
    fn read(&mut self, mut bytes: &[u8]) -> Result<u8, WireError> {
        let mut overload = 0;
        loop {
            match *bytes {
                [] | [option::END, ..] => return Ok(overload),
                [option::PAD, ref rest @ ..] => bytes = rest,
                [code, len, ref rest @ ..] => {
                    let data = rest.get(..usize::from(len)).ok_or(WireError::BadLength)?;
                    if let (option::OVERLOAD, [fields]) = (code, data) {
                        overload = *fields;
                    }
                    self.take(code, data);
                    bytes = rest.get(usize::from(len)..).unwrap_or_default();
                }
                [_] => return Err(WireError::BadLength),
            }
        }
    }

    /// Reads an option, if it is known and has the right length.
    fn take(&mut self, code: u8, data: &[u8]) {
        fn first<T>(place: &mut Option<T>, value: T) {
            place.get_or_insert(value);
        }
        match (code, data.len()) {
            (option::MESSAGE_TYPE, 1) => match get8(data, 0) {
                2 => first(&mut self.kind, Kind::Offer),
                5 => first(&mut self.kind, Kind::Ack),
                6 => first(&mut self.kind, Kind::Nak),
                _ => {}
            },
            (option::SERVER_ID, 4) => first(&mut self.server, address(data, 0)),
            (option::SUBNET_MASK, 4) => {
                let mask = get32(data, 0);
                // A mask must consist of ones followed by zeroes.
                if mask.leading_ones() + mask.trailing_zeros() >= 32 {
                    first(&mut self.prefix_len, mask.leading_ones() as u8);
                }
            }
            (option::ROUTER, 4..) => first(&mut self.router, address(data, 0)),
            (option::MTU, 2) => first(&mut self.mtu, get16(data, 0)),
            (option::LEASE_TIME, 4) => first(&mut self.lease, get32(data, 0)),
            (option::RENEWAL_TIME, 4) => first(&mut self.renew, get32(data, 0)),
            (option::REBINDING_TIME, 4) => first(&mut self.rebind, get32(data, 0)),
            (option::CLASSLESS_ROUTES, 5..) if self.routes[0].is_none() => {
                self.routes = classless_routes(data);
            }
            _ => {}
        }
    }
}

/// The valid routes of RFC 3442: a prefix's length, its significant bytes, a router.
fn classless_routes(mut data: &[u8]) -> [Option<StaticRoute>; MAX_ROUTES] {
    let mut routes = [None; MAX_ROUTES];
    for place in &mut routes {
        let [prefix_len @ 0..=32, rest @ ..] = data else {
            break;
        };
        let significant = usize::from(prefix_len.div_ceil(8));
        let Some((network, rest)) = rest.split_at_checked(significant) else {
            break;
        };
        let Some((router, rest)) = rest.split_first_chunk::<4>() else {
            break;
        };
        let mut octets = [0; 4];
        put_all(&mut octets, 0, network);
        let mask = u32::MAX
            .checked_shl(32 - u32::from(*prefix_len))
            .unwrap_or(0);
        *place = Some(StaticRoute {
            network: Ipv4Addr::from_bits(u32::from_be_bytes(octets) & mask),
            prefix_len: *prefix_len,
            router: Ipv4Addr::from(*router),
        });
        data = rest;
    }
    routes
}

/// A client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its type.
    pub kind: Kind,
    /// The transaction id, which the answer repeats.
    pub xid: u32,
    /// Seconds since the client began.
    pub seconds: u16,
    /// Our hardware address.
    pub client: MacAddr,
    /// Our address, if it is in use; else unspecified, and the answer is broadcast.
    pub in_use: Ipv4Addr,
    /// The requested or declined address.
    pub wanted: Option<Ipv4Addr>,
    /// The selected server.
    pub server: Option<Ipv4Addr>,
    /// The client identifier (RFC 2132 section 9.14), at most [`MAX_CLIENT_ID`] bytes of
    /// it; omitted if empty.
    pub client_id: &'a [u8],
}

impl Request<'_> {
    /// Writes the message; returns its length. `bytes` must not be shorter than
    /// [`MAX_REQUEST_LEN`].
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        const LEAST: usize = 300;
        let bytes = front_mut(bytes, MAX_REQUEST_LEN);
        bytes.fill(0);
        put(bytes, 0, [REQUEST, ETHERNET, 6, 0]);
        put32(bytes, 4, self.xid);
        put16(bytes, 8, self.seconds);
        let answered = matches!(self.kind, Kind::Discover | Kind::Request);
        if answered && self.in_use.is_unspecified() {
            put16(bytes, 10, BROADCAST);
        }
        put32(bytes, 12, self.in_use.to_bits());
        put(bytes, 28, self.client.0);
        put32(bytes, 236, COOKIE);
        let mut at = OPTIONS_AT;
        let mut add = |code: u8, data: &[u8]| {
            put(bytes, at, [code, data.len() as u8]);
            put_all(bytes, at + 2, data);
            at += 2 + data.len();
        };
        add(option::MESSAGE_TYPE, &[self.kind as u8]);
        let id = self.client_id;
        let id = id.get(..MAX_CLIENT_ID).unwrap_or(id);
        if !id.is_empty() {
            add(option::CLIENT_ID, id);
        }
        if let Some(wanted) = self.wanted {
            add(option::REQUESTED_ADDRESS, &wanted.octets());
        }
        if let Some(server) = self.server {
            add(option::SERVER_ID, &server.octets());
        }
        // RFC 2131 table 5: not in messages without an answer.
        if answered {
            add(option::MAX_SIZE, &1472u16.to_be_bytes());
            add(option::PARAMETERS, &ASKED_FOR);
        }
        put8(bytes, at, option::END);
        (at + 1).max(LEAST)
    }
}

#[cfg(test)]
mod tests;
