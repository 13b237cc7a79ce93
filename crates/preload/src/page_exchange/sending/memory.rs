//! The file whose pages take the place of the program's when they are sent: memory of the
//! process's own, which the engine reads and never writes.

use super::super::{memfd, regions::File};
use super::PAGE;
use crate::mapping::Mapping;
use crate::room;
use longshore_hostif::FileId;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::MapFlags;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

/// Bytes of it: as much of the program's memory may be shown from it, or be under way, at a time.
pub(super) const SIZE: u64 = 64 << 20;

/// The file, and where this process has it.
#[derive(Debug)]
pub(super) struct Memory {
    fd: OwnedFd,
    id: FileId,
    file: File,
    bytes: Mapping,
    /// Bytes from its beginning that have memory behind them.
    filled: u64,
}

impl Memory {
    pub(super) fn new() -> Option<Self> {
        let fd = memfd::create("longshore-sent", SIZE)?;
        let stat = fstat(&fd).ok()?;
        let id = FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        let file = File::of(&fd)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let bytes = Mapping::of(&fd, SIZE as usize, flags).ok()?;
        Some(Self {
            fd: room::keep(fd),
            id,
            file,
            bytes,
            filled: 0,
        })
    }

    /// This process has nothing to do with it any more, but for what its memory shows.
    pub(super) fn close(self) {
        drop(self.bytes);
        room::discard(self.fd);
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn file(&self) -> File {
        self.file
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Puts memory behind these bytes, without which the copy would end the process where there
    /// is none left.
    pub(super) fn fill(&mut self, range: &Range<u64>) -> Result<(), Errno> {
        if range.end > self.filled {
            let missing = self.filled as usize..range.end as usize;
            self.bytes.populate(missing)?;
            self.filled = range.end;
        }
        Ok(())
    }

    /// Copies what the program has at `range` to `place`, where there is memory.
    pub(super) fn copy(&mut self, range: &Range<usize>, place: u64) {
        debug_assert!(place + range.len() as u64 <= self.filled);
        debug_assert!(range.start.is_multiple_of(PAGE));
        let from = ptr::with_exposed_provenance::<u8>(range.start);
        // SAFETY: the program has its own memory there, which nobody writes to meanwhile.
        let from = unsafe { std::slice::from_raw_parts(from, range.len()) };
        self.bytes.bytes_mut()[place as usize..][..range.len()].copy_from_slice(from);
    }
}
