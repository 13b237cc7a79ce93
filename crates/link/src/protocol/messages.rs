//! The messages, and their bytes; those that the two ends begin with are in `greeting`.
//!
//! Owns [`Message`]; the agent and the proxy put them into a [`Link`](crate::link::Link)'s outbox
//! and take them from its parser.

use super::fields::{BadMessage, Fields, put_socket, put_words};
use super::greeting::{Hello, Refusal, Welcome};
use longshore_hostif::{
    Address, CONGESTION_NAMES, Loopback, MAILBOX_BYTES, MAX_ROUTES, Route, SocketId,
};
use std::net::{IpAddr, Ipv6Addr};

/// Most bytes of a stream in one message.
pub const PAYLOAD: usize = 64 * 1024;
/// In the index of a socket that the engine's end has named.
pub const ADAPTERS: u32 = 1 << 31;
/// Words of a descriptor.
type Descriptor = [u64; 8];

/// What a message is to a bus that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// So many bytes of a stream.
    Payload(u64),
    /// A descriptor, or what is written beside one: so many bytes.
    Control(u64),
    /// Nothing of the interface: the two ends agree on what each knows of its own.
    Nothing,
}

impl Transfer {
    /// What a frame is, by its kind and the bytes of its body.
    #[must_use]
    pub fn of(kind: u32, body: usize) -> Self {
        let body = body as u64;
        match kind {
            kind::PAYLOAD => Self::Payload(body.saturating_sub(PAYLOAD_HEADER)),
            kind::GONE | kind::REFUSED => Self::Nothing,
            _ => Self::Control(body),
        }
    }
}

/// Bytes of a payload's body that say where it belongs.
const PAYLOAD_HEADER: u64 = 16;

mod kind {
    pub(super) const HELLO: u32 = 1;
    pub(super) const WELCOME: u32 = 2;
    pub(super) const REFUSED: u32 = 3;
    pub(super) const DESCRIPTOR: u32 = 4;
    pub(super) const PAYLOAD: u32 = 5;
    pub(super) const ANSWER: u32 = 6;
    pub(super) const ACCEPTED: u32 = 7;
    pub(super) const WORDS: u32 = 8;
    pub(super) const TABLE: u32 = 9;
    pub(super) const GONE: u32 = 10;
    pub(super) const BYE: u32 = 11;
}

/// A connection that a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The listener.
    pub listener: SocketId,
    /// The connection, as the engine's end names it.
    pub socket: SocketId,
    /// Where its record stands in the listener's receive stream.
    pub at: u64,
    /// Its own address.
    pub local: Address,
    /// Its peer.
    pub peer: Address,
    /// Bytes that its send stream may hold.
    pub send_limit: u32,
}

/// What the engine says of a socket beside descriptors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words {
    /// Bytes that the send stream may hold; 0 leaves it to the host.
    pub send_limit: u32,
    /// Bytes that may be read before the engine is to be told; 0 leaves it to the host.
    pub unreported_limit: u32,
    /// An error that is pending, an errno: 0 if there is none that is new.
    pub errno: u32,
    /// Error reports that the engine keeps.
    pub reports: u32,
    /// How far the send stream was sent, for TCP_NOTSENT_LOWAT.
    pub sent: u64,
    /// Connections wait to enter a listener's full queue.
    pub waits: bool,
}

/// What the engine says to all programs of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it reaches.
    pub routes: Vec<Route>,
    /// The stack that has the loopback addresses.
    pub loopback: Loopback,
    /// What its link takes, of IPv4 and of IPv6, bytes.
    pub link_mtu: [u32; 2],
    /// Some path takes less.
    pub has_narrow_paths: bool,
    /// The congestion control that new sockets begin with.
    pub congestion: u32,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// The host's end greets.
    Hello(Hello),
    /// The engine's end greets.
    Welcome(Welcome),
    /// The engine's end serves nobody, or no longer.
    Refused(Refusal),
    /// A request, or a completion.
    Descriptor(Descriptor),
    /// Bytes of a socket's send stream, or of its receive stream.
    Payload {
        /// The socket.
        socket: SocketId,
        /// Where in the stream they belong: where the last that came of it ended.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A completion that answers a question, and the answer.
    Answer(Descriptor, &'a [u8]),
    /// A listener has a connection. Goes before the edge that tells of it.
    Accepted(Accepted),
    /// What the engine says of a socket.
    Words(SocketId, Words),
    /// What the engine says to all.
    Table(Table),
    /// The engine holds nothing any more of what a socket had sent that was closed.
    Gone(SocketId),
    /// The host's end has no programs any more.
    Bye,
}

impl Message<'_> {
    fn kind(&self) -> u32 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Welcome(_) => kind::WELCOME,
            Self::Refused(_) => kind::REFUSED,
            Self::Descriptor(_) => kind::DESCRIPTOR,
            Self::Payload { .. } => kind::PAYLOAD,
            Self::Answer(..) => kind::ANSWER,
            Self::Accepted(_) => kind::ACCEPTED,
            Self::Words(..) => kind::WORDS,
            Self::Table(_) => kind::TABLE,
            Self::Gone(_) => kind::GONE,
            Self::Bye => kind::BYE,
        }
    }

    /// Appends its frame to `to`.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend([0; 8]);
        self.encode_body(to);
        let len = (to.len() - start - 8) as u64;
        let header = len | u64::from(self.kind()) << 32;
        to[start..start + 8].copy_from_slice(&header.to_le_bytes());
    }

    fn encode_body(&self, to: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => hello.encode(to),
            Self::Welcome(welcome) => welcome.encode(to),
            Self::Refused(why) => to.push(*why as u8),
            Self::Descriptor(words) => put_words(to, words),
            Self::Payload { socket, at, bytes } => {
                put_socket(to, *socket);
                put_words(to, &[*at]);
                to.extend_from_slice(bytes);
            }
            Self::Answer(words, bytes) => {
                put_words(to, words);
                to.extend_from_slice(bytes);
            }
            Self::Accepted(accepted) => accepted.encode(to),
            Self::Words(socket, words) => {
                put_socket(to, *socket);
                words.encode(to);
            }
            Self::Table(table) => table.encode(to),
            Self::Gone(socket) => put_socket(to, *socket),
            Self::Bye => {}
        }
    }

    /// Reads the body of a frame.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn decode(kind: u32, body: &[u8]) -> Result<Message<'_>, BadMessage> {
        let mut fields = Fields {
            kind,
            len: body.len(),
            rest: body,
        };
        let message = match kind {
            kind::HELLO => Message::Hello(Hello::decode(&mut fields)?),
            kind::WELCOME => Message::Welcome(Welcome::decode(&mut fields)?),
            kind::REFUSED => {
                let why = Refusal::from_raw(fields.u8()?);
                Message::Refused(why.ok_or(fields.bad("reason"))?)
            }
            kind::DESCRIPTOR => Message::Descriptor(fields.words()?),
            kind::PAYLOAD => Message::Payload {
                socket: fields.socket()?,
                at: fields.u64()?,
                bytes: fields.all(PAYLOAD)?,
            },
            kind::ANSWER => Message::Answer(fields.words()?, fields.all(MAILBOX_BYTES)?),
            kind::ACCEPTED => Message::Accepted(Accepted::decode(&mut fields)?),
            kind::WORDS => Message::Words(fields.socket()?, Words::decode(&mut fields)?),
            kind::TABLE => Message::Table(Table::decode(&mut fields)?),
            kind::GONE => Message::Gone(fields.socket()?),
            kind::BYE => Message::Bye,
            _ => return Err(BadMessage::Kind(kind)),
        };
        fields.end()?;
        Ok(message)
    }
}

