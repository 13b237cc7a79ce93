//! The descriptors: what the host asks and what the adapter answers, each in
//! one message of 64 bytes.
//!
//! Word 0 is kind (8 bits), flags (8), waiter + 1 (16) and tag (32); word 1 is the
//! socket's index and generation; words 2 to 7 depend on the kind. A kind,
//! flag or value that does not exist is a [`BadDescriptor`].

use crate::{Address, SocketId};
use longshore_ring::spsc::Message;

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
    pub struct EdgeFlags: u8 {
        /// To the adapter: send what there is without waiting for more.
        const PUSH = 1;
        /// To the adapter: more follows at once, wait for it (MSG_MORE).
        const MORE = 2;
        /// To the adapter: the sending half ends at `snd_edge`.
        const SHUT_WR = 4;
        /// To the adapter: what arrives from now on is discarded.
        const SHUT_RD = 8;
        /// To the host: the peer's stream ends at `rcv_edge`.
        const PEER_FIN = 16;
        /// To the host: the connection is dead, by the errno beside.
        const DEAD = 32;
        /// To the host: an error that leaves the socket alive (a datagram
        /// socket's ICMP error).
        const SOFT_ERROR = 64;
        /// To the host: the connection is established.
        const CONNECTED = 128;
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
    Broadcast = 19,
    Linger2 = 20,
    SynCount = 21,
    WindowClamp = 22,
    UdpGro = 23,
    FastOpen = 24,
    FastOpenConnect = 25,
    /// SO_MAX_PACING_RATE, bytes per second; all ones for none.
    MaxPacingRate = 26,
}

/// The names that [`OptionName::Congestion`] may have (TCP_CONGESTION), each in the bytes
/// of its value, the rest zero.
pub const CONGESTION_NAMES: [&str; 4] = ["reno", "cubic", "dctcp", "bbr"];

impl OptionName {
    fn from_raw(raw: u16) -> Option<Self> {
        use OptionName::*;
        const ALL: [OptionName; 26] = [
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
            Broadcast,
            Linger2,
            SynCount,
            WindowClamp,
            UdpGro,
            FastOpen,
            FastOpenConnect,
            MaxPacingRate,
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
    /// and at once by [`Completion::Done`] with the local address or an errno.
    Connect {
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        peer: Address,
    },
    /// The streams' edges: SEND and RECV in one.
    Edges {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
    },
    /// No process holds the socket any more.
    Close {
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        linger: Option<u32>,
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
    /// This process has the socket too: send it completions, the present edges
    /// first.
    Subscribe { socket: SocketId },
    /// This process has it no longer.
    Unsubscribe { socket: SocketId },
}

/// Where the streams stand, as the adapter tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// The receive stream reaches this far.
    pub rcv_edge: u64,
    /// The send stream is acknowledged this far.
    pub snd_acked: u64,
    /// What else happened.
    pub flags: EdgeFlags,
    /// The errno that goes with `DEAD` and `SOFT_ERROR`.
    pub errno: u16,
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
}

mod kind {
    pub(super) const OPEN: u8 = 1;
    pub(super) const BIND: u8 = 2;
    pub(super) const LISTEN: u8 = 3;
    pub(super) const CONNECT: u8 = 4;
    pub(super) const EDGES: u8 = 5;
    pub(super) const CLOSE: u8 = 6;
    pub(super) const SET_OPTION: u8 = 7;
    pub(super) const QUERY: u8 = 8;
    pub(super) const SUBSCRIBE: u8 = 9;
    pub(super) const UNSUBSCRIBE: u8 = 10;
    pub(super) const DONE: u8 = 65;
    pub(super) const EDGES_COMPLETION: u8 = 66;
}

fn word0(kind: u8, flags: u8, waiter: Option<u16>, tag: u32) -> u64 {
    let waiter = u64::from(waiter.map_or(0, |w| w.wrapping_add(1)));
    u64::from(kind) | u64::from(flags) << 8 | waiter << 16 | u64::from(tag) << 32
}

fn word1(socket: SocketId) -> u64 {
    u64::from(socket.index) | u64::from(socket.generation) << 32
}

struct Fields<'a>(&'a Message);

impl Fields<'_> {
    fn kind(&self) -> u8 {
        self.0[0] as u8
    }
    fn flags(&self) -> u8 {
        (self.0[0] >> 8) as u8
    }
    fn waiter(&self) -> Option<u16> {
        ((self.0[0] >> 16) as u16).checked_sub(1)
    }
    fn tag(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }
    fn socket(&self) -> SocketId {
        SocketId {
            index: self.0[1] as u32,
            generation: (self.0[1] >> 32) as u32,
        }
    }
    fn address(&self, at: usize) -> Address {
        Address([self.0[at], self.0[at + 1], self.0[at + 2]])
    }
    fn bad(&self, field: &'static str) -> BadDescriptor {
        BadDescriptor::Field {
            kind: self.kind(),
            field,
        }
    }
    fn edge_flags(&self) -> EdgeFlags {
        EdgeFlags::from_bits_retain(self.flags())
    }
}

impl Request {
    /// The socket it is about.
    pub fn socket(&self) -> SocketId {
        match *self {
            Self::Open { socket, .. }
            | Self::Bind { socket, .. }
            | Self::Listen { socket, .. }
            | Self::Connect { socket, .. }
            | Self::Edges { socket, .. }
            | Self::Close { socket, .. }
            | Self::SetOption { socket, .. }
            | Self::Query { socket, .. }
            | Self::Subscribe { socket }
            | Self::Unsubscribe { socket } => socket,
        }
    }

