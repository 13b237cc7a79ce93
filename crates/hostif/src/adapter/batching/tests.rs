//! When batches of a session are due, by level and by time.

use super::*;
use crate::abi::{EdgeFlags, Edges, Hurry, OpenFlags, Request, SocketId, SocketKind};
use crate::adapter::session::small;
use crate::adapter::{AdapterSession, Delays, Next};
use crate::host::{HostChannel, HostSession};
use longshore_ring::Doorbell;
use std::sync::Arc;

const CHANNEL: u16 = 3;
const SOCKET: SocketId = SocketId {
    index: 1,
    generation: 1,
};
const TIME: u64 = 10_000;

struct Both {
    adapter: AdapterSession,
    host: HostChannel,
    doorbell: Doorbell,
}

impl Both {
    fn new(descriptors: u32) -> Self {
        let mut adapter = small();
        adapter.open_channel(CHANNEL);
        adapter.set_batching(Batching::fixed(descriptors, TIME).unwrap());
        let arena = Arc::clone(adapter.arena());
        Self {
            adapter,
            host: HostChannel::new(arena, CHANNEL.into()),
            doorbell: Doorbell::new().unwrap(),
        }
    }

    fn ask(&mut self, hurry: Hurry) {
        self.host
            .put(&Request::Subscribe { socket: SOCKET })
            .unwrap();
        self.host.publish_for(hurry, &self.doorbell, false);
    }

    fn due(&mut self, now: u64) -> Due {
        let delays = Delays {
            soon: 1,
            held_back: 1,
        };
        self.adapter.requests_due(now, delays)
    }

    fn take_all(&mut self) -> u32 {
        self.adapter.pending.begin();
        self.adapter.pending.take_flags(0);
        let next =
            || matches!(self.adapter.next_request(CHANNEL, 8), Next::Request(..)).then_some(());
        std::iter::from_fn(next).count() as u32
    }
}

#[test]
fn requests_are_due_when_enough_wait_or_the_first_has_waited() {
    let mut both = Both::new(4);
    for (n, hurry) in [Hurry::Now, Hurry::First, Hurry::Soon]
        .into_iter()
        .enumerate()
    {
        both.ask(hurry);
        assert_eq!(both.due(100 + n as u64), Due::At(100 + TIME));
        assert!(!both.adapter.pending.has_any_before_frames());
        assert!(!both.adapter.still_has_requests(), "it is known since when");
    }
    assert_eq!(both.due(99 + TIME), Due::At(100 + TIME));
    assert_eq!(both.due(100 + TIME), Due::Now);
    both.ask(Hurry::Now);
    assert!(both.adapter.still_has_requests());
    assert_eq!(both.due(110), Due::Now);
    assert_eq!(both.take_all(), 4);
    both.ask(Hurry::HeldBack);
    assert!(both.adapter.still_has_requests(), "this is not known yet");
    assert_eq!(both.due(200), Due::At(200 + TIME));
}

#[test]
fn what_waits_for_others_alone_begins_no_batch() {
    let mut both = Both::new(3);
    both.ask(Hurry::Later);
    assert_eq!(both.due(100), Due::Never);
    assert!(!both.adapter.still_has_requests());
    both.ask(Hurry::First);
    assert_eq!(both.due(100), Due::Never);
    assert!(both.adapter.pending.has_any_before_frames());
    both.ask(Hurry::Later);
    assert_eq!(both.due(101), Due::Now, "but it counts");
}

/// Immediate data is no descriptor, however many slots it takes.
#[test]
fn requests_count_and_not_their_slots() {
    let mut both = Both::new(3);
    let session = HostSession::of(both.adapter.arena());
    let opened = session.open_block(CHANNEL.into(), SocketKind::Stream, OpenFlags::empty());
    let socket = opened.unwrap().unwrap();
    assert_eq!(session.append(socket.index, &[7; 200]), Ok(200));
    let edges = Request::Edges {
        socket,
        snd_edge: 200,
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 200,
    };
    both.host.put(&edges).unwrap();
    both.host.publish_for(Hurry::Now, &both.doorbell, false);
    assert_eq!(both.due(5), Due::At(5 + TIME));
    both.ask(Hurry::Now);
    assert_eq!(both.due(6), Due::At(5 + TIME));
    both.ask(Hurry::Now);
    assert_eq!(both.due(6), Due::Now);
}

#[test]
fn a_flag_without_requests_and_a_broken_ring_are_looked_at() {
    let mut both = Both::new(4);
    assert!(!both.adapter.still_has_requests());
    both.adapter.pending.flag_channel(CHANNEL);
    assert_eq!(both.due(1), Due::Now);
    both.take_all();
    both.ask(Hurry::Now);
    both.take_all();
    // One that counts from the beginning again takes back what was published.
    both.host = HostChannel::new(Arc::clone(both.adapter.arena()), CHANNEL.into());
    both.ask(Hurry::Now);
    both.take_all();
    both.host = HostChannel::new(Arc::clone(both.adapter.arena()), CHANNEL.into());
    both.ask(Hurry::Now);
    assert_eq!(both.due(1), Due::Now);
}

#[test]
fn completions_are_held_until_there_are_enough_or_the_first_has_waited() {
    let mut both = Both::new(3);
    let edges = Edges::default();
    assert_eq!(
        both.adapter.completions_held_until(0),
        None,
        "there are none"
    );
    for round in [1000, 50_000] {
        for n in 0..2 {
            both.adapter.put_edges(CHANNEL, SOCKET, &edges);
            both.adapter.wakeups.note_waiter(Some(2), SOCKET);
            let held = both.adapter.completions_held_until(round + n);
            assert_eq!(held, Some(round + TIME));
            assert!(!both.adapter.owes_wakeups(), "nobody is woken for these");
        }
        assert_eq!(both.host.get(), Ok(None));
        let now = if round == 1000 {
            both.adapter.put_edges(CHANNEL, SOCKET, &edges);
            round + 5
        } else {
            round + TIME
        };
        assert_eq!(both.adapter.completions_held_until(now), None);
        assert!(both.adapter.publish() && both.adapter.owes_wakeups());
        both.adapter.wake(8);
        assert!(matches!(both.host.get(), Ok(Some(_))));
        while let Ok(Some(_)) = both.host.get() {}
        both.host.release();
    }
}
