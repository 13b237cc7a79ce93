//! The datagram socket of a program: it sends datagrams that both ends know, some of them
//! longer than a packet, and looks at those that come.
//!
//! Owns [`Datagrams`]. `program` brings it what the stack has said, and its turn.

use super::streams::{append, copy_out, give_back};
use longshore_hostif::{
    Arena, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Edges, Request, SocketId, datagram_span,
};
use longshore_tcp::Instant;
use longshore_wire::checksum::Partial;
use std::net::SocketAddr;

/// The port of either end.
pub(super) const PORT: u16 = 9;
/// The shortest datagram: the number of its sender, and its own.
const SHORTEST: u64 = 8;
/// A datagram of no more bytes comes in one packet.
const FRAGMENT: usize = 1_280 - 40 - 8;
/// Bytes that are on their way to the stack, at most.
const UNSENT: u64 = 64 * 1_024;
/// So many free chunks hold any datagram.
const CHUNKS: u32 = 8;

/// What datagrams are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// How many.
    pub(super) count: u32,
    /// The longest of them, in bytes.
    pub(super) largest: u64,
    /// The time between two, and between two looks at what has come, in microseconds.
    pub(super) every_us: u64,
}

/// What came of them at one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Datagrams, and those of them that are longer than 1,500 bytes.
    pub(super) count: u64,
    pub(super) long: u64,
}

/// A datagram socket.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) socket: SocketId,
    /// Which end it is: 0 or 1.
    end: u32,
    to: SocketAddr,
    plan: Plan,
    sent: u32,
    due: Instant,
    read_at: Instant,
    reported: Edges,
    written: u64,
    read: u64,
    first_chunk: u64,
    /// How often each of the other's has come.
    seen: Vec<u8>,
    pub(super) arrived: Arrived,
}

/// The payload of datagram `number` of an end.
fn payload(end: u32, number: u32, plan: &Plan) -> Vec<u8> {
    let mixed = (u64::from(number) << 1 | u64::from(end)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let len = SHORTEST + mixed % (plan.largest - SHORTEST);
    let head = [end.to_be_bytes(), number.to_be_bytes()].concat();
    let rest = (head.len() as u64..len).map(|at| (at.wrapping_mul(mixed | 1) >> 7) as u8);
    head.iter().copied().chain(rest).collect()
}

impl Datagrams {
    pub(super) fn new(
        socket: SocketId,
        end: u32,
        to: SocketAddr,
        plan: Plan,
        due: Instant,
    ) -> Self {
        Self {
            socket,
            end,
            to,
            plan,
            sent: 0,
            due,
            read_at: due,
            reported: Edges::default(),
            written: 0,
            read: 0,
            first_chunk: 0,
            seen: vec![0; plan.count as usize],
            arrived: Arrived::default(),
        }
    }

    /// Whether it has sent all that it is to send, and the stack has taken it.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.plan.count && self.reported.snd_acked == self.written
    }

    /// When it sends or reads the next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let sends = (self.sent != self.plan.count).then_some(self.due);
        let reads = (self.read != self.reported.rcv_edge).then_some(self.read_at);
        sends.into_iter().chain(reads).min()
    }

    /// The stack has said where its streams stand.
    pub(super) fn take_edges(&mut self, edges: &Edges) {
        assert!(edges.snd_acked <= self.written, "more sent than written");
        self.reported.rcv_edge = self.reported.rcv_edge.max(edges.rcv_edge);
        self.reported.snd_acked = self.reported.snd_acked.max(edges.snd_acked);
    }

    /// Reads what has come and sends what is due; what it asks for, if anything.
    pub(super) fn step(&mut self, arena: &Arena, now: Instant) -> Option<Request> {
        let before = (self.read, self.written);
        if self.read_at <= now && self.read != self.reported.rcv_edge {
            while self.read < self.reported.rcv_edge {
                self.read_one(arena);
            }
            self.read_at = now.after_us(self.plan.every_us);
        }
        if self.sent != self.plan.count && self.due <= now {
            self.send_one(arena);
            self.due = now.after_us(self.plan.every_us);
        }
        (before != (self.read, self.written)).then_some(Request::Edges {
            socket: self.socket,
            snd_edge: self.written,
            rcv_consumed: self.read,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        })
    }

    fn read_one(&mut self, arena: &Arena) {
        let mut header = [0; DATAGRAM_HEADER];
        copy_out(arena, self.socket.index, self.read, &mut header);
        let record = DatagramRecord::decode(&header);
        let mut got = vec![0; record.len as usize];
        let at = self.read + DATAGRAM_HEADER as u64;
        copy_out(arena, self.socket.index, at, &mut got);
        self.read += datagram_span(record.len);
        assert!(
            self.read <= self.reported.rcv_edge,
            "a datagram that goes on"
        );

        let from = record.peer.get().unwrap();
        assert_eq!(
            (from.ip().to_canonical(), from.port()),
            (self.to.ip(), PORT)
        );
        let number = self.number_of(&got);
        let seen = &mut self.seen[number as usize];
        *seen += 1;
        assert!(*seen <= 2, "the wire duplicates each frame once");
        self.arrived.count += 1;
        self.arrived.long += u64::from(got.len() > 1_500);
    }

    /// Which datagram of the other end it is.
    fn number_of(&self, got: &[u8]) -> u32 {
        let number = u32::from_be_bytes(got[4..8].try_into().unwrap());
        let sent = |number| payload(1 - self.end, number, &self.plan);
        if number < self.plan.count && sent(number) == got {
            return number;
        }
        // The sum does not show two bits that were turned, in two fragments, one each way.
        let is_like = |sent: &[u8]| {
            let [theirs, ours] = [sent, got].map(|bytes| Partial::of(bytes).finish());
            sent.len() == got.len() && theirs == ours
        };
        let found = (0..self.plan.count).find(|number| is_like(&sent(*number)));
        assert!(got.len() > FRAGMENT, "datagram {number} is another");
        found.expect("a datagram that was sent")
    }

    fn send_one(&mut self, arena: &Arena) {
        let index = self.socket.index;
        self.first_chunk = give_back(arena, index, self.first_chunk, self.reported.snd_acked);
        let bytes = payload(self.end, self.sent, &self.plan);
        let span = datagram_span(bytes.len() as u32);
        let (cold, warm) = arena.free_snd_chunks();
        if cold + warm < CHUNKS || self.written + span - self.reported.snd_acked > UNSENT {
            return;
        }
        let peer = SocketAddr::new(as_ipv6(self.to.ip()), self.to.port());
        let record = DatagramRecord::new(bytes.len() as u32, peer.into());
        let mut all = record.encode().to_vec();
        all.extend(bytes);
        all.resize(span as usize, 0);
        self.written = append(arena, index, self.written, &all);
        self.sent += 1;
    }

    /// The request by which it is closed.
    pub(super) fn close(&self) -> Request {
        Request::Close {
            socket: self.socket,
            snd_edge: self.written,
            rcv_consumed: self.read,
            linger: None,
        }
    }
}

fn as_ipv6(ip: std::net::IpAddr) -> std::net::IpAddr {
    match ip {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        ip => ip,
    }
}
