//! The parts in use of the file that pages are sent from: numbers alone, no memory is
//! touched here.
//!
//! Owns [`Extents`], of which `sending` has one. A part is in use as long as the program's memory
//! shows it, which `sending` knows, or a send stream has bytes of it that are not acknowledged.

use super::PAGE;
use longshore_hostif::SocketId;
use std::ops::Range;

/// Parts that are in use at a time, at most.
const MOST: usize = 256;
/// Sockets that may have bytes of one part under way.
const MOST_SENDERS: usize = 16;

/// A part of the file that was taken for one stretch of the program's memory.
#[derive(Debug)]
struct Extent {
    range: Range<u64>,
    /// The sockets that have sent of it, and how far their streams were written then.
    senders: Vec<(SocketId, u64)>,
    /// When it was sent last, in calls.
    last_used: u64,
}

/// The parts that are in use, in order.
#[derive(Debug, Default)]
pub(super) struct Extents {
    list: Vec<Extent>,
    /// Counts the calls that send.
    calls: u64,
}

impl Extents {
    /// Another call begins: what it sends is not the oldest until the next one.
    pub(super) fn begin_call(&mut self) {
        self.calls += 1;
    }

    /// Takes a part of a file of `size` bytes, the first that is free.
    pub(super) fn take(&mut self, len: usize, size: u64) -> Option<u64> {
        debug_assert!(len.is_multiple_of(PAGE));
        if self.list.len() >= MOST {
            return None;
        }
        let mut from = 0;
        let mut at = 0;
        for extent in &self.list {
            if extent.range.start - from >= len as u64 {
                break;
            }
            from = extent.range.end;
            at += 1;
        }
        let range = from..from + len as u64;
        if range.end > size {
            return None;
        }
        let extent = Extent {
            range,
            senders: Vec::new(),
            last_used: self.calls,
        };
        self.list.insert(at, extent);
        Some(from)
    }

    /// The one that has this byte.
    fn at(&mut self, place: u64) -> Option<&mut Extent> {
        let at = self.list.partition_point(|e| e.range.end <= place);
        self.list.get_mut(at).filter(|e| e.range.contains(&place))
    }

    /// The part of which this is one byte is going to be sent by this call.
    pub(super) fn use_now(&mut self, place: u64) {
        let calls = self.calls;
        if let Some(extent) = self.at(place) {
            extent.last_used = calls;
        }
    }

    /// Whether a socket may send of the part that has this byte: not too many others do.
    pub(super) fn may_send(
        &mut self,
        place: u64,
        socket: SocketId,
        is_acknowledged: impl Fn(SocketId, u64) -> bool,
    ) -> bool {
        self.at(place).is_some_and(|extent| {
            let senders = &mut extent.senders;
            if senders.len() >= MOST_SENDERS {
                senders.retain(|(socket, end)| !is_acknowledged(*socket, *end));
            }
            senders.len() < MOST_SENDERS || senders.iter().any(|(one, _)| *one == socket)
        })
    }

    /// A socket has sent of the part that has this byte; its stream is written up to `end`.
    pub(super) fn note_sent(&mut self, place: u64, socket: SocketId, end: u64) {
        let Some(extent) = self.at(place) else { return };
        match extent.senders.iter_mut().find(|(one, _)| *one == socket) {
            Some((_, last)) => *last = end.max(*last),
            None => extent.senders.push((socket, end)),
        }
    }

    /// Gives back what is not in use any more, nor by this call.
    pub(super) fn give_back(
        &mut self,
        is_shown: impl Fn(&Range<u64>) -> bool,
        is_acknowledged: impl Fn(SocketId, u64) -> bool,
    ) {
        let calls = self.calls;
        self.list.retain_mut(|extent| {
            let is_sent = |(socket, end): &(SocketId, u64)| !is_acknowledged(*socket, *end);
            extent.senders.retain(is_sent);
            let is_used = extent.last_used == calls || !extent.senders.is_empty();
            is_used || is_shown(&extent.range)
        });
    }

