//! The output fast path: new data, or an acknowledgment, with a plain header.
//!
//! Owns [`Tcb::poll_full_packets`] and [`Tcb::poll_plain`], which the engine calls in this order
//! before [`poll_transmit`](Tcb::poll_transmit). The conditions are that nothing is
//! retransmitted or probed, no SACK block is owed, the handshake is complete, neither
//! pacing nor ECN is on, nothing is urgent, and no record ends. A segment then consists of sequence
//! numbers, flags and timestamps, in a header of known layout. The same functions as on
//! the slow path decide what to send and update the state, so that both paths send the
//! same.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::segment::PlainTransmit;
use crate::tcb::Tcb;
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

impl Tcb {
    /// The next segment to send, if it is of the most common kind: new data in full
    /// packets, with other data in flight; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` means that the segment is of another
    /// kind, or that there is none: call [`poll_plain`](Tcb::poll_plain).
    #[inline(always)]
    pub fn poll_full_packets(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        // Header prediction implies the same for output: the connection is established,
        // and nothing is lost, SACKed, probed for or out of order.
        let usual = self.prediction.is_on()
            && !self.flags.intersects(NOT_FULL_PACKETS)
            && !self.snd.fin()
            && !self.flight.mtu.is_due(now);
        if !usual {
            return None;
        }
        let (start, end) = self.select_full_packets(max_payload)?;
        self.note_more(end, now);
        let payload_len = (end - start) as u32;
        let push = self.flags_of_full_packets(end, payload_len);
        Some(PlainTransmit {
            // The expected segment has the same options, and only ACK set.
            header: self.build_header_with(start, self.prediction.control() | push.0, now),
            payload_start: start as u64,
            payload_len,
            mss: self.snd.mss(),
        })
    }

    /// New data is sent in full packets with other data in flight, and nothing is lost,
    /// SACKed or probed for: [`note_new`](Tcb::note_new) without the steps that do not
    /// apply then.
    #[inline(always)]
    fn note_more(&mut self, end: Pos, now: Instant) {
        self.snd.advance(end);
        // Uncommon cases take the whole block, whose address is in a register.
        if !self.flight.scoreboard.send_with_last(end, now) {
            self.send_apart(end, now);
        }
        if !self.flight.rearm_probe(&self.snd, now) {
            self.arm_probe(now);
        }
        if !self.flight.is_timing() {
            self.time_round_trip(end, now);
        }
        self.note_payload_sent(now);
        self.timers.hold = Instant::NEVER;
    }

    #[inline(never)]
    fn send_apart(&mut self, end: Pos, now: Instant) {
        self.flight.send_apart(&self.snd, end, now);
    }

    #[inline(never)]
    fn arm_probe(&mut self, now: Instant) {
        self.flight.arm_probe(&self.snd, now);
    }

    /// The flags that [`flags_of`](Tcb::flags_of) adds to ACK for full packets without
    /// FIN.
    #[inline(always)]
    fn flags_of_full_packets(&mut self, end: Pos, len: u32) -> TcpFlags {
        let mss = u32::from(self.snd.mss());
        let (packets, batch) = if len == mss {
            (1, false)
        } else {
            (len.div_ceil(mss.max(1)), true)
        };
        self.accounting.counters.data_segs_out =
            self.accounting.counters.data_segs_out.wrapping_add(packets);
        if batch || end == self.snd.push() {
            TcpFlags::PSH
        } else {
            TcpFlags(0)
        }
    }

    /// The next segment to send, if it is of a common kind; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` means that the segment is of another
    /// kind, or that there is none: call `poll_transmit`.
    #[inline]
    pub fn poll_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        match self.poll_full_packets(now, max_payload) {
            None => self.poll_other_plain(now, max_payload),
            whole => whole,
        }
    }

    /// As [`poll_plain`](Tcb::poll_plain) after [`poll_full_packets`](Tcb::poll_full_packets) has
    /// returned `None`: handles the first data after an idle period, the last of the
    /// written data, the FIN, and data that needs the full checks.
    #[inline(never)]
    pub fn poll_other_plain(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        let common = !self.flags.intersects(NOT_PLAIN)
            && self.state.may_transmit_data()
            && self.flight.recovery.is_quiet()
            && !self.flight.mtu.is_due(now)
            && self.reassembly.ranges.is_empty();
        if !common {
            return None;
        }
        if self.snd.nxt() < self.snd.end()
            && let Some((start, end)) = self.select_new(now, max_payload)
        {
            self.note_new(start, end, now);
            let (flags, data_end) = self.flags_of(start, end);
            return Some(self.plain(start, data_end, flags, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.snd.ack_pos();
            return Some(self.plain(pos, pos, TcpFlags::ACK, now));
        }
        None
    }

    #[inline(always)]
    fn plain(&mut self, start: i64, data_end: i64, flags: TcpFlags, now: Instant) -> PlainTransmit {
        let header = self.build_header(start, flags, now);
        PlainTransmit {
            header,
            payload_start: start.max(0) as u64,
            payload_len: (data_end - start).max(0) as u32,
            mss: self.snd.mss(),
        }
    }
}
