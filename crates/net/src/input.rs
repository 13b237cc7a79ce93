//! Validation of received IPv4 packets: whether a packet is for us.
//!
//! Pure functions that the stack calls for each packet before it looks at what is inside.

use crate::DropReason;
use core::net::Ipv4Addr;
use core::ops::Range;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};

/// Validates a packet by RFC 1122 section 3.2.1; returns its header and the range of its
/// payload. `is_ours` says for which destination addresses packets are accepted,
/// broadcast addresses included. Fragments are accepted like any other packet, see
/// [`Ipv4Header::is_fragment`].
///
/// This is for packets that we sent to ourselves. Packets from a link must pass
/// [`classify_from_wire`].
///
/// # Errors
/// The [`DropReason`].
#[inline]
pub fn classify(
    packet: &[u8],
    is_ours: impl Fn(Ipv4Addr) -> bool,
) -> Result<(Ipv4Header, Range<usize>), DropReason> {
    let (header, payload) = Ipv4Header::parse(packet).map_err(DropReason::of_ip)?;
    if !is_ours(header.destination) {
        return Err(DropReason::NotForUs);
    }
    if !may_be_source(header.source) {
        return Err(DropReason::MartianSource);
    }
    // Only we may send from or to a loopback address, if we have one at all.
    if (header.source.is_loopback() || header.destination.is_loopback()) && !is_ours(header.source)
    {
        return Err(DropReason::LoopbackOnWire);
    }
    if payload.start != HEADER_LEN {
        check_options(packet.get(HEADER_LEN..payload.start).unwrap_or_default())?;
    }
    Ok((header, payload))
}

/// Like [`classify`], but rejects packets that cannot have come over a link: those from
/// one of our own addresses, and from or to a loopback address, whoever has it.
///
/// # Errors
/// The [`DropReason`].
#[inline]
pub fn classify_from_wire(
    packet: &[u8],
    is_ours: impl Fn(Ipv4Addr) -> bool,
) -> Result<(Ipv4Header, Range<usize>), DropReason> {
    let (header, payload) = classify(packet, &is_ours)?;
    if header.source.is_loopback() || header.destination.is_loopback() {
        return Err(DropReason::LoopbackOnWire);
    }
    if is_ours(header.source) {
        return Err(DropReason::MartianSource);
    }
    Ok((header, payload))
}

/// Whether an address can be that of one host (RFC 1122 section 3.2.1.3): it is not in
/// network 0, multicast, reserved or broadcast.
#[inline]
#[must_use]
pub const fn may_be_source(ip: Ipv4Addr) -> bool {
    let first = ip.octets()[0];
    first != 0 && first < 224
}

