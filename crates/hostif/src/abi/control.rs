//! A channel's control block: who has the channel, the indices of its two rings, and the
//! mailbox for answers that do not fit a descriptor.

use super::inventory::{
    Metered, Sides, Word, claimed_indices, hosts, indices, of, unused, word, words,
};
use longshore_ring::spsc::Indices;
use longshore_ring::{Shared, SharedLock};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a channel's mailbox.
pub const MAILBOX_BYTES: usize = 640;

/// Who has a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ChannelState {
    /// Nobody.
    Free = 0,
    /// A process that is about to fork keeps it for its child.
    Reserved = 1,
    /// A child took it and wrote its pid; the engine has yet to see it.
    Claimed = 2,
    /// In use, its process watched by the engine.
    Open = 3,
}

/// A channel's control block in shared memory.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ChannelControl {
    state: AtomicU32,
    /// The process that has it; while reserved, the parent. A child that the engine
    /// cannot know by its pid has [`REGISTERED`] and the channel's number here.
    pub pid: AtomicU32,
    /// Whether its process has taken hold of all that it inherited through `exec`.
    inherited: AtomicU32,
    /// Counts its reservations, so that one can be told from the next.
    pub reservations: AtomicU32,
    /// The child for which it is reserved, once its parent knows, or the child itself says so:
    /// which reservation, and what stands for the child as in `pid`.
    child: AtomicU64,
    /// Held by the thread that asks the engine something over the connection by which this
    /// channel's process joined, or one of its children.
    pub asking: SharedLock,
    /// Up to which request its process has sent something to an own socket of the engine.
    under_way: AtomicU32,
    _reserved: [AtomicU32; 8],
    pub(crate) requests: Indices,
    pub(crate) completions: Indices,
    /// Where the engine puts answers that do not fit a descriptor. One
    /// request at a time may ask for one.
    mailbox: [AtomicU64; MAILBOX_BYTES / 8],
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for ChannelControl {}

impl ChannelControl {
    /// Its words.
    pub(super) const WORDS: &[Word] = words!(ChannelControl {
        state: PROCESSES,
        pid: PROCESSES,
        inherited: PROCESSES,
        reservations: word(Sides::HOST, Sides::AGENT, Metered::Inside),
        child: PROCESSES,
        asking: hosts(),
        under_way: hosts(),
        _reserved: unused(),
        requests: of(&const { claimed_indices(Sides::HOST, Sides::ADAPTER) }),
        completions: of(&const { indices(Sides::ADAPTER, Sides::HOST) }),
        mailbox: word(Sides::ADAPTER, Sides::HOST, Metered::Transfer),
    });
}

/// What processes and the host agent say to each other.
const PROCESSES: Word = {
    let both = Sides::HOST.union(Sides::AGENT);
    word(both, both, Metered::Inside)
};

/// In [`ChannelControl::pid`]: the child lives in another namespace of pids than the
/// engine, which knows it by the descriptor of
/// [`Message::Child`](crate::attach::Message::Child).
pub const REGISTERED: u32 = 1 << 31;

impl ChannelControl {
    /// Who has it.
    pub fn state(&self) -> ChannelState {
        match self.state.load(Ordering::Acquire) {
            1 => ChannelState::Reserved,
            2 => ChannelState::Claimed,
            3 => ChannelState::Open,
            _ => ChannelState::Free,
        }
    }

