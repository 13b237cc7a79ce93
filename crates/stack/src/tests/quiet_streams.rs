//! Streams to which nothing is written for a while: their hosts are told of the rest of what was
//! acknowledged, and their chunks are taken back, some in each turn.

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, Single};
use longshore_hostif::{
    CHUNK, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Geometry, OptionName, SocketId, SocketKind,
    datagram_span,
};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{Ipv6Addr, SocketAddr};

/// How long nothing is written, and what a timer may be late.
const QUIET_US: u64 = 100_000;
const TICK_US: u64 = 1_100;

/// What has a send stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A connection over the wire.
    Wire,
    /// One to another socket of the engine.
    Own,
    Datagrams,
}

/// A stack with a socket that has a send stream.
struct Sending {
    single: Single,
    of: Of,
    socket: SocketId,
    written: u64,
    /// What the peer sends next, if it is on the wire.
    next: Option<TcpHeader>,
    /// The other end, if it is a socket of the engine.
    reader: Option<SocketId>,
}

impl Sending {
    fn new(of: Of) -> Self {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let (mut next, mut reader) = (None, None);
        let socket = match of {
            Of::Wire => {
                next = Some(single.connect(0));
                single.turn();
                accepted(&mut single, listener, 0)
            }
            Of::Own => {
                let socket = single.open(SocketKind::Stream);
                single.connect_to_own(socket);
                single.turn();
                reader = Some(accepted(&mut single, listener, 0));
                socket
            }
            Of::Datagrams => single.bind(SocketKind::Datagram, 90),
        };
        single.turn();
        single.discard_completions();
        Self {
            single,
            of,
            socket,
            written: 0,
            next,
            reader,
        }
    }

    /// Chunks of the program's send slab that are in use.
    fn in_use(&self) -> u32 {
        let (cold, warm) = self.single.arena.free_snd_chunks();
        GEOMETRY.snd_chunks - cold - warm
    }

    /// The program sends so many bytes.
    fn send(&mut self, len: usize) {
        let mut bytes = vec![7; len];
        if self.of == Of::Datagrams {
            let peer = SocketAddr::new(CLIENT.into(), 9);
            bytes = DatagramRecord::new(len as u32, peer.into())
                .encode()
                .to_vec();
            bytes.resize(datagram_span(len as u32) as usize, 0);
        }
        self.written = self.single.write(self.socket, self.written, &bytes);
        self.single.turn();
    }

    /// What was sent arrives, up to `edge`, and is read.
    fn arrives(&mut self, edge: u64) {
        if let Some(next) = &self.next {
            let mut header = next.clone();
            header.ack = next.ack.add(edge as u32);
            self.single.segment(&header, &[]);
        }
        if let Some(reader) = self.reader {
            self.single.edges(reader, edge, EdgeFlags::empty());
        }
        self.single.turn();
    }

    /// How far the program was told since it was last asked that its stream is done with.
    fn reported(&mut self) -> Option<u64> {
        self.single
            .told_of(self.socket)
            .map(|edges| edges.snd_acked)
    }
}

/// The last chunk goes back a tenth of a second after the last of it was done with, and not
/// sooner, whatever the stream is of; and so again, when more was written.
#[test]
fn the_last_chunk_is_taken_back_when_all_is_done_with_and_quiet() {
    for of in [Of::Wire, Of::Own, Of::Datagrams] {
        let mut sending = Sending::new(of);
        for round in 0..3 {
            sending.send(100);
            sending.arrives(sending.written);
            assert_eq!(sending.in_use(), 1, "{of:?}, {round}");
            sending.single.turn_after(QUIET_US - 2_000);
            assert_eq!(sending.in_use(), 1, "{of:?}, {round}: it may go on");
            sending.single.turn_after(2_000 + TICK_US);
            assert_eq!(sending.in_use(), 0, "{of:?}, {round}: it is quiet");
        }
        let session = sending
            .single
            .stack
            .endpoints
            .sessions
            .get(sending.single.session());
        assert_eq!(session.unwrap().host.meter.bad_descriptors(), 0);
    }
}

/// So does that of a connection that is reset as the last of it is acknowledged, though its program has it
/// still.
#[test]
fn the_last_chunk_of_a_connection_that_was_reset_is_taken_back() {
    let mut sending = Sending::new(Of::Wire);
    sending.send(100);
    let mut header = sending.next.clone().expect("a peer");
    header.ack = header.ack.add(100);
    sending.single.segment(&header, &[]);
    header.flags = TcpFlags::RST;
    sending.single.segment(&header, &[]);
    sending.single.turn();
    assert_eq!(sending.in_use(), 1);
    sending.single.turn_after(QUIET_US + TICK_US);
    assert_eq!(sending.in_use(), 0);
}

/// A stream whose end was not acknowledged keeps its chunk, however long that takes.
#[test]
fn what_is_not_done_with_stays() {
    let mut sending = Sending::new(Of::Wire);
    sending.send(100);
    sending.arrives(60);
    (0..10).for_each(|_| sending.single.turn_after(QUIET_US));
    assert_eq!(sending.in_use(), 1);
    sending.arrives(100);
    sending.single.turn_after(QUIET_US + TICK_US);
    assert_eq!(sending.in_use(), 0);
}

