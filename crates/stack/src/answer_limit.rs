//! How much is answered to packets that belong to no connection: cookies for SYNs, resets,
//! echoes.
//!
//! Such an answer costs about as much as three frames that are only read. In a flood of
//! what asks for one, an engine that gave each its answer would fall behind its port,
//! whose queue would then drop the frames of connections, too. So as long as it is behind,
//! a turn answers a few such packets, and drops the others as early as it knows them; as soon
//! as it has caught up, all are answered again. Thus as many are as there is time for. The last
//! that were left are then taken once more (`unanswered`).
//!
//! Owns [`AnswerLimits`], which the stack has; the engine says after each look at the port whether it saw the end of
//! what was there.

mod unanswered;

pub(crate) use unanswered::UnansweredFrame;

use crate::counters::{Counters, EngineDrop, Notice};
use crate::link::net_time;
use crate::syn_drop::SynDrop;
use longshore_frames::{Port, RxMeta};
use longshore_net::icmp::RateLimit;
use longshore_tcp::Instant;
use unanswered::UnansweredFrames;

/// Turns in a row that did not see the end of what the port had, after which the engine
/// is behind. Fewer come from a burst of new clients, all of which are to be answered.
const BEHIND: u8 = 8;

/// Packets of no connection that are answered in a turn of an engine that is behind.
const FEW: u8 = 8;

/// How many answers to packets of no connection this turn may still give.
#[derive(Debug, Default)]
struct AnswerLimit {
    /// Turns in a row that left something in the port; up to [`BEHIND`].
    unfinished: u8,
    /// Answered in this turn, while behind.
    answered: u8,
}

impl AnswerLimit {
    /// The look at the port is over; whether something may be left in it.
    #[inline]
    fn looked(&mut self, may_have_more: bool) {
        self.answered = 0;
        self.unfinished = if may_have_more {
            (self.unfinished + 1).min(BEHIND)
        } else {
            0
        };
    }

    /// Whether more comes than can be answered.
    fn is_behind(&self) -> bool {
        self.unfinished >= BEHIND
    }

    /// Whether one more may be answered; if so, it counts.
    fn allows_one_more(&mut self) -> bool {
        if !self.is_behind() {
            return true;
        }
        let may = self.answered < FEW;
        self.answered += u8::from(may);
        may
    }
}

/// How much is answered to packets that nobody here has asked for. The stack has one;
/// `responder` asks it before it answers.
#[derive(Default)]
pub(crate) struct AnswerLimits {
    /// Errors that we report (RFC 1812 section 4.3.2.8).
    icmp: RateLimit,
    /// Resets, cookies and echoes.
    unsolicited: AnswerLimit,
    /// Answers that were refused since [`settle`](Self::settle), and the frames of the last of them.
    refused: u32,
    unanswered: UnansweredFrames,
    /// SYNs that the port lets through.
    syns: SynDrop,
}

impl AnswerLimits {
    /// Whether what asks for an answer, and belongs to no connection, gets it now.
    pub(crate) fn may_answer(&mut self) -> bool {
        let may = self.unsolicited.allows_one_more();
        self.refused += u32::from(!may);
        may
    }

    /// A packet has been taken: if it was refused an answer, its frame is kept if it has one of its
    /// own, and what cannot be kept is counted as dropped.
    #[inline]
    pub(crate) fn settle(&mut self, frame: Option<(&[u8], &RxMeta)>, counters: &mut Counters) {
        if self.refused != 0 {
            self.settle_refused(frame, counters);
        }
    }

    #[cold]
    fn settle_refused(&mut self, frame: Option<(&[u8], &RxMeta)>, counters: &mut Counters) {
        let refused = std::mem::take(&mut self.refused);
        let dropped = match frame {
            Some((frame, meta)) => u32::from(self.unanswered.keep(frame, meta)),
            None => refused,
        };
        counters.drop_many(EngineDrop::UnsolicitedUnanswered, dropped.into());
    }

    /// The oldest frame that is kept is taken from there, once the end of what the port has was
    /// seen.
    pub(crate) fn take_unanswered(&mut self) -> Option<UnansweredFrame> {
        if self.unsolicited.is_behind() {
            return None;
        }
        self.unanswered.take()
    }

    /// Whether one more error may be sent now.
    pub(crate) fn may_send_error(&mut self, now: Instant) -> bool {
        self.icmp.allow(net_time(now))
    }

    /// A SYN has come that belongs to no connection.
    pub(crate) fn syn_came(&mut self) {
        self.syns.came();
    }

    /// The connection of a SYN was established, or the SYN was refused.
    #[inline]
    pub(crate) fn syn_served(&mut self) {
        self.syns.served();
    }

    /// A look at the port is over. Says whether [`decide_on_syns`](Self::decide_on_syns) and
    /// [`take_unanswered`](Self::take_unanswered) are to be called.
    #[inline]
    pub(crate) fn looked(&mut self, may_have_more: bool) -> bool {
        let was_behind = self.unsolicited.is_behind();
        self.unsolicited.looked(may_have_more);
        may_have_more || self.syns.is_active() || was_behind
    }

    /// The look at the port has brought so many frames: the port is told how many SYNs it is to let
    /// through, if that changes. What the operator should know of it.
    #[cold]
    pub(crate) fn decide_on_syns(
        &mut self,
        frames: usize,
        may_have_more: bool,
        port: &mut dyn Port,
        now: Instant,
    ) -> Option<Notice> {
        let is_behind = self.unsolicited.is_behind();
        self.syns
            .let_through(frames, may_have_more, is_behind, port, now)
    }

    /// When the port is to be looked at again though nothing comes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.syns.deadline()
    }

    /// The SYNs that the port has dropped, as far as can be told from those that passed.
    pub(crate) fn syns_dropped(&self) -> u64 {
        self.syns.dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a turn's worth are answered.
    fn answered(limit: &mut AnswerLimit) -> usize {
        (0..64).filter(|_| limit.allows_one_more()).count()
    }

    #[test]
    fn a_burst_is_answered_and_a_flood_as_far_as_there_is_time() {
        let mut limit = AnswerLimit::default();
        for _ in 0..BEHIND {
            assert_eq!(answered(&mut limit), 64);
            limit.looked(true);
        }
        for _ in 0..300 {
            assert_eq!(answered(&mut limit), usize::from(FEW));
            limit.looked(true);
        }
        limit.looked(false);
        assert_eq!(answered(&mut limit), 64);
    }
}
