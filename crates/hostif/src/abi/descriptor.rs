//! The descriptors: what the host asks and what the adapter answers, each in
//! one message of at most 64 bytes; [`length`] has how many of them mean something.
//!
//! Word 0 is kind (8 bits), flags (8), waiter + 1 (16) and tag (32); word 1 is the
//! socket's index and generation; words 2 to 7 depend on the kind. What has immediate data
//! (`immediate`) says how much in place of the tag. [`Data`] has its fields elsewhere. A kind,
//! flag or value that does not exist is a [`BadDescriptor`].

mod codec;
mod data;
mod length;
mod request;
mod source_request;

pub(crate) use data::{DATA_AT, Data};
pub(crate) use length::{ImmediateIn, are_near};

pub use data::MOST_DATA;
pub use source_request::SourceRequest;

use super::{Address, FileExtent, MAX_IMMEDIATE, Numbered, SocketId};

/// A descriptor that does not mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDescriptor {
    /// No such kind.
    #[error("descriptor of unknown kind {0}")]
    Kind(u8),
    /// A field has a value that its kind does not allow.
    #[error("descriptor of kind {kind} with a bad {field}")]
    Field {
        /// The descriptor's kind.
        kind: u8,
        /// The field's name.
        field: &'static str,
    },
}

/// What a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SocketKind {
    /// A TCP connection or listener.
    Stream = 1,
    /// A UDP socket.
    Datagram = 2,
}

bitflags::bitflags! {
    /// How a socket is opened.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenFlags: u8 {
        /// AF_INET6.
        const IPV6 = 1;
        /// IPV6_V6ONLY.
        const V6ONLY = 2;
        /// SO_REUSEADDR.
        const REUSE_ADDRESS = 4;
        /// SO_REUSEPORT.
        const REUSE_PORT = 8;
    }

    /// What a move of edges says besides.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct EdgeFlags: u16 {
        /// To the adapter: send what there is without waiting for more.
        const PUSH = 1;
        /// To the adapter: more follows at once, wait for it (MSG_MORE).
        const MORE = 2;
        /// To the adapter: the sending half ends at `snd_edge`.
        const SHUT_WR = 4;
        /// To the adapter: the receiving half is shut down.
        const SHUT_RD = 8;
        /// To the host: the peer's stream ends at `rcv_edge`.
        const PEER_FIN = 16;
        /// To the host: the connection is dead, by the errno beside.
        const DEAD = 32;
        /// To the host: an error that leaves the socket alive (an ICMP error). If
        /// none is given beside, it stands in the block.
        const SOFT_ERROR = 64;
        /// To the host: the connection is established.
        const CONNECTED = 128;
        /// To the host, which has asked for it by [`EdgeFlags::LINGERS`]: the peer has
        /// acknowledged the end of the sending half.
        const FIN_ACKED = 4;
        /// To the adapter, beside `SHUT_WR`: the host waits until the peer has
        /// acknowledged that (SO_LINGER).
        const LINGERS = 16;
        /// To the adapter, beside `PUSH` or `MORE`: less than a full segment waits until it is
        /// said without this (TCP_CORK).
        const CORK = 32;
        /// To the adapter: what follows `snd_edge` goes into no segment with what lies before
        /// it (MSG_EOR). An adapter that does not know this does not keep them apart.
        const RECORD_END = 64;
        /// To the adapter, in a ring: no process holds the socket any more, and it does not
        /// linger. What takes requests off a ring makes a [`Request::Close`] of it.
        const CLOSE = 128;
        /// To the adapter: its host has read the record of this connection in the stream of the
        /// listener, and those of all before it.
        const ACCEPTED = 256;
    }
}

