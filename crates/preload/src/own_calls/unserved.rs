//! Where the kernel does not bring a program's own system calls here.

use crate::user::{Action, Zero};

/// None are.
#[inline]
pub(crate) const fn are_served() -> bool {
    false
}

/// Nothing is begun.
pub(crate) const fn begin_thread() {}

/// Not used, as none are served.
pub(crate) fn exchange(new: Option<Action>) -> Action {
    new.unwrap_or_else(Action::zero)
}

/// Not used, as none are served.
pub(crate) const fn restorer() -> usize {
    0
}
