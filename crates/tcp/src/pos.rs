//! Positions in a stream.
//!
//! Owns [`Pos`] and its special values. Internally, sequence numbers are 64-bit
//! positions, compared as plain integers; 32-bit sequence numbers exist only on the wire
//! (`SendSide::seq`, `ReceiveSide::pos` and similar methods convert).

/// A position in a stream: the number of a byte; -1 is the SYN.
pub(crate) type Pos = i64;

/// The position of the SYN.
pub(crate) const SYN_POS: Pos = -1;
/// No position; greater than every other.
pub(crate) const NO_POS: Pos = i64::MAX;
/// Bound for all positions: no stream is this long.
pub(crate) const MAX_POS: Pos = Pos::MAX / 2;
