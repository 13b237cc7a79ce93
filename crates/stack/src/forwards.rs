//! What connections of a session have received, and others of it send where it lies: which
//! ranges, and how far what their hosts have read counts.
//!
//! Owns [`Forwards`], which each session has, and [`Forwarding`], which a socket has that takes
//! part. `forward` does what requests want of them.

use longshore_hostif::SocketId;
use longshore_hostif::adapter::ReceiveStream;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What a request says of the connection whose bytes are sent.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Which it is.
    pub(crate) source: SocketId,
    /// Bytes of its receive stream.
    pub(crate) range: Range<u64>,
}

/// A range that another socket sends, and whether that is done with it.
#[derive(Debug)]
struct Sent {
    range: Range<u64>,
    is_done: bool,
}

/// A connection of whose receive stream others send ranges.
#[derive(Debug)]
struct Source {
    /// Its key, as long as its program has it.
    key: Option<u32>,
    /// Its chunks, after that.
    remains: Option<ReceiveStream>,
    /// In order; the first is not done.
    ranges: VecDeque<Sent>,
    /// How far its host has read.
    consumed: u64,
}

/// The connections of a session of whose receive streams others send ranges.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    names: u64,
    sources: BTreeMap<u64, Source>,
}

/// Part of a send stream that is another's receive stream.
#[derive(Debug)]
struct Part {
    /// Where it ends.
    end: u64,
    source: u64,
    /// Where it begins there.
    from: u64,
}

/// What of others a socket sends, and what others send of it.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    source: Option<u64>,
    parts: VecDeque<Part>,
}

impl Forwarding {
    /// What its own receive stream is called, of which others send.
    pub(crate) fn source(&self) -> Option<u64> {
        self.source
    }

    /// The program of this connection has it no more, and what it has received is left to those
    /// that send of it: what that is called, if there are any.
    pub(crate) fn leave(&mut self) -> Option<u64> {
        self.source.take()
    }

    /// What is written up to `end` ends with what `source` has received from `from` on.
    pub(crate) fn push(&mut self, end: u64, source: u64, from: u64) {
        self.parts.push_back(Part { end, source, from });
    }

    /// The first part, if what is done with reaches up to its end: whose it was, and from where.
    pub(crate) fn pop(&mut self, done: u64) -> Option<(u64, u64)> {
        let part = self.parts.pop_front_if(|part| part.end <= done)?;
        Some((part.source, part.from))
    }
}

impl Forwards {
    /// Others send `range` of what `socket`, which has this key, has received, and of which its
    /// host had read `consumed` when the first such came; what that is called. None if some of
    /// it was read before, and may be gone.
    pub(crate) fn enter(
        &mut self,
        socket: &mut Forwarding,
        (key, consumed): (u32, u64),
        range: Range<u64>,
    ) -> Option<u64> {
        let names = &mut self.names;
        let name = *socket.source.get_or_insert_with(|| {
            *names += 1;
            *names
        });
        let source = self.sources.entry(name).or_insert_with(|| Source {
            key: Some(key),
            remains: None,
            ranges: VecDeque::new(),
            consumed,
        });
        if range.start < source.consumed {
            return None;
        }
        source.ranges.push_back(Sent {
            range,
            is_done: false,
        });
        Some(name)
    }

    /// No program has a source any more: what `remains` gives stays as long as others send of
    /// it. How far its host has read, if they do.
    pub(crate) fn leave(
        &mut self,
        name: u64,
        remains: impl FnOnce() -> Option<ReceiveStream>,
    ) -> Option<u64> {
        let source = self.sources.get_mut(&name)?;
        if source.ranges.is_empty() {
            self.sources.remove(&name);
            return None;
        }
        source.key = None;
        source.remains = remains();
        Some(source.consumed)
    }

    /// The host of a source has read up to there: how far it counts.
    pub(crate) fn held_back(&mut self, source: u64, consumed: u64) -> u64 {
        let Some(source) = self.sources.get_mut(&source) else {
            return consumed;
        };
        source.consumed = source.consumed.max(consumed);
        let first = source.ranges.front().map(|sent| sent.range.start);
        first.map_or(source.consumed, |first| first.min(source.consumed))
    }

    /// Whether others send of a source.
    pub(crate) fn is_sent(&self, source: u64) -> bool {
        let source = self.sources.get(&source);
        source.is_some_and(|source| !source.ranges.is_empty())
    }

    /// How far its host has read.
    pub(crate) fn consumed(&self, source: u64) -> Option<u64> {
        self.sources.get(&source).map(|source| source.consumed)
    }

    /// The range of a source that begins at `from` is done with. If more is read by that, its
    /// key and how far; if nothing of it is needed any more, its chunks.
    pub(crate) fn end(
        &mut self,
        name: u64,
        from: u64,
    ) -> (Option<(u32, u64)>, Option<ReceiveStream>) {
        let Some(source) = self.sources.get_mut(&name) else {
            return (None, None);
        };
        let found = source
            .ranges
            .binary_search_by_key(&from, |sent| sent.range.start);
        if let Ok(at) = found
            && let Some(sent) = source.ranges.get_mut(at)
        {
            sent.is_done = true;
        }
        let before = source.ranges.len();
        while source.ranges.pop_front_if(|sent| sent.is_done).is_some() {}
        let moved = source.ranges.len() != before;
        let read = source
            .key
            .filter(|_| moved)
            .map(|key| (key, source.consumed));
        if source.ranges.is_empty() && source.key.is_none() {
            let gone = self.sources.remove(&name);
            return (None, gone.and_then(|gone| gone.remains));
        }
        (read, None)
    }

