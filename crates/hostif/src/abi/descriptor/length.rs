//! How long a descriptor is: which of its words mean anything, and what of its slots crosses.
//!
//! The words of a message are known from its first one. What is behind them in the slot is not
//! written and not read, in sessions whose version has lengths
//! ([`LENGTHS_SINCE`]).

use super::codec::{EDGE_BITS, kind, word1};
use super::{Completion, EdgeFlags, MAX_IMMEDIATE, Request};
use crate::abi::{ABI_VERSION, Address, DESCRIPTOR_BYTES, LENGTHS_SINCE, SHORT_DONE_SINCE};
use longshore_ring::spsc::{Message, WORDS};

/// Whether edges are told in three words.
pub(crate) fn are_near(snd_edge: u64, rcv_consumed: u64) -> bool {
    (snd_edge | rcv_consumed) >> EDGE_BITS == 0
}

/// The words that a request of each kind has before its immediate data.
#[allow(
    clippy::indexing_slicing,
    reason = "an index that is none does not compile"
)]
const REQUEST_WORDS: [u8; 21] = {
    let mut words = [WORDS as u8; 21];
    words[kind::OPEN as usize] = 3;
    words[kind::BIND as usize] = 5;
    words[kind::LISTEN as usize] = 3;
    words[kind::CONNECT as usize] = 5;
    words[kind::EDGES as usize] = 4;
    words[kind::CLOSE as usize] = 5;
    words[kind::SET_OPTION as usize] = 4;
    words[kind::QUERY as usize] = 3;
    words[kind::SUBSCRIBE as usize] = 2;
    words[kind::UNSUBSCRIBE as usize] = 2;
    words[kind::URGENT as usize] = 4;
    words[kind::OWNER as usize] = 2;
    words[kind::GROUP as usize] = 5;
    words[kind::CANCEL as usize] = 2;
    words[kind::FORWARD as usize] = 7;
    words[kind::NEAR_EDGES as usize] = 3;
    words[kind::ACCEPTED_EDGES as usize] = 3;
    words[kind::SEND_FILE as usize] = 4;
    words[kind::TOO_LONG as usize] = 5;
    words[kind::SOURCES as usize] = 8;
    words
};

/// The flags of a message, and that by which it says that its socket is closed.
const FLAGS: u64 = 0xff << 8;
const CLOSE: u64 = (EdgeFlags::CLOSE.bits() as u64) << 8;

/// What a message says of its immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImmediateIn {
    /// Bytes of it.
    pub(crate) len: u16,
    /// Where in the message's slot they begin.
    pub(crate) at: u16,
    /// Where in the send stream they end.
    pub(crate) edge: u64,
}

/// A request as it lies in a ring, but for its immediate data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    message: Message,
    /// Words of the message that are stored.
    words: u32,
    /// All words, with those of the immediate data.
    all: u32,
}

impl Stored {
    /// The words of the message that are stored.
    #[inline]
    pub(crate) fn fields(&self) -> &[u64] {
        self.message.get(..self.words as usize).unwrap_or_default()
    }

    /// Slots behind its own that its immediate data takes.
    #[inline]
    pub(crate) fn more(&self) -> u32 {
        slots(self.all) - 1
    }

    /// Words of the last slot that mean nothing.
    #[inline]
    pub(crate) fn left(&self) -> u32 {
        slots(self.all) * WORDS as u32 - self.all
    }
}

/// Slots that so many words take, one at least.
#[inline]
fn slots(words: u32) -> u32 {
    words.div_ceil(WORDS as u32).max(1)
}

/// Words that so many bytes take.
#[inline]
fn words_of(bytes: u16) -> u32 {
    u32::from(bytes).div_ceil(8)
}

impl Request {
    /// What a message says of its immediate data; `None` if it says more than there may be.
    #[inline]
    pub(crate) fn immediate_in(m: &Message) -> Option<ImmediateIn> {
        let (len, words, edge) = match m[0] as u8 {
            kind::NEAR_EDGES | kind::ACCEPTED_EDGES => {
                ((m[2] >> EDGE_BITS) as usize, 3, m[0] >> 16)
            }
            kind::EDGES => ((m[0] >> 32) as usize, 4, m[2]),
            _ => (0, 0, 0),
        };
        (len <= MAX_IMMEDIATE).then_some(ImmediateIn {
            len: len as u16,
            at: words * 8,
            edge,
        })
    }

    /// The words of a message and of the `immediate` bytes behind it.
    #[inline]
    fn words_in(m: &Message, immediate: u16) -> u32 {
        let fields = REQUEST_WORDS.get(usize::from(m[0] as u8));
        fields.map_or(WORDS as u32, |words| u32::from(*words)) + words_of(immediate)
    }

    /// Slots behind its own that a message with `immediate` bytes takes.
    #[inline]
    pub(crate) fn more_in(m: &Message, immediate: u16) -> u32 {
        slots(Self::words_in(m, immediate)) - 1
    }

    /// Words that mean nothing in the last slot of a message with `immediate` bytes.
    #[inline]
    pub(crate) fn left_in(m: &Message, immediate: u16) -> u32 {
        let words = Self::words_in(m, immediate);
        slots(words) * WORDS as u32 - words
    }

