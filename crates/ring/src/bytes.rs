//! Ranges of memory that another process may write while this one reads them.
//!
//! They are never a `&[u8]`, which would promise that they do not change: they are copied
//! out, or passed to a system call. `SharedMemory` creates them; both halves of the
//! interface use them for payload in place.

use std::io::IoSlice;
use std::marker::PhantomData;

/// Bytes of shared memory, for reading. They may change between two accesses.
///
/// It has the layout of the kernel's `iovec`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'a> {
    base: *const u8,
    len: usize,
    memory: PhantomData<&'a [u8]>,
}

const _: () = assert!(size_of::<SharedBytes<'_>>() == size_of::<IoSlice<'_>>());
const _: () = assert!(align_of::<SharedBytes<'_>>() == align_of::<IoSlice<'_>>());

impl<'a> SharedBytes<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self {
        base: std::ptr::dangling(),
        len: 0,
        memory: PhantomData,
    };

    /// Whether `next` lies in the memory where these end.
    #[inline]
    #[must_use]
    pub fn are_followed_by(&self, next: &Self) -> bool {
        self.len != 0 && self.base.wrapping_add(self.len) == next.base
    }

    /// These and those that follow them, as one.
    ///
    /// # Panics
    /// If they do not.
    #[must_use]
    pub fn joined_with(&self, next: &Self) -> Self {
        assert!(self.are_followed_by(next));
        Self {
            len: self.len + next.len,
            ..*self
        }
    }

    /// The `len` bytes at `base`.
    ///
    /// # Safety
    /// They stay mapped for `'a`, and there is no `&mut` to them.
    #[inline(always)]
    pub(crate) unsafe fn new(base: *const u8, len: usize) -> Self {
        Self {
            base,
            len,
            memory: PhantomData,
        }
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the present bytes out. Panics if `to` has another length.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() == self.len);
        // SAFETY: mapped for `'a`, by the promise to `new`; `to` is private memory of
        // that length. If another process writes meanwhile, only the copy is affected.
        unsafe { std::ptr::copy_nonoverlapping(self.base, to.as_mut_ptr(), self.len) }
    }

    /// Converts a list of these to the kernel's form.
    ///
    /// # Safety
    /// Another process may change the bytes at any moment. The caller passes the slices
    /// to a system call, or to code that copies or sums each byte once, and decides
    /// nothing by them.
    #[inline(always)]
    #[must_use]
    pub unsafe fn io_slices<'b>(all: &'b [Self]) -> &'b [IoSlice<'a>] {
        // SAFETY: both have the layout of an `iovec`; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), all.len()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::SharedMemory;

    #[test]
    fn bytes_are_copied_out_and_handed_over_where_they_lie() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        memory.write(100, b"abcdef");
        let both = [memory.shared(100, 2), memory.shared(103, 3)];
        let mut got = [0; 3];
        both[1].copy_to(&mut got);
        assert_eq!(&got, b"def");
        // SAFETY: no other thread writes meanwhile.
        let slices = unsafe { SharedBytes::io_slices(&both) };
        assert_eq!((&*slices[0], &*slices[1]), (&b"ab"[..], &b"def"[..]));
        assert!(memory.shared(8192, 0).is_empty() && SharedBytes::EMPTY.is_empty());
    }

    #[test]
    fn bytes_that_begin_where_others_end_follow_them() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        memory.write(100, b"abcde");
        let [first, next, far] = [(100, 2), (102, 3), (106, 1)].map(|(at, n)| memory.shared(at, n));
        assert!(first.are_followed_by(&next));
        assert!(!next.are_followed_by(&far) && !next.are_followed_by(&first));
        assert!(!SharedBytes::EMPTY.are_followed_by(&SharedBytes::EMPTY));
        let both = first.joined_with(&next);
        assert_eq!((both.len(), both.is_empty()), (5, false));
        let mut got = [0; 5];
        both.copy_to(&mut got);
        assert_eq!(&got, b"abcde");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn bytes_with_a_gap_between_them_are_not_joined() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        let _ = memory.shared(100, 2).joined_with(&memory.shared(103, 3));
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn bytes_beyond_the_memory_are_refused() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let _ = memory.shared(4090, 7);
    }
}
