//! Requests that take each other's place: that a connection was accepted, and immediate data that
//! lies where it belongs.

use super::*;
use crate::abi::{
    ACCEPTED_SINCE, EdgeFlags, HELD_BACK_SINCE, LENGTHS_SINCE, SocketId, SocketKind, Versions,
};
use crate::adapter::{AdapterSession, Next};
use crate::host::HostSession;
use crate::{Agreed, Geometry, OpenFlags};
use longshore_ring::{EventfdSignaler, NONE};
use std::sync::atomic::Ordering;

const CHANNEL: u16 = 3;
const LISTENER: SocketId = SocketId {
    index: 1,
    generation: 1,
};
const CONNECTION: SocketId = SocketId {
    index: 2,
    generation: 7,
};

struct Both {
    adapter: AdapterSession,
    host: HostChannel,
    doorbell: Doorbell,
}

impl Both {
    fn new(version: u16) -> Self {
        let agreed = Agreed {
            version,
            ..Agreed::OURS
        };
        let signaler = Arc::new(EventfdSignaler::for_one());
        let mut adapter = AdapterSession::create_for(Geometry::SMALL, agreed, signaler).unwrap();
        adapter.open_channel(CHANNEL);
        let host = HostChannel::new(Arc::clone(adapter.arena()), CHANNEL.into());
        Self {
            adapter,
            host,
            doorbell: Doorbell::new().unwrap(),
        }
    }

    fn ours() -> Self {
        Self::new(Versions::OURS.newest)
    }

    /// The program accepts the connection, whose record ends at `consumed`.
    fn accept(&mut self, consumed: u64) {
        let read = edges(LISTENER, 0, consumed, EdgeFlags::empty());
        self.host.put_accepted(&read, CONNECTION).unwrap();
        self.host.publish_for(Hurry::First, &self.doorbell, false);
    }

    fn put(&mut self, request: Request) {
        self.host.put(&request).unwrap();
        self.host.publish_for(Hurry::Later, &self.doorbell, false);
    }

