//! How fast the path delivers: the rate of delivery, estimated from what is sent and
//! what comes back (draft-cheng-iccrg-delivery-rate-estimation; section 4.1 of
//! draft-ietf-ccwg-bbr).
//!
//! Owns [`RateSampler`]. `congestion/feed.rs` runs it, and only for an algorithm that
//! wants rates. Off, it costs one comparison for each segment handed out, and still knows
//! what tcpi_delivery_rate is to say: what was delivered in each round trip that was timed
//! for the retransmission timer, over the time that it took. No such interval is shorter
//! than a round trip, as the draft has it of its own.
//!
//! The draft keeps five numbers for each packet in flight. Here a send may be 64 KiB
//! and a window ten thousand packets, so a fixed table of [`RECORDS`] of them is
//! spread over the window: each stands for the sends up to its end, and a sample is
//! had some six times in a round trip. A record whose bytes are sent again is given up,
//! since it cannot be told which of the two was delivered.

use crate::pos::{NO_POS, Pos};
use crate::time::{Instant, SECOND};

/// How many sends are remembered.
const RECORDS: usize = 8;
/// A window has about this many; fewer than there is room for, as windows shrink.
const A_WINDOW: u32 = 6;

/// One acknowledgment's sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RateSample {
    pub(crate) now: Instant,
    /// Bytes delivered since the sampler began (C.delivered), with this one.
    pub(crate) total: u64,
    /// Bytes that this acknowledgment delivered (RS.newly_acked).
    pub(crate) newly: u32,
    /// Bytes believed lost since the one before (RS.newly_lost).
    pub(crate) lost: u32,
    /// Bytes in the network after it.
    pub(crate) in_flight: u32,
    /// RS.delivery_rate in bytes per second; 0 if it gives none.
    pub(crate) rate: u64,
    /// RS.prior_delivered: `total` when what it acknowledges was sent; counts only
    /// with a rate.
    pub(crate) prior: u64,
    /// RS.is_app_limited.
    pub(crate) app_limited: bool,
    /// The round trip it measured, microseconds; 0 if none.
    pub(crate) rtt: u32,
    /// A repair of losses is under way.
    pub(crate) recovering: bool,
}

/// What an acknowledgment delivers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    /// Everything up to here is delivered, or something that was sent later.
    pub(crate) reached: Pos,
    /// Nothing is missing below.
    pub(crate) in_order: bool,
    /// Bytes.
    pub(crate) newly: u32,
    /// How long ago that was sent which was sent last of it, microseconds.
    pub(crate) age: u64,
    /// The least round trip, microseconds.
    pub(crate) min_rtt: u64,
}

/// What is remembered of a send; times are microseconds that wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    /// Its end, the low 32 bits of the position.
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
    /// What ends beyond this is the next send to be remembered; [`NO_POS`] if off.
    next: Pos,
    /// C.delivered, C.delivered_time, C.first_sent_time.
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// C.app_limited: up to this count of `delivered`, samples are limited by the
    /// user; 0 if none are.
    app_limited: u64,
    records: [Record; RECORDS],
    /// P.is_app_limited of each, a bit.
    limited: u8,
    /// Those that are given up, a bit each.
    void: u8,
    /// The oldest of them, and how many there are.
    first: u8,
    len: u8,
    /// The rate that is told, in [`STEP`]s, and [`FULL`] if the user did not limit it.
    latest: u32,
}

/// What `latest` counts in, bytes per second; it reaches to 137 GB/s.
const STEP: u64 = 64;
/// The user had enough to send.
const FULL: u32 = 1 << 31;

/// A measured rate, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Bytes per second; 0 if none was measured.
    pub(crate) bytes: u64,
    /// The user had less to send than the path would have taken.
    pub(crate) app_limited: bool,
}

impl RateSampler {
    /// Off.
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

    /// Off: a round trip begins, with SND.UNA. The fields that serve the sampler hold it
    /// meanwhile: `delivered` is SND.UNA, `limited` whether the user limits what it
    /// measures, `len` whether there is one.
    pub(crate) fn begin_round(&mut self, una: Pos) {
        self.delivered = una as u64;
        self.limited = u8::from(self.app_limited as Pos >= una);
        self.len = 1;
    }

    /// Off: what is timed was sent again, so that no round trip is under way.
    #[inline]
    pub(crate) fn spoil_round(&mut self) {
        if !self.is_on() {
            self.len = 0;
        }
    }

    /// Off: the user writes where all that it had written is sent, up to `nxt`, and the
    /// window has room for more: what is measured until that is delivered is limited.
    #[inline]
    pub(crate) fn note_limit(&mut self, nxt: Pos) {
        if !self.is_on() {
            self.app_limited = nxt.max(0) as u64;
        }
    }

    /// Off: what the last round trip measured, now that it is over; it took so many
    /// microseconds until SND.UNA was `una`.
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

    /// Keeps a rate to be told, unless it says less than the last: one that the user
    /// limited may be lower than what the path delivers (as Linux decides it).
    pub(crate) fn keep(&mut self, rate: Rate) {
        let steps = (rate.bytes / STEP).min(u64::from(FULL - 1)) as u32;
        if !rate.app_limited {
            self.latest = steps | FULL;
        } else if steps >= self.latest & !FULL {
            self.latest = steps;
        }
    }

    /// The rate that is told, less what it was rounded by.
    pub(crate) fn latest(&self) -> Rate {
        Rate {
            bytes: u64::from(self.latest & !FULL) * STEP,
            app_limited: self.latest & FULL == 0,
        }
    }

    /// Whether it runs.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.next != NO_POS
    }

    /// Begins, with SND.NXT and the time; what is in flight already is not sampled.
    pub(crate) fn start(&mut self, nxt: Pos, now: Instant) {
        *self = RateSampler::new();
        self.next = nxt;
        self.delivered_at = now;
        self.first_sent = now;
    }

    /// Ends.
    pub(crate) fn stop(&mut self) {
        *self = RateSampler::new();
    }

    /// Whether a send that ends at `end` is to be told of.
    #[inline]
    pub(crate) const fn wants(&self, end: Pos) -> bool {
        end > self.next
    }

    /// New data up to `end` goes out. `idle`: nothing was in flight.
    pub(crate) fn on_sent(&mut self, end: Pos, idle: bool, cwnd: u32, now: Instant) {
        if idle {
            // Draft section 3.2: the interval begins anew after silence.
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.next = end + i64::from(cwnd / A_WINDOW);
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

    /// The user has nothing more to send although `in_flight` bytes leave room in the
    /// window (draft section 3.4).
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// `start..end` goes out again: records that end in it are given up.
    pub(crate) fn on_repeated(&mut self, start: Pos, end: Pos) {
        for i in 0..self.len {
            let at = (self.first + i) % RECORDS as u8;
            let above = self.records[usize::from(at)].end.wrapping_sub(start as u32) as i32;
            if above > 0 && i64::from(above) <= end - start {
                self.void |= 1 << at;
            }
        }
    }

    /// An acknowledgment delivers `d.newly` bytes (draft section 3.3). The caller fills
    /// in what is known to it alone.
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
        // Acknowledgments that came closer together than a round trip is long were
        // held up on the way: they say nothing.
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
