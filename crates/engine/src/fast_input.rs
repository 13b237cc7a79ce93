//! The common path in: from a frame to a host's stream in one pass.
//!
//! Owns [`Engine::frame_by_prediction`], tried first for every frame from the
//! port. It takes the segments that nearly all are: an IPv4 and a TCP header without
//! surprises ([`Tcp4`]), of a connection that the table knows, and the one that
//! its block predicts ([`Tcb::predicts`](longshore_tcp::Tcb::predicts)). All else is
//! left, untouched and uncounted, to `input` and `tcp_input`, which do the same one
//! header at a time and say why they drop what they drop.

use crate::engine::Engine;
use crate::link::Link;
use crate::socket::{Kind, Socket};
use crate::tcp_input::SPARE_CHUNKS;
use longshore_ports::{LinkKind, RxChecksum, RxMeta};
use longshore_ring::NONE;
use longshore_wire::ethernet;
use longshore_wire::tcp::Head;
use longshore_wire::tcp4::{Addresses4, Tcp4};

/// The ECN bits of a packet that met congestion (RFC 3168 section 5).
const CONGESTED: u8 = 3;

impl Link {
    /// The IPv4 packet in a frame that is for us alone.
    #[inline]
    fn packet_of<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        if self.capabilities.link == LinkKind::Ip {
            return Some(frame);
        }
        let (header, packet) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>()?;
        self.wanted.is(header).then_some(packet)
    }
}

impl Engine {
    /// Takes a frame from the port if it is a segment that a connection predicts; says
    /// whether it was.
    #[inline(never)]
    pub(crate) fn frame_by_prediction(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let Some(p) = self.link.packet_of(frame).and_then(Tcp4::read) else {
            return false;
        };
        if p.ecn == CONGESTED {
            return false;
        }
        match self.demux.last4(&p.flow()) {
            Some(key) => self.segment_by_prediction(key, p.segment, meta, p.addresses),
            None => self.segment_of_another(p.segment, meta, p.addresses),
        }
    }

    /// The same for a segment whose connection is not that of the one before. Packets
    /// of our own to ourselves cannot come from a link.
    #[inline(never)]
    fn segment_of_another(&mut self, segment: &[u8], meta: &RxMeta, addresses: Addresses4) -> bool {
        let flow = addresses.with_ports_of(segment);
        let (remote, _) = flow.source();
        if self.link.is_ours(remote) || remote.is_loopback() {
            return false;
        }
        match self.demux.find4(&flow) {
            Some(key) => self.segment_by_prediction(key, segment, meta, addresses),
            None => false,
        }
    }

    /// The same for a segment of the connection of this key. All arguments of these
    /// three fit registers, and each calls the next as the last thing it does.
    #[inline(never)]
    fn segment_by_prediction(
        &mut self,
        key: u32,
        segment: &[u8],
        meta: &RxMeta,
        addresses: Addresses4,
    ) -> bool {
        let Some(socket) = self.sockets.get_mut(key) else {
            return false;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return false;
        };
        let header_len = Head::of(segment).map_or(0, Head::header_len);
        let Some(payload) = segment.get(header_len..) else {
            return false;
        };
        let len = payload.len() as u32;
        let Some(predicted) = c.tcb.predicts(segment, len) else {
            return false;
        };
        if meta.checksum == RxChecksum::Unknown && !addresses.verify(segment) {
            return false;
        }
        let mut copy = None;
        if payload.is_empty() {
            self.counters.predicted_acks += 1;
        } else {
            let Some(session) = self.sessions.get_mut(socket.session) else {
                return false;
            };
            let at = predicted.stream_offset();
            let mut pieces = 1;
            if let Some(place) = c.rcv.open_place(at, payload.len()) {
                copy = Some((session.arena.memory(), place));
            } else {
                let (slab, index) = (&mut session.rcv_slab, socket.id.index);
                if slab.available() < SPARE_CHUNKS || index == NONE {
                    return false;
                }
                let base = predicted.rcv_consumed();
                // Bytes that lie beyond the stream's edge are not there yet: the block
                // has not changed, and may still leave the segment to others.
                let placed = c
                    .rcv
                    .place_anywhere(base, at, payload, slab, &session.arena, index);
                let Ok(placed) = placed else {
                    return false;
                };
                pieces = placed;
            }
            let count = [&mut socket.meter.to_host, &mut session.meter.to_host];
            Socket::count_payload(count, pieces, u64::from(len));
            self.counters.predicted_data += 1;
        }
        if !socket.dirty {
            socket.dirty = true;
            self.dirty.push(key);
        }
        predicted.take(meta.gso.map_or(0, |g| g.size), self.now);
        // The host hears of it at the end of the turn. Last, so that nothing needs to be
        // kept over the call.
        if let Some((memory, place)) = copy {
            memory.write(place, payload);
        }
        true
    }
}
