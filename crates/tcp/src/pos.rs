//! Positions in a stream.
//!
//! Owns [`Pos`] and what some of them stand for. Inside, sequence numbers are 64-bit
//! positions, compared as plain numbers; 32-bit numbers exist only on the wire
//! (`SendSide::seq`, `ReceiveSide::pos` and their like convert).

/// A position in a stream: the byte of that number; -1 is the SYN.
pub(crate) type Pos = i64;

/// The position of the SYN.
pub(crate) const SYN_POS: Pos = -1;
/// No position: later than every other.
pub(crate) const NO_POS: Pos = i64::MAX;
/// No stream comes this far.
pub(crate) const MAX_POS: Pos = Pos::MAX / 2;
