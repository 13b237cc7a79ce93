//! When the port is read, and how far.
//!
//! Each read is a system call, and the one that finds nothing costs as much as the one
//! that brings a frame. As a rule a turn reads until there are no more. Where frames
//! come one by one for a while, as in one exchange of questions and answers, a turn
//! takes one and gives way to whom it is for, instead of asking for the next, which is
//! not there yet; and what a program asks is done before the port is looked at again.
//! From time to time it reads to the end all the same, as more may have come by then.
//!
//! Owned by the engine: `turn` asks it, `rest` tells it that nothing was left to do.

/// Frames taken from the port in one turn, so that requests and timers get
/// their share.
const BURST: usize = 64;

/// After so many frames that came alone, the next is taken to come alone, too; so many
/// are then taken without a look behind them.
const TRUST: u8 = 16;

/// What is known of the frames that come.
#[derive(Debug, Default)]
pub(crate) struct Inlet {
    /// Frames in a row that came alone, as seen by reading on; up to [`TRUST`].
    alone: u8,
    /// Frames taken since without reading on.
    unseen: u8,
    /// There was nothing to do before this.
    rested: bool,
    /// This turn took one, and did not read on.
    found: bool,
    /// This turn did not look.
    passed_over: bool,
}

impl Inlet {
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

    /// This turn took so many.
    pub(crate) fn took(&mut self, count: usize) {
        let one = self.most() == 1 && count == 1;
        if one {
            // The second in a row.
            self.rested &= !self.found;
            self.unseen += 1;
        } else if count == 1 {
            self.alone = (self.alone + 1).min(TRUST);
            self.unseen = 0;
        } else if count > 1 {
            self.alone = 0;
        }
        self.found = one;
    }

    /// Whether others go before the next look at the port, although this turn did
    /// something: what comes next comes of what they do.
    pub(crate) fn gives_way(&self) -> bool {
        self.is_calm() && (self.found || self.passed_over)
    }

    /// There was nothing to do.
    pub(crate) fn rests(&mut self) {
        self.rested = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a long exchange of single frames, and a rest.
    fn calm() -> Inlet {
        let mut inlet = Inlet::default();
        for _ in 0..TRUST {
            inlet.rests();
            assert!(inlet.is_due(true));
            assert_eq!(inlet.most(), BURST);
            inlet.took(1);
            assert!(inlet.is_due(false));
            inlet.took(0);
            assert!(!inlet.gives_way());
        }
        inlet.rests();
        inlet
    }

    #[test]
    fn an_exchange_reads_one_frame_for_each_question() {
        let mut inlet = calm();
        for _ in 0..3 {
            assert!(inlet.is_due(false));
            assert_eq!(inlet.most(), 1);
            inlet.took(1);
            assert!(inlet.gives_way());
            assert!(!inlet.is_due(true), "the program's answer");
            assert!(inlet.gives_way());
        }
    }

    #[test]
    fn requests_put_it_off_for_one_turn() {
        let mut inlet = calm();
        assert!(!inlet.is_due(true));
        assert!(inlet.is_due(true));
        inlet.took(0);
        assert!(!inlet.gives_way());
    }

    #[test]
    fn frames_in_a_row_are_read_to_the_end() {
        let mut inlet = calm();
        for most in [1, 1, BURST] {
            assert!(inlet.is_due(false));
            assert_eq!(inlet.most(), most);
            inlet.took(1);
        }
        assert!(!inlet.gives_way());
        assert!(inlet.is_due(true), "nor do requests put them off");
    }

    #[test]
    fn a_queue_behind_the_first_is_found_in_time() {
        let mut inlet = calm();
        for _ in 0..TRUST {
            assert!(inlet.is_due(false));
            assert_eq!(inlet.most(), 1);
            inlet.took(1);
            assert!(!inlet.is_due(true));
        }
        assert!(inlet.is_due(false));
        assert_eq!(inlet.most(), BURST);
        inlet.took(5);
        assert!(!inlet.gives_way());
        inlet.rests();
        assert!(inlet.is_due(true));
        assert_eq!(inlet.most(), BURST);
    }
}
