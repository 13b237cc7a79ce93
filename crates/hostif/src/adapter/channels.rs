//! The ends of the channels of a session's processes, and getting their requests.
//!
//! Owns [`Channels`], a part of [`AdapterSession`](super::AdapterSession). The engine's intake
//! takes requests from here; `putting` puts into the ends what goes back.

mod putting;

use super::channel::{AdapterChannel, Taken};
use super::immediate::Immediate;
use super::pending_edges::PendingEdges;
use super::pending_requests::PendingRequests;
use super::session_meter::SessionMeter;
use crate::abi::{Request, SocketId};
use crate::transport::Arena;
use longshore_ring::spsc::{Message, WORDS};
use std::sync::Arc;

/// Turns for which the places of all requests are kept at the most, as a socket has sent more
/// to others of the engine than a turn takes: as many as a send buffer of the usual size needs.
const MOST_QUEUED: u8 = 64;

/// What requests have led to and cannot be seen yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnderWay {
    /// Nothing.
    Nothing,
    /// Packets from one socket of the engine to another, or what one has got of another and is
    /// yet to tell. One turn may not look at them, and the next takes all that there are: so the
    /// places of requests are kept for two more turns than the one that took them.
    Passing,
    /// A socket has sent more to others of the engine than a turn takes.
    Queued,
}

/// The adapter's end of the channel of one process.
#[derive(Debug)]
struct End {
    channel: AdapterChannel,
    /// It is among those with staged completions.
    is_staged: bool,
    /// It is among those whose requests were taken.
    is_taken: bool,
    /// Its process broke its rings: nothing is taken from it any more.
    is_broken: bool,
    /// Sockets whose edges found no room in its ring.
    pending: PendingEdges,
    /// Answers that are still to find room in it.
    owed: u32,
}

/// The ends of a session's channels at one worker, by their numbers.
#[derive(Debug)]
pub struct Channels {
    arena: Arc<Arena>,
    worker: u32,
    ends: Vec<Option<End>>,
    /// Those with staged completions.
    staged: Vec<u16>,
    /// Those whose requests were taken, and are given back when all that they led to is
    /// published.
    taken: Vec<u16>,
    /// Turns for which that was put off, as more was sent than a turn takes.
    queued_for: u8,
    put_off: u64,
}

/// The end with this number.
#[inline]
fn end_of(ends: &mut [Option<End>], channel: u16) -> Option<&mut End> {
    ends.get_mut(usize::from(channel))?.as_mut()
}

/// What there is to be taken from a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A request, as it is encoded ([`Request::decode`]), and the immediate data that came
    /// with it.
    Request(Message, Immediate),
    /// No request.
    Nothing,
    /// Requests, but no room for what they would be answered: the process takes no answers.
    NoRoom,
    /// The process has just broken a ring: nothing is taken from it any more.
    Broken,
}

impl Channels {
    pub(super) fn new(arena: &Arc<Arena>, worker: u32) -> Self {
        let channels = arena.geometry().channels;
        Self {
            arena: Arc::clone(arena),
            worker,
            ends: (0..channels).map(|_| None).collect(),
            staged: Vec::new(),
            taken: Vec::new(),
            queued_for: 0,
            put_off: 0,
        }
    }

    /// A process has `channel` from now on, whose rings are empty. Nothing happens if there is
    /// no such channel.
    pub(super) fn open(&mut self, channel: u16) {
        let ring = self.ring(channel);
        if let Some(end) = self.ends.get_mut(usize::from(channel)) {
            *end = Some(End {
                channel: AdapterChannel::new(ring),
                is_staged: false,
                is_taken: false,
                is_broken: false,
                pending: PendingEdges::default(),
                owed: 0,
            });
        }
    }

    /// No process has `channel` any more.
    pub(super) fn close(&mut self, channel: u16) {
        if let Some(end) = self.ends.get_mut(usize::from(channel)) {
            *end = None;
        }
    }

    /// The number of a channel's rings at this worker.
    pub(super) fn ring(&self, channel: u16) -> u32 {
        self.arena.geometry().ring(channel.into(), self.worker)
    }

    /// Whether a process has `channel`.
    #[must_use]
    pub fn is_open(&self, channel: u16) -> bool {
        let end = self.ends.get(usize::from(channel));
        end.is_some_and(Option::is_some)
    }

    /// The end that the process of `channel` has to do with.
    #[cfg(test)]
    pub(super) fn end(&mut self, channel: u16) -> Option<&mut AdapterChannel> {
        end_of(&mut self.ends, channel).map(|end| &mut end.channel)
    }

    /// How many requests wait in the channels that are flagged, `most` if there are more.
    pub(super) fn waiting(&self, pending: &PendingRequests, most: u32) -> u32 {
        let mut waiting = 0;
        for channel in pending.flagged_channels() {
            if waiting >= most {
                break;
            }
            if let Some(Some(end)) = self.ends.get(channel) {
                waiting += end.channel.waiting(&self.arena, most - waiting);
            }
        }
        waiting
    }

