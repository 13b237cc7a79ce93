//! Which pages a program's pointers lead to may be read, and which written: what the kernel says of
//! each, once.
//!
//! The kernel, which copies what a system call is given, says EFAULT of a page that is not there, or
//! may not be read or written. The shim copies itself, and would die of it. So a page is asked for
//! before (`vectors`): by `futex`, which every filter of system calls permits, in two of its
//! operations that look at a word and do nothing. What it said is remembered for the pages that were
//! asked for last, and forgotten of what the program unmaps, moves or protects otherwise
//! (`calls::memory`). What it changes by calls that pass the shim by ends it by SIGSEGV still.
//!
//! Valgrind tells of each word that a system call looks at and the program has not set. Under it
//! nothing is asked.

use crate::{environment, kernel};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a page, at least: where they have more, each is asked for in parts.
const PAGE: usize = 4096;
/// How many are remembered.
const PLACES: usize = 256;
/// No page: none begins at such an address.
const NONE: usize = 1;

/// Bytes of a page of this kernel's.
#[inline]
pub(crate) fn page_size() -> usize {
    // Without asking where there is one size alone.
    if cfg!(target_arch = "x86_64") {
        PAGE
    } else {
        rustix::param::page_size()
    }
}

/// Those that may be read.
pub(crate) static READABLE: Known = Known::new(kernel::reads);
/// Those that may be written.
pub(crate) static WRITABLE: Known = Known::new(kernel::writes);

/// The pages of which the kernel has said yes, each at the place of its number. Without order
/// between threads: a page of which one knows too little is asked for again.
#[derive(Debug)]
pub(crate) struct Known {
    pages: [AtomicUsize; PLACES],
    /// Asks the kernel for the page at an address.
    asks: fn(usize) -> bool,
}

impl Known {
    const fn new(asks: fn(usize) -> bool) -> Self {
        let pages = [const { AtomicUsize::new(NONE) }; PLACES];
        Self { pages, asks }
    }

    #[inline]
    fn place(&self, page: usize) -> &AtomicUsize {
        &self.pages[page / PAGE % PLACES]
    }

    /// Whether it is known of these bytes of one page.
    #[inline]
    pub(crate) fn has(&self, at: usize, len: usize) -> bool {
        let page = page_of(at);
        self.place(page).load(Relaxed) == page && at - page + len <= PAGE
    }

    /// Whether it is so of these bytes, at least one and not more than a page's, which may lie in
    /// two.
    pub(crate) fn is_told(&self, at: usize, len: usize) -> bool {
        let (first, last) = (page_of(at), page_of(at + len - 1));
        self.is_told_of(first) && (first == last || self.is_told_of(last))
    }

    fn is_told_of(&self, page: usize) -> bool {
        if self.has(page, 1) {
            return true;
        }
        let in_valgrind = environment::remembered().is_some_and(|r| r.is_in_valgrind);
        let yes = in_valgrind || (self.asks)(page);
        if yes {
            self.place(page).store(page, Relaxed);
        }
        yes
    }

    fn forget(&self, gone: &Range<usize>) {
        let first = page_of(gone.start);
        // Those that follow each other have places that do, and further on the same ones again.
        for at in (first..gone.end).step_by(PAGE).take(PLACES) {
            let place = self.place(at);
            if gone.contains(&place.load(Relaxed)) {
                place.store(NONE, Relaxed);
            }
        }
    }
}

#[inline]
fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// What lies at these addresses is not what it was.
pub(crate) fn forget(gone: &Range<usize>) {
    READABLE.forget(gone);
    WRITABLE.forget(gone);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    use std::ptr;

    /// A page with these rights.
    fn page(rights: ProtFlags) -> *mut u32 {
        // SAFETY: new memory where there is none.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, rights, MapFlags::PRIVATE) };
        at.unwrap().cast()
    }

    fn rights_of(address: usize) -> (bool, bool) {
        let is = |known: &Known| known.has(address, 1) || known.is_told(address, 1);
        (is(&READABLE), is(&WRITABLE))
    }

    #[test]
    fn the_kernel_says_what_a_page_is_for() {
        for (rights, expected) in [
            (ProtFlags::empty(), (false, false)),
            (ProtFlags::READ, (true, false)),
            (ProtFlags::READ | ProtFlags::WRITE, (true, true)),
        ] {
            let at = page(rights).addr();
            assert_eq!(rights_of(at), expected);
            assert_eq!(rights_of(at + PAGE - 1), expected);
        }
        for nowhere in [0, 8, PAGE] {
            assert_eq!(rights_of(nowhere), (false, false), "{nowhere}");
        }
    }

    #[test]
    fn what_lies_in_two_pages_is_asked_for_in_both() {
        // SAFETY: new memory where there is none, and its second half, which is gone then.
        let at = unsafe {
            let (rights, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let at = mmap_anonymous(ptr::null_mut(), 2 * PAGE, rights, how).unwrap();
            munmap(at.byte_add(PAGE), PAGE).unwrap();
            at.addr()
        };
        for known in [&READABLE, &WRITABLE] {
            assert!(!known.has(at + PAGE - 8, 8), "not asked for yet");
            assert!(known.is_told(at + PAGE - 8, 8) && known.has(at + PAGE - 8, 8));
            assert!(!known.has(at + PAGE - 8, 9) && !known.is_told(at + PAGE - 8, 9));
        }
    }

    #[test]
    fn to_ask_changes_nothing() {
        let at = page(ProtFlags::READ | ProtFlags::WRITE);
        for value in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            // SAFETY: the page is ours.
            unsafe { at.write_volatile(value) };
            assert!(kernel::writes(at.addr()) && kernel::reads(at.addr()));
            // SAFETY: as above.
            assert_eq!(unsafe { at.read_volatile() }, value);
        }
    }

    #[test]
    fn what_a_page_was_is_remembered_until_it_is_forgotten() {
        let at = page(ProtFlags::READ | ProtFlags::WRITE);
        let range = at.addr()..at.addr() + PAGE;
        assert_eq!(rights_of(range.start), (true, true));
        // SAFETY: the page is ours.
        unsafe { mprotect(at.cast(), PAGE, MprotectFlags::READ) }.unwrap();
        assert_eq!(rights_of(range.start), (true, true), "asked for again");
        forget(&(range.end..range.end + PAGE));
        assert_eq!(
            rights_of(range.start),
            (true, true),
            "another was forgotten"
        );
        forget(&range);
        assert_eq!(rights_of(range.start), (true, false));
        // SAFETY: as above.
        unsafe { munmap(at.cast(), PAGE) }.unwrap();
        forget(&range);
        assert_eq!(rights_of(range.start), (false, false));
    }
}
