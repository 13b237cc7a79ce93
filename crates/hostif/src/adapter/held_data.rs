//! Short stretches of receive streams that go to the host in a descriptor, kept here until
//! they are there for certain.
//!
//! What is told so lies in the ring of one process, and is in the stream's chunk only when
//! that process has taken it. It may be slow, or end before; and another process may have the
//! socket by then. So the bytes are kept ([`HeldData`]) until they were taken or read, and
//! are placed by the adapter if others are to be told. A process that takes them late writes
//! the same bytes to the same chunk once more, so that chunk is nobody else's until it has
//! ([`Withheld`]).
//!
//! A session's [`ReceiveSlab`](super::ReceiveSlab) owns one of each; its streams use them.

use crate::abi::{MOST_DATA, RING};
use crate::transport::Arena;
use std::collections::VecDeque;

/// Stretches that a session keeps at once. What is beyond them is placed. Under Miri, where only
/// the tests here keep so many, they are fewer.
const MOST_HELD: usize = if cfg!(miri) { 64 } else { 1024 };
/// Of those that were told, so many are looked at for one that was taken.
const LOOKS: usize = 8;

/// What was told of by a descriptor: the last message of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) channel: u16,
    /// Which of the processes that had the channel.
    epoch: u32,
    /// The message's number among the completions.
    number: u32,
}

/// The processes that had each channel, and what they keep from being used.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    epochs: Vec<u32>,
    withheld: Vec<u32>,
    /// The number of the first channel's rings at this worker.
    first_ring: u32,
}

impl Epochs {
    pub(super) fn new(channels: u32, first_ring: u32) -> Self {
        Self {
            first_ring,
            epochs: vec![0; channels as usize],
            withheld: vec![0; channels as usize],
        }
    }

    fn of(&self, channel: u16) -> u32 {
        self.epochs.get(usize::from(channel)).copied().unwrap_or(0)
    }

    /// Another process has a channel from now on, or none.
    pub(super) fn begin(&mut self, channel: u16) {
        if let Some(epoch) = self.epochs.get_mut(usize::from(channel)) {
            *epoch = epoch.wrapping_add(1);
        }
    }

    /// What the process of `channel` is told by message `number`.
    pub(super) fn reported(&self, channel: u16, number: u32) -> Reported {
        Reported {
            channel,
            epoch: self.of(channel),
            number,
        }
    }

    /// Whether the process that was told so still has the channel.
    pub(super) fn is_there(&self, reported: &Reported) -> bool {
        self.of(reported.channel) == reported.epoch
    }

    /// Whether the process keeps chunks from being used: it is not told more in this way.
    pub(super) fn withholds(&self, channel: u16) -> bool {
        let withheld = self.withheld.get(usize::from(channel));
        withheld.is_none_or(|count| *count != 0)
    }

    /// Whether the process has said that it is done with it.
    pub(super) fn was_taken(&self, arena: &Arena, reported: &Reported) -> bool {
        if !self.is_there(reported) {
            return false;
        }
        let ring = self.first_ring + u32::from(reported.channel);
        let done = arena.control(ring).completions.given_back();
        // Those that it is not done with are no more than the ring holds.
        reported.number.wrapping_sub(done) >= RING as u32
    }

    /// Whether the process may still write what it was told.
    pub(super) fn may_write(&self, arena: &Arena, reported: &Reported) -> bool {
        self.is_there(reported) && !self.was_taken(arena, reported)
    }
}

/// A place among [`HeldData`], and which of those that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    at: u32,
    use_count: u32,
}

#[derive(Debug)]
struct Held {
    bytes: Box<[u8; MOST_DATA]>,
    use_count: u32,
    reported: Option<Reported>,
}

/// The stretches that are kept.
#[derive(Debug, Default)]
pub(super) struct HeldData {
    all: Vec<Held>,
    free: Vec<u32>,
    /// Where looking for those that were taken goes on.
    next: usize,
}

impl HeldData {
    /// A place for a stretch; `None` if all are in use, or the host does not take any.
    pub(super) fn take(&mut self, arena: &Arena, epochs: &Epochs) -> Option<Hold> {
        if !arena.takes_immediate_data() {
            return None;
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.all.len() < MOST_HELD => {
                self.all.push(Held {
                    bytes: Box::new([0; MOST_DATA]),
                    use_count: 0,
                    reported: None,
                });
                self.all.len() as u32 - 1
            }
            None => self.find_taken(arena, epochs)?,
        };
        let held = self.all.get_mut(at as usize)?;
        held.use_count = held.use_count.wrapping_add(1);
        held.reported = None;
        let use_count = held.use_count;
        Some(Hold { at, use_count })
    }

    /// One that its process has taken: nobody needs it any more, though its stream has not
    /// noticed.
    fn find_taken(&mut self, arena: &Arena, epochs: &Epochs) -> Option<u32> {
        for _ in 0..LOOKS {
            let at = self.next % self.all.len();
            self.next = at + 1;
            let reported = self.all.get(at)?.reported.as_ref();
            if reported.is_some_and(|reported| epochs.was_taken(arena, reported)) {
                return Some(at as u32);
            }
        }
        None
    }

