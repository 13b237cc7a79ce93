//! One process's place in a session: its channel to the engine, what it keeps of sockets, and
//! whether the engine lives. `messages` has its requests and completions.
//!
//! Lock order: a socket's stream locks, the list of what is unreported, the dispatch,
//! the ready sets.

mod connection;
mod health;
mod held_sockets;
mod identity;
mod in_flight;
mod messages;

pub(crate) use connection::EngineConnection;
pub(crate) use health::{Health, Shortages};
pub(crate) use held_sockets::{ALONE, HeldSockets, INHERITED, KEEPS, LISTED, SUBSCRIBED, WATCHED};
pub(crate) use identity::Identity;
pub(crate) use in_flight::InFlight;
pub use messages::Messages;
pub(crate) use messages::{Answer, Dispatch, LockedChannel};

use crate::fork_lock::ForkLock;
use crate::given_back::GivenBack;
use crate::hooks::Hooks;
use crate::ready_sets::ReadySets;
use crate::sent_files::SentFiles;
use crate::unfinished::Unfinished;
use longshore_hostif::attach::{AttachError, Joined};
use longshore_hostif::{Arena, EdgeFlags, HostSession, Request, Routes, SocketBlock, SocketId};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process's place in a session. Lives until the process ends.
#[derive(Debug)]
pub struct Host {
    pub(crate) arena: Arc<Arena>,
    pub(crate) session: HostSession,
    pub(crate) hooks: Hooks,
    pub(crate) connection: EngineConnection,
    pub(crate) channel: LockedChannel,
    pub(crate) identity: Identity,
    /// Where a free waiter is looked for if none was given back.
    pub(crate) next_waiter: AtomicU32,
    pub(crate) given_back: GivenBack,
    pub(crate) held_sockets: HeldSockets,
    /// Sockets of which the engine was not told all that was consumed.
    pub(crate) unreported: ForkLock<Vec<SocketId>>,
    pub(crate) ready_sets: ForkLock<ReadySets>,
    /// Where what was read and is kept where it lies begins in each stream, by the indices of
    /// the sockets.
    pub(crate) kept: ForkLock<BTreeMap<u32, u64>>,
    pub(crate) in_flight: InFlight,
    /// Files that were sent and may be worth handing over.
    pub(crate) sent_files: SentFiles,
    /// One query at a time: there is one mailbox.
    pub(crate) query: ForkLock<()>,
    /// Datagrams that were begun and not ended (MSG_MORE, UDP_CORK).
    pub(crate) unfinished: ForkLock<Unfinished>,
    pub(crate) health: Health,
    pub(crate) shortages: Shortages,
}

impl Host {
    /// The destinations that are the engine's.
    pub fn routes(&self) -> &Routes {
        self.session.routes()
    }

    /// Whether the engine knows which of its interfaces a socket is bound to.
    pub fn distinguishes_interfaces(&self) -> bool {
        self.session.agreed().distinguishes_interfaces()
    }

    /// Whether the engine sends datagrams without a checksum that are to have none.
    pub fn sends_unsummed(&self) -> bool {
        self.session.agreed().sends_unsummed()
    }

    /// Whether a socket may be bound to an address without a port (IP_BIND_ADDRESS_NO_PORT).
    pub fn binds_addresses_alone(&self) -> bool {
        self.session.agreed().binds_addresses_alone()
    }

    /// Whether what is bound to the wildcard is the engine's alone, and not the kernel's, too.
    pub fn is_alone(&self) -> bool {
        self.session.is_alone()
    }

    /// The congestion control that new sockets begin with, by its place in
    /// [`CONGESTION_NAMES`](longshore_hostif::CONGESTION_NAMES).
    pub fn congestion(&self) -> u32 {
        self.session.congestion()
    }

