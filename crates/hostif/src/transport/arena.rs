//! A session's shared memory, by its parts.
//!
//! Owns [`Arena`], which both halves of the shared-memory transport map, and the chunk
//! directories of streams. `free_chunks.rs` has the lists of chunks that no stream has.

mod free_chunks;
mod meeting;

pub use free_chunks::ReleaseError;
pub use meeting::Meeting;

use crate::abi::{
    Agreed, CHUNK, ChannelControl, DATA_AT, DIRECTORY, DIRECTORY_GROUP, Features, FileRange,
    Geometry, Header, MAGIC, MOST_CHUNKS, Naming, Offsets, RANGE_BYTES, RING, SocketBlock,
    Versions, chunk_of, first_range, lent_chunk,
};
use longshore_ring::spsc::Slot;
use longshore_ring::{SharedArray, SharedMemory, ShmError, Waiter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why an arena could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The shared memory itself.
    #[error(transparent)]
    Memory(#[from] ShmError),
    /// Counts outside what the layout can hold.
    #[error("arena geometry {0:?} is out of range")]
    Geometry(Geometry),
    /// Where the engine has so many workers, what was agreed has to be otherwise.
    #[error("a session of {workers} workers cannot have {features:?}")]
    Workers {
        /// How many.
        workers: u32,
        /// What was agreed.
        features: Features,
    },
    /// The session has a version of the interface that this release does not speak.
    #[error(
        "the session's interface has version {theirs}, this program's {ours}; use one release for both"
    )]
    Version {
        /// The version found.
        theirs: u32,
        /// The newest of ours.
        ours: u16,
    },
}

/// What a program has written where a range of a file is to be is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadRange;

/// A socket's chunk directory: which chunk has which part of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Directory<'a> {
    memory: &'a SharedMemory,
    /// Where its first group of entries lies, and how far from there the next.
    first: usize,
    stride: usize,
}

impl<'a> Directory<'a> {
    /// The entry for chunk `number` of the stream, which has the bytes from `number *
    /// CHUNK` on; [`DIRECTORY`] chunks later it is another's.
    #[inline]
    pub fn entry(&self, number: u64) -> &'a AtomicU32 {
        let at = number as usize % DIRECTORY;
        let (group, within) = (at / DIRECTORY_GROUP, at % DIRECTORY_GROUP);
        let start = self.first + group * self.stride;
        self.memory.at(start + within * size_of::<AtomicU32>())
    }
}

/// A mapped arena. Accessors take indices that the caller has checked; one that
/// is out of range panics where the name does not say `get`.
#[derive(Debug)]
pub struct Arena {
    memory: SharedMemory,
    geometry: Geometry,
    agreed: Agreed,
    naming: Naming,
    /// Rings in each direction.
    rings: u32,
    at: Offsets,
    parts: Parts,
}

/// The parts that are touched for each descriptor.
#[derive(Debug)]
struct Parts {
    header: SharedArray<Header>,
    controls: SharedArray<ChannelControl>,
    blocks: SharedArray<SocketBlock>,
}

impl Parts {
    fn of(memory: &SharedMemory, geometry: &Geometry, at: &Offsets) -> Self {
        let (rings, sockets) = (geometry.rings() as usize, geometry.sockets as usize);
        Self {
            header: memory.keep(0, 1),
            controls: memory.keep(at.controls, rings),
            blocks: memory.keep(at.blocks, sockets),
        }
    }
}

/// Whether a session of these workers can have what was agreed.
fn check_workers(geometry: &Geometry, agreed: &Agreed) -> Result<(), ArenaError> {
    let (workers, features) = (geometry.workers, agreed.features);
    if agreed.can_have_workers(workers) {
        return Ok(());
    }
    Err(ArenaError::Workers { workers, features })
}

impl Arena {
    /// Makes a new arena, for programs of this release. The engine does this.
    ///
    /// # Errors
    /// [`ArenaError`], if the geometry is bad or the kernel refuses.
    pub fn create(geometry: Geometry) -> Result<Self, ArenaError> {
        Self::create_for(geometry, Agreed::OURS)
    }

