//! A memfd mapped by both sides.

mod array;
mod pages;

pub use array::SharedArray;

use crate::{MappedFile, SharedBytes};
use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types that may be in memory which another process changes at any moment: every bit
/// pattern is valid, and every access is atomic.
///
/// # Safety
/// The type is `repr(C)` or transparent and consists of atomics and of other
/// `Shared` types alone.
pub unsafe trait Shared: Sync {}

// SAFETY: atomics, for which every bit pattern is valid.
unsafe impl Shared for AtomicU32 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as above.
unsafe impl Shared for std::sync::atomic::AtomicU16 {}
// SAFETY: `Shared` types alone, side by side.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}
// SAFETY: an array of atomics.
unsafe impl Shared for crate::spsc::Slot {}
// SAFETY: two atomics.
unsafe impl Shared for crate::spsc::Indices {}
// SAFETY: an atomic.
unsafe impl Shared for crate::FreeList {}
// SAFETY: two atomics.
unsafe impl Shared for crate::Waiter {}
// SAFETY: an atomic.
unsafe impl Shared for crate::SharedLock {}

/// Why shared memory could not be created or mapped.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// The kernel refused to create or resize it.
    #[error("no shared memory of {len} bytes: {source}")]
    Create {
        /// Bytes asked for.
        len: usize,
        /// The kernel's reason.
        source: rustix::io::Errno,
    },
    /// The kernel refused to map it.
    #[error("shared memory of {len} bytes cannot be mapped: {source}")]
    Map {
        /// Bytes asked for.
        len: usize,
        /// The kernel's reason.
        source: rustix::io::Errno,
    },
    /// The descriptor that was passed is not shared memory of that size, or the other
    /// side could still shrink it.
    #[error("the descriptor is not sealed shared memory of {expected} bytes")]
    NotOurs {
        /// Bytes it should have.
        expected: usize,
    },
}

/// A shared mapping. It stays mapped until it, and every [`Span`] and [`SharedArray`] of it, is
/// dropped.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
    /// Unmaps the memory when dropped; shared with its spans and arrays.
    mapping: Arc<Mapping>,
}

/// A mapping, which is unmapped when this is dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is only accessed through `Shared` types, which are `Sync`, and
// through copies of bytes that are not assumed to be stable.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}
// SAFETY: it is never accessed through this type; any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, every reference into it borrows its
        // `SharedMemory`, and every span and array keeps this value alive.
        unsafe { pages::unmap(self.base, self.len) };
    }
}

/// A range of shared memory to be filled by copies, with its bounds checked once. It
/// keeps the memory mapped.
#[derive(Debug)]
pub struct Span {
    base: NonNull<u8>,
    len: usize,
    /// Never read: it keeps the memory mapped.
    _mapping: Arc<Mapping>,
}

// SAFETY: as for `SharedMemory`.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// The room for `len` bytes at `at` of it, if that is within its bounds.
    #[inline(always)]
    #[must_use]
    pub fn room(&self, at: u64, len: usize) -> Option<Room<'_>> {
        let last = self.len.checked_sub(len)?;
        (at <= last as u64).then(|| Room {
            // SAFETY: inside, or at the end of, the range that was checked when the span
            // was created.
            base: unsafe { self.base.add(at as usize) },
            len,
            span: PhantomData,
        })
    }
}

/// Room in a [`Span`] for a number of bytes.
#[derive(Debug)]
pub struct Room<'a> {
    base: NonNull<u8>,
    len: usize,
    span: PhantomData<&'a Span>,
}

impl Room<'_> {
    /// Fills it. Panics if `from` has another length.
    #[inline(always)]
    pub fn fill(self, from: &[u8]) {
        assert!(from.len() == self.len);
        // SAFETY: `Span::room` has checked that there is room for that many bytes; the
        // source is private memory. A race with the other side only changes the bytes
        // that it reads.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr(), from.len()) }
    }

    /// Has `fill` write it, which must not read it: the other side may write there, too.
    #[inline]
    pub fn fill_by<R>(self, fill: impl FnOnce(&[Cell<u8>]) -> R) -> R {
        // SAFETY: `Span::room` has checked that there is room for that many bytes, which stay
        // mapped as long as the span; bytes have no alignment, and cells may be written to by
        // others: there is no other reference to what is in shared memory.
        fill(unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len) })
    }
}

impl SharedMemory {
    /// Creates `len` bytes of zeroed shared memory, which is allocated page by page when
    /// first accessed. It is sealed against shrinking and growing.
    ///
    /// # Errors
    /// [`ShmError`], if the kernel refuses.
    pub fn create(name: &str, len: usize) -> Result<Self, ShmError> {
        let fd = pages::make(name, len).map_err(|source| ShmError::Create { len, source })?;
        Self::map(fd, len)
    }

    /// Maps memory that the other side created.
    ///
    /// # Errors
    /// [`ShmError::NotOurs`] if the descriptor is not sealed memory of `len` bytes, so
    /// that an access could fault.
    pub fn open(fd: OwnedFd, len: usize) -> Result<Self, ShmError> {
        if !pages::are_ours(&fd, len) {
            return Err(ShmError::NotOurs { expected: len });
        }
        Self::map(fd, len)
    }

    fn map(fd: OwnedFd, len: usize) -> Result<Self, ShmError> {
        let base = pages::map(&fd, len).map_err(|source| ShmError::Map { len, source })?;
        let mapping = Arc::new(Mapping { base, len });
        Ok(Self {
            base,
            len,
            fd,
            mapping,
        })
    }

