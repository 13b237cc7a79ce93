//! Descriptors to messages and back.
//!
//! The one place that knows which word of a message has what: both halves and the link encode and
//! decode by it. What cannot be is a [`BadDescriptor`].

use super::{
    BadDescriptor, Completion, EdgeFlags, Edges, OpenFlags, OptionName, Query, Request, SocketKind,
    SourceRequest,
};
use crate::abi::{Address, FileExtent, Numbered, SocketId};
use longshore_ring::spsc::Message;

pub(super) mod kind {
    pub(in crate::abi::descriptor) const OPEN: u8 = 1;
    pub(in crate::abi::descriptor) const BIND: u8 = 2;
    pub(in crate::abi::descriptor) const LISTEN: u8 = 3;
    pub(in crate::abi::descriptor) const CONNECT: u8 = 4;
    pub(in crate::abi::descriptor) const EDGES: u8 = 5;
    pub(in crate::abi::descriptor) const CLOSE: u8 = 6;
    pub(in crate::abi::descriptor) const SET_OPTION: u8 = 7;
    pub(in crate::abi::descriptor) const QUERY: u8 = 8;
    pub(in crate::abi::descriptor) const SUBSCRIBE: u8 = 9;
    pub(in crate::abi::descriptor) const UNSUBSCRIBE: u8 = 10;
    pub(in crate::abi::descriptor) const URGENT: u8 = 11;
    pub(in crate::abi::descriptor) const OWNER: u8 = 12;
    pub(in crate::abi::descriptor) const GROUP: u8 = 13;
    pub(in crate::abi::descriptor) const CANCEL: u8 = 14;
    pub(in crate::abi::descriptor) const FORWARD: u8 = 15;
    /// Edges below 2^48, in three words.
    pub(in crate::abi::descriptor) const NEAR_EDGES: u8 = 16;
    /// Such edges with [`EdgeFlags::ACCEPTED`](super::EdgeFlags::ACCEPTED).
    pub(in crate::abi::descriptor) const ACCEPTED_EDGES: u8 = 17;
    /// Such edges, and bytes of a file.
    pub(in crate::abi::descriptor) const SEND_FILE: u8 = 18;
    pub(in crate::abi::descriptor) const TOO_LONG: u8 = 19;
    pub(in crate::abi::descriptor) const SOURCES: u8 = 20;
    pub(in crate::abi::descriptor) const DONE: u8 = 65;
    pub(in crate::abi::descriptor) const EDGES_COMPLETION: u8 = 66;
    pub(in crate::abi::descriptor) const MORE: u8 = 67;
    pub(in crate::abi::descriptor) const DATA: u8 = 68;
    /// A receive edge below 2^48, and no error and no urgent byte, in three words.
    pub(in crate::abi::descriptor) const NEAR_EDGES_COMPLETION: u8 = 69;
    /// An answer without an address, in three words.
    pub(in crate::abi::descriptor) const SHORT_DONE: u8 = 70;
}

/// Bits of the edges of a request or completion of three words.
pub(super) const EDGE_BITS: u32 = 48;

fn word0(kind: u8, flags: u8, waiter: Option<u16>, tag: u32) -> u64 {
    let waiter = u64::from(waiter.map_or(0, |w| w.wrapping_add(1)));
    u64::from(kind) | u64::from(flags) << 8 | waiter << 16 | u64::from(tag) << 32
}

pub(super) fn word1(socket: SocketId) -> u64 {
    socket.encode()
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
    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
    fn socket(&self) -> SocketId {
        self.socket_at(1)
    }
    fn socket_at(&self, at: usize) -> SocketId {
        SocketId::decode(self.word(at))
    }
    fn near_edge(&self) -> u64 {
        self.0[0] >> 16
    }
    fn address(&self, at: usize) -> Address {
        Address([self.word(at), self.word(at + 1), self.word(at + 2)])
    }
    fn numbered(&self, at: usize) -> Option<Numbered> {
        Numbered::from_address(self.address(at))
    }
    fn bad(&self, field: &'static str) -> BadDescriptor {
        BadDescriptor::Field {
            kind: self.kind(),
            field,
        }
    }
    fn edge_flags(&self) -> EdgeFlags {
        EdgeFlags::from_bits_retain(self.flags().into())
    }
}

impl Request {
    /// The socket that a message says it is about.
    #[inline]
    pub(crate) fn socket_in(m: &Message) -> SocketId {
        Fields(m).socket()
    }

    /// Whether a message says that it opens its socket.
    #[inline]
    pub(crate) fn opens(m: &Message) -> bool {
        Fields(m).kind() == kind::OPEN
    }

    /// The message that carries it.
    pub fn encode(&self) -> Message {
        let mut m = [0u64; 8];
        let (kind, flags) = self.encode_body(&mut m);
        let (tag, waiter) = match *self {
            Self::Edges { immediate, .. } => (immediate.into(), None),
            _ => self.asked().unwrap_or_default(),
        };
        m[0] = word0(kind, flags, waiter, tag);
        if let Self::Edges { flags, .. } = *self {
            // They have no waiter, in whose place the upper half of their flags is.
            m[0] |= u64::from(flags.bits()) << 8;
        }
        if let Self::SendFile { snd_edge, .. } = *self {
            m[0] |= snd_edge << 16;
        }
        m[1] = word1(self.socket());
        m
    }

