//! A violated invariant.
//!
//! Owns [`Violation`] and [`require`], of which the `check` of each part consists.

/// A violated invariant. This is always a bug of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the state of a connection is inconsistent: {0}")]
pub struct Violation(pub &'static str);

/// Returns `Ok` if the invariant holds.
pub(crate) fn require(holds: bool, what: &'static str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what)) }
}
