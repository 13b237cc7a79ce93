//! One end of a connection between two of our own sockets: its state, and what it says.
//!
//! Owns [`Pair`]; `pair` moves bytes between two of them.

use crate::demux::Flow;
use crate::told::Told;
use longshore_hostif::EdgeFlags;
use longshore_hostif::NONE;
use longshore_hostif::adapter::ReceiveStream;
use longshore_tcp::Instant;
use std::net::SocketAddr;

/// Bytes moved in one piece.
pub(crate) const PIECE: u64 = 64 * 1024;
/// Pieces moved in one turn for one end.
pub(crate) const PIECES_A_TURN: usize = 4;

/// How long a corked end holds back less than a full piece, in microseconds, as
/// Linux does.
const HOLD_US: u64 = 200_000;

/// The errno of an end that was reset, and of one that was after it had seen the end of the
/// other's stream, as Linux has them.
pub(crate) const RESET: u16 = 104;
const BROKEN_PIPE: u16 = 32;

/// One end.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The other end's key; [`NONE`] once it is gone.
    pub(crate) other: u32,
    pub(crate) remote: SocketAddr,
    /// Its place in the table of connections, if it has one: an end that is refused at once has
    /// none.
    pub(crate) flow: Option<Flow>,
    pub(crate) rcv: ReceiveStream,
    /// The listener in whose queue it waits.
    pub(crate) listener: Option<u32>,
    /// Not yet let in by the listener.
    pub(crate) connecting: bool,
    pub(crate) snd_edge: u64,
    /// What of the send stream the other end has.
    pub(crate) snd_moved: u64,
    /// What of it is done with: its chunks are the host's. What is lent is, once it was read.
    pub(crate) snd_done: u64,
    /// What it receives lies from here on in the other end's send chunks, up to `rcv_edge`;
    /// [`u64::MAX`] if nothing does.
    pub(crate) lent_from: u64,
    /// Of that, it has chunks of its own with what lies before this.
    pub(crate) kept_to: u64,
    pub(crate) rcv_edge: u64,
    pub(crate) rcv_consumed: u64,
    /// What follows the last urgent byte written, and received; 0 if there was none.
    pub(crate) snd_urgent: u64,
    pub(crate) rcv_urgent: u64,
    /// This end's host has not been told of `rcv_urgent`.
    pub(crate) urgent_is_unreported: bool,
    /// This end has said that it sends no more.
    pub(crate) shut: bool,
    /// The other end has, and all it sent is here.
    pub(crate) peer_fin: bool,
    /// This end's host has shut its receiving half down.
    pub(crate) shut_reading: bool,
    /// It is to hear when the other end has all that was sent (SO_LINGER).
    pub(crate) lingers: bool,
    /// The last write said that more follows at once (MSG_MORE).
    pub(crate) more_follows: bool,
    /// TCP_CORK.
    pub(crate) corked: bool,
    /// When what is held back for those two goes all the same.
    pub(crate) hold_until: Option<Instant>,
    /// It is connected, and its listener is not told before there is something to
    /// read (TCP_DEFER_ACCEPT), or before this time.
    pub(crate) deferred_until: Option<Instant>,
    /// It has been: its host may have written ranges of files, as it was not told that its
    /// other end is a socket of the same engine.
    pub(crate) was_deferred: bool,
    /// The other end's session had no memory for what is to be moved, or its sender's pace
    /// (SO_MAX_PACING_RATE) has it wait: when to try again.
    pub(crate) again_at: Option<Instant>,
    /// By that pace, what comes next may go from then on.
    pub(crate) paced_until: Instant,
    /// No process holds it, and the other end does not read: when it waits no longer.
    pub(crate) given_up_at: Option<Instant>,
    /// Why it is dead, an errno.
    pub(crate) dead: Option<u16>,
    pub(crate) told: Told,
    /// When the host's chunks are taken back.
    pub(crate) tell_by: Instant,
}

impl Pair {
    /// Whether there was another end, and it is gone.
    pub(crate) fn has_lost_other(&self) -> bool {
        self.other == NONE && !self.connecting && self.deferred_until.is_none()
    }

    pub(crate) fn new(other: u32, remote: SocketAddr) -> Self {
        Self {
            other,
            remote,
            flow: None,
            rcv: ReceiveStream::EMPTY,
            listener: None,
            connecting: false,
            snd_edge: 0,
            snd_moved: 0,
            snd_done: 0,
            lent_from: u64::MAX,
            kept_to: 0,
            rcv_edge: 0,
            rcv_consumed: 0,
            snd_urgent: 0,
            rcv_urgent: 0,
            urgent_is_unreported: false,
            shut: false,
            peer_fin: false,
            shut_reading: false,
            lingers: false,
            more_follows: false,
            corked: false,
            hold_until: None,
            deferred_until: None,
            was_deferred: false,
            again_at: None,
            given_up_at: None,
            paced_until: Instant(0),
            dead: None,
            told: Told::default(),
            tell_by: Instant::NEVER,
        }
    }

    /// TCP_CORK was set, or taken out.
    pub(crate) fn release_hold(&mut self, corked: bool) {
        self.corked = corked;
        if !corked {
            self.hold_until = None;
            self.more_follows = false;
        }
    }

    /// Whether what there is to send waits for more: less than a full piece, by
    /// TCP_CORK or MSG_MORE, for [`HOLD_US`] at most. Urgent data waits for nothing.
    pub(crate) fn holds_back(&mut self, now: Instant) -> bool {
        let little = self.snd_edge - self.snd_moved < PIECE && !self.shut && !self.is_urgent();
        if !(little && (self.corked || self.more_follows)) {
            self.hold_until = None;
            return false;
        }
        now < *self.hold_until.get_or_insert(now.after_us(HOLD_US))
    }

    /// When it is to be looked at even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let quiet = (!self.tell_by.is_never()).then_some(self.tell_by);
        let any = [
            self.hold_until,
            self.deferred_until,
            self.again_at,
            self.given_up_at,
            quiet,
        ];
        any.into_iter().flatten().min()
    }

    /// Whether nothing that comes can be read any more, as both halves are shut down: it is
    /// answered by a reset.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut && self.shut_reading
    }

    /// The other end has reset the connection.
    pub(crate) fn reset(&mut self) {
        let errno = if self.peer_fin { BROKEN_PIPE } else { RESET };
        self.dead.get_or_insert(errno);
    }

    /// The flags that its host should see.
    pub(crate) fn flags(&self) -> EdgeFlags {
        let mut flags = EdgeFlags::empty();
        flags.set(EdgeFlags::CONNECTED, !self.connecting);
        flags.set(EdgeFlags::PEER_FIN, self.peer_fin);
        flags.set(
            EdgeFlags::FIN_ACKED,
            self.lingers && self.snd_moved == self.snd_edge,
        );
        flags.set(EdgeFlags::DEAD, self.dead.is_some());
        flags
    }
}

impl Pair {
    /// The last byte written before `edge` is urgent.
    pub(crate) fn set_snd_urgent(&mut self, edge: u64) {
        self.snd_urgent = self.snd_urgent.max(edge.min(self.snd_edge));
    }

    /// Whether there is urgent data that the other end has not got.
    pub(crate) fn is_urgent(&self) -> bool {
        self.snd_urgent > self.snd_moved
    }
}
