//! UDP datagrams: validation of received ones, headers and checksums of sent ones (RFC
//! 768, RFC 1122 section 4.1.3.4, RFC 8200 section 8.1).

use crate::DropReason;
use core::net::{IpAddr, Ipv4Addr};
use longshore_wire::checksum::{Partial, verify_transport};
use longshore_wire::ipv4::protocol;
use longshore_wire::udp::{HEADER_LEN, UdpHeader};

/// Offset of the checksum in the header.
const CHECKSUM_AT: usize = 6;

/// Validates a datagram; returns its header and payload. `verified` says that the port
/// has verified the checksum, or that the datagram never left the machine.
///
/// A datagram without a checksum (the field is zero) is accepted in IPv4 and rejected in
/// IPv6.
///
/// # Errors
/// [`DropReason::UdpBadLength`], [`DropReason::UdpBadChecksum`].
pub fn read(
    source: IpAddr,
    destination: IpAddr,
    datagram: &[u8],
    verified: bool,
) -> Result<(UdpHeader, &[u8]), DropReason> {
    let header = UdpHeader::parse(datagram).map_err(|_| DropReason::UdpBadLength)?;
    let end = HEADER_LEN + usize::from(header.payload_len);
    let whole = datagram.get(..end).ok_or(DropReason::UdpBadLength)?;
    let right = match header.checksum {
        0 => source.is_ipv4(),
        _ => verified || verify_transport(source, destination, protocol::UDP, whole),
    };
    if !right {
        return Err(DropReason::UdpBadChecksum);
    }
    Ok((header, whole.get(HEADER_LEN..).unwrap_or_default()))
}

/// Whether an IPv4 datagram, whose header was parsed from it, has a valid checksum. Bytes
/// beyond its length are ignored; a checksum of zero means that there is none.
#[must_use]
pub fn verify(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    header: &UdpHeader,
    datagram: &[u8],
) -> bool {
    let end = HEADER_LEN + usize::from(header.payload_len);
    datagram.get(..end).is_some_and(|whole| {
        header.checksum == 0
            || verify_transport(source.into(), destination.into(), protocol::UDP, whole)
    })
}

/// The checksum field of an IPv4 datagram in consecutive parts: the header, with a
/// checksum of zero, and the payload; together at most 65,535 bytes.
#[must_use]
pub fn checksum(source: Ipv4Addr, destination: Ipv4Addr, parts: &[&[u8]]) -> u16 {
    let (len, sum) = parts.iter().fold((0, Partial::ZERO), |(len, sum), part| {
        (len + part.len(), sum.followed_by(len, Partial::of(part)))
    });
    let pseudo = Partial::of_pseudo_v4(source, destination, protocol::UDP, len as u32);
    field(pseudo.plus(sum))
}

/// The checksum field of a datagram whose bytes, with a zero in that field, and whose
/// pseudo-header add up to `sum`: a checksum of zero is sent as all ones, since zero
/// means none.
#[inline]
#[must_use]
pub const fn field(sum: Partial) -> u16 {
    match sum.finish() {
        0 => 0xffff,
        sum => sum,
    }
}