/// Options that the engine has to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[expect(missing_docs, reason = "named as their POSIX counterparts")]
pub enum OptionName {
    NoDelay = 1,
    Cork = 2,
    KeepAlive = 3,
    KeepIdle = 4,
    KeepInterval = 5,
    KeepCount = 6,
    UserTimeout = 7,
    ReceiveBuffer = 8,
    SendBuffer = 9,
    DeferAccept = 10,
    QuickAck = 11,
    MaxSegment = 12,
    Congestion = 13,
    TypeOfService = 14,
    TimeToLive = 15,
    ReuseAddress = 16,
    ReusePort = 17,
    V6Only = 18,
    /// The datagrams that it receives are stamped ([`Stamp`](crate::Stamp)).
    Stamped = 19,
    Linger2 = 20,
    SynCount = 21,
    WindowClamp = 22,
    UdpGro = 23,
    FastOpen = 24,
    FastOpenConnect = 25,
    /// SO_MAX_PACING_RATE, bytes per second; all ones for none.
    MaxPacingRate = 26,
    /// IP_RECVERR.
    ReceiveErrors = 27,
    /// IPV6_RECVERR.
    ReceiveErrors6 = 28,
    /// IPV6_TCLASS, of a connection.
    TrafficClass = 29,
    /// IPV6_UNICAST_HOPS, of a connection.
    HopLimit = 30,
    /// IP_MULTICAST_ALL: off from the start where the socket is of IPv6, as in Linux. Before
    /// interface version 22, and on from the start, for the groups of both versions.
    GroupAll = 31,
    /// IP_MTU_DISCOVER, by the numbers of [`PathMtu`](crate::PathMtu). Of a datagram socket: whose
    /// errors it is told of. Of a stream: whether routers may cut its segments.
    PathMtu = 32,
    /// IPV6_MTU_DISCOVER, the same; of a stream, whether routers are believed that take less.
    PathMtu6 = 33,
    /// TCP_NOTSENT_LOWAT, bytes; 0 for none.
    NotSentLowat = 34,
    /// SO_RCVLOWAT of a stream, bytes: for fewer, nobody is woken (interface version 14).
    ReceiveLowWater = 35,
    /// How the messages of a connection end ([`MessageRule`](crate::MessageRule)), 0 for none: for
    /// a piece of one nobody is woken (interface version 15).
    ReceiveMessages = 36,
    /// After how many milliseconds a piece of a message is enough all the same, 0 for never
    /// (interface version 16).
    ReceiveMessagesWithin = 37,
    /// For how many milliseconds a listener's connections wait for data before it is told of them
    /// all the same, 60,000 at most; 0 if they do not (interface version 17).
    AcceptOnData = 38,
    /// Of a stream that is new: it takes the port of another socket of its session, whose
    /// [name](SocketId::encode) this is, and which its program has bound by number. Bound to the
    /// same address, it has that port whoever else has it, and the other is not bound any more
    /// (interface version 21).
    PortOf = 39,
    /// IPV6_MULTICAST_ALL (interface version 22).
    GroupAll6 = 40,
    /// SO_BINDTODEVICE and SO_BINDTOIFINDEX: which interface a socket receives from
    /// ([`Interface`]; interface version 23).
    Interface = 41,
    /// From where on the bytes of a stream are counted in what is said of when they were sent
    /// ([`SentStamp`](super::SentStamp)): 0 nowhere, 1 from what is not acknowledged, 2 from what
    /// is written (SOF_TIMESTAMPING_OPT_ID, OPT_ID_TCP; interface version 23). Datagrams are counted
    /// that are asked about from then on.
    SentKeys = 42,
    /// That it is to be said when a stream is sent, or acknowledged, up to the position in bits 0
    /// to 47; bit 48 asks when it is about to be sent, 49 when it is sent, 50 when it is
    /// acknowledged. It comes before the edge that reaches there (interface version 23). Of a
    /// datagram socket, that position is the end of its next record; bit 51 asks for the packet, too.
    StampSent = 43,
    /// IP_BIND_ADDRESS_NO_PORT: [`Request::Bind`] with an address and port 0 gives no port
    /// (interface version 25). A stream is given one as it connects, and may share that with others
    /// that have other peers; a datagram socket as it is connected, or is bound without this.
    AddressAlone = 44,
}

