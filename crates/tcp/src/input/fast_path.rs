//! Header prediction, for both directions (Clark, Jacobson, Romkey, Salwen 1989;
//! RFC 7323 section 4.2 keeps it working with timestamps).
//!
//! Owns [`Tcb::on_plain`], tried first for every segment: by the engine straight from
//! the packet's bytes, by [`Tcb::on_segment`] for a header that is already parsed.
//! On a connection where nothing is lost or out of order, the next segment is
//! known but for its payload, acknowledgment and window: a [`Plain`] header, the ACK
//! flag (PSH aside), timestamps if they were agreed, the sequence number RCV.NXT.
//! `predict` holds the half word of data offset and flags that this means, worked out
//! by `predict_next` whenever the slow path has run, or [`UNPREDICTABLE`], which no
//! plain header has. (The paper also wants the window unchanged; a receiver that
//! tunes its buffer, or reads at its own pace, changes it all the time, and taking it
//! over costs less than comparing.) What is done then is what the slow path would do;
//! a property test holds them against each other.

use crate::segment::{Disposition, Ecn, Place, Segment};
use crate::tcb::{Flags, Pos, Tcb};
use crate::time::Instant;
use longshore_wire::tcp::{Plain, TcpFlags};

/// The value of `predict` that no plain header has.
pub(crate) const UNPREDICTABLE: u16 = u16::MAX;

impl Tcb {
    /// Takes a segment with a plain header and `payload_len` bytes of payload,
    /// checksum verified, if it is the one that was predicted; `gso_size` as in
    /// [`Segment`]. Its packet must not be marked by congestion
    /// ([`Ecn::Congested`]).
    ///
    /// Gives the position in the receive stream where all of its payload belongs, to
    /// be copied there before anything else is asked of the block. `None` if it is
    /// another segment: nothing has changed, and [`on_segment`](Tcb::on_segment)
    /// takes it.
    #[inline(always)]
    pub fn on_plain(
        &mut self,
        h: &Plain,
        payload_len: u32,
        gso_size: u16,
        now: Instant,
    ) -> Option<u64> {
        let (at, timestamps) = (self.rcv_nxt, h.has_timestamps());
        if h.control & !TcpFlags::PSH.0 != self.predict || h.seq != self.rcv_seq(at) {
            return None;
        }
        if timestamps && (h.timestamps.val.wrapping_sub(self.ts_recent) as i32) < 0 {
            return None;
        }
        let acked = u64::from(h.ack.0.wrapping_sub(self.snd_seq(self.snd_una).0));
        let ack = self.snd_una + acked as i64;
        let end = at + i64::from(payload_len);
        // Nothing of the send stream may be acknowledged that was not sent, and the
        // acknowledgment of our FIN changes the state.
        if ack > self.snd_nxt || (acked > 0 && ack > self.snd_edge) {
            return None;
        }
        let expected = if payload_len > 0 {
            self.predict_data && end <= self.rcv_adv
        } else {
            acked > 0
        };
        if !expected {
            return None;
        }

        // It is as predicted; from here on nothing is left to the slow path.
        self.counters.segs_in = self.counters.segs_in.wrapping_add(1);
        self.counters.fast_hits = self.counters.fast_hits.wrapping_add(1);
        if timestamps && at <= self.last_ack_sent {
            self.ts_recent = h.timestamps.val;
            self.ts_recent_at = now;
        }
        let echo = timestamps.then_some(h.timestamps.echo);
        self.last_rcv_ack = now;
        self.keepalive_probes = 0;
        self.snd_wl1 = at;
        self.snd_wl2 = ack;
        self.snd_wnd = u32::from(h.window) << self.snd_wscale;
        self.max_snd_wnd = self.max_snd_wnd.max(self.snd_wnd);
        if acked > 0 {
            self.fast_ack(ack, echo, now);
        } else if self.in_flight() == 0 || self.snd_wnd == 0 {
            // Progress has done the same.
            self.note_answered();
        }
        if payload_len > 0 {
            self.counters.data_segs_in = self.counters.data_segs_in.wrapping_add(1);
            self.estimate_rcv_mss(payload_len, gso_size);
            self.rcv_nxt = end;
            self.after_in_order(false, payload_len, echo, now);
        }
        Some(at as u64)
    }

    /// New data is acknowledged, in order and with nothing lost.
    #[inline(always)]
    fn fast_ack(&mut self, ack: Pos, echo: Option<u32>, now: Instant) {
        let (acked, window_used) = (ack - self.snd_una, self.window_was_used());
        let echo = echo.filter(|echo| self.usable_echo(*echo));
        let mut delivery = self.start_delivery(echo, now);
        self.take_delivered(ack, &mut delivery);
        self.advance_una(ack, echo, now);
        if window_used {
            let srtt = self.rtt.srtt().unwrap_or(0);
            self.congestion.on_ack(acked as u32, srtt, now);
        }
    }

    /// The same for a header that is parsed.
    pub(super) fn fast_path(&mut self, segment: &Segment<'_>, now: Instant) -> Option<Disposition> {
        if segment.ecn == Ecn::Congested {
            return None;
        }
        let plain = Plain::of(segment.header)?;
        let len = segment.payload_len;
        let stream_offset = self.on_plain(&plain, len, segment.gso_size, now)?;
        Some(Disposition {
            place: (len > 0).then_some(Place {
                stream_offset,
                skip: 0,
                len,
            }),
            ack_now: self.flags.contains(Flags::ACK_NOW),
            fast_path: true,
            ..Disposition::default()
        })
    }
}
