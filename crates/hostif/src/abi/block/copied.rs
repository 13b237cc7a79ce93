//! The notices that MSG_ZEROCOPY asks for: that the bytes of a send are not needed any
//! more. They are copied before the call returns, so each is due at once, and only numbers
//! are kept: the host's alone, in the socket's block. `sockets` counts and takes them,
//! readiness looks whether there are any.

use super::{BlockFlags, SocketBlock};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// The word's halves: the number of the next send, and of the first whose notice was not
/// taken.
fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn join(next: u32, first: u32) -> u64 {
    u64::from(next) << 32 | u64::from(first)
}

impl SocketBlock {
    /// A word that the sending half has no other use for: of datagrams, and of streams.
    fn copied_word(&self) -> &AtomicU64 {
        if self.flags().contains(BlockFlags::DATAGRAM) {
            &self.snd.urgent_come
        } else {
            &self.snd.urgent
        }
    }

    /// Whether there are notices to be taken.
    pub fn has_copied(&self) -> bool {
        let (next, first) = split(self.copied_word().load(Ordering::Acquire));
        next != first
    }

    /// Another send is done with its bytes.
    pub fn note_copied(&self) {
        let counted = |word: u64| {
            let (next, first) = split(word);
            // All 2^32 numbers not taken would look as none.
            let next = next.wrapping_add(1);
            (next != first).then_some(join(next, first))
        };
        let _ = self
            .copied_word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, counted);
    }

    /// Takes the notices that there are: the numbers of the first and the last send that
    /// they are about, from 0 on for each socket and modulo 2^32.
    pub fn take_copied(&self) -> Option<RangeInclusive<u32>> {
        let taken = |word: u64| {
            let (next, first) = split(word);
            (next != first).then_some(join(next, next))
        };
        let word = self
            .copied_word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
        let (next, first) = split(word.ok()?);
        Some(first..=next.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketState;

    fn notices(flags: BlockFlags) {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Connected, flags);
        assert_eq!(block.take_copied(), None);
        block.note_copied();
        assert!(block.has_copied() && block.has_error());
        assert_eq!(block.take_copied(), Some(0..=0));
        assert!(!block.has_copied() && !block.has_error());
        block.note_copied();
        block.note_copied();
        assert_eq!(block.take_copied(), Some(1..=2));
        assert_eq!(block.take_copied(), None);
        // The numbers begin anew behind the last.
        block
            .copied_word()
            .store(join(u32::MAX, u32::MAX), Ordering::Relaxed);
        block.note_copied();
        assert_eq!(block.take_copied(), Some(u32::MAX..=u32::MAX));
        block.note_copied();
        assert_eq!(block.take_copied(), Some(0..=0));
        block.begin(SocketState::Open, flags);
        assert!(!block.has_copied());
    }

    #[test]
    fn notices_are_taken_together_and_once() {
        notices(BlockFlags::empty());
        notices(BlockFlags::DATAGRAM);
    }

    #[test]
    fn what_datagrams_leave_with_is_no_notice() {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Open, BlockFlags::DATAGRAM);
        block.change_sending(false, |sending| sending.hops = Some(7));
        assert!(!block.has_copied());
    }
}
