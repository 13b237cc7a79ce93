//! The common path out: the headers of a connection, made once and patched for each
//! segment.
//!
//! Owns [`Headers`], which a connection keeps, and [`Link::send_plain`], which
//! `output` calls for segments with a plain header on their way over the port. All
//! else, and what goes to ourselves, is built header by header in `link`.

use crate::link::{LOWER_HEADERS, Link, NextHop};
use longshore_frames::{GsoKind, LinkKind, PortError, TxChecksum, TxFrame, TxGso};
use longshore_net::template::Ipv4Template;
use longshore_tcp::PlainTransmit;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, PLAIN_LEN};
use longshore_wire::tcp4::Addresses4;
use std::io::IoSlice;
use std::net::SocketAddrV4;

/// What all segments of a connection over IPv4 have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    /// What they were made for: they are good as long as this is so.
    hop: NextHop,
    ttl: u8,
    tos: u8,
    ethernet: [u8; ethernet::HEADER_LEN],
    ip: Ipv4Template,
    /// The first word of the TCP header.
    ports: u32,
    addresses: Addresses4,
}

impl Headers {
    fn new(
        link: &Link,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        hop: NextHop,
        ttl: u8,
        tos: u8,
    ) -> Self {
        let mut bytes = [0; ethernet::HEADER_LEN];
        if let NextHop::Neighbor(destination) = hop {
            EthernetHeader {
                destination,
                source: link.mac,
                ether_type: EtherType::Ipv4,
            }
            .emit(&mut bytes);
        }
        Self {
            hop,
            ttl,
            tos,
            ethernet: bytes,
            // Never to be fragmented (RFC 1191).
            ip: Ipv4Template::new(&Ipv4Header {
                tos,
                payload_len: 0,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl,
                protocol: protocol::TCP,
                source: *local.ip(),
                destination: *remote.ip(),
            }),
            ports: u32::from(local.port()) << 16 | u32::from(remote.port()),
            addresses: Addresses4::new(*local.ip(), *remote.ip()),
        }
    }

    /// Brings `kept` up to date: segments of the `flow`, which is from one address to the other,
    /// go by this `hop`, with this hop limit and type of service.
    #[inline]
    pub(crate) fn keep<'a>(
        kept: &'a mut Option<Self>,
        link: &Link,
        flow: impl FnOnce() -> (SocketAddrV4, SocketAddrV4),
        hop: NextHop,
        ttl: u8,
        tos: u8,
    ) -> &'a Self {
        let good = kept
            .as_ref()
            .is_some_and(|h| h.hop == hop && h.ttl == ttl && h.tos == tos);
        if !good {
            *kept = None;
        }
        kept.get_or_insert_with(|| {
            let (local, remote) = flow();
            Self::new(link, local, remote, hop, ttl, tos)
        })
    }
}

