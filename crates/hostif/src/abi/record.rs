//! The records that listeners' and datagram sockets' streams consist of, and what a
//! mailbox says of a send stream.

use super::{Address, SocketId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an accept record.
pub const ACCEPT_RECORD: usize = 64;
/// Bytes before a datagram's payload.
pub const DATAGRAM_HEADER: usize = 32;
/// The bits of a datagram's length.
const LEN: u32 = 0x1_ffff;
/// The bit after them, in the receive stream: a group's address follows.
const TO_GROUP: u64 = 1 << 17;
/// The same bit in the send stream: it leaves without a checksum.
const UNSUMMED: u64 = TO_GROUP;
/// Hops were chosen for it, or counted.
const HAS_HOPS: u64 = 1 << 18;
/// What goes to a group comes back to the sender's own.
const LOOPED: u64 = 1 << 19;
/// Where the three bits of [`PathMtu`] stand.
const PATH_MTU_SHIFT: u32 = 20;
/// What is told of its arrival follows.
const STAMPED: u64 = 1 << 23;
/// Bytes of the address of a group that a datagram was sent to: one of IPv6, or one of
/// IPv4 as it is mapped into that.
pub const GROUP_BYTES: usize = 16;

/// The places of the loopback addresses of IPv4 and of IPv6, which are no routes, in a
/// datagram's record. 127.0.0.1 alone has one of all those of IPv4.
const LOOPBACK_PLACES: [(u8, IpAddr); 2] = [
    (254, IpAddr::V4(Ipv4Addr::LOCALHOST)),
    (255, IpAddr::V6(Ipv6Addr::LOCALHOST)),
];

/// The place of a loopback address, if it has one.
pub fn loopback_place(ip: IpAddr) -> Option<u8> {
    let found = LOOPBACK_PLACES.iter().find(|(_, own)| *own == ip);
    found.map(|(place, _)| *place)
}

/// The loopback address at a place, if it is one's.
pub fn loopback_at(place: u8) -> Option<IpAddr> {
    let found = LOOPBACK_PLACES.iter().find(|(at, _)| *at == place);
    found.map(|(_, ip)| *ip)
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| {
        let word = bytes.get(i * 8..i * 8 + 8).and_then(|w| w.try_into().ok());
        u64::from_le_bytes(word.unwrap_or_default())
    })
}

fn put(words: &[u64], bytes: &mut [u8]) {
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_le_bytes());
    }
}

/// Bytes of [`SendQueue`].
pub const SEND_QUEUE: usize = 16;

/// What a send stream holds, in bytes, a FIN that is under way counted as one: the answer
/// to [`Query::SendQueue`](crate::Query::SendQueue).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendQueue {
    /// Written and not acknowledged (SIOCOUTQ).
    pub unacked: u64,
    /// Written and not sent even once (SIOCOUTQNSD).
    pub unsent: u64,
}

impl SendQueue {
    /// The answer's bytes.
    pub fn encode(&self) -> [u8; SEND_QUEUE] {
        let mut bytes = [0; SEND_QUEUE];
        put(&[self.unacked, self.unsent], &mut bytes);
        bytes
    }

    /// Reads the answer.
    pub fn decode(bytes: &[u8; SEND_QUEUE]) -> Self {
        let [unacked, unsent] = words(bytes);
        Self { unacked, unsent }
    }
}

/// A connection that waits to be accepted: one record of a listener's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptRecord {
    /// The connection's socket. The process that takes the record off its stream
    /// begins the block
    /// ([`begin_accepted`](super::SocketBlock::begin_accepted)).
    pub socket: SocketId,
    /// Its local address.
    pub local: Address,
    /// Its peer.
    pub peer: Address,
    /// Bytes that its send stream may hold.
    pub send_limit: u32,
    /// The channel that gets its completions already, if there is just one
    /// that accepts. Any other process that accepts it has to subscribe.
    pub subscriber: Option<u16>,
    /// The engine has written to its block what it says of a stream with a low-water mark of what
    /// is not sent ([`NotSent`](super::NotSent)), and whoever begins the block leaves that as it is
    /// (interface version 23).
    pub has_mark: bool,
}

