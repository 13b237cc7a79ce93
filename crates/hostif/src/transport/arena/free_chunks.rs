//! Chunks that no stream has: the lists of those of the send slab, apart by whether they take
//! memory already, and giving their memory back to the system.
//!
//! Called by `sockets` for what is to be sent, and by the adapter's maintenance.

use super::Arena;
use crate::abi::{CHUNK, chunk_of};
use longshore_ring::Corrupt;
use rustix::io::Errno;
use std::sync::atomic::AtomicU32;

/// Why the memory of a free chunk could not be given back.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The list of them is broken.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The kernel refused.
    #[error("the kernel takes no memory back: {0}")]
    Kernel(#[from] Errno),
}

impl Arena {
    /// Takes a free chunk of the send slab, one that takes memory already if there is one.
    ///
    /// # Errors
    /// [`Corrupt`] if a list of them is broken.
    pub fn take_snd_chunk(&self) -> Result<Option<u32>, Corrupt> {
        let header = self.header();
        match header.warm_snd_chunks.pop(self.snd_links())? {
            Some(chunk) => Ok(Some(chunk)),
            None => header.cold_snd_chunks.pop(self.snd_links()),
        }
    }

    /// Gives the chunk of the send slab back that an entry of a directory names.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no such chunk.
    pub fn give_snd_chunk(&self, entry: u32) -> Result<(), Corrupt> {
        let chunk = chunk_of(entry);
        self.header().warm_snd_chunks.push(self.snd_links(), chunk)
    }

    /// Whether a free chunk of the send slab takes memory.
    pub fn has_warm_snd_chunk(&self) -> bool {
        !self.header().warm_snd_chunks.is_empty()
    }

    /// Free chunks of the send slab that take memory, and that take none.
    pub fn free_snd_chunks(&self) -> (u32, u32) {
        let (header, links) = (self.header(), self.snd_links());
        (
            header.warm_snd_chunks.count(links),
            header.cold_snd_chunks.count(links),
        )
    }

    /// Free chunks of the send slab that take memory, `most` if there are more.
    pub fn warm_snd_chunks(&self, most: u32) -> u32 {
        let list = &self.header().warm_snd_chunks;
        list.count_up_to(self.snd_links(), most)
    }

    /// Gives the memory of a free chunk of the send slab back to the system; the engine does
    /// this. Says whether there was one that took some.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub fn cool_snd_chunk(&self) -> Result<bool, ReleaseError> {
        let header = self.header();
        let Some(chunk) = header.warm_snd_chunks.pop(self.snd_links())? else {
            return Ok(false);
        };
        let released = match self.snd_place(chunk, 0, CHUNK) {
            Some(place) => self.memory.release(place, CHUNK).map_err(Into::into),
            None => Ok(()),
        };
        let list = match released {
            Ok(()) => &header.cold_snd_chunks,
            Err(_) => &header.warm_snd_chunks,
        };
        list.push(self.snd_links(), chunk)?;
        released.map(|()| true)
    }

    /// Gives the memory of a chunk of the receive slab that nobody has back to the system.
    ///
    /// # Errors
    /// The kernel's.
    pub fn cool_rcv_chunk(&self, chunk: u32) -> Result<(), Errno> {
        match self.rcv_place(chunk, 0, CHUNK) {
            Some(place) => self.memory.release(place, CHUNK),
            None => Ok(()),
        }
    }

    /// The links of the stacks of free send chunks.
    fn snd_links(&self) -> &[AtomicU32] {
        self.memory
            .array(self.at.snd_links, self.geometry.snd_chunks as usize)
    }
}