impl Link {
    /// Sends a segment over the port: its headers from `headers`, its checksum made
    /// here or by the port. `payload` has all of its payload.
    #[inline]
    pub(crate) fn send_plain(
        &mut self,
        headers: &Headers,
        segment: &PlainTransmit,
        payload: &[IoSlice<'_>],
    ) -> Result<(), PortError> {
        const IP: usize = ethernet::HEADER_LEN;
        let mut frame = [0u8; LOWER_HEADERS + PLAIN_LEN];
        let tcp_len = segment.header.len();
        let length = tcp_len as u32 + segment.payload_len;
        let identification = self.next_identification();
        frame[..IP].copy_from_slice(&headers.ethernet);
        if let Some(ip) = frame[IP..].first_chunk_mut::<{ ipv4::HEADER_LEN }>() {
            headers.ip.write(ip, length, identification);
        }
        if let Some(tcp) = frame[LOWER_HEADERS..].first_chunk_mut::<PLAIN_LEN>() {
            segment.header.write(tcp, headers.ports);
        }
        let end = LOWER_HEADERS + tcp_len;
        let pseudo = headers.addresses.pseudo_of_any(length);
        let offload = self.capabilities.tx_checksum;
        let sum = if offload {
            pseudo.unfinished()
        } else {
            let header = Partial::of(frame.get(LOWER_HEADERS..end).unwrap_or_default());
            Partial::of_pieces(payload)
                .plus(pseudo)
                .plus(header)
                .finish()
        };
        let field = LOWER_HEADERS + CHECKSUM_OFFSET;
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        let skip = match self.capabilities.link {
            LinkKind::Ethernet { .. } => 0,
            LinkKind::Ip => IP,
        };
        self.port.send(&TxFrame {
            headers: frame.get(skip..end).unwrap_or_default(),
            payload,
            checksum: offload.then_some(TxChecksum {
                start: (LOWER_HEADERS - skip) as u16,
                offset: CHECKSUM_OFFSET as u16,
            }),
            gso: (segment.payload_len > u32::from(segment.mss)).then_some(TxGso {
                kind: GsoKind::Tcp4,
                size: segment.mss,
                header_len: (end - skip) as u16,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Interface;
    use crate::link::automatic::Automatic;
    use crate::secrets::Secrets;
    use longshore_frames::Port;
    use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
    use longshore_tcp::Instant;
    use longshore_wire::tcp::{Plain, TcpFlags, TcpHeader, TcpOptions, Timestamps, control};
    use longshore_wire::{MacAddr, SeqNumber};

    const LOCAL: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 80);
    const REMOTE: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 2), 4000);

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
    fn both_ways(config: MemoryConfig, timestamps: bool, payload: &[&[u8]], mss: u16) {
        let (port, mut wire) = pair(&config);
        let mut link = link(port);
        let hop = NextHop::Neighbor(MacAddr([2, 0, 0, 0, 0, 9]));
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
        let mut kept = None;
        let headers = *Headers::keep(&mut kept, &link, || (LOCAL, REMOTE), hop, 63, 2);
        assert_eq!(kept, Some(headers));
        link.send_plain(&headers, &segment, &payload).unwrap();

        let plain = segment.header;
        let header = TcpHeader {
            src_port: LOCAL.port(),
            dst_port: REMOTE.port(),
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
        let len = segment.payload_len as usize;
        let ip = link.tcp_packet(*LOCAL.ip(), *REMOTE.ip(), header.header_len(), len, 63, 2);
        let gso = (len > usize::from(mss)).then_some(mss);
        link.send_tcp(&ip, hop, &header, &payload, gso).unwrap();

        let mut frames = [vec![0; 70_000], vec![0; 70_000]];
        let metas = frames.each_mut().map(|f| wire.recv(f).unwrap().unwrap());
        assert_eq!(metas[0], metas[1]);
        let ip_at = if config.ethernet { 14 } else { 0 };
        for frame in &mut frames {
            let (ip, _) = Ipv4Header::parse(&frame[ip_at..]).unwrap();
            assert_eq!((ip.tos, ip.ttl), (2, 63));
            frame[ip_at + 4..ip_at + 6].fill(0);
            frame[ip_at + 10..ip_at + 12].fill(0);
        }
        assert!(frames[0] == frames[1], "{:02x?}", &frames[0][..80]);
    }

    #[test]
    fn the_headers_that_are_kept_make_the_frame_that_is_built() {
        let long = [7u8; 4000];
        for offloads in [false, true] {
            for ethernet in [false, true] {
                let config = MemoryConfig {
                    offloads,
                    ethernet,
                    ..MemoryConfig::default()
                };
                for timestamps in [false, true] {
                    both_ways(config, timestamps, &[], 1448);
                    both_ways(config, timestamps, &[b"odd", b"pieces", b"of it"], 1448);
                    both_ways(config, timestamps, &[&long[..1448]], 1448);
                    if offloads {
                        both_ways(config, timestamps, &[&long[..999], &long], 1448);
                    }
                }
            }
        }
    }

    #[test]
    fn another_way_makes_other_headers() {
        let (port, _wire) = pair(&MemoryConfig::default());
        let link = link(port);
        let mut kept = None;
        let ways = [1, 2].map(|n| NextHop::Neighbor(MacAddr([2, 0, 0, 0, 0, n])));
        let one = *Headers::keep(&mut kept, &link, || (LOCAL, REMOTE), ways[0], 64, 0);
        let same = *Headers::keep(&mut kept, &link, || (LOCAL, REMOTE), ways[0], 64, 0);
        assert_eq!(one, same);
        let other = *Headers::keep(&mut kept, &link, || (LOCAL, REMOTE), ways[1], 64, 0);
        assert_ne!(one.ethernet, other.ethernet);
        let marked = *Headers::keep(&mut kept, &link, || (LOCAL, REMOTE), ways[1], 64, 8);
        assert_ne!(other.ip, marked.ip);
    }
}
