//! What the process has mapped where, asked of the kernel (PROCMAP_QUERY, since Linux 6.11).
//!
//! Owns the descriptor that this is asked by, which is of one process: a child opens its own.
//! Called by `page_exchange`, before it changes what is mapped.

use crate::room;
use rustix::fd::AsFd;
use rustix::fs::{OFlags, fstat, major, minor};
use rustix::ioctl::{Updater, ioctl, opcode};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The kernel's `struct procmap_query`.
#[repr(C)]
#[derive(Debug, Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    region_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const QUERY: u32 = opcode::read_write::<Query>(b'f', 17);

const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
/// Ask for the next region where there is none.
const OR_NEXT: u64 = 0x10;

/// A file, as the kernel tells one from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    device: (u32, u32),
    inode: u64,
}

impl File {
    /// The one that is open here.
    pub(super) fn of(fd: impl AsFd) -> Option<Self> {
        let stat = fstat(fd).ok()?;
        Some(Self {
            device: (major(stat.st_dev), minor(stat.st_dev)),
            inode: stat.st_ino,
        })
    }
}

/// A stretch of addresses that was mapped at one time.
#[derive(Debug)]
pub(super) struct Region {
    /// Its addresses.
    pub(super) range: Range<usize>,
    flags: u64,
    offset: u64,
    file: File,
}

impl Region {
    /// Whether it is memory that the process reads and writes and has alone.
    pub(super) fn is_private_memory(&self) -> bool {
        self.flags & (READABLE | WRITABLE | EXECUTABLE | SHARED) == READABLE | WRITABLE
    }

    /// Whether the program may read it.
    pub(super) fn is_readable(&self) -> bool {
        self.flags & READABLE != 0
    }

    /// Whether the program may write to it.
    pub(super) fn is_writable(&self) -> bool {
        self.flags & WRITABLE != 0
    }

    /// Whether at address `at`, which is in it, it is a private copy of what `file` has from
    /// `place` on.
    pub(super) fn shows(&self, file: File, at: usize, place: u64) -> bool {
        let skipped = (at - self.range.start) as u64;
        self.is_private_of(file) && self.offset + skipped == place
    }

    /// Whether it is a private copy of anything of `file`.
    pub(super) fn is_private_of(&self, file: File) -> bool {
        self.flags & SHARED == 0 && self.file == file
    }
}

/// Where to ask.
#[derive(Debug)]
pub(super) struct Regions(OwnedFd);

impl Regions {
    /// `None` if the kernel does not answer such questions, or there is no `/proc`.
    pub(super) fn open() -> Option<Self> {
        let regions = Self(room::open_kept(c"/proc/self/maps", OFlags::empty())?);
        let here = (&raw const regions).addr();
        match regions.at_or_behind(here) {
            Some(_) => Some(regions),
            None => {
                regions.close();
                None
            }
        }
    }

    /// Closes it.
    pub(super) fn close(self) {
        room::discard(self.0);
    }

    /// What is mapped at this address, or else next behind it.
    fn at_or_behind(&self, address: usize) -> Option<Region> {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: OR_NEXT,
            address: address as u64,
            ..Query::default()
        };
        // SAFETY: this is the structure of this request, which the kernel fills.
        unsafe { ioctl(&self.0, Updater::<QUERY, Query>::new(&mut query)) }.ok()?;
        Some(Region {
            range: query.start as usize..query.end as usize,
            flags: query.region_flags,
            offset: query.offset,
            file: File {
                device: (query.major, query.minor),
                inode: query.inode,
            },
        })
    }

    /// The regions in `range`, each with what of it is there.
    pub(super) fn within(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (Region, Range<usize>)> {
        let Range { mut start, end } = *range;
        std::iter::from_fn(move || {
            if start >= end {
                return None;
            }
            let region = self.at_or_behind(start)?;
            let part = start.max(region.range.start)..end.min(region.range.end);
            start = part.end;
            (part.start < part.end).then_some((region, part))
        })
    }

    /// Whether all of `range` is memory that the process reads and writes and has alone, and
    /// not the stack of this thread.
    pub(super) fn are_private_memory(&self, range: &Range<usize>) -> bool {
        let here = (&raw const range).addr();
        let mut covered = 0;
        for (region, part) in self.within(range) {
            if !region.is_private_memory() || region.range.contains(&here) {
                return false;
            }
            covered += part.len();
        }
        covered == range.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

    const PAGE: usize = 4096;

    #[test]
    fn regions_are_told_apart() {
        let Some(regions) = Regions::open() else {
            return;
        };
        let file = memfd_create("regions", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8 * PAGE as u64).unwrap();
        let (rw, none) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: new memory of this test's own.
        let base = unsafe { mmap_anonymous(none, 8 * PAGE, rw, MapFlags::PRIVATE) }.unwrap();
        let at = base.addr();
        assert!(regions.are_private_memory(&(at..at + 8 * PAGE)));
        let put = |page: usize, how: ProtFlags, flags: MapFlags| {
            let flags = flags | MapFlags::FIXED;
            // SAFETY: within that memory.
            unsafe {
                let there = base.byte_add(page * PAGE);
                mmap(there, PAGE, how, flags, &file, 3 * PAGE as u64).unwrap();
            }
        };
        put(2, rw, MapFlags::PRIVATE);
        assert!(regions.are_private_memory(&(at..at + 8 * PAGE)));
        let mine = File::of(&file).unwrap();
        let there = regions.at_or_behind(at + 2 * PAGE).unwrap();
        assert!(there.shows(mine, at + 2 * PAGE, 3 * PAGE as u64));
        assert!(!there.shows(mine, at + 2 * PAGE, 4 * PAGE as u64));
        assert!(!regions.at_or_behind(at).unwrap().is_private_of(mine));
        put(4, rw, MapFlags::SHARED);
        let shared = regions.at_or_behind(at + 4 * PAGE).unwrap();
        assert!(!shared.is_private_of(mine));
        assert!(!regions.are_private_memory(&(at..at + 8 * PAGE)));
        assert!(regions.are_private_memory(&(at..at + 4 * PAGE)));
        put(6, ProtFlags::READ, MapFlags::PRIVATE);
        assert!(!regions.are_private_memory(&(at + 5 * PAGE..at + 8 * PAGE)));
        let on_stack = [0u8; 16];
        let stack = (&raw const on_stack).addr() & !(PAGE - 1);
        assert!(!regions.are_private_memory(&(stack..stack + PAGE)));
        // SAFETY: nobody has it any more.
        unsafe { munmap(base.byte_add(PAGE), PAGE) }.unwrap();
        let three = at..at + 3 * PAGE;
        let parts: Vec<_> = regions.within(&three).map(|(_, part)| part).collect();
        assert_eq!(parts, [at..at + PAGE, at + 2 * PAGE..at + 3 * PAGE]);
        assert!(!regions.are_private_memory(&three));
        // SAFETY: nor the rest.
        unsafe { munmap(base, 8 * PAGE) }.unwrap();
        assert!(!regions.are_private_memory(&(at..at + PAGE)));
    }
}
