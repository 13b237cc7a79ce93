//! Path MTU discovery that does not depend on ICMP (RFC 4821, RFC 8899).
//!
//! Owns [`MtuSearch`]. `recovery/` reports repeated timeouts and the fate of a probe,
//! `flight.rs` asks for output whether the next segment should be a probe, and
//! `segment_size.rs` reports the MTU that a router advertised.
//!
//! Routers that drop a packet that is too long are expected to report it, and mostly do;
//! then nothing happens here until that report is ten minutes old. Some do not report it.
//! Full segments are then dropped again and again while small ones pass, and after three
//! timeouts the size is lowered ([`MtuSearch::suspect_black_hole`]). Once data passes again,
//! a single larger segment is sent as a probe from time to time; if it arrives, its size
//! is used. The loss of a probe is no sign of congestion, and is recovered without
//! lowering the window.
//!
//! Sizes are those of [`SendSide::set_path_mss`](crate::snd::SendSide::set_path_mss): payload
//! without TCP options.

use crate::congestion::CongestionState;
use crate::flight::AckReport;
use crate::flight::scoreboard::Scoreboard;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::time::{Instant, SECOND};

/// Consecutive timeouts before the size is suspected (Linux's tcp_retries1).
const SUSPICIOUS: u8 = 3;
/// The sizes that are tried on a suspected path, in this order. Linux also begins with
/// 1024; a size below 512 is not accepted from ICMP either.
const FALLBACKS: [u16; 2] = [1024, 512];
/// As `FALLBACKS` for IPv6: every link takes 1280 bytes, so no smaller size can help (RFC
/// 8899 section 5.1.2, MIN_PLPMTU).
const FALLBACKS_IPV6: [u16; 1] = [1220];
/// A size is given up after the loss of this many consecutive probes of it (RFC 8899
/// section 5.1.2 has 3; here other segments show that the path works).
const MAX_PROBES: u8 = 2;
/// The search ends when the interval is this small, bytes.
const FINE_ENOUGH: u16 = 24;
/// How long a result is valid, microseconds (RFC 8899 section 5.1.1, RFC 1191 section
/// 6.3: ten minutes).
const RAISE_AFTER: u64 = 600 * SECOND;
/// Segments that must be ready to follow a probe, so that its loss is detected by SACK.
const FOLLOWERS: i64 = 3;

/// The search for the largest segment that the path takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MtuSearch {
    /// The size that the interface takes.
    ceiling: u16,
    /// The largest size that may still pass; the size in use is the lower bound.
    high: u16,
    /// The size under probe, 0 if none is in flight.
    probe: u16,
    /// Number of lost probes of the present size.
    losses: u8,
    /// Nothing is known of `high` yet: it is probed first, since the cause of the
    /// timeouts may have been something other than the size.
    fresh: bool,
    /// The probe's range of the stream.
    start: Pos,
    end: Pos,
    /// No probe before this time; `NEVER` if there is nothing to search for.
    not_before: Instant,
}

impl MtuSearch {
    /// The state for an interface that takes `ceiling` bytes, which are used at once.
    pub(crate) const fn new(ceiling: u16) -> MtuSearch {
        MtuSearch {
            ceiling,
            high: ceiling,
            probe: 0,
            losses: 0,
            fresh: true,
            start: 0,
            end: 0,
            not_before: Instant::NEVER,
        }
    }

    /// Whether the next new segment may have to be a probe.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.not_before
    }

    /// The size that the interface takes.
    pub(crate) const fn ceiling(&self) -> u16 {
        self.ceiling
    }

    /// Whether there is something to search for.
    const fn is_searching(&self) -> bool {
        !self.not_before.is_never()
    }

    /// Whether a probe is in flight.
    pub(crate) const fn is_probing(&self) -> bool {
        self.probe != 0
    }

    /// Starts a search between the size in use and `high`.
    fn search_up_to(&mut self, high: u16, not_before: Instant) {
        let ceiling = self.ceiling;
        *self = MtuSearch {
            high: high.min(ceiling),
            not_before,
            ..MtuSearch::new(ceiling)
        };
    }

    /// The next size to probe if `low` is in use.
    fn next(&self, low: u16) -> u16 {
        if self.fresh {
            self.high
        } else {
            low + (self.high - low).div_ceil(2)
        }
    }

    /// Ends the search if the interval is small enough; `low` is in use. A new search
    /// begins at `again`.
    fn end_narrow_search(&mut self, low: u16, again: Instant) {
        if self.high.saturating_sub(low) <= FINE_ENOUGH {
            let ceiling = self.ceiling;
            if low < ceiling {
                self.search_up_to(ceiling, again);
            } else {
                *self = MtuSearch::new(ceiling);
            }
        }
    }

    /// Other data was lost, or a timer expired: the probe gives no result.
    pub(crate) fn forget_probe(&mut self) {
        self.probe = 0;
    }
}

/// What output has to do about a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeChoice {
    /// No probe.
    None,
    /// Send no other new data, until acknowledgments have made room for the probe.
    Hold,
    /// Send this range as one segment.
    Send(Pos, Pos),
}

