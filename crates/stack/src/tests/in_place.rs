//! Payload that is received into place, beside a stack that is given the same frames and copies
//! all of them: both answer the same, their programs find the same bytes, and the same has
//! crossed to them, whatever comes where the next segment was expected.

use super::numbers::Numbers;
use super::off_path::accepted;
use super::single::{CLIENT, ISN, SERVER, Sent, Single, header};
use super::streams::copy_out;
use crate::Received;
use crate::in_place::{BULK, LEAST_RUN};
use crate::memory_pressure::SPARE_CHUNKS;
use crate::socket::Kind;
use longshore_frames::{
    Capabilities, Port, PortCounters, PortError, RecvBuffer, RxChecksum, RxMeta, SharedRooms,
    TxFrame,
};
use longshore_hostif::{
    EdgeFlags, Features, Geometry, MOST_DATA, OptionName, Request, SocketId, SocketKind,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_testbed::packets;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: SPARE_CHUNKS + 100,
};
/// The receive buffers.
const WINDOW: u64 = 1 << 20;
/// Frames carry this much of payload, unless a test says otherwise.
const LEN: usize = 20_000;

/// What a port does, told by the test.
#[derive(Debug, Default)]
struct Wanted {
    /// Frames that were received into place.
    into_place: AtomicU32,
    /// 1: it vouches for no checksum.
    doubts: AtomicU32,
    /// If not 0, a program writes this over all that is received into place.
    scribble: AtomicU32,
}

/// A port that receives into place, and vouches for checksums.
#[derive(Debug)]
struct Placing {
    port: MemoryPort,
    wanted: Arc<Wanted>,
}

impl Placing {
    fn vouched(&self, meta: Option<RxMeta>) -> Option<RxMeta> {
        let doubts = self.wanted.doubts.load(Ordering::Relaxed) != 0;
        meta.map(|meta| RxMeta {
            checksum: if doubts {
                RxChecksum::Unknown
            } else {
                RxChecksum::Valid
            },
            ..meta
        })
    }
}

