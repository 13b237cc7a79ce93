//! Ranges of files in send streams: bytes that a program has not copied, and that the engine
//! sends from where the kernel has the file.
//!
//! A stretch of a send stream that comes from a file has its chunk as any other. What lies in
//! that chunk is not the bytes, but where they begin a [`FileRange`] that says which file has
//! them; the entry of the directory says where in the chunk the first such range is
//! ([`with_ranges`]), and each range where the next one. So ranges are ordered and given back
//! as the bytes of the stream are.
//!
//! A stretch may also come from the receive stream of another connection of the session, which
//! has it in one of its chunks: then a range names that chunk in place of a file
//! ([`FileRange::received`]). How long that chunk stays is said by the request `Forward`.
//!
//! Files are those that the engine has been handed ([`SharedFile`]). A program holds one while
//! it appends ranges of it, up to the edge; the engine lets go of a file that nobody holds and
//! that no stream has a range of.

use super::CHUNK;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Files that a session may have handed over at a time.
pub(crate) const FILES: usize = 32;
/// Bytes of the shortest range: less is copied. It has room for what stands for it.
pub const LEAST_RANGE: usize = 64;
/// And of the shortest of a session of an older version
/// ([`Agreed::least_range`](super::Agreed::least_range)).
pub(crate) const LEAST_LONG_RANGE: usize = 4096;
/// Bytes of what one socket has received that another sends where it lies, at least: less is
/// copied.
pub const LEAST_FORWARD: u64 = 4096;
/// Bytes of the record of a range.
pub const RANGE_BYTES: usize = 24;
/// A range lies at the first multiple of this in what it stands for.
pub(crate) const ALIGNMENT: usize = 16;

/// In place of a file: the bytes lie in a chunk that another socket has received.
const RECEIVED: u32 = u32::MAX;

/// In an entry of a directory: the chunk has ranges.
const HAS_RANGES: u32 = 1 << 31;
/// In such an entry: where the first one lies, in units of [`ALIGNMENT`].
const FIRST_SHIFT: u32 = 19;
/// In such an entry: the chunk.
const CHUNK_MASK: u32 = (1 << FIRST_SHIFT) - 1;

const _: () = assert!(CHUNK / ALIGNMENT == 1 << (31 - FIRST_SHIFT));
const _: () = assert!(ALIGNMENT - 1 + RANGE_BYTES <= LEAST_RANGE);

/// Chunks that a slab may have for its entries to say where ranges are.
pub(crate) const MOST_CHUNKS: u32 = CHUNK_MASK + 1;

/// The chunk that an entry of a send directory names.
#[inline]
#[must_use]
pub fn chunk_of(entry: u32) -> u32 {
    if entry & HAS_RANGES == 0 {
        entry
    } else {
        entry & CHUNK_MASK
    }
}

/// Where in its chunk the first range lies, if an entry says that there are some.
#[inline]
pub(crate) fn first_range(entry: u32) -> Option<usize> {
    let first = (entry & !HAS_RANGES) >> FIRST_SHIFT;
    (entry & HAS_RANGES != 0).then_some(first as usize * ALIGNMENT)
}

/// The entry for a chunk whose first range begins at `from`.
pub(crate) fn with_ranges(chunk: u32, from: usize) -> u32 {
    let first = (place_of_range(from) / ALIGNMENT) as u32;
    HAS_RANGES | first << FIRST_SHIFT | chunk & CHUNK_MASK
}

/// Where in its chunk a range lies that begins at `from`.
pub(crate) fn place_of_range(from: usize) -> usize {
    from.next_multiple_of(ALIGNMENT)
}

/// Bytes of a file, as a descriptor tells that a send stream has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Which of the session's files.
    pub file: u16,
    /// Where in the file they begin.
    pub offset: u32,
    /// How many they are.
    pub len: u32,
}

impl FileExtent {
    /// These bytes and `then`, if those are the next ones of the same file.
    pub(crate) fn joined_with(&self, then: &Self) -> Option<Self> {
        let is_next =
            self.file == then.file && self.offset.checked_add(self.len) == Some(then.offset);
        let len = self.len.checked_add(then.len).filter(|_| is_next)?;
        Some(Self { len, ..*self })
    }
}

