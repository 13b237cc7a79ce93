//! When the port is read, and how far.
//!
//! Each read is a system call, and the one that finds nothing costs as much as the one
//! that brings a frame. As a rule a turn reads until there are no more. Where frames
//! come one by one for a while, as in one exchange of questions and answers, a turn
//! takes one and gives way to whom it is for, instead of asking for the next, which is
//! not there yet; and what a program asks is done before the port is looked at again.
//! From time to time it reads to the end all the same, as more may have come by then.
//!
//! Giving way costs more than a read that finds nothing, if nobody takes the turn. Where
//! the peer is on the engine's own processor, the write of a frame that wakes it lets it
//! run at once, and its next frame is there before the engine has so much as returned from
//! that write. So it is tried from time to time whether a read right after an answer finds
//! one, and done so as long as it does.
//!
//! Owned by the engine: `turn` asks it, `rest` reports to it that nothing was left to do.

/// Frames taken from the port in one turn, so that requests and timers get
/// their share.
const BURST: usize = 64;

/// After so many frames that came alone, the next is taken to come alone, too; so many
/// are then taken without a look behind them.
const TRUST: u8 = 16;

/// After a read that came too early, an answer is followed by giving way before it is tried
/// again, and after each further one twice as many, up to so many: a read in vain is then
/// lost among them. On the peer's own processor it is too early now and then, too, when the
/// scheduler leaves the engine to itself.
const MOST_YIELDS: u8 = 64;

/// What is known of the frames that come.
#[derive(Debug, Default)]
pub(crate) struct ReceivePolicy {
    /// Frames in a row that came alone, as seen by reading on; up to [`TRUST`].
    alone: u8,
    /// Frames taken since without reading on.
    unseen: u8,
    /// There was nothing to do before this.
    rested: bool,
    /// This turn took one, and no more.
    found: bool,
    /// This turn did not look.
    passed_over: bool,
    /// The last look found the end of what was there.
    at_end: bool,
    /// The turn after this one follows at once.
    follows_at_once: bool,
    /// Answers to be followed by giving way, before it is tried again to read at once.
    yields_left: u8,
    /// How many those were after the last read that came too early; 0 as long as what is
    /// read at once finds the next frame.
    yields: u8,
}

impl ReceivePolicy {
    /// Whether frames come one by one.
    fn is_calm(&self) -> bool {
        self.rested && self.alone == TRUST
    }

    /// Whether this turn reads the port, in which something was `asked` or not. One
    /// turn that does not is followed by one that does.
    pub(crate) fn is_due(&mut self, asked: bool) -> bool {
        self.passed_over = self.is_calm() && asked && !self.passed_over;
        self.found &= !self.passed_over;
        !self.passed_over
    }

    /// The most frames that this turn takes.
    pub(crate) fn most(&self) -> usize {
        if self.is_calm() && self.unseen < TRUST {
            1
        } else {
            BURST
        }
    }

    /// This turn took so many of the [`most`](Self::most) that it might.
    pub(crate) fn took(&mut self, count: usize, most: usize) {
        if std::mem::take(&mut self.follows_at_once) {
            self.yields = match count {
                0 => (2 * self.yields).clamp(1, MOST_YIELDS),
                _ => 0,
            };
            self.yields_left = self.yields;
        }
        if count == 0 {
            self.found = false;
            return;
        }
        let one = count == 1 && most == 1;
        if one {
            // The second in a row.
            self.rested &= !self.found;
            self.unseen += 1;
        } else if count == 1 {
            self.alone = (self.alone + 1).min(TRUST);
            self.unseen = 0;
        } else {
            self.alone = 0;
        }
        self.found = count == 1;
    }

    /// Whether others go before the next look at the port, although this turn did
    /// something: what comes next comes of what they do.
    pub(crate) fn gives_way(&mut self) -> bool {
        if !self.is_calm() {
            return false;
        }
        if self.passed_over {
            self.follows_at_once = self.yields_left == 0;
            self.yields_left = self.yields_left.saturating_sub(1);
        }
        self.found || (self.passed_over && !self.follows_at_once)
    }

    /// The last look found no more.
    pub(crate) fn reached_end(&mut self, found_end: bool) {
        self.at_end = found_end;
    }

    /// Whether a turn that did something and left nothing to do is followed by no other look
    /// than one before which others have had the processor, or the kernel was asked what
    /// there is: all was taken, and in `crowded` times it is slept at once. Frames that come
    /// one by one have an order of their own ([`gives_way`](Self::gives_way)).
    pub(crate) fn has_seen_all(&self, crowded: bool) -> bool {
        self.at_end && (crowded || !self.is_calm())
    }