    /// Writes the words behind the first two; gives kind and flags.
    #[inline]
    fn encode_body(&self, m: &mut Message) -> (u8, u8) {
        match *self {
            Self::Open { kind, flags, .. } => {
                m[2] = kind as u64;
                (kind::OPEN, flags.bits())
            }
            Self::Bind { local, .. } => {
                m[2..5].copy_from_slice(&local.0);
                (kind::BIND, 0)
            }
            Self::Listen { backlog, .. } => {
                m[2] = u64::from(backlog);
                (kind::LISTEN, 0)
            }
            Self::Connect { peer, .. } => {
                m[2..5].copy_from_slice(&peer.0);
                (kind::CONNECT, 0)
            }
            Self::Edges { .. }
            | Self::Urgent { .. }
            | Self::Forward { .. }
            | Self::SendFile { .. }
            | Self::Close { .. } => self.encode_edges(m),
            Self::Group { group, join, .. } => {
                m[2..5].copy_from_slice(&group.0);
                (kind::GROUP, u8::from(join))
            }
            Self::Sources {
                group,
                source,
                change,
                ..
            } => {
                m[2..5].copy_from_slice(&Address::from(group).0);
                m[5..8].copy_from_slice(&Address::from(source).0);
                (kind::SOURCES, change as u8)
            }
            Self::TooLong { to, .. } => {
                m[2..5].copy_from_slice(&to.0);
                (kind::TOO_LONG, 0)
            }
            Self::SetOption { name, value, .. } => {
                m[2..4].copy_from_slice(&[name as u64, value]);
                (kind::SET_OPTION, 0)
            }
            Self::Query { query, .. } => {
                m[2] = query as u64;
                (kind::QUERY, 0)
            }
            Self::Owner { .. } => (kind::OWNER, 0),
            Self::Cancel { .. } => (kind::CANCEL, 0),
            Self::Subscribe { .. } => (kind::SUBSCRIBE, 0),
            Self::Unsubscribe { .. } => (kind::UNSUBSCRIBE, 0),
        }
    }

