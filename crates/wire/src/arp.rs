//! ARP for IPv4 over Ethernet (RFC 826).

use crate::bytes::{array, get16, put, put16};
use crate::{MacAddr, WireError};
use core::net::Ipv4Addr;

/// Length of a packet, bytes.
pub const PACKET_LEN: usize = 28;

/// The operation of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sender asks which host has the target address.
    Request,
    /// The sender has the address.
    Reply,
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: Operation,
    /// The hardware address of the sender.
    pub sender_mac: MacAddr,
    /// The sender's address; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// The hardware address that a reply is sent to.
    pub target_mac: MacAddr,
    /// The requested address.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Parses a packet.
    ///
    /// # Errors
    /// [`WireError`] for anything but IPv4 over Ethernet, request or reply.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; PACKET_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        if get16(b, 0) != 1 || get16(b, 2) != 0x0800 || b[4] != 6 || b[5] != 4 {
            return Err(WireError::BadField);
        }
        let operation = match get16(b, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(WireError::BadField),
        };
        let mac = |at: usize| MacAddr(array(b, at));
        let ip = |at: usize| Ipv4Addr::from(array::<4>(b, at));
        Ok(Self {
            operation,
            sender_mac: mac(8),
            sender_ip: ip(14),
            target_mac: mac(18),
            target_ip: ip(24),
        })
    }

    /// Writes the packet; returns its length. `bytes` must not be shorter.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        put16(bytes, 0, 1);
        put16(bytes, 2, 0x0800);
        put(bytes, 4, [6, 4]);
        put16(
            bytes,
            6,
            if self.operation == Operation::Request {
                1
            } else {
                2
            },
        );
        put(bytes, 8, self.sender_mac.0);
        put(bytes, 14, self.sender_ip.octets());
        put(bytes, 18, self.target_mac.0);
        put(bytes, 24, self.target_ip.octets());
        PACKET_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(request: bool, a: [u8; 6], b: [u8; 6], x: [u8; 4], y: [u8; 4]) {
            let p = ArpPacket {
                operation: if request { Operation::Request } else { Operation::Reply },
                sender_mac: MacAddr(a), sender_ip: x.into(), target_mac: MacAddr(b), target_ip: y.into(),
            };
            let mut bytes = [0; PACKET_LEN];
            p.emit(&mut bytes);
            prop_assert_eq!(ArpPacket::parse(&bytes), Ok(p));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = ArpPacket::parse(&bytes);
        }

        /// Another hardware, protocol, length or operation is refused; every other
        /// change gives another packet.
        #[test]
        fn a_changed_packet_is_another(at in 0usize..PACKET_LEN, bit in 0u8..8, cut in 0usize..=PACKET_LEN) {
            let p = ArpPacket {
                operation: Operation::Request,
                sender_mac: MacAddr([2; 6]), sender_ip: [10; 4].into(),
                target_mac: MacAddr([4; 6]), target_ip: [20; 4].into(),
            };
            let mut bytes = [0; PACKET_LEN];
            p.emit(&mut bytes);
            let whole = cut == PACKET_LEN;
            prop_assert_eq!(ArpPacket::parse(&bytes[..cut]), if whole { Ok(p) } else { Err(WireError::Truncated) });
            bytes[at] ^= 1 << bit;
            match ArpPacket::parse(&bytes) {
                Ok(other) => prop_assert!(at >= 8 && other != p),
                Err(e) => prop_assert!(at < 8 && e == WireError::BadField),
            }
        }
    }
}