    fn get(&mut self, hold: Hold) -> Option<&mut Held> {
        let held = self.all.get_mut(hold.at as usize);
        held.filter(|held| held.use_count == hold.use_count)
    }

    /// Adds bytes behind the `len` that there are.
    pub(super) fn append(&mut self, hold: Hold, len: usize, bytes: &[u8]) {
        if let Some(held) = self.get(hold)
            && let Some(room) = held.bytes.get_mut(len..len + bytes.len())
        {
            room.copy_from_slice(bytes);
        }
    }

    /// The first `len` bytes of a stretch, if it is still kept.
    pub(super) fn bytes(&self, hold: Hold, len: usize) -> Option<&[u8]> {
        let held = self.all.get(hold.at as usize)?;
        let is_its = held.use_count == hold.use_count;
        is_its.then(|| held.bytes.get(..len))?
    }

    /// It was told so.
    pub(super) fn note_reported(&mut self, hold: Hold, reported: Reported) {
        if let Some(held) = self.get(hold) {
            held.reported = Some(reported);
        }
    }

    /// It is not needed any more.
    pub(super) fn give_back(&mut self, hold: Hold) {
        if let Some(held) = self.get(hold) {
            held.use_count = held.use_count.wrapping_add(1);
            held.reported = None;
            self.free.push(hold.at);
        }
    }

    /// How many are in use.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

/// Chunks that no stream has and a process may still write to.
#[derive(Debug, Default)]
pub(super) struct Withheld(VecDeque<(u32, Reported)>);

impl Withheld {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn insert(&mut self, chunk: u32, reported: Reported, epochs: &mut Epochs) {
        self.0.push_back((chunk, reported));
        if let Some(count) = epochs.withheld.get_mut(usize::from(reported.channel)) {
            *count += 1;
        }
    }

    /// Looks at the first `most`: one to which nobody may write any more.
    pub(super) fn take(&mut self, arena: &Arena, epochs: &mut Epochs, most: usize) -> Option<u32> {
        for _ in 0..most.min(self.0.len()) {
            let (chunk, reported) = self.0.pop_front()?;
            if epochs.may_write(arena, &reported) {
                self.0.push_back((chunk, reported));
                continue;
            }
            if let Some(count) = epochs.withheld.get_mut(usize::from(reported.channel)) {
                *count -= 1;
            }
            return Some(chunk);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::session::small;

    /// Told by message `number` of channel 3, of which the process has given none back: it is
    /// done with those before them, as far as numbers go round.
    fn reported(epochs: &Epochs, number: u32) -> Reported {
        epochs.reported(3, number)
    }

    #[test]
    fn what_a_process_has_taken_is_known_as_long_as_it_has_its_channel() {
        let session = small();
        let mut epochs = Epochs::new(64, 0);
        let ring = RING as u32;
        for (number, was_taken) in [
            (0, false),
            (ring - 1, false),
            (ring, true),
            (u32::MAX, true),
        ] {
            let reported = reported(&epochs, number);
            assert_eq!(epochs.was_taken(session.arena(), &reported), was_taken);
            assert_eq!(epochs.may_write(session.arena(), &reported), !was_taken);
        }
        let reported = reported(&epochs, u32::MAX);
        epochs.begin(3);
        assert!(!epochs.is_there(&reported) && !epochs.was_taken(session.arena(), &reported));
        assert!(!epochs.may_write(session.arena(), &reported));
    }

    /// One that was not taken is never another's.
    #[test]
    fn so_many_are_kept_and_of_those_that_were_taken_one_is_used_again() {
        let session = small();
        let (arena, epochs) = (session.arena(), Epochs::new(64, 0));
        let mut held = HeldData::default();
        let holds: Vec<Hold> = (0..MOST_HELD)
            .map(|_| held.take(arena, &epochs).expect("a place"))
            .collect();
        for hold in &holds {
            held.append(*hold, 0, b"kept");
            held.note_reported(*hold, reported(&epochs, 0));
        }
        for _ in 0..2 * MOST_HELD / LOOKS {
            assert_eq!(held.take(arena, &epochs), None);
        }
        assert!(
            holds
                .iter()
                .all(|hold| held.bytes(*hold, 4) == Some(b"kept"))
        );
        // It was taken, and its stream has not noticed.
        held.note_reported(holds[5], reported(&epochs, u32::MAX));
        let again = (0..MOST_HELD).find_map(|_| held.take(arena, &epochs));
        let again = again.expect("the one that was taken");
        assert_eq!(held.bytes(holds[5], 4), None, "it is another's");
        held.append(holds[5], 0, b"late");
        held.give_back(holds[5]);
        assert_eq!(
            (held.bytes(again, 4), held.in_use()),
            (Some(&b"kept"[..]), MOST_HELD)
        );
        assert!((0..2 * MOST_HELD / LOOKS).all(|_| held.take(arena, &epochs).is_none()));
        held.give_back(again);
        assert_eq!((held.bytes(again, 4), held.in_use()), (None, MOST_HELD - 1));
        held.give_back(again);
        assert_eq!(held.in_use(), MOST_HELD - 1, "once");
    }
}
