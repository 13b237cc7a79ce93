//! The files that this process has sent: `stream` asks before it hands one to the engine.

use longshore_hostif::FileId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that a process remembers to have sent.
const REMEMBERED: usize = 64;

/// Files that this process has sent: one that is sent for the first time is not worth handing
/// over, and one that the engine does not take is not offered again soon.
#[derive(Debug)]
pub(crate) struct SentFiles([AtomicU64; REMEMBERED]);

/// Set in what is remembered of a file that was offered.
const OFFERED: u64 = 1;

impl SentFiles {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; REMEMBERED])
    }

    /// What is remembered in the place of a file, and what it is if it was this one.
    fn place_of(&self, id: FileId) -> (&AtomicU64, u64) {
        let name = (id.inode ^ id.device.rotate_left(32)) << 1;
        (&self.0[(id.inode % REMEMBERED as u64) as usize], name)
    }

    /// The engine has taken a file. It is offered again once it has let go of it.
    pub(crate) fn note_taken(&self, id: FileId) {
        let (remembered, name) = self.place_of(id);
        remembered.store(name, Ordering::Relaxed);
    }

    /// Whether a file was sent before, and not offered yet; it is now.
    pub(crate) fn is_to_be_offered(&self, id: FileId) -> bool {
        let (remembered, name) = self.place_of(id);
        let seen = remembered.load(Ordering::Relaxed);
        let is_known = seen & !OFFERED == name;
        remembered.store(
            if is_known { name | OFFERED } else { name },
            Ordering::Relaxed,
        );
        is_known && seen & OFFERED == 0
    }
}

#[cfg(test)]
mod tests;
