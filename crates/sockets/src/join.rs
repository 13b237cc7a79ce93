//! How a process takes its place in a session: what it brings, and what of the arena and
//! of its own memory it begins with.
//!
//! `preload` joins when the program makes its first socket, so all of this is inside the
//! time that a short-lived program takes: nothing here is done that can wait.

use crate::fork_lock::ForkLock;
use crate::hooks::Hooks;
use crate::host::{Dispatch, Host, own_pid};
use crate::ready_sets::ReadySets;
use crate::sent_files::SentFiles;
use longshore_hostif::attach::{self, AttachError, Joined, Token};
use longshore_hostif::{Arena, ArenaError, Geometry, HostChannel, HostSession};
use longshore_ring::Doorbell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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

/// Atomics that are zero and take no memory until they are touched.
fn zeroed(count: usize) -> &'static [AtomicU64] {
    let words: &'static mut [u64] = vec![0u64; count].leak();
    // SAFETY: an `AtomicU64` is laid out as a `u64`; the memory lives for ever
    // and is reached through this slice alone.
    unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), count) }
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
        let channel = HostChannel::new(arena.clone(), joined.channel);
        // As the engine sees it.
        let pid = arena.control(joined.channel).pid.load(Ordering::Relaxed);
        let host = Self {
            hooks,
            doorbell: Doorbell::from_fd((hooks.keep)(joined.doorbell)),
            connection: (hooks.keep)(joined.connection),
            asks_by: joined.channel,
            engine: joined.engine,
            token: joined.token,
            dispatch: ForkLock::new(Dispatch::new(channel, sockets)),
            channel: AtomicU32::new(joined.channel),
            pid: AtomicU32::new(pid),
            has_other_pids: AtomicBool::new(pid != own_pid()),
            holds: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            next_waiter: AtomicU32::new(first_waiter(joined.channel, &joined.geometry)),
            uses: zeroed(sockets),
            marks: zeroed(sockets),
            unreported: ForkLock::new(Vec::new()),
            kept: ForkLock::default(),
            forwarded_to: AtomicU64::new(0),
            sent_files: SentFiles::new(),
            ready_sets: ForkLock::new(ReadySets::default()),
            query: ForkLock::new(()),
            unfinished: ForkLock::default(),
            gone: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            short: AtomicBool::new(false),
            was_short: AtomicBool::new(false),
            full: AtomicBool::new(false),
            session: HostSession::of(&arena),
            arena,
        };
        Ok(Box::leak(Box::new(host)))
    }
}
