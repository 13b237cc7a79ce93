//! How much is answered to packets that belong to no connection: cookies for SYNs, resets,
//! echoes.
//!
//! Such an answer costs about as much as three frames that are only read. In a flood of
//! what asks for one, an engine that gave each its answer would fall behind its port,
//! whose queue would then drop the frames of connections, too. So as long as it is behind,
//! a turn answers a few such packets, and drops the others as early as it knows them; as soon
//! as it has caught up, all are answered again. Thus as many are as there is time for.
//!
//! The stack owns it; the engine says after each look at the port whether it saw the end of
//! what was there.

use crate::Stack;
use crate::counters::EngineDrop;

/// Turns in a row that did not see the end of what the port had, after which the engine
/// is behind. Fewer come from a burst of new clients, all of which are to be answered.
const BEHIND: u8 = 8;

/// Packets of no connection that are answered in a turn of an engine that is behind.
const FEW: u8 = 8;

/// How many answers to packets of no connection this turn may still give.
#[derive(Debug, Default)]
pub(crate) struct AnswerLimit {
    /// Turns in a row that left something in the port; up to [`BEHIND`].
    unfinished: u8,
    /// Answered in this turn, while behind.
    answered: u8,
}

impl AnswerLimit {
    /// The look at the port is over; whether something may be left in it.
    #[inline]
    pub(crate) fn looked(&mut self, may_have_more: bool) {
        self.answered = 0;
        self.unfinished = if may_have_more {
            (self.unfinished + 1).min(BEHIND)
        } else {
            0
        };
    }

    /// Whether more comes than can be answered.
    pub(crate) fn is_behind(&self) -> bool {
        self.unfinished >= BEHIND
    }

    /// Whether one more may be answered; if so, it counts.
    pub(crate) fn allows_one_more(&mut self) -> bool {
        if !self.is_behind() {
            return true;
        }
        let may = self.answered < FEW;
        self.answered += u8::from(may);
        may
    }
}

impl Stack {
    /// Whether what asks for an answer, and belongs to no connection, gets it. If not, it
    /// is counted as dropped.
    pub(crate) fn may_answer_unsolicited(&mut self) -> bool {
        let may = self.limits.unsolicited.allows_one_more();
        if !may {
            self.counters.drop(EngineDrop::UnsolicitedUnanswered);
        }
        may
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
