//! The pages to which the process has written since they were mapped, asked of the kernel
//! (PAGEMAP_SCAN, since Linux 6.7): of a private mapping of a file those are the process's own.
//!
//! Owns the descriptor that this is asked by, which is of one process: a child opens its own.

use crate::room;
use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The kernel's `struct pm_scan_arg`.
#[repr(C)]
#[derive(Debug, Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found: u64,
    room: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// The kernel's `struct page_region`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    start: u64,
    end: u64,
    categories: u64,
}

const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

const FILE: u64 = 4;
const PRESENT: u64 = 8;
const SWAPPED: u64 = 16;

/// Stretches that are reported; memory that was written to in more is worth no more questions.
const MOST: usize = 16;

/// Where to ask.
#[derive(Debug)]
pub(super) struct Written(OwnedFd);

impl Written {
    /// `None` if the kernel does not answer such questions, or there is no `/proc`.
    pub(super) fn open() -> Option<Self> {
        let written = Self(room::open_kept(c"/proc/self/pagemap", OFlags::empty())?);
        if written.within(&(0..0)).is_none() {
            written.close();
            return None;
        }
        Some(written)
    }

    /// Closes it.
    pub(super) fn close(self) {
        room::discard(self.0);
    }

    /// The stretches of these pages, of private mappings of files, that the process has written
    /// to. `None` if they are too many.
    pub(super) fn within(&self, range: &Range<usize>) -> Option<Vec<Range<usize>>> {
        let mut found = [Found::default(); MOST];
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: range.start as u64,
            end: range.end as u64,
            found: found.as_mut_ptr().expose_provenance() as u64,
            room: MOST as u64,
            inverted: FILE,
            all_of: FILE,
            any_of: PRESENT | SWAPPED,
            returned: FILE,
            ..Scan::default()
        };
        // SAFETY: this is the structure of this request, and there is room for the answer.
        unsafe { ioctl(&self.0, Updater::<SCAN, Scan>::new(&mut scan)) }.ok()?;
        if scan.walk_end < scan.end {
            return None;
        }
        let ends = found.iter().take_while(|one| one.end != 0);
        Some(
            ends.map(|one| one.start as usize..one.end as usize)
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_exchange::PAGE;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::ptr;

    #[test]
    fn pages_that_were_written_to_are_told() {
        let Some(written) = Written::open() else {
            return;
        };
        let pages = 4 * MOST;
        let file = memfd_create("written", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, (pages * PAGE) as u64).unwrap();
        let how = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory of this test's own.
        let at = unsafe {
            let none = ptr::null_mut();
            mmap(none, pages * PAGE, how, MapFlags::PRIVATE, &file, 0).unwrap()
        };
        let all = at.addr()..at.addr() + pages * PAGE;
        let page = |n: usize| at.wrapping_byte_add(n * PAGE).cast::<u8>();
        let ranges = |range: &Range<usize>| {
            let ranges = written.within(range);
            ranges.map(|all| {
                let places = all.iter().map(|r| (r.start - at.addr(), r.len()));
                places.collect::<Vec<_>>()
            })
        };
        assert_eq!(ranges(&all), Some(vec![]));
        // SAFETY: within it.
        unsafe { page(3).read_volatile() };
        assert_eq!(ranges(&all), Some(vec![]));
        for n in [1, 5, 6] {
            // SAFETY: within it.
            unsafe { page(n).write_volatile(0) };
        }
        let expected = vec![(PAGE, PAGE), (5 * PAGE, 2 * PAGE)];
        assert_eq!(ranges(&all), Some(expected));
        let some = all.start + 6 * PAGE..all.end;
        assert_eq!(ranges(&some), Some(vec![(6 * PAGE, PAGE)]));
        for n in (0..pages).step_by(2) {
            // SAFETY: within it.
            unsafe { page(n).write_volatile(1) };
        }
        assert_eq!(ranges(&all), None);
        // SAFETY: nobody has it any more.
        unsafe { munmap(at, pages * PAGE) }.unwrap();
        written.close();
    }
}
