//! The newest bytes of a receive stream, if they are few: they go to the host in a descriptor,
//! and are placed only if they cannot.
//!
//! Such a stretch is *held* until the end of the turn. Then it is told in a descriptor
//! ([`ReceiveStream::data`], [`ReceiveStream::note_reported`]), or placed
//! ([`ReceiveStream::reveal`]). It is also placed when somebody else than the one process that
//! was told is to know of it. Until that process has taken it, its chunk is kept from others.

use super::{Placed, ReceiveStream};
use crate::abi::{CHUNK, Data, EdgeFlags, Edges, MOST_DATA, SocketId};
use crate::adapter::held_data::{Hold, Reported};
use crate::adapter::receive_slab::ReceiveSlab;
use longshore_ring::NONE;

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Short {
    from: u64,
    len: u16,
    /// Where it belongs, which the stream has.
    chunk: u32,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Held(Hold),
    /// It was told, and nobody else was told of it.
    Reported(Hold, Reported),
    /// It was told and placed after that.
    Placed(Reported),
}

impl Short {
    fn end(&self) -> u64 {
        self.from + u64::from(self.len)
    }

    /// Whether nothing is left to be done about it, where the host has consumed up to
    /// `consumed`: where one process alone was told, it has taken what it has read.
    fn is_done(&self, consumed: u64, slab: &ReceiveSlab) -> bool {
        let was_taken = |reported: &Reported| slab.epochs.was_taken(&slab.arena, reported);
        match &self.state {
            State::Held(_) => false,
            State::Reported(_, reported) => consumed >= self.end() || was_taken(reported),
            State::Placed(reported) => was_taken(reported) || !slab.epochs.is_there(reported),
        }
    }
}

