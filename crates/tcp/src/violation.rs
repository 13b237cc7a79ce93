//! An invariant that does not hold.
//!
//! Owns [`Violation`] and [`require`], which the `check` of each part is made of.

/// An invariant that does not hold. That is a fault of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the state of a connection is inconsistent: {0}")]
pub struct Violation(pub &'static str);

/// `Ok` if it holds.
pub(crate) fn require(holds: bool, what: &'static str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what)) }
}