impl Accepted {
    fn encode(&self, to: &mut Vec<u8>) {
        put_socket(to, self.listener);
        put_socket(to, self.socket);
        put_words(to, &[self.at]);
        put_words(to, &self.local.0);
        put_words(to, &self.peer.0);
        to.extend(self.send_limit.to_le_bytes());
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, BadMessage> {
        Ok(Self {
            listener: fields.socket()?,
            socket: fields.socket()?,
            at: fields.u64()?,
            local: Address(fields.words()?),
            peer: Address(fields.words()?),
            send_limit: fields.u32()?,
        })
    }
}

impl Words {
    fn encode(&self, to: &mut Vec<u8>) {
        for word in [
            self.send_limit,
            self.unreported_limit,
            self.errno,
            self.reports,
        ] {
            to.extend(word.to_le_bytes());
        }
        put_words(to, &[self.sent]);
        to.push(u8::from(self.waits));
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, BadMessage> {
        Ok(Self {
            send_limit: fields.u32()?,
            unreported_limit: fields.u32()?,
            errno: fields.u32()?,
            reports: fields.u32()?,
            sent: fields.u64()?,
            waits: fields.flag("flag")?,
        })
    }
}

impl Table {
    fn encode(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.loopback == Loopback::Engine));
        to.push(u8::from(self.has_narrow_paths));
        for word in [self.link_mtu[0], self.link_mtu[1], self.congestion] {
            to.extend(word.to_le_bytes());
        }
        let routes = &self.routes[..self.routes.len().min(MAX_ROUTES)];
        to.push(routes.len() as u8);
        for route in routes {
            let address = match route.address {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            to.extend(address.octets());
            to.push(route.prefix_len);
            to.push(u8::from(route.address.is_ipv6()));
            to.push(u8::from(route.local));
            to.extend(route.scope.to_le_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, BadMessage> {
        let loopback = match fields.flag("owner of loopback")? {
            true => Loopback::Engine,
            false => Loopback::Kernel,
        };
        let has_narrow_paths = fields.flag("flag")?;
        let link_mtu = [fields.u32()?, fields.u32()?];
        let congestion = fields.u32()?;
        if congestion as usize >= CONGESTION_NAMES.len() {
            return Err(fields.bad("congestion control"));
        }
        let count = usize::from(fields.u8()?);
        if count > MAX_ROUTES {
            return Err(fields.bad("count of routes"));
        }
        let routes: Result<_, _> = (0..count).map(|_| route(fields)).collect();
        Ok(Self {
            routes: routes?,
            loopback,
            link_mtu,
            has_narrow_paths,
            congestion,
        })
    }
}

fn route(fields: &mut Fields<'_>) -> Result<Route, BadMessage> {
    let address = Ipv6Addr::from(fields.array::<16>()?);
    let prefix_len = fields.u8()?;
    let (address, longest) = match (fields.flag("family")?, address.to_ipv4_mapped()) {
        (true, _) => (IpAddr::V6(address), 128),
        (false, Some(ip)) => (IpAddr::V4(ip), 32),
        (false, None) => return Err(fields.bad("address")),
    };
    if prefix_len > longest {
        return Err(fields.bad("prefix"));
    }
    Ok(Route {
        address,
        prefix_len,
        local: fields.flag("flag")?,
        scope: fields.u32()?,
    })
}

#[cfg(test)]
mod tests;