    /// Takes the next request of a channel, if there is room for `room` completions beside the
    /// answers that are owed, or none need have room. Its immediate data is there in this `round`.
    #[inline]
    pub(super) fn next(
        &mut self,
        channel: u16,
        room: Option<u32>,
        round: u64,
        meter: &mut SessionMeter,
    ) -> Next {
        let (arena, worker) = (&self.arena, self.worker);
        let end = end_of(&mut self.ends, channel);
        let Some(end) = end.filter(|end| !end.is_broken) else {
            return Next::Nothing;
        };
        // What a turn ends with is that there is no more: then nothing else is looked at.
        if !end.channel.pending(arena) {
            return Next::Nothing;
        }
        let next = match end.channel.room(arena) {
            Ok(free) if room.is_none_or(|room| free >= room + end.owed) => {
                if let Some(close) = end.channel.take_close() {
                    return Next::Request(close, Immediate::default());
                }
                match end.channel.take(arena) {
                    Ok(Some(Some(taken))) => {
                        if !count_request(arena, worker, &taken, meter) {
                            // There is no such request.
                            return Next::Request([0; WORDS], Immediate::default());
                        }
                        let immediate = taken
                            .immediate
                            .map(|(said, own)| Immediate::new(&said, (channel, own), round));
                        return Next::Request(taken.message, immediate.unwrap_or_default());
                    }
                    Ok(None) => Next::Nothing,
                    Ok(Some(None)) | Err(_) => Next::Broken,
                }
            }
            Ok(_) => Next::NoRoom,
            Err(_) => Next::Broken,
        };
        if next == Next::Broken {
            end.is_broken = true;
            meter.note_bad_descriptor();
        }
        next
    }

    /// Requests of a channel were taken.
    pub fn note_taken(&mut self, channel: u16) {
        if let Some(end) = end_of(&mut self.ends, channel)
            && !std::mem::replace(&mut end.is_taken, true)
        {
            self.taken.push(channel);
        }
    }

    /// Whether the places of requests that were taken are still to be given back.
    #[inline]
    pub(super) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Gives the places of requests that were taken back, or keeps them as long as something is
    /// `under_way`; whether any are kept. In each other `round` the immediate data of those that
    /// were given back is gone.
    #[inline(never)]
    pub(super) fn release(&mut self, under_way: UnderWay, round: &mut u64) -> bool {
        if under_way != UnderWay::Nothing {
            return self.keep_taken(under_way, round);
        }
        self.queued_for = 0;
        *round += 1;
        for channel in self.taken.drain(..) {
            if let Some(end) = end_of(&mut self.ends, channel) {
                end.is_taken = false;
                end.channel.release(&self.arena);
            }
        }
        false
    }

    /// Keeps the places of requests that were taken in this turn and the one before it, and of
    /// those of earlier ones for a while, if more is `under_way` than a turn takes; says whether
    /// there are any.
    fn keep_taken(&mut self, under_way: UnderWay, round: &mut u64) -> bool {
        if under_way == UnderWay::Queued && self.queued_for < MOST_QUEUED {
            self.queued_for += 1;
            return true;
        }
        if under_way == UnderWay::Passing {
            self.queued_for = 0;
        }
        *round += 1;
        let (arena, ends) = (&self.arena, &mut self.ends);
        self.taken.retain(|channel| {
            let Some(end) = end_of(ends, *channel) else {
                return false;
            };
            end.is_taken = end.channel.keep(arena);
            end.is_taken
        });
        !self.taken.is_empty()
    }

    /// A request of a channel is answered later: there must be room for that answer.
    pub fn owe_answer(&mut self, channel: u16) {
        if let Some(end) = end_of(&mut self.ends, channel) {
            end.owed += 1;
        }
    }

    /// An answer that was owed is about to be put.
    pub fn pay_answer(&mut self, channel: u16) {
        if let Some(end) = end_of(&mut self.ends, channel) {
            end.owed = end.owed.saturating_sub(1);
        }
    }

    /// Moves of edges that were put off, since a process had not taken those before.
    #[must_use]
    pub fn put_off(&self) -> u64 {
        self.put_off
    }
}

/// Counts a request that was taken; whether it may be about a socket of this worker.
#[inline]
fn count_request(arena: &Arena, worker: u32, taken: &Taken, meter: &mut SessionMeter) -> bool {
    let socket = Request::socket_in(&taken.message);
    let opens = Request::opens(&taken.message);
    // The name of a socket says which worker has it.
    let is_ours = |socket: SocketId| arena.naming().worker(socket) == worker;
    meter.count_request(&taken.crossed, socket, opens, is_ours)
}

#[cfg(test)]
mod tests;