    /// Allocates and maps the page at `from`, as an access would. Without kernel support
    /// (Linux before 5.14) nothing happens. Panics if it lies outside.
    pub fn populate(&self, from: usize) {
        assert!(from < self.len);
        // SAFETY: inside our own mapping by the line above.
        unsafe { pages::populate(self.base.add(from)) };
    }

    /// Returns the memory of `len` bytes from `offset` on to the system, for both sides:
    /// it reads as zero, and is allocated again when it is next written.
    ///
    /// # Errors
    /// The kernel's.
    pub fn release(&self, offset: usize, len: usize) -> Result<(), rustix::io::Errno> {
        assert!(offset <= self.len && len <= self.len - offset);
        pages::release(&self.fd, self.base, offset, len)
    }

    /// Length of the mapping in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0 (never for memory that was created here).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `T` at `offset` bytes. Panics if it lies outside or is misaligned:
    /// offsets come from the layout, never from the other side.
    #[inline]
    pub fn at<T: Shared>(&self, offset: usize) -> &T {
        &self.array::<T>(offset, 1)[0]
    }

    /// `count` of `T` from `offset` bytes on. Panics as [`at`](Self::at) does.
    #[inline]
    pub fn array<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let size = count
            .checked_mul(size_of::<T>())
            .expect("layout fits the address space");
        assert!(
            offset.is_multiple_of(align_of::<T>())
                && offset <= self.len
                && size <= self.len - offset
        );
        // SAFETY: in bounds and aligned by the line above (the base is aligned
        // to a page); `Shared` types are valid for every bit pattern and are
        // changed through atomics alone.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// Copies the `len` bytes at `from` to `offset`. Panics if either lie outside.
    #[inline]
    pub fn copy(&self, from: usize, offset: usize, len: usize) {
        self.copy_to(from, len, self, offset);
    }

    /// Copies `from` to `offset`. Panics if it does not fit.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(offset <= self.len && from.len() <= self.len - offset);
        // SAFETY: in bounds by the line above; the source is private memory. A race with
        // the other side only changes the bytes that it reads.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr().add(offset), from.len())
        }
    }

    /// The `len` bytes at `offset`, to be filled any number of times. Panics if they lie
    /// outside.
    pub fn span(&self, offset: usize, len: usize) -> Span {
        assert!(offset <= self.len && len <= self.len - offset);
        Span {
            // SAFETY: in bounds by the line above.
            base: unsafe { self.base.add(offset) },
            len,
            _mapping: self.mapping.clone(),
        }
    }

    /// Copies from `offset` into `to`. Panics if it lies outside.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset <= self.len && to.len() <= self.len - offset);
        // SAFETY: as in `write`, the other way.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), to.as_mut_ptr(), to.len())
        }
    }

    /// Copies `len` bytes from `offset` to `at` of another memory. Panics if they lie outside
    /// of either.
    #[inline]
    pub fn copy_to(&self, offset: usize, len: usize, to: &Self, at: usize) {
        assert!(offset <= self.len && len <= self.len - offset);
        assert!(at <= to.len && len <= to.len - at);
        // SAFETY: in bounds by the lines above; they may be the same memory. A race with
        // another side only changes the bytes that are copied.
        unsafe {
            let from = self.base.as_ptr().add(offset);
            std::ptr::copy(from, to.base.as_ptr().add(at), len);
        }
    }

    /// Reads `len` bytes of a file, from `at` on, to `offset`; zeros where the file has none.
    /// Panics if they do not fit.
    pub fn read_file(&self, file: &MappedFile, at: u64, offset: usize, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in bounds by the line above. A race with the other side only changes the
        // bytes that it reads, and this side reads them by copies.
        unsafe { file.read_to(at, self.base.as_ptr().add(offset), len) };
    }

    /// The `len` bytes at `offset`, to be read in place. Panics if they lie outside.
    #[inline]
    pub fn shared(&self, offset: usize, len: usize) -> SharedBytes<'_> {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in bounds by the line above, and mapped as long as `self` is there.
        unsafe { SharedBytes::new(self.base.as_ptr().add(offset), len) }
    }

    /// Where the `len` bytes at `offset` are mapped. Panics if they lie outside.
    #[inline]
    pub(crate) fn place(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in bounds by the line above.
        unsafe { self.base.add(offset) }
    }

    /// The `len` bytes at `offset`, to be passed to the kernel, copied or summed. Panics
    /// if they lie outside.
    ///
    /// # Safety
    /// The other side may change the bytes at any moment. The caller must not decide
    /// anything by them that it does not check after copying them.
    #[inline]
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in bounds by the line above; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// Where `bytes` lie, which are of this memory. Panics if they are not.
    #[must_use]
    pub fn offset_of(&self, bytes: &[u8]) -> usize {
        let offset = bytes
            .as_ptr()
            .addr()
            .wrapping_sub(self.base.as_ptr().addr());
        assert!(offset <= self.len && bytes.len() <= self.len - offset);
        offset
    }

    /// The `len` bytes at `offset`, to be filled by the kernel or by a copy.
    /// Panics if they lie outside.
    ///
    /// # Safety
    /// As [`bytes`](Self::bytes); and the caller has no other reference to them.
    #[expect(clippy::mut_from_ref, reason = "shared memory has no unique owner")]
    #[inline]
    pub unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in bounds by the line above; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
