//! A channel: the pair of rings between one process and the engine.

use crate::{Arena, Completion, Request};
use longshore_ring::spsc::{Consumer, Full, Indices, Producer};
use longshore_ring::{Corrupt, Doorbell, Shared, SharedLock, Waiter};
use std::sync::Arc;
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
    /// cannot know by its pid has [`INTRODUCED`] and the channel's number here.
    pub pid: AtomicU32,
    /// Whether its process has taken hold of all that it inherited through `exec`.
    settled: AtomicU32,
    /// Counts its reservations, so that one can be told from the next.
    pub reservations: AtomicU32,
    /// The child for which it is reserved, once its parent knows: which reservation, and
    /// the child's pid.
    child: AtomicU64,
    /// Held by the thread that asks the engine something over the connection by which this
    /// channel's process joined, or one of its children.
    pub asking: SharedLock,
    _reserved: [AtomicU32; 9],
    requests: Indices,
    completions: Indices,
    /// Where the engine puts answers that do not fit a descriptor. One
    /// request at a time may ask for one.
    mailbox: [AtomicU64; MAILBOX_BYTES / 8],
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for ChannelControl {}

/// In [`ChannelControl::pid`]: the child lives in another namespace of pids than the
/// engine, which knows it by the descriptor of
/// [`Message::Child`](crate::attach::Message::Child).
pub const INTRODUCED: u32 = 1 << 31;

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

    /// The parent names the child for which its reservation of this number is.
    pub fn name_child(&self, reservation: u32, pid: u32) {
        let word = u64::from(reservation) << 32 | u64::from(pid);
        self.child.store(word, Ordering::Release);
    }

    /// The pid of the child for which the present reservation is, if its parent knows it.
    pub fn child(&self) -> Option<u32> {
        let word = self.child.load(Ordering::Acquire);
        let present = u64::from(self.reservations.load(Ordering::Acquire));
        (word as u32 != 0 && word >> 32 == present).then_some(word as u32)
    }

    /// Its process has taken hold of what it inherited, and let go of the rest: nobody has
    /// to keep anything for it any more.
    pub fn settle(&self) {
        self.settled.store(1, Ordering::Release);
    }

    /// Whether its process has said so.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire) != 0
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

    /// Whether there are completions that the process has not taken and applied.
    pub fn has_completions(&self) -> bool {
        !self.completions.are_even()
    }

    /// Empties both rings, for a new process that has yet to settle. Only while nobody uses them.
    pub fn reset(&self) {
        self.requests.reset();
        self.completions.reset();
        self.settled.store(0, Ordering::Release);
    }

    /// Writes an answer to the mailbox; what does not fit is cut off. Returns
    /// how many bytes were written.
    pub fn write_mailbox(&self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(MAILBOX_BYTES);
        for (word, chunk) in self.mailbox.iter().zip(bytes[..len].chunks(8)) {
            let mut buf = [0; 8];
            buf[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(buf), Ordering::Relaxed);
        }
        len
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

/// Why a descriptor was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The ring is full: the other side has to catch up first.
    #[error("the descriptor ring is full")]
    Full,
    /// The other side broke the ring.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

fn staged(result: Result<Result<(), Full>, Corrupt>) -> Result<(), PutError> {
    result?.map_err(|Full| PutError::Full)
}

/// The host's end: puts requests, gets completions.
#[derive(Debug)]
pub struct HostChannel {
    arena: Arc<Arena>,
    index: u32,
    requests: Producer,
    completions: Consumer,
}

impl HostChannel {
    /// The host's end of channel `index`, whose rings are empty.
    pub fn new(arena: Arc<Arena>, index: u32) -> Self {
        Self {
            arena,
            index,
            requests: Producer::new(),
            completions: Consumer::new(),
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Stages a request. It is on its way with the next `publish`.
    ///
    /// # Errors
    /// [`PutError::Full`] if the engine has to catch up first.
    pub fn put(&mut self, request: &Request) -> Result<(), PutError> {
        let ring = &self.arena.control(self.index).requests;
        staged(self.requests.stage(
            ring,
            self.arena.request_slots(self.index),
            &request.encode(),
        ))
    }

    /// How many requests are staged.
    pub fn staged(&self) -> u32 {
        self.requests.staged()
    }

    /// Sends what is staged. If the engine sleeps and `wake`, wakes it;
    /// otherwise it sees the requests whenever it next looks.
    pub fn publish(&mut self, doorbell: &Doorbell, wake: bool) {
        let control = self.arena.control(self.index);
        if self.requests.publish(&control.requests) != 0 {
            self.flag();
        }
        if wake {
            Waiter::fence();
            self.arena.header().engine.wake(Some(doorbell));
        }
    }

    /// Has the engine go on with what it has more to tell ([`Completion::More`]), now that
    /// there is room for it: after [`HostChannel::release`].
    pub fn ask_for_more(&mut self, doorbell: &Doorbell) {
        self.flag();
        self.publish(doorbell, true);
    }

    /// Makes the engine look at this channel.
    pub fn flag(&self) {
        let pending = &self.arena.header().requests_pending;
        pending.channels[self.index as usize / 64]
            .fetch_or(1 << (self.index % 64), Ordering::AcqRel);
        pending.any.store(1, Ordering::Release);
    }

    /// Takes the next completion. `Some(None)` is one that means nothing and
    /// was passed over.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken.
    pub fn get(&mut self) -> Result<Option<Option<Completion>>, Corrupt> {
        let ring = &self.arena.control(self.index).completions;
        let message = self
            .completions
            .take(ring, self.arena.completion_slots(self.index))?;
        Ok(message.map(|m| Completion::decode(&m).ok()))
    }

    /// Gives the room of all completions taken back to the engine.
    pub fn release(&mut self) {
        self.completions
            .release(&self.arena.control(self.index).completions);
    }

    /// Whether completions wait.
    pub fn pending(&self) -> bool {
        self.completions
            .pending(&self.arena.control(self.index).completions)
    }
}

/// Places of the completion ring that moves of edges leave free: for answers, and for the
/// word that there is more.
const KEPT_FOR_ANSWERS: u32 = 16;
/// Those of them that answers leave free.
const KEPT_FOR_MORE: u32 = 1;

/// The adapter's end: gets requests, puts completions.
#[derive(Debug)]
pub struct AdapterChannel {
    index: u32,
    requests: Consumer,
    completions: Producer,
    /// The last [`Completion::More`], by its number among the completions.
    more: Option<u32>,
}

impl AdapterChannel {
    /// The adapter's end of channel `index`, whose rings are empty.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            requests: Consumer::new(),
            completions: Producer::new(),
            more: None,
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Takes the next request's message. Decode it with [`Request::decode`].
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken: the process's channel has to go.
    pub fn get(&mut self, arena: &Arena) -> Result<Option<longshore_ring::spsc::Message>, Corrupt> {
        let ring = &arena.control(self.index).requests;
        self.requests.take(ring, arena.request_slots(self.index))
    }

    /// Gives the room of all requests taken back to the host.
    pub fn release(&mut self, arena: &Arena) {
        self.requests.release(&arena.control(self.index).requests);
    }

    /// Whether requests wait.
    pub fn pending(&self, arena: &Arena) -> bool {
        self.requests.pending(&arena.control(self.index).requests)
    }

    /// How many completions fit.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken.
    pub fn room(&mut self, arena: &Arena) -> Result<u32, Corrupt> {
        self.completions
            .room(&arena.control(self.index).completions, crate::RING as u32)
    }

    /// Stages a completion: an answer, or where edges are, which leaves room for answers.
    ///
    /// # Errors
    /// [`PutError::Full`] if the process has to catch up first. For edges,
    /// [`AdapterChannel::say_more`] makes it say when it has.
    pub fn put(&mut self, arena: &Arena, completion: &Completion) -> Result<(), PutError> {
        let kept = match completion {
            Completion::Done { .. } => KEPT_FOR_MORE,
            Completion::Edges { .. } => KEPT_FOR_ANSWERS,
            Completion::More => 0,
        };
        let ring = &arena.control(self.index).completions;
        staged(self.completions.stage_leaving(
            kept,
            ring,
            arena.completion_slots(self.index),
            &completion.encode(),
        ))
    }

    /// Notes it if the process has taken the word that there is more.
    pub fn look_for_room(&mut self, arena: &Arena) {
        if let Some(number) = self.more {
            let _ = self.room(arena);
            if self.completions.is_taken(number) {
                self.more = None;
            }
        }
    }

    /// Stages the word that there is more to tell, for which there was no room, unless one
    /// is on its way: whether there is something to publish. The process that takes it makes
    /// the engine look at its channel, which then has room.
    ///
    /// # Errors
    /// [`PutError::Corrupt`] if the ring is broken.
    pub fn say_more(&mut self, arena: &Arena) -> Result<bool, PutError> {
        self.look_for_room(arena);
        if self.more.is_some() {
            return Ok(false);
        }
        self.more = Some(self.completions.next());
        self.put(arena, &Completion::More).map(|()| true)
    }

    /// Shows the process what is staged; returns how many. Waking its waiters
    /// is for the caller, after [`Waiter::fence`].
    pub fn publish(&mut self, arena: &Arena) -> u32 {
        self.completions
            .publish(&arena.control(self.index).completions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, SocketId};

    #[test]
    fn requests_and_completions_cross() {
        let arena = Arc::new(Arena::create(Geometry::SMALL).unwrap());
        let (mut host, mut adapter) = (HostChannel::new(arena.clone(), 3), AdapterChannel::new(3));
        let bell = Doorbell::new().unwrap();
        let socket = SocketId {
            index: 1,
            generation: 2,
        };
        let request = Request::Subscribe { socket };
        host.put(&request).unwrap();
        assert_eq!(adapter.get(&arena).unwrap(), None);
        host.publish(&bell, true);
        let got = adapter.get(&arena).unwrap().unwrap();
        assert_eq!(Request::decode(&got), Ok(request));
        let edges = crate::Edges {
            rcv_edge: 1,
            snd_acked: 2,
            flags: crate::EdgeFlags::CONNECTED,
            errno: 0,
            rcv_urgent: 0,
        };
        let completion = Completion::Edges { socket, edges };
        adapter.put(&arena, &completion).unwrap();
        assert!(!host.pending());
        assert_eq!(adapter.publish(&arena), 1);
        assert_eq!(host.get().unwrap(), Some(Some(completion)));
        assert_eq!(host.get().unwrap(), None);
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "its rings are too long for it; those of the crate ring are not"
    )]
    fn a_full_ring_says_so_and_empties_again() {
        let arena = Arc::new(Arena::create(Geometry::SMALL).unwrap());
        let (mut host, mut adapter) = (HostChannel::new(arena.clone(), 0), AdapterChannel::new(0));
        let bell = Doorbell::new().unwrap();
        let request = Request::Subscribe {
            socket: SocketId {
                index: 1,
                generation: 2,
            },
        };
        for _ in 0..crate::RING {
            host.put(&request).unwrap();
        }
        assert_eq!(host.put(&request), Err(PutError::Full));
        host.publish(&bell, false);
        while adapter.get(&arena).unwrap().is_some() {}
        adapter.release(&arena);
        assert_eq!(host.put(&request), Ok(()));
    }

    #[test]
    fn mailboxes_carry_bytes() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let bytes: Vec<u8> = (0..237u32).map(|b| b as u8).collect();
        assert_eq!(arena.control(1).write_mailbox(&bytes), 237);
        assert_eq!(arena.control(1).read_mailbox()[..237], bytes);
        assert_eq!(arena.control(1).write_mailbox(&[7; 1000]), MAILBOX_BYTES);
    }
}
