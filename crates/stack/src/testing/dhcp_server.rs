//! A DHCP server on the wire, at 10.0.0.2: it gives its one client 10.0.0.1, for a minute at a time
//! unless it is told other terms.

use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::dhcp::{CLIENT_PORT, SERVER_PORT};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::udp::{self, UdpHeader};
use std::net::{IpAddr, Ipv4Addr};

/// Where it is.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// What it gives.
pub const GIVEN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MASK: [u8; 4] = [255, 255, 255, 0];
/// For how long, in seconds, unless told otherwise.
pub const LEASE_S: u32 = 60;
/// Where options begin, after the four bytes by which they are known (RFC 2131 section 3).
const OPTIONS_AT: usize = 240;
/// A client looks for servers: a message type (RFC 2132 section 9.6), as the others.
pub const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
/// A client asks for an address, or to keep it.
pub const REQUEST: u8 = 3;
/// A client has found that somebody else has its address.
pub const DECLINE: u8 = 4;
const ACK: u8 = 5;
/// A client gives its address back.
pub const RELEASE: u8 = 7;

/// The server. It keeps nothing: there is one client.
#[derive(Debug)]
pub struct DhcpServer {
    /// Requests that it has granted.
    pub granted: u64,
    /// For how long, in seconds.
    pub lease_s: u32,
    /// Further options of its messages, encoded (RFC 2132).
    pub options: Vec<u8>,
}

impl Default for DhcpServer {
    fn default() -> Self {
        Self {
            granted: 0,
            lease_s: LEASE_S,
            options: Vec::new(),
        }
    }
}

impl DhcpServer {
    /// What it answers to a frame, if that is for it.
    pub fn answer(&mut self, frame: &[u8], from: MacAddr) -> Option<Vec<u8>> {
        let message = message_of(frame)?;
        let kind = match message_type(message)? {
            DISCOVER => OFFER,
            REQUEST => ACK,
            _ => return None,
        };
        self.granted += u64::from(kind == ACK);
        let reply = self.reply(message.get(..OPTIONS_AT)?, kind);
        Some(framed(&reply, from))
    }

    fn reply(&self, request: &[u8], kind: u8) -> Vec<u8> {
        let mut bytes = request.to_vec();
        bytes[0] = 2;
        bytes[16..20].copy_from_slice(&GIVEN.octets());
        bytes.extend([53, 1, kind]);
        for (option, value) in [
            (54, OWN.octets()),
            (51, self.lease_s.to_be_bytes()),
            (1, MASK),
        ] {
            bytes.extend([option, 4]);
            bytes.extend(value);
        }
        bytes.extend(&self.options);
        bytes.push(255);
        bytes
    }
}

/// The message of a frame to servers.
fn message_of(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    if EthernetHeader::parse(frame).ok()?.ether_type != EtherType::Ipv4 {
        return None;
    }
    let (ip, range) = Ipv4Header::parse(packet).ok()?;
    let datagram = packet.get(range)?;
    let header = UdpHeader::parse(datagram).ok()?;
    if ip.protocol != protocol::UDP || header.dst_port != SERVER_PORT {
        return None;
    }
    datagram.get(udp::HEADER_LEN..)
}

/// The type of the message in a frame to servers, if it is one.
pub fn kind_of(frame: &[u8]) -> Option<u8> {
    message_type(message_of(frame)?)
}

/// Option 53 of a message.
fn message_type(message: &[u8]) -> Option<u8> {
    let mut options = message.get(OPTIONS_AT..)?;
    loop {
        match options {
            [53, 1, kind, ..] => return Some(*kind),
            [0, rest @ ..] => options = rest,
            [255, ..] | [] => return None,
            [_, len, rest @ ..] => options = rest.get(usize::from(*len)..)?,
            [_] => return None,
        }
    }
}

/// A message to all clients.
pub fn framed(message: &[u8], from: MacAddr) -> Vec<u8> {
    let len = udp::HEADER_LEN + message.len();
    let mut datagram = vec![0; udp::HEADER_LEN];
    let mut header = UdpHeader {
        src_port: SERVER_PORT,
        dst_port: CLIENT_PORT,
        payload_len: message.len() as u16,
        checksum: 0,
    };
    header.emit(&mut datagram);
    datagram.extend_from_slice(message);
    let [source, destination] = [OWN, Ipv4Addr::BROADCAST].map(IpAddr::V4);
    let pseudo = Partial::of_pseudo(source, destination, protocol::UDP, len as u32);
    header.checksum = pseudo.unwrap().plus(Partial::of(&datagram)).finish();
    header.emit(&mut datagram);
    let mut frame = vec![0; ethernet::HEADER_LEN + ipv4::HEADER_LEN];
    let link = EthernetHeader {
        destination: MacAddr::BROADCAST,
        source: from,
        ether_type: EtherType::Ipv4,
    };
    link.emit(&mut frame);
    let ip = Ipv4Header {
        tos: 0,
        payload_len: len as u16,
        identification: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::UDP,
        source: OWN,
        destination: Ipv4Addr::BROADCAST,
    };
    ip.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame.extend(datagram);
    frame
}
