//! A receiver that holds timestamps against TS.Recent as Linux does, in front of one of
//! ours.
//!
//! Ours admits what is late while something is missing (`docs/rfc.md`, D49); Linux, as RFC
//! 7323 section 5.3 has it, does not. What passes here is what passes there; the block
//! behind it does the rest. What it drops is answered as Linux answers it, with the state
//! of the stream as it is.

use crate::wire::Packet;
use longshore_tcp::Transmit;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// What a receiver of that kind knows.
#[derive(Debug, Default)]
pub(crate) struct LinuxPaws {
    /// TS.Recent, once there is one.
    ts_recent: Option<u32>,
    /// Last.ACK.sent, and what it was sent with.
    last_ack: Option<TcpHeader>,
    /// Segments that it has dropped.
    pub(crate) dropped: u64,
}

impl LinuxPaws {
    /// A segment is sent.
    pub(crate) fn on_sent(&mut self, t: &Transmit) {
        let mut header = t.header(1, 2);
        if !header.flags.contains(TcpFlags::ACK) || header.flags.contains(TcpFlags::SYN) {
            return;
        }
        // An answer has neither the payload nor the FIN of what went out last, and stands
        // at the end of what was sent ever.
        let fin = u32::from(header.flags.contains(TcpFlags::FIN));
        let end = header.seq.add(t.payload_len() as u32 + fin);
        header.seq = match &self.last_ack {
            Some(last) if end.lt(last.seq) => last.seq,
            _ => end,
        };
        header.flags = TcpFlags::ACK;
        self.last_ack = Some(header);
    }

    /// Whether a segment is dropped. What is here already goes on to the block, which
    /// reports the duplicate.
    pub(crate) fn drops(&mut self, packet: &Packet) -> bool {
        let h = &packet.header;
        let Some(stamps) = h.options.timestamps else {
            return false;
        };
        if h.flags.contains(TcpFlags::SYN) {
            self.ts_recent = Some(stamps.val);
            return false;
        }
        let (Some(recent), Some(ack)) = (self.ts_recent, &self.last_ack) else {
            return false;
        };
        let from_ack = |seq: u32| seq.wrapping_sub(ack.ack.0) as i32;
        let end = h.seq.0.wrapping_add(packet.payload.len() as u32);
        if from_ack(end) < 0 {
            return false;
        }
        let age = recent.wrapping_sub(stamps.val) as i32;
        // It may be one tick older.
        if age > 1 && !packet.payload.is_empty() {
            self.dropped += 1;
            return true;
        }
        if age <= 0 && from_ack(h.seq.0) <= 0 {
            self.ts_recent = Some(stamps.val);
        }
        false
    }

    /// The answer to what was dropped.
    pub(crate) fn answer(&self) -> Option<Packet> {
        Some(Packet {
            header: self.last_ack.clone()?,
            payload: Vec::new(),
            gso_size: 0,
            ecn: longshore_tcp::Ecn::NotCapable,
        })
    }
}