    /// Of those that are shown the one that was not sent for the longest time, and not by this
    /// call.
    pub(super) fn oldest(&self, is_shown: impl Fn(&Range<u64>) -> bool) -> Option<Range<u64>> {
        let all = self.list.iter();
        let others = all.filter(|e| e.last_used != self.calls && is_shown(&e.range));
        let oldest = others.min_by_key(|e| e.last_used)?;
        Some(oldest.range.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 16 * PAGE as u64;

    fn socket(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 1,
        }
    }

    fn places(extents: &Extents) -> Vec<u64> {
        let starts = extents.list.iter().map(|e| e.range.start / PAGE as u64);
        starts.collect()
    }

    #[test]
    fn the_first_gap_that_is_large_enough_is_taken() {
        let mut all = Extents::default();
        for page in [0, 4, 8, 12] {
            assert_eq!(all.take(4 * PAGE, SIZE), Some(page * PAGE as u64));
        }
        assert_eq!(all.take(PAGE, SIZE), None);
        all.give_back(|_| false, |_, _| true);
        assert_eq!(places(&all), [0, 4, 8, 12]);
        all.begin_call();
        let gone = 4 * PAGE as u64;
        all.give_back(|range| range.start != gone, |_, _| true);
        assert_eq!(places(&all), [0, 8, 12]);
        assert_eq!(all.take(5 * PAGE, SIZE), None);
        assert_eq!(all.take(3 * PAGE, SIZE), Some(gone));
        assert_eq!(all.take(PAGE, SIZE), Some(7 * PAGE as u64));
        assert_eq!(places(&all), [0, 4, 7, 8, 12]);
    }

    #[test]
    fn what_is_under_way_stays() {
        let mut all = Extents::default();
        let (one, two) = (all.take(PAGE, SIZE), all.take(PAGE, SIZE));
        let (one, two) = (one.unwrap(), two.unwrap());
        all.begin_call();
        all.note_sent(one, socket(1), 100);
        all.note_sent(one, socket(1), 300);
        all.note_sent(one, socket(1), 200);
        all.note_sent(two + 7, socket(2), 100);
        let acked = |up_to: u64| move |id: SocketId, end| id == socket(1) && end <= up_to;
        all.give_back(|_| false, acked(200));
        assert_eq!(places(&all), [0, 1]);
        all.give_back(|_| false, acked(300));
        assert_eq!(places(&all), [1]);
        all.give_back(|_| false, |_, _| true);
        assert_eq!(places(&all), []);
    }

    #[test]
    fn what_this_call_sends_is_not_the_oldest() {
        let mut all = Extents::default();
        all.begin_call();
        let first = all.take(PAGE, SIZE).unwrap();
        all.begin_call();
        let second = all.take(PAGE, SIZE).unwrap();
        all.begin_call();
        let start = |all: &Extents| all.oldest(|_| true).map(|range| range.start);
        assert_eq!(start(&all), Some(first));
        all.use_now(first + 5);
        assert_eq!(start(&all), Some(second));
        all.use_now(second);
        assert_eq!(start(&all), None);
        all.begin_call();
        assert_eq!(
            all.oldest(|range| range.start == second).unwrap().start,
            second
        );
    }

    #[test]
    fn only_so_many_sockets_send_of_one_part() {
        let mut all = Extents::default();
        let place = all.take(PAGE, SIZE).unwrap();
        for index in 0..MOST_SENDERS as u32 {
            assert!(all.may_send(place, socket(index), |_, _| false));
            all.note_sent(place, socket(index), 1);
        }
        assert!(!all.may_send(place, socket(99), |_, _| false));
        assert!(all.may_send(place, socket(3), |_, _| false));
        assert!(all.may_send(place, socket(99), |id, _| id == socket(5)));
        assert!(!all.may_send(place + PAGE as u64, socket(99), |_, _| true));
    }

    #[test]
    fn there_are_not_too_many() {
        let mut all = Extents::default();
        let taken = (0..).take_while(|_| all.take(PAGE, u64::MAX).is_some());
        assert_eq!(taken.count(), MOST);
    }
}
