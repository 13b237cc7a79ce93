//! Parts of shared memory whose bounds are checked once, when they are made.
//!
//! What is touched for each descriptor ([`SharedArray`]) is then found by its index alone. The
//! layouts of `hostif` make these when memory is mapped.

use super::{Mapping, Shared, SharedMemory};
use std::ops::Index;
use std::ptr::NonNull;
use std::sync::Arc;

/// Values side by side in shared memory. It keeps the memory mapped.
#[derive(Debug)]
pub struct SharedArray<T> {
    first: NonNull<T>,
    len: usize,
    /// Never read: it keeps the memory mapped.
    _mapping: Arc<Mapping>,
}

// SAFETY: as for `SharedMemory`.
unsafe impl<T: Shared> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for SharedArray<T> {}

impl SharedMemory {
    /// The `count` of `T` from `offset` bytes on, to be kept. Panics as [`at`](Self::at) does.
    pub fn keep<T: Shared>(&self, offset: usize, count: usize) -> SharedArray<T> {
        let _checked = self.array::<T>(offset, count);
        SharedArray {
            // SAFETY: in bounds by the line above. Not by that reference: what is found by its
            // pointer would be held against it each time.
            first: unsafe { self.base.add(offset) }.cast(),
            len: count,
            _mapping: self.mapping.clone(),
        }
    }
}

impl<T: Shared> SharedArray<T> {
    /// The value of this index, if there is one. No reference is made to the others: the whole
    /// may be megabytes.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: `SharedMemory::keep` has checked bounds and alignment, and the memory is
        // mapped as long as this is there; `Shared` types are valid for every bit pattern and
        // are changed through atomics alone.
        (index < self.len).then(|| unsafe { self.first.add(index).as_ref() })
    }
}

impl<T: Shared> Index<usize> for SharedArray<T> {
    type Output = T;

    /// The value of this index. Panics if there is none.
    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.get(index) {
            Some(value) => value,
            None => out_of_range(index, self.len),
        }
    }
}

/// By itself: a message in place has both numbers written to memory at each access.
#[cold]
#[inline(never)]
fn out_of_range(index: usize, len: usize) -> ! {
    panic!("{index} of {len} values")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_array_has_its_part_and_outlives_its_memory() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        let pairs = memory.keep::<[AtomicU32; 2]>(4096, 3);
        memory
            .at::<AtomicU32>(4096 + 12)
            .store(7, Ordering::Relaxed);
        drop(memory);
        assert_eq!(pairs[1][1].load(Ordering::Relaxed), 7);
        pairs[2][1].store(8, Ordering::Relaxed);
        assert!(pairs.get(3).is_none());
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn an_array_beyond_its_memory_is_refused() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let _ = memory.keep::<AtomicU32>(4, 1024);
    }
}
