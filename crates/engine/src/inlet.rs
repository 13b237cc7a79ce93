//! When the port is read, and how far.
//!
//! Each read is a system call, and the one that finds nothing costs as much as the one
//! that brings a frame. Where frames come in a row, a turn reads until there are no more.
//! Where they come one by one, as in an exchange of questions and answers, a turn takes
//! one and gives way to whom it is for, instead of asking for the next, which is not
//! there yet; and what a program asks is done before the port is looked at again.
//!
//! Owned by the engine: `turn` asks it, `rest` tells it that nothing was left to do.

/// Frames taken from the port in one turn, so that requests and timers get
/// their share.
const BURST: usize = 64;

/// What is known of the frames that come.
#[derive(Debug, Default)]
pub(crate) struct Inlet {
    /// Frames come one by one: there was nothing to do before the last.
    calm: bool,
    /// This turn took one.
    found: bool,
    /// This turn did not look.
    passed_over: bool,
}

impl Inlet {
    /// Whether this turn reads the port, in which something was `asked` or not. One
    /// turn that does not is followed by one that does.
    pub(crate) fn is_due(&mut self, asked: bool) -> bool {
        self.passed_over = self.calm && asked && !self.passed_over;
        self.found &= !self.passed_over;
        !self.passed_over
    }

    /// The most frames that this turn takes.
    pub(crate) fn most(&self) -> usize {
        if self.calm { 1 } else { BURST }
    }

    /// This turn took so many.
    pub(crate) fn took(&mut self, count: usize) {
        let found = count != 0;
        // The second in a row.
        self.calm &= !(self.found && found);
        self.found = found;
    }

    /// Whether others go before the next look at the port, although this turn did
    /// something: what comes next comes of what they do.
    pub(crate) fn gives_way(&self) -> bool {
        self.calm && (self.found || self.passed_over)
    }

    /// There was nothing to do.
    pub(crate) fn rests(&mut self) {
        self.calm = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rest_every_turn_reads_all() {
        let mut inlet = Inlet::default();
        for count in [0, 1, 64, 0] {
            assert!(inlet.is_due(true));
            assert_eq!(inlet.most(), BURST);
            inlet.took(count);
            assert!(!inlet.gives_way());
        }
    }

    #[test]
    fn an_exchange_reads_one_frame_for_each_question() {
        let mut inlet = Inlet::default();
        inlet.rests();
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
        let mut inlet = Inlet::default();
        inlet.rests();
        assert!(!inlet.is_due(true));
        assert!(inlet.is_due(true));
        inlet.took(0);
        assert!(!inlet.gives_way());
    }

    #[test]
    fn frames_in_a_row_are_read_to_the_end() {
        let mut inlet = Inlet::default();
        inlet.rests();
        for most in [1, 1, BURST] {
            assert!(inlet.is_due(false));
            assert_eq!(inlet.most(), most);
            inlet.took(1);
        }
        assert!(!inlet.gives_way());
        assert!(inlet.is_due(true), "nor do requests put them off");
    }
}