impl AcceptRecord {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; ACCEPT_RECORD] {
        let mut bytes = [0; ACCEPT_RECORD];
        let id = self.socket.encode();
        let (l, p) = (self.local.0, self.peer.0);
        let subscriber = u64::from(self.subscriber.map_or(0, |c| c.wrapping_add(1)));
        let has_mark = u64::from(self.has_mark);
        let tail = u64::from(self.send_limit) | subscriber << 32 | has_mark << 48;
        put(&[id, l[0], l[1], l[2], p[0], p[1], p[2], tail], &mut bytes);
        bytes
    }

    /// Reads a record.
    pub fn decode(bytes: &[u8; ACCEPT_RECORD]) -> Self {
        let w: [u64; 8] = words(bytes);
        Self {
            socket: SocketId::decode(w[0]),
            local: Address([w[1], w[2], w[3]]),
            peer: Address([w[4], w[5], w[6]]),
            send_limit: w[7] as u32,
            subscriber: ((w[7] >> 32) as u16).checked_sub(1),
            has_mark: w[7] >> 48 & 1 != 0,
        }
    }
}

/// What is done with a datagram that is longer than its path takes, by the numbers of
/// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER. IPv6 has no bit that forbids fragments, and
/// routers make none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PathMtu {
    /// It is cut, here or by a router.
    Dont = 0,
    /// It is cut here, and no router may.
    #[default]
    Want = 1,
    /// It is refused, and no router may cut it.
    Do = 2,
    /// It is refused, and no router may cut it, but only the link's MTU counts: for programs that look for the path's
    /// MTU themselves (RFC 8899).
    Probe = 3,
    /// It is refused if the link does not take it, and routers may cut it.
    Interface = 4,
    /// It is cut if the link does not take it, here or by a router.
    Omit = 5,
    /// It is cut to what each path of IPv6 takes (IPV6_MTU). An engine of a release that does not
    /// know this takes it for [`PathMtu::Want`].
    Least = 6,
}

impl PathMtu {
    /// The one of this number, in its lowest three bits; what is none is the default.
    pub fn from_raw(raw: u32) -> Self {
        match raw & 7 {
            0 => Self::Dont,
            2 => Self::Do,
            3 => Self::Probe,
            4 => Self::Interface,
            5 => Self::Omit,
            6 => Self::Least,
            _ => Self::Want,
        }
    }

    /// Whether routers must not cut it (DF in IPv4).
    pub fn forbids_routers(self) -> bool {
        matches!(self, Self::Want | Self::Do | Self::Probe | Self::Least)
    }

    /// Whether what is too long is refused, not cut.
    pub fn refuses(self) -> bool {
        matches!(self, Self::Do | Self::Probe | Self::Interface)
    }

    /// Whether what was learnt of the path counts, not the link's MTU alone.
    pub fn honors_path_mtu(self) -> bool {
        matches!(self, Self::Dont | Self::Want | Self::Do | Self::Least)
    }
}

/// Bytes of [`Stamp`].
pub const STAMP_BYTES: usize = 16;

/// What is told of a datagram's arrival, to sockets that ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// When the engine took it, in nanoseconds of CLOCK_REALTIME.
    pub arrived_ns: u64,
    /// How many datagrams the socket had no room for before it, since it was made,
    /// modulo 2^32.
    pub dropped: u32,
}

impl Stamp {
    /// Its bytes.
    pub fn encode(&self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        put(&[self.arrived_ns, self.dropped.into()], &mut bytes);
        bytes
    }

    /// Reads it.
    pub fn decode(bytes: &[u8; STAMP_BYTES]) -> Self {
        let [arrived_ns, dropped] = words(bytes);
        Self {
            arrived_ns,
            dropped: dropped as u32,
        }
    }
}