    /// Whether a message of edges below 2^48 says besides that its socket is closed: the one that
    /// says only that, and the message without it, if that says anything else.
    #[inline]
    pub(crate) fn with_close(m: &Message) -> Option<(Message, Option<Message>)> {
        let is_near = matches!(
            m[0] as u8,
            kind::NEAR_EDGES | kind::ACCEPTED_EDGES | kind::SEND_FILE
        );
        let closes = is_near && m[0] & CLOSE != 0;
        closes.then(|| Self::close_apart(m))
    }

    fn close_apart(m: &Message) -> (Message, Option<Message>) {
        let close = Self::Close {
            socket: Self::socket_in(m),
            snd_edge: m[0] >> 16,
            rcv_consumed: m[2] & ((1 << EDGE_BITS) - 1),
            linger: None,
        };
        let is_plain = m[0] as u8 == kind::NEAR_EDGES;
        let says_more = !is_plain || m[0] & FLAGS != CLOSE || m[2] >> EDGE_BITS != 0;
        let edges = [m[0] & !CLOSE, m[1], m[2], m[3], 0, 0, 0, 0];
        (close.encode(), says_more.then_some(edges))
    }

    /// The three words of edges that are near, below 2^48, and of a close at such; `None` of
    /// anything else.
    #[inline]
    fn near(&self) -> Option<[u64; 3]> {
        let (socket, snd_edge, rcv_consumed, flags, immediate) = match *self {
            Self::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate,
            } => (socket, snd_edge, rcv_consumed, flags, immediate),
            Self::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger: None,
            } => (socket, snd_edge, rcv_consumed, EdgeFlags::CLOSE, 0),
            _ => return None,
        };
        let kind = match flags.contains(EdgeFlags::ACCEPTED) {
            true => kind::ACCEPTED_EDGES,
            false => kind::NEAR_EDGES,
        };
        are_near(snd_edge, rcv_consumed).then_some([
            u64::from(kind) | u64::from(flags.bits() as u8) << 8 | snd_edge << 16,
            word1(socket),
            rcv_consumed | u64::from(immediate) << EDGE_BITS,
        ])
    }

    /// As it lies in the ring of a session that `has_lengths`, or has none.
    #[inline]
    pub(crate) fn stored(&self, has_lengths: bool) -> Stored {
        let immediate = match *self {
            Self::Edges { immediate, .. } => immediate,
            _ => 0,
        };
        if has_lengths && let Some(near) = self.near() {
            let [first, second, third] = near;
            let mut message = [0; WORDS];
            (message[0], message[1], message[2]) = (first, second, third);
            let words = near.len() as u32;
            return Stored {
                message,
                words,
                all: words + words_of(immediate),
            };
        }
        let message = self.encode();
        let all = Self::words_in(&message, immediate);
        let words = Self::words_in(&message, 0);
        if has_lengths || immediate != 0 {
            return Stored {
                message,
                words,
                // All of the last slot, where nothing says where it ends.
                all: if has_lengths {
                    all
                } else {
                    slots(all) * WORDS as u32
                },
            };
        }
        Stored {
            message,
            words: WORDS as u32,
            all: WORDS as u32,
        }
    }

    /// Bytes that it takes in a ring whose descriptors have lengths, with its immediate data.
    #[must_use]
    pub fn ring_bytes(&self) -> u32 {
        self.stored(true).all * 8
    }
}

impl Completion {
    /// Its message, and the words of that which are stored in a session of this `version`.
    #[inline]
    pub(crate) fn stored(&self, version: u16) -> (Message, usize) {
        let has_lengths = version >= LENGTHS_SINCE;
        let words = match *self {
            Self::Edges { socket, ref edges } => {
                return Self::stored_edges(socket, edges, has_lengths);
            }
            Self::Done {
                socket,
                tag,
                errno,
                value,
                address: Address::NONE,
            } if version >= SHORT_DONE_SINCE && value >> EDGE_BITS == 0 => {
                let word = u64::from(kind::SHORT_DONE) | u64::from(tag) << 32;
                let answer = u64::from(errno) | value << 16;
                return ([word, word1(socket), answer, 0, 0, 0, 0, 0], 3);
            }
            _ if !has_lengths => WORDS,
            Self::Done { .. } => 7,
            Self::More => 1,
        };
        (self.encode(), words)
    }

    /// As `stored`, of where a socket's edges are.
    #[inline]
    pub(crate) fn stored_edges(
        socket: super::SocketId,
        edges: &super::Edges,
        has_lengths: bool,
    ) -> (Message, usize) {
        let is_plain = edges.errno == 0 && edges.rcv_urgent == 0;
        if has_lengths && is_plain && edges.rcv_edge >> EDGE_BITS == 0 {
            let flags = u64::from(edges.flags.bits() as u8) << 8;
            let word = u64::from(kind::NEAR_EDGES_COMPLETION) | flags | edges.rcv_edge << 16;
            let socket = word1(socket);
            return ([word, socket, edges.snd_acked, 0, 0, 0, 0, 0], 3);
        }
        let words = if has_lengths { 6 } else { WORDS };
        (Self::edges_message(socket, edges), words)
    }

    /// Bytes that it takes in a ring whose descriptors have lengths.
    #[must_use]
    pub fn ring_bytes(&self) -> u32 {
        self.stored(ABI_VERSION as u16).1 as u32 * 8
    }
}

const _: () = assert!(WORDS * 8 == DESCRIPTOR_BYTES);

#[cfg(test)]
mod tests;
