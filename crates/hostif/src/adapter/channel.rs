//! The adapter's end of a channel: gets requests, puts completions.
//!
//! Owns [`AdapterChannel`], the indices and the private copies of one channel's two rings.
//! `channels` has one for each process of a session and calls it.

use crate::abi::{Completion, Data, Edges, RING, Request, SocketId, immediate_slots};
use crate::meter::Descriptors;
use crate::transport::{Arena, PutError, staged};
use longshore_ring::Corrupt;
use longshore_ring::spsc::{Consumer, Message, Producer};

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
    /// How many requests were taken by the ends of the last turns but one, and the last, for
    /// which they were kept.
    taken_by: [u32; 2],
    /// The last [`Completion::More`], by its number among the completions.
    more: Option<u32>,
}

impl AdapterChannel {
    /// The adapter's end of channel `index`, whose rings are empty.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            requests: Consumer::claiming(),
            completions: Producer::new(),
            taken_by: [0; 2],
            more: None,
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Takes the next request's message. Decode it with [`Request::decode`](crate::Request::decode).
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken: the process's channel has to go.
    pub fn get(&mut self, arena: &Arena) -> Result<Option<Message>, Corrupt> {
        let ring = &arena.control(self.index).requests;
        self.requests.take(ring, arena.request_slots(self.index))
    }

    /// Takes the `len` bytes of immediate data of the request that was taken last; says in
    /// which slot that is. `None` if its process has not published so many.
    pub fn get_immediate(&mut self, arena: &Arena, len: u16) -> Option<usize> {
        let slots = arena.request_slots(self.index);
        self.requests.take_more(immediate_slots(len), slots)
    }

    /// Moves of contiguous bytes that the request which was taken last takes, with so many slots
    /// behind its own, beyond those of the requests before it.
    #[inline]
    pub(super) fn moves_of_taken(&self, own: Option<usize>, slots: u32) -> u64 {
        // Those behind it may go on at the ring's beginning.
        let wraps = own.is_some_and(|own| own + slots as usize >= RING);
        u64::from(self.requests.begins_move(slots, RING as u32)) + u64::from(wraps)
    }

    /// Whether the completion that was staged last begins a move of contiguous bytes.
    #[inline]
    pub(super) fn begins_move(&self) -> bool {
        self.completions.begins_move(RING as u32)
    }

    /// Gives the room of all requests taken back to the host.
    pub fn release(&mut self, arena: &Arena) {
        self.requests.release(&arena.control(self.index).requests);
    }

    /// A turn ends whose requests are kept: gives the room of those back that were kept for two
    /// turns before. Says whether others are kept.
    pub(super) fn keep(&mut self, arena: &Arena) -> bool {
        let ring = &arena.control(self.index).requests;
        let [before, last] = self.taken_by;
        self.requests.release_to(ring, before);
        self.taken_by = [last, self.requests.taken()];
        self.requests.keeps_any()
    }

    /// Whether requests wait.
    pub fn pending(&self, arena: &Arena) -> bool {
        self.requests.pending(&arena.control(self.index).requests)
    }

    /// How many requests wait, with their immediate data or without, `most` if there are more;
    /// nothing is claimed, and the process may still change them.
    pub(super) fn waiting(&self, arena: &Arena, most: u32) -> u32 {
        let ring = &arena.control(self.index).requests;
        let slots = arena.request_slots(self.index);
        let behind = |m: &Message| Request::immediate_in(m).map_or(0, immediate_slots);
        self.requests.waiting(ring, slots, most, behind)
    }

    /// How many completions fit.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken.
    pub fn room(&mut self, arena: &Arena) -> Result<u32, Corrupt> {
        self.completions
            .room(&arena.control(self.index).completions, RING as u32)
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
        self.stage(arena, kept, &completion.encode())
    }

    /// As `put`, for where edges are.
    ///
    /// # Errors
    /// As [`AdapterChannel::put`].
    #[inline]
    pub(super) fn put_edges(
        &mut self,
        arena: &Arena,
        socket: SocketId,
        edges: &Edges,
    ) -> Result<(), PutError> {
        let message = Completion::edges_message(socket, edges);
        self.stage(arena, KEPT_FOR_ANSWERS, &message)
    }

    #[inline(always)]
    fn stage(&mut self, arena: &Arena, kept: u32, message: &Message) -> Result<(), PutError> {
        let ring = &arena.control(self.index).completions;
        let slots = arena.completion_slots(self.index);
        staged(self.completions.stage_leaving(kept, ring, slots, message))
    }

    /// Stages where edges are together with `payload`, in messages one behind the other, which
    /// leaves room for answers. Says which number the last has, and counts all of them.
    ///
    /// # Errors
    /// [`PutError::Full`] if there is no room for all of it.
    pub(super) fn put_data(
        &mut self,
        arena: &Arena,
        data: &Data,
        payload: &[u8],
    ) -> Result<(u32, Descriptors), PutError> {
        let ring = &arena.control(self.index).completions;
        let slots = arena.completion_slots(self.index);
        let more = Data::messages(payload.len()).saturating_sub(1);
        let is_first = self.completions.staged() == 0;
        let kept = KEPT_FOR_ANSWERS;
        let result = self
            .completions
            .stage_long(more, kept, ring, slots, &data.fields());
        let own = staged(result)?;
        let mut rest = payload;
        for (to, len) in arena.data_places(self.index, own, payload.len()) {
            let (here, behind) = rest.split_at(len.min(rest.len()));
            arena.memory().write(to, here);
            rest = behind;
        }
        // One contiguous move more where it begins a batch or the ring, or goes on at that.
        let goes_on_at_the_beginning = own + more as usize >= RING;
        let crossed = Descriptors {
            count: 1,
            slots: more.into(),
            immediate: payload.len() as u64,
            transfers: u64::from(is_first || own == 0) + u64::from(goes_on_at_the_beginning),
        };
        Ok((self.completions.next().wrapping_sub(1), crossed))
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
    /// is for the caller, after [`Waiter::fence`](longshore_ring::Waiter::fence).
    #[inline]
    pub fn publish(&mut self, arena: &Arena) -> u32 {
        self.completions
            .publish(&arena.control(self.index).completions)
    }
}