/// Options are only checked for source routes and valid lengths.
#[cold]
fn check_options(mut options: &[u8]) -> Result<(), DropReason> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    loop {
        options = match options {
            [] | [END, ..] => return Ok(()),
            [NOP, rest @ ..] => rest,
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => {
                return Err(DropReason::SourceRouted);
            }
            [_, len, ..] if *len >= 2 => options
                .get(usize::from(*len)..)
                .ok_or(DropReason::IpBadOptions)?,
            _ => return Err(DropReason::IpBadOptions),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_wire::checksum::Partial;
    use proptest::prelude::*;

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn ours(ip: Ipv4Addr) -> bool {
        ip == US || ip.is_loopback()
    }

    /// A packet of ten bytes from `source`, with options.
    fn packet(source: [u8; 4], destination: [u8; 4], options: &[u8]) -> Vec<u8> {
        let header = Ipv4Header {
            tos: 0,
            payload_len: 10 + options.len() as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: 17,
            source: source.into(),
            destination: destination.into(),
        };
        let mut bytes = vec![0; HEADER_LEN + options.len() + 10];
        header.emit(&mut bytes);
        let end = HEADER_LEN + options.len();
        bytes[HEADER_LEN..end].copy_from_slice(options);
        bytes[0] = 0x40 | (end / 4) as u8;
        bytes[10..12].fill(0);
        let sum = Partial::of(&bytes[..end]).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn verdict(packet: &[u8]) -> Option<DropReason> {
        classify_from_wire(packet, ours).err()
    }

    #[test]
    fn what_is_ours_is_taken() {
        let bytes = packet([10, 0, 0, 2], [10, 0, 0, 1], &[]);
        let (header, payload) = classify_from_wire(&bytes, ours).unwrap();
        assert_eq!((header.destination, payload), (US, 20..30));
    }

    /// RFC 791 section 3.1: an option's length has its type and itself.
    #[test]
    fn options_are_as_long_as_they_say() {
        let with = |options: [u8; 4]| verdict(&packet([10, 0, 0, 2], [10, 0, 0, 1], &options));
        let bad = Some(DropReason::IpBadOptions);
        for (options, reason) in [
            ([7, 2, 1, 0], None),
            ([7, 4, 0, 0], None),
            ([7, 3, 0, 0], None),
            ([7, 1, 0, 0], bad),
            ([7, 0, 0, 0], bad),
            ([7, 5, 0, 0], bad),
            ([1, 1, 1, 7], bad),
            ([1, 1, 1, 0], None),
            ([0, 7, 9, 9], None),
            ([1, 131, 3, 4], Some(DropReason::SourceRouted)),
            ([137, 3, 4, 0], Some(DropReason::SourceRouted)),
        ] {
            assert_eq!(with(options), reason, "{options:?}");
        }
    }

    #[test]
    fn addresses_that_cannot_be() {
        let from = |source| verdict(&packet(source, [10, 0, 0, 1], &[]));
        let to = |destination| verdict(&packet([10, 0, 0, 2], destination, &[]));
        assert_eq!(to([10, 0, 0, 3]), Some(DropReason::NotForUs));
        assert_eq!(to([127, 0, 0, 1]), Some(DropReason::LoopbackOnWire));
        for source in [
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [224, 0, 0, 1],
            [250, 0, 0, 1],
            [255; 4],
            [10, 0, 0, 1],
        ] {
            assert_eq!(from(source), Some(DropReason::MartianSource), "{source:?}");
        }
        assert_eq!(from([127, 0, 0, 1]), Some(DropReason::LoopbackOnWire));
    }

    #[test]
    fn loopback_is_for_ourselves_even_without_a_wire() {
        let to_loopback = packet([10, 0, 0, 2], [127, 0, 0, 1], &[]);
        assert_eq!(
            classify(&to_loopback, ours),
            Err(DropReason::LoopbackOnWire)
        );
        // Where loopback is not ours, nothing comes from it.
        let from_loopback = packet([127, 0, 0, 1], [10, 0, 0, 1], &[]);
        let verdict = classify(&from_loopback, |ip| ip == US);
        assert_eq!(verdict, Err(DropReason::LoopbackOnWire));
    }

    #[test]
    fn to_ourselves_all_of_our_addresses_can_speak() {
        for (s, d) in [
            ([127, 0, 0, 1], [127, 0, 0, 9]),
            ([10, 0, 0, 1], [10, 0, 0, 1]),
        ] {
            assert!(classify(&packet(s, d, &[]), ours).is_ok());
        }
    }

    #[test]
    fn options_are_skipped_but_not_source_routes() {
        let with = |options: &[u8]| verdict(&packet([10, 0, 0, 2], [10, 0, 0, 1], options));
        assert_eq!(with(&[1, 1, 1, 0]), None);
        assert_eq!(with(&[148, 4, 0, 0]), None);
        assert_eq!(with(&[7, 7, 4, 1, 2, 3, 4, 0]), None);
        assert_eq!(
            with(&[131, 7, 4, 1, 2, 3, 4, 0]),
            Some(DropReason::SourceRouted)
        );
        assert_eq!(with(&[1, 137, 3, 4]), Some(DropReason::SourceRouted));
        assert_eq!(with(&[7, 5, 4, 1]), Some(DropReason::IpBadOptions));
        assert_eq!(with(&[7, 1, 4, 1]), Some(DropReason::IpBadOptions));
        assert_eq!(with(&[1, 1, 1, 7]), Some(DropReason::IpBadOptions));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = classify_from_wire(&bytes, |_| true);
        }

        #[test]
        fn any_options_are_survived(words in proptest::collection::vec(any::<[u8; 4]>(), 0..=10)) {
            let bytes = packet([10, 0, 0, 2], [10, 0, 0, 1], words.as_flattened());
            if let Ok((_, payload)) = classify_from_wire(&bytes, ours) {
                prop_assert_eq!(payload, bytes.len() - 10..bytes.len());
            }
        }
    }
}