    /// What the connections are called of which others send, and their keys, of those whose
    /// programs have them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u64, u32)> {
        let keys = self.sources.iter();
        keys.filter_map(|(name, source)| Some((*name, source.key?)))
    }

    /// Ranges that are not done with.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sources.values().map(|s| s.ranges.len()).sum()
    }

    /// Chunks of connections that are closed.
    pub(crate) fn remaining_chunks(&self) -> u64 {
        let remains = self.sources.values().filter_map(|s| s.remains.as_ref());
        remains.map(ReceiveStream::chunks).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a source has received counts as read as far as nobody sends of it any more, whoever
    /// is done first.
    #[test]
    fn what_is_sent_counts_as_read_when_all_before_it_is_done_with() {
        let (mut all, mut socket) = (Forwards::default(), Forwarding::default());
        assert_eq!(socket.source(), None);
        let name = all.enter(&mut socket, (7, 100), 100..200).unwrap();
        assert_eq!((socket.source(), all.len()), (Some(name), 1));
        assert!(all.is_sent(name));
        assert_eq!(all.held_back(name, 200), 100);
        assert_eq!(all.consumed(name), Some(200));
        // What was read before may be gone.
        assert_eq!(all.enter(&mut socket, (7, 0), 199..300), None);
        assert_eq!(all.enter(&mut socket, (7, 0), 250..300), Some(name));
        assert_eq!(all.held_back(name, 300), 100);
        // Told of later than what came after it.
        assert_eq!(all.held_back(name, 150), 100);
        assert_eq!(all.consumed(name), Some(300));
        let (read, remains) = all.end(name, 250);
        assert!(read.is_none() && remains.is_none(), "the first is not done");
        // There is no such range.
        assert!(all.end(name, 251).0.is_none() && all.end(name + 1, 100).0.is_none());
        assert_eq!(all.end(name, 100).0, Some((7, 300)));
        assert!(!all.is_sent(name) && all.len() == 0);
        assert_eq!(all.held_back(name, 400), 400);
        // Nobody holds back what there is no source of.
        assert_eq!(
            (all.held_back(name + 1, 5), all.consumed(name + 1)),
            (5, None)
        );
        assert_eq!(all.keys().collect::<Vec<_>>(), [(name, 7)]);
    }

    #[test]
    fn each_source_has_a_name_of_its_own() {
        let mut all = Forwards::default();
        let [mut one, mut other] = [(); 2].map(|()| Forwarding::default());
        let first = all.enter(&mut one, (1, 0), 0..10).unwrap();
        let second = all.enter(&mut other, (2, 0), 0..20).unwrap();
        assert_ne!(first, second);
        assert_eq!(all.keys().collect::<Vec<_>>(), [(first, 1), (second, 2)]);
        assert_eq!(all.end(second, 0).0, Some((2, 0)));
        assert!(all.is_sent(first) && !all.is_sent(second));
    }

    /// A source whose program is gone stays as long as others send of it.
    #[test]
    fn what_is_left_of_a_source_goes_with_the_last_that_sends_of_it() {
        let (mut all, mut socket) = (Forwards::default(), Forwarding::default());
        let name = all.enter(&mut socket, (7, 0), 0..10).unwrap();
        assert_eq!(all.enter(&mut socket, (7, 0), 10..20), Some(name));
        assert_eq!(all.held_back(name, 20), 0);
        assert_eq!(socket.leave(), Some(name));
        assert_eq!((socket.leave(), socket.source()), (None, None));
        assert_eq!(all.leave(name, || Some(ReceiveStream::EMPTY)), Some(20));
        assert!(all.keys().next().is_none() && all.is_sent(name));
        assert_eq!(all.remaining_chunks(), 0);
        let (read, remains) = all.end(name, 0);
        assert!(read.is_none() && remains.is_none(), "no program has it");
        assert!(all.end(name, 10).1.is_some());
        assert!(!all.is_sent(name) && all.consumed(name).is_none());
        // One of which nobody sends is gone at once, and gives nothing.
        let name = all.enter(&mut socket, (8, 0), 0..10).unwrap();
        assert_eq!(all.end(name, 0).0, Some((8, 0)));
        assert_eq!(all.leave(name, || panic!("it keeps its own")), None);
        assert_eq!(all.consumed(name), None);
        assert_eq!(all.leave(name, || None), None);
    }

    #[test]
    fn parts_of_a_send_stream_are_done_with_in_order() {
        let mut socket = Forwarding::default();
        socket.push(100, 1, 0);
        socket.push(200, 2, 50);
        assert_eq!(socket.pop(99), None);
        assert_eq!(socket.pop(100), Some((1, 0)));
        assert_eq!(socket.pop(199), None);
        assert_eq!(socket.pop(u64::MAX), Some((2, 50)));
        assert_eq!(socket.pop(u64::MAX), None);
    }
}
