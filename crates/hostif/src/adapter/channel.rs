//! The adapter's end of a channel: gets requests, puts completions.
//!
//! Owns [`AdapterChannel`], the indices and the private copies of one channel's two rings.
//! `channels` has one for each process of a session and calls it.

use crate::abi::{
    Completion, DESCRIPTOR_BYTES, Data, Edges, ImmediateIn, LENGTHS_SINCE, RING, Request, SocketId,
};
use crate::meter::Descriptors;
use crate::transport::{Arena, PutError, staged};
use longshore_ring::Corrupt;
use longshore_ring::spsc::{Consumer, Message, Producer, WORDS};

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
    /// What the request that was taken last says beside its edges: that its socket is closed.
    close: Option<Box<Message>>,
    /// Bytes of the slot that was staged last that are not written.
    unwritten: u32,
}

/// A request as it was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) message: Message,
    /// Its immediate data, and in which slot it is itself.
    pub(super) immediate: Option<(ImmediateIn, usize)>,
    /// What crossed by it.
    pub(super) crossed: Descriptors,
}

/// Whether what is not used of a slot does not cross.
#[inline]
fn has_lengths(arena: &Arena) -> bool {
    arena.agreed().version >= LENGTHS_SINCE
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
            close: None,
            unwritten: 0,
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

    /// Takes the next request: what a descriptor says beside its edges is one of its own, and
    /// one that says more than was published cannot be decoded. For an adapter that has agreed
    /// to no immediate data.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken: the process's channel has to go.
    pub fn next(&mut self, arena: &Arena) -> Result<Option<Message>, Corrupt> {
        if let Some(close) = self.take_close() {
            return Ok(Some(close));
        }
        let taken = self.take(arena)?;
        Ok(taken.map(|taken| taken.map_or([0; WORDS], |taken| taken.message)))
    }

    /// What the request that was taken last says beside its edges: a request of its own, that
    /// does not cross.
    #[inline]
    pub(super) fn take_close(&mut self) -> Option<Message> {
        self.close.take().map(|close| *close)
    }

    /// Takes the next request, with its immediate data. `None` if its process has not published
    /// all that it says it is.
    ///
    /// # Errors
    /// [`Corrupt`] as [`get`](Self::get).
    #[inline]
    pub(super) fn take(&mut self, arena: &Arena) -> Result<Option<Option<Taken>>, Corrupt> {
        let message = self.get(arena)?;
        Ok(message.map(|message| self.take_rest(arena, message)))
    }

    #[inline]
    fn take_rest(&mut self, arena: &Arena, mut message: Message) -> Option<Taken> {
        let said = Request::immediate_in(&message);
        let len = said.map_or(0, |said| said.len);
        let (more, mut wraps) = (Request::more_in(&message, len), false);
        let immediate = match said.filter(|said| said.len != 0) {
            Some(said) => {
                let slots = arena.request_slots(self.index);
                let own = self.requests.take_more(more, slots)?;
                // What is behind it may go on at the ring's beginning.
                wraps = own + more as usize >= RING;
                Some((said, own))
            }
            None => None,
        };
        // The adapter has fetched no more than its process says that there is.
        let unread = self.requests.words_left();
        if unread > Request::left_in(&message, len) {
            return None;
        }
        let begins = self.requests.begins_move(more, RING as u32);
        let crossed = Descriptors {
            transfers: u64::from(begins) + u64::from(wraps),
            count: 1,
            bytes: u64::from(1 + more) * DESCRIPTOR_BYTES as u64 - 8 * u64::from(unread),
            immediate: len.into(),
        };
        if let Some((close, edges)) = Request::with_close(&message) {
            message = edges.unwrap_or(close);
            self.close = edges.map(|_| Box::new(close));
        }
        Some(Taken {
            message,
            immediate,
            crossed,
        })
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
    #[inline]
    pub fn pending(&self, arena: &Arena) -> bool {
        self.close.is_some() || self.requests.pending(&arena.control(self.index).requests)
    }

    /// How many requests wait, with their immediate data or without, `most` if there are more;
    /// nothing is claimed, and the process may still change them.
    pub(super) fn waiting(&self, arena: &Arena, most: u32) -> u32 {
        let ring = &arena.control(self.index).requests;
        let slots = arena.request_slots(self.index);
        let behind =
            |m: &Message| Request::immediate_in(m).map_or(0, |said| Request::more_in(m, said.len));
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

    /// Stages a completion: an answer, or where edges are, which leaves room for answers. Says
    /// what crosses by it.
    ///
    /// # Errors
    /// [`PutError::Full`] if the process has to catch up first. For edges,
    /// [`AdapterChannel::say_more`] makes it say when it has.
    pub fn put(&mut self, arena: &Arena, completion: &Completion) -> Result<Descriptors, PutError> {
        let kept = match completion {
            Completion::Done { .. } => KEPT_FOR_MORE,
            Completion::Edges { .. } => KEPT_FOR_ANSWERS,
            Completion::More => 0,
        };
        self.stage(arena, kept, completion.stored(arena.agreed().version))
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
    ) -> Result<Descriptors, PutError> {
        let stored = Completion::stored_edges(socket, edges, has_lengths(arena));
        self.stage(arena, KEPT_FOR_ANSWERS, stored)
    }

    #[inline(always)]
    fn stage(
        &mut self,
        arena: &Arena,
        kept: u32,
        (message, words): (Message, usize),
    ) -> Result<Descriptors, PutError> {
        let ring = &arena.control(self.index).completions;
        let slots = arena.completion_slots(self.index);
        let fields = message.get(..words).unwrap_or_default();
        staged(self.completions.stage_long(0, kept, ring, slots, fields))?;
        let begins = self.completions.begins_move(RING as u32);
        Ok(Descriptors {
            transfers: begins.into(),
            count: 1,
            bytes: self.written(begins, words as u32, 1),
            immediate: 0,
        })
    }

    /// Bytes of a move that the completion adds to which was staged last and takes so many words
    /// of so many slots: its own, and what is left of the slot before it, unless it `begins` a
    /// move.
    #[inline]
    fn written(&mut self, begins: bool, words: u32, slots: u32) -> u64 {
        let before = if begins { 0 } else { self.unwritten };
        self.unwritten = (slots * WORDS as u32 - words) * 8;
        u64::from(before + 8 * words)
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
        let begins = is_first || own == 0;
        let words = match has_lengths(arena) {
            true => Data::words(payload.len()),
            false => (1 + more) * WORDS as u32,
        };
        let crossed = Descriptors {
            transfers: u64::from(begins) + u64::from(goes_on_at_the_beginning),
            count: 1,
            bytes: self.written(begins, words, 1 + more),
            immediate: payload.len() as u64,
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

    /// Stages the word that there is more to tell, for which there was no room, unless one is on
    /// its way: what crosses by it, if there is something to publish. The process that takes it
    /// makes the engine look at its channel, which then has room.
    ///
    /// # Errors
    /// [`PutError::Corrupt`] if the ring is broken.
    pub fn say_more(&mut self, arena: &Arena) -> Result<Option<Descriptors>, PutError> {
        self.look_for_room(arena);
        if self.more.is_some() {
            return Ok(None);
        }
        self.more = Some(self.completions.next());
        self.put(arena, &Completion::More).map(Some)
    }

    /// Shows the process what is staged; returns how many. Waking its waiters
    /// is for the caller, after [`Waiter::fence`](longshore_ring::Waiter::fence).
    #[inline]
    pub fn publish(&mut self, arena: &Arena) -> u32 {
        self.completions
            .publish(&arena.control(self.index).completions)
    }
}
