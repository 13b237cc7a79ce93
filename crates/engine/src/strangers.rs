//! How much is answered to packets that belong to no connection: cookies for SYNs, resets,
//! echoes.
//!
//! Such an answer costs about as much as three frames that are only read. In a flood of
//! what asks for one, an engine that gave each its answer would fall behind its port,
//! whose queue would then drop the frames of connections, too. So as long as it is behind,
//! a turn answers a few strangers, and drops the others as early as it knows them; as soon
//! as it has caught up, all are answered again. Thus as many are as there is time for.
//!
//! Owned by the engine, which says after each look at the port whether it saw the end of
//! what was there.

use crate::counters::EngineDrop;
use crate::engine::Engine;

/// Turns in a row that did not see the end of what the port had, after which the engine
/// is behind. Fewer come from a burst of new clients, all of which are to be answered.
const BEHIND: u8 = 8;

/// Strangers that are answered in a turn of an engine that is behind.
const FEW: u8 = 8;

/// What is left of this turn for strangers.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Turns in a row that left something in the port; up to [`BEHIND`].
    unfinished: u8,
    /// Answered in this turn, while behind.
    answered: u8,
}

impl Strangers {
    /// The look at the port is over; whether something may be left in it.
    pub(crate) fn looked(&mut self, may_have_more: bool) {
        self.answered = 0;
        self.unfinished = if may_have_more {
            (self.unfinished + 1).min(BEHIND)
        } else {
            0
        };
    }

    /// Whether one more may be answered; if so, it counts.
    pub(crate) fn may_be_answered(&mut self) -> bool {
        if self.unfinished < BEHIND {
            return true;
        }
        let may = self.answered < FEW;
        self.answered += u8::from(may);
        may
    }
}

impl Engine {
    /// Whether what asks for an answer, and belongs to no connection, gets it. If not, it
    /// is counted as dropped.
    pub(crate) fn answers_stranger(&mut self) -> bool {
        let may = self.strangers.may_be_answered();
        if !may {
            self.counters.drop(EngineDrop::StrangerUnanswered);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a turn's worth are answered.
    fn answered(strangers: &mut Strangers) -> usize {
        (0..64).filter(|_| strangers.may_be_answered()).count()
    }

    #[test]
    fn a_burst_is_answered_and_a_flood_as_far_as_there_is_time() {
        let mut strangers = Strangers::default();
        for _ in 0..BEHIND {
            assert_eq!(answered(&mut strangers), 64);
            strangers.looked(true);
        }
        for _ in 0..300 {
            assert_eq!(answered(&mut strangers), usize::from(FEW));
            strangers.looked(true);
        }
        strangers.looked(false);
        assert_eq!(answered(&mut strangers), 64);
    }
}
