//! The notices that MSG_ZEROCOPY asks for: that the bytes of a send are not needed any
//! more. Before the call returns they are copied, or lie where what the program writes later
//! does not reach them: so each is due at once, and only numbers are kept, with whether a copy
//! was made: the host's alone, in the socket's block. `sockets` counts and takes them,
//! readiness looks whether there are any.

use super::{BlockFlags, SocketBlock};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// That sends are done with their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The numbers of the first and the last of them, from 0 on for each socket and modulo 2^32.
    pub sends: RangeInclusive<u32>,
    /// Bytes of one of them at least were copied.
    pub copied: bool,
}

/// In the word's lower half, beside how many notices were not taken: one of those sends was
/// copied.
const COPIED: u32 = 1 << 31;

/// What the word has.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// The number of the next send.
    next: u32,
    /// How many notices were not taken; less than [`COPIED`].
    count: u32,
    /// Whether one of those sends was copied.
    copied: bool,
}

impl Pending {
    fn decode(word: u64) -> Self {
        let low = word as u32;
        Self {
            next: (word >> 32) as u32,
            count: low & !COPIED,
            copied: low & COPIED != 0,
        }
    }

    fn encode(self) -> u64 {
        let copied = if self.copied { COPIED } else { 0 };
        u64::from(self.next) << 32 | u64::from(self.count | copied)
    }
}

impl SocketBlock {
    /// Where they stand: of datagrams, and of streams.
    fn notices_word(&self) -> &AtomicU64 {
        if self.flags().contains(BlockFlags::DATAGRAM) {
            &self.snd.sent_or_notices
        } else {
            &self.snd.sending_or_notices
        }
    }

    /// Whether there are notices to be taken.
    pub fn has_notices(&self) -> bool {
        Pending::decode(self.notices_word().load(Ordering::Acquire)).count != 0
    }

    /// Another send is done with its bytes; `copied` says that some of them were copied.
    pub fn add_notice(&self, copied: bool) {
        let added = |word: u64| {
            let was = Pending::decode(word);
            let count = was.count + 1;
            let now = Pending {
                next: was.next.wrapping_add(1),
                count,
                copied: was.copied || copied,
            };
            (count < COPIED).then_some(now.encode())
        };
        let _ = self
            .notices_word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, added);
    }

    /// Takes the notices that there are, as one, which is about all of those sends.
    pub fn take_notice(&self) -> Option<Notice> {
        let taken = |word: u64| {
            let was = Pending::decode(word);
            let none = Pending {
                next: was.next,
                ..Pending::default()
            };
            (was.count != 0).then_some(none.encode())
        };
        let word = self
            .notices_word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
        let was = Pending::decode(word.ok()?);
        Some(Notice {
            sends: was.next.wrapping_sub(was.count)..=was.next.wrapping_sub(1),
            copied: was.copied,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketState;

    fn notice(sends: RangeInclusive<u32>, copied: bool) -> Option<Notice> {
        Some(Notice { sends, copied })
    }

    fn notices(flags: BlockFlags) {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Connected, flags);
        assert_eq!(block.take_notice(), None);
        block.add_notice(true);
        assert!(block.has_notices() && block.has_error());
        assert_eq!(block.take_notice(), notice(0..=0, true));
        assert!(!block.has_notices() && !block.has_error());
        block.add_notice(false);
        block.add_notice(false);
        assert_eq!(block.take_notice(), notice(1..=2, false));
        assert_eq!(block.take_notice(), None);
        // The numbers begin anew behind the last.
        let last = Pending {
            next: u32::MAX,
            ..Pending::default()
        };
        block.notices_word().store(last.encode(), Ordering::Relaxed);
        block.add_notice(true);
        assert_eq!(block.take_notice(), notice(u32::MAX..=u32::MAX, true));
        block.add_notice(false);
        assert_eq!(block.take_notice(), notice(0..=0, false));
        block.begin(SocketState::Open, flags);
        assert!(!block.has_notices());
    }

    #[test]
    fn notices_are_taken_together_and_once() {
        notices(BlockFlags::empty());
        notices(BlockFlags::DATAGRAM);
    }

    /// A notice is about several sends if nobody has taken those of the first: it says that
    /// none of them was copied, or that one was.
    #[test]
    fn a_notice_of_several_sends_says_that_one_was_copied() {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Connected, BlockFlags::empty());
        let mut first = 0;
        for copies in [[false, false], [false, true], [true, false], [true, true]] {
            copies.iter().for_each(|copied| block.add_notice(*copied));
            let one_was = copies.contains(&true);
            assert_eq!(block.take_notice(), notice(first..=first + 1, one_was));
            first += 2;
        }
    }

    /// More are not counted, so that what was noted stays.
    #[test]
    fn notices_that_nobody_takes_are_counted_as_far_as_can_be() {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Connected, BlockFlags::empty());
        let most = Pending {
            next: 5,
            count: COPIED - 1,
            copied: false,
        };
        block.notices_word().store(most.encode(), Ordering::Relaxed);
        block.add_notice(true);
        let first = 5u32.wrapping_sub(COPIED - 1);
        assert_eq!(block.take_notice(), notice(first..=4, false));
    }

    #[test]
    fn what_datagrams_leave_with_is_no_notice() {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        block.begin(SocketState::Open, BlockFlags::DATAGRAM);
        block.change_sending(false, |sending| sending.hops = Some(7));
        assert!(!block.has_notices());
    }
}
