//! Validation of received IPv6 packets: whether a packet is for us.
//!
//! Pure functions that the stack calls for each packet before it looks at what is inside.

use crate::DropReason;
use core::net::Ipv6Addr;
use core::ops::Range;
use longshore_wire::ipv6::{Ipv6Header, next_header};

/// Validates a packet's addresses (RFC 4291 sections 2.5 to 2.7); returns its header and
/// the range of its payload, which includes extension headers, see
/// [`walk`](longshore_wire::ipv6::walk). `is_ours` says for which destination addresses
/// packets are accepted: our own, and the groups that we listen to.
///
/// This is for packets that we sent to ourselves. Packets from a link must pass
/// [`classify_from_wire`].
///
/// # Errors
/// The [`DropReason`].
#[inline]
pub fn classify(
    packet: &[u8],
    is_ours: impl Fn(Ipv6Addr) -> bool,
) -> Result<(Ipv6Header, Range<usize>), DropReason> {
    let (header, payload) = Ipv6Header::parse(packet).map_err(DropReason::of_ip)?;
    if !is_ours(header.destination) {
        return Err(DropReason::NotForUs);
    }
    // A host without an address may only perform duplicate address detection.
    let asks = header.source.is_unspecified()
        && matches!(
            header.next_header,
            next_header::ICMPV6 | next_header::HOP_BY_HOP
        );
    if !asks && !may_be_source(header.source) && !header.source.is_loopback() {
        return Err(DropReason::MartianSource);
    }
    // Only we may send from or to the loopback address, if we have it at all.
    if (header.source.is_loopback() || header.destination.is_loopback()) && !is_ours(header.source)
    {
        return Err(DropReason::LoopbackOnWire);
    }
    Ok((header, payload))
}

/// Like [`classify`], but rejects packets that cannot have come over a link: those from
/// one of our own addresses, and from or to the loopback address (RFC 4291 section
/// 2.5.3), whoever has it.
///
/// # Errors
/// The [`DropReason`].
#[inline]
pub fn classify_from_wire(
    packet: &[u8],
    is_ours: impl Fn(Ipv6Addr) -> bool,
) -> Result<(Ipv6Header, Range<usize>), DropReason> {
    let (header, payload) = classify(packet, &is_ours)?;
    if header.source.is_loopback() || header.destination.is_loopback() {
        return Err(DropReason::LoopbackOnWire);
    }
    if is_ours(header.source) && !may_be_claim(&header) {
        return Err(DropReason::MartianSource);
    }
    Ok((header, payload))
}

/// Whether a packet may be neighbour discovery of a host on the link that also has one
/// of our addresses, which must be processed (RFC 4862 section 5.4.4).
fn may_be_claim(header: &Ipv6Header) -> bool {
    header.next_header == next_header::ICMPV6 && header.hop_limit == crate::ndp::HOP_LIMIT
}

/// Whether an address can be that of one host: it is not multicast, unspecified,
/// loopback or IPv4-mapped (RFC 6890 does not allow those on the wire).
#[inline]
#[must_use]
pub const fn may_be_source(ip: Ipv6Addr) -> bool {
    !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback() && ip.to_ipv4_mapped().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_wire::ipv4::protocol;
    use longshore_wire::ipv6::{ALL_NODES, HEADER_LEN};
    use proptest::prelude::*;

    const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const THEM: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn ours(ip: Ipv6Addr) -> bool {
        ip == US || ip == ALL_NODES || ip.is_loopback()
    }

    fn packet(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) -> Vec<u8> {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 10,
            next_header,
            hop_limit: 64,
            source,
            destination,
        };
        let mut bytes = vec![0; HEADER_LEN + 10];
        header.emit(&mut bytes);
        bytes
    }

    fn verdict(source: &str, destination: &str, next_header: u8) -> Option<DropReason> {
        let packet = packet(
            source.parse().unwrap(),
            destination.parse().unwrap(),
            next_header,
        );
        classify_from_wire(&packet, ours).err()
    }

    #[test]
    fn what_is_ours_is_taken() {
        let bytes = packet(THEM, US, protocol::TCP);
        let (header, payload) = classify_from_wire(&bytes, ours).unwrap();
        assert_eq!((header.destination, payload), (US, 40..50));
        assert_eq!(verdict("fe80::1", "ff02::1", 58), None);
    }

    #[test]
    fn addresses_that_cannot_be() {
        let not_for_us = Some(DropReason::NotForUs);
        assert_eq!(verdict("fd00::2", "fd00::3", 6), not_for_us);
        assert_eq!(verdict("fd00::2", "ff02::2", 58), not_for_us);
        let martian = Some(DropReason::MartianSource);
        for source in ["ff02::1", "::", "::ffff:10.0.0.2", "fd00::1"] {
            assert_eq!(verdict(source, "fd00::1", 6), martian, "{source}");
        }
        let loopback = Some(DropReason::LoopbackOnWire);
        assert_eq!(verdict("::1", "fd00::1", 6), loopback);
        assert_eq!(verdict("fd00::2", "::1", 6), loopback);
    }

    #[test]
    fn a_host_that_has_our_address_is_heard_on_the_link_alone() {
        let mut claim = packet(US, ALL_NODES, 58);
        assert!(classify_from_wire(&claim, ours).is_err(), "from afar");
        claim[7] = 255;
        assert!(classify_from_wire(&claim, ours).is_ok());
        claim[6] = protocol::UDP;
        assert!(classify_from_wire(&claim, ours).is_err());
    }

    #[test]
    fn who_has_no_address_may_ask_for_one_and_no_more() {
        assert_eq!(verdict("::", "ff02::1", 58), None);
        assert_eq!(verdict("::", "ff02::1", 0), None);
        let martian = Some(DropReason::MartianSource);
        assert_eq!(verdict("::", "fd00::1", 17), martian);
    }

    #[test]
    fn to_ourselves_all_of_our_addresses_can_speak() {
        for (s, d) in [(US, US), (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST)] {
            assert!(classify(&packet(s, d, 6), ours).is_ok());
        }
        // Where loopback is not ours, nothing comes from it.
        let from_loopback = packet(Ipv6Addr::LOCALHOST, US, 6);
        let verdict = classify(&from_loopback, |ip| ip == US);
        assert_eq!(verdict, Err(DropReason::LoopbackOnWire));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = classify_from_wire(&bytes, |_| true);
            if let Some(first) = bytes.first_mut() {
                *first = 0x60;
            }
            if let Ok((_, payload)) = classify_from_wire(&bytes, |_| true) {
                prop_assert!(payload.end <= bytes.len());
            }
        }
    }
}
