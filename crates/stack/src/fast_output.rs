//! The common path out: the headers of a connection, made once and patched for each
//! segment.
//!
//! Owns [`Headers`], which a connection keeps, and [`IpOutput::send_plain`], which
//! `output` calls for segments with a plain header on their way over the port. All
//! else, and what goes to ourselves, is built header by header in `link`.

use crate::address_pair::{AddressPair, Service};
use crate::bytes::put;
use crate::link::{Device, IpOutput, Link, packets, tcp_ipv4_header, tcp_ipv6_header};
use longshore_frames::{GsoKind, PortError, TxChecksum, TxFrame, TxGso};
use longshore_net::template::{Ipv4Template, Ipv6Template};
use longshore_tcp::PlainTransmit;
use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, protocol};
use longshore_wire::ipv6;
use longshore_wire::tcp::{CHECKSUM_OFFSET, PLAIN_LEN};
use std::io::IoSlice;

/// Room for the headers of a segment of either version.
const ROOM: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + PLAIN_LEN;

/// The IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IpTemplate {
    V4(Ipv4Template),
    V6(Ipv6Template),
}

impl IpTemplate {
    #[inline]
    fn is_of(&self, service: Service) -> bool {
        let (ttl, tos, whole) = match self {
            Self::V4(ip) => (ip.ttl(), ip.tos(), ip.dont_fragment()),
            Self::V6(ip) => (ip.hop_limit(), ip.traffic_class(), service.dont_fragment),
        };
        ttl == service.ttl && tos == service.tos && whole == service.dont_fragment
    }
}

/// What all segments of a connection have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    ethernet: [u8; ethernet::HEADER_LEN],
    ip: IpTemplate,
    /// The first word of the TCP header.
    ports: u32,
    /// The sum of the pseudo-header without the length, as it stands on the wire.
    pseudo: u16,
}

impl Headers {
    fn new(
        link: &Link,
        addresses: &AddressPair,
        ports: (u16, u16),
        neighbor: MacAddr,
        service: Service,
    ) -> Self {
        let (ether_type, ip, pseudo) = match *addresses {
            AddressPair::V4 { from, to } => {
                let ip = Ipv4Template::new(&tcp_ipv4_header(from, to, service, 0, 0));
                let pseudo = Partial::of_pseudo_v4(from, to, protocol::TCP, 0);
                (EtherType::Ipv4, IpTemplate::V4(ip), pseudo)
            }
            AddressPair::V6 { from, to } => {
                let ip = Ipv6Template::new(&tcp_ipv6_header(from, to, ports, service, 0));
                let pseudo = Partial::of_pseudo_v6(from, to, protocol::TCP, 0);
                (EtherType::Ipv6, IpTemplate::V6(ip), pseudo)
            }
        };
        let mut bytes = [0; ethernet::HEADER_LEN];
        EthernetHeader {
            destination: neighbor,
            source: link.output.device.mac(),
            ether_type,
        }
        .emit(&mut bytes);
        Self {
            ethernet: bytes,
            ip,
            ports: u32::from(ports.0) << 16 | u32::from(ports.1),
            pseudo: pseudo.unfinished(),
        }
    }

    /// Whether they are still what they were made for.
    #[inline]
    fn are_good(&self, link: &Link, neighbor: MacAddr, service: Service) -> bool {
        let (macs, _) = self.ethernet.as_chunks::<{ size_of::<MacAddr>() }>();
        *macs == [neighbor.0, link.output.device.mac().0] && self.ip.is_of(service)
    }

    /// Brings `kept` up to date: segments from one address and port to the other go to this
    /// `neighbor`, with this `service`.
    #[inline]
    pub(crate) fn keep<'a>(
        kept: &'a mut Option<Self>,
        link: &Link,
        addresses: &AddressPair,
        ports: (u16, u16),
        neighbor: MacAddr,
        service: Service,
    ) -> &'a Self {
        let good = (kept.as_ref()).is_some_and(|h| h.are_good(link, neighbor, service));
        if !good {
            *kept = None;
        }
        kept.get_or_insert_with(|| Self::new(link, addresses, ports, neighbor, service))
    }
}

