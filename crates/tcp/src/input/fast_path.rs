//! Header prediction, for both directions (Clark, Jacobson, Romkey, Salwen 1989;
//! RFC 7323 section 4.2 keeps it working with timestamps).
//!
//! Owns [`Tcb::fast_path`], tried first for every segment. On a connection where
//! nothing is lost or out of order, the next segment is
//! known but for its payload, acknowledgment and window: the ACK flag (PSH aside) and
//! the sequence number RCV.NXT. `predict` holds the flags, worked out by
//! `predict_next` whenever the slow path has run, or [`UNPREDICTABLE`], which no
//! segment matches. (The paper also wants the window unchanged; a receiver that tunes
//! its buffer, or reads at its own pace, changes it all the time, and taking it over
//! costs less than comparing.) What is done then is what the slow path would do; a
//! property test holds them against each other.

use crate::segment::{Disposition, Ecn, Place, Segment};
use crate::tcb::{Flags, Tcb};
use crate::time::Instant;
use longshore_wire::tcp::TcpFlags;

/// The value of `predict` that no segment's flags have.
pub(crate) const UNPREDICTABLE: u16 = u16::MAX;

impl Tcb {
    /// Takes the segment if it is the one that was predicted.
    #[inline]
    pub(super) fn fast_path(&mut self, segment: &Segment<'_>, now: Instant) -> Option<Disposition> {
        let h = segment.header;
        if segment.ecn == Ecn::Congested {
            return None;
        }
        let flags = h.flags.0 & !TcpFlags::PSH.0;
        if flags != self.predict || h.seq != self.rcv_seq(self.rcv_nxt) {
            return None;
        }
        if !h.options.sack.is_empty() || self.snd_wl1 > self.rcv_nxt {
            return None;
        }
        let ts = match &h.options.timestamps {
            Some(ts) if self.flags.contains(Flags::TIMESTAMPS) => {
                if (ts.val.wrapping_sub(self.ts_recent) as i32) < 0 {
                    return None;
                }
                Some(ts.val)
            }
            None if !self.flags.contains(Flags::TIMESTAMPS) => None,
            _ => return None,
        };
        let una = self.snd_seq(self.snd_una);
        let acked = u64::from(h.ack.0.wrapping_sub(una.0));
        if acked > self.in_flight() {
            return None;
        }
        let len = i64::from(segment.payload_len);
        let end = self.rcv_nxt + len;
        let ack = self.snd_una + acked as i64;
        let expected = if len > 0 {
            self.predict_data && end <= self.rcv_adv
        } else {
            acked > 0
        };
        // The acknowledgment of our FIN changes the state.
        if !expected || (acked > 0 && ack > self.snd_edge) {
            return None;
        }

        // It is as predicted; from here on nothing is left to the slow path.
        self.counters.fast_hits = self.counters.fast_hits.wrapping_add(1);
        if let Some(val) = ts
            && self.rcv_nxt <= self.last_ack_sent
        {
            self.ts_recent = val;
            self.ts_recent_at = now;
        }
        self.last_rcv_ack = now;
        self.keepalive_probes = 0;
        self.snd_wl1 = self.rcv_nxt;
        self.snd_wl2 = ack;
        self.snd_wnd = u32::from(h.window) << self.snd_wscale;
        self.max_snd_wnd = self.max_snd_wnd.max(self.snd_wnd);
        if acked > 0 {
            self.fast_ack(acked, segment, now);
        }
        if self.in_flight() == 0 || self.snd_wnd == 0 {
            self.note_answered();
        }
        let mut disposition = Disposition {
            fast_path: true,
            ..Disposition::default()
        };
        if len > 0 {
            disposition.place = Some(Place {
                stream_offset: self.rcv_nxt as u64,
                skip: 0,
                len: segment.payload_len,
            });
            self.counters.data_segs_in = self.counters.data_segs_in.wrapping_add(1);
            self.estimate_rcv_mss(segment);
            self.take_in_order(end, segment, now);
        }
        disposition.ack_now = self.flags.contains(Flags::ACK_NOW);
        Some(disposition)
    }

    /// New data is acknowledged, in order and with nothing lost.
    fn fast_ack(&mut self, acked: u64, segment: &Segment<'_>, now: Instant) {
        let window_used = self.window_was_used();
        let ack = self.snd_una + acked as i64;
        let mut delivery = self.start_delivery(self.echo(segment.header), now);
        self.take_delivered(ack, &mut delivery);
        self.advance_una(ack, segment.header, now);
        if window_used {
            self.grow_window(acked, now);
        }
        self.note_predicted_delivery(delivery.bytes, now);
    }
}