/// What stands before each datagram's payload in a datagram socket's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramRecord {
    /// Bytes of payload, at most 65,535 (17 bits cross).
    pub len: u32,
    /// Which of the engine's own addresses it came to, or is to leave from: its
    /// place among the local routes plus 1, or that of a loopback address
    /// ([`loopback_place`]); 0 if it is none of them, or any.
    pub own: u8,
    /// If not 0: the payload is a train of datagrams of this size each (the
    /// last may be shorter), as UDP_SEGMENT and UDP_GRO have it.
    pub segment: u16,
    /// Between header and payload stand [`GROUP_BYTES`] with the address that it was
    /// sent to: a group's, or a broadcast address (receive stream alone).
    pub to_group: bool,
    /// Between header and payload, after a group's address, stand [`STAMP_BYTES`] with
    /// what is told of its arrival ([`Stamp`]; receive stream alone).
    pub stamped: bool,
    /// The TTL or hop limit that it came with, or is to leave with; `None` leaves it to
    /// the engine.
    pub hops: Option<u8>,
    /// The type of service or traffic class that it came with, or is to leave with.
    pub class: u8,
    /// Whether what goes to a group is delivered to the engine's own sockets, too (send
    /// stream alone).
    pub looped: bool,
    /// What is done if it is longer than the path takes (send stream alone).
    pub path_mtu: PathMtu,
    /// It leaves without a checksum (RFC 768), if it goes by IPv4 and is no train (send stream alone;
    /// interface version 24). It has the bit of `to_group`.
    pub unsummed: bool,
    /// Where it goes (send stream; none for a connected socket) or where it
    /// came from (receive stream).
    pub peer: Address,
}

impl DatagramRecord {
    /// One of `len` bytes to `peer`, for which nothing was chosen.
    pub fn new(len: u32, peer: Address) -> Self {
        Self {
            len,
            own: 0,
            segment: 0,
            to_group: false,
            stamped: false,
            hops: None,
            class: 0,
            looped: true,
            path_mtu: PathMtu::default(),
            unsummed: false,
            peer,
        }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = [0; DATAGRAM_HEADER];
        let meta = u64::from(self.len & LEN)
            | u64::from(self.own) << 24
            | u64::from(self.segment) << 32
            | if self.to_group { TO_GROUP } else { 0 }
            | if self.unsummed { UNSUMMED } else { 0 }
            | if self.stamped { STAMPED } else { 0 }
            | if self.looped { LOOPED } else { 0 }
            | (self.path_mtu as u64) << PATH_MTU_SHIFT
            | self.hops.map_or(0, |hops| HAS_HOPS | u64::from(hops) << 48)
            | u64::from(self.class) << 56;
        put(
            &[meta, self.peer.0[0], self.peer.0[1], self.peer.0[2]],
            &mut bytes,
        );
        bytes
    }

    /// Where its payload begins, from the record's beginning.
    pub fn payload_at(&self) -> usize {
        self.stamp_at() + if self.stamped { STAMP_BYTES } else { 0 }
    }

    /// Where what is told of its arrival begins, from the record's beginning.
    pub fn stamp_at(&self) -> usize {
        DATAGRAM_HEADER + if self.to_group { GROUP_BYTES } else { 0 }
    }

    /// Bytes of stream that it takes, padding included.
    pub fn span(&self) -> u64 {
        datagram_span(self.len) + (self.payload_at() - DATAGRAM_HEADER) as u64
    }

    /// Reads a header. The length is a claim: check it against the stream.
    pub fn decode(bytes: &[u8; DATAGRAM_HEADER]) -> Self {
        let w: [u64; 4] = words(bytes);
        Self {
            len: w[0] as u32 & LEN,
            own: (w[0] >> 24) as u8,
            segment: (w[0] >> 32) as u16,
            to_group: w[0] & TO_GROUP != 0,
            unsummed: w[0] & UNSUMMED != 0,
            stamped: w[0] & STAMPED != 0,
            hops: (w[0] & HAS_HOPS != 0).then_some((w[0] >> 48) as u8),
            looped: w[0] & LOOPED != 0,
            path_mtu: PathMtu::from_raw((w[0] >> PATH_MTU_SHIFT) as u32),
            class: (w[0] >> 56) as u8,
            peer: Address([w[1], w[2], w[3]]),
        }
    }
}

