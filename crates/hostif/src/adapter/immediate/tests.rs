//! What is put with immediate data is what is taken, wherever in the ring it lies.

use super::*;
use crate::abi::{EdgeFlags, MAX_IMMEDIATE, OpenFlags, RING, Request, SocketId, SocketKind};
use crate::adapter::session::small;
use crate::adapter::{AdapterSession, MAX_PIECES, Next, UnderWay};
use crate::host::{HostChannel, HostSession};
use crate::meter::Descriptors;
use crate::pattern::pattern_from;
use longshore_ring::Doorbell;
use std::sync::Arc;

const CHANNEL: u16 = 3;

struct Both {
    adapter: AdapterSession,
    session: HostSession,
    channel: HostChannel,
    doorbell: Doorbell,
    socket: SocketId,
    edge: u64,
}

impl Both {
    fn new() -> Self {
        let mut adapter = small();
        adapter.open_channel(CHANNEL);
        let session = HostSession::of(adapter.arena());
        let channel = HostChannel::new(Arc::clone(adapter.arena()), CHANNEL.into());
        let opened = session.open_block(CHANNEL.into(), SocketKind::Stream, OpenFlags::empty());
        Self {
            socket: opened.unwrap().unwrap(),
            adapter,
            session,
            channel,
            doorbell: Doorbell::new().unwrap(),
            edge: 0,
        }
    }

    /// Writes so many bytes, and says so with as much of it as immediate data.
    fn write(&mut self, len: usize, immediate: usize) {
        let bytes = pattern_from(self.edge, len);
        assert_eq!(self.session.append(self.socket.index, &bytes), Ok(len));
        self.edge += len as u64;
        self.say(immediate);
    }

    fn say(&mut self, immediate: usize) {
        let edges = Request::Edges {
            socket: self.socket,
            snd_edge: self.edge,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: immediate as u16,
        };
        self.channel.put(&edges).unwrap();
        self.channel.publish(&self.doorbell, false);
    }

