//! The common path out: new data, or an acknowledgment, with a plain header.
//!
//! Owns [`Tcb::poll_plain`], which the engine asks before
//! [`poll_transmit`](Tcb::poll_transmit). Nothing is repeated or probed, no SACK
//! block is owed, the handshake is over, neither pace nor ECN matters: then what is left of the segment is its
//! numbers, flags and timestamps, and a header of known layout. What to send and
//! what follows from it are decided by the same functions, so that both ways send the
//! same.

use crate::segment::PlainTransmit;
use crate::tcb::{Flags, Tcb};
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

/// What the common path knows nothing of.
const UNCOMMON: Flags = Flags::SYN_DUE
    .union(Flags::RST_DUE)
    .union(Flags::PROBE_DUE)
    .union(Flags::DSACK)
    .union(Flags::CAREFUL);

impl Tcb {
    /// The next segment to send, if it is one of the common kinds; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` says that it is another, or that
    /// there is none: `poll_transmit` knows.
    #[inline(always)]
    pub fn poll_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        let common = !self.flags.intersects(UNCOMMON)
            && self.state.may_transmit_data()
            && self.recovery.is_quiet()
            && !self.mtu.is_due(now)
            && self.assembler.is_empty();
        if !common {
            return None;
        }
        if let Some((start, end)) = self.select_whole(self.batch_payload(max_payload)) {
            self.note_new(start, end, now);
            let (flags, data_end) = self.flags_of(start, end);
            return Some(self.plain(start, data_end, flags, now));
        }
        self.poll_less_plain(now, max_payload)
    }

    /// The first data after a silence, the last of what was written, the FIN.
    #[inline(never)]
    fn poll_less_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        if self.snd_nxt < self.snd_end()
            && let Some((start, end)) = self.select_new(now, max_payload)
        {
            self.note_new(start, end, now);
            let (flags, data_end) = self.flags_of(start, end);
            return Some(self.plain(start, data_end, flags, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.ack_pos();
            return Some(self.plain(pos, pos, TcpFlags::ACK, now));
        }
        None
    }

    #[inline(always)]
    fn plain(&mut self, start: i64, data_end: i64, flags: TcpFlags, now: Instant) -> PlainTransmit {
        let header = self.settle(start, flags, now);
        PlainTransmit {
            header,
            payload_start: start.max(0) as u64,
            payload_len: (data_end - start).max(0) as u32,
            mss: self.snd_mss,
        }
    }
}
