//! What requests of all kinds have: the socket that they are about, and, if they are answered,
//! a tag and a waiter. Hosts, adapters and links ask for it, and change it where a request goes
//! on under another name.

use super::{Request, are_near};
use crate::abi::{FileExtent, SocketId};

impl Request {
    /// The socket it is about.
    pub fn socket(&self) -> SocketId {
        match *self {
            Self::Open { socket, .. }
            | Self::Bind { socket, .. }
            | Self::Listen { socket, .. }
            | Self::Connect { socket, .. }
            | Self::Edges { socket, .. }
            | Self::Urgent { socket, .. }
            | Self::Close { socket, .. }
            | Self::Forward { socket, .. }
            | Self::SendFile { socket, .. }
            | Self::Group { socket, .. }
            | Self::Sources { socket, .. }
            | Self::TooLong { socket, .. }
            | Self::SetOption { socket, .. }
            | Self::Query { socket, .. }
            | Self::Owner { socket, .. }
            | Self::Cancel { socket, .. }
            | Self::Subscribe { socket }
            | Self::Unsubscribe { socket } => socket,
        }
    }

    /// The tag of a request that is answered, and the waiter that the answer wakes.
    pub fn asked(&self) -> Option<(u32, Option<u16>)> {
        match *self {
            Self::Bind { tag, waiter, .. }
            | Self::Listen { tag, waiter, .. }
            | Self::Connect { tag, waiter, .. }
            | Self::Group { tag, waiter, .. }
            | Self::Sources { tag, waiter, .. }
            | Self::TooLong { tag, waiter, .. }
            | Self::Query { tag, waiter, .. }
            | Self::Owner { tag, waiter, .. }
            | Self::Cancel { tag, waiter, .. } => Some((tag, waiter)),
            Self::Open { .. }
            | Self::Edges { .. }
            | Self::Urgent { .. }
            | Self::Close { .. }
            | Self::Forward { .. }
            | Self::SendFile { .. }
            | Self::SetOption { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. } => None,
        }
    }

    /// As `asked`, of another socket: of that which has another name where this goes.
    #[must_use]
    pub fn about(mut self, other: SocketId) -> Self {
        match &mut self {
            Self::Open { socket, .. }
            | Self::Bind { socket, .. }
            | Self::Listen { socket, .. }
            | Self::Connect { socket, .. }
            | Self::Edges { socket, .. }
            | Self::Urgent { socket, .. }
            | Self::Close { socket, .. }
            | Self::Forward { socket, .. }
            | Self::SendFile { socket, .. }
            | Self::Group { socket, .. }
            | Self::Sources { socket, .. }
            | Self::TooLong { socket, .. }
            | Self::SetOption { socket, .. }
            | Self::Query { socket, .. }
            | Self::Owner { socket, .. }
            | Self::Cancel { socket, .. }
            | Self::Subscribe { socket }
            | Self::Unsubscribe { socket } => *socket = other,
        }
        self
    }

    /// As `about`, if it has immediate data, without.
    #[must_use]
    pub fn without_immediate(mut self) -> Self {
        if let Self::Edges { immediate, .. } = &mut self {
            *immediate = 0;
        }
        self
    }

    /// The same edges, if they are near and what they add to the send stream ends with `extent`.
    #[must_use]
    pub fn sending(self, extent: FileExtent) -> Self {
        match self {
            Self::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate: 0,
            } if are_near(snd_edge, rcv_consumed) => Self::SendFile {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                extent,
            },
            other => other,
        }
    }

    /// As `without_immediate`, if it is answered, with another tag, and with another who sleeps for
    /// it.
    #[must_use]
    pub fn asked_as(mut self, other: u32, sleeper: Option<u16>) -> Self {
        match &mut self {
            Self::Bind { tag, waiter, .. }
            | Self::Listen { tag, waiter, .. }
            | Self::Connect { tag, waiter, .. }
            | Self::Group { tag, waiter, .. }
            | Self::Sources { tag, waiter, .. }
            | Self::TooLong { tag, waiter, .. }
            | Self::Query { tag, waiter, .. }
            | Self::Owner { tag, waiter, .. }
            | Self::Cancel { tag, waiter, .. } => (*tag, *waiter) = (other, sleeper),
            Self::Open { .. }
            | Self::Edges { .. }
            | Self::Urgent { .. }
            | Self::Close { .. }
            | Self::Forward { .. }
            | Self::SendFile { .. }
            | Self::SetOption { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. } => {}
        }
        self
    }
}
