//! The output fast path: new data, or an acknowledgment, with a plain header.
//!
//! Owns what [`Tcb::poll_full_packets`](crate::Tcb::poll_full_packets) and
//! [`Tcb::poll_plain`](crate::Tcb::poll_plain) send, which the engine calls in this order before
//! [`poll_transmit`](crate::Tcb::poll_transmit). The conditions are that nothing is
//! retransmitted or probed, no SACK block is owed, the handshake is complete, neither
//! pacing nor ECN is on, nothing is urgent, and no record ends. A segment then consists of sequence
//! numbers, flags and timestamps, in a header of known layout. The same functions as on
//! the slow path decide what to send and update the state, so that both paths send the
//! same.

use super::Emission;
use crate::flags::Flags;
use crate::segment::PlainTransmit;
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

/// Conditions that the fast path does not handle.
const NOT_PLAIN: Flags = Flags::SYN_DUE
    .union(Flags::RST_DUE)
    .union(Flags::PROBE_DUE)
    .union(Flags::DSACK)
    .union(Flags::SLOW_OUTPUT)
    .union(Flags::URGENT)
    .union(Flags::RECORD_ENDS)
    .union(Flags::USER_TIMEOUT_DUE);

/// Conditions that `poll_full_packets` does not handle.
const NOT_FULL_PACKETS: Flags = NOT_PLAIN
    .union(Flags::FORCE_SMALL)
    .union(Flags::WINDOW_LIMITED);

impl Emission<'_> {
    /// See [`Tcb::poll_full_packets`](crate::Tcb::poll_full_packets).
    #[inline(always)]
    pub(super) fn full_packets(
        &mut self,
        now: Instant,
        max_payload: usize,
    ) -> Option<PlainTransmit> {
        // Header prediction implies the same for output: the connection is established,
        // and nothing is lost, SACKed, probed for or out of order.
        let usual = self.tcb.prediction.is_on()
            && !self.tcb.flags.intersects(NOT_FULL_PACKETS)
            && !self.tcb.snd.fin()
            && !self.tcb.flight.mtu.is_due(now);
        if !usual {
            return None;
        }
        let (start, end) = self.tcb.congestion.full_packets(
            &self.tcb.snd,
            self.tcb.cfg.burst.min_batch,
            max_payload,
        )?;
        self.departure().full_packets(end, now);
        let payload_len = (end - start) as u32;
        // The expected segment has the same options, and only ACK set.
        let control = self.tcb.prediction.control();
        let mut builder = self.builder();
        let push = builder.flags_of_full_packets(end, payload_len);
        Some(PlainTransmit {
            header: builder.header_with(start, control | push.0, now),
            payload_start: start as u64,
            payload_len,
            mss: self.tcb.snd.mss(),
        })
    }

    /// See [`Tcb::poll_other_plain`](crate::Tcb::poll_other_plain).
    #[inline(always)]
    pub(super) fn other_plain(
        &mut self,
        now: Instant,
        max_payload: usize,
    ) -> Option<PlainTransmit> {
        let common = !self.tcb.flags.intersects(NOT_PLAIN)
            && self.tcb.state.may_transmit_data()
            && self.tcb.flight.recovery.is_quiet()
            && !self.tcb.flight.mtu.is_due(now)
            && self.tcb.reassembly.ranges.is_empty();
        if !common {
            return None;
        }
        if self.tcb.snd.nxt() < self.tcb.snd.end()
            && let Some((start, end)) = self.selection().new_data(now, max_payload)
        {
            self.departure().plain_data(start, end, now);
            let mut builder = self.builder();
            let (flags, data_end) = builder.flags_of(start, end);
            return Some(builder.plain(start, data_end, flags, now));
        }
        if self.tcb.flags.contains(Flags::ACK_NOW) {
            let pos = self.tcb.snd.ack_pos();
            return Some(self.builder().plain(pos, pos, TcpFlags::ACK, now));
        }
        None
    }
}
