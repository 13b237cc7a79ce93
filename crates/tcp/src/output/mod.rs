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

use crate::flags::Flags;
use crate::flight::ProbeChoice;
use crate::pos::Pos;
use crate::prediction::Prediction;
use crate::segment::Transmit;
use crate::snd::SendSide;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

impl SendSide {
    /// The sequence number of a segment without payload: SND.NXT, but not beyond the
    /// peer's window if that has shrunk, since the peer would drop the segment. The part
    /// of the window that rounding to the scale has taken back is still accepted (RFC
    /// 7323 section 2.4) and may already contain data, so a number below that would be
    /// dropped as well.
    #[inline]
    fn ack_pos(&self) -> Pos {
        let edge = self.wnd_edge().max(self.una());
        if self.nxt() - edge < 1 << self.wscale() {
            self.nxt()
        } else {
            edge
        }
    }
}

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
            return Some(self.emit_reset(now));
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
            self.flight.forget_record_ends(&self.snd, &mut self.flags);
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
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.snd.ack_pos();
            if let Some((ack, flags)) = self.ecn.take_change() {
                let mut before = plain_ack(
                    self.snd.seq(pos),
                    self.rcv.seq(ack),
                    self.rcv.advertise_window(&self.cfg, self.flags),
                    self.timestamps(now).map(|t| (t.val, t.echo)),
                );
                before.flags |= flags;
                self.accounting.counters.segs_out =
                    self.accounting.counters.segs_out.wrapping_add(1);
                return Some(before);
            }
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
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
        if let Some((start, end)) = self.select_retransmission(max_payload) {
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
        let most = self.packet_payload().min(max_payload as i64);
        let Some((start, end)) = self.flight.last_segment(&self.snd, most) else {
            self.flight.recovery.probe.forget();
            return None;
        };
        let start = start.max(self.flight.last_boundary(&self.snd, self.flags, end));
        self.flight.recovery.probe.on_sent(start, end, true);
        Some(self.emit_retransmission(start, end, now))
    }

    fn poll_new(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        // A probe is longer than a segment: it would have bytes of several records.
        if self.flight.mtu.is_due(now) && !self.flags.contains(Flags::RECORD_ENDS) {
            let extra = self.extra_len_due();
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
        let (start, end) = self.select_new(now, max_payload)?;
        Some(self.emit_new(start, end, now))
    }
}

#[cfg(test)]
mod tests;
