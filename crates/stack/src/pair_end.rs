//! One end of a connection between two of our own sockets: its state, and what it says.
//!
//! Owns [`Pair`] and its parts; `pair` moves bytes between two of them.

mod cork;
mod receive_half;
mod send_half;
mod waits;

use crate::demux::Flow;
use crate::reported::Reported;
use cork::Cork;
use longshore_hostif::EdgeFlags;
use longshore_hostif::NONE;
use longshore_tcp::Instant;
pub(crate) use receive_half::ReceiveHalf;
use send_half::SendHalf;
use std::net::SocketAddr;
use waits::{Deferral, Waits};

/// Bytes moved in one piece.
pub(crate) const PIECE: u64 = 64 * 1024;
/// Pieces moved in one turn for one end.
pub(crate) const PIECES_A_TURN: usize = 4;

/// The errno of an end that was reset, and of one that was after it had seen the end of the
/// other's stream, as Linux has them.
pub(crate) const RESET: u16 = 104;
pub(crate) const BROKEN_PIPE: u16 = 32;

/// One end.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The other end's key; [`NONE`] once it is gone.
    pub(crate) other: u32,
    pub(crate) remote: SocketAddr,
    /// Its place in the table of connections, if it has one: an end that is refused at once has
    /// none.
    pub(crate) flow: Option<Flow>,
    /// The listener in whose queue it waits.
    pub(crate) listener: Option<u32>,
    /// Which one its record is in the stream of the listener, modulo 2^32, once it has one.
    pub(crate) record: u32,
    /// The listener has not let it in yet.
    pub(crate) connecting: bool,
    /// Bytes that it may hold unread, once both ends are there.
    pub(crate) room_in_all: u32,
    /// Why it is dead, an errno.
    pub(crate) dead: Option<u16>,
    pub(crate) snd: SendHalf,
    pub(crate) rcv: ReceiveHalf,
    pub(crate) cork: Cork,
    pub(crate) deferral: Deferral,
    pub(crate) waits: Waits,
    pub(crate) reported: Reported,
}

impl Pair {
    /// An end at `remote`'s other end, whose key is `other`, with TCP_CORK as `corked` says.
    pub(crate) fn new(other: u32, remote: SocketAddr, corked: bool) -> Self {
        Self {
            other,
            remote,
            flow: None,
            listener: None,
            record: 0,
            connecting: false,
            room_in_all: longshore_hostif::RECEIVE_BUFFER,
            dead: None,
            snd: SendHalf::default(),
            rcv: ReceiveHalf::EMPTY,
            cork: Cork::new(corked),
            deferral: Deferral::default(),
            waits: Waits::NONE,
            reported: Reported::default(),
        }
    }

    /// Whether there was another end, and it is gone.
    pub(crate) fn has_lost_other(&self) -> bool {
        self.other == NONE && !self.connecting && !self.deferral.is_under_way()
    }

    /// Whether nothing comes or goes any more: it was reset, or both ends have said that they send
    /// no more, and have got all that the other did.
    pub(crate) fn is_over(&self) -> bool {
        let has_sent_all = self.snd.is_shut() && self.snd.unmoved() == 0;
        self.dead.is_some() || (self.rcv.has_fin() && has_sent_all)
    }

    /// Whether what there is to send waits for more: less than a full piece, by
    /// TCP_CORK or MSG_MORE. Urgent data waits for nothing.
    pub(crate) fn holds_back(&mut self, now: Instant) -> bool {
        let snd = &self.snd;
        let little = snd.unmoved() < PIECE && !snd.is_shut() && !snd.is_urgent();
        self.cork.holds_back(little, now)
    }

    /// When it is to be looked at even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let others = [self.cork.deadline(), self.deferral.deadline()];
        self.waits.deadline(others)
    }

    /// Whether nothing that comes can be read any more, as both halves are shut down: it is
    /// answered by a reset.
    pub(crate) fn is_shut(&self) -> bool {
        self.snd.is_shut() && self.rcv.is_shut()
    }

    /// The other end has reset the connection.
    pub(crate) fn reset(&mut self) {
        let errno = if self.rcv.has_fin() {
            BROKEN_PIPE
        } else {
            RESET
        };
        self.dead.get_or_insert(errno);
    }

    /// Ends an attempt to connect; whether there was one.
    pub(crate) fn cancel_connecting(&mut self) -> bool {
        let opening = self.connecting && self.dead.is_none();
        if opening {
            self.dead = Some(longshore_tcp::Error::Cancelled.errno());
            self.listener = None;
        }
        opening
    }

    /// The flags that its host should see.
    pub(crate) fn flags(&self) -> EdgeFlags {
        let mut flags = EdgeFlags::empty();
        flags.set(EdgeFlags::CONNECTED, !self.connecting);
        flags.set(EdgeFlags::PEER_FIN, self.rcv.has_fin());
        flags.set(EdgeFlags::FIN_ACKED, self.snd.is_lingering_over());
        flags.set(EdgeFlags::DEAD, self.dead.is_some());
        flags
    }
}
