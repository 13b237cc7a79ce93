//! Segment output.
//!
//! Owns [`Tcb::poll_transmit`], which the engine calls after each burst until it returns
//! `None`, and the order in which what is due is sent: [`Emission`].
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
use crate::flight::{Probe, ProbeChoice};
use crate::pos::{Pos, SYN_POS};
use crate::prediction::Prediction;
use crate::segment::{PlainTransmit, Transmit};
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
        let transmit = self.emission().next(now, max_payload);
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

    /// The next segment to send, if it is of the most common kind: new data in full
    /// packets, with other data in flight; `max_payload` as for
    /// [`poll_transmit`](Tcb::poll_transmit). `None` means that the segment is of another
    /// kind, or that there is none: call [`poll_plain`](Tcb::poll_plain).
    #[inline(always)]
    pub fn poll_full_packets(&mut self, now: Instant, max_payload: usize) -> Option<PlainTransmit> {
        self.emission().full_packets(now, max_payload)
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
        self.emission().other_plain(now, max_payload)
    }

    /// What sends.
    #[inline(always)]
    fn emission(&mut self) -> Emission<'_> {
        Emission { tcb: self }
    }
}

/// The next segment of a connection: what is due is selected, noted as sent, and built, by a type
/// for each of these steps.
struct Emission<'t> {
    tcb: &'t mut Tcb,
}