    /// As `create`, for programs that speak what was `agreed`.
    ///
    /// # Errors
    /// As [`Arena::create`].
    pub fn create_for(geometry: Geometry, agreed: Agreed) -> Result<Self, ArenaError> {
        if !geometry.is_valid() {
            return Err(ArenaError::Geometry(geometry));
        }
        check_workers(&geometry, &agreed)?;
        let at = Offsets::of(&geometry);
        let memory = SharedMemory::create("longshore", at.end)?;
        let arena = Self {
            parts: Parts::of(&memory, &geometry, &at),
            memory,
            geometry,
            agreed,
            naming: Naming::of(agreed.features),
            rings: geometry.rings(),
            at,
        };
        let header = arena.header();
        header.free_sockets.fill(geometry.sockets);
        header.warm_snd_chunks.fill(0);
        header.cold_snd_chunks.fill(geometry.snd_chunks);
        let features = u32::from(agreed.features.bits());
        header.features.store(features, Ordering::Relaxed);
        header
            .version
            .store(agreed.version.into(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        arena.get_ready();
        Ok(arena)
    }

    /// Takes memory for what the first socket of the first process needs, so that neither
    /// side has to while it is waited for.
    fn get_ready(&self) {
        for part in self.at.parts() {
            self.memory.populate(part);
        }
    }

    /// Maps the arena that the engine gave. The program does this.
    ///
    /// # Errors
    /// [`ArenaError`], if it is not one of a version that this release speaks.
    pub fn open(fd: OwnedFd, geometry: Geometry) -> Result<Self, ArenaError> {
        if !geometry.is_valid() {
            return Err(ArenaError::Geometry(geometry));
        }
        let at = Offsets::of(&geometry);
        let memory = SharedMemory::open(fd, at.end)?;
        let mut arena = Self {
            parts: Parts::of(&memory, &geometry, &at),
            memory,
            geometry,
            agreed: Agreed::OURS,
            naming: Naming::of(Agreed::OURS.features),
            rings: geometry.rings(),
            at,
        };
        let header = arena.header();
        let is_one = header.magic.load(Ordering::Acquire) == MAGIC;
        let version = header.version.load(Ordering::Relaxed);
        let features = header.features.load(Ordering::Relaxed);
        arena.agreed = Agreed {
            version: version.try_into().unwrap_or(0),
            features: Features::from_bits_retain(features as u16),
        };
        arena.naming = Naming::of(arena.agreed.features);
        if is_one && Versions::OURS.include(&arena.agreed) {
            check_workers(&geometry, &arena.agreed)?;
            return Ok(arena);
        }
        Err(ArenaError::Version {
            theirs: version,
            ours: Versions::OURS.newest,
        })
    }

    /// What both sides speak.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// How its sockets are named.
    #[inline]
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// How many of each thing it has.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its first page.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.parts.header[0]
    }

    /// A channel's control block; or, by the number of its rings at another worker than the
    /// first, what there is of it at that one.
    #[inline]
    pub fn control(&self, ring: u32) -> &ChannelControl {
        &self.parts.controls[ring as usize]
    }

    /// Empties a channel's rings at all workers, for a new process that has yet to settle. Only
    /// while nobody uses them.
    pub fn reset_channel(&self, channel: u32) {
        assert!(channel < self.geometry.channels);
        for worker in 0..self.geometry.workers {
            self.control(self.geometry.ring(channel, worker)).reset();
        }
    }

    /// A channel's bitmap of the sockets its process holds.
    pub fn held(&self, channel: u32) -> &[AtomicU64] {
        assert!(channel < self.geometry.channels);
        let words = self.geometry.sockets as usize / 64;
        self.memory
            .array(self.at.held + channel as usize * words * 8, words)
    }

    /// Whether the process of `channel` holds socket `index`.
    pub fn holds(&self, channel: u32, index: u32) -> bool {
        let word = self.held(channel)[index as usize / 64].load(Ordering::Acquire);
        word & 1 << (index % 64) != 0
    }

    /// Sets or clears that; says whether it was so before.
    pub fn set_held(&self, channel: u32, index: u32, held: bool) -> bool {
        let (word, bit) = (
            &self.held(channel)[index as usize / 64],
            1u64 << (index % 64),
        );
        let before = if held {
            word.fetch_or(bit, Ordering::AcqRel)
        } else {
            word.fetch_and(!bit, Ordering::AcqRel)
        };
        before & bit != 0
    }

    /// The slots of a request ring: of a channel, at the first worker.
    #[inline]
    pub(crate) fn request_slots(&self, ring: u32) -> &[Slot] {
        assert!(ring < self.rings);
        self.memory.array(
            self.at.request_slots + ring as usize * RING * size_of::<Slot>(),
            RING,
        )
    }

    /// Where in the memory the `len` bytes of immediate data lie that begin `at` bytes behind the
    /// beginning of slot `own` of a channel's request ring: what is beyond its end is at its
    /// beginning.
    #[inline]
    pub(crate) fn immediate_places(
        &self,
        ring: u32,
        own: usize,
        at: usize,
        len: usize,
    ) -> [(usize, usize); 2] {
        let begin = own * size_of::<Slot>() + at;
        self.places_in_ring(self.at.request_slots, ring, begin, len)
    }

    /// As `immediate_places`, of the `len` bytes of payload of the completion in slot `own` of a
    /// channel's completion ring.
    #[inline]
    pub(crate) fn data_places(&self, ring: u32, own: usize, len: usize) -> [(usize, usize); 2] {
        let begin = own * size_of::<Slot>() + DATA_AT;
        self.places_in_ring(self.at.completion_slots, ring, begin, len)
    }

    /// Where `len` bytes at `begin` of a channel's ring lie, of those from `rings` on.
    #[inline]
    fn places_in_ring(
        &self,
        rings: usize,
        ring: u32,
        begin: usize,
        len: usize,
    ) -> [(usize, usize); 2] {
        const BYTES: usize = RING * size_of::<Slot>();
        assert!(ring < self.rings && len <= BYTES);
        let ring = rings + ring as usize * BYTES;
        let begin = begin % BYTES;
        let first = len.min(BYTES - begin);
        [(ring + begin, first), (ring, len - first)]
    }

    /// The slots of a completion ring: of a channel, at the first worker.
    #[inline]
    pub(crate) fn completion_slots(&self, ring: u32) -> &[Slot] {
        assert!(ring < self.rings);
        self.memory.array(
            self.at.completion_slots + ring as usize * RING * size_of::<Slot>(),
            RING,
        )
    }

    /// All waiters.
    pub fn waiters(&self) -> &[Waiter] {
        self.memory
            .array(self.at.waiters, self.geometry.waiters as usize)
    }

    /// Those of them that may have been claimed.
    pub fn claimed_waiters(&self) -> &[Waiter] {
        let end = self.header().waiters_end.load(Ordering::Acquire) as usize;
        let all = self.waiters();
        &all[..end.min(all.len())]
    }

    /// A socket's block, if there is one of this index.
    #[inline]
    pub fn get_block(&self, index: u32) -> Option<&SocketBlock> {
        self.parts.blocks.get(index as usize)
    }

    /// A socket's block.
    #[inline]
    pub fn block(&self, index: u32) -> &SocketBlock {
        self.get_block(index).expect("checked socket index")
    }

    /// The links of the stack of free sockets.
    pub fn socket_links(&self) -> &[AtomicU32] {
        self.memory
            .array(self.at.socket_links, self.geometry.sockets as usize)
    }

    /// Whether programs may hand files over.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        self.agreed.features.contains(Features::FILES) && self.geometry.snd_chunks <= MOST_CHUNKS
    }