/// A stretch of a chunk that stands for a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileRange {
    /// Where in the chunk it begins, bytes.
    pub(crate) from: u32,
    /// Where it ends.
    pub(crate) to: u32,
    /// Where in the chunk the next range lies; 0 for none.
    pub(crate) next: u32,
    /// Which of the session's files.
    pub(crate) file: u32,
    /// Where in the file it begins, bytes.
    pub(crate) offset: u64,
}

impl FileRange {
    /// The range `from..to` of a chunk that stands for what lies at `within` of the chunk that
    /// `entry` of a receive directory names.
    pub(crate) fn of_received((from, to): (usize, usize), entry: u32, within: usize) -> Self {
        Self {
            from: from as u32,
            to: to as u32,
            next: 0,
            file: RECEIVED,
            offset: u64::from(entry) << 32 | within as u64,
        }
    }

    /// The entry of a receive directory that names the chunk in which its bytes lie, and where
    /// they do there, if they are another socket's and no file's.
    pub(crate) fn received(&self) -> Option<(u32, usize)> {
        let is_received = self.file == RECEIVED;
        is_received.then_some(((self.offset >> 32) as u32, self.offset as u32 as usize))
    }

    pub(crate) fn encode(&self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        let words = [self.from, self.to, self.next, self.file];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; RANGE_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks();
        let word = |i: usize| words.get(i).map_or(0, |word| u32::from_le_bytes(*word));
        Self {
            from: word(0),
            to: word(1),
            next: word(2),
            file: word(3),
            offset: u64::from(word(4)) | u64::from(word(5)) << 32,
        }
    }

    /// Whether it can lie at `place`, behind one that ends at `end`. So ranges only go on.
    pub(crate) fn can_be(&self, place: usize, end: usize) -> bool {
        let (from, to) = (self.from as usize, self.to as usize);
        let next = self.next as usize;
        from >= end
            && to <= CHUNK
            && to.checked_sub(from).is_some_and(|len| len >= LEAST_RANGE)
            && place_of_range(from) == place
            && (next == 0 || next >= to)
    }
}

/// A file that the engine has been handed, as both sides see it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SharedFile {
    /// How many hold it, and [`LENT`].
    state: AtomicU32,
    /// Counts how often it was held.
    uses: AtomicU32,
    device: AtomicU64,
    inode: AtomicU64,
    len: AtomicU64,
}

/// Programs may use it.
const LENT: u32 = 1 << 31;
/// The engine is about to let go of it.
const LEAVING: u32 = 1 << 30;

