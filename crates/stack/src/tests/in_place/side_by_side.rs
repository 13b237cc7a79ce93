//! Two stacks side by side that are given the same frames, of which one may receive into place,
//! and the port that does.

use super::super::numbers::Numbers;
use super::super::off_path::accepted;
use super::super::single::{CLIENT, ISN, SERVER, Sent, Single, header};
use super::super::streams::copy_out;
use crate::Received;
use crate::session::SPARE_CHUNKS;
use crate::socket::Kind;
use crate::stack::in_place::LEAST_RUN;
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
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: SPARE_CHUNKS + 100,
    workers: 1,
};
/// The receive buffers.
pub(super) const WINDOW: u64 = 1 << 20;
/// Frames carry this much of payload, unless a test says otherwise.
pub(super) const LEN: usize = 20_000;

/// What a port does, told by the test.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Frames that were received into place.
    pub(super) into_place: AtomicU32,
    /// 1: it vouches for no checksum.
    pub(super) doubts: AtomicU32,
    /// If not 0, a program writes this over all that is received into place.
    pub(super) scribble: AtomicU32,
}

/// A port that receives into place, and vouches for checksums.
#[derive(Debug)]
pub(super) struct Placing {
    pub(super) port: MemoryPort,
    pub(super) wanted: Arc<Wanted>,
}

impl Placing {
    pub(super) fn vouched(&self, meta: Option<RxMeta>) -> Option<RxMeta> {
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
pub(super) fn byte(number: u16, at: u64) -> u8 {
    (at % 251) as u8 ^ number as u8
}

pub(super) fn stream(number: u16, at: u64, len: usize) -> Vec<u8> {
    (at..at + len as u64).map(|at| byte(number, at)).collect()
}

/// A stack, and the program's sockets of clients 0 and 1.
pub(super) struct Side {
    pub(super) single: Single,
    pub(super) wanted: Arc<Wanted>,
    pub(super) buffer: RecvBuffer,
    pub(super) sockets: Vec<SocketId>,
}

impl Side {
    pub(super) fn new(has_one_session: bool) -> Self {
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

    pub(super) fn counts(&self) -> (u64, u64) {
        let counts = &self.single.stack.counters.prediction;
        (counts.in_place, counts.in_place_missed)
    }

    /// Takes a frame from the port as the loop does; says whether there was one.
    pub(super) fn receive_one(&mut self, is_first: bool) -> bool {
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

    pub(super) fn receive(&mut self, packets: &[Vec<u8>]) {
        for packet in packets {
            self.single.carry(packet);
        }
        while self.receive_one(false) {}
        self.single.turn();
    }

    /// How far the receive stream of client `number` reaches, as its program sees it, and the
    /// bytes of that from `from` on.
    pub(super) fn received(&self, number: u16, from: u64) -> Vec<u8> {
        let edge = self.reported(number).unwrap_or(from);
        let mut bytes = vec![0; (edge - from) as usize];
        let index = self.sockets[usize::from(number)].index;
        copy_out(&self.single.arena, index, from, &mut bytes);
        bytes
    }

    /// How far the program was told that the receive stream of client `number` reaches, unless
    /// the connection is over.
    pub(super) fn reported(&self, number: u16) -> Option<u64> {
        let socket = self.sockets[usize::from(number)];
        let stack = &self.single.stack;
        let key = stack.endpoints.key_of(self.single.session(), socket)?;
        match &stack.endpoints.sockets.get(key)?.kind {
            Kind::Stream(c) => Some(c.reported.rcv_edge),
            _ => None,
        }
    }
}

/// Two stacks, of which the first may receive into place.
pub(super) struct Both {
    pub(super) sides: [Side; 2],
    /// The headers of the next segment of each client, its first byte, and how much its program
    /// has read.
    pub(super) next: Vec<TcpHeader>,
    pub(super) at: Vec<u64>,
    pub(super) read: Vec<u64>,
    /// Segments have come with so little that it crosses with its descriptor.
    pub(super) has_short: bool,
    /// The bytes may be others.
    pub(super) may_be_damaged: bool,
}

impl Both {
    pub(super) fn connected(with_timestamps: bool) -> Self {
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
    pub(super) fn packet(
        &self,
        number: u16,
        at: u64,
        len: usize,
        change: impl Fn(&mut TcpHeader),
    ) -> Vec<u8> {
        let which = usize::from(number);
        let mut header = self.next[which].clone();
        header.seq = header.seq.add((at.wrapping_sub(self.at[which])) as u32);
        change(&mut header);
        let payload = stream(number, at, len);
        packets::segment((CLIENT.into(), SERVER.into()), &header, &payload)
    }

    /// The next segment of client `number`.
    pub(super) fn in_order(&mut self, number: u16, len: usize) -> Vec<u8> {
        let which = usize::from(number);
        let packet = self.packet(number, self.at[which], len, |_| ());
        self.advance(number, len);
        packet
    }

    pub(super) fn advance(&mut self, number: u16, len: usize) {
        self.has_short |= len <= MOST_DATA;
        let which = usize::from(number);
        self.at[which] += len as u64;
        self.next[which].seq = self.next[which].seq.add(len as u32);
    }

    /// Both receive these packets, answer the same, and have the same for their programs.
    pub(super) fn receive(&mut self, packets: &[Vec<u8>]) {
        for side in &mut self.sides {
            side.receive(packets);
        }
        self.compare();
    }

    pub(super) fn compare(&mut self) {
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
    pub(super) fn any(&mut self, numbers: &mut Numbers) -> Vec<u8> {
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
    pub(super) fn catch_up(&mut self) {
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
    pub(super) fn read(&mut self, number: u16) {
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
    pub(super) fn run(&mut self) {
        self.read(0);
        let packets: Vec<_> = (0..LEAST_RUN).map(|_| self.in_order(0, LEN)).collect();
        self.receive(&packets);
        self.read(0);
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        self.sides[0].counts()
    }
}
