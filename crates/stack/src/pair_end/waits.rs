//! What an end waits for, and until when: a listener that is told of it only when there is
//! something to read, memory, its sender's pace, an other end that does not read, and the time
//! when its host's chunks are taken back.
//!
//! Owns [`Deferral`] and [`Waits`], parts of [`Pair`](super::Pair).

use longshore_tcp::Instant;

/// Whether the listener of an end is told of it later (TCP_DEFER_ACCEPT, accepting on data).
#[derive(Debug, Default)]
pub(crate) struct Deferral {
    until: Option<Instant>,
    has_been: bool,
    /// It is over, but for room in its listener's queue.
    stands_in_line: bool,
}

impl Deferral {
    /// It is deferred for `within_us` microseconds from `now` on, if it was not before. Gives
    /// the time when it is over at the latest.
    pub(crate) fn begin(&mut self, now: Instant, within_us: u64) -> Instant {
        self.has_been = true;
        *self.until.get_or_insert(now.after_us(within_us))
    }

    /// Whether it is deferred.
    pub(crate) fn is_under_way(&self) -> bool {
        self.until.is_some()
    }

    /// Whether it is to be let through to its listener, as its time is up at `now`, or there is
    /// something to read.
    pub(crate) fn is_over(&self, now: Instant, has_begun: bool) -> bool {
        self.deadline()
            .is_some_and(|until| has_begun || now >= until)
    }

    /// When it is over at the latest, if it is deferred and does not stand in line.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| !self.stands_in_line)
    }

    /// Its listener has no room for it: it is let through when there is some.
    pub(crate) fn stand_in_line(&mut self) {
        self.stands_in_line = self.until.is_some();
    }

    /// Its listener has been told, or there is none.
    pub(crate) fn end(&mut self) {
        (self.until, self.stands_in_line) = (None, false);
    }

    /// Whether it ever was deferred: its host may have written ranges of files, as it was not
    /// told that its other end is a socket of the same engine.
    pub(crate) fn has_been(&self) -> bool {
        self.has_been
    }
}

/// The times at which an end is looked at, even if nothing happens.
#[derive(Debug)]
pub(crate) struct Waits {
    again_at: Option<Instant>,
    paced_until: Instant,
    given_up_at: Option<Instant>,
    report_due: Instant,
}

impl Waits {
    pub(super) const NONE: Self = Self {
        again_at: None,
        paced_until: Instant(0),
        given_up_at: None,
        report_due: Instant::NEVER,
    };

    /// The first of them; `others` are those that other parts have.
    pub(super) fn deadline(&self, others: [Option<Instant>; 2]) -> Option<Instant> {
        let report_due = (!self.report_due.is_never()).then_some(self.report_due);
        let own = [self.again_at, self.given_up_at, report_due];
        own.into_iter().chain(others).flatten().min()
    }

    /// The other end's session had no memory for what is to be moved, or its sender's pace
    /// (SO_MAX_PACING_RATE) has it wait: it is tried again at `at`.
    pub(crate) fn retry_at(&mut self, at: Instant) {
        self.again_at = Some(at);
    }

    /// It is being tried.
    pub(crate) fn end_retry(&mut self) {
        self.again_at = None;
    }

    /// When what comes next may go, by its sender's pace.
    pub(crate) fn paced_until(&self) -> Instant {
        self.paced_until
    }

    /// What comes next may go from `until` on, by its sender's pace.
    pub(crate) fn pace_until(&mut self, until: Instant) {
        self.paced_until = until;
    }

    /// No process holds it, and the other end does not read: it waits for `limit_us`
    /// microseconds from `now` on, if it did not before. Gives the time when that is over.
    pub(crate) fn give_up_after(&mut self, limit_us: u64, now: Instant) -> Instant {
        *self.given_up_at.get_or_insert(now.after_us(limit_us))
    }

    /// The other end has read.
    pub(crate) fn keep(&mut self) {
        self.given_up_at = None;
    }

    /// When the host's chunks are taken back; never if that is not due.
    pub(crate) fn report_due(&self) -> Instant {
        self.report_due
    }

    /// The host's chunks are taken back at `at`.
    pub(crate) fn set_report_due(&mut self, at: Instant) {
        self.report_due = at;
    }
}