/// The interfaces of an adapter, as values of [`OptionName::Interface`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Interface {
    /// Each of them: the socket is bound to none.
    #[default]
    Any = 0,
    /// The loopback, which has what goes to the addresses of that alone.
    Loopback = 1,
    /// The link, which has what goes to all other addresses, also from the same host.
    Link = 2,
}

impl Interface {
    /// The one that a value names; of others, none in particular.
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        match raw {
            1 => Self::Loopback,
            2 => Self::Link,
            _ => Self::Any,
        }
    }
}

/// The names that [`OptionName::Congestion`] may have (TCP_CONGESTION), each in the bytes
/// of its value, the rest zero.
pub const CONGESTION_NAMES: [&str; 4] = ["reno", "cubic", "dctcp", "bbr"];

impl OptionName {
    fn from_raw(raw: u16) -> Option<Self> {
        use OptionName::*;
        const ALL: [OptionName; 44] = [
            NoDelay,
            Cork,
            KeepAlive,
            KeepIdle,
            KeepInterval,
            KeepCount,
            UserTimeout,
            ReceiveBuffer,
            SendBuffer,
            DeferAccept,
            QuickAck,
            MaxSegment,
            Congestion,
            TypeOfService,
            TimeToLive,
            ReuseAddress,
            ReusePort,
            V6Only,
            Stamped,
            Linger2,
            SynCount,
            WindowClamp,
            UdpGro,
            FastOpen,
            FastOpenConnect,
            MaxPacingRate,
            ReceiveErrors,
            ReceiveErrors6,
            TrafficClass,
            HopLimit,
            GroupAll,
            PathMtu,
            PathMtu6,
            NotSentLowat,
            ReceiveLowWater,
            ReceiveMessages,
            ReceiveMessagesWithin,
            AcceptOnData,
            PortOf,
            GroupAll6,
            Interface,
            SentKeys,
            StampSent,
            AddressAlone,
        ];
        ALL.get(usize::from(raw).checked_sub(1)?).copied()
    }
}

/// What can be asked of a socket; the answer comes in the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Query {
    /// Linux's `struct tcp_info`, as long as the mailbox holds of it.
    TcpInfo = 1,
    /// The oldest error report ([`ErrorReport`](crate::ErrorReport)), which is taken
    /// off the queue; of no bytes if there is none.
    Error = 2,
    /// The bytes of the send stream that are not acknowledged, and those of them that
    /// were not sent yet ([`SendQueue`](crate::SendQueue)).
    SendQueue = 3,
    /// The largest packet that gets through to the peer of a connected datagram socket,
    /// bytes: four, in the machine's order; none if it has no peer.
    PathMtu = 4,
    /// The name of a stream socket's congestion control (TCP_CONGESTION), one of
    /// [`CONGESTION_NAMES`].
    Congestion = 5,
}

impl Query {
    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        const ALL: [Query; 5] = [
            Query::TcpInfo,
            Query::Error,
            Query::SendQueue,
            Query::PathMtu,
            Query::Congestion,
        ];
        ALL.into_iter().find(|q| *q as u64 == raw)
    }
}

