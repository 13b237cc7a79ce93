//! Segment output.
//!
//! Owns [`Tcb::poll_transmit`], which the engine calls after each burst until it returns
//! `None`: this file has the order in which what is due is sent.
//!
//! | file | contents |
//! | --- | --- |
//! | `select.rs` | which range of new or lost data is sent |
//! | `data.rs` | what the connection notes when data is sent, or sent again |
//! | `segment.rs` | header fields of any segment after the handshake |
//! | `syn.rs` | SYN and SYN-ACK |
//! | `options.rs` | the options that a segment carries |
//! | `fast_path.rs` | shorter versions for data and acknowledgments with nothing unusual |

mod data;
mod fast_path;
mod options;
mod segment;
mod select;
mod syn;

pub(crate) use options::{TIMESTAMPS_LEN, plain_ack};

use data::Departure;
use segment::SegmentBuilder;
use select::Selection;

use crate::flags::Flags;
use crate::flight::ProbeChoice;
use crate::pos::{Pos, SYN_POS};
use crate::prediction::Prediction;
use crate::segment::Transmit;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

impl Tcb {
    /// The next segment to send, if any. `max_payload` is the largest payload of a
    /// segment: the MSS, or more if the segment is segmented later (then a multiple of
    /// the MSS is used). A probe of the path's MTU may be longer, but fits the interface
    /// in one packet. A returned segment counts as sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        if !self.may_have_to_send() {
            return None;
        }
        let transmit = self.poll_something(now, max_payload);
        self.debug_check();
        transmit
    }

    /// Whether [`poll_transmit`](Tcb::poll_transmit) may return a segment. `false` is
    /// exact; it is the result for most blocks that a burst has touched.
    #[inline]
    #[must_use]
    pub fn may_have_to_send(&self) -> bool {
        self.snd.nxt() < self.snd.end()
            || !self.flight.recovery.is_quiet()
            || self.flags.intersects(Flags::OWED_NOW)
    }

    fn poll_something(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        if self.flags.contains(Flags::RST_DUE) {
            return Some(self.builder().reset(now));
        }
        if self.flags.contains(Flags::SYN_DUE) {
            return Some(self.emit_syn(now));
        }
        if matches!(self.state, State::Closed | State::SynSent) {
            return None;
        }
        if self.flags.contains(Flags::URGENT) {
            self.snd.end_urgent_mode(&mut self.flags);
        }
        if self.flags.contains(Flags::RECORD_ENDS) {
            self.flight
                .record_ends
                .forget_acknowledged(&self.snd, &mut self.flags);
        }
        if self.congestion.pacer.must_wait(now) {
            // What is held back is sent when the timer has expired.
            if self.snd.nxt() < self.snd.end() || !self.flight.recovery.is_quiet() {
                self.timers.pace = self.congestion.pacer.next();
            }
        } else if (self.state.may_transmit_data() || self.is_fast_opened())
            && let Some(transmit) = self.poll_data(now, max_payload)
        {
            return Some(transmit);
        }
        // The announcement of urgent data is sent before the probe, and acknowledges too.
        let urges = self.flags.contains(Flags::URGENT | Flags::ACK_NOW);
        if self.flags.contains(Flags::PROBE_DUE) && !urges {
            self.flags.remove(Flags::PROBE_DUE);
            // The number is one below SND.UNA: outside the peer's window, so that it
            // answers.
            let pos = self.snd.una() - 1;
            return Some(self.builder().bare(pos, TcpFlags::ACK, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.snd.ack_pos();
            let mut builder = self.builder();
            if let Some(before) = builder.before_change(now) {
                return Some(before);
            }
            return Some(builder.bare(pos, TcpFlags::ACK, now));
        }
        None
    }

    /// Retransmitted or new data, or the FIN.
    fn poll_data(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let max_payload = self.snd.urgent_payload(
            self.flags,
            self.ecn.bound_payload(
                &self.snd,
                self.congestion
                    .paced_payload(&self.snd, self.cfg.burst.min_batch, max_payload),
            ),
        );
        if let Some((start, end)) = self.selection().retransmission(max_payload) {
            return Some(self.emit_retransmission(start, end, now));
        }
        if let Some(new) = self.poll_new(now, max_payload) {
            return Some(new);
        }
        if self.flight.recovery.probe.due {
            return self.poll_probe(now, max_payload);
        }
        None
    }

    /// The tail loss probe, if there is no new data.
    fn poll_probe(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let most = self.selection().packet_payload().min(max_payload as i64);
        let Some((start, end)) = self.flight.last_segment(&self.snd, most) else {
            self.flight.recovery.probe.forget();
            return None;
        };
        let start = start.max(
            self.flight
                .record_ends
                .last_boundary(&self.snd, self.flags, end),
        );
        self.flight.recovery.probe.on_sent(start, end, true);
        Some(self.emit_retransmission(start, end, now))
    }

    fn poll_new(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        // A probe is longer than a segment: it would have bytes of several records.
        if self.flight.mtu.is_due(now) && !self.flags.contains(Flags::RECORD_ENDS) {
            let extra = self.selection().extra_len();
            match self
                .flight
                .select_mtu_probe(&self.snd, &self.congestion, extra, now)
            {
                ProbeChoice::None => {}
                ProbeChoice::Hold => return None,
                ProbeChoice::Send(start, end) => {
                    self.prediction = Prediction::OFF;
                    return Some(self.emit_mtu_probe(start, end, now));
                }
            }
        }
        let (start, end) = self.selection().new_data(now, max_payload)?;
        Some(self.emit_new(start, end, now))
    }

    /// Sends new data, or the FIN.
    fn emit_new(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        self.departure().new_data(start, end, now);
        self.builder().data(start, end, false, now)
    }

    /// Sends a range again.
    fn emit_retransmission(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        self.departure().again(start, end, now);
        let mut transmit = self.builder().data(start, end, true, now);
        if let Some(stamps) = &mut transmit.options.timestamps {
            stamps.val = self.flight.recovery.last_stamp;
        }
        transmit
    }

    /// Sends the selected MTU probe: one packet, longer than the MSS.
    fn emit_mtu_probe(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let (small, segments) = (self.snd.small(), self.accounting.counters.data_segs_out);
        let mut probe = self.emit_new(start, end, now);
        self.snd.set_small(small);
        self.accounting.counters.data_segs_out = segments.wrapping_add(1);
        probe.mss = (end - start) as u16;
        probe
    }

    /// Sends the SYN or SYN-ACK, for the first time or again.
    fn emit_syn(&mut self, now: Instant) -> Transmit {
        let mut data = 0;
        // A SYN may also be retransmitted for other reasons than a timeout.
        let repeats = if self.snd.nxt() == SYN_POS {
            let written = self.snd.edge();
            let written = self.flight.record_ends.within(self.flags, 0, written);
            data = self
                .fast_open
                .data_on_syn(&self.snd, written, &self.cfg, self.state);
            self.departure().syn(data, now);
            0
        } else {
            self.accounting.counters.retrans = self.accounting.counters.retrans.wrapping_add(1);
            self.liveness.retries().max(1)
        };
        if self.flight.timer.at.is_never() {
            self.flight.arm_retransmit(&self.snd, now);
        }
        self.builder().syn(data, repeats, now)
    }

    /// What decides what is sent next.
    #[inline(always)]
    fn selection(&mut self) -> Selection<'_> {
        Selection {
            cfg: &self.cfg,
            state: self.state,
            flags: &mut self.flags,
            snd: &self.snd,
            flight: &mut self.flight,
            congestion: &mut self.congestion,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            outcome: &self.outcome,
            accounting: &mut self.accounting,
            reassembly: &self.reassembly,
        }
    }

    /// What sending changes.
    #[inline(always)]
    fn departure(&mut self) -> Departure<'_> {
        Departure {
            cfg: &self.cfg,
            flags: &mut self.flags,
            snd: &mut self.snd,
            rcv: &self.rcv,
            stamps: &self.stamps,
            flight: &mut self.flight,
            congestion: &mut self.congestion,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            accounting: &mut self.accounting,
            is_predicted: self.prediction.is_on(),
        }
    }

    /// What builds the segment that was selected.
    #[inline(always)]
    fn builder(&mut self) -> SegmentBuilder<'_> {
        SegmentBuilder {
            cfg: &self.cfg,
            state: self.state,
            flags: &mut self.flags,
            snd: &self.snd,
            rcv: &mut self.rcv,
            stamps: &self.stamps,
            acks: &mut self.acks,
            ecn: &mut self.ecn,
            timers: &mut self.timers,
            counters: &mut self.accounting.counters,
            reassembly: &self.reassembly,
            flight: &self.flight,
            fast_open: &self.fast_open,
        }
    }
}

#[cfg(test)]
mod tests;