    fn next(&mut self) -> Option<(Request, Immediate)> {
        match self.adapter.next_request(CHANNEL, 8) {
            Next::Request(message, immediate) => {
                Some((Request::decode(&message).unwrap(), immediate))
            }
            Next::Nothing => None,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the next request, which has just the last `len` bytes.
    fn expect(&mut self, len: usize) -> Immediate {
        let (request, immediate) = self.next().expect("it was put");
        let Request::Edges {
            snd_edge,
            immediate: said,
            ..
        } = request
        else {
            panic!("{request:?}")
        };
        assert_eq!((snd_edge, usize::from(said)), (self.edge, len));
        let from = self.edge - len as u64;
        if len == 0 {
            assert!(immediate.is_empty());
            return immediate;
        }
        assert_eq!((immediate.start, immediate.end), (from, self.edge));
        self.compare(&immediate, from..self.edge);
        immediate
    }

    fn compare(&self, immediate: &Immediate, range: Range<u64>) {
        let mut got = vec![0; (range.end - range.start) as usize];
        let send = &self.adapter.send;
        assert!(send.copy_immediate_out(immediate, range.start, &mut got));
        assert_eq!(got, pattern_from(range.start, got.len()));
    }

    fn finds(&self, immediate: &Immediate, range: &Range<u64>) -> bool {
        let mut out = [SharedBytes::EMPTY; MAX_PIECES];
        let found = self
            .adapter
            .send
            .gather_immediate(immediate, range, &mut out);
        found.is_some()
    }

    fn give_back(&mut self) {
        self.adapter.channels.note_taken(CHANNEL);
        assert!(!self.adapter.release_requests(UnderWay::Nothing));
        self.session
            .acknowledge(self.socket.index, self.edge)
            .unwrap();
    }
}

#[test]
fn what_is_put_with_a_descriptor_is_taken_with_it() {
    let mut both = Both::new();
    // Some lie across the ring's end, some across the end of a chunk.
    let rounds = 4 * RING / 10;
    for round in 0..rounds {
        let len = 1 + round * 37 % MAX_IMMEDIATE;
        both.write(len, len);
        let whole = both.expect(len);
        // Parts of it, as segments have them, and what lies beyond an edge.
        let (start, end) = (whole.start, whole.end);
        both.compare(&whole, start + len as u64 / 2..end);
        let rest = whole.beyond(start + len as u64 / 3);
        both.compare(&rest, start + len as u64 / 3..end);
        assert!(whole.beyond(end).is_empty() && whole.beyond(0) == whole);
        for range in [start..end + 1, start.saturating_sub(1)..end + 1] {
            assert!(!both.finds(&whole, &range));
        }
        assert!(both.finds(&whole, &(start..end)));
        both.give_back();
        assert!(!both.finds(&whole, &(start..end)));
    }
}

#[test]
fn writes_that_were_not_fetched_are_one() {
    let mut both = Both::new();
    both.write(700, 700);
    both.write(20, 20);
    both.say(0);
    both.write(592, 592);
    both.expect(1312);
    assert_eq!(both.next(), None);
    both.give_back();
    // What is too much for one is read where it lies, and one that was fetched stays.
    both.write(700, 700);
    both.write(613, 613);
    both.expect(0);
    both.write(33, 33);
    both.expect(33);
    both.write(40, 40);
    both.expect(40);
}

#[test]
fn transfers_and_bytes_are_metered() {
    let mut both = Both::new();
    both.write(64, 64);
    both.expect(64);
    both.give_back();
    let crossed = both.adapter.meter.to_adapter;
    assert_eq!(
        (crossed.descriptors, crossed.moved().transfers),
        (
            Descriptors {
                transfers: 1,
                count: 1,
                bytes: 24 + 64,
                immediate: 64
            },
            1
        )
    );
}

/// A batch that goes on at the ring's beginning lies in two places.
#[test]
fn what_goes_on_at_the_beginning_of_the_ring_is_two_transfers() {
    let mut both = Both::new();
    let slots = 21;
    let fill = RING / slots;
    for round in 0..=fill {
        let before = both.adapter.meter.to_adapter.descriptors.transfers;
        both.write(MAX_IMMEDIATE, MAX_IMMEDIATE);
        both.expect(MAX_IMMEDIATE);
        both.give_back();
        let transfers = both.adapter.meter.to_adapter.descriptors.transfers - before;
        assert_eq!(transfers, if round == fill { 2 } else { 1 });
    }
}

/// What is written last, and that its socket is closed then, cross in one descriptor, of which
/// nothing is counted but what it has.
#[test]
fn a_close_crosses_with_what_was_written_last() {
    let close = |both: &Both, linger| Request::Close {
        socket: both.socket,
        snd_edge: both.edge,
        rcv_consumed: 0,
        linger,
    };
    for (linger, count, bytes) in [(None, 1, 24 + 104), (Some(3), 2, 128 + 40)] {
        let mut both = Both::new();
        both.write(100, 100);
        let close = close(&both, linger);
        both.channel.put(&close).unwrap();
        both.channel.publish(&both.doorbell, false);
        both.expect(100);
        assert_eq!(both.next(), Some((close, Immediate::default())));
        assert_eq!(both.next(), None);
        let crossed = both.adapter.meter.to_adapter.descriptors;
        assert_eq!(
            (crossed.count, crossed.bytes, crossed.transfers),
            (count, bytes, 1)
        );
    }
    // What is said of the socket after the close has begun a descriptor of its own.
    let mut both = Both::new();
    both.write(100, 100);
    let close = close(&both, None);
    both.channel.put(&close).unwrap();
    both.say(0);
    both.expect(100);
    assert!(
        both.adapter
            .channels
            .end(CHANNEL)
            .unwrap()
            .pending(&both.adapter.arena)
    );
    assert_eq!(both.next(), Some((close, Immediate::default())));
    both.expect(0);
}

#[test]
#[cfg_attr(miri, ignore = "it takes a minute there, and nothing is unsafe")]
fn data_leaves_half_of_the_ring_to_descriptors() {
    let mut both = Both::new();
    let other = Request::Subscribe {
        socket: both.socket,
    };
    let mut with_data = 0;
    for _ in 0..40 {
        both.write(MAX_IMMEDIATE, MAX_IMMEDIATE);
        both.channel.put(&other).unwrap();
        both.channel.publish(&both.doorbell, false);
    }
    while let Some((request, immediate)) = both.next() {
        let is_write = matches!(request, Request::Edges { .. });
        with_data += u32::from(is_write && !immediate.is_empty());
    }
    assert_eq!(with_data, 23);
}

#[test]
fn the_data_of_a_process_that_is_gone_is_not_read() {
    let mut both = Both::new();
    both.write(100, 100);
    let immediate = both.expect(100);
    both.adapter.close_channel(CHANNEL);
    let mut out = [0; 100];
    let send = &both.adapter.send;
    assert!(!send.copy_immediate_out(&immediate, 0, &mut out));
}

#[test]
fn more_data_than_was_published_breaks_the_ring() {
    let mut both = Both::new();
    both.write(10, 10);
    let places = both
        .adapter
        .arena()
        .immediate_places(CHANNEL.into(), 0, 22, 2);
    let len = places[0].0;
    let memory = both.adapter.arena().memory();
    // Of 41 bytes one is in the next slot.
    memory.write(len, &41u16.to_ne_bytes());
    assert_eq!(both.adapter.next_request(CHANNEL, 8), Next::Broken);

    // What is in the slot and was not published with it.
    for (bytes, is_whole) in [(16u16, true), (17, false)] {
        let mut both = Both::new();
        both.write(10, 10);
        let memory = both.adapter.arena().memory();
        memory.write(len, &bytes.to_ne_bytes());
        let is_broken = both.adapter.next_request(CHANNEL, 8) == Next::Broken;
        assert_eq!(is_broken, !is_whole);
    }

    let mut both = Both::new();
    both.write(10, 10);
    let memory = both.adapter.arena().memory();
    memory.write(len, &(MAX_IMMEDIATE as u16 + 1).to_ne_bytes());
    let Next::Request(message, immediate) = both.adapter.next_request(CHANNEL, 8) else {
        panic!("it is a descriptor, if a bad one")
    };
    assert!(Request::decode(&message).is_err() && immediate.is_empty());
}

/// A range that begins in immediate data is gathered there, as far as that goes, and from the
/// chunks behind it.
#[test]
fn what_begins_in_immediate_data_goes_on_where_it_lies() {
    let mut both = Both::new();
    both.write(100, 60);
    let immediate = both.expect(60);
    assert_eq!(immediate.start(), 40);
    both.write(50, 0);
    both.expect(0);
    let reported = ReportedRange::default();
    let index = both.socket.index;
    let found = |both: &Both, range: Range<u64>, room: usize| {
        let mut out = [SharedBytes::EMPTY; MAX_PIECES];
        let send = &both.adapter.send;
        let with = (&immediate, &reported);
        let found = send.gather_with(with, index, range.clone(), Use::Read, &mut out[..room]);
        let (count, from_it) = found.unwrap();
        let mut got = Vec::new();
        for piece in &out[..count] {
            let at = got.len();
            got.resize(at + piece.len(), 0);
            piece.copy_to(&mut got[at..]);
        }
        assert_eq!(got, pattern_from(range.start, got.len()));
        (count, from_it)
    };
    for (range, pieces) in [
        (40..100, (1, 60)),
        (50..90, (1, 40)),
        (60..150, (2, 40)),
        (99..101, (2, 1)),
        // Its beginning is elsewhere.
        (30..100, (1, 0)),
        (100..150, (1, 0)),
    ] {
        assert_eq!(found(&both, range.clone(), MAX_PIECES), pieces, "{range:?}");
    }
    assert_eq!(
        found(&both, 60..150, 1),
        (1, 0),
        "there is room for one piece"
    );
    assert!(both.adapter.send.has_immediate(&immediate));
    // Its place is the next one's: but the chunks have all of it.
    both.adapter.channels.note_taken(CHANNEL);
    assert!(!both.adapter.release_requests(UnderWay::Nothing));
    assert!(!both.adapter.send.has_immediate(&immediate));
    assert_eq!(found(&both, 60..150, MAX_PIECES), (1, 0));
}

#[test]
fn places_that_are_kept_for_what_is_under_way_are_another_rounds() {
    let mut both = Both::new();
    both.write(100, 60);
    let immediate = both.expect(60);
    both.adapter.channels.note_taken(CHANNEL);
    assert!(both.adapter.release_requests(UnderWay::Queued));
    assert!(both.adapter.send.has_immediate(&immediate));
    assert!(both.adapter.release_requests(UnderWay::Passing));
    assert!(!both.adapter.send.has_immediate(&immediate));
}

/// A request in the last slot has the rest of its data in the first one: two transfers.
#[test]
fn data_behind_the_last_slot_is_another_transfer() {
    let mut both = Both::new();
    for _ in 1..RING {
        both.write(1, 0);
        both.expect(0);
        both.give_back();
    }
    let before = both.adapter.meter.to_adapter.descriptors;
    both.write(60, 60);
    both.expect(60);
    let after = both.adapter.meter.to_adapter.descriptors;
    assert_eq!(after.transfers - before.transfers, 2);
    assert_eq!(after.immediate - before.immediate, 60);
}