    /// The message that carries it.
    pub fn encode(&self) -> Message {
        let mut m = [0u64; 8];
        m[1] = word1(self.socket());
        let put = |m: &mut Message, at: usize, address: Address| {
            m[at..at + 3].copy_from_slice(&address.0)
        };
        m[0] = match *self {
            Self::Open { kind, flags, .. } => {
                m[2] = kind as u64;
                word0(kind::OPEN, flags.bits(), None, 0)
            }
            Self::Bind {
                tag, waiter, local, ..
            } => {
                put(&mut m, 2, local);
                word0(kind::BIND, 0, waiter, tag)
            }
            Self::Listen {
                tag,
                waiter,
                backlog,
                ..
            } => {
                m[2] = u64::from(backlog);
                word0(kind::LISTEN, 0, waiter, tag)
            }
            Self::Connect {
                tag, waiter, peer, ..
            } => {
                put(&mut m, 2, peer);
                word0(kind::CONNECT, 0, waiter, tag)
            }
            Self::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => {
                m[2] = snd_edge;
                m[3] = rcv_consumed;
                word0(kind::EDGES, flags.bits(), None, 0)
            }
            Self::Close {
                snd_edge,
                rcv_consumed,
                linger,
                ..
            } => {
                m[2] = snd_edge;
                m[3] = rcv_consumed;
                m[4] = linger.map_or(0, |s| u64::from(s) + 1);
                word0(kind::CLOSE, 0, None, 0)
            }
            Self::SetOption { name, value, .. } => {
                m[2] = name as u64;
                m[3] = value;
                word0(kind::SET_OPTION, 0, None, 0)
            }
            Self::Query {
                tag, waiter, query, ..
            } => {
                m[2] = query as u64;
                word0(kind::QUERY, 0, waiter, tag)
            }
            Self::Subscribe { .. } => word0(kind::SUBSCRIBE, 0, None, 0),
            Self::Unsubscribe { .. } => word0(kind::UNSUBSCRIBE, 0, None, 0),
        };
        m
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadDescriptor`] for what no request is.
    pub fn decode(m: &Message) -> Result<Self, BadDescriptor> {
        let f = Fields(m);
        let (socket, tag, waiter) = (f.socket(), f.tag(), f.waiter());
        Ok(match f.kind() {
            kind::OPEN => Self::Open {
                socket,
                kind: match m[2] {
                    1 => SocketKind::Stream,
                    2 => SocketKind::Datagram,
                    _ => return Err(f.bad("socket kind")),
                },
                flags: OpenFlags::from_bits(f.flags()).ok_or(f.bad("flags"))?,
            },
            kind::BIND => Self::Bind {
                socket,
                tag,
                waiter,
                local: f.address(2),
            },
            kind::LISTEN => {
                let backlog = u32::try_from(m[2]).map_err(|_| f.bad("backlog"))?;
                Self::Listen {
                    socket,
                    tag,
                    waiter,
                    backlog,
                }
            }
            kind::CONNECT => Self::Connect {
                socket,
                tag,
                waiter,
                peer: f.address(2),
            },
            kind::EDGES => Self::Edges {
                socket,
                snd_edge: m[2],
                rcv_consumed: m[3],
                flags: f.edge_flags(),
            },
            kind::CLOSE => {
                let linger = match m[4] {
                    0 => None,
                    s => Some(u32::try_from(s - 1).map_err(|_| f.bad("linger"))?),
                };
                Self::Close {
                    socket,
                    snd_edge: m[2],
                    rcv_consumed: m[3],
                    linger,
                }
            }
            kind::SET_OPTION => {
                let name = u16::try_from(m[2]).ok().and_then(OptionName::from_raw);
                Self::SetOption {
                    socket,
                    name: name.ok_or(f.bad("option"))?,
                    value: m[3],
                }
            }
            kind::QUERY => match m[2] {
                1 => Self::Query {
                    socket,
                    tag,
                    waiter,
                    query: Query::TcpInfo,
                },
                _ => return Err(f.bad("query")),
            },
            kind::SUBSCRIBE => Self::Subscribe { socket },
            kind::UNSUBSCRIBE => Self::Unsubscribe { socket },
            other => return Err(BadDescriptor::Kind(other)),
        })
    }
}

impl Completion {
    /// The message that carries it.
    pub fn encode(&self) -> Message {
        let mut m = [0u64; 8];
        match *self {
            Self::Done {
                socket,
                tag,
                errno,
                value,
                address,
            } => {
                m[0] = word0(kind::DONE, 0, None, tag);
                m[1] = word1(socket);
                m[2] = u64::from(errno);
                m[3] = value;
                m[4..7].copy_from_slice(&address.0);
            }
            Self::Edges { socket, edges } => {
                m[0] = word0(kind::EDGES_COMPLETION, edges.flags.bits(), None, 0);
                m[1] = word1(socket);
                m[2] = edges.rcv_edge;
                m[3] = edges.snd_acked;
                m[4] = u64::from(edges.errno);
            }
        }
        m
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadDescriptor`] for what no completion is.
    pub fn decode(m: &Message) -> Result<Self, BadDescriptor> {
        let f = Fields(m);
        let socket = f.socket();
        let errno = |word: u64| u16::try_from(word).map_err(|_| f.bad("errno"));
        Ok(match f.kind() {
            kind::DONE => Self::Done {
                socket,
                tag: f.tag(),
                errno: errno(m[2])?,
                value: m[3],
                address: f.address(4),
            },
            kind::EDGES_COMPLETION => Self::Edges {
                socket,
                edges: Edges {
                    rcv_edge: m[2],
                    snd_acked: m[3],
                    flags: f.edge_flags(),
                    errno: errno(m[4])?,
                },
            },
            other => return Err(BadDescriptor::Kind(other)),
        })
    }
}

#[cfg(test)]
mod tests;
