//! The memory of a session, to be looked at from elsewhere: who counts what users have keeps a
//! [`MemoryOf`] of each.

use crate::transport::Arena;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

/// The memory of a session, as long as it is there.
#[derive(Debug, Clone)]
pub struct MemoryOf(Weak<Arena>);

impl MemoryOf {
    pub(super) fn of(arena: &Arc<Arena>) -> Self {
        Self(Arc::downgrade(arena))
    }

    /// Bytes of memory that it takes; `None` once nobody has it any more.
    #[must_use]
    pub fn in_use(&self) -> Option<u64> {
        let arena = self.0.upgrade()?;
        let stat = rustix::fs::fstat(arena.as_fd()).ok()?;
        Some(stat.st_blocks as u64 * 512)
    }

    /// Whether somebody still has it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.strong_count() != 0
    }
}

#[cfg(test)]
mod tests {
    use crate::adapter::session::small;

    #[test]
    #[cfg_attr(miri, ignore = "no memory is mapped twice there")]
    fn memory_counts_as_far_as_it_is_in_use_and_while_it_is_there() {
        let session = small();
        let memory = session.memory();
        let before = memory.in_use().unwrap();
        // The first chunk has taken some already.
        let place = session.arena.snd_place(1, 0, 1 << 16).unwrap();
        session.arena.memory().write(place, &[1; 1 << 16]);
        assert_eq!(memory.in_use(), Some(before + (1 << 16)));
        assert!(memory.is_there());
        drop(session);
        assert!(!memory.is_there() && memory.in_use().is_none());
    }
}
