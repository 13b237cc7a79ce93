//! What `poll` says of a socket, by its state and flags, as Linux's `tcp_poll` and
//! `datagram_poll` say it.

use super::*;
use crate::block_words::host_bits;
use crate::testing::Engine;
use longshore_hostif::SocketKind;
use std::mem::ManuallyDrop;

const R: Ready = Ready::IN.union(Ready::RDNORM);
const W: Ready = Ready::OUT.union(Ready::WRNORM);
/// The same of a datagram socket.
const D: Ready = W.union(Ready::WRBAND);
const NONE: Ready = Ready::empty();
const END: Ready = R.union(Ready::RDHUP);
const OVER: Ready = END.union(Ready::HUP);

/// A socket whose block the test writes, and the engine that gave it.
struct Written {
    socket: ManuallyDrop<Socket>,
    _engine: Engine,
    _directory: tempfile::TempDir,
}

impl Written {
    fn new(kind: SocketKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let socket = Engine::open(engine.join(), kind);
        Self {
            socket: ManuallyDrop::new(socket),
            _engine: engine,
            _directory: directory,
        }
    }

    /// What is said in this state, with `held` bytes to be read.
    fn says(&self, state: SocketState, flags: BlockFlags, held: u64) -> Ready {
        let block = self.socket.block();
        block.set_state(state);
        let may_be = BlockFlags::PEER_FIN | BlockFlags::SHUT_RD | BlockFlags::SHUT_WR;
        block.clear_flags(may_be);
        block.set_flags(flags);
        block.rcv.edge.store(held, Ordering::Release);
        self.socket.readiness()
    }
}

#[test]
fn a_streams_state_and_flags_say_what_it_can_do() {
    use SocketState::*;
    let (fin, shut_rd, shut_wr) = (
        BlockFlags::PEER_FIN,
        BlockFlags::SHUT_RD,
        BlockFlags::SHUT_WR,
    );
    let none = BlockFlags::empty();
    let stream = Written::new(SocketKind::Stream);
    for (state, flags, held, expected) in [
        // It has never been connected.
        (Open, none, 0, W | Ready::HUP),
        (Open, shut_rd, 0, W | OVER),
        (Open, shut_wr, 0, W | Ready::HUP),
        // It is neither readable nor writable until the connection is made.
        (Connecting, none, 0, NONE),
        (Connecting, shut_rd, 0, END),
        (Connecting, shut_rd | shut_wr, 0, OVER),
        (Early, none, 0, W),
        (Connected, none, 0, W),
        (Connected, none, 1, R | W),
        (Connected, fin, 0, END | W),
        (Connected, fin, 1, END | W),
        (Connected, shut_rd, 0, END | W),
        (Connected, shut_wr, 0, W),
        (Connected, shut_wr, 1, R | W),
        (Connected, fin | shut_wr, 0, OVER | W),
        (Connected, shut_rd | shut_wr, 0, OVER | W),
        (Closing, none, 0, W),
        (Dead, none, 0, OVER | W),
        (Free, none, 0, W | Ready::HUP),
        // A listener is readable while a connection waits, and nothing else.
        (Listening, none, 0, NONE),
        (Listening, shut_wr, 0, NONE),
        (Listening, none, 64, R),
        (Listening, shut_rd, 0, R),
    ] {
        let says = stream.says(state, flags, held);
        assert_eq!(says, expected, "{state:?} {flags:?} {held}");
    }
}

#[test]
fn a_datagram_socket_is_never_over_but_by_its_program() {
    use SocketState::Open;
    let (shut_rd, shut_wr) = (BlockFlags::SHUT_RD, BlockFlags::SHUT_WR);
    let datagram = Written::new(SocketKind::Datagram);
    // More than one byte is no more a datagram than one is: the mark is a stream's.
    let low_water = &datagram.socket.block().rcv.low_water;
    low_water.store(1000, Ordering::Relaxed);
    for (flags, held, expected) in [
        (BlockFlags::empty(), 0, D),
        (BlockFlags::empty(), 1, R | D),
        (shut_rd, 0, END | D),
        (shut_wr, 0, D),
        (shut_rd | shut_wr, 0, OVER | D),
    ] {
        assert_eq!(
            datagram.says(Open, flags, held),
            expected,
            "{flags:?} {held}"
        );
    }
}

