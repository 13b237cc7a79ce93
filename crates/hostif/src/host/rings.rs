//! The host's end of a channel's two rings at one worker: puts requests, gets completions.
//!
//! Owns [`HostRings`], of which a [`HostChannel`](super::HostChannel) has one for each worker;
//! requests that say the same of a socket are joined before they are published (`coalesce`).

use super::coalesce::{Moved, coalesce};
use crate::abi::{
    ACCEPTED_SINCE, CHUNK, Completion, Data, Edges, HELD_BACK_SINCE, Hurry, LENGTHS_SINCE, RING,
    Request, SocketId, chunk_of,
};
use crate::transport::{Arena, Meeting, PutError, staged};
use longshore_ring::spsc::{Consumer, Message, Producer};
use longshore_ring::{Corrupt, Doorbell, Waiter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Slots of the request ring that immediate data leaves free: it must not keep descriptors
/// waiting.
const KEPT_FREE: u32 = RING as u32 / 2;

/// The host's end at one worker: puts requests, gets completions.
#[derive(Debug)]
pub(super) struct HostRings {
    arena: Arc<Arena>,
    channel: u32,
    worker: u32,
    /// The number of the rings.
    index: u32,
    /// By what the worker finds out that there are requests, and is woken.
    meeting: Meeting,
    /// Completions about sockets that another worker has, by their names.
    misrouted: u64,
    requests: Producer,
    completions: Consumer,
    /// The newest request, if it is a move of edges.
    newest: Option<Moved>,
    /// The engine was woken for the newest request, if it slept.
    was_woken: bool,
    /// It was so for one that was taken back, and may have slept again since, as it found
    /// nothing: it is woken for the next.
    owes_wake: bool,
    /// One was taken back that said that a connection was accepted: what has its place is fetched
    /// no later.
    owes_accepted: bool,
}

impl Moved {
    /// Where in the memory the last `count` bytes before the edge lie, by chunks; `None` if
    /// the directory does not say.
    fn places(&self, arena: &Arena, count: u16) -> Option<[(usize, usize); 2]> {
        let directory = arena.snd_directory(self.socket.index);
        let start = self.snd_edge.checked_sub(count.into())?;
        let within = (start % CHUNK as u64) as usize;
        let first = usize::from(count).min(CHUNK - within);
        let place = |number: u64, within, len| {
            // There may be a range of a file before these bytes.
            let chunk = chunk_of(directory.entry(number).load(Ordering::Relaxed));
            Some((arena.snd_place(chunk, within, len)?, len))
        };
        let number = start / CHUNK as u64;
        let rest = usize::from(count) - first;
        let second = match rest {
            0 => (0, 0),
            _ => place(number + 1, 0, rest)?,
        };
        Some([place(number, within, first)?, second])
    }
}

impl HostRings {
    /// The host's end of the rings of `channel` at a worker, which are empty.
    pub(super) fn new(arena: Arc<Arena>, channel: u32, worker: u32) -> Self {
        Self {
            index: arena.geometry().ring(channel, worker),
            meeting: arena.meeting(worker),
            channel,
            worker,
            misrouted: 0,
            arena,
            requests: Producer::taking_back(),
            completions: Consumer::new(),
            newest: None,
            was_woken: false,
            owes_wake: false,
            owes_accepted: false,
        }
    }

    /// Completions that were about a socket which another worker has, by its name.
    pub(super) fn misrouted(&self) -> u64 {
        self.misrouted
    }

    /// Stages a request. It is on its way with the next `publish`. If it goes on where the
    /// newest left off, and the engine has not fetched that, it takes its place.
    ///
    /// Immediate data is copied from the chunks of the send stream, which have to have it until
    /// this returns: nobody else moves the stream's edge meanwhile. It stays behind where the
    /// ring has little room.
    ///
    /// # Errors
    /// [`PutError::Full`] if the engine has to catch up first.
    pub(super) fn put(&mut self, request: &Request) -> Result<(), PutError> {
        let newest = self.newest.take();
        let before = newest.filter(|newest| newest.may_go_on(request) && self.may_take_back());
        let both = before.and_then(|newest| {
            let block = self.arena.get_block(newest.socket.index)?;
            let acknowledged = block.snd.done.load(Ordering::Relaxed);
            let both = coalesce(&newest, request, acknowledged, self.has_lengths())?;
            Some((newest, both))
        });
        let (request, there) = match both {
            Some((newest, both)) if self.take_back() => {
                self.owes_wake |= self.was_woken;
                self.owes_accepted |= newest.reports_accepted();
                (both, newest.immediate)
            }
            _ => (*request, 0),
        };
        self.was_woken = false;
        if let Some(moved) = Moved::of(&request).filter(|moved| moved.immediate != 0)
            && self.stage_with_data(&request, &moved, self.there(newest.as_ref(), &moved, there))?
        {
            self.newest = (!moved.closes()).then_some(moved);
            return Ok(());
        }
        let request = request.without_immediate();
        let ring = &self.arena.control(self.index).requests;
        let slots = self.arena.request_slots(self.index);
        let stored = request.stored(self.has_lengths());
        staged(self.requests.stage_long(0, 0, ring, slots, stored.fields()))?;
        self.requests.leave_words(stored.left());
        self.newest = Moved::of(&request).filter(|moved| !moved.closes());
        Ok(())
    }

    /// As `put`, of a listener's edges that tell that `connection` was accepted. What its process
    /// says of the connection first says so too, in their place, if the engine has not fetched
    /// them by then.
    ///
    /// # Errors
    /// As `put`.
    pub(super) fn put_accepted(
        &mut self,
        request: &Request,
        connection: SocketId,
    ) -> Result<(), PutError> {
        self.put(request)?;
        if self.arena.agreed().version >= ACCEPTED_SINCE {
            self.newest = self.newest.take().map(|moved| moved.accepting(connection));
        }
        Ok(())
    }

    /// How much of the immediate data of `moved` is where it belongs, where `there` bytes of it
    /// were put for `newest`: none, if that has fewer words.
    fn there(&self, newest: Option<&Moved>, moved: &Moved, there: u16) -> u16 {
        let is_alike = newest.is_some_and(|newest| newest.is_near() == moved.is_near());
        if is_alike { there } else { 0 }
    }

    /// Whether what is not used of a slot does not cross.
    fn has_lengths(&self) -> bool {
        self.arena.agreed().version >= LENGTHS_SINCE
    }

    /// Whether the engine did not have the newest request a moment ago.
    fn may_take_back(&self) -> bool {
        let ring = &self.arena.control(self.index).requests;
        self.requests.may_take_back(ring)
    }

    /// Takes the newest request back, unless the engine has it.
    fn take_back(&mut self) -> bool {
        let ring = &self.arena.control(self.index).requests;
        self.requests.take_back(ring)
    }

    /// Stages a move of edges with its immediate data, whose first `there` bytes already lie
    /// where they belong; `false` if the ring has little room.
    fn stage_with_data(
        &mut self,
        request: &Request,
        moved: &Moved,
        there: u16,
    ) -> Result<bool, PutError> {
        let arena = &self.arena;
        let Some(sources) = moved.places(arena, moved.immediate.saturating_sub(there)) else {
            return Ok(false);
        };
        let ring = &arena.control(self.index).requests;
        let slots = arena.request_slots(self.index);
        let stored = request.stored(self.has_lengths());
        let fields = stored.fields();
        let staged = self
            .requests
            .stage_long(stored.more(), KEPT_FREE, ring, slots, fields)?;
        let Ok(own) = staged else {
            return Ok(false);
        };
        self.requests.leave_words(stored.left());
        let mut at = fields.len() * 8 + usize::from(there);
        for (mut from, len) in sources {
            if len == 0 {
                break;
            }
            for (to, part) in arena.immediate_places(self.index, own, at, len) {
                arena.memory().copy(from, to, part);
                from += part;
            }
            at += len;
        }
        Ok(true)
    }

    /// How many requests are staged.
    pub(super) fn staged(&self) -> u32 {
        self.requests.staged()
    }

    /// Sends what is staged, to be fetched now. If the engine sleeps and `wake`, wakes it;
    /// otherwise it sees the requests whenever it next looks. One that does not look at this
    /// session by itself (`PendingRequests::park`) is told in any case.
    pub(super) fn publish(&mut self, doorbell: &Doorbell, wake: bool) {
        self.publish_for(Hurry::Now, doorbell, wake);
    }

    /// As `publish`, for what is in such a `hurry`.
    pub(super) fn publish_for(&mut self, hurry: Hurry, doorbell: &Doorbell, wake: bool) {
        let any = self
            .requests
            .publish(&self.arena.control(self.index).requests)
            != 0;
        let hurry = match hurry {
            Hurry::HeldBack if self.arena.agreed().version < HELD_BACK_SINCE => Hurry::Soon,
            hurry => hurry,
        };
        let owes_wake = any && std::mem::take(&mut self.owes_wake);
        let (hurry, wake) = if owes_wake && !wake {
            (Hurry::Now, true)
        } else {
            (hurry, wake)
        };
        self.was_woken |= wake;
        if any && std::mem::take(&mut self.owes_accepted) {
            self.flag_for(Hurry::First);
        }
        let is_known = any && self.flag_for(hurry);
        self.ring(doorbell, any, wake && !is_known);
    }

    /// Has the engine fetch now what was published for later, unless it has; wakes it if it
    /// sleeps.
    pub(super) fn hurry(&mut self, doorbell: &Doorbell) {
        let ring = &self.arena.control(self.index).requests;
        self.was_woken = true;
        if self.requests.publish(ring) != 0 {
            self.owes_wake = false;
            self.flag();
        } else if ring.is_claimed() {
            return;
        } else {
            let pending = self.meeting.pending();
            pending.any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
        }
        self.ring(doorbell, true, true);
    }

    fn ring(&self, doorbell: &Doorbell, any: bool, wake: bool) {
        let engine = self.meeting.engine();
        if wake {
            Waiter::fence();
            engine.wake(Some(doorbell));
        } else if any {
            Waiter::fence();
            engine.wake_parked(doorbell);
        }
    }

    /// Has the engine go on with what it has more to tell ([`Completion::More`]), now that
    /// there is room for it: after [`HostRings::release`].
    pub(super) fn ask_for_more(&mut self, doorbell: &Doorbell) {
        self.flag();
        self.publish(doorbell, true);
    }

    /// Makes the engine look at this channel.
    pub(super) fn flag(&self) {
        self.flag_for(Hurry::Now);
    }

    /// Says whether the engine need not be woken: it was, for others that are held back.
    fn flag_for(&self, hurry: Hurry) -> bool {
        let pending = self.meeting.pending();
        pending.channels[self.channel as usize / 64]
            .fetch_or(1 << (self.channel % 64), Ordering::AcqRel);
        let before = pending.any.fetch_or(hurry as u32, Ordering::AcqRel);
        hurry == Hurry::HeldBack && hurry.is_in(before)
    }

    /// Takes the next completion. `Some(None)` is one that means nothing and
    /// was passed over. Payload that came with edges is in its chunk when these are returned.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken.
    pub(super) fn get(&mut self) -> Result<Option<Option<Completion>>, Corrupt> {
        let Some(message) = self.next_message()? else {
            return Ok(None);
        };
        let completion = match Data::decode(&message) {
            Some(data) => self.take_data(&data),
            None => Completion::decode(&message).ok(),
        };
        Ok(Some(
            completion.filter(|completion| self.may_be(completion)),
        ))
    }

    /// Whether a completion is about a socket that this worker has, by its name.
    fn may_be(&mut self, completion: &Completion) -> bool {
        let is_ours = match completion {
            Completion::Done { socket, .. } | Completion::Edges { socket, .. } => {
                self.arena.naming().worker(*socket) == self.worker
            }
            Completion::More => true,
        };
        self.misrouted += u64::from(!is_ours);
        is_ours
    }

    fn next_message(&mut self) -> Result<Option<Message>, Corrupt> {
        let ring = &self.arena.control(self.index).completions;
        let slots = self.arena.completion_slots(self.index);
        self.completions.take(ring, slots)
    }

    /// Writes the payload of the completion that was taken last to the chunk where it belongs.
    /// That is its own until the place of the completion was given back, whatever has become of
    /// the socket.
    #[inline(never)]
    fn take_data(&mut self, data: &Data) -> Option<Completion> {
        let len = usize::from(data.len);
        let slots = self.arena.completion_slots(self.index);
        let own = self.completions.take_more(Data::messages(len) - 1, slots)?;
        let mut place = self.arena.rcv_place(data.chunk, data.within(), len)?;
        // Before the bytes are looked for: see `edges_of`.
        let edges = self.edges_of(data)?;
        for (from, part) in self.arena.data_places(self.index, own, len) {
            self.arena.memory().copy(from, place, part);
            place += part;
        }
        Some(Completion::Edges {
            socket: data.socket,
            edges,
        })
    }

    /// The edges that `data` tells of. Of its send stream it has the lower half, which the
    /// block makes whole, as fewer than 2^32 bytes are on their way at once. Where this is
    /// taken late, another process may have written much since, which it could only after it
    /// was told how far both streams reach by then: so the block is asked how far is written
    /// first, and then whether anybody was told more.
    fn edges_of(&self, data: &Data) -> Option<Edges> {
        if data.socket.index >= self.arena.geometry().sockets {
            return None;
        }
        let block = self.arena.block(data.socket.index);
        let written = block.snd.edge.load(Ordering::Acquire);
        let is_begun = block.generation.load(Ordering::Acquire) == data.socket.generation;
        let is_news = block.rcv.edge.load(Ordering::Acquire) < data.rcv_edge;
        Some(Edges {
            rcv_edge: data.rcv_edge,
            // Of one that nobody has accepted, nothing was written.
            snd_acked: if is_begun && is_news {
                data.acked(written)
            } else {
                0
            },
            flags: data.flags,
            ..Edges::default()
        })
    }

    /// Gives the room of all completions taken back to the engine.
    pub(super) fn release(&mut self) {
        self.completions
            .release(&self.arena.control(self.index).completions);
    }

    /// Whether completions wait.
    pub(super) fn pending(&self) -> bool {
        self.completions
            .pending(&self.arena.control(self.index).completions)
    }
}