/// Which file one is: the same as long as anybody has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The device of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl SharedFile {
    /// Whether the engine has none in this place.
    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Ordering::Acquire) == 0
    }

    /// Holds it, if it is this file; says how many bytes of it may be sent. To be released.
    pub(crate) fn hold(&self, id: FileId) -> Option<u64> {
        let is_it = || {
            self.inode.load(Ordering::Relaxed) == id.inode
                && self.device.load(Ordering::Relaxed) == id.device
        };
        if !is_it() {
            return None;
        }
        let held = |state: u32| {
            let next = state.checked_add(1).filter(|next| *next < u32::MAX);
            next.filter(|_| state & LENT != 0)
        };
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.state.fetch_update(order.0, order.1, held).ok()?;
        self.uses.fetch_add(1, Ordering::Relaxed);
        // It may have become another before it was held.
        if !is_it() {
            self.release();
            return None;
        }
        Some(self.len.load(Ordering::Relaxed))
    }

    /// Ends what [`hold`](Self::hold) began.
    pub(crate) fn release(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// The engine has this file here from now on.
    pub(crate) fn lend(&self, id: FileId, len: u64) {
        self.device.store(id.device, Ordering::Relaxed);
        self.inode.store(id.inode, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.state.store(LENT, Ordering::Release);
    }

    /// How often it was held, modulo 2^32.
    pub(crate) fn uses(&self) -> u32 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Nobody can hold it any more, if nobody does; says whether.
    pub(crate) fn begin_leaving(&self) -> bool {
        let (now, then) = (LENT, LEAVING);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.state
            .compare_exchange(now, then, order.0, order.1)
            .is_ok()
    }

    /// Ends that: the place is free, or the file stays.
    pub(crate) fn end_leaving(&self, stays: bool) {
        let state = if stays { LENT } else { 0 };
        self.state.store(state, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_comes_back(from: u32, to: u32, next: u32, file: u32, offset: u64) {
            let range = FileRange { from, to, next, file, offset };
            prop_assert_eq!(FileRange::decode(&range.encode()), range);
            let _ = range.can_be(from as usize, to as usize);
        }

        #[test]
        fn an_entry_names_its_chunk_and_its_first_range(
            chunk in 0..MOST_CHUNKS, from in 0..=CHUNK - LEAST_RANGE
        ) {
            let entry = with_ranges(chunk, from);
            prop_assert_eq!(chunk_of(entry), chunk);
            prop_assert_eq!(first_range(entry), Some(place_of_range(from)));
            prop_assert_eq!((chunk_of(chunk), first_range(chunk)), (chunk, None));
        }
    }

    /// Whatever another program has written there.
    #[test]
    fn a_file_is_held_as_often_as_can_be_counted() {
        let id = FileId {
            device: 0,
            inode: 0,
        };
        for (state, held) in [
            (0, None),
            (LEAVING, None),
            (LENT, Some(LENT + 1)),
            (u32::MAX - 2, Some(u32::MAX - 1)),
            (u32::MAX - 1, None),
            (u32::MAX, None),
        ] {
            let file = SharedFile {
                state: AtomicU32::new(state),
                uses: AtomicU32::new(0),
                device: AtomicU64::new(0),
                inode: AtomicU64::new(0),
                len: AtomicU64::new(9),
            };
            assert_eq!(file.hold(id), held.map(|_| 9), "{state:x}");
            let now = file.state.load(Ordering::Relaxed);
            assert_eq!(now, held.unwrap_or(state), "{state:x}");
        }
    }

    #[test]
    fn ranges_that_overlap_or_go_back_cannot_be() {
        let range = FileRange {
            from: 100,
            to: 5000,
            next: 0,
            file: 0,
            offset: 0,
        };
        let can_be = |range: FileRange| range.can_be(112, 50);
        assert!(
            can_be(range)
                && can_be(FileRange {
                    next: 5008,
                    ..range
                })
        );
        assert!(!can_be(FileRange {
            next: 4992,
            ..range
        }));
        assert!(!can_be(FileRange { to: 163, ..range }));
        assert!(!can_be(FileRange {
            to: CHUNK as u32 + 1,
            ..range
        }));
        assert!(!can_be(FileRange { from: 40, ..range }));
        assert!(!can_be(FileRange {
            from: 6000,
            ..range
        }));
        assert!(!range.can_be(128, 50) && !range.can_be(112, 101));
    }

    #[test]
    fn a_file_leaves_when_nobody_holds_it() {
        let memory = longshore_ring::SharedMemory::create("file", 4096).unwrap();
        let file: &SharedFile = &memory.at::<crate::Header>(0).files[0];
        let (id, other) = (
            FileId {
                device: 1,
                inode: 2,
            },
            FileId {
                device: 2,
                inode: 2,
            },
        );
        assert!(file.is_free() && file.hold(id).is_none());
        file.lend(id, 70);
        assert!(!file.is_free() && file.hold(other).is_none());
        assert_eq!((file.hold(id), file.uses()), (Some(70), 1));
        assert!(!file.begin_leaving());
        file.release();
        assert!(file.begin_leaving() && !file.is_free());
        assert!(file.hold(id).is_none());
        file.end_leaving(true);
        assert_eq!(file.hold(id), Some(70));
        file.release();
        assert!(file.begin_leaving());
        file.end_leaving(false);
        assert!(file.is_free() && file.hold(id).is_none());
    }

    #[test]
    fn a_range_of_the_least_length_can_be_and_a_chunk_without_ranges_is_as_it_is_named() {
        let range = FileRange {
            from: 0,
            to: LEAST_RANGE as u32,
            next: 0,
            file: 1,
            offset: 2,
        };
        assert!(range.can_be(0, 0));
        assert!(
            !FileRange {
                to: range.to - 1,
                ..range
            }
            .can_be(0, 0)
        );
        for entry in [0, CHUNK_MASK, CHUNK_MASK + 1, !HAS_RANGES] {
            assert_eq!(chunk_of(entry), entry);
        }
    }
}