#[test]
fn an_error_is_said_of_all_but_a_listener() {
    use SocketState::*;
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let written = Written::new(kind);
        let errno = &written.socket.block().errno;
        for state in [Open, Connecting, Early, Connected, Closing, Dead] {
            errno.store(0, Ordering::Release);
            let without = written.says(state, BlockFlags::empty(), 0);
            errno.store(111, Ordering::Release);
            let with = written.says(state, BlockFlags::empty(), 0);
            assert!(!without.contains(Ready::ERR), "{state:?}");
            assert_eq!(with, without | Ready::ERR, "{state:?}");
        }
        let says = written.says(Listening, BlockFlags::empty(), 0);
        assert_eq!(says, NONE);
    }
}

#[test]
fn less_than_the_low_water_mark_is_not_readable() {
    let stream = Written::new(SocketKind::Stream);
    let (block, none) = (stream.socket.block(), BlockFlags::empty());
    for (mark, held, is_readable) in [(0, 1, true), (10, 9, false), (10, 10, true)] {
        block.rcv.low_water.store(mark, Ordering::Relaxed);
        let says = stream.says(SocketState::Connected, none, held);
        assert_eq!(says.contains(R), is_readable, "{held} of {mark}");
    }
    let says = stream.says(SocketState::Connected, BlockFlags::PEER_FIN, 9);
    assert!(says.contains(R), "no more will come");
}

/// An urgent byte that is not read in its place is nothing to be read in order.
#[test]
fn an_urgent_byte_is_counted_where_it_is_read() {
    let stream = Written::new(SocketKind::Stream);
    let block = stream.socket.block();
    block.rcv.urgent.store(1, Ordering::Release);
    let says = |held| stream.says(SocketState::Connected, BlockFlags::empty(), held);
    assert_eq!(says(0), W, "it has not come");
    assert_eq!(says(1), W | Ready::PRI);
    assert_eq!(says(2), W | Ready::PRI | R);
    block.set_flags(BlockFlags::URGENT_INLINE);
    assert_eq!(says(1), W | Ready::PRI | R);
    block.clear_flags(BlockFlags::URGENT_INLINE);
    // Behind what is to be read in order.
    block.rcv.urgent.store(2, Ordering::Release);
    assert_eq!(says(1), W | R);
    assert_eq!(says(2), W | R | Ready::PRI);
}

/// SO_SELECT_ERR_QUEUE: of a datagram socket, what went wrong is told as urgent data is, too.
#[test]
fn errors_are_urgent_if_they_are_to_be() {
    let datagrams = Written::new(SocketKind::Datagram);
    let says = || datagrams.says(SocketState::Open, BlockFlags::DATAGRAM, 0) - D;
    for on in [false, true, false] {
        datagrams.socket.options().set_errors_urgent(on);
        assert_eq!(says(), NONE);
        datagrams.socket.block().errno.store(111, Ordering::Release);
        let expected = if on {
            Ready::ERR | Ready::PRI
        } else {
            Ready::ERR
        };
        assert_eq!(says(), expected);
        datagrams.socket.block().errno.store(0, Ordering::Release);
    }
}

#[test]
fn a_full_stream_is_not_writable_and_its_program_is_told_of_room() {
    let stream = Written::new(SocketKind::Stream);
    let block = stream.socket.block();
    block.snd.limit.store(300, Ordering::Release);
    let none = BlockFlags::empty();
    let wants = || stream.socket.host_bits() & host_bits::WANTS_ROOM != 0;
    block.snd.edge.store(200, Ordering::Release);
    assert_eq!(stream.says(SocketState::Connected, none, 0), W);
    assert!(!wants(), "there is room");
    block.snd.edge.store(201, Ordering::Release);
    assert_eq!(stream.says(SocketState::Connected, none, 0), NONE);
    assert!(wants());
    // Where nothing can be written, a call says so at once.
    let says = stream.says(SocketState::Connected, BlockFlags::SHUT_WR, 0);
    assert_eq!(says, W);
    assert_eq!(stream.says(SocketState::Dead, none, 0), OVER | W);
}

#[test]
fn without_an_engine_a_connection_is_over_and_a_server_waits() {
    let all = Ready::ERR | Ready::HUP | Ready::IN | Ready::OUT | Ready::RDHUP;
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut written = Written::new(kind);
        written._engine.stop();
        written.socket.host().look_at_engine();
        for state in [
            SocketState::Open,
            SocketState::Connecting,
            SocketState::Connected,
            SocketState::Listening,
        ] {
            let waits = kind == SocketKind::Datagram || state == SocketState::Listening;
            let says = written.says(state, BlockFlags::empty(), 0);
            assert_eq!(says.contains(all), !waits, "{state:?}");
            assert_eq!(says.contains(Ready::ERR), !waits, "{state:?}");
        }
    }
}