impl Port for Placing {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        let meta = self.port.recv_scatter(parts)?;
        Ok(self.vouched(meta))
    }

    fn receives_in_place(&self) -> bool {
        true
    }

    fn recv_in_place(
        &mut self,
        buffer: &mut RecvBuffer,
        header_len: usize,
        rooms: &SharedRooms<'_>,
    ) -> Result<Option<RxMeta>, PortError> {
        let meta = self.port.recv_in_place(buffer, header_len, rooms)?;
        if let Some(meta) = &meta {
            self.wanted.into_place.fetch_add(1, Ordering::Relaxed);
            // As a port that reads there leaves it.
            let end = meta.len.min(header_len + rooms.len());
            if let Some(gap) = buffer.room().get_mut(header_len..end) {
                gap.fill(0xee);
            }
            let scribble = self.wanted.scribble.load(Ordering::Relaxed) as u8;
            if scribble != 0 {
                rooms.fill(&vec![scribble; rooms.len()]);
            }
        }
        Ok(self.vouched(meta))
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// What byte `at` of the stream of client `number` is.
fn byte(number: u16, at: u64) -> u8 {
    (at % 251) as u8 ^ number as u8
}

fn stream(number: u16, at: u64, len: usize) -> Vec<u8> {
    (at..at + len as u64).map(|at| byte(number, at)).collect()
}

/// A stack, and the program's sockets of clients 0 and 1.
struct Side {
    single: Single,
    wanted: Arc<Wanted>,
    buffer: RecvBuffer,
    sockets: Vec<SocketId>,
}

impl Side {
    fn new(has_one_session: bool) -> Self {
        let (port, wire) = pair(&MemoryConfig {
            mtu: 65_000,
            ethernet: false,
            offloads: false,
            depth: 1_000,
            ..MemoryConfig::default()
        });
        let wanted = Arc::<Wanted>::default();
        let port = Box::new(Placing {
            port,
            wanted: wanted.clone(),
        });
        let none = Features::empty();
        Self {
            single: Single::over(
                (port, wire),
                &["10.0.0.1/24"],
                has_one_session,
                GEOMETRY,
                1,
                none,
            ),
            wanted,
            buffer: RecvBuffer::new(),
            sockets: Vec::new(),
        }
    }

    fn counts(&self) -> (u64, u64) {
        let counts = &self.single.stack.counters.prediction;
        (counts.in_place, counts.in_place_missed)
    }

    /// Takes a frame from the port as the loop does; says whether there was one.
    fn receive_one(&mut self, is_first: bool) -> bool {
        let stack = &mut self.single.stack;
        let received = if stack.expects_bulk() {
            stack.receive_bulk(&mut self.buffer, is_first)
        } else {
            Received::Usual(stack.port_mut().recv_single(&mut self.buffer))
        };
        let Received::Usual(received) = received else {
            return true;
        };
        let Some(meta) = received.unwrap() else {
            return false;
        };
        stack.note_received(meta.len);
        stack.frame_in(self.buffer.frame(meta.len), &meta);
        true
    }

    fn receive(&mut self, packets: &[Vec<u8>]) {
        for packet in packets {
            self.single.carry(packet);
        }
        while self.receive_one(false) {}
        self.single.turn();
    }

    /// How far the receive stream of client `number` reaches, as its program sees it, and the
    /// bytes of that from `from` on.
    fn received(&self, number: u16, from: u64) -> Vec<u8> {
        let edge = self.told(number).unwrap_or(from);
        let mut bytes = vec![0; (edge - from) as usize];
        let index = self.sockets[usize::from(number)].index;
        copy_out(&self.single.arena, index, from, &mut bytes);
        bytes
    }

    /// How far the program was told that the receive stream of client `number` reaches, unless
    /// the connection is over.
    fn told(&self, number: u16) -> Option<u64> {
        let socket = self.sockets[usize::from(number)];
        let stack = &self.single.stack;
        let key = stack.key_of(self.single.session(), socket)?;
        match &stack.sockets.get(key)?.kind {
            Kind::Stream(c) => Some(c.told.rcv_edge),
            _ => None,
        }
    }
}

/// Two stacks, of which the first may receive into place.
struct Both {
    sides: [Side; 2],
    /// The headers of the next segment of each client, its first byte, and how much its program
    /// has read.
    next: Vec<TcpHeader>,
    at: Vec<u64>,
    read: Vec<u64>,
    /// Segments have come with so little that it crosses with its descriptor.
    has_short: bool,
    /// The bytes may be others.
    may_be_damaged: bool,
}

impl Both {
    fn connected(with_timestamps: bool) -> Self {
        let mut sides = [Side::new(true), Side::new(false)];
        let mut next = Vec::new();
        let stamps = Timestamps { val: 1, echo: 0 };
        let options = TcpOptions {
            window_scale: Some(7),
            timestamps: with_timestamps.then_some(stamps),
            ..TcpOptions::default()
        };
        for side in &mut sides {
            let listener = side.single.bind(SocketKind::Stream, 80);
            let request = Request::SetOption {
                socket: listener,
                name: OptionName::ReceiveBuffer,
                value: WINDOW,
            };
            side.single.ask(0, &request);
            side.single.listen_at(listener, 10);
            next.clear();
            for number in 0..2 {
                let syn = TcpHeader {
                    options,
                    ..header(number, TcpFlags::SYN, ISN, SeqNumber(0))
                };
                side.single.segment(&syn, &[]);
                let answer = side.single.sent().pop().expect("a SYN-ACK");
                let echo = answer.options.timestamps.map_or(0, |t| t.val);
                let options = TcpOptions {
                    timestamps: with_timestamps.then_some(Timestamps { val: 1, echo }),
                    ..TcpOptions::default()
                };
                let ack = TcpHeader {
                    options,
                    ..header(number, TcpFlags::ACK, ISN.add(1), answer.seq.add(1))
                };
                side.single.segment(&ack, &[]);
                next.push(ack);
            }
            side.single.turn();
            for which in 0..2 {
                let socket = accepted(&mut side.single, listener, which);
                side.sockets.push(socket);
            }
            side.single.sent();
        }
        Self {
            sides,
            next,
            at: vec![0; 2],
            read: vec![0; 2],
            has_short: false,
            may_be_damaged: false,
        }
    }

    /// A segment of client `number` with `len` bytes from `at` on, with a header that is like
    /// that of the next but for what `change` does.
    fn packet(&self, number: u16, at: u64, len: usize, change: impl Fn(&mut TcpHeader)) -> Vec<u8> {
        let which = usize::from(number);
        let mut header = self.next[which].clone();
        header.seq = header.seq.add((at.wrapping_sub(self.at[which])) as u32);
        change(&mut header);
        let payload = stream(number, at, len);
        packets::segment((CLIENT.into(), SERVER.into()), &header, &payload)
    }

    /// The next segment of client `number`.
    fn in_order(&mut self, number: u16, len: usize) -> Vec<u8> {
        let which = usize::from(number);
        let packet = self.packet(number, self.at[which], len, |_| ());
        self.advance(number, len);
        packet
    }

    fn advance(&mut self, number: u16, len: usize) {
        self.has_short |= len <= MOST_DATA;
        let which = usize::from(number);
        self.at[which] += len as u64;
        self.next[which].seq = self.next[which].seq.add(len as u32);
    }

    /// Both receive these packets, answer the same, and have the same for their programs.
    fn receive(&mut self, packets: &[Vec<u8>]) {
        for side in &mut self.sides {
            side.receive(packets);
        }
        self.compare();
    }

    fn compare(&mut self) {
        let [placing, copying] = &mut self.sides;
        let (one, two) = (&mut placing.single, &mut copying.single);
        let parts = |sent: &Sent| (sent.header.clone(), sent.payload.clone());
        let [all, others] = [one.sent_with_payload(), two.sent_with_payload()];
        let (one, two) = (&placing.single, &copying.single);
        let [all, others] = [all, others].map(|sent| sent.iter().map(parts).collect::<Vec<_>>());
        assert_eq!(all, others);
        // Few bytes cross with their descriptor, if they were copied.
        let [in_place, copied] = [one.to_host(), two.to_host()].map(|all| all.payload);
        assert!(
            self.has_short || in_place == copied,
            "{in_place:?}, {copied:?}"
        );
        let drops = |single: &Single| single.stack.counters.drops().collect::<Vec<_>>();
        assert_eq!(drops(one), drops(two));
        for number in 0..2 {
            let from = self.read[usize::from(number)];
            let found = placing.received(number, from);
            assert!(found == copying.received(number, from), "client {number}");
            let expected = stream(number, from, found.len());
            assert!(self.may_be_damaged || found == expected, "client {number}");
        }
        let segments = |single: &Single| {
            let counts = &single.stack.counters.prediction;
            (counts.data, counts.acks, counts.missed, counts.missed_data)
        };
        assert_eq!(segments(one), segments(two));
        assert_eq!(copying.counts(), (0, 0));
    }

    /// A packet of any kind.
    fn any(&mut self, numbers: &mut Numbers) -> Vec<u8> {
        let number = u16::from(numbers.below(8) == 0);
        let at = self.at[usize::from(number)];
        let len = numbers.pick(&[1, 500, 9_000, LEN, 40_000, 64_900]);
        match numbers.below(16) {
            0 => self.packet(number, at.saturating_sub(3_000), 5_000, |_| ()),
            1 => self.packet(number, at + 2_000, 5_000, |_| ()),
            2 => self.packet(number, at, 0, |_| ()),
            3 if self.may_be_damaged => {
                let mut packet = self.packet(number, at, len, |_| ());
                let place = match numbers.below(2) {
                    0 => numbers.below(60),
                    _ => numbers.below(packet.len() as u64),
                };
                if let Some(byte) = packet.get_mut(place as usize) {
                    *byte ^= 1 << numbers.below(8);
                }
                packet
            }
            _ => self.in_order(number, len),
        }
    }

    /// The clients go on with what has not come.
    fn catch_up(&mut self) {
        for number in 0..2 {
            let which = usize::from(number);
            let read = self.read[which];
            let edge = read + self.sides[0].received(number, read).len() as u64;
            let back = self.at[which].wrapping_sub(edge) as u32;
            self.next[which].seq = self.next[which].seq.add(back.wrapping_neg());
            self.at[which] = edge;
        }
    }

    /// The program of client `number` reads all that it has.
    fn read(&mut self, number: u16) {
        let which = usize::from(number);
        let from = self.read[which];
        self.read[which] += self.sides[0].received(number, from).len() as u64;
        for side in &mut self.sides {
            let socket = side.sockets[which];
            side.single
                .edges(socket, self.read[which], EdgeFlags::empty());
            side.single.turn();
        }
        self.compare();
    }

    /// So much bulk of client 0 comes that more is expected.
    fn run(&mut self) {
        self.read(0);
        let packets: Vec<_> = (0..LEAST_RUN).map(|_| self.in_order(0, LEN)).collect();
        self.receive(&packets);
        self.read(0);
    }

    fn counts(&self) -> (u64, u64) {
        self.sides[0].counts()
    }
}

/// The bytes come in place from the first frame after the run on, in chunks that are there and
/// across their ends, long and short.
#[test]
fn bulk_in_order_is_received_into_place() {
    for with_timestamps in [false, true] {
        let mut both = Both::connected(with_timestamps);
        both.run();
        assert_eq!(both.counts(), (0, 0));
        for (i, len) in [LEN, 64_000, 64_900, BULK, LEN].into_iter().enumerate() {
            let packet = both.in_order(0, len);
            both.receive(&[packet]);
            assert_eq!(both.counts(), (i as u64 + 1, 0));
            both.read(0);
        }
        let free = both.sides[0].single.free_chunks();
        assert_eq!(free, both.sides[1].single.free_chunks());
        // Several in a turn, and the last of them short.
        let packets: Vec<_> = [LEN, LEN, 40, LEN, LEN]
            .map(|len| both.in_order(0, len))
            .into();
        both.receive(&packets);
        assert_eq!(both.counts(), (10, 0));
        // Many, of whom the program reads half.
        for _ in 0..40 {
            let packet = both.in_order(0, 64_321);
            both.receive(&[packet]);
            if both.at[0] - both.read[0] > 400_000 {
                both.read(0);
            }
        }
        assert_eq!(both.counts(), (50, 0));
    }
}

/// What comes instead of the next segment goes its usual way, and the next after it is right.
#[test]
fn what_comes_instead_goes_its_usual_way() {
    // Makes packets, of which so many are the next segments of client 0.
    type Make = fn(&mut Both) -> Vec<Vec<u8>>;
    let cases: [(&str, Make, u64); 19] = [
        (
            "another connection's",
            |both| vec![both.in_order(1, LEN)],
            1,
        ),
        (
            "a short one of another's",
            |both| vec![both.in_order(1, 30)],
            1,
        ),
        (
            "one that came before",
            |both| vec![both.packet(0, both.at[0] - 5_000, 5_000, |_| ())],
            1,
        ),
        (
            "one that came in part",
            |both| {
                let packet = both.packet(0, both.at[0] - 100, LEN, |_| ());
                both.advance(0, LEN - 100);
                vec![packet]
            },
            1,
        ),
        (
            "one behind a hole, then what is missing",
            |both| {
                let late = both.packet(0, both.at[0] + 9_000, LEN, |_| ());
                let missing = both.packet(0, both.at[0], 9_000, |_| ());
                both.advance(0, LEN + 9_000);
                vec![late, missing]
            },
            1,
        ),
        (
            "one with the end of the stream",
            |both| {
                let fin = both.packet(0, both.at[0], LEN, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::FIN
                });
                both.advance(0, LEN);
                vec![fin]
            },
            1,
        ),
        (
            "the end of the stream alone",
            |both| {
                vec![both.packet(0, both.at[0], 0, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::FIN
                })]
            },
            0,
        ),
        (
            "a reset",
            |both| vec![both.packet(0, both.at[0], 0, |h| h.flags = TcpFlags::RST)],
            0,
        ),
        (
            "a reset with a payload",
            |both| vec![both.packet(0, both.at[0], 600, |h| h.flags = TcpFlags::RST)],
            1,
        ),
        (
            "an acknowledgment",
            |both| vec![both.packet(0, both.at[0], 0, |_| ())],
            0,
        ),
        (
            "one beyond the window",
            |both| vec![both.packet(0, both.at[0] + (1 << 24), LEN, |_| ())],
            1,
        ),
        (
            "one with urgent data",
            |both| {
                let urgent = both.packet(0, both.at[0], LEN, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::URG;
                    h.urgent = 10;
                });
                both.advance(0, LEN);
                vec![urgent]
            },
            1,
        ),
        (
            "one with another header",
            |both| {
                let other = both.packet(0, both.at[0], LEN, |h| {
                    h.options.timestamps = match h.options.timestamps {
                        None => Some(Timestamps { val: 5, echo: 0 }),
                        Some(_) => None,
                    };
                });
                // Without the timestamps that were agreed on it is dropped.
                if both.next[0].options.timestamps.is_none() {
                    both.advance(0, LEN);
                }
                vec![other]
            },
            1,
        ),
        (
            "one that acknowledges what was not sent",
            |both| vec![both.packet(0, both.at[0], LEN, |h| h.ack = h.ack.add(1_000))],
            1,
        ),
        (
            "one that met congestion",
            |both| {
                let mut marked = both.in_order(0, LEN);
                marked[1] = 3;
                vec![with_sum(marked)]
            },
            1,
        ),
        (
            "one with options of IPv4",
            |both| {
                let mut packet = both.in_order(0, LEN);
                let len = (packet.len() + 4) as u16;
                packet[0] = 0x46;
                packet[2..4].copy_from_slice(&len.to_be_bytes());
                packet.splice(HEADER_LEN..HEADER_LEN, [1, 1, 1, 1]);
                vec![with_sum(packet)]
            },
            1,
        ),
        (
            "fragments",
            |both| {
                let packet = both.in_order(0, LEN);
                let (header, payload) = packet.split_at(HEADER_LEN);
                let part = |from: usize, to: usize, more: bool| {
                    let mut part = header.to_vec();
                    let len = (HEADER_LEN + to - from) as u16;
                    part[2..4].copy_from_slice(&len.to_be_bytes());
                    let place = (from / 8) as u16 | if more { 0x2000 } else { 0 };
                    part[6..8].copy_from_slice(&place.to_be_bytes());
                    part.extend_from_slice(&payload[from..to]);
                    with_sum(part)
                };
                vec![part(0, 8_000, true), part(8_000, payload.len(), false)]
            },
            1,
        ),
        (
            "an echo",
            |_| {
                let mut echo = vec![8, 0, 0, 0];
                echo.extend([7; 3_000]);
                let sum = Partial::of(&echo).finish();
                echo[2..4].copy_from_slice(&sum.to_be_bytes());
                let between = (CLIENT.into(), SERVER.into());
                vec![packets::packet(between, protocol::ICMP, &echo)]
            },
            1,
        ),
        (
            "a packet whose length is wrong",
            |both| {
                let mut packet = both.packet(0, both.at[0], LEN, |_| ());
                packet.truncate(9_000);
                vec![packet]
            },
            1,
        ),
    ];
    for with_timestamps in [false, true] {
        for (name, make, missed) in cases {
            let mut both = Both::connected(with_timestamps);
            both.run();
            println!("{name}");
            let packets = make(&mut both);
            both.receive(&packets);
            assert_eq!(both.counts(), (0, missed), "{name}");
            both.read(0);
            both.read(1);
            // What follows, if anything may.
            for number in [0, 1, 0, 0, 0, 0, 0, 0, 0, 0] {
                let packet = both.in_order(number, LEN);
                both.receive(&[packet]);
                both.read(number);
            }
            let free = both.sides[0].single.free_chunks();
            assert_eq!(free, both.sides[1].single.free_chunks(), "{name}");
        }
    }
}

