//! How long the engine looks for more work before it sleeps.
//!
//! Owns [`Spin`]. The loop reports to it how long each sleep was, and attaching that requests will
//! come.

/// How long to look for more work before sleeping: longer for a process that has just
/// joined, whose requests come one after the other, until a long sleep shows that they
/// have ceased. Not longer for whoever is merely busy: an engine that looks keeps a
/// processor that programs could have.
#[derive(Debug)]
pub(super) struct Spin {
    /// Microseconds as a rule; 0 if there is to be none at all.
    usual: u64,
    /// Microseconds now.
    pub(super) length: u64,
}

/// The longest that the engine looks for more work, in microseconds: about as long as a
/// processor that has gone to sleep in a virtual machine takes to be woken and to wake
/// another in turn.
const LONGEST_SPIN: u64 = 100;

impl Spin {
    pub(super) fn new(usual: u64) -> Self {
        Self {
            usual,
            length: usual,
        }
    }

    /// Requests will come soon.
    pub(super) fn lengthen(&mut self) {
        if self.usual != 0 {
            self.length = self.usual.max(LONGEST_SPIN);
        }
    }

    /// The engine has slept for so many microseconds.
    pub(super) fn slept(&mut self, length: u64) {
        if length >= LONGEST_SPIN {
            self.length = (self.length / 2).max(self.usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_expects_requests_looks_longer_until_they_cease() {
        let mut spin = Spin::new(20);
        spin.slept(1);
        assert_eq!(spin.length, 20, "busy is not expecting");
        spin.lengthen();
        spin.slept(LONGEST_SPIN - 1);
        assert_eq!(spin.length, LONGEST_SPIN);
        for expected in [50, 25, 20, 20] {
            spin.slept(LONGEST_SPIN);
            assert_eq!(spin.length, expected);
        }
        // None at all stays none; more than the longest stays as it is.
        let (mut none, mut more) = (Spin::new(0), Spin::new(500));
        none.lengthen();
        more.lengthen();
        assert_eq!((none.length, more.length), (0, 500));
    }
}