    /// The connection to the engine: it is readable or hung up when the engine
    /// is gone.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// The file that is the memory shared with the engine.
    pub fn shared_file(&self) -> BorrowedFd<'_> {
        self.arena.as_fd()
    }

    /// Where in that file a piece of a stream lies ([`Keeping::take`](crate::Keeping::take)).
    pub fn offset_in_shared_file(&self, piece: &[u8]) -> u64 {
        self.arena.memory().offset_of(piece) as u64
    }

    /// The number of this process's channel.
    pub(crate) fn own_channel(&self) -> u32 {
        self.identity.channel()
    }

    /// The numbers of this process's rings at all workers of the engine.
    pub(crate) fn own_rings(&self) -> impl Iterator<Item = u32> {
        self.session.rings(self.own_channel())
    }

    pub(crate) fn ring_engine(&self) {
        self.channel.doorbell().ring();
    }

    // ---- the engine's health ----

    /// Whether the engine is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.health.is_gone() || self.session.is_closed()
    }

    /// Whether the engine is gone, and not this process alone without its place: another engine may
    /// come.
    pub fn has_lost_engine(&self) -> bool {
        self.is_gone() && (self.session.is_closed() || self.connection.has_hung_up())
    }

    /// The user of its engine, also of one that is gone: another that comes in its place is that
    /// user's, or root's.
    ///
    /// # Errors
    /// [`AttachError::Broken`].
    pub fn engine_user(&self) -> Result<u32, AttachError> {
        self.connection.engine_user()
    }

    /// Whether a place in a session is one in this session.
    pub fn is_of(&self, joined: &Joined) -> bool {
        let id = |memory: BorrowedFd<'_>| {
            let stat = rustix::fs::fstat(memory).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        let theirs = id(joined.arena.as_fd());
        theirs.is_some() && theirs == id(self.shared_file())
    }

    /// Whether it has no channel of its own: the one that it knows is its parent's.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.health.is_cut_off()
    }

    /// A child of a process whose engine is gone has no channel, and does nothing to its parent's.
    pub(crate) fn be_cut_off(&self) {
        self.health.set_cut_off();
    }

    /// A child without a channel fails from now on, and does nothing to its parent's.
    pub(crate) fn cut_off(&self, why: &str) {
        self.health.set_cut_off();
        self.fail_from_now(why);
    }

    /// Looks whether the engine lives, and says so to all who wait for it if it
    /// does not.
    pub fn look_at_engine(&self) {
        if self.health.is_gone() {
            return;
        }
        if self.connection.has_hung_up() {
            self.lose_engine();
        } else {
            self.observe_end();
        }
    }

    /// Says so to all who wait for the engine, if it has ended in order.
    pub(crate) fn observe_end(&self) {
        if self.session.is_closed() && !self.health.is_gone() {
            self.lose_engine();
        }
    }

    /// From now on all calls fail: the engine is gone.
    pub(crate) fn lose_engine(&self) {
        self.fail_from_now(
            "the engine is gone: this program's sockets fail from now on; start it again",
        );
    }

    /// From now on all calls fail, for this reason.
    pub(crate) fn fail_from_now(&self, why: &str) {
        if self.health.set_gone() {
            (self.hooks.log)(why);
        }
        if let Ok(mut ready_sets) = self.ready_sets.enter() {
            ready_sets.all_moved(&self.session);
        }
    }

    /// Notes that the session is short of send memory: a thread that waits for it
    /// looks again by itself.
    pub(crate) fn set_short(&self, short: bool) {
        if self.shortages.set_short(short) {
            (self.hooks.log)(
                "the session has no memory left for what it sends, and waits for some; use an \
                 engine with more (`session.send_mib` in its configuration, or `longshore run --send-memory`)",
            );
        }
    }

    /// Whether the session was short of send memory lately.
    pub fn is_short(&self) -> bool {
        self.shortages.is_short()
    }

    /// How far the engine is to be told that a stream was read: not beyond what is kept.
    #[inline]
    pub(crate) fn read_to_report(&self, block: &SocketBlock, id: SocketId) -> u64 {
        // What is kept is noted before it counts as read.
        let done = block.rcv.done.load(Ordering::Acquire);
        if self.held_sockets.keeps(id.index) {
            self.kept_from(id.index).map_or(done, |from| from.min(done))
        } else {
            done
        }
    }

    #[cold]
    pub(crate) fn kept_from(&self, index: u32) -> Option<u64> {
        self.kept.enter().ok()?.get(&index).copied()
    }

    /// A move of a socket's edges.
    pub(crate) fn edges(&self, block: &SocketBlock, socket: SocketId, flags: EdgeFlags) -> Request {
        Request::Edges {
            socket,
            snd_edge: block.snd.edge.load(Ordering::Acquire),
            rcv_consumed: self.read_to_report(block, socket),
            flags,
            immediate: 0,
        }
    }

    /// Chunks of the send slab that nobody has, found by taking them all.
    #[cfg(any(test, feature = "testing"))]
    pub fn count_free_chunks(&self) -> usize {
        let take = || self.arena.take_snd_chunk().ok().flatten();
        let all: Vec<u32> = std::iter::from_fn(take).collect();
        for chunk in all.iter().rev() {
            let _ = self.arena.give_snd_chunk(*chunk);
        }
        all.len()
    }
}

pub(crate) fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

#[cfg(test)]
mod tests;