#[expect(missing_docs, reason = "each variant says what its fields are")]
/// What the host asks of the adapter. `tag` and `waiter` say to whom the answer
/// ([`Completion::Done`]) goes, for those requests that have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A socket comes to the engine. Goes before anything else of it.
    Open {
        socket: SocketId,
        kind: SocketKind,
        flags: OpenFlags,
    },
    /// Bind to `local`; port 0 asks for one. Answered with the address.
    Bind {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        local: Address,
    },
    /// Listen (or change the backlog). Answered.
    Listen {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        backlog: u32,
    },
    /// Connect; answered by [`Completion::Edges`] with `CONNECTED` or `DEAD`,
    /// and at once by [`Completion::Done`] with the local address or an errno. A value
    /// other than 0 says that the SYN waits for the first write, and takes so many
    /// bytes of it; `Edges` with `PUSH` and nothing written sends it without.
    Connect {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        peer: Address,
    },
    /// End an attempt to connect. Answered: 0 if it was ended, which [`Completion::Edges`] with
    /// `DEAD` and ECANCELED has told before; EALREADY if the peer has answered it; ENOENT if
    /// none is under way.
    Cancel {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
    },
    /// The streams' edges: SEND and RECV in one. The last `immediate` bytes before
    /// `snd_edge` travel with it, [`MAX_IMMEDIATE`] at most.
    Edges {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
        immediate: u16,
    },
    /// The streams' edges, and that the last byte of the send stream is urgent
    /// (MSG_OOB).
    Urgent {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
    },
    /// The streams' edges, as `Edges` has them; what `snd_edge` adds ends with what `source`
    /// has received from `from` up to `to` ([`FORWARDS`](crate::Features::FORWARDS)), which
    /// its host has consumed by that. The adapter keeps those bytes until they are acknowledged.
    Forward {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
        source: SocketId,
        from: u64,
        to: u64,
    },
    /// The streams' edges, below 2^48, as `Edges` has them; what `snd_edge` adds ends with bytes
    /// of a file ([`FILES`](crate::Features::FILES)), which the chunks name, too.
    SendFile {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
        extent: FileExtent,
    },
    /// No process holds the socket any more.
    Close {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        linger: Option<u32>,
    },
    /// Join a group on the engine's link, or leave it. Answered.
    Group {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        group: Address,
        join: bool,
    },
    /// Change from which sources the socket receives a group, or ask for that (interface version
    /// 24). Answered.
    Sources {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        group: Numbered,
        source: Numbered,
        change: SourceRequest,
    },
    /// A datagram to `to` was refused since it was too long (interface version 22): a report of
    /// that is kept, if the program asks for errors of that kind of address. Answered.
    TooLong {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        to: Address,
    },
    /// Set an option.
    SetOption {
        socket: SocketId,
        name: OptionName,
        value: u64,
    },
    /// Ask; answered by `Done`, with the answer's length as value.
    Query {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        query: Query,
    },
    /// The socket has another owner: its process has handed over what raises SIGURG
    /// ([`Message::Owner`](crate::attach::Message::Owner)), and is answered once that
    /// counts.
    Owner {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
    },
    /// This process has the socket too: send it completions, the present edges
    /// first.
    Subscribe { socket: SocketId },
    /// This process has it no longer.
    Unsubscribe { socket: SocketId },
}

// Each call of a program moves one or two of them.
const _: () = assert!(size_of::<Request>() <= 56);

/// Where the streams stand, as the adapter tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edges {
    /// The receive stream reaches this far.
    pub rcv_edge: u64,
    /// The send stream is acknowledged this far.
    pub snd_acked: u64,
    /// What else happened.
    pub flags: EdgeFlags,
    /// The errno that goes with `DEAD` and `SOFT_ERROR`.
    pub errno: u16,
    /// The last urgent byte of the receive stream is the one before this; 0 if there
    /// was none. It may lie beyond `rcv_edge`, and only moves forward.
    pub rcv_urgent: u64,
}

#[expect(missing_docs, reason = "each variant says what its fields are")]
/// What the adapter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The answer to the request with this tag: an errno (0 is success), a
    /// value and an address, as the request has it.
    Done {
        socket: SocketId,
        tag: u32,
        errno: u16,
        value: u64,
        address: Address,
    },
    /// The socket's edges.
    Edges { socket: SocketId, edges: Edges },
    /// There was no room for the edges of more sockets. The host that takes this makes the
    /// engine look at the channel again
    /// ([`HostChannel::ask_for_more`](crate::HostChannel::ask_for_more)).
    More,
}

#[cfg(test)]
mod tests;
