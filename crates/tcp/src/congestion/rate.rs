//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation; section 4.1 of
//! draft-ietf-ccwg-bbr).
//!
//! Owns [`RateSampler`]. `congestion/inputs.rs` runs it, and only for an algorithm that
//! wants rates. When it is off, it costs one comparison for each segment sent, and still
//! provides tcpi_delivery_rate: the bytes delivered in each round trip that was timed for
//! the retransmission timer, divided by its duration. Such an interval is never shorter
//! than a round trip, as the draft requires of its own.
//!
//! The draft keeps five values for each packet in flight. Here a send may be 64 KiB and a
//! window ten thousand packets, so a fixed table of [`RECORDS`] records is spread over
//! the window: each stands for the sends up to its end, which gives about six samples per
//! round trip. A record whose bytes are retransmitted is invalidated, because it is
//! unknown which of the two transmissions was delivered.

use crate::pos::{NO_POS, Pos};
use crate::time::{Instant, SECOND};

/// Number of records.
const RECORDS: usize = 8;
/// Records per window; fewer than [`RECORDS`], because windows shrink.
const RECORDS_PER_WINDOW: u32 = 6;

/// One acknowledgment's sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RateSample {
    pub(crate) now: Instant,
    /// Bytes delivered since the sampler started (C.delivered), including this
    /// acknowledgment.
    pub(crate) total: u64,
    /// Bytes that this acknowledgment delivered (RS.newly_acked).
    pub(crate) newly: u32,
    /// Bytes presumed lost since the previous sample (RS.newly_lost).
    pub(crate) lost: u32,
    /// Bytes in the network after this acknowledgment.
    pub(crate) in_flight: u32,
    /// RS.delivery_rate in bytes per second; 0 if there is no sample.
    pub(crate) rate: u64,
    /// RS.prior_delivered: `total` when the acknowledged data was sent; valid only with a
    /// rate.
    pub(crate) prior: u64,
    /// RS.is_app_limited.
    pub(crate) app_limited: bool,
    /// The round-trip time that it measured, microseconds; 0 if none.
    pub(crate) rtt: u32,
    /// A recovery is in progress.
    pub(crate) recovering: bool,
}

/// The delivery that one acknowledgment reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    /// Everything up to here is delivered, or data sent later is.
    pub(crate) reached: Pos,
    /// There are no holes below `reached`.
    pub(crate) in_order: bool,
    /// Bytes newly delivered.
    pub(crate) newly: u32,
    /// Time since the most recently sent part of it was sent, microseconds.
    pub(crate) age: u64,
    /// The minimum round-trip time, microseconds.
    pub(crate) min_rtt: u64,
}

/// The record of one send; times are wrapping microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    /// Low 32 bits of the position at which it ends.
    end: u32,
    /// P.sent_time, P.delivered_time, P.first_sent_time.
    sent: u32,
    delivered_at: u32,
    first_sent: u32,
    /// P.delivered, the low 32 bits.
    delivered: u32,
}

/// The state of the estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSampler {
    /// The next send that ends beyond this is recorded; [`NO_POS`] if the sampler is off.
    next: Pos,
    /// C.delivered, C.delivered_time, C.first_sent_time.
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// C.app_limited: samples up to this value of `delivered` are application-limited; 0
    /// if none.
    app_limited: u64,
    records: [Record; RECORDS],
    /// P.is_app_limited of each record, one bit each.
    limited: u8,
    /// Invalidated records, one bit each.
    void: u8,
    /// Index of the oldest record, and their number.
    first: u8,
    len: u8,
    /// The rate to report, in [`STEP`]s, with [`FULL`] set if it is not
    /// application-limited.
    latest: u32,
}

/// Unit of `latest`, bytes per second; the largest value is 137 GB/s.
const STEP: u64 = 64;
/// Flag in `latest`: the rate was not application-limited.
const FULL: u32 = 1 << 31;

/// A measured rate, as it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Bytes per second; 0 if none was measured.
    pub(crate) bytes: u64,
    /// The application had less to send than the path would have taken.
    pub(crate) app_limited: bool,
}

impl RateSampler {
    /// A sampler that is off.
    pub(crate) const fn new() -> RateSampler {
        let none = Record {
            end: 0,
            sent: 0,
            delivered_at: 0,
            first_sent: 0,
            delivered: 0,
        };
        RateSampler {
            next: NO_POS,
            delivered: 0,
            delivered_at: Instant(0),
            first_sent: Instant(0),
            app_limited: 0,
            records: [none; RECORDS],
            limited: 0,
            void: 0,
            first: 0,
            len: 0,
            latest: 0,
        }
    }

    /// With the sampler off: a timed round trip begins at SND.UNA `una`. The sampler's
    /// fields hold its state: `delivered` is SND.UNA, `limited` says whether the round is
    /// application-limited, `len` whether there is a round.
    pub(crate) fn begin_round(&mut self, una: Pos) {
        self.delivered = una as u64;
        self.limited = u8::from(self.app_limited as Pos >= una);
        self.len = 1;
    }

    /// With the sampler off: the timed data was retransmitted, which cancels the round.
    #[inline]
    pub(crate) fn cancel_round(&mut self) {
        if !self.is_on() {
            self.len = 0;
        }
    }

    /// With the sampler off: the user writes when everything up to `nxt` is sent and the
    /// window has room for more. Rounds are application-limited until that is delivered.
    #[inline]
    pub(crate) fn note_limit(&mut self, nxt: Pos) {
        if !self.is_on() {
            self.app_limited = nxt.max(0) as u64;
        }
    }

