//! What goes into and comes out of the machine: a received segment, what becomes
//! of it, and a segment to be sent.
//!
//! Owns [`Segment`], [`Disposition`], [`Place`] and [`Transmit`]. None of them
//! holds payload: it stays where the engine has it, and positions in the streams
//! say where it belongs.

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

/// A received segment, its checksum verified. It may be the merger of several
/// (GRO, LRO), up to 65,535 bytes of payload.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The header, options parsed.
    pub header: &'a TcpHeader,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Payload bytes of each of the packets it was merged of; 0 if it is one
    /// packet or nobody knows.
    pub gso_size: u16,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
}

impl<'a> Segment<'a> {
    /// A segment that came as one packet, without ECN.
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

/// Which part of a segment's payload is to be kept, and where in the receive
/// stream it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The position in the receive stream, in bytes from 0. It may lie beyond
    /// `rcv_edge()`: the segment came out of order.
    pub stream_offset: u64,
    /// Bytes at the front of the payload that are not wanted.
    pub skip: u32,
    /// Bytes to copy; what follows them is not wanted either.
    pub len: u32,
}

/// What becomes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Disposition {
    /// The payload to copy, before anything else is asked of the block: the edge
    /// that the next `take_events` tells of already counts it.
    pub place: Option<Place>,
    /// Why the segment, or a part of its payload, was not taken.
    pub drop: Option<DropReason>,
    /// An acknowledgment should go out without waiting for more segments of the
    /// burst to be looked at; `poll_transmit` has it.
    pub ack_now: bool,
    /// Answer with what [`reset_for`](crate::reset_for) makes of the segment.
    pub reset: bool,
    /// Only of a block in TIME-WAIT: the segment is the SYN of a new incarnation.
    /// Forget the block and give the SYN to the listener; the new connection's ISS
    /// must be after this. Without a listener, answer with a reset.
    pub reopen: Option<SeqNumber>,
    /// Header prediction held (RFC 9293 leaves it to us; the 1989 paper counts
    /// it).
    pub fast_path: bool,
}

impl Disposition {
    /// Not taken, for this reason.
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

/// A segment to be sent with a plain header, as nearly all are. What [`Transmit`] says
/// of ports, checksum, payload and cutting is true of it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainTransmit {
    /// The header but for ports and checksum.
    pub header: Plain,
    /// Where in the send stream its payload begins.
    pub payload_start: u64,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Payload bytes that fit one packet (`gso_size`).
    pub mss: u16,
}

/// A segment to be sent. The engine puts ports, checksum and payload to it; if
/// `payload` is longer than `mss`, it is cut into packets of `mss` bytes (TSO) with
/// PSH and FIN on the last.
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
    /// Payload bytes that fit one packet beside these options (`gso_size`).
    pub mss: u16,
    /// It repeats what was sent before.
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

    /// The header of it, for a connection between these ports.
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