    fn taken(&mut self) -> Vec<Request> {
        let mut all = Vec::new();
        loop {
            match self.adapter.next_request(CHANNEL, 8) {
                Next::Request(message, _) => all.push(Request::decode(&message).unwrap()),
                Next::Nothing => return all,
                other => panic!("{other:?}"),
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.adapter.meter.to_adapter.descriptors.bytes
    }
}

fn edges(socket: SocketId, snd_edge: u64, rcv_consumed: u64, flags: EdgeFlags) -> Request {
    Request::Edges {
        socket,
        snd_edge,
        rcv_consumed,
        flags,
        immediate: 0,
    }
}

fn close(socket: SocketId, snd_edge: u64, rcv_consumed: u64, linger: Option<u32>) -> Request {
    Request::Close {
        socket,
        snd_edge,
        rcv_consumed,
        linger,
    }
}

#[test]
fn that_a_connection_was_accepted_crosses_with_what_is_said_of_it_first() {
    use EdgeFlags as F;
    let mut both = Both::ours();
    both.accept(64);
    both.put(edges(CONNECTION, 0, 80, F::empty()));
    both.put(edges(CONNECTION, 10, 80, F::PUSH));
    both.put(close(CONNECTION, 10, 80, None));
    let (reported, closed) = (
        edges(CONNECTION, 10, 80, F::PUSH | F::ACCEPTED),
        close(CONNECTION, 10, 80, None),
    );
    assert_eq!(both.taken(), [reported, closed]);
    assert_eq!(both.bytes(), 24);
    // Closed before anything else, also with what was written and not told.
    for written in [0, 10] {
        both.accept(64);
        both.put(close(CONNECTION, written, 0, None));
        let reported = edges(CONNECTION, written, 0, F::ACCEPTED);
        assert_eq!(
            both.taken(),
            [reported, close(CONNECTION, written, 0, None)]
        );
    }
    both.accept(64);
    both.put(edges(CONNECTION, 0, 80, F::empty()));
    both.put(close(CONNECTION, 10, 80, None));
    let reported = edges(CONNECTION, 10, 80, F::ACCEPTED);
    assert_eq!(both.taken(), [reported, close(CONNECTION, 10, 80, None)]);
}

#[test]
fn that_a_connection_was_accepted_crosses_by_itself_where_it_has_to() {
    use EdgeFlags as F;
    let read = |consumed| edges(LISTENER, 0, consumed, F::empty());
    let (wrote, other) = (
        edges(CONNECTION, 10, 0, F::PUSH),
        edges(
            SocketId {
                index: 2,
                generation: 8,
            },
            10,
            0,
            F::PUSH,
        ),
    );
    let far = edges(CONNECTION, 1 << 48, 0, F::PUSH);
    let lingers = close(CONNECTION, 0, 0, Some(0));
    // Nothing that could say so besides.
    for then in [
        other,
        far,
        lingers,
        Request::Subscribe { socket: CONNECTION },
    ] {
        let mut both = Both::ours();
        both.accept(64);
        both.put(then);
        assert_eq!(both.taken(), [read(64), then]);
    }
    // It lingers after it has said so.
    let mut both = Both::ours();
    both.accept(64);
    both.put(wrote);
    both.put(close(CONNECTION, 10, 0, Some(1)));
    let reported = edges(CONNECTION, 10, 0, F::PUSH | F::ACCEPTED);
    assert_eq!(both.taken(), [reported, close(CONNECTION, 10, 0, Some(1))]);
    // The engine has fetched it.
    both.accept(128);
    assert_eq!(both.taken(), [read(128)]);
    both.put(wrote);
    assert_eq!(both.taken(), [wrote]);
    // The listener is shut down, which resets what is not known to have been accepted by then.
    let mut both = Both::ours();
    both.accept(64);
    let shut = edges(LISTENER, 0, 64, F::SHUT_RD);
    both.put(shut);
    both.put(wrote);
    assert_eq!(both.taken(), [read(64), shut, wrote]);
    // An engine that does not know it, and the first that does.
    let mut both = Both::new(ACCEPTED_SINCE - 1);
    both.accept(64);
    both.put(wrote);
    assert_eq!(both.taken(), [read(64), wrote]);
    let mut both = Both::new(ACCEPTED_SINCE);
    both.accept(64);
    both.put(wrote);
    let reported = edges(CONNECTION, 10, 0, F::PUSH | F::ACCEPTED);
    assert_eq!(both.taken(), [reported]);
}

/// The engine clears what says that requests wait, and the host takes the request back before it
/// is looked at: what has its place is fetched as early.
#[test]
fn that_a_connection_was_accepted_is_fetched_no_later_with_other_words() {
    for again in [false, true] {
        let mut both = Both::ours();
        both.accept(64);
        if again {
            // Published, and then not.
            both.put(edges(CONNECTION, 0, 5, EdgeFlags::empty()));
            let then = edges(CONNECTION, 0, 6, EdgeFlags::empty());
            both.host.put(&then).unwrap();
        }
        both.host
            .put(&edges(CONNECTION, 0, 9, EdgeFlags::empty()))
            .unwrap();
        both.adapter.pending.begin();
        assert_eq!(both.adapter.pending.take_flags(0), 1 << CHANNEL);
        assert_eq!(both.taken(), []);
        both.host.publish_for(Hurry::Later, &both.doorbell, false);
        assert!(both.adapter.pending.has_any_before_frames());
        assert_eq!(both.taken().len(), 1);
        both.adapter.pending.begin();
        // And nothing else is fetched so.
        both.put(edges(CONNECTION, 0, 10, EdgeFlags::empty()));
        assert!(!both.adapter.pending.has_any_before_frames());
    }
}

/// Bytes of a request that has its place taken by one of another length are put anew.
#[test]
fn what_lies_behind_fewer_words_is_copied_again() {
    const NEAR: u64 = 1 << 48;
    let mut both = Both::ours();
    let session = HostSession::of(both.adapter.arena());
    let opened = session.open_block(CHANNEL.into(), SocketKind::Stream, OpenFlags::empty());
    let socket = opened.unwrap().unwrap();
    let bytes: Vec<u8> = (0..60).collect();
    assert_eq!(session.append(socket.index, &bytes), Ok(60));
    // What it has read takes more bits by then, and all four words.
    for (read, len) in [(NEAR - 1, 20), (NEAR, 60)] {
        both.put(Request::Edges {
            socket,
            snd_edge: len,
            rcv_consumed: read,
            flags: EdgeFlags::PUSH,
            immediate: if len == 20 { 20 } else { 40 },
        });
    }
    let Next::Request(_, immediate) = both.adapter.next_request(CHANNEL, 8) else {
        panic!("it was published")
    };
    let mut there = [0; 60];
    assert!(
        both.adapter
            .send
            .copy_immediate_out(&immediate, 0, &mut there)
    );
    assert_eq!(there[..], bytes);
}

/// A request takes its slot, or as much of it as it says.
#[test]
fn descriptors_have_lengths_since_the_version_that_has_them() {
    for (version, bytes) in [(LENGTHS_SINCE - 1, 64), (LENGTHS_SINCE, 24)] {
        let mut both = Both::new(version);
        let read = edges(CONNECTION, 0, 5, EdgeFlags::empty());
        both.put(read);
        assert_eq!(both.taken(), [read]);
        assert_eq!(both.bytes(), bytes);
    }
}

/// Where the chunk behind them is does not matter for bytes that end in theirs.
#[test]
fn immediate_data_is_found_in_the_chunks_that_it_lies_in() {
    let mut both = Both::ours();
    let session = HostSession::of(both.adapter.arena());
    let opened = session.open_block(CHANNEL.into(), SocketKind::Stream, OpenFlags::empty());
    let socket = opened.unwrap().unwrap();
    let say = |both: &mut Both, snd_edge, immediate| {
        both.put(Request::Edges {
            socket,
            snd_edge,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate,
        });
        let Next::Request(_, immediate) = both.adapter.next_request(CHANNEL, 8) else {
            panic!("it was published")
        };
        immediate
    };
    assert_eq!(session.append(socket.index, b"0123456789"), Ok(10));
    let directory = both.adapter.arena().snd_directory(socket.index);
    directory.entry(1).store(NONE, Ordering::Relaxed);
    let immediate = say(&mut both, 10, 4);
    let mut there = [0; 4];
    let send = &both.adapter.send;
    assert!(send.copy_immediate_out(&immediate, 6, &mut there));
    assert_eq!(&there, b"6789");
    // A directory that leads nowhere: nothing comes along.
    let directory = both.adapter.arena().snd_directory(socket.index);
    directory.entry(0).store(NONE, Ordering::Relaxed);
    assert!(say(&mut both, 20, 4).is_empty());
}

struct Engine {
    both: Both,
}

impl Engine {
    fn asleep(version: u16) -> Self {
        let both = Both::new(version);
        both.adapter.pending.declare_asleep();
        Self { both }
    }

    fn host(&mut self) -> (&mut HostChannel, &Doorbell) {
        (&mut self.both.host, &self.both.doorbell)
    }

    fn put(&mut self, rcv_consumed: u64) {
        let read = edges(CONNECTION, 0, rcv_consumed, EdgeFlags::empty());
        self.both.host.put(&read).unwrap();
    }

    /// Whether it was woken; it sleeps again.
    fn was_woken(&self) -> bool {
        let engine = &self.both.adapter.arena().header().engine;
        let was_woken = !engine.is_declared();
        self.both.adapter.pending.declare_asleep();
        was_woken
    }

    fn pending(&self) -> u32 {
        let pending = &self.both.adapter.arena().header().requests_pending;
        pending.any.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn an_engine_that_sleeps_is_woken_for_what_is_for_now() {
    let mut engine = Engine::asleep(Versions::OURS.newest);
    engine.put(1);
    let (host, doorbell) = engine.host();
    host.publish_for(Hurry::Later, doorbell, false);
    assert!(!engine.was_woken());
    assert_eq!(engine.pending(), Hurry::Later as u32);
    // It was published for later, and has become urgent.
    let (host, doorbell) = engine.host();
    host.hurry(doorbell);
    assert!(engine.was_woken());
    assert_eq!(engine.pending(), Hurry::Now as u32);
    // What is only staged is published.
    engine.both.taken();
    assert_eq!(engine.both.adapter.pending.take_flags(0), 1 << CHANNEL);
    engine.put(2);
    let (host, doorbell) = engine.host();
    host.hurry(doorbell);
    assert!(engine.was_woken());
    assert_eq!(engine.pending(), Hurry::Now as u32);
    assert_eq!(engine.both.adapter.pending.take_flags(0), 1 << CHANNEL);
    // It has fetched all.
    assert_eq!(engine.both.taken().len(), 1);
    let (host, doorbell) = engine.host();
    host.hurry(doorbell);
    assert!(!engine.was_woken());
    assert_eq!(
        (engine.pending(), engine.both.adapter.pending.take_flags(0)),
        (0, 0)
    );
}

/// With the first of them it was woken, to know since when.
#[test]
fn an_engine_is_woken_once_for_what_is_held_back() {
    let mut engine = Engine::asleep(HELD_BACK_SINCE);
    for (hurry, woken) in [
        (Hurry::HeldBack, true),
        (Hurry::HeldBack, false),
        (Hurry::Soon, true),
        (Hurry::Soon, true),
        (Hurry::HeldBack, false),
    ] {
        let request = Request::Subscribe { socket: CONNECTION };
        engine.both.host.put(&request).unwrap();
        let (host, doorbell) = engine.host();
        host.publish_for(hurry, doorbell, true);
        assert_eq!(engine.was_woken(), woken, "{hurry:?}");
    }
    let both = Hurry::HeldBack as u32 | Hurry::Soon as u32;
    assert_eq!(engine.pending(), both);
    // One that does not know of them.
    let mut engine = Engine::asleep(HELD_BACK_SINCE - 1);
    engine.put(1);
    let (host, doorbell) = engine.host();
    host.publish_for(Hurry::HeldBack, doorbell, false);
    assert_eq!(engine.pending(), Hurry::Soon as u32);
}

/// It was woken for what was taken back, however often that was published.
#[test]
fn what_takes_the_place_of_one_for_which_it_was_woken_wakes_it() {
    for times in 0..3 {
        let mut engine = Engine::asleep(Versions::OURS.newest);
        engine.put(1);
        let (host, doorbell) = engine.host();
        host.publish_for(Hurry::Later, doorbell, false);
        for _ in 0..times {
            let (host, doorbell) = engine.host();
            host.publish(doorbell, true);
        }
        engine.was_woken();
        engine.put(2);
        let (host, doorbell) = engine.host();
        host.publish_for(Hurry::Later, doorbell, false);
        assert_eq!(engine.was_woken(), times != 0, "{times}");
    }
}

#[test]
fn a_process_that_has_made_room_has_its_channel_looked_at() {
    let mut engine = Engine::asleep(Versions::OURS.newest);
    engine.put(1);
    let (host, doorbell) = engine.host();
    host.ask_for_more(doorbell);
    assert!(engine.was_woken());
    assert_eq!(engine.pending(), Hurry::Now as u32);
    assert_eq!(engine.both.adapter.pending.take_flags(0), 1 << CHANNEL);
    assert_eq!(engine.both.taken().len(), 1);
    // With nothing to ask for, too.
    let (host, doorbell) = engine.host();
    host.ask_for_more(doorbell);
    assert!(engine.was_woken());
    assert_eq!(engine.both.adapter.pending.take_flags(0), 1 << CHANNEL);
}

/// What is said of one socket in two requests is no reason to look before frames.
#[test]
fn what_takes_the_place_of_another_is_fetched_no_earlier() {
    let mut both = Both::ours();
    for consumed in [5, 6, 7] {
        both.put(edges(CONNECTION, 0, consumed, EdgeFlags::empty()));
        assert!(!both.adapter.pending.has_any_before_frames());
    }
    assert_eq!(both.taken().len(), 1);
}

/// It sleeps on: whoever flags a channel for it rings afterwards.
#[test]
fn a_flagged_channel_is_looked_at() {
    let engine = Engine::asleep(Versions::OURS.newest);
    engine.both.host.flag();
    assert!(!engine.was_woken());
    assert_eq!(engine.pending(), Hurry::Now as u32);
    assert_eq!(engine.both.adapter.pending.take_flags(0), 1 << CHANNEL);
}
