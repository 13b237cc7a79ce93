//! How a process takes its place in a session: what it brings, and what of the arena and
//! of its own memory it begins with.
//!
//! `preload` joins when the program makes its first socket, so all of this is inside the
//! time that a short-lived program takes: nothing here is done that can wait.

use crate::fork_lock::ForkLock;
use crate::given_back::GivenBack;
use crate::hooks::Hooks;
use crate::host::{
    EngineConnection, Health, HeldSockets, Host, Identity, InFlight, LockedChannel, Shortages,
};
use crate::ready_sets::ReadySets;
use crate::sent_files::SentFiles;
use longshore_hostif::attach::{self, AttachError, Joined, Token};
use longshore_hostif::{Arena, ArenaError, Geometry, HostSession};
use longshore_ring::Doorbell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Why a process could not join its session.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The engine.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The memory that it gave.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// Where a process begins to look for a free waiter: each at another place, and the
/// first process of a session at the first, of which the engine has taken the memory.
fn first_waiter(channel: u32, g: &Geometry) -> u32 {
    let each = (g.waiters / g.channels).max(1);
    channel * each % g.waiters
}

impl Host {
    /// Joins the session `token` of the engine at `path`.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(path: &Path, token: Token, hooks: Hooks) -> Result<&'static Self, JoinError> {
        Self::new(attach::join(path, token)?, hooks)
    }

    /// Takes the place that the engine gave.
    ///
    /// # Errors
    /// [`JoinError::Arena`] if the memory is not an arena of our version.
    pub fn new(joined: Joined, hooks: Hooks) -> Result<&'static Self, JoinError> {
        let arena = Arc::new(Arena::open((hooks.keep)(joined.arena), joined.geometry)?);
        let sockets = joined.geometry.sockets as usize;
        let further = joined.further_doorbells.into_iter().map(hooks.keep);
        let session = HostSession::with_doorbells(&arena, further.map(Doorbell::from_fd).collect());
        let channel = session.channel(joined.channel);
        // As the engine sees it.
        let pid = arena.control(joined.channel).pid.load(Ordering::Relaxed);
        let doorbell = Doorbell::from_fd((hooks.keep)(joined.doorbell));
        let host = Self {
            hooks,
            connection: EngineConnection::new(
                (hooks.keep)(joined.connection),
                joined.channel,
                joined.engine,
                joined.token,
            ),
            channel: LockedChannel::new(channel, doorbell, sockets),
            identity: Identity::new(joined.channel, pid),
            next_waiter: AtomicU32::new(first_waiter(joined.channel, &joined.geometry)),
            given_back: GivenBack::new(joined.geometry.waiters),
            held_sockets: HeldSockets::new(sockets),
            unreported: ForkLock::new(Vec::new()),
            kept: ForkLock::default(),
            in_flight: InFlight::new(),
            sent_files: SentFiles::new(),
            ready_sets: ForkLock::new(ReadySets::default()),
            query: ForkLock::new(()),
            unfinished: ForkLock::default(),
            health: Health::default(),
            shortages: Shortages::default(),
            session,
            arena,
        };
        Ok(Box::leak(Box::new(host)))
    }
}

#[cfg(test)]
mod tests;