/// Less than a quarter of the buffer is no reason to tell a host of acknowledgments, until the
/// stream is quiet; then it is told once.
#[test]
fn the_rest_of_what_was_acknowledged_is_told_when_it_is_quiet() {
    for of in [Of::Wire, Of::Datagrams] {
        let mut sending = Sending::new(of);
        sending.send(100);
        sending.arrives(sending.written);
        assert_eq!(sending.reported(), None, "{of:?}: nobody waits for it");
        sending.single.turn_after(QUIET_US - 2_000);
        assert_eq!(sending.reported(), None, "{of:?}");
        sending.single.turn_after(2_000 + TICK_US);
        assert_eq!(sending.reported(), Some(sending.written), "{of:?}");
        sending.single.turn_after(QUIET_US + TICK_US);
        assert_eq!(sending.reported(), None, "{of:?}: it was told");
    }
}

/// What a host was told at once it is not told again when its chunks go back, and of what is not
/// all done with it is told nothing for that.
#[test]
fn nothing_is_told_twice_when_it_is_quiet() {
    const BUFFER: u64 = 8_000;
    let mut sending = Sending::new(Of::Wire);
    let socket = sending.socket;
    sending.single.set(socket, OptionName::SendBuffer, BUFFER);
    sending.send(BUFFER as usize / 4);
    sending.arrives(sending.written);
    assert_eq!(sending.reported(), Some(sending.written));
    sending.single.turn_after(QUIET_US + TICK_US);
    assert_eq!((sending.in_use(), sending.reported()), (0, None));
    let before = sending.written;
    sending.send(200);
    sending.arrives(before + 100);
    (0..5).for_each(|_| sending.single.turn_after(QUIET_US));
    assert_eq!((sending.in_use(), sending.reported()), (1, None));
}

/// The end of the peer's stream, or of the connection, that comes in the very turn in which the
/// stream becomes quiet, is told as any other.
#[test]
fn an_end_that_comes_as_the_stream_becomes_quiet_is_told() {
    const BUFFER: u64 = 8_000;
    let fin = (TcpFlags::ACK | TcpFlags::FIN, EdgeFlags::PEER_FIN);
    let reset = (TcpFlags::RST, EdgeFlags::DEAD);
    for (of, flags, expected) in [
        (Of::Wire, fin.0, fin.1),
        (Of::Wire, reset.0, reset.1),
        (Of::Own, fin.0, fin.1),
    ] {
        let mut sending = Sending::new(of);
        let socket = sending.socket;
        sending.single.set(socket, OptionName::SendBuffer, BUFFER);
        sending.send(BUFFER as usize / 4);
        sending.arrives(sending.written);
        assert_eq!(sending.reported(), Some(sending.written), "{of:?}");
        if let Some(next) = &sending.next {
            let mut header = next.clone();
            header.ack = next.ack.add(sending.written as u32);
            header.flags = flags;
            sending.single.segment(&header, &[]);
        }
        if let Some(reader) = sending.reader {
            let read = sending.written;
            sending.single.edges(reader, read, EdgeFlags::SHUT_WR);
        }
        sending.single.turn_after(QUIET_US + TICK_US);
        let reported = sending.single.told_of(socket);
        let reported = reported.map_or(EdgeFlags::empty(), |edges| edges.flags);
        assert!(
            reported.contains(expected),
            "{of:?}, {flags:?}: {reported:?}"
        );
    }
}

/// More chunks than are taken back in one turn, of one session: each socket has its turn, the
/// next ten milliseconds later.
#[test]
fn many_quiet_streams_give_their_chunks_back_some_in_each_turn() {
    const IN_A_TURN: u32 = 1_024;
    const SOCKETS: u32 = 16;
    const CHUNKS: u32 = 128;
    const ALL: u32 = SOCKETS * CHUNKS;
    let geometry = Geometry {
        snd_chunks: ALL,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let in_use = |single: &Single| {
        let (cold, warm) = single.arena.free_snd_chunks();
        ALL - cold - warm
    };
    // Each fills a chunk, and is to where no route leads.
    let len = (CHUNK - DATAGRAM_HEADER) as u32;
    let nowhere = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9);
    let mut record = DatagramRecord::new(len, nowhere.into()).encode().to_vec();
    record.resize(CHUNK, 0);
    let stream = record.repeat(CHUNKS as usize);
    for socket in 0..SOCKETS {
        let socket = single.bind(SocketKind::Datagram, 1_000 + socket as u16);
        single.turn();
        single.write(socket, 0, &stream);
    }
    while single.stack.has_work_left() {
        single.turn_after(1);
        single.sent();
        single.discard_completions();
    }
    assert_eq!(in_use(&single), ALL);
    let mut steps = Vec::new();
    while in_use(&single) != 0 {
        let before = in_use(&single);
        single.turn_after(1_000);
        if in_use(&single) != before {
            steps.push((single.now, before - in_use(&single)));
        }
        assert!(single.now.0 < 10_000_000, "{steps:?}");
    }
    assert!(steps.len() > 1, "{steps:?}");
    for step in steps.windows(2) {
        assert!(step[0].1 < IN_A_TURN + CHUNKS, "{steps:?}");
        assert!(step[1].0.since(step[0].0) >= 9_000, "{steps:?}");
    }
}