    /// There was nothing to do, or nothing is left.
    pub(crate) fn rests(&mut self) {
        self.rested = true;
        self.found = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn takes so many.
    fn took(receive_policy: &mut ReceivePolicy, count: usize) {
        let most = receive_policy.most();
        receive_policy.took(count, most);
    }

    /// After a long exchange of single frames, and a rest.
    fn calm() -> ReceivePolicy {
        let mut receive_policy = ReceivePolicy::default();
        for _ in 0..TRUST {
            receive_policy.rests();
            assert!(receive_policy.is_due(true));
            assert_eq!(receive_policy.most(), BURST);
            took(&mut receive_policy, 1);
            assert!(receive_policy.is_due(false));
            took(&mut receive_policy, 0);
            assert!(!receive_policy.gives_way());
        }
        receive_policy.rests();
        receive_policy
    }

    #[test]
    fn an_exchange_reads_one_frame_for_each_question() {
        let mut receive_policy = calm();
        for _ in 0..3 {
            assert!(receive_policy.is_due(false));
            assert_eq!(receive_policy.most(), 1);
            took(&mut receive_policy, 1);
            assert!(receive_policy.gives_way());
            assert!(!receive_policy.is_due(true), "the program's answer");
            assert!(!receive_policy.gives_way(), "the peer's next is there");
        }
    }

    #[test]
    fn a_read_that_came_too_early_is_tried_again_later() {
        let mut receive_policy = calm();
        let mut answer = |next_is_there: bool| {
            assert!(!receive_policy.is_due(true));
            let gave_way = receive_policy.gives_way();
            assert!(receive_policy.is_due(false));
            if !gave_way && !next_is_there {
                took(&mut receive_policy, 0);
                assert!(!receive_policy.gives_way());
                receive_policy.rests();
                assert!(receive_policy.is_due(false));
            }
            // To the end, from time to time: there is none behind it.
            took(&mut receive_policy, 1);
            receive_policy.rests();
            gave_way
        };
        for yields_left in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(!answer(false));
            for _ in 0..yields_left {
                assert!(answer(false));
            }
        }
        for _ in 0..3 {
            assert!(!answer(true));
        }
        assert!(!answer(false));
        assert!(answer(true));
        for _ in 0..3 {
            assert!(!answer(true));
        }
    }

    #[test]
    fn requests_put_it_off_for_one_turn() {
        let mut receive_policy = calm();
        assert!(!receive_policy.is_due(true));
        assert!(receive_policy.is_due(true));
        took(&mut receive_policy, 0);
        assert!(!receive_policy.gives_way());
    }

    #[test]
    fn frames_in_a_row_are_read_to_the_end() {
        let mut receive_policy = calm();
        for most in [1, 1, BURST] {
            assert!(receive_policy.is_due(false));
            assert_eq!(receive_policy.most(), most);
            took(&mut receive_policy, 1);
        }
        assert!(!receive_policy.gives_way());
        assert!(receive_policy.is_due(true), "nor do requests put them off");
    }

    #[test]
    fn what_was_read_to_its_end_is_not_looked_at_twice() {
        let mut receive_policy = ReceivePolicy::default();
        assert!(!receive_policy.has_seen_all(true), "nothing was looked at");
        receive_policy.reached_end(true);
        assert!(receive_policy.has_seen_all(false) && receive_policy.has_seen_all(true));
        receive_policy.reached_end(false);
        assert!(!receive_policy.has_seen_all(true), "there may be more");
        let mut receive_policy = calm();
        receive_policy.reached_end(true);
        assert!(receive_policy.has_seen_all(true));
        assert!(
            !receive_policy.has_seen_all(false),
            "the answer comes first"
        );
    }

    #[test]
    fn a_queue_behind_the_first_is_found_in_time() {
        let mut receive_policy = calm();
        for _ in 0..TRUST {
            assert!(receive_policy.is_due(false));
            assert_eq!(receive_policy.most(), 1);
            took(&mut receive_policy, 1);
            assert!(!receive_policy.is_due(true));
        }
        assert!(receive_policy.is_due(false));
        assert_eq!(receive_policy.most(), BURST);
        took(&mut receive_policy, 5);
        assert!(!receive_policy.gives_way());
        receive_policy.rests();
        assert!(receive_policy.is_due(true));
        assert_eq!(receive_policy.most(), BURST);
    }
}