    /// Goes from one state to another, if it is still in the first.
    pub fn change_state(&self, from: ChannelState, to: ChannelState) -> bool {
        self.state
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Sets the state. For the engine, and for a parent's reservation.
    pub fn set_state(&self, state: ChannelState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// A process that is about to fork keeps it for its child, if nobody has it.
    pub fn reserve(&self) -> bool {
        if self.state() != ChannelState::Free {
            return false;
        }
        // Counted before it is there: otherwise the child of the reservation before it, which may
        // have ended, would be taken for the child of this one for a moment.
        self.reservations.fetch_add(1, Ordering::AcqRel);
        self.change_state(ChannelState::Free, ChannelState::Reserved)
    }

    /// Whether it is kept for a child, by the reservation of this number.
    pub fn is_reserved_as(&self, reservation: u32) -> bool {
        self.state() == ChannelState::Reserved
            && self.reservations.load(Ordering::Acquire) == reservation
    }

    /// Names the child for which its reservation of this number is, by its pid or by what stands
    /// for it in [`ChannelControl::pid`].
    pub fn name_child(&self, reservation: u32, name: u32) {
        let word = u64::from(reservation) << 32 | u64::from(name);
        self.child.store(word, Ordering::Release);
    }

    /// The name of the child for which the present reservation is, if it is known.
    pub fn child(&self) -> Option<u32> {
        let word = self.child.load(Ordering::Acquire);
        let present = u64::from(self.reservations.load(Ordering::Acquire));
        (word as u32 != 0 && word >> 32 == present).then_some(word as u32)
    }

    /// Its process has taken hold of what it inherited, and let go of the rest: nobody has
    /// to keep anything for it any more.
    pub fn note_inherited(&self) {
        self.inherited.store(1, Ordering::Release);
    }

    /// Whether its process has said so.
    pub fn has_inherited(&self) -> bool {
        self.inherited.load(Ordering::Acquire) != 0
    }

    /// How far requests were published, counted modulo 2^32.
    pub fn requested(&self) -> u32 {
        self.requests.published()
    }

    /// Whether the engine has handled all requests up to `number`, and published all that
    /// they led to.
    pub fn has_handled(&self, number: u32) -> bool {
        self.requests
            .given_back()
            .wrapping_sub(number)
            .cast_signed()
            >= 0
    }

    /// The last of its requests, all that are published, sends something to an own socket of
    /// the engine.
    pub(crate) fn note_under_way(&self) {
        self.under_way.store(self.requested(), Ordering::Release);
    }

    /// The last request of which that was said, if the engine has not handled it.
    pub(crate) fn under_way(&self) -> Option<u32> {
        let number = self.under_way.load(Ordering::Acquire);
        (!self.has_handled(number)).then_some(number)
    }

    /// Nobody waits any more for what was said of this request.
    pub(crate) fn forget_under_way(&self, number: u32) {
        let handled = self.requests.given_back();
        let _ =
            self.under_way
                .compare_exchange(number, handled, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether there are completions that the process has not taken and applied.
    pub fn has_completions(&self) -> bool {
        !self.completions.are_even()
    }

    /// Empties both rings, for a new process that has yet to settle. Only while nobody uses them.
    pub fn reset(&self) {
        self.requests.reset();
        self.completions.reset();
        self.under_way.store(0, Ordering::Relaxed);
        self.inherited.store(0, Ordering::Release);
    }

    /// Writes an answer to the mailbox; what does not fit is cut off. Returns
    /// how many bytes were written.
    pub fn write_mailbox(&self, bytes: &[u8]) -> usize {
        for (word, chunk) in self.mailbox.iter().zip(bytes.chunks(8)) {
            let mut buf = [0; 8];
            buf.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            word.store(u64::from_le_bytes(buf), Ordering::Relaxed);
        }
        bytes.len().min(MAILBOX_BYTES)
    }

    /// Copies the mailbox out, after the `Done` that announced it.
    pub fn read_mailbox(&self) -> [u8; MAILBOX_BYTES] {
        let mut bytes = [0; MAILBOX_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(&self.mailbox) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Geometry;
    use crate::transport::Arena;

    #[test]
    fn a_child_is_known_by_the_reservation_that_is_for_it() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let control = arena.control(3);
        assert_eq!(control.child(), None);
        control.reservations.store(5, Ordering::Relaxed);
        for (reservation, pid, child) in [(5, 77, Some(77)), (4, 77, None), (5, 0, None)] {
            control.name_child(reservation, pid);
            assert_eq!(control.child(), child, "{reservation} {pid}");
        }
    }

    #[test]
    fn a_channel_is_reserved_as_long_as_that_lasts() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let control = arena.control(3);
        assert!(control.reserve());
        let number = control.reservations.load(Ordering::Relaxed);
        assert!(control.is_reserved_as(number) && !control.is_reserved_as(number + 1));
        control.set_state(ChannelState::Free);
        assert!(!control.is_reserved_as(number));
        assert!(control.reserve());
        assert!(!control.is_reserved_as(number) && control.is_reserved_as(number + 1));
    }

    #[test]
    fn a_channel_that_is_reset_has_empty_rings_and_inherits_nothing() {
        use crate::abi::Completion;
        use crate::adapter::AdapterChannel;
        let arena = std::sync::Arc::new(Arena::create(Geometry::SMALL).unwrap());
        let mut adapter = AdapterChannel::new(3);
        assert_eq!(adapter.index(), 3);
        adapter.put(&arena, &Completion::More).unwrap();
        adapter.publish(&arena);
        let mut host = crate::HostChannel::new(arena.clone(), 3);
        let socket = crate::SocketId {
            index: 1,
            generation: 1,
        };
        host.put(&crate::Request::Subscribe { socket }).unwrap();
        host.publish(&longshore_ring::Doorbell::new().unwrap(), false);
        let control = arena.control(3);
        control.note_under_way();
        control.note_inherited();
        assert!(control.has_completions() && control.requested() == 1);
        assert!(control.under_way().is_some() && control.has_inherited());
        control.reset();
        assert!(!control.has_completions() && control.requested() == 0);
        assert!(control.under_way().is_none() && !control.has_inherited());
    }
}