impl IpOutput {
    /// Sends a segment over the port: its headers from `headers`, its checksum made
    /// here or by the port. `payload` has all of its payload.
    #[inline]
    pub(crate) fn send_plain(
        &mut self,
        headers: &Headers,
        segment: &PlainTransmit,
        payload: &[IoSlice<'_>],
    ) -> Result<(), PortError> {
        let length = segment.header.len() as u32 + segment.payload_len;
        match &headers.ip {
            IpTemplate::V4(ip) => {
                let identification = match ip.dont_fragment() {
                    true => self.next_atomic_identification(),
                    false => {
                        let gso = Some(segment.mss);
                        self.next_identification(packets(segment.payload_len as usize, gso).max(1))
                    }
                };
                let write = |to: &mut _| ip.write(to, length, identification);
                let kind = GsoKind::Tcp4;
                self.device
                    .send_behind::<{ ipv4::HEADER_LEN }>(headers, write, kind, segment, payload)
            }
            IpTemplate::V6(ip) => {
                // No segment of IPv6 is longer than a packet.
                let write = |to: &mut _| ip.write(to, length as u16);
                let kind = GsoKind::Tcp6;
                self.device
                    .send_behind::<{ ipv6::HEADER_LEN }>(headers, write, kind, segment, payload)
            }
        }
    }
}

impl Device {
    /// As [`IpOutput::send_plain`], where `write` writes the IP header of `IP_LEN` bytes.
    #[inline]
    fn send_behind<const IP_LEN: usize>(
        &mut self,
        headers: &Headers,
        write: impl FnOnce(&mut [u8; IP_LEN]),
        kind: GsoKind,
        segment: &PlainTransmit,
        payload: &[IoSlice<'_>],
    ) -> Result<(), PortError> {
        const IP: usize = ethernet::HEADER_LEN;
        let lower = IP + IP_LEN;
        let mut frame = [0u8; ROOM];
        let tcp_len = segment.header.len();
        frame[..IP].copy_from_slice(&headers.ethernet);
        if let Some(ip) = frame[IP..].first_chunk_mut::<IP_LEN>() {
            write(ip);
        }
        let behind = frame.get_mut(lower..).and_then(|f| f.first_chunk_mut());
        if let Some(tcp) = behind {
            segment.header.write(tcp, headers.ports);
        }
        let end = lower + tcp_len;
        let length = tcp_len as u32 + segment.payload_len;
        let pseudo = Partial::of_word(headers.pseudo).with_length(length);
        let offload = self.capabilities().tx_checksum;
        let sum = if offload {
            pseudo.unfinished()
        } else {
            let header = Partial::of(frame.get(lower..end).unwrap_or_default());
            Partial::of_pieces(payload)
                .plus(pseudo)
                .plus(header)
                .finish()
        };
        let field = lower + CHECKSUM_OFFSET;
        put(&mut frame, field, &sum.to_be_bytes());
        let skip = if self.is_bare() { IP } else { 0 };
        self.send(&TxFrame {
            headers: frame.get(skip..end).unwrap_or_default(),
            payload,
            checksum: offload.then_some(TxChecksum {
                start: (lower - skip) as u16,
                offset: CHECKSUM_OFFSET as u16,
            }),
            gso: (segment.payload_len > u32::from(segment.mss)).then_some(TxGso {
                kind,
                size: segment.mss,
                header_len: (end - skip) as u16,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::automatic::Automatic;
    use crate::link::{Interface, NextHop};
    use crate::secrets::Secrets;
    use longshore_frames::Port;
    use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
    use longshore_tcp::Instant;
    use longshore_wire::SeqNumber;
    use longshore_wire::ipv4::Ipv4Header;
    use longshore_wire::ipv6::Ipv6Header;
    use longshore_wire::tcp::{Plain, TcpFlags, TcpHeader, TcpOptions, Timestamps, control};

    const PORTS: (u16, u16) = (80, 4000);

    /// The addresses of a connection, of either version.
    fn both_versions() -> [AddressPair; 2] {
        [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")]
            .map(|(from, to)| AddressPair::new(from.parse().unwrap(), to.parse().unwrap()).unwrap())
    }

    fn service(ttl: u8, tos: u8) -> Service {
        Service {
            ttl,
            tos,
            ..Service::DEFAULT
        }
    }

    fn link(port: MemoryPort) -> Link {
        let (port, addresses) = (Box::new(port), ["10.0.0.1/24".parse().unwrap()]);
        let automatic = Automatic::default();
        Link::new(
            Interface {
                port,
                addresses: &addresses,
                gateways: &[],
                automatic: &automatic,
            },
            false,
            &Secrets::from_seed(1),
            Instant(0),
        )
        .unwrap()
    }

    /// The frame of a segment, built both ways on a wire with or without offloads and
    /// link header; the identification taken out, which goes on from packet to packet.
    fn both_ways(
        config: MemoryConfig,
        addresses: &AddressPair,
        timestamps: bool,
        payload: &[&[u8]],
        mss: u16,
    ) {
        let (port, mut wire) = pair(&config);
        let mut link = link(port);
        let neighbor = MacAddr([2, 0, 0, 0, 0, 9]);
        let segment = PlainTransmit {
            header: Plain {
                control: control(TcpFlags::ACK | TcpFlags::PSH, timestamps),
                window: 77,
                seq: SeqNumber(0xfeed_beef),
                ack: SeqNumber(7),
                timestamps: Timestamps { val: 3, echo: 4 },
            },
            payload_start: 0,
            payload_len: payload.iter().map(|p| p.len()).sum::<usize>() as u32,
            mss,
        };
        let payload: Vec<_> = payload.iter().map(|p| IoSlice::new(p)).collect();
        let (mut kept, service) = (None, service(63, 2));
        let headers = *Headers::keep(&mut kept, &link, addresses, PORTS, neighbor, service);
        assert_eq!(kept, Some(headers));
        link.output
            .send_plain(&headers, &segment, &payload)
            .unwrap();

        let plain = segment.header;
        let header = TcpHeader {
            src_port: PORTS.0,
            dst_port: PORTS.1,
            seq: plain.seq,
            ack: plain.ack,
            flags: TcpFlags::ACK | TcpFlags::PSH,
            window: plain.window,
            urgent: 0,
            options: TcpOptions {
                timestamps: timestamps.then_some(plain.timestamps),
                ..TcpOptions::default()
            },
        };
        let gso = (segment.payload_len > u32::from(mss)).then_some(mss);
        link.output
            .send_segment(
                addresses,
                NextHop::Neighbor(neighbor),
                service,
                &header,
                &payload,
                gso,
            )
            .unwrap();

        let mut frames = [vec![0; 70_000], vec![0; 70_000]];
        let metas = frames.each_mut().map(|f| wire.recv(f).unwrap().unwrap());
        assert_eq!(metas[0], metas[1]);
        let ip_at = if config.ethernet { 14 } else { 0 };
        for frame in &mut frames {
            match addresses {
                AddressPair::V4 { .. } => {
                    let (ip, _) = Ipv4Header::parse(&frame[ip_at..]).unwrap();
                    assert_eq!((ip.tos, ip.ttl), (2, 63));
                    frame[ip_at + 4..ip_at + 6].fill(0);
                    frame[ip_at + 10..ip_at + 12].fill(0);
                }
                AddressPair::V6 { .. } => {
                    let (ip, _) = Ipv6Header::parse(&frame[ip_at..]).unwrap();
                    assert_eq!((ip.traffic_class, ip.hop_limit), (2, 63));
                    assert_ne!(ip.flow_label, 0);
                }
            }
        }
        assert!(frames[0] == frames[1], "{:02x?}", &frames[0][..100]);
    }

    #[test]
    fn the_headers_that_are_kept_make_the_frame_that_is_built() {
        let long = [7u8; 4000];
        let each = [false, true];
        for (offloads, ethernet) in each.map(|o| each.map(|e| (o, e))).concat() {
            let config = MemoryConfig {
                offloads,
                ethernet,
                ..MemoryConfig::default()
            };
            for (to, timestamps) in both_versions().map(|to| each.map(|t| (to, t))).concat() {
                both_ways(config, &to, timestamps, &[], 1428);
                both_ways(
                    config,
                    &to,
                    timestamps,
                    &[b"odd", b"pieces", b"of it"],
                    1428,
                );
                both_ways(config, &to, timestamps, &[&long[..1428]], 1428);
                if offloads {
                    both_ways(config, &to, timestamps, &[&long[..999], &long], 1428);
                }
            }
        }
    }

    #[test]
    fn another_way_makes_other_headers() {
        let (port, _wire) = pair(&MemoryConfig::default());
        let mut link = link(port);
        let our_mac = link.output.device.mac();
        for addresses in both_versions() {
            let mut kept = None;
            let mut keep = |link: &Link, neighbor, service| {
                *Headers::keep(&mut kept, link, &addresses, PORTS, neighbor, service)
            };
            let ways = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0, n]));
            let one = keep(&link, ways[0], service(64, 0));
            assert_eq!(one, keep(&link, ways[0], service(64, 0)));
            let other = keep(&link, ways[1], service(64, 0));
            assert_ne!(one.ethernet, other.ethernet);
            let marked = keep(&link, ways[1], service(64, 8));
            assert_ne!(other.ip, marked.ip);
            let nearer = keep(&link, ways[1], service(63, 8));
            assert_ne!(marked.ip, nearer.ip);
            // The interface has another address now.
            link.output.device.set_mac(MacAddr([2, 0, 0, 0, 0, 77]));
            let moved = keep(&link, ways[1], service(63, 8));
            assert_eq!(moved.ethernet[6..12], link.output.device.mac().0);
            link.output.device.set_mac(our_mac);
        }
    }
}
