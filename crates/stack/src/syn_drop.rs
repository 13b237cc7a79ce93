//! How many SYNs the port lets through while more come than the engine can read.
//!
//! To answer few of them (`answer_limit`) is not enough where the flood is faster than
//! an engine that only reads: the queue between kernel and engine is then full of SYNs, and
//! the kernel drops the frames of connections with them. So an engine that is behind, and for
//! which SYNs are a good part of what it reads, has the port drop them before the queue
//! ([`Port::drop_syns`]): all but one in a power of two,
//! which doubles until the engine keeps up. From time to time it is halved, to see whether
//! that is enough, less often each time that it was not; what passes tells how many came, and
//! when those are few again, all are let through.
//!
//! A SYN counts for that as long as nothing has come of it: one whose connection was established,
//! or that was answered by a reset, is no sign of a flood. An engine that gets less of the processor than
//! its client may not see the end of what is there for long although nothing waits: the client
//! runs as soon as it has its answer, and its next SYN is there before the engine looks. Such a
//! client has one SYN at a time without an answer, however many it sends in all.
//!
//! A client's SYN that is dropped is sent again by the client, and has its chance again.
//!
//! Owned by `answer_limit`'s `AnswerLimits`, which tells of each look at the port and of each SYN
//! that came.

use crate::counters::Notice;
use longshore_frames::{MAX_SYN_DROP, Port};
use longshore_tcp::Instant;

/// The part of what an engine that is behind has read that must be SYNs of which nothing has come if
/// the port is to drop some, as one in so many.
const PART: u64 = 4;
/// The first share that passes is one in 2 to the power of this.
const FIRST: u8 = 2;
/// How long the engine waits to see what a smaller share does, in microseconds: the queue is
/// full of what came before.
const SETTLES: u64 = 2_000;
/// How often it is seen whether the flood is over, in microseconds.
const WINDOW: u64 = 50_000;
/// How long a share stands at first before twice as much is tried, in microseconds, and at the
/// longest.
const SHORTEST_STAND: u64 = 50_000;
const LONGEST_STAND: u64 = 3_200_000;
/// How often the operator is told of a flood at most, in microseconds.
const TELL_EVERY: u64 = 60_000_000;
/// SYNs in a second that any engine can read.
const FEW: u64 = 20_000;

/// The share of SYNs that the port lets through.
#[derive(Debug)]
pub(crate) struct SynDrop {
    /// One SYN in `1 << shift` passes.
    shift: u8,
    /// When it was set.
    set_at: Instant,
    /// How long it stands before a larger one is tried, in microseconds.
    stand: u64,
    /// It is larger than the one before.
    is_trial: bool,
    /// SYNs that came since it was set, and how many of them before this window began.
    came: u64,
    before: u64,
    window: Instant,
    /// SYNs, and frames of any kind, that were read since the end of what the port had was
    /// last seen.
    syns: u64,
    frames: u64,
    /// SYNs of which something has come since then, whenever they were read.
    served: u64,
    /// SYNs that the port has dropped, as estimated from those that came.
    dropped: u64,
    /// When the operator may be told again.
    notice_due: Instant,
}

impl Default for SynDrop {
    fn default() -> Self {
        Self {
            shift: 0,
            set_at: Instant(0),
            stand: SHORTEST_STAND,
            is_trial: false,
            came: 0,
            before: 0,
            window: Instant(0),
            syns: 0,
            frames: 0,
            served: 0,
            dropped: 0,
            notice_due: Instant(0),
        }
    }
}

impl SynDrop {
    /// Whether SYNs have come of late, or not all of them are let through.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.syns != 0 || self.shift != 0
    }

    /// A SYN has come that belongs to no connection.
    pub(crate) fn came(&mut self) {
        self.came += 1;
        self.syns += 1;
    }

    /// The connection of a SYN was established, or the SYN was refused.
    #[inline]
    pub(crate) fn served(&mut self) {
        self.served += 1;
    }

    /// A look at the port is over, which brought so many frames.
    fn looked(&mut self, frames: usize, may_have_more: bool) {
        if may_have_more {
            self.frames += frames as u64;
        } else {
            self.begin_count();
        }
    }

    fn begin_count(&mut self) {
        (self.syns, self.frames, self.served) = (0, 0, 0);
    }

    /// Whether SYNs of which nothing comes are a good part of what was read.
    fn are_many_unserved(&self) -> bool {
        self.syns.saturating_sub(self.served) * PART >= self.frames
    }

    /// The SYNs that the port has dropped, as far as can be told from those that passed.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped + (self.came << self.shift) - self.came
    }

    /// When [`SynDrop::decide`] is to be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.shift != 0).then(|| self.window.after_us(WINDOW))
    }

    /// What the port is to let through from now on, if that changes; `is_behind` says that
    /// the last looks at the port did not see the end of what was there.
    fn decide(&mut self, is_behind: bool, now: Instant) -> Option<u8> {
        let is_flood = is_behind && self.are_many_unserved();
        let settled = self.shift == 0 || now.since(self.set_at) >= SETTLES;
        if is_flood && settled && self.shift < MAX_SYN_DROP {
            // If more was let through lately, that was too much, and is not tried again soon.
            if self.is_trial && now.since(self.set_at) < self.stand {
                self.stand = (2 * self.stand).min(LONGEST_STAND);
            } else if self.is_trial || self.shift == 0 {
                self.stand = SHORTEST_STAND;
            }
            self.is_trial = false;
            return Some(self.set(self.shift.max(FIRST - 1) + 1, now));
        }
        let elapsed = now.since(self.window);
        if self.shift == 0 || elapsed < WINDOW {
            return None;
        }
        let came = (self.came - self.before) << self.shift;
        if came.saturating_mul(1_000_000) / elapsed < FEW {
            self.stand = SHORTEST_STAND;
            return Some(self.set(0, now));
        }
        (self.before, self.window) = (self.came, now);
        if now.since(self.set_at) < self.stand {
            return None;
        }
        self.is_trial = true;
        Some(self.set(self.shift - 1, now))
    }

    fn set(&mut self, shift: u8, now: Instant) -> u8 {
        self.dropped = self.dropped();
        (self.came, self.before) = (0, 0);
        self.begin_count();
        (self.shift, self.set_at, self.window) = (shift, now, now);
        shift
    }

    /// A look at the port is over, which brought so many frames: the port is told how many SYNs
    /// it is to let through, if that changes. What the operator should know of it.
    #[cold]
    pub(crate) fn let_through(
        &mut self,
        frames: usize,
        may_have_more: bool,
        is_behind: bool,
        port: &mut dyn Port,
        now: Instant,
    ) -> Option<Notice> {
        self.looked(frames, may_have_more);
        let was = self.shift;
        let shift = self.decide(is_behind, now)?;
        // A port that cannot, or did not, lets all through; the rest is as for a flood that
        // the engine can read.
        if !matches!(port.drop_syns(shift), Ok(true)) {
            self.shift = 0;
            return None;
        }
        let is_due = was == 0 && self.notice_due <= now;
        is_due.then(|| {
            self.notice_due = now.after_us(TELL_EVERY);
            Notice::SynFlood
        })
    }
}

#[cfg(test)]
mod tests;