impl MtuSearch {
    /// A router has advertised the path's MTU, which replaces the result of any search.
    /// It may be wrong, or the path may change, so a search begins after a while. Payload was
    /// last sent at `last_sent`.
    pub(crate) fn on_advertised(&mut self, snd: &SendSide, last_sent: Instant) {
        let ceiling = self.ceiling;
        if snd.path_mss() < ceiling {
            self.search_up_to(ceiling, raise_at(last_sent));
        } else {
            *self = MtuSearch::new(snd.path_mss());
        }
    }

    /// The retransmission timer has expired `retries` times in a row. If segments in
    /// flight are larger than a fallback size, smaller ones are tried (RFC 4821 section
    /// 7.7, RFC 8899 section 4.3). Returns whether the size was lowered.
    pub(super) fn suspect_black_hole(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        ipv6: bool,
        retries: u8,
        now: Instant,
    ) -> bool {
        if retries < SUSPICIOUS {
            return false;
        }
        let longest = i64::from(snd.mss()).min(snd.nxt() - snd.una());
        let options = snd.path_mss_used() - snd.mss();
        let fallbacks: &[u16] = if ipv6 { &FALLBACKS_IPV6 } else { &FALLBACKS };
        let smaller = fallbacks
            .iter()
            .copied()
            .find(|&size| i64::from(size - options) < longest);
        let Some(smaller) = smaller else {
            return false;
        };
        let used = snd.path_mss_used();
        let high = if self.is_searching() { self.high } else { used };
        use_size(smaller, snd, congestion);
        self.search_up_to(high.max(used), now);
        true
    }

    /// Whether a probe is due and can be sent (RFC 4821 section 7.4). It requires SACK,
    /// which shows the loss of the probe alone, room in both windows (`room` in the congestion
    /// window), and data that follows it. `extra` is the size of options that only some
    /// segments carry, bytes.
    pub(super) fn select_probe(
        &mut self,
        snd: &SendSide,
        cwnd: u32,
        room: i64,
        extra: u16,
        last_sent: Instant,
        now: Instant,
    ) -> ProbeChoice {
        if !self.is_due(now) || self.is_probing() || !snd.sack() {
            return ProbeChoice::None;
        }
        let low = snd.path_mss_used();
        let size = self.next(low).min(snd.peer_mss());
        if size <= low {
            self.high = low;
            self.end_narrow_search(low, raise_at(last_sent));
            return ProbeChoice::None;
        }
        let len = i64::from(size - (low - snd.mss()) - extra);
        let follow = FOLLOWERS * i64::from(snd.mss());
        let start = snd.nxt();
        let fits = start + len + follow <= snd.edge().min(snd.wnd_edge())
            && len + follow <= i64::from(cwnd);
        if !fits {
            return ProbeChoice::None;
        }
        if len > room {
            return ProbeChoice::Hold;
        }
        self.probe = size;
        self.start = start;
        self.end = start + len;
        ProbeChoice::Send(start, start + len)
    }

    /// Whether an acknowledgment covers the probe: it has arrived, in one piece or
    /// retransmitted in several.
    pub(super) fn has_arrived(&self, sent: &Scoreboard, una: Pos, report: AckReport) -> bool {
        if !self.is_probing() || (report.acked == 0 && report.sacked == 0) {
            return false;
        }
        una >= self.end || sent.is_sacked_within(una, self.start.max(una), self.end)
    }

    /// The path takes the size of the probe, which has arrived: that is used from now on.
    pub(super) fn use_probed(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        last_sent: Instant,
    ) {
        let size = core::mem::take(&mut self.probe);
        self.losses = 0;
        self.fresh = false;
        use_size(size, snd, congestion);
        self.end_narrow_search(size, raise_at(last_sent));
    }

    /// Whether the probe is the only lost data; if so, it counts as a failure of that
    /// size.
    pub(super) fn is_lost_alone(
        &mut self,
        sent: &Scoreboard,
        snd: &SendSide,
        last_sent: Instant,
    ) -> bool {
        let alone = self.is_probing()
            && sent.lost() == (self.end - self.start) as u64
            && sent
                .first_lost(snd.una())
                .is_some_and(|s| s.start == self.start && s.end == self.end);
        if alone {
            self.fail(snd, last_sent);
        }
        alone
    }

    /// The probe was lost.
    fn fail(&mut self, snd: &SendSide, last_sent: Instant) {
        let low = snd.path_mss_used();
        self.losses += 1;
        if self.losses >= MAX_PROBES {
            self.high = self.probe.saturating_sub(1).max(low);
            self.losses = 0;
            self.fresh = false;
        }
        self.probe = 0;
        self.end_narrow_search(low, raise_at(last_sent));
    }
}

/// When the present result expires, counted from the last transmission.
fn raise_at(last_sent: Instant) -> Instant {
    last_sent.after_us(RAISE_AFTER)
}

/// The path takes segments of `size` bytes.
fn use_size(size: u16, snd: &mut SendSide, congestion: &mut CongestionState) {
    snd.set_path_mss(size);
    snd.update_mss();
    congestion.controller.set_mss(snd.mss());
}

#[cfg(test)]
mod tests;