    /// With the sampler off: the rate of the round that has ended, with SND.UNA at `una`
    /// and a duration of `elapsed` microseconds.
    pub(crate) fn round(&self, una: Pos, elapsed: u64) -> Option<Rate> {
        if self.is_on() || self.len == 0 || elapsed == 0 {
            return None;
        }
        let bytes = (una - self.delivered as Pos).max(0) as u64;
        Some(Rate {
            bytes: bytes.min(1 << 40) * SECOND / elapsed,
            app_limited: self.limited != 0,
        })
    }

    /// Records a rate for reporting, unless it is application-limited and lower than the
    /// last one: it may be lower than what the path delivers (as in Linux).
    pub(crate) fn keep(&mut self, rate: Rate) {
        let steps = (rate.bytes / STEP).min(u64::from(FULL - 1)) as u32;
        if !rate.app_limited {
            self.latest = steps | FULL;
        } else if steps >= self.latest & !FULL {
            self.latest = steps;
        }
    }

    /// The rate to report, rounded down to a multiple of [`STEP`].
    pub(crate) fn latest(&self) -> Rate {
        Rate {
            bytes: u64::from(self.latest & !FULL) * STEP,
            app_limited: self.latest & FULL == 0,
        }
    }

    /// Whether the sampler is running.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.next != NO_POS
    }

    /// Starts at SND.NXT `nxt`; data already in flight is not sampled.
    pub(crate) fn start(&mut self, nxt: Pos, now: Instant) {
        *self = RateSampler::new();
        self.next = nxt;
        self.delivered_at = now;
        self.first_sent = now;
    }

    /// Stops the sampler.
    pub(crate) fn stop(&mut self) {
        *self = RateSampler::new();
    }

    /// Whether a send that ends at `end` is to be reported by [`on_sent`](Self::on_sent).
    #[inline]
    pub(crate) const fn wants(&self, end: Pos) -> bool {
        end > self.next
    }

    /// New data up to `end` is sent. `idle`: nothing was in flight.
    pub(crate) fn on_sent(&mut self, end: Pos, idle: bool, cwnd: u32, now: Instant) {
        if idle {
            // Draft section 3.2: the interval restarts after an idle period.
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.next = end + i64::from(cwnd / RECORDS_PER_WINDOW);
        if usize::from(self.len) == RECORDS {
            return;
        }
        let at = (usize::from(self.first) + usize::from(self.len)) % RECORDS;
        self.records[at] = Record {
            end: end as u32,
            sent: now.0 as u32,
            delivered_at: self.delivered_at.0 as u32,
            first_sent: self.first_sent.0 as u32,
            delivered: self.delivered as u32,
        };
        self.void &= !(1 << at);
        self.limited &= !(1 << at);
        self.limited |= u8::from(self.app_limited != 0) << at;
        self.len += 1;
    }

    /// The application has nothing more to send although, with `in_flight` bytes in the
    /// network, the window has room (draft section 3.4).
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// `start..end` is retransmitted: invalidates the records that end in it.
    pub(crate) fn on_retransmitted(&mut self, start: Pos, end: Pos) {
        for i in 0..self.len {
            let at = (self.first + i) % RECORDS as u8;
            let above = self.records[usize::from(at)].end.wrapping_sub(start as u32) as i32;
            if above > 0 && i64::from(above) <= end - start {
                self.void |= 1 << at;
            }
        }
    }

    /// An acknowledgment delivers `d.newly` bytes (draft section 3.3). The caller fills
    /// in the remaining fields of the sample.
    pub(crate) fn on_delivered(&mut self, d: &Delivered, now: Instant) -> RateSample {
        self.delivered += u64::from(d.newly);
        self.delivered_at = now;
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let mut sample = RateSample {
            now,
            total: self.delivered,
            newly: d.newly,
            ..RateSample::default()
        };
        let mut latest = None;
        while self.len > 0 {
            let record = self.records[usize::from(self.first)];
            if (record.end.wrapping_sub(d.reached as u32) as i32) > 0 {
                break;
            }
            if self.void & 1 << self.first == 0 {
                latest = Some(record);
                sample.app_limited = self.limited & 1 << self.first != 0;
            }
            self.first = (self.first + 1) % RECORDS as u8;
            self.len -= 1;
        }
        self.first_sent = Instant(now.0.saturating_sub(d.age));
        let Some(record) = latest else {
            return sample;
        };
        let clock = now.0 as u32;
        let age = clock.wrapping_sub(record.sent);
        let send_elapsed = record.sent.wrapping_sub(record.first_sent);
        let ack_elapsed = clock.wrapping_sub(record.delivered_at);
        let interval = u64::from(send_elapsed.max(ack_elapsed));
        let delivered = u64::from((self.delivered as u32).wrapping_sub(record.delivered));
        sample.prior = self.delivered - delivered.min(self.delivered);
        // Acknowledgments that arrive within less than a round trip were held up on the
        // way and give no valid rate.
        if interval > 0 && interval >= d.min_rtt {
            sample.rate = delivered * SECOND / interval;
            self.keep(Rate {
                bytes: sample.rate,
                app_limited: sample.app_limited,
            });
        }
        if d.in_order {
            sample.rtt = age.max(1);
        }
        sample
    }
}

#[cfg(test)]
mod tests;