    /// As `encode_body`, of those that move the edges of the streams; nothing of others.
    #[inline(always)]
    fn encode_edges(&self, m: &mut Message) -> (u8, u8) {
        match *self {
            Self::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => {
                m[2..4].copy_from_slice(&[snd_edge, rcv_consumed]);
                (kind::EDGES, flags.bits() as u8)
            }
            Self::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            } => {
                m[2..4].copy_from_slice(&[snd_edge, rcv_consumed]);
                (kind::URGENT, 0)
            }
            Self::Forward {
                snd_edge,
                rcv_consumed,
                flags,
                source,
                from,
                to,
                ..
            } => {
                m[2..7].copy_from_slice(&[snd_edge, rcv_consumed, word1(source), from, to]);
                (kind::FORWARD, flags.bits() as u8)
            }
            Self::SendFile {
                rcv_consumed,
                flags,
                extent,
                ..
            } => {
                m[2] = rcv_consumed | u64::from(extent.file) << EDGE_BITS;
                m[3] = u64::from(extent.len) | u64::from(extent.offset) << 32;
                (kind::SEND_FILE, flags.bits() as u8)
            }
            Self::Close {
                snd_edge,
                rcv_consumed,
                linger,
                ..
            } => {
                let linger = linger.map_or(0, |s| u64::from(s) + 1);
                m[2..5].copy_from_slice(&[snd_edge, rcv_consumed, linger]);
                (kind::CLOSE, 0)
            }
            _ => (0, 0),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadDescriptor`] for what no request is.
    pub fn decode(m: &Message) -> Result<Self, BadDescriptor> {
        let f = Fields(m);
        let socket = f.socket();
        Ok(match f.kind() {
            kind::EDGES
            | kind::NEAR_EDGES
            | kind::ACCEPTED_EDGES
            | kind::URGENT
            | kind::FORWARD
            | kind::SEND_FILE
            | kind::CLOSE => return Self::decode_edges(&f),
            kind::OPEN => Self::Open {
                socket,
                kind: match m[2] {
                    1 => SocketKind::Stream,
                    2 => SocketKind::Datagram,
                    _ => return Err(f.bad("socket kind")),
                },
                flags: OpenFlags::from_bits(f.flags()).ok_or(f.bad("flags"))?,
            },
            kind::SET_OPTION => {
                let name = u16::try_from(m[2]).ok().and_then(OptionName::from_raw);
                Self::SetOption {
                    socket,
                    name: name.ok_or(f.bad("option"))?,
                    value: m[3],
                }
            }
            kind::SUBSCRIBE => Self::Subscribe { socket },
            kind::UNSUBSCRIBE => Self::Unsubscribe { socket },
            _ => return Self::decode_asked(&f),
        })
    }

    /// As `decode`, of those that are answered.
    fn decode_asked(f: &Fields<'_>) -> Result<Self, BadDescriptor> {
        let (m, socket, tag, waiter) = (f.0, f.socket(), f.tag(), f.waiter());
        Ok(match f.kind() {
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
            kind::GROUP => Self::Group {
                socket,
                tag,
                waiter,
                group: f.address(2),
                join: match f.flags() {
                    0 => false,
                    1 => true,
                    _ => return Err(f.bad("flags")),
                },
            },
            kind::SOURCES => Self::Sources {
                socket,
                tag,
                waiter,
                group: f.numbered(2).ok_or(f.bad("group"))?,
                source: f.numbered(5).ok_or(f.bad("source"))?,
                change: SourceRequest::from_raw(f.flags()).ok_or(f.bad("flags"))?,
            },
            kind::TOO_LONG => Self::TooLong {
                socket,
                tag,
                waiter,
                to: f.address(2),
            },
            kind::QUERY => Self::Query {
                socket,
                tag,
                waiter,
                query: Query::from_raw(m[2]).ok_or(f.bad("query"))?,
            },
            kind::OWNER => Self::Owner {
                socket,
                tag,
                waiter,
            },
            kind::CANCEL => Self::Cancel {
                socket,
                tag,
                waiter,
            },
            other => return Err(BadDescriptor::Kind(other)),
        })
    }

    /// As `decode`, of those that move the edges of the streams.
    #[inline(always)]
    fn decode_edges(f: &Fields<'_>) -> Result<Self, BadDescriptor> {
        let (m, socket) = (f.0, f.socket());
        let immediate = || Ok(Self::immediate_in(m).ok_or(f.bad("immediate"))?.len);
        Ok(match f.kind() {
            kind::EDGES => Self::Edges {
                socket,
                snd_edge: m[2],
                rcv_consumed: m[3],
                flags: EdgeFlags::from_bits_retain((m[0] >> 8) as u16),
                immediate: immediate()?,
            },
            near @ (kind::NEAR_EDGES | kind::ACCEPTED_EDGES) => Self::Edges {
                socket,
                snd_edge: f.near_edge(),
                rcv_consumed: m[2] & ((1 << EDGE_BITS) - 1),
                flags: match near {
                    kind::ACCEPTED_EDGES => f.edge_flags() | EdgeFlags::ACCEPTED,
                    _ => f.edge_flags(),
                },
                immediate: immediate()?,
            },
            kind::URGENT => Self::Urgent {
                socket,
                snd_edge: m[2],
                rcv_consumed: m[3],
            },
            kind::FORWARD => Self::Forward {
                socket,
                snd_edge: m[2],
                rcv_consumed: m[3],
                flags: f.edge_flags(),
                source: f.socket_at(4),
                from: m[5],
                to: m[6],
            },
            kind::SEND_FILE => Self::SendFile {
                socket,
                snd_edge: f.near_edge(),
                rcv_consumed: m[2] & ((1 << EDGE_BITS) - 1),
                flags: f.edge_flags(),
                extent: FileExtent {
                    file: (m[2] >> EDGE_BITS) as u16,
                    offset: (m[3] >> 32) as u32,
                    len: m[3] as u32,
                },
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
            other => return Err(BadDescriptor::Kind(other)),
        })
    }
}

impl Completion {
    /// This completion, of another socket: of that which has another name where this goes.
    #[must_use]
    pub fn about(mut self, other: SocketId) -> Self {
        match &mut self {
            Self::Done { socket, .. } | Self::Edges { socket, .. } => *socket = other,
            Self::More => {}
        }
        self
    }

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
            Self::Edges { socket, edges } => return Self::edges_message(socket, &edges),
            Self::More => m[0] = word0(kind::MORE, 0, None, 0),
        }
        m
    }

    /// The message that carries where a socket's edges are.
    #[inline]
    pub(crate) fn edges_message(socket: SocketId, edges: &Edges) -> Message {
        [
            word0(kind::EDGES_COMPLETION, edges.flags.bits() as u8, None, 0),
            word1(socket),
            edges.rcv_edge,
            edges.snd_acked,
            u64::from(edges.errno),
            edges.rcv_urgent,
            0,
            0,
        ]
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
            kind::SHORT_DONE => Self::Done {
                socket,
                tag: f.tag(),
                errno: m[2] as u16,
                value: m[2] >> 16,
                address: Address::NONE,
            },
            kind::EDGES_COMPLETION => Self::Edges {
                socket,
                edges: Edges {
                    rcv_edge: m[2],
                    snd_acked: m[3],
                    flags: f.edge_flags(),
                    errno: errno(m[4])?,
                    rcv_urgent: m[5],
                },
            },
            kind::NEAR_EDGES_COMPLETION => Self::Edges {
                socket,
                edges: Edges {
                    rcv_edge: f.near_edge(),
                    snd_acked: m[2],
                    flags: f.edge_flags(),
                    ..Edges::default()
                },
            },
            kind::MORE => Self::More,
            other => return Err(BadDescriptor::Kind(other)),
        })
    }
}
