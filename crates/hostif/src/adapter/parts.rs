//! The parts of a session that are borrowed for as long as something is done with them: each is
//! a type of its own, which has no more of the session than it needs.

use super::AdapterSession;
use super::blocks::Blocks;
use super::header::SessionHeader;
use super::owners::Owners;
use super::send_slab::SendSlab;

impl AdapterSession {
    /// The blocks of its sockets.
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks {
            arena: &self.arena,
            worker: self.worker,
            meter: &self.meter,
        }
    }

    /// What all its programs read.
    #[inline]
    #[must_use]
    pub fn header(&self) -> SessionHeader<'_> {
        SessionHeader {
            arena: &self.arena,
            meter: &self.meter,
        }
    }

    /// The memory for what its programs write.
    #[inline]
    #[must_use]
    pub fn send_slab(&self) -> SendSlab<'_> {
        SendSlab {
            blocks: self.blocks(),
        }
    }

    /// Who is signalled for its sockets.
    #[inline]
    pub fn owners(&mut self) -> Owners<'_> {
        Owners {
            table: &mut self.owners,
            arena: &self.arena,
            meter: &self.meter,
        }
    }
}
