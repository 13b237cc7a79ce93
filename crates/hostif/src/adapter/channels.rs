//! The ends of the channels of a session's processes, and getting their requests.
//!
//! Owns [`Channels`], a part of [`AdapterSession`]. The engine's intake takes requests from here;
//! `completions` puts into the ends what goes back.

use super::AdapterSession;
use super::channel::{AdapterChannel, Taken};
use super::immediate::Immediate;
use super::pending_edges::PendingEdges;
use crate::abi::{Hurry, Request, SocketId};
use longshore_ring::spsc::{Message, WORDS};
use std::sync::atomic::Ordering;

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
pub(super) struct End {
    pub(super) channel: AdapterChannel,
    /// It is among those with staged completions.
    pub(super) is_staged: bool,
    /// It is among those whose requests were taken.
    is_taken: bool,
    /// Its process broke its rings: nothing is taken from it any more.
    is_broken: bool,
    /// Sockets whose edges found no room in its ring.
    pub(super) pending: PendingEdges,
    /// Answers that are still to find room in it.
    owed: u32,
}

/// The ends of a session's channels, by their numbers.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) ends: Vec<Option<End>>,
    /// Those with staged completions.
    pub(super) staged: Vec<u16>,
    /// Those whose requests were taken, and are given back when all that they led to is
    /// published.
    taken: Vec<u16>,
    /// Turns for which that was put off, as more was sent than a turn takes.
    queued_for: u8,
    /// Since when there are requests that are to be fetched soon, in the engine's microseconds.
    soon_since: Option<u64>,
    /// And since when there are some that are held back.
    held_since: Option<u64>,
    /// Moves of edges that were put off, since a process had not taken those before.
    pub(super) put_off: u64,
}

impl Channels {
    pub(super) fn new(channels: u32) -> Self {
        Self {
            ends: (0..channels).map(|_| None).collect(),
            staged: Vec::new(),
            taken: Vec::new(),
            queued_for: 0,
            soon_since: None,
            held_since: None,
            put_off: 0,
        }
    }

    #[inline]
    pub(super) fn end(&mut self, channel: u16) -> Option<&mut End> {
        self.ends.get_mut(usize::from(channel))?.as_mut()
    }

    /// Something is staged for a channel.
    #[inline]
    pub(super) fn stage(&mut self, channel: u16) {
        if let Some(Some(end)) = self.ends.get_mut(usize::from(channel))
            && !std::mem::replace(&mut end.is_staged, true)
        {
            self.staged.push(channel);
        }
    }
}

/// When the requests of a session are to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// In a while: their program is at work on more, or about to say that there is no more.
    Soon,
    /// Then, in the engine's microseconds: their program holds them back, and says when no more.
    At(u64),
    /// With others, or before a frame, if there are any at all.
    Never,
}

/// How long requests may wait, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Those that are to be fetched soon.
    pub soon: u64,
    /// Those that are held back.
    pub held_back: u64,
}

