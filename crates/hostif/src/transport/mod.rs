//! How the interface is carried: shared memory, in place.
//!
//! What it owns: the memory that both halves map ([`Arena`]) and the handshake over a Unix
//! socket by which a program gets it ([`attach`]). Both halves stand on it; whatever is to
//! carry the interface in another way stands beside it.

mod arena;
#[cfg_attr(not(test), deny(clippy::indexing_slicing))]
pub mod attach;
#[cfg(test)]
mod tests;

pub use arena::{Arena, ArenaError, Directory, Meeting, ReleaseError};

use longshore_ring::Corrupt;
use longshore_ring::spsc::Full;

/// Why a descriptor was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The ring is full: the other side has to catch up first.
    #[error("the descriptor ring is full")]
    Full,
    /// The other side broke the ring.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The socket's name says that a worker has it which the engine does not have.
    #[error("the engine has no worker {0}")]
    NoWorker(u32),
}

#[inline]
pub(crate) fn staged<T>(result: Result<Result<T, Full>, Corrupt>) -> Result<T, PutError> {
    result?.map_err(|Full| PutError::Full)
}
