//! Makes the lengths and checksums of a frame right, which chance hardly ever does, so
//! that what lies behind them is read, too. Called by the fuzz target `packets`, and by
//! the test of its seeds in `crates/wire/tests`.

use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::HEADER_LEN as ETHERNET;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::{Ipv6Header, next_header, walk};
use longshore_wire::{icmpv4, ipv4, ipv6, tcp, udp};

/// The sum of a pseudo-header, for a protocol and a length.
type Pseudo<'a> = &'a dyn Fn(u8, u32) -> Partial;

/// Repairs an Ethernet frame, as far as it has headers.
pub(crate) fn repair(frame: &mut [u8]) {
    if frame.len() < ETHERNET {
        return;
    }
    let (header, packet) = frame.split_at_mut(ETHERNET);
    match [header[12], header[13]] {
        [0x08, 0x00] => v4(packet),
        [0x86, 0xdd] => v6(packet),
        _ => {}
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn get(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn v4(packet: &mut [u8]) {
    let len = packet.len();
    if len < ipv4::HEADER_LEN {
        return;
    }
    let header_len = usize::from(packet[0] & 15) * 4;
    if !(ipv4::HEADER_LEN..=len).contains(&header_len) {
        return;
    }
    if !(header_len..=len).contains(&get(packet, 2)) {
        put(packet, 2, len.min(0xffff) as u16);
    }
    put(packet, 10, 0);
    let sum = Partial::of(&packet[..header_len]).finish();
    put(packet, 10, sum);
    let Ok((header, payload)) = Ipv4Header::parse(packet) else {
        return;
    };
    if header.fragment_offset == 0 && !header.more_fragments {
        let (source, destination) = (header.source, header.destination);
        transport(header.protocol, &mut packet[payload], &|protocol, len| {
            Partial::of_pseudo_v4(source, destination, protocol, len)
        });
    }
}

fn v6(packet: &mut [u8]) {
    let len = packet.len();
    if len < ipv6::HEADER_LEN {
        return;
    }
    if get(packet, 4) > len - ipv6::HEADER_LEN {
        put(packet, 4, (len - ipv6::HEADER_LEN).min(0xffff) as u16);
    }
    let Ok((header, payload)) = Ipv6Header::parse(packet) else {
        return;
    };
    let Ok(upper) = walk(header.next_header, &packet[payload.clone()]) else {
        return;
    };
    if upper.fragment.is_none_or(|fragment| fragment.is_atomic()) {
        let (source, destination) = (header.source, header.destination);
        let upper_bytes = &mut packet[payload.start + upper.at..payload.end];
        transport(upper.next_header, upper_bytes, &|protocol, len| {
            Partial::of_pseudo_v6(source, destination, protocol, len)
        });
    }
}

/// What is above IP. A fragment has only a part of it, and is left as it is.
fn transport(kind: u8, bytes: &mut [u8], pseudo: Pseudo<'_>) {
    match kind {
        protocol::TCP if bytes.len() >= tcp::HEADER_LEN => {
            let pseudo = pseudo(kind, bytes.len() as u32);
            sum(bytes, 16, pseudo);
        }
        protocol::UDP if bytes.len() >= udp::HEADER_LEN => {
            if !(udp::HEADER_LEN..=bytes.len()).contains(&get(bytes, 4)) {
                put(bytes, 4, bytes.len() as u16);
            }
            let datagram = get(bytes, 4);
            let pseudo = pseudo(kind, datagram as u32);
            sum(&mut bytes[..datagram], 6, pseudo);
            // RFC 768: zero means that there is none.
            if get(bytes, 6) == 0 {
                put(bytes, 6, 0xffff);
            }
        }
        next_header::ICMPV6 if bytes.len() >= icmpv4::HEADER_LEN => {
            let pseudo = pseudo(kind, bytes.len() as u32);
            sum(bytes, 2, pseudo);
        }
        protocol::ICMP | protocol::IGMP if bytes.len() >= icmpv4::HEADER_LEN => {
            sum(bytes, 2, Partial::of(&[]));
        }
        _ => {}
    }
}

/// Writes the checksum of `bytes` at `at`.
fn sum(bytes: &mut [u8], at: usize, pseudo: Partial) {
    put(bytes, at, 0);
    let sum = pseudo.plus(Partial::of(bytes)).finish();
    put(bytes, at, sum);
}