/// Whether some of the requests that are `pending` are to be fetched though no others are.
#[inline]
pub(super) fn is_any_wanted(pending: u32) -> bool {
    let wanted = [Hurry::Now, Hurry::Soon, Hurry::HeldBack];
    wanted.iter().any(|hurry| hurry.is_in(pending))
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

impl AdapterSession {
    /// A process has `channel` from now on, whose rings are empty. Nothing happens if there is
    /// no such channel.
    pub fn open_channel(&mut self, channel: u16) {
        self.receive.begin_epoch(channel);
        let ring = self.ring(channel);
        if let Some(end) = self.channels.ends.get_mut(usize::from(channel)) {
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
    pub fn close_channel(&mut self, channel: u16) {
        // Its rings are the next one's.
        self.send.round += 1;
        self.receive.begin_epoch(channel);
        if let Some(end) = self.channels.ends.get_mut(usize::from(channel)) {
            *end = None;
        }
    }

    /// Whether a process has `channel`.
    #[must_use]
    pub fn is_open(&self, channel: u16) -> bool {
        let end = self.channels.ends.get(usize::from(channel));
        end.is_some_and(Option::is_some)
    }

    /// Words of 64 channels each, one of which [`flagged`](Self::flagged) takes.
    #[must_use]
    pub fn channel_words(&self) -> usize {
        self.channels.ends.len() / 64
    }

    /// A bit for each of these words in which a channel is flagged, of those that were when
    /// [`begin_requests`](Self::begin_requests) was called.
    #[must_use]
    pub fn flagged_words(&self) -> u32 {
        let words = &self.meeting.pending().channels;
        let words = words.iter().take(self.channel_words()).rev();
        words.fold(0, |bits, word| {
            bits << 1 | u32::from(word.load(Ordering::Relaxed) != 0)
        })
    }

    /// Whether any process may have published requests.
    #[inline]
    #[must_use]
    pub fn has_requests(&self) -> bool {
        let any = &self.meeting.pending().any;
        any.load(Ordering::Relaxed) != 0
    }

    /// When they are to be fetched, at `now`, in the engine's microseconds.
    #[inline]
    #[must_use]
    pub fn requests_due(&mut self, now: u64, delays: Delays) -> Due {
        if self.batches.is_some()
            && let Some(due) = self.batch_due(now)
        {
            return due;
        }
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::Relaxed);
        if Hurry::Now.is_in(pending) {
            return Due::Now;
        }
        let is_soon = Hurry::Soon.is_in(pending);
        if is_soon {
            let since = *self.channels.soon_since.get_or_insert(now);
            if now.saturating_sub(since) >= delays.soon {
                return Due::Now;
            }
        }
        if Hurry::HeldBack.is_in(pending) {
            let since = *self.channels.held_since.get_or_insert(now);
            return match since.saturating_add(delays.held_back) {
                until if until <= now => Due::Now,
                _ if is_soon => Due::Soon,
                until => Due::At(until),
            };
        }
        if is_soon { Due::Soon } else { Due::Never }
    }

    /// Whether some are to be fetched before any frame that has come is looked at.
    #[inline]
    #[must_use]
    pub fn has_requests_before_frames(&self) -> bool {
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::Relaxed);
        // Of a batch none is taken before the others.
        Hurry::First.is_in(pending) && !(self.batches.is_some() && is_any_wanted(pending))
    }

    /// Whether there are requests that wait for nothing else, as is asked before a sleep:
    /// ordered after [`declare_asleep`](Self::declare_asleep).
    #[must_use]
    pub fn still_has_requests(&self) -> bool {
        if let Some(has_some) = self.has_new_batch() {
            return has_some;
        }
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::SeqCst);
        // Of those that are held back it is known since when, once they were seen.
        let is_unseen = Hurry::HeldBack.is_in(pending) && self.channels.held_since.is_none();
        Hurry::Now.is_in(pending) || Hurry::Soon.is_in(pending) || is_unseen
    }

    /// Those that wait for others wait no longer; whether there are requests at all.
    pub fn hurry_requests(&self) -> bool {
        let any = &self.meeting.pending().any;
        let is_some = any.load(Ordering::SeqCst) != 0;
        if is_some {
            any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
        }
        is_some
    }

    /// All channels that are flagged are about to be looked at.
    pub fn begin_requests(&mut self) {
        self.channels.soon_since = None;
        self.channels.held_since = None;
        self.begin_batch();
        let any = &self.meeting.pending().any;
        // Read, too: what was flagged before any of the flags in it is seen from here on.
        any.swap(0, Ordering::SeqCst);
    }

    /// Takes the flags of 64 channels, `word` times 64 and those that follow: a bit is set for
    /// each that may have requests.
    pub fn flagged(&self, word: usize) -> u64 {
        let flags = self.meeting.pending().channels.get(word);
        flags.map_or(0, |flags| flags.swap(0, Ordering::AcqRel))
    }

    /// Channels of `word` that were not looked at are to be looked at again.
    pub fn flag_again(&self, word: usize, flags: u64) {
        let pending = self.meeting.pending();
        if let Some(all) = pending.channels.get(word) {
            all.fetch_or(flags, Ordering::AcqRel);
        }
        pending.any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
    }

    /// A channel is to be looked at again.
    pub fn flag_channel(&self, channel: u16) {
        self.flag_again(usize::from(channel) / 64, 1 << (channel % 64));
    }

    /// Takes the next request of a channel, if there is room for `room` completions beside the
    /// answers that are owed.
    #[inline]
    pub fn next_request(&mut self, channel: u16, room: u32) -> Next {
        let arena = &self.arena;
        let Some(end) = self.channels.end(channel).filter(|end| !end.is_broken) else {
            return Next::Nothing;
        };
        // What a turn ends with is that there is no more: then nothing else is looked at.
        if !end.channel.pending(arena) {
            return Next::Nothing;
        }
        let next = match end.channel.room(arena) {
            Ok(free) if free >= room + end.owed => {
                if let Some(close) = end.channel.take_close() {
                    return Next::Request(close, Immediate::default());
                }
                match end.channel.take(arena) {
                    Ok(Some(Some(taken))) => {
                        if !self.count_request(&taken) {
                            // There is no such request.
                            return Next::Request([0; WORDS], Immediate::default());
                        }
                        let round = self.send.round;
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
            self.bad_descriptors += 1;
        }
        next
    }

    /// Counts a request that was taken; whether it may be about a socket of this worker.
    #[inline]
    fn count_request(&mut self, taken: &Taken) -> bool {
        let crossed = &taken.crossed;
        self.meter.to_adapter.descriptors.add(crossed);
        let socket = Request::socket_in(&taken.message);
        if Request::opens(&taken.message) && self.has_by_name(socket) {
            self.by_socket.begin_if_free(socket);
        }
        let doorbells = std::mem::take(&mut self.doorbells);
        match self.by_socket.of(socket) {
            Some(row) => {
                row.to_adapter.add(crossed);
                row.doorbells += doorbells;
                true
            }
            None => self.note_uncounted(socket),
        }
    }

    /// Whether the name of a socket says that this worker has it.
    fn has_by_name(&self, socket: SocketId) -> bool {
        self.arena.naming().worker(socket) == self.worker
    }

    /// A request was taken about a socket that is not counted: one that is gone, or that another
    /// worker has. Whether it is not the latter.
    #[cold]
    fn note_uncounted(&mut self, socket: SocketId) -> bool {
        let is_ours = self.has_by_name(socket);
        self.misrouted += u64::from(!is_ours);
        is_ours
    }

    /// A program has rung the doorbell, by which the adapter woke.
    pub fn note_doorbell(&mut self) {
        self.meter.to_adapter.wakeups += 1;
        self.doorbells += 1;
    }

    /// Requests of a channel were taken.
    pub fn note_requests(&mut self, channel: u16) {
        if let Some(Some(end)) = self.channels.ends.get_mut(usize::from(channel))
            && !std::mem::replace(&mut end.is_taken, true)
        {
            self.channels.taken.push(channel);
        }
    }

    /// Gives the places of requests that were taken back to the hosts, which know by this that
    /// whatever they led to can be seen; for that, those of later turns are kept where something
    /// is `under_way`. Says whether places are still to be given back.
    #[inline]
    pub fn release_requests(&mut self, under_way: UnderWay) -> bool {
        !self.channels.taken.is_empty() && self.release_taken(under_way)
    }

    #[inline(never)]
    fn release_taken(&mut self, under_way: UnderWay) -> bool {
        if under_way != UnderWay::Nothing {
            return self.keep_taken(under_way);
        }
        let channels = &mut self.channels;
        channels.queued_for = 0;
        self.send.round += 1;
        for channel in channels.taken.drain(..) {
            if let Some(Some(end)) = channels.ends.get_mut(usize::from(channel)) {
                end.is_taken = false;
                end.channel.release(&self.arena);
            }
        }
        false
    }

    /// Keeps the places of requests that were taken in this turn and the one before it, and of
    /// those of earlier ones for a while, if more is `under_way` than a turn takes; says whether
    /// there are any.
    fn keep_taken(&mut self, under_way: UnderWay) -> bool {
        let channels = &mut self.channels;
        if under_way == UnderWay::Queued && channels.queued_for < MOST_QUEUED {
            channels.queued_for += 1;
            return true;
        }
        if under_way == UnderWay::Passing {
            channels.queued_for = 0;
        }
        self.send.round += 1;
        let (arena, ends) = (&self.arena, &mut channels.ends);
        channels.taken.retain(|channel| {
            let Some(Some(end)) = ends.get_mut(usize::from(*channel)) else {
                return false;
            };
            end.is_taken = end.channel.keep(arena);
            end.is_taken
        });
        !channels.taken.is_empty()
    }

    /// A request of a channel is answered later: there must be room for that answer.
    pub fn owe_answer(&mut self, channel: u16) {
        if let Some(end) = self.channels.end(channel) {
            end.owed += 1;
        }
    }

    /// An answer that was owed is about to be put.
    pub fn pay_answer(&mut self, channel: u16) {
        if let Some(end) = self.channels.end(channel) {
            end.owed = end.owed.saturating_sub(1);
        }
    }

    /// Moves of edges that were put off, since a process had not taken those before.
    #[must_use]
    pub fn put_off(&self) -> u64 {
        self.channels.put_off
    }
}

#[cfg(test)]
mod tests;