/// Bytes of stream that a datagram of `len` bytes takes, padding included.
pub fn datagram_span(len: u32) -> u64 {
    (DATAGRAM_HEADER as u64 + u64::from(len)).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back(index: u32, generation: u32, a: [u64; 3], b: [u64; 3], limit: u32, len in 0..=LEN, own: u8, segment: u16, flags: [bool; 3], hops: Option<u8>, class: u8, raw: u32, stamp: (u64, u32), subscriber in proptest::option::of(0u16..1024)) {
            let accept = AcceptRecord {
                socket: SocketId { index, generation }, local: Address(a), peer: Address(b), send_limit: limit, subscriber, has_mark: flags[0],
            };
            prop_assert_eq!(AcceptRecord::decode(&accept.encode()), accept);
            let [to_group, stamped, looped] = flags;
            let path_mtu = PathMtu::from_raw(raw);
            let datagram = DatagramRecord { len, own, segment, to_group, stamped, hops, class, looped, path_mtu, unsummed: to_group, peer: Address(b) };
            prop_assert_eq!(DatagramRecord::decode(&datagram.encode()), datagram);
            let stamp = Stamp { arrived_ns: stamp.0, dropped: stamp.1 };
            prop_assert_eq!(Stamp::decode(&stamp.encode()), stamp);
        }
    }

    #[test]
    fn spans_are_padded() {
        assert_eq!(datagram_span(0), 32);
        assert_eq!(datagram_span(1), 40);
        assert_eq!(datagram_span(65_535), 65_568);
    }

    #[test]
    fn a_send_queue_comes_back() {
        let queue = SendQueue {
            unacked: u64::MAX - 1,
            unsent: 1 << 40,
        };
        assert_eq!(SendQueue::decode(&queue.encode()), queue);
    }

    /// By the numbers of Linux, and as `ip(7)` has them.
    #[test]
    fn each_way_with_long_datagrams_has_its_number() {
        use PathMtu::*;
        let (yes, no) = (true, false);
        for (number, way, forbids, refuses, honors) in [
            (0, Dont, no, no, yes),
            (1, Want, yes, no, yes),
            (2, Do, yes, yes, yes),
            (3, Probe, yes, yes, no),
            (4, Interface, no, yes, no),
            (5, Omit, no, no, no),
            (6, Least, yes, no, yes),
        ] {
            assert_eq!((PathMtu::from_raw(number), way as u32), (way, number));
            // The bits above are those of others.
            assert_eq!(PathMtu::from_raw(number | 0xffff_fff8), way);
            assert_eq!(way.forbids_routers(), forbids, "{way:?}");
            assert_eq!(way.refuses(), refuses, "{way:?}");
            assert_eq!(way.honors_path_mtu(), honors, "{way:?}");
        }
        assert_eq!(PathMtu::from_raw(7), Want);
    }

    #[test]
    fn what_stands_before_a_payload_makes_its_record_longer() {
        for (to_group, stamped, stamp_at, payload_at) in [
            (false, false, 32, 32),
            (true, false, 32 + GROUP_BYTES, 32 + GROUP_BYTES),
            (false, true, 32, 32 + STAMP_BYTES),
            (true, true, 32 + GROUP_BYTES, 32 + GROUP_BYTES + STAMP_BYTES),
        ] {
            let record = DatagramRecord {
                to_group,
                stamped,
                ..DatagramRecord::new(9, Address::NONE)
            };
            assert_eq!(
                (record.stamp_at(), record.payload_at()),
                (stamp_at, payload_at)
            );
            assert_eq!(record.span(), (payload_at + 9).next_multiple_of(8) as u64);
        }
    }
}
