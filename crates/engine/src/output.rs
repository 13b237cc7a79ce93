//! TCP segments out: headers written, payload taken where the host wrote it.

use crate::counters::EngineDrop;
use crate::ends::Ends;
use crate::engine::Engine;
use crate::fast_output::Headers;
use crate::link::{HEADER_ROOM, LOWER_HEADERS, Link, Transport, Way};
use crate::socket::{Kind, Socket};
use crate::streams::{MAX_PIECES, snd_pieces};
use longshore_ports::{GsoKind, PortError};
use longshore_tcp::{State, Transmit};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpHeader};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Segments that one connection may send in one turn, so that others get theirs.
const SEGMENTS_A_TURN: usize = 32;

/// How sending went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All that there was.
    All,
    /// There is more: next turn.
    More,
    /// The next hop is not known yet.
    Unresolved,
}

impl<'a> Transport<'a> {
    /// A payload that needs nothing before it and no checksum.
    pub(crate) fn finished(payload: &'a [IoSlice<'a>]) -> Self {
        Self {
            protocol: 0,
            header_len: 0,
            checksum_at: NO_CHECKSUM,
            payload,
            gso: None,
        }
    }
}

/// In [`Transport::checksum_at`]: there is none to be made.
pub(crate) const NO_CHECKSUM: usize = usize::MAX;

impl Link {
    /// The IP header of a TCP segment. Never to be fragmented (RFC 1191); the
    /// identification is only for peers that care.
    pub(crate) fn tcp_packet(
        &mut self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        header_len: usize,
        payload_len: usize,
        ttl: u8,
        tos: u8,
    ) -> Ipv4Header {
        Ipv4Header {
            tos,
            payload_len: (header_len + payload_len) as u16,
            identification: self.next_identification(),
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl,
            protocol: protocol::TCP,
            source,
            destination,
        }
    }

    /// Sends a TCP segment.
    pub(crate) fn send_tcp(
        &mut self,
        ip: &Ipv4Header,
        way: Way,
        header: &TcpHeader,
        payload: &[IoSlice<'_>],
        gso: Option<u16>,
    ) -> Result<(), PortError> {
        let mut buffer = [0u8; HEADER_ROOM];
        let header_len = header.emit(&mut buffer[LOWER_HEADERS..]);
        let transport = Transport {
            protocol: protocol::TCP,
            header_len,
            checksum_at: CHECKSUM_OFFSET,
            payload,
            gso: gso.map(|size| (GsoKind::Tcp4, size)),
        };
        self.send_ipv4(ip, way, &mut buffer, &transport)
    }
}

impl Engine {
    /// Sends what a connection has to send.
    pub(crate) fn transmit(&mut self, key: u32) -> Sent {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return Sent::All;
        };
        let service = socket.options.service().without_ecn();
        let (session_key, id) = (socket.session, socket.id);
        let Kind::Stream(c) = &mut socket.kind else {
            return Sent::All;
        };
        if !c.tcb.may_have_to_send() {
            return Sent::All;
        }
        let Some(local) = socket.local else {
            return Sent::All;
        };
        let Some(ends) = Ends::new(local.ip(), c.remote.ip()) else {
            return Sent::All;
        };
        let way = match self.link.way(&ends, now, &mut self.counters) {
            way @ (Way::Station(_) | Way::Own) => way,
            // What is taken from the block counts as sent, so nothing is taken.
            Way::Wait => return Sent::Unresolved,
            Way::Failed | Way::NoRoute => {
                if c.tcb.state() == State::SynSent {
                    c.unreachable = true;
                    c.tcb.abort();
                } else {
                    while c.tcb.poll_transmit(now, 0).is_some() {
                        self.counters.drop(EngineDrop::Unresolved);
                    }
                }
                return Sent::All;
            }
        };
        let longest = self
            .link
            .longest_payload(&ends, way)
            .max(usize::from(c.tcb.mss()));
        let by_port = match (ends, way) {
            (Ends::V4 { from, to }, Way::Station(_)) => Some((
                SocketAddrV4::new(from, local.port()),
                SocketAddrV4::new(to, c.remote.port()),
            )),
            _ => None,
        };
        let mut segments = 0;
        while let Some(ends) = by_port
            && segments < SEGMENTS_A_TURN
            && let Some(segment) = c.tcb.poll_plain(now, longest)
        {
            segments += 1;
            let len = u64::from(segment.payload_len);
            let mut pieces = [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
            let mut count = 0;
            if len != 0 {
                let Some(session) = self.sessions.get_mut(session_key) else {
                    return Sent::All;
                };
                let range = segment.payload_start..segment.payload_start + len;
                count = match snd_pieces(&session.arena, id.index, range, &mut pieces) {
                    Ok(count) => count,
                    Err(_) => {
                        self.counters.drop(EngineDrop::BadStream);
                        c.tcb.abort();
                        return Sent::More;
                    }
                };
                let counts = [&mut socket.meter.to_adapter, &mut session.meter.to_adapter];
                Socket::count_payload(counts, count as u64, len);
            }
            let headers = Headers::keep(
                &mut c.headers,
                &self.link,
                ends,
                way,
                service.ttl,
                service.tos,
            );
            let pieces = pieces.get(..count).unwrap_or_default();
            let sent = self.link.send_plain(headers, &segment, pieces);
            self.counters.segments_out += 1;
            if sent.is_err() {
                self.counters.drop(EngineDrop::PortRefused);
            }
            if sent == Err(PortError::Full) {
                return Sent::More;
            }
        }
        for _ in segments..SEGMENTS_A_TURN {
            let Some(segment) = c.tcb.poll_transmit(now, longest) else {
                return Sent::All;
            };
            let len = segment.payload_len();
            let header = segment.header(local.port(), c.remote.port());
            let mut pieces = [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
            let count = if len == 0 {
                0
            } else {
                let Some(session) = self.sessions.get(session_key) else {
                    return Sent::All;
                };
                match snd_pieces(
                    &session.arena,
                    id.index,
                    segment.payload.clone(),
                    &mut pieces,
                ) {
                    Ok(count) => count,
                    Err(_) => {
                        self.counters.drop(EngineDrop::BadStream);
                        c.tcb.abort();
                        return Sent::More;
                    }
                }
            };
            let service = service.marked(segment.ecn as u8);
            let gso = (len > usize::from(segment.mss)).then_some(segment.mss);
            let sent = self.link.send_segment(
                &ends,
                way,
                service,
                &header,
                pieces.get(..count).unwrap_or_default(),
                gso,
            );
            if sent.is_err() {
                self.counters.drop(EngineDrop::PortRefused);
            }
            count_segment(&mut self.counters, &segment);
            if len != 0
                && let Some(session) = self.sessions.get_mut(session_key)
            {
                let counts = [&mut socket.meter.to_adapter, &mut session.meter.to_adapter];
                Socket::count_payload(counts, count as u64, len as u64);
            }
            if sent == Err(PortError::Full) {
                return Sent::More;
            }
        }
        Sent::More
    }
}

fn count_segment(counters: &mut crate::counters::Counters, segment: &Transmit) {
    counters.segments_out += 1;
    counters.retransmissions += u64::from(segment.retransmission);
}

const _: () = assert!(MAX_PIECES == 3);