/// Writes the header, with its checksum, before the payload that is already in
/// `datagram`. Returns `false` and writes nothing if the addresses are of different
/// families, there is no room for a header, or the datagram would be longer than 65,535
/// bytes.
#[must_use]
pub fn finish(source: IpAddr, destination: IpAddr, ports: (u16, u16), datagram: &mut [u8]) -> bool {
    let Ok(len) = u16::try_from(datagram.len()) else {
        return false;
    };
    let pseudo = Partial::of_pseudo(source, destination, protocol::UDP, u32::from(len));
    let (Some(pseudo), Some(payload_len)) = (pseudo, len.checked_sub(HEADER_LEN as u16)) else {
        return false;
    };
    let header = UdpHeader {
        src_port: ports.0,
        dst_port: ports.1,
        payload_len,
        checksum: 0,
    };
    header.emit(datagram);
    let sum = field(pseudo.plus(Partial::of(datagram)));
    if let Some(field) = datagram.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(v6: bool, bits: u128) -> IpAddr {
        if v6 {
            IpAddr::from(bits.to_be_bytes())
        } else {
            IpAddr::from((bits as u32).to_be_bytes())
        }
    }

    proptest! {
        #[test]
        fn what_is_finished_is_read(
            (v6, s, d) in any::<(bool, u128, u128)>(),
            ports: (u16, u16),
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            padding in 0usize..4,
            bit: u16,
        ) {
            let (s, d) = (address(v6, s), address(v6, d));
            let mut datagram = vec![0xa5; HEADER_LEN];
            datagram.extend(&payload);
            prop_assert!(finish(s, d, ports, &mut datagram));
            let whole = datagram.len();
            datagram.resize(whole + padding, 0);
            let (header, found) = read(s, d, &datagram, false).unwrap();
            prop_assert_eq!((header.src_port, header.dst_port), ports);
            prop_assert_eq!(found, &payload[..]);
            prop_assert_ne!(header.checksum, 0);
            // A flipped bit is seen, unless it is in the length or makes a
            // checksum of zero, which means that there is none.
            let bit = usize::from(bit) % (whole * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
            if !(32..48).contains(&bit) && datagram[6..8] != [0, 0] {
                prop_assert_eq!(read(s, d, &datagram, false), Err(DropReason::UdpBadChecksum));
                prop_assert!(read(s, d, &datagram, true).is_ok());
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(address(false, 1), address(false, 2), &bytes, false);
        }
    }

    proptest! {
        #[test]
        fn parts_are_summed_as_the_whole(
            s: [u8; 4], d: [u8; 4],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            cuts: (u16, u16), bit: u16,
        ) {
            let mut datagram = vec![0; HEADER_LEN];
            datagram.extend(&payload);
            prop_assert!(finish(s.into(), d.into(), (1, 2), &mut datagram));
            let header = UdpHeader::parse(&datagram).unwrap();
            let (s, d) = (Ipv4Addr::from(s), Ipv4Addr::from(d));
            prop_assert!(verify(s, d, &header, &datagram));
            prop_assert!(!verify(s, d, &header, &datagram[..datagram.len() - 1]));
            let mut zeroed = datagram[..HEADER_LEN].to_vec();
            zeroed[CHECKSUM_AT..].fill(0);
            let (a, rest) = payload.split_at(usize::from(cuts.0) % (payload.len() + 1));
            let (b, c) = rest.split_at(usize::from(cuts.1) % (rest.len() + 1));
            prop_assert_eq!(checksum(s, d, &[&zeroed, a, b, c]), header.checksum);
            let bit = usize::from(bit) % (datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify(s, d, &header, &datagram));
            let none = UdpHeader { checksum: 0, ..header };
            prop_assert!(verify(s, d, &none, &datagram));
        }
    }

    #[test]
    fn no_checksum_is_a_matter_of_the_family() {
        let datagram = [0, 1, 0, 2, 0, 8, 0, 0];
        let (a, b) = (address(false, 1), address(false, 2));
        assert!(read(a, b, &datagram, false).is_ok());
        let (a, b) = (address(true, 1), address(true, 2));
        assert_eq!(read(a, b, &datagram, true), Err(DropReason::UdpBadChecksum));
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        // Ports, length twice (pseudo-header and header), protocol and payload
        // that add up to all ones.
        let (a, b) = (address(false, 0), address(false, 0));
        let mut datagram = [0; 10];
        datagram[8..].copy_from_slice(&(0xffff - 1 - 2 - 10 - 10 - 17u16).to_be_bytes());
        assert!(finish(a, b, (1, 2), &mut datagram));
        assert_eq!(datagram[6..8], [0xff, 0xff]);
        assert!(read(a, b, &datagram, false).is_ok());
    }

    #[test]
    fn what_cannot_be_finished() {
        let (a, b) = (address(false, 1), address(true, 1));
        assert!(!finish(a, b, (1, 2), &mut [0; 9]));
        assert!(!finish(a, a, (1, 2), &mut [0; 7]));
        assert!(!finish(a, a, (1, 2), &mut vec![0; 65_536]));
    }
}