impl ReceiveStream {
    /// Keeps `bytes`, which go on at offset `at` of the stream of socket `index`, to be told in
    /// a descriptor; `false` if they are to be placed. `base` is how far the host has
    /// consumed, `told` how far it was told that the stream reaches.
    #[inline]
    pub fn hold(
        &mut self,
        [base, reported, at]: [u64; 3],
        bytes: &[u8],
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> bool {
        if bytes.len() > MOST_DATA {
            return false;
        }
        self.hold_short([base, reported, at], bytes, slab, index)
    }

    #[inline(never)]
    fn hold_short(
        &mut self,
        [base, reported, at]: [u64; 3],
        bytes: &[u8],
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> bool {
        if at as usize % CHUNK + bytes.len() > CHUNK || bytes.is_empty() {
            return false;
        }
        if let Some(short) = &mut self.short
            && let State::Held(hold) = short.state
        {
            let len = usize::from(short.len);
            let goes_on = short.end() == at
                && len + bytes.len() <= MOST_DATA
                && short.from as usize % CHUNK + len + bytes.len() <= CHUNK;
            if goes_on {
                slab.held.append(hold, len, bytes);
                short.len += bytes.len() as u16;
            }
            return goes_on;
        }
        if at != reported || !self.let_done_go(base, slab) {
            return false;
        }
        if self.head == NONE && slab.has_free() {
            self.begin_as_before(base, slab, index);
        }
        let chunk = self
            .begin(base, slab, index)
            .and_then(|()| self.chunk(at / CHUNK as u64, slab, index));
        let Ok(chunk) = chunk else { return false };
        let Some(hold) = slab.held.take(&slab.arena, &slab.epochs) else {
            return false;
        };
        slab.held.append(hold, 0, bytes);
        self.short = Some(Short {
            from: at,
            len: bytes.len() as u16,
            chunk,
            state: State::Held(hold),
        });
        true
    }

    /// Forgets the last stretch, if nothing is left to be done about it; whether there is none.
    fn let_done_go(&mut self, consumed: u64, slab: &mut ReceiveSlab) -> bool {
        let done = self.short.take_if(|short| short.is_done(consumed, slab));
        if let Some(Short {
            state: State::Reported(hold, _),
            ..
        }) = done
        {
            slab.held.give_back(hold);
        }
        self.short.is_none()
    }

    /// The descriptor and the payload by which the edges of `socket` can be told, if all that is
    /// held is up to there.
    pub(in crate::adapter) fn data<'s>(
        &self,
        socket: SocketId,
        edges: &Edges,
        slab: &'s ReceiveSlab,
    ) -> Option<(Data, &'s [u8])> {
        let plain = EdgeFlags::CONNECTED | EdgeFlags::PEER_FIN | EdgeFlags::FIN_ACKED;
        let short = self.short.as_ref()?;
        let State::Held(hold) = short.state else {
            return None;
        };
        let is_plain = plain.contains(edges.flags) && edges.errno == 0 && edges.rcv_urgent == 0;
        if !is_plain || short.end() != edges.rcv_edge {
            return None;
        }
        let data = Data {
            socket,
            flags: edges.flags,
            rcv_edge: edges.rcv_edge,
            snd_acked: edges.snd_acked as u32,
            len: short.len,
            chunk: short.chunk,
        };
        let bytes = slab.held.bytes(hold, short.len.into())?;
        data.fits().then_some((data, bytes))
    }

    /// What is held was told so.
    pub(in crate::adapter) fn note_reported(&mut self, reported: Reported, slab: &mut ReceiveSlab) {
        if let Some(short) = &mut self.short
            && let State::Held(hold) = short.state
        {
            slab.held.note_reported(hold, reported);
            short.state = State::Reported(hold, reported);
        }
    }

    /// Places what `to` could not know otherwise: what is held, or was told in a descriptor to
    /// a process that is not `to`, the only one that is to be told if there is just one. Says
    /// what was placed.
    pub(in crate::adapter) fn reveal(&mut self, to: Option<u16>, slab: &mut ReceiveSlab) -> Placed {
        let none = Placed::default();
        let Some(short) = &mut self.short else {
            return none;
        };
        let hold = match short.state {
            State::Held(hold) => hold,
            State::Reported(hold, reported)
                if to != Some(reported.channel) || !slab.epochs.is_there(&reported) =>
            {
                short.state = State::Placed(reported);
                hold
            }
            State::Reported(..) | State::Placed(_) => return none,
        };
        let (within, len) = (short.from as usize % CHUNK, usize::from(short.len));
        let place = slab.arena.rcv_place(short.chunk, within, len);
        let mut placed = none;
        if let (Some(bytes), Some(place)) = (slab.held.bytes(hold, len), place) {
            slab.arena.memory().write(place, bytes);
            placed.count(len);
        }
        slab.held.give_back(hold);
        self.short
            .take_if(|short| matches!(short.state, State::Held(_)));
        placed
    }

    /// Copies what is kept of the last stretch over what its chunk has there, in `to`, which lies
    /// at `at` of the stream.
    pub(super) fn copy_short(&self, at: u64, to: &mut [u8], slab: &ReceiveSlab) {
        let Some(short) = &self.short else { return };
        let (State::Held(hold) | State::Reported(hold, _)) = short.state else {
            return;
        };
        // Once it was taken, its chunk has it.
        let Some(bytes) = slab.held.bytes(hold, short.len.into()) else {
            return;
        };
        let (from, end) = (at.max(short.from), short.end().min(at + to.len() as u64));
        if from < end {
            let [from_at, end_at] = [from, end].map(|place| (place - at) as usize);
            let [first, last] = [from, end].map(|place| (place - short.from) as usize);
            if let (Some(to), Some(bytes)) = (to.get_mut(from_at..end_at), bytes.get(first..last)) {
                to.copy_from_slice(bytes);
            }
        }
    }

    /// A chunk leaves the stream, of which the host has consumed up to `consumed`.
    pub(super) fn let_go(&mut self, chunk: u32, consumed: u64, slab: &mut ReceiveSlab) {
        let Some(short) = self.short.take_if(|short| short.chunk == chunk) else {
            return slab.give_back(chunk);
        };
        let reported = match short.state {
            State::Held(hold) => {
                slab.held.give_back(hold);
                None
            }
            State::Reported(hold, reported) => {
                slab.held.give_back(hold);
                (consumed < short.end()).then_some(reported)
            }
            State::Placed(reported) => Some(reported),
        };
        match reported.filter(|reported| slab.epochs.may_write(&slab.arena, reported)) {
            Some(reported) => slab.withhold(chunk, reported),
            None => slab.give_back(chunk),
        }
    }
}

#[cfg(test)]
mod tests;
