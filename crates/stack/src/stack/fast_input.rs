//! The common path in: from a frame to a host's stream in one pass.
//!
//! Owns [`Stack::frame_by_prediction`], tried first for every frame from the port. It takes the
//! segments that nearly all are: with headers below TCP as those of the segment before
//! ([`CachedHeaders4`](longshore_wire::tcp4::CachedHeaders4), [`CachedHeaders6`]), or at least
//! without surprises ([`Tcp4`]) and of a connection that the table knows, and the one that its
//! block predicts ([`Tcb::predicts`](longshore_tcp::Tcb::predicts)). All else is left, untouched
//! and uncounted, to `input` and `tcp_input`, which do the same one header at a time and say why
//! they drop what they drop.

use super::Stack;
use crate::at_work::AtWork;
use crate::demux::{Demux, Flow};
use crate::link::Device;
use crate::session::SPARE_CHUNKS;
use crate::socket::{Kind, PayloadMoved};
use longshore_frames::{RxChecksum, RxMeta};
use longshore_hostif::adapter::{ReceiveSlab, ReceiveStream};
use longshore_hostif::{MOST_DATA, Moved, NONE, Room};
use longshore_net::input6::classify_from_wire;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, Wanted};
use longshore_wire::tcp;
use longshore_wire::tcp4::Tcp4;
use longshore_wire::tcp6::CachedHeaders6;
use std::net::SocketAddr;

/// The ECN bits of a packet that met congestion (RFC 3168 section 5).
const CONGESTED: u8 = 3;

impl Device {
    /// Whether a frame says that it has an IPv6 packet.
    #[inline(always)]
    fn is_of_v6(&self, frame: &[u8]) -> bool {
        if self.is_bare() {
            frame.first().is_some_and(|first| first >> 4 == 6)
        } else {
            // Where an Ethernet header has its type.
            frame.get(12..14) == Some(&[0x86, 0xdd])
        }
    }

    /// The packet in a frame that is for us alone, and the link's header, which is one
    /// that is `wanted`.
    fn packet_of<'a>(
        &self,
        frame: &'a [u8],
        wanted: &Wanted,
    ) -> Option<([u8; ethernet::HEADER_LEN], &'a [u8])> {
        if self.is_bare() {
            return Some(([0; ethernet::HEADER_LEN], frame));
        }
        let (header, packet) = frame.split_first_chunk()?;
        wanted.is(header).then_some((*header, packet))
    }
}

/// Keeps little payload to go in a descriptor, if one process alone is to be told: whether it
/// was kept.
#[inline(never)]
fn hold(
    stream: &mut ReceiveStream,
    several: bool,
    edges: [u64; 3],
    payload: &[u8],
    slab: &mut ReceiveSlab,
    index: u32,
) -> bool {
    !several && stream.hold(edges, payload, slab, index)
}

/// The receive stream of a connection: it, the index of its block, and whether several processes
/// are told of it.
type Target<'a> = (&'a mut ReceiveStream, u32, bool);

/// Puts predicted payload where its host reads it, or keeps it for a descriptor, and counts it;
/// says whether that could be. `edges` are where the host has consumed to, where it was told that
/// the stream reaches to, and where the payload goes.
#[inline(always)]
fn place_predicted(
    (stream, index, several): Target<'_>,
    edges: [u64; 3],
    payload: &[u8],
    slab: &mut ReceiveSlab,
    counts: [&mut Moved; 2],
) -> bool {
    if slab.available() < SPARE_CHUNKS || index == NONE {
        return false;
    }
    let is_short = payload.len() <= MOST_DATA;
    // Bytes that lie beyond the stream's edge are not there yet: the block has not changed, and
    // may still leave the segment to others.
    if is_short && hold(stream, several, edges, payload, slab, index) {
        return true;
    }
    let [base, _, at] = edges;
    let Ok(pieces) = stream.place(base, at, payload, slab, index) else {
        return false;
    };
    let moved = Moved::of_stream(pieces, at, payload.len() as u64);
    PayloadMoved::count(counts, &moved);
    true
}

