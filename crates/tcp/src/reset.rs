//! The reset that answers a segment of no connection.
//!
//! Owns [`reset_for`]. The engine calls it when neither a connection nor a listener
//! matches; listener, SYN-SENT, SYN-RECEIVED and TIME-WAIT use the same rule.

use crate::Segment;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

/// The length of a segment in sequence space: payload, SYN and FIN.
pub(crate) fn sequence_len(segment: &Segment<'_>) -> u32 {
    let flags = segment.header.flags;
    segment.payload_len
        + u32::from(flags.contains(TcpFlags::SYN))
        + u32::from(flags.contains(TcpFlags::FIN))
}

/// The reset that answers a segment of no connection, with ports swapped; `None` if the
/// segment is itself a reset.
///
/// RFC 9293 section 3.10.7.1: "If the ACK bit is off, sequence number zero is used",
/// with `<SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>`; if it is on,
/// `<SEQ=SEG.ACK><CTL=RST>`.
#[must_use]
pub fn reset_for(segment: &Segment<'_>) -> Option<TcpHeader> {
    let h = segment.header;
    if h.flags.contains(TcpFlags::RST) {
        return None;
    }
    let (seq, ack, flags) = if h.flags.contains(TcpFlags::ACK) {
        (h.ack, SeqNumber(0), TcpFlags::RST)
    } else {
        let ack = SeqNumber(h.seq.0.wrapping_add(sequence_len(segment)));
        (SeqNumber(0), ack, TcpFlags::RST | TcpFlags::ACK)
    };
    Some(TcpHeader {
        src_port: h.dst_port,
        dst_port: h.src_port,
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        options: TcpOptions::default(),
    })
}

#[cfg(test)]
mod tests;
