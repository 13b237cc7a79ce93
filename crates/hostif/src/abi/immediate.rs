//! Immediate data: payload that travels in the request ring, behind the move of edges that it
//! belongs to, so that both cross in one transfer. It lies behind the descriptor's own words,
//! and in as many slots behind it as it takes.
//!
//! It is a copy. The send stream's chunks have the same bytes, as those of any payload, until
//! they are acknowledged: whoever cannot use the copy, or no longer has it, reads them there.

/// Most bytes of immediate data: with the four words of edges that are far apart, 21 slots.
pub const MAX_IMMEDIATE: usize = 1312;