/// Sees to it that a socket is visited at the end of the turn: it `is_dirty` then, and among
/// those that are.
#[inline(always)]
fn mark_dirty(key: u32, is_dirty: &mut bool, dirty: &mut Vec<u32>) {
    if !*is_dirty {
        *is_dirty = true;
        dirty.push(key);
    }
}

/// Whether the checksum of a segment is right, whose headers below TCP are those that the table
/// knows.
#[inline(always)]
fn verify<const V6: bool>(demux: &Demux, segment: &[u8]) -> bool {
    if V6 {
        demux.cached6().0.verify(segment)
    } else {
        demux.cached().0.addresses().verify(segment)
    }
}

/// As `verify`, while the payload is copied to `room`, in one pass: it lies beyond the edge of its
/// stream, where it is written over if the checksum was wrong.
#[inline(never)]
fn verify_copying<const V6: bool>(
    demux: &Demux,
    segment: &[u8],
    payload: &[u8],
    room: Room<'_>,
) -> bool {
    let len = segment.len();
    let header = segment.get(..len - payload.len()).unwrap_or_default();
    let sum = room.fill_by(|to| Partial::of_copy_to(to, payload));
    let sum = Partial::of(header).plus(sum);
    if V6 {
        demux.cached6().0.is_right(len, sum)
    } else {
        demux.cached().0.addresses().is_right(len, sum)
    }
}

impl Stack {
    /// Takes a frame from the port if it is a segment that a connection predicts; says
    /// whether it was.
    #[inline(never)]
    pub(crate) fn frame_by_prediction(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let (cached, key) = self.endpoints.demux.cached();
        match cached.segment_of(frame, self.link.output.device.is_bare()) {
            Some(segment) => self.segment_by_prediction::<true, false>(key, segment, meta),
            None => self.frame_of_another(frame, meta),
        }
    }

    /// As `frame_by_prediction`, for a segment whose connection, or whose headers below TCP, are
    /// not those of the one before, or which is of IPv6: nothing but calls, so that neither pays
    /// for the other.
    #[inline(never)]
    fn frame_of_another(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        if self.link.output.device.is_of_v6(frame) {
            self.frame6_by_prediction(frame, meta)
        } else {
            self.frame4_of_another(frame, meta)
        }
    }

    /// As `frame_of_another`, for one of IPv4. Packets of our own to ourselves cannot come from a
    /// link.
    #[inline(never)]
    fn frame4_of_another(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let Some((link, packet)) = self
            .link
            .output
            .device
            .packet_of(frame, self.link.output.device.wanted())
        else {
            return false;
        };
        let Some(p) = Tcp4::read(packet).filter(|p| p.ecn != CONGESTED) else {
            return false;
        };
        let flow = p.flow();
        let (remote, _) = flow.source();
        if self.link.addresses.is_ours(remote) || remote.is_loopback() {
            return false;
        }
        let Some(key) = self.endpoints.demux.find4(&flow) else {
            return false;
        };
        self.endpoints.demux.cache(p.cached(link), key);
        self.segment_by_prediction::<true, false>(key, p.segment, meta)
    }

    /// As `frame4_of_another`, for one of IPv6.
    #[inline(never)]
    fn frame6_by_prediction(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let (cached, key) = self.endpoints.demux.cached6();
        match cached.segment_of(frame, self.link.output.device.is_bare()) {
            Some(segment) => self.segment_by_prediction::<true, true>(key, segment, meta),
            None => self.frame6_of_another(frame, meta),
        }
    }

    /// As `frame6_by_prediction`, for one whose headers below TCP are not those of the segment of
    /// IPv6 before: with extension headers, it is not looked at here.
    #[inline(never)]
    fn frame6_of_another(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let wanted = Wanted::new(self.link.output.device.mac(), EtherType::Ipv6);
        let Some((link, packet)) = self.link.output.device.packet_of(frame, &wanted) else {
            return false;
        };
        let Some(cached) = CachedHeaders6::of(&link, packet) else {
            return false;
        };
        let Ok((ip, range)) = classify_from_wire(packet, |ip| self.link.addresses.is_ours6(ip))
        else {
            return false;
        };
        let Some(segment) = packet.get(range).filter(|s| s.len() >= tcp::HEADER_LEN) else {
            return false;
        };
        let Some(&[a, b, c, d]) = segment.first_chunk() else {
            return false;
        };
        if ip.ecn() == CONGESTED {
            return false;
        }
        let remote = SocketAddr::new(ip.source.into(), u16::from_be_bytes([a, b]));
        let local = SocketAddr::new(ip.destination.into(), u16::from_be_bytes([c, d]));
        let Some(key) = self.endpoints.demux.find6(Flow::new(local, remote), cached) else {
            return false;
        };
        self.segment_by_prediction::<true, true>(key, segment, meta)
    }

