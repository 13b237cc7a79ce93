//! The files that a session's programs have handed over: checked, mapped, and let go of when
//! they are no longer used.
//!
//! Owns [`OfferedFile`], which the engine makes in a thread that may be held up by a strange
//! file system, and the session's [`Files`], of which `send_streams` takes what is sent.

use super::spans::MAX_GATHERED;
use crate::abi::{CHUNK, DIRECTORY, FILES, FileId, SharedFile};
use crate::transport::Arena;
use longshore_ring::{MappedFile, SharedMemory};
use rustix::fs::{FileType, fstat, fstatfs};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of the longest file that is taken.
const LONGEST: u64 = 1 << 32;
/// How long a file must not have been used to be let go of, in microseconds.
const UNUSED_FOR: u64 = 5_000_000;
/// Bytes of what is read of files at a time, or put together of many pieces.
pub(super) const SCRATCH: usize = MAX_GATHERED;

/// File systems whose pages are the kernel's own: to read a page waits for a disk at most.
/// What is stacked on others, or served by a process or over a network, may last for ever.
const FILE_SYSTEMS: [u64; 4] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
];

/// Why a file was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not regular, or as long as none can be.
    #[error("it is no regular file of 1 byte to 4 GiB")]
    Kind,
    /// It is on a file system that might not answer.
    #[error(
        "it is on a file system of type {0:#x}, which is not among those that are known to answer"
    )]
    FileSystem(u64),
    /// The kernel refused.
    #[error("the kernel refused: {0}")]
    Kernel(#[from] Errno),
}

/// A file that was checked and mapped.
#[derive(Debug)]
pub struct OfferedFile {
    id: FileId,
    mapped: MappedFile,
}

impl OfferedFile {
    /// Checks and maps a file that a program handed over. It may last as long as the file
    /// system likes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn check(fd: OwnedFd) -> Result<Self, FileError> {
        let stat = fstat(&fd)?;
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || !(1..=LONGEST).contains(&len) {
            return Err(FileError::Kind);
        }
        let kind = fstatfs(&fd)?.f_type as u64;
        if !FILE_SYSTEMS.contains(&kind) {
            return Err(FileError::FileSystem(kind));
        }
        let id = FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        let mapped = MappedFile::map(fd, len as usize)?;
        Ok(Self { id, mapped })
    }
}

/// A file that a session has.
#[derive(Debug, Clone)]
pub(super) struct Lent {
    mapped: Arc<MappedFile>,
    /// How often it was used when it was looked at last, and since when it is so.
    uses: u32,
    since: u64,
}

/// The files of a session. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Files {
    lent: [Option<Lent>; FILES],
    /// Where bytes are read to that have to be seen.
    pub(super) scratch: Arc<SharedMemory>,
}

impl Files {
    pub(super) fn new() -> Option<Self> {
        let scratch = SharedMemory::create("longshore-file", SCRATCH).ok()?;
        Some(Self {
            lent: std::array::from_fn(|_| None),
            scratch: Arc::new(scratch),
        })
    }

    /// Takes a file in the first place that is free, where programs find it by what is `shared`;
    /// gives it back if there is none. `now` is in microseconds.
    pub(super) fn lend(
        &mut self,
        file: OfferedFile,
        shared: &[SharedFile],
        now: u64,
    ) -> Result<(), OfferedFile> {
        let mut places = self.lent.iter_mut().zip(shared);
        let Some((lent, shared)) = places.find(|(lent, _)| lent.is_none()) else {
            return Err(file);
        };
        let OfferedFile { id, mapped } = file;
        let len = mapped.len() as u64;
        *lent = Some(Lent {
            mapped: Arc::new(mapped),
            uses: shared.uses(),
            since: now,
        });
        shared.lend(id, len);
        Ok(())
    }

    /// Lets go of those that were not used for 5 s and that no stream of `arena` has a range of.
    /// Gives back what is to be closed. `now` is in microseconds.
    pub(super) fn let_go(&mut self, arena: &Arena, now: u64) -> Vec<Lent> {
        let mut gone = Vec::new();
        let places = arena.header().files.iter();
        for (place, (slot, shared)) in self.lent.iter_mut().zip(places).enumerate() {
            let Some(lent) = slot else { continue };
            let uses = shared.uses();
            if lent.uses != uses {
                (lent.uses, lent.since) = (uses, now);
                continue;
            }
            if now.saturating_sub(lent.since) < UNUSED_FOR || !shared.begin_leaving() {
                continue;
            }
            let stays = is_sent(arena, place as u32);
            if stays {
                lent.since = now;
            } else {
                gone.extend(slot.take());
            }
            shared.end_leaving(stays);
        }
        gone
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.lent.iter().all(Option::is_none)
    }

    /// The file in this place.
    pub(super) fn get(&self, place: u32) -> Option<&MappedFile> {
        let lent = self.lent.get(place as usize)?.as_ref()?;
        Some(&lent.mapped)
    }
}

/// Whether any send stream has a range of a file.
fn is_sent(arena: &Arena, file: u32) -> bool {
    let end = arena.header().sockets_end.load(Ordering::Acquire);
    (0..end.min(arena.geometry().sockets)).any(|index| {
        let half = &arena.block(index).snd;
        let returned = half.returned.load(Ordering::Acquire);
        let edge = half.edge.load(Ordering::Acquire);
        let (first, last) = (returned / CHUNK as u64, edge.div_ceil(CHUNK as u64));
        let directory = arena.snd_directory(index);
        let numbers = (first..last).take(DIRECTORY);
        let mut entries = numbers.map(|number| directory.entry(number).load(Ordering::Acquire));
        returned < edge
            && entries.any(|entry| {
                let mut ranges = arena.file_ranges(entry);
                ranges.any(|range| range.is_ok_and(|range| range.file == file))
            })
    })
}

#[cfg(all(test, not(miri)))]
mod tests;