/// A packet whose IPv4 header has the right sum.
fn with_sum(mut packet: Vec<u8>) -> Vec<u8> {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = Partial::of(&packet[..len]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Two connections by turns: it is tried less and less.
#[test]
fn what_is_wrong_again_and_again_is_tried_less() {
    let mut both = Both::connected(true);
    for _ in 0..200 {
        let two = usize::from(LEAST_RUN);
        let mut packets: Vec<_> = (0..two).map(|_| both.in_order(0, LEN)).collect();
        packets.extend((0..two).map(|_| both.in_order(1, LEN)));
        both.receive(&packets);
        both.read(0);
        both.read(1);
    }
    let (right, wrong) = both.counts();
    assert!(right == 0 && wrong <= 5, "{right}, {wrong}");
    // A run is found again all the same.
    for _ in 0..40 {
        let packet = both.in_order(1, LEN);
        both.receive(&[packet]);
        both.read(1);
    }
    assert!(both.counts().0 >= 5, "{:?}", both.counts());
}

/// Short frames are received as ever.
#[test]
fn short_frames_are_not_received_into_place() {
    let mut both = Both::connected(false);
    both.run();
    let packets: Vec<_> = (0..30).map(|_| both.in_order(0, BULK - 1)).collect();
    both.receive(&packets);
    let tried = both.sides[0].wanted.into_place.load(Ordering::Relaxed);
    assert!(tried <= 2, "{tried}");
}

/// Nothing is taken by what a port does not vouch for, and none of it is lost.
#[test]
fn what_is_not_vouched_for_is_copied() {
    let mut both = Both::connected(false);
    both.run();
    for side in &both.sides {
        side.wanted.doubts.store(1, Ordering::Relaxed);
    }
    let packets: Vec<_> = (0..10).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    assert_eq!(both.counts().0, 0);
    let mut damaged = both.packet(0, both.at[0], LEN, |_| ());
    damaged[10_000] ^= 1;
    both.receive(&[damaged]);
    let next = both.in_order(0, LEN);
    both.receive(&[next]);
}

/// What programs have asked for is done before the first frame of a turn.
#[test]
fn the_first_frame_waits_for_requests() {
    let mut both = Both::connected(false);
    both.run();
    let packet = both.in_order(0, LEN);
    let side = &mut both.sides[0];
    let header = side.single.arena.header();
    header.requests_pending.any.store(1, Ordering::Relaxed);
    side.single.carry(&packet);
    let before = side.counts();
    assert!(side.receive_one(true));
    assert_eq!((before, side.counts()), ((0, 0), (0, 1)));
    side.single.turn();
    both.sides[1].receive(&[packet]);
    both.compare();
    // The others do not.
    let packet = both.in_order(0, LEN);
    both.receive(&[packet]);
    assert_eq!(both.counts(), (1, 1));
}

/// Another session's bytes must not be where this one could read them: from the second session
/// on, and after its end, nothing is received into place.
#[test]
fn with_another_session_nothing_is_received_into_place() {
    let mut both = Both::connected(false);
    let single = &mut both.sides[0].single;
    let (session, _) = single.add_session(GEOMETRY, Features::empty());
    both.run();
    let packets: Vec<_> = (0..5).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    both.read(0);
    both.sides[0].single.stack.close_session(session);
    let packets: Vec<_> = (0..5).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    assert_eq!(both.counts(), (0, 0));
    assert_eq!(both.sides[0].wanted.into_place.load(Ordering::Relaxed), 0);
}

/// Whoever reads the port in vain keeps no chunk.
#[test]
fn a_look_in_vain_keeps_no_memory() {
    let mut both = Both::connected(false);
    both.run();
    both.receive(&[]);
    let [placing, copying] = &both.sides;
    assert_eq!(placing.single.free_chunks(), copying.single.free_chunks());
}

/// Without room for a frame it is not tried: the window is nearly full, or the slab.
#[test]
fn what_has_no_room_is_not_tried() {
    let mut both = Both::connected(false);
    both.run();
    // Nobody reads; the window stays what it was.
    while both.sides[0].wanted.into_place.load(Ordering::Relaxed) < 100 {
        let packet = both.in_order(0, LEN);
        both.receive(&[packet]);
        let edge = both.sides[0].received(0, both.read[0]).len() as u64;
        if both.read[0] + edge < both.at[0] {
            break;
        }
    }
    let (right, wrong) = both.counts();
    let before = both.sides[0].wanted.into_place.load(Ordering::Relaxed);
    assert!(right > 2 && wrong <= 2, "{right}, {wrong}");
    for _ in 0..3 {
        let packet = both.in_order(0, LEN);
        both.receive(&[packet]);
    }
    assert_eq!(
        both.sides[0].wanted.into_place.load(Ordering::Relaxed),
        before
    );
}

/// Whatever comes in whatever order, damaged or not, and however much of it is read.
#[test]
fn any_frames_lead_to_the_same() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..40 {
        let mut numbers = Numbers::new(seed);
        let mut both = Both::connected(numbers.below(2) == 0);
        both.may_be_damaged = numbers.below(2) == 0;
        for _ in 0..40 {
            let count = numbers.below(6);
            let packets: Vec<_> = (0..count).map(|_| both.any(&mut numbers)).collect();
            both.receive(&packets);
            both.catch_up();
            if numbers.below(2) == 0 {
                both.read(numbers.below(2) as u16);
            }
        }
        let counts = both.counts();
        (right, wrong) = (right + counts.0, wrong + counts.1);
    }
    assert!(right > 300 && wrong > 40, "{right}, {wrong}");
}

/// A program writes over what is received into place, and harms nobody but itself.
#[test]
fn a_program_that_writes_there_harms_itself_alone() {
    let mut right = 0;
    for seed in 0..20 {
        let mut numbers = Numbers::new(seed);
        let mut both = Both::connected(false);
        let side = &mut both.sides[0];
        let scribble = 1 + numbers.below(255) as u32;
        side.wanted.scribble.store(scribble, Ordering::Relaxed);
        both.run();
        for _ in 0..50 {
            let len = numbers.pick(&[500, LEN, 64_000]);
            let packet = match numbers.below(16) {
                0 => both.in_order(1, len),
                1 => both.packet(0, both.at[0] + 2_000, 5_000, |_| ()),
                2 => packets::packet((CLIENT.into(), SERVER.into()), protocol::UDP, &[9; 3_000]),
                3 => packets::packet((CLIENT.into(), SERVER.into()), protocol::ICMP, &[3; 900]),
                _ => both.in_order(0, len),
            };
            let side = &mut both.sides[0];
            side.receive(&[packet]);
            for number in 0..2 {
                let edge = side.told(number).unwrap_or(0);
                let socket = side.sockets[usize::from(number)];
                side.single.edges(socket, edge, EdgeFlags::empty());
            }
            side.single.turn();
        }
        right += both.counts().0;
    }
    assert!(right > 50, "{right}");
}