    /// As `frame6_of_another`, for a connection without timestamps.
    #[inline(never)]
    fn without_timestamps<const V6: bool>(
        &mut self,
        key: u32,
        segment: &[u8],
        meta: &RxMeta,
    ) -> bool {
        self.segment_by_prediction::<false, V6>(key, segment, meta)
    }

    /// As `without_timestamps`, for the segment of the connection of this key, whose headers below
    /// TCP are those that the table knows. All that can fail comes before anything changes.
    #[inline(always)]
    fn segment_by_prediction<const TIMESTAMPS: bool, const V6: bool>(
        &mut self,
        key: u32,
        segment: &[u8],
        meta: &RxMeta,
    ) -> bool {
        self.endpoints.sessions.at_work = AtWork::Socket(key);
        let Some(socket) = self.endpoints.sockets.slab.get_mut(key) else {
            return false;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return false;
        };
        if TIMESTAMPS && !c.tcb.has_timestamps() {
            return self.without_timestamps::<V6>(key, segment, meta);
        }
        let Some((predicted, payload)) = c.tcb.predicts_segment::<TIMESTAMPS>(segment) else {
            return false;
        };
        let at = predicted.stream_offset();
        let gso_size = || meta.gso.map_or(0, |g| g.size);
        let is_short = payload.len() <= MOST_DATA;
        if meta.checksum == RxChecksum::Unknown {
            if !is_short
                && predicted.is_data_alone()
                && self.bulk_run.is_permitted()
                && let Some(room) = c.rcv.room(at, payload.len())
            {
                if !verify_copying::<V6>(&self.endpoints.demux, segment, payload, room) {
                    return false;
                }
                c.rcv.note_placed(payload.len());
                self.counters.prediction.data += 1;
                self.bulk_run.note_data(key, V6, payload.len());
                mark_dirty(key, &mut socket.dirty, &mut self.endpoints.sockets.dirty);
                predicted.take_data(gso_size, self.now);
                return true;
            }
            if !verify::<V6>(&self.endpoints.demux, segment) {
                return false;
            }
        }
        // What a receiver gets. The copy comes last, when no value has to outlive it.
        if !is_short
            && predicted.is_data_alone()
            && let Some(room) = c.rcv.room_in_latest(at, payload.len())
        {
            self.counters.prediction.data += 1;
            self.bulk_run.note_data(key, V6, payload.len());
            mark_dirty(key, &mut socket.dirty, &mut self.endpoints.sockets.dirty);
            predicted.take_data(gso_size, self.now);
            room.fill(payload);
            return true;
        }
        if payload.is_empty() {
            self.counters.prediction.acks += 1;
        } else {
            let Some(session) = self.endpoints.sessions.get_unshown_mut(socket.session) else {
                return false;
            };
            let edges = [predicted.rcv_consumed(), c.reported.rcv_edge, at];
            let to = (
                &mut c.rcv,
                socket.id.index,
                socket.subscribers.are_several(),
            );
            let counts = [
                &mut socket.payload.to_host,
                &mut session.host.meter.to_host.payload,
            ];
            if !place_predicted(to, edges, payload, &mut session.host.receive, counts) {
                return false;
            }
            self.counters.prediction.data += 1;
            self.bulk_run.note_data(key, V6, payload.len());
        }
        mark_dirty(key, &mut socket.dirty, &mut self.endpoints.sockets.dirty);
        predicted.take_outlined(gso_size(), self.now);
        true
    }
}
