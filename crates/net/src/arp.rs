//! ARP packets (RFC 826, RFC 5227): requests, and answers to requests. The table of
//! neighbours is in [`neighbor`](crate::neighbor).

use core::net::Ipv4Addr;
use longshore_wire::MacAddr;
use longshore_wire::arp::{ArpPacket, Operation};

/// Asks which host has `target`.
#[must_use]
pub const fn request(mac: MacAddr, ip: Ipv4Addr, target: Ipv4Addr) -> ArpPacket {
    ArpPacket {
        operation: Operation::Request,
        sender_mac: mac,
        sender_ip: ip,
        target_mac: MacAddr([0; 6]),
        target_ip: target,
    }
}

/// A gratuitous ARP: tells all hosts that `ip` now has this hardware address (RFC 5227
/// section 2.3). To be broadcast.
#[must_use]
pub const fn announcement(mac: MacAddr, ip: Ipv4Addr) -> ArpPacket {
    request(mac, ip, ip)
}

/// The answer to `packet`, if it is a request for one of our addresses. To be sent to the
/// hardware address of the sender.
#[must_use]
pub fn answer(
    packet: &ArpPacket,
    mac: MacAddr,
    is_ours: impl Fn(Ipv4Addr) -> bool,
) -> Option<ArpPacket> {
    let asked = packet.operation == Operation::Request
        && packet.sender_mac != mac
        && packet.sender_mac.is_unicast()
        && is_ours(packet.target_ip);
    asked.then_some(ArpPacket {
        operation: Operation::Reply,
        sender_mac: mac,
        sender_ip: packet.target_ip,
        target_mac: packet.sender_mac,
        target_ip: packet.sender_ip,
    })
}

/// Whether another host claims one of our addresses (RFC 5227 section 2.4).
#[must_use]
pub fn is_conflict(packet: &ArpPacket, mac: MacAddr, is_ours: impl Fn(Ipv4Addr) -> bool) -> bool {
    packet.sender_mac != mac && is_ours(packet.sender_ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn ours(ip: Ipv4Addr) -> bool {
        ip == US
    }

    #[test]
    fn a_question_about_us_is_answered_to_who_asked() {
        let answer = answer(&request(THEIRS, THEM, US), OURS, ours).unwrap();
        assert_eq!(answer.operation, Operation::Reply);
        assert_eq!((answer.sender_mac, answer.sender_ip), (OURS, US));
        assert_eq!((answer.target_mac, answer.target_ip), (THEIRS, THEM));
    }

    #[test]
    fn a_probe_is_answered() {
        let probe = request(THEIRS, Ipv4Addr::UNSPECIFIED, US);
        assert!(answer(&probe, OURS, ours).is_some());
        assert!(!is_conflict(&probe, OURS, ours));
    }

    #[test]
    fn nothing_else_is() {
        assert_eq!(answer(&request(THEIRS, THEM, THEM), OURS, ours), None);
        assert_eq!(answer(&request(OURS, US, US), OURS, ours), None);
        assert_eq!(
            answer(&request(MacAddr::BROADCAST, THEM, US), OURS, ours),
            None
        );
        let reply = ArpPacket {
            operation: Operation::Reply,
            ..request(THEIRS, THEM, US)
        };
        assert_eq!(answer(&reply, OURS, ours), None);
    }

    #[test]
    fn a_claim_to_our_address_is_a_conflict() {
        assert!(is_conflict(&announcement(THEIRS, US), OURS, ours));
        assert!(!is_conflict(&announcement(OURS, US), OURS, ours));
        assert!(!is_conflict(&announcement(THEIRS, THEM), OURS, ours));
    }
}
