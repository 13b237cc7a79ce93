//! The types at the crate's boundary: a received segment, what becomes of it, and a
//! segment to be sent.
//!
//! Owns [`Segment`], [`Disposition`], [`Place`] and [`Transmit`]. None of them holds
//! payload: it stays with the engine, and positions in the streams say where it belongs.

use crate::DropReason;
use core::ops::Range;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{Plain, TcpFlags, TcpHeader, TcpOptions};

/// The ECN field of the IP header that carried a segment (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// Congestion experienced.
    Congested = 3,
}

/// A received segment with a verified checksum. It may be merged from several packets
/// (GRO, LRO), with up to 65,535 bytes of payload.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The header with parsed options.
    pub header: &'a TcpHeader,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Payload bytes of each packet that it was merged from; 0 if it is one packet or if
    /// that is unknown.
    pub gso_size: u16,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
}

impl<'a> Segment<'a> {
    /// A segment that arrived in one packet, without ECN.
    #[must_use]
    pub const fn new(header: &'a TcpHeader, payload_len: u32) -> Segment<'a> {
        Segment {
            header,
            payload_len,
            gso_size: 0,
            ecn: Ecn::NotCapable,
        }
    }
}

/// Which part of a segment's payload to keep, and where in the receive stream it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its position in the receive stream, in bytes from 0; beyond `rcv_edge()` if the
    /// segment arrived out of order.
    pub stream_offset: u64,
    /// Bytes to skip at the front of the payload.
    pub skip: u32,
    /// Bytes to copy; the rest is not kept.
    pub len: u32,
}

/// The result of processing a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Disposition {
    /// The payload to copy before any other method is called: the edge that the next
    /// `take_events` reports already includes it.
    pub place: Option<Place>,
    /// Why the segment, or a part of its payload, was dropped.
    pub drop: Option<DropReason>,
    /// An acknowledgment should be sent before more segments of the burst are processed;
    /// `poll_transmit` returns it.
    pub ack_now: bool,
    /// Answer with the reset that [`reset_for`](crate::reset_for) builds for the segment.
    pub reset: bool,
    /// Only in TIME-WAIT: the segment is the SYN of a new incarnation. Drop the block and
    /// pass the SYN to the listener; the new connection's ISS must be after this. Without
    /// a listener, answer with a reset.
    pub reopen: Option<SeqNumber>,
    /// The segment matched the header prediction (for the 1989 paper's statistics).
    pub fast_path: bool,
}

impl Disposition {
    /// A segment that was dropped for this reason.
    pub(crate) const fn dropped(reason: DropReason) -> Disposition {
        Disposition {
            place: None,
            drop: Some(reason),
            ack_now: false,
            reset: false,
            reopen: None,
            fast_path: false,
        }
    }
}

/// A segment to be sent with a plain header, as nearly all are. Ports, checksum, payload
/// and segmentation are as for [`Transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainTransmit {
    /// The header without ports and checksum.
    pub header: Plain,
    /// Start of its payload in the send stream.
    pub payload_start: u64,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Payload bytes that fit one packet (`gso_size`).
    pub mss: u16,
}

/// A segment to be sent. The engine adds ports, checksum and payload; if `payload` is
/// longer than `mss`, it is segmented into packets of `mss` bytes (TSO) with PSH and FIN
/// on the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgment number; 0 unless the ACK flag is set.
    pub ack: SeqNumber,
    /// Flags.
    pub flags: TcpFlags,
    /// The window field, already scaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
    /// Bytes of the send stream that it carries.
    pub payload: Range<u64>,
    /// Payload bytes that fit one packet with these options (`gso_size`).
    pub mss: u16,
    /// It is a retransmission.
    pub retransmission: bool,
    /// The ECN field of its packets.
    pub ecn: Ecn,
}

impl Transmit {
    /// Bytes of payload.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        (self.payload.end - self.payload.start) as usize
    }

    /// Its header, for a connection between these ports.
    #[must_use]
    pub fn header(&self, src_port: u16, dst_port: u16) -> TcpHeader {
        TcpHeader {
            src_port,
            dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
            options: self.options,
        }
    }
}
