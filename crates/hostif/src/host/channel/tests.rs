//! Requests that take each other's place: that a connection was accepted, and immediate data that
//! lies where it belongs.

use super::*;
use crate::abi::{EdgeFlags, SocketId, SocketKind, Versions};
use crate::adapter::{AdapterSession, Next};
use crate::host::HostSession;
use crate::{Agreed, Geometry, OpenFlags};
use longshore_ring::EventfdSignaler;

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
    let (told, closed) = (
        edges(CONNECTION, 10, 80, F::PUSH | F::ACCEPTED),
        close(CONNECTION, 10, 80, None),
    );
    assert_eq!(both.taken(), [told, closed]);
    assert_eq!(both.bytes(), 24);
    // Closed before anything else, also with what was written and not told.
    for written in [0, 10] {
        both.accept(64);
        both.put(close(CONNECTION, written, 0, None));
        let told = edges(CONNECTION, written, 0, F::ACCEPTED);
        assert_eq!(both.taken(), [told, close(CONNECTION, written, 0, None)]);
    }
    both.accept(64);
    both.put(edges(CONNECTION, 0, 80, F::empty()));
    both.put(close(CONNECTION, 10, 80, None));
    let told = edges(CONNECTION, 10, 80, F::ACCEPTED);
    assert_eq!(both.taken(), [told, close(CONNECTION, 10, 80, None)]);
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
    let told = edges(CONNECTION, 10, 0, F::PUSH | F::ACCEPTED);
    assert_eq!(both.taken(), [told, close(CONNECTION, 10, 0, Some(1))]);
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
    // An engine that does not know it.
    let mut both = Both::new(ACCEPTED_SINCE - 1);
    both.accept(64);
    both.put(wrote);
    assert_eq!(both.taken(), [read(64), wrote]);
}

/// The engine clears what says that requests wait, and the host takes the request back before it
/// is looked at: what has its place is fetched as early.
#[test]
fn that_a_connection_was_accepted_is_fetched_no_later_with_other_words() {
    for again in [false, true] {
        let mut both = Both::ours();
        both.accept(64);
        if again {
            both.put(edges(CONNECTION, 0, 5, EdgeFlags::empty()));
        }
        both.host
            .put(&edges(CONNECTION, 0, 9, EdgeFlags::empty()))
            .unwrap();
        both.adapter.begin_requests();
        assert_eq!(both.adapter.flagged(0), 1 << CHANNEL);
        assert_eq!(both.taken(), []);
        both.host.publish_for(Hurry::Later, &both.doorbell, false);
        assert!(both.adapter.has_requests_before_frames());
        assert_eq!(both.taken().len(), 1);
        both.adapter.begin_requests();
        // And nothing else is fetched so.
        both.put(edges(CONNECTION, 0, 10, EdgeFlags::empty()));
        assert!(!both.adapter.has_requests_before_frames());
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