impl Emission<'_> {
    fn next(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        if self.tcb.flags.contains(Flags::RST_DUE) {
            return Some(self.builder().reset(now));
        }
        if self.tcb.flags.contains(Flags::SYN_DUE) {
            return Some(self.emit_syn(now));
        }
        if matches!(self.tcb.state, State::Closed | State::SynSent) {
            return None;
        }
        if self.tcb.flags.contains(Flags::URGENT) {
            self.tcb.snd.end_urgent_mode(&mut self.tcb.flags);
        }
        if self.tcb.flags.contains(Flags::RECORD_ENDS) {
            self.tcb
                .flight
                .record_ends
                .forget_acknowledged(&self.tcb.snd, &mut self.tcb.flags);
        }
        if self.tcb.congestion.pacer.must_wait(now) {
            // What is held back is sent when the timer has expired.
            if self.tcb.snd.nxt() < self.tcb.snd.end() || !self.tcb.flight.recovery.is_quiet() {
                self.tcb.timers.pace = self.tcb.congestion.pacer.next();
            }
        } else if (self.tcb.state.may_transmit_data() || self.tcb.is_fast_opened())
            && let Some(transmit) = self.data(now, max_payload)
        {
            return Some(transmit);
        }
        // The announcement of urgent data is sent before the probe, and acknowledges too.
        let urges = self.tcb.flags.contains(Flags::URGENT | Flags::ACK_NOW);
        if self.tcb.flags.contains(Flags::PROBE_DUE) && !urges {
            self.tcb.flags.remove(Flags::PROBE_DUE);
            // The number is one below SND.UNA: outside the peer's window, so that it
            // answers.
            let pos = self.tcb.snd.una() - 1;
            return Some(self.builder().bare(pos, TcpFlags::ACK, now));
        }
        if self.tcb.flags.contains(Flags::ACK_NOW) {
            let pos = self.tcb.snd.ack_pos();
            let mut builder = self.builder();
            if let Some(before) = builder.before_change(now) {
                return Some(before);
            }
            return Some(builder.bare(pos, TcpFlags::ACK, now));
        }
        None
    }

    /// Retransmitted or new data, or the FIN.
    fn data(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let max_payload = self.tcb.snd.urgent_payload(
            self.tcb.flags,
            self.tcb.ecn.bound_payload(
                &self.tcb.snd,
                self.tcb.congestion.paced_payload(
                    &self.tcb.snd,
                    self.tcb.cfg.burst.min_batch,
                    max_payload,
                ),
            ),
        );
        if let Some((start, end)) = self.selection().retransmission(max_payload) {
            return Some(self.emit_retransmission(start, end, now));
        }
        if let Some(new) = self.new_data(now, max_payload) {
            return Some(new);
        }
        if self.tcb.flight.recovery.probe.due {
            return self.probe(now, max_payload);
        }
        None
    }

    /// The tail loss probe, if there is no new data.
    fn probe(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let most = self.selection().packet_payload().min(max_payload as i64);
        let Some((start, end)) = Probe::last_segment(&self.tcb.snd, most) else {
            self.tcb.flight.recovery.probe.forget();
            return None;
        };
        let start = start.max(self.tcb.flight.record_ends.last_boundary(
            &self.tcb.snd,
            self.tcb.flags,
            end,
        ));
        self.tcb.flight.recovery.probe.on_sent(start, end, true);
        Some(self.emit_retransmission(start, end, now))
    }

    fn new_data(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        // A probe is longer than a segment: it would have bytes of several records.
        if self.tcb.flight.mtu.is_due(now) && !self.tcb.flags.contains(Flags::RECORD_ENDS) {
            let extra = self.selection().extra_len();
            match self
                .tcb
                .flight
                .select_mtu_probe(&self.tcb.snd, &self.tcb.congestion, extra, now)
            {
                ProbeChoice::None => {}
                ProbeChoice::Hold => return None,
                ProbeChoice::Send(start, end) => {
                    self.tcb.prediction = Prediction::OFF;
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
            stamps.val = self.tcb.flight.recovery.last_stamp;
        }
        transmit
    }

    /// Sends the selected MTU probe: one packet, longer than the MSS.
    fn emit_mtu_probe(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let (small, segments) = (
            self.tcb.snd.small(),
            self.tcb.accounting.counters.data_segs_out,
        );
        let mut probe = self.emit_new(start, end, now);
        self.tcb.snd.set_small(small);
        self.tcb.accounting.counters.data_segs_out = segments.wrapping_add(1);
        probe.mss = (end - start) as u16;
        probe
    }

    /// Sends the SYN or SYN-ACK, for the first time or again.
    fn emit_syn(&mut self, now: Instant) -> Transmit {
        let mut data = 0;
        // A SYN may also be retransmitted for other reasons than a timeout.
        let repeats = if self.tcb.snd.nxt() == SYN_POS {
            let written = self.tcb.snd.edge();
            let written = self
                .tcb
                .flight
                .record_ends
                .within(self.tcb.flags, 0, written);
            data = self.tcb.fast_open.data_on_syn(
                &self.tcb.snd,
                written,
                &self.tcb.cfg,
                self.tcb.state,
            );
            self.departure().syn(data, now);
            0
        } else {
            self.tcb.accounting.counters.retrans =
                self.tcb.accounting.counters.retrans.wrapping_add(1);
            self.tcb.liveness.retries().max(1)
        };
        if !self.tcb.flight.timer.is_running() {
            self.tcb.flight.timer.arm_retransmit(&self.tcb.snd.rtt, now);
        }
        self.builder().syn(data, repeats, now)
    }

    /// What decides what is sent next.
    #[inline(always)]
    fn selection(&mut self) -> Selection<'_> {
        Selection {
            cfg: &self.tcb.cfg,
            state: self.tcb.state,
            flags: &mut self.tcb.flags,
            snd: &self.tcb.snd,
            flight: &mut self.tcb.flight,
            congestion: &mut self.tcb.congestion,
            liveness: &mut self.tcb.liveness,
            timers: &mut self.tcb.timers,
            outcome: &self.tcb.outcome,
            accounting: &mut self.tcb.accounting,
            reassembly: &self.tcb.reassembly,
        }
    }

    /// What sending changes.
    #[inline(always)]
    fn departure(&mut self) -> Departure<'_> {
        Departure {
            cfg: &self.tcb.cfg,
            flags: &mut self.tcb.flags,
            snd: &mut self.tcb.snd,
            rcv: &self.tcb.rcv,
            stamps: &self.tcb.stamps,
            flight: &mut self.tcb.flight,
            congestion: &mut self.tcb.congestion,
            liveness: &mut self.tcb.liveness,
            timers: &mut self.tcb.timers,
            accounting: &mut self.tcb.accounting,
            is_predicted: self.tcb.prediction.is_on(),
        }
    }

    /// What builds the segment that was selected.
    #[inline(always)]
    fn builder(&mut self) -> SegmentBuilder<'_> {
        SegmentBuilder {
            cfg: &self.tcb.cfg,
            state: self.tcb.state,
            flags: &mut self.tcb.flags,
            snd: &self.tcb.snd,
            rcv: &mut self.tcb.rcv,
            stamps: &self.tcb.stamps,
            acks: &mut self.tcb.acks,
            ecn: &mut self.tcb.ecn,
            timers: &mut self.tcb.timers,
            counters: &mut self.tcb.accounting.counters,
            reassembly: &self.tcb.reassembly,
            flight: &self.tcb.flight,
            fast_open: &self.tcb.fast_open,
        }
    }
}

#[cfg(test)]
mod tests;