    /// The ranges of files in the chunk that an entry of a send directory names, in order; an
    /// error, the last, where there is none that can be.
    pub(crate) fn file_ranges(
        &self,
        entry: u32,
    ) -> impl Iterator<Item = Result<FileRange, BadRange>> {
        let mut place = first_range(entry);
        let mut end = 0;
        std::iter::from_fn(move || {
            let at = place.take()?;
            let mut bytes = [0; RANGE_BYTES];
            let Some(found) = self.snd_place(chunk_of(entry), at, RANGE_BYTES) else {
                return Some(Err(BadRange));
            };
            self.memory.read(found, &mut bytes);
            let range = FileRange::decode(&bytes);
            if !range.can_be(at, end) {
                return Some(Err(BadRange));
            }
            end = range.to as usize;
            place = (range.next != 0).then_some(range.next as usize);
            Some(Ok(range))
        })
    }

    /// The chunk directory of a socket's send stream.
    #[inline]
    pub fn snd_directory(&self, socket: u32) -> Directory<'_> {
        self.directory(self.at.snd_directories, socket)
    }

    /// The chunk directory of a socket's receive stream.
    #[inline]
    pub fn rcv_directory(&self, socket: u32) -> Directory<'_> {
        self.directory(self.at.rcv_directories, socket)
    }

    #[inline]
    fn directory(&self, all: usize, socket: u32) -> Directory<'_> {
        assert!(socket < self.geometry.sockets);
        let group = DIRECTORY_GROUP * size_of::<AtomicU32>();
        Directory {
            memory: &self.memory,
            first: all + socket as usize * group,
            stride: self.geometry.sockets as usize * group,
        }
    }

    /// Where in the memory `len` bytes at `at` in chunk `chunk` of the send
    /// slab lie, if that is inside the chunk.
    #[inline]
    pub fn snd_place(&self, chunk: u32, at: usize, len: usize) -> Option<usize> {
        (chunk < self.geometry.snd_chunks && at <= CHUNK && len <= CHUNK - at)
            .then(|| self.at.snd_slab + chunk as usize * CHUNK + at)
    }

    /// As `snd_place`, for the receive slab.
    #[inline]
    pub fn rcv_place(&self, chunk: u32, at: usize, len: usize) -> Option<usize> {
        (chunk < self.geometry.rcv_chunks && at <= CHUNK && len <= CHUNK - at)
            .then(|| self.at.rcv_slab + chunk as usize * CHUNK + at)
    }

    /// Whether payload may cross with its descriptor.
    #[must_use]
    pub fn takes_immediate_data(&self) -> bool {
        self.agreed.features.contains(Features::IMMEDIATE_DATA)
    }

    /// Whether what one socket has received may be named in another's send stream.
    pub(crate) fn takes_forwards(&self) -> bool {
        self.agreed.features.contains(Features::FORWARDS) && self.geometry.snd_chunks <= MOST_CHUNKS
    }

    /// Whether that may be what it was lent, and either may have its other end in the session.
    pub(crate) fn takes_forwards_within(&self) -> bool {
        self.takes_forwards() && self.agreed.features.contains(Features::FORWARDS_WITHIN)
    }

    /// Where the adapter may have the host read of a send slab instead.
    #[must_use]
    pub(crate) fn lends_chunks(&self) -> bool {
        self.agreed.features.contains(Features::LENT_CHUNKS)
    }

    /// Where `len` bytes at `at` lie in the chunk that an entry of a receive directory names.
    #[inline]
    pub fn received_place(&self, entry: u32, at: usize, len: usize) -> Option<usize> {
        match lent_chunk(entry) {
            None => self.rcv_place(entry, at, len),
            Some(chunk) => self.snd_place(chunk, at, len),
        }
    }

    /// The memory, to read and write at places got from `snd_place` and
    /// `rcv_place`.
    #[inline]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

#[cfg(test)]
mod tests;
