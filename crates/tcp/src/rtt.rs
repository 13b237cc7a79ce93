//! The round-trip estimator and the retransmission timeout (RFC 6298), in
//! microseconds.
//!
//! Owns [`RttEstimator`]. Input passes it samples, timers read [`RttEstimator::rto`] and
//! double it. As in Linux, the minimum of 200 ms applies to the variance term and not to
//! the sum, so that the timeout is always well above the round-trip time.

use crate::codec::saved_part;
use crate::time::{Instant, MS, SECOND};
use crate::violation::{Violation, require};
use core::hint::cold_path;

/// The initial timeout (RFC 6298 section 2.1).
pub(crate) const INITIAL_RTO: u64 = SECOND;
/// The minimum of the variance term; RFC 6298 section 2.4 requires 1 s for the sum, Linux
/// and all other current stacks use 200 ms.
pub(crate) const MIN_VARIANCE: u64 = 200 * MS;
/// The longest timeout (RFC 6298 section 2.5 allows 60 s or more).
pub(crate) const MAX_RTO: u64 = 120 * SECOND;

/// Smoothed round-trip time, its variation and the retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RttEstimator {
    /// Smoothed round-trip time in eighths of a microsecond; 0 before the first
    /// sample.
    srtt8: u64,
    /// Variation in quarters of a microsecond.
    rttvar4: u64,
    /// The timeout before the first sample, without backoff, microseconds.
    initial_rto: u32,
    /// The minimum of all samples, microseconds; `u32::MAX` before the first.
    min_rtt: u32,
    /// How often the timeout has been doubled.
    backoff: u8,
}

saved_part!(RttEstimator {
    saved {
        srtt8, rttvar4, initial_rto, min_rtt, backoff,
    }
});

impl RttEstimator {
    pub(crate) const fn new() -> RttEstimator {
        RttEstimator {
            srtt8: 0,
            rttvar4: 0,
            initial_rto: INITIAL_RTO as u32,
            min_rtt: u32::MAX,
            backoff: 0,
        }
    }

    /// Takes the time between `from` and `now` as a sample.
    #[inline(always)]
    pub(crate) fn sample_since(&mut self, from: Instant, now: Instant) {
        let mut micros = now.0.wrapping_sub(from.0);
        if !(1..=MAX_RTO).contains(&micros) {
            cold_path();
            micros = now.since(from).clamp(1, MAX_RTO);
        }
        self.take(micros);
    }

    /// Takes a sample in microseconds, clamped to valid values.
    #[inline]
    pub(crate) fn sample(&mut self, micros: u64) {
        self.take(micros.clamp(1, MAX_RTO));
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let known = self.srtt8 == 0 || (8..=8 * MAX_RTO).contains(&self.srtt8);
        require(known, "a round trip that is none")?;
        require(
            self.rttvar4 <= 4 * MAX_RTO,
            "a variation beyond any round trip",
        )
    }

    /// RFC 6298 section 2.2 and 2.3: the first sample R sets SRTT = R and
    /// RTTVAR = R/2; each later one R' sets
    /// RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R'| and then SRTT = 7/8 SRTT + 1/8 R'.
    #[inline(always)]
    fn take(&mut self, r: u64) {
        if (r as u32) < self.min_rtt {
            self.min_rtt = r as u32;
        }
        let srtt = self.srtt8 / 8;
        if self.srtt8 == 0 {
            self.srtt8 = r * 8;
            self.rttvar4 = r * 2;
        } else {
            let error = r.wrapping_sub(srtt) as i64;
            self.rttvar4 = self.rttvar4 - self.rttvar4 / 4 + error.unsigned_abs();
            self.srtt8 = self.srtt8.wrapping_add_signed(error);
        }
    }

    /// The timeout without backoff. It is computed on demand, which is rare: the tail
    /// loss probe comes first.
    fn base_rto(&self) -> u64 {
        if self.srtt8 == 0 {
            return u64::from(self.initial_rto);
        }
        // RFC 6298 section 2.3: RTO = SRTT + max(G, 4 RTTVAR).
        (self.srtt8 / 8 + self.rttvar4.max(MIN_VARIANCE)).min(MAX_RTO)
    }

    /// The timeout to use now, backoff included.
    #[inline]
    pub(crate) fn rto(&self) -> u64 {
        (self.base_rto() << self.backoff.min(20)).min(MAX_RTO)
    }

    /// Whether more than the timeout has passed between `from` and `to`.
    #[inline]
    pub(crate) fn is_longer_than_rto(&self, from: Instant, to: Instant) -> bool {
        // Negative if the clock went back. The timeout is never shorter than the minimum
        // of the variance term.
        let passed = to.0.wrapping_sub(from.0) as i64;
        passed > MIN_VARIANCE as i64 && passed > self.rto() as i64
    }

    /// RFC 6298 section 5.5: doubles the timeout.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// An acknowledgment of new data ends the backoff (RFC 6298 section 5.7 leaves it to
    /// the next sample; Linux and Longshore do it at once).
    pub(crate) fn clear_backoff(&mut self) {
        self.backoff = 0;
    }

    /// How often the timeout has been doubled.
    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }

    /// RFC 6298 section 5.7: if the SYN was retransmitted and there is no sample, the
    /// timeout for data starts at 3 s.
    pub(crate) fn syn_was_retransmitted(&mut self) {
        if self.srtt8 == 0 {
            self.initial_rto = 3 * SECOND as u32;
        }
    }

    /// Smoothed round-trip time in microseconds, `None` before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Option<u64> {
        (self.srtt8 != 0).then_some(self.srtt8 / 8)
    }

    /// Variation in microseconds.
    pub(crate) fn rttvar(&self) -> u64 {
        self.rttvar4 / 4
    }

    /// The minimum of all samples in microseconds, `otherwise` before the first.
    pub(crate) fn min_rtt_or(&self, otherwise: u64) -> u64 {
        self.min_rtt().map_or(otherwise, u64::from)
    }

    /// The minimum of all samples in microseconds, `None` before the first.
    pub(crate) fn min_rtt(&self) -> Option<u32> {
        (self.min_rtt != u32::MAX).then_some(self.min_rtt)
    }
}

#[cfg(test)]
mod tests;
