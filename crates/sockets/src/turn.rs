//! When the engine is to fetch what this process writes: all that it writes in one *turn*, from
//! one wait to the next, at once, so that it crosses in one batch, and what belongs to one
//! socket in one descriptor. Unless it is much that was copied, so that the engine works on it
//! while this process copies more; or the process writes once in each turn, for which a wait
//! would gain nothing. What the program itself holds back waits longest.
//!
//! Owns [`Turn`], which `host` notes each write in, and [`Wake`], by which a request says when
//! it is to be fetched.

/// Bytes that wait for the end of the turn at most.
const MUCH: u64 = 128 * 1024;

/// Whether a request is worth waking the engine for, and when it is to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Now.
    Now,
    /// Now, if it sleeps; one that is awake fetches it when this process has no more to say
    /// for now, or after a short time.
    Held,
    /// As `Held`, for what the program itself holds back (TCP_CORK, MSG_MORE), and after a longer
    /// time.
    HeldBack,
    /// Before this process sleeps, or a packet comes.
    Soon,
    /// Not at all; it is fetched before a packet comes.
    Never,
    /// Not at all; it is fetched with others.
    Along,
}

/// What this process has written since it last waited.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// How often.
    writes: u32,
    /// And how often in the last turn in which it wrote at all.
    writes_before: u32,
    /// Bytes that were copied and that the engine was not told to fetch.
    pub(crate) held: u64,
}

impl Turn {
    /// Something was written, for which so many bytes were copied, and which the program holds
    /// back or not; when it is to be fetched.
    pub(crate) fn note(&mut self, copied: u64, is_held_back: bool) -> Wake {
        self.writes = self.writes.saturating_add(1);
        self.held += copied;
        let is_all = self.writes == 1 && self.writes_before == 1;
        if self.held >= MUCH {
            Wake::Now
        } else if is_held_back {
            Wake::HeldBack
        } else if is_all {
            Wake::Now
        } else {
            Wake::Held
        }
    }

    /// The process waits for something.
    pub(crate) fn end(&mut self) {
        if self.writes != 0 {
            self.writes_before = std::mem::take(&mut self.writes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_writes_once_between_waits_is_not_waited_for() {
        let mut turn = Turn::default();
        assert_eq!(turn.note(1, false), Wake::Held, "nothing is known of it");
        for _ in 0..3 {
            turn.end();
            turn.end();
            assert_eq!(turn.note(1, false), Wake::Now);
        }
        assert_eq!(turn.note(1, false), Wake::Held, "it writes twice");
        turn.end();
        assert_eq!(turn.note(1, false), Wake::Held);
        turn.end();
        assert_eq!(turn.note(1, false), Wake::Now);
    }

    #[test]
    fn what_the_program_holds_back_waits_unless_it_is_much() {
        let mut turn = Turn::default();
        for _ in 0..3 {
            assert_eq!(turn.note(1, true), Wake::HeldBack);
            turn.end();
        }
        assert_eq!(turn.note(MUCH - 4, true), Wake::HeldBack);
        assert_eq!(turn.note(0, false), Wake::Held, "it lets go");
        assert_eq!(turn.note(1, true), Wake::Now);
    }

    #[test]
    fn much_is_not_waited_with() {
        let mut turn = Turn::default();
        assert_eq!(turn.note(MUCH - 1, false), Wake::Held);
        assert_eq!(turn.note(1, false), Wake::Now);
    }
}
