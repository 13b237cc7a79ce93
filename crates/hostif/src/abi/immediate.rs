//! Immediate data: payload that travels in the request ring, behind the move of edges that it
//! belongs to, so that both cross in one transfer. It lies in the last four words of the
//! descriptor and in as many slots behind it as it takes.
//!
//! It is a copy. The send stream's chunks have the same bytes, as those of any payload, until
//! they are acknowledged: whoever cannot use the copy, or no longer has it, reads them there.

use super::DESCRIPTOR_BYTES;

/// Words of a descriptor that its own fields take, before immediate data.
pub(crate) const FIELD_WORDS: usize = 4;
/// Where in a descriptor's slot immediate data begins.
pub(crate) const IMMEDIATE_AT: usize = FIELD_WORDS * 8;
/// Bytes of immediate data that the descriptor's own slot has.
const IN_OWN_SLOT: usize = DESCRIPTOR_BYTES - IMMEDIATE_AT;
/// Slots behind the descriptor's own that immediate data takes at most.
const MOST_SLOTS: usize = 20;
/// Most bytes of immediate data.
pub const MAX_IMMEDIATE: usize = IN_OWN_SLOT + MOST_SLOTS * DESCRIPTOR_BYTES;

/// Slots that so many bytes of immediate data take behind the descriptor's own.
#[must_use]
pub fn immediate_slots(len: u16) -> u32 {
    let beyond = usize::from(len).saturating_sub(IN_OWN_SLOT);
    beyond.div_ceil(DESCRIPTOR_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_as_they_fill() {
        for (len, slots) in [
            (0, 0),
            (32, 0),
            (33, 1),
            (96, 1),
            (97, 2),
            (MAX_IMMEDIATE, 20),
        ] {
            assert_eq!(immediate_slots(len as u16), slots, "{len}");
        }
    }
}
