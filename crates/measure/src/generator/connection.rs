//! What the bare generator knows of a connection: as much as a peer needs that neither loses nor
//! reorders anything.
//!
//! Owns what is acknowledged, expected and to be sent; the generator calls it with each segment,
//! and asks it what is to be sent next.

use super::service::{Served, Service};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use longshore_wire::{MacAddr, SeqNumber};
use std::net::Ipv4Addr;

/// Its first sequence number.
pub(super) const FIRST: SeqNumber = SeqNumber(1);
/// The largest window scale (RFC 7323, 2.3).
const MAX_SCALE: u8 = 14;

/// One segment that came, read.
pub(super) struct Segment<'f> {
    pub(super) from: MacAddr,
    pub(super) source: Ipv4Addr,
    pub(super) header: TcpHeader,
    pub(super) payload: &'f [u8],
}

/// What it knows of its connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// What serves it, among the generator's services.
    pub(super) served: usize,
    pub(super) peer: Ipv4Addr,
    pub(super) peer_mac: MacAddr,
    pub(super) peer_port: u16,
    /// The oldest byte that is not acknowledged, and the next to be sent.
    unacknowledged: SeqNumber,
    pub(super) next: SeqNumber,
    /// What the peer's window is, in bytes, and its scale.
    pub(super) window: u32,
    scale: u8,
    /// The next byte to be received.
    pub(super) expected: SeqNumber,
    received: u64,
    sent: u64,
    /// Bytes that are to be sent and are not yet; without end for a source.
    to_send: usize,
    /// An acknowledgment is to be sent, if nothing else is that has it.
    pub(super) owes_acknowledgment: bool,
    /// The peer has ended; this side is to, when all is sent, and has.
    peer_has_ended: bool,
    ends: bool,
    has_ended: bool,
    /// It is in the queue of those that may have something to send.
    pub(super) is_due: bool,
}

impl Connection {
    /// That of a SYN.
    pub(super) fn new(syn: &Segment<'_>, served: usize, service: Service) -> Self {
        let header = &syn.header;
        Connection {
            served,
            peer: syn.source,
            peer_mac: syn.from,
            peer_port: header.src_port,
            unacknowledged: FIRST,
            // The SYN of our side takes one.
            next: FIRST.add(1),
            window: u32::from(header.window),
            scale: header.options.window_scale.unwrap_or(0).min(MAX_SCALE),
            expected: header.seq.add(1),
            received: 0,
            sent: 0,
            to_send: if service == Service::Source {
                usize::MAX
            } else {
                0
            },
            owes_acknowledgment: false,
            peer_has_ended: false,
            ends: false,
            has_ended: false,
            is_due: false,
        }
    }

    /// Takes what a segment says and has. What is not the next is not kept: the peer sends it
    /// again.
    pub(super) fn take(&mut self, segment: &Segment<'_>, served: &Served) {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::ACK) && header.ack.le(self.next) {
            if self.unacknowledged.lt(header.ack) {
                self.unacknowledged = header.ack;
            }
            self.window = u32::from(header.window) << self.scale;
        }
        let ends = header.flags.contains(TcpFlags::FIN);
        if segment.payload.is_empty() && !ends {
            return;
        }
        self.owes_acknowledgment = true;
        if header.seq != self.expected {
            return;
        }
        let payload = segment.payload;
        #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
        let len = payload.len() as u32;
        self.expected = self.expected.add(len);
        self.received += u64::from(len);
        let answers = served.answers_to(payload);
        self.to_send = self.to_send.saturating_add(answers);
        self.ends |= answers != 0 && served.closes();
        if ends {
            self.expected = self.expected.add(1);
            self.peer_has_ended = true;
            self.ends = true;
            // What a source has is without end, but for a peer that wants no more.
            if served.service == Service::Source {
                self.to_send = 0;
            }
        }
    }

    /// How many bytes the next segment has, of at most `longest`; none while the peer's window is
    /// full, or nothing is to be sent.
    pub(super) fn next_piece(&self, longest: usize) -> usize {
        let piece = self.to_send.min(longest);
        let under_way = usize::try_from(self.next.sub(self.unacknowledged)).unwrap_or(0);
        let room = (self.window as usize).saturating_sub(under_way);
        match (piece <= room, under_way) {
            (true, _) => piece,
            // A window in which no whole piece fits is filled when it is empty.
            (false, 0) => room,
            (false, _) => 0,
        }
    }

    /// So many bytes have been sent, from that place of its stream.
    pub(super) fn has_sent(&mut self, bytes: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "of one segment")]
        let len = bytes as u32;
        self.next = self.next.add(len);
        self.sent += u64::from(len);
        if self.to_send != usize::MAX {
            self.to_send -= bytes;
        }
        self.owes_acknowledgment = false;
    }

    /// Bytes of its stream that have been sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that have come.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether a FIN is to be sent now.
    pub(super) fn is_to_end(&self) -> bool {
        self.ends && !self.has_ended && self.to_send == 0
    }

    /// Its FIN has been sent, behind so many bytes.
    pub(super) fn end(&mut self, bytes: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "8 bytes at most")]
        let len = bytes as u32;
        self.next = self.next.add(len + 1);
        self.has_ended = true;
        self.owes_acknowledgment = false;
    }

    /// Whether both sides have ended, and all is acknowledged.
    pub(super) fn is_over(&self) -> bool {
        self.peer_has_ended
            && self.has_ended
            && self.unacknowledged == self.next
            && !self.owes_acknowledgment
    }
}
