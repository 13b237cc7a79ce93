//! Neighbour discovery messages (RFC 4861 section 7, RFC 4862 section 5.4):
//! solicitations, and answers to them. The table of neighbours is in
//! [`neighbor`](crate::neighbor), our addresses are in [`address6`](crate::address6).

use core::net::Ipv6Addr;
use longshore_wire::MacAddr;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions};
use longshore_wire::ipv6::{ALL_NODES, ALL_ROUTERS, solicited_node};

/// The hop limit of all these messages, which proves that none has passed a router.
pub const HOP_LIMIT: u8 = 255;
/// Length of the longest message, bytes.
const MAX_LEN: usize = 24 + 8;

/// A message ready to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Message {
    fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &Icmpv6,
        options: &NdpOptions,
    ) -> Self {
        let mut bytes = [0; MAX_LEN];
        let header_len = message.header_len();
        let (_, room) = bytes.split_at_mut(header_len);
        let len = header_len + options.emit(room);
        let (whole, _) = bytes.split_at_mut(len);
        message.emit(source, destination, whole);
        Self {
            source,
            destination,
            bytes,
            len,
        }
    }

    /// The ICMPv6 message with its checksum.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn at_source(mac: Option<MacAddr>) -> NdpOptions {
    NdpOptions {
        source_link: mac,
        ..NdpOptions::default()
    }
}

/// Asks all hosts that may have `target` which of them has it. `mac` is our hardware
/// address, left out while the address `source` is not known to be unique (RFC 4429
/// section 3.2).
#[must_use]
pub fn solicit(source: Ipv6Addr, target: Ipv6Addr, mac: Option<MacAddr>) -> Message {
    let message = Icmpv6::NeighborSolicit { target };
    Message::new(source, solicited_node(target), &message, &at_source(mac))
}

/// Asks `target` alone whether it is still reachable (RFC 4861 section 7.3.3).
#[must_use]
pub fn probe(source: Ipv6Addr, target: Ipv6Addr, mac: Option<MacAddr>) -> Message {
    let message = Icmpv6::NeighborSolicit { target };
    Message::new(source, target, &message, &at_source(mac))
}

/// Asks whether another host has `target`, which we are about to use (RFC 4862 section
/// 5.4.2).
#[must_use]
pub fn claim(target: Ipv6Addr) -> Message {
    solicit(Ipv6Addr::UNSPECIFIED, target, None)
}

/// Asks for routers (RFC 4861 section 6.3.7).
#[must_use]
pub fn router_solicit(source: Ipv6Addr, mac: Option<MacAddr>) -> Message {
    Message::new(source, ALL_ROUTERS, &Icmpv6::RouterSolicit, &at_source(mac))
}

/// The answer to a solicitation from `asker` for our address `target` (RFC 4861 section
/// 7.2.4): to all nodes if the asker has no address yet. `certain` says that the address
/// is known to be unique; if it is not, the answer does not override existing entries
/// (RFC 4429 section 3.3).
#[must_use]
pub fn answer(asker: Ipv6Addr, target: Ipv6Addr, mac: MacAddr, certain: bool) -> Message {
    let solicited = !asker.is_unspecified();
    let message = Icmpv6::NeighborAdvert {
        router: false,
        solicited,
        override_known: certain,
        target,
    };
    let options = NdpOptions {
        target_link: Some(mac),
        ..NdpOptions::default()
    };
    let destination = if solicited { asker } else { ALL_NODES };
    Message::new(target, destination, &message, &options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_wire::ipv6::{Ipv6Header, next_header};

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const THEM: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, 2);

    /// The message as its receiver reads it, which checks all that RFC 4861 has.
    fn read(m: &Message) -> (Icmpv6, NdpOptions) {
        let ip = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: m.bytes().len() as u16,
            next_header: next_header::ICMPV6,
            hop_limit: HOP_LIMIT,
            source: m.source,
            destination: m.destination,
        };
        let message = Icmpv6::parse(&ip, m.bytes()).unwrap();
        let options = NdpOptions::parse(&m.bytes()[message.header_len()..]).unwrap();
        (message, options)
    }

    #[test]
    fn questions() {
        let target = THEM;
        let asks = Icmpv6::NeighborSolicit { target };
        let m = solicit(US, THEM, Some(MAC));
        assert_eq!(read(&m), (asks, at_source(Some(MAC))));
        assert_eq!(read(&m).1.source_link, Some(MAC), "so that it can answer");
        assert_eq!(m.destination, solicited_node(THEM));
        let m = probe(US, THEM, None);
        assert_eq!((read(&m), m.destination), ((asks, at_source(None)), THEM));
        let m = claim(THEM);
        assert_eq!(read(&m), (asks, at_source(None)));
        assert!(m.source.is_unspecified() && m.destination.is_multicast());
        let m = router_solicit(US, Some(MAC));
        assert_eq!(read(&m), (Icmpv6::RouterSolicit, at_source(Some(MAC))));
    }

    #[test]
    fn answers() {
        for (asker, certain) in [(THEM, true), (THEM, false), (Ipv6Addr::UNSPECIFIED, true)] {
            let m = answer(asker, US, MAC, certain);
            let (message, options) = read(&m);
            let solicited = asker == THEM;
            let expected = Icmpv6::NeighborAdvert {
                router: false,
                solicited,
                override_known: certain,
                target: US,
            };
            assert_eq!((message, options.target_link), (expected, Some(MAC)));
            let to = if solicited { THEM } else { ALL_NODES };
            assert_eq!((m.source, m.destination), (US, to));
        }
    }
}
