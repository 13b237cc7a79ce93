//! Places in shared memory that the kernel fills while other processes may access them.
//!
//! They are never a `&mut [u8]` outside of this file, which would promise that nobody else
//! looks at them. `SharedMemory` has the memory; the adapter's half of the interface gives
//! the places of a receive stream so, and ports have frames' payload read to them.

use crate::SharedMemory;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// The most places in one [`SharedRooms`].
const MOST: usize = 2;

/// Up to two places in shared memory, as one place that is filled from its beginning. They may
/// change between two accesses.
#[derive(Debug, Clone, Copy)]
pub struct SharedRooms<'a> {
    rooms: [(NonNull<u8>, usize); MOST],
    count: usize,
    memory: PhantomData<&'a SharedMemory>,
}

impl Default for SharedRooms<'_> {
    fn default() -> Self {
        Self {
            rooms: [(NonNull::dangling(), 0); MOST],
            count: 0,
            memory: PhantomData,
        }
    }
}

impl<'a> SharedRooms<'a> {
    /// Adds the `len` bytes at `offset` of a memory; `false` if there are two places already.
    /// Panics if they lie outside.
    #[must_use]
    pub fn push(&mut self, memory: &'a SharedMemory, offset: usize, len: usize) -> bool {
        let base = memory.place(offset, len);
        let Some(room) = self.rooms.get_mut(self.count) else {
            return false;
        };
        *room = (base, len);
        self.count += 1;
        true
    }

    fn iter(&self) -> impl Iterator<Item = (NonNull<u8>, usize)> + '_ {
        self.rooms.iter().copied().take(self.count)
    }

    /// The number of bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().map(|(_, len)| len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `from` to the beginning. Panics if there is too little room.
    pub fn fill(&self, from: &[u8]) {
        assert!(from.len() <= self.len());
        let mut rest = from;
        for (base, len) in self.iter() {
            let (now, later) = rest.split_at(len.min(rest.len()));
            // SAFETY: `push` has checked that there are `len` bytes, which stay mapped for
            // `'a`; the source is private memory. A race with another process only changes
            // the bytes that it reads.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), base.as_ptr(), now.len()) };
            rest = later;
        }
    }

    /// Copies the present bytes of the beginning out, as many as `to` has. Panics if there are
    /// fewer.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() <= self.len());
        let mut rest = to;
        for (base, len) in self.iter() {
            let (now, later) = rest.split_at_mut(len.min(rest.len()));
            // SAFETY: as in `fill`, the other way. If another process writes meanwhile, only
            // the copy is affected.
            unsafe { std::ptr::copy_nonoverlapping(base.as_ptr(), now.as_mut_ptr(), now.len()) };
            rest = later;
        }
    }

    /// Reads from `fd` with one system call, first to `head`, then to these places, then to
    /// `tail`; returns the bytes in all.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn read_around(
        &self,
        fd: impl AsFd,
        head: &mut [u8],
        tail: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut all: [IoSliceMut<'_>; MOST + 2] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut used = 1;
        all[0] = IoSliceMut::new(head);
        for (base, len) in self.iter() {
            // SAFETY: `push` has checked that there are `len` bytes, which stay mapped for
            // `'a`. The slice is passed to the kernel and nobody looks at its bytes; another
            // process that accesses them meanwhile only changes what it reads itself, or what
            // `copy_to` copies later.
            let bytes = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
            all[used] = IoSliceMut::new(bytes);
            used += 1;
        }
        if !tail.is_empty() {
            all[used] = IoSliceMut::new(tail);
            used += 1;
        }
        rustix::io::readv(fd, &mut all[..used])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes(memory: &SharedMemory, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        memory.read(offset, &mut bytes);
        bytes
    }

    #[test]
    fn two_places_are_filled_and_read_as_one() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        let mut rooms = SharedRooms::default();
        assert!(rooms.is_empty());
        rooms.fill(b"");
        assert!(rooms.push(&memory, 8188, 4) && rooms.push(&memory, 100, 3));
        assert!(!rooms.push(&memory, 0, 1), "there are two");
        assert_eq!((rooms.len(), rooms.is_empty()), (7, false));
        rooms.fill(b"abcdefg");
        assert_eq!(bytes(&memory, 8188, 4), b"abcd");
        assert_eq!(bytes(&memory, 99, 5), b"\0efg\0");
        for len in [0, 2, 4, 6, 7] {
            let mut got = vec![0; len];
            rooms.copy_to(&mut got);
            assert_eq!(got, b"abcdefg"[..len]);
        }
        rooms.fill(b"xy");
        assert_eq!(bytes(&memory, 8188, 4), b"xycd");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn more_than_there_is_room_for_is_refused() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let mut rooms = SharedRooms::default();
        assert!(rooms.push(&memory, 0, 3));
        rooms.fill(b"abcd");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn no_more_is_copied_than_there_is() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let mut rooms = SharedRooms::default();
        assert!(rooms.push(&memory, 0, 3));
        rooms.copy_to(&mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn a_place_beyond_the_memory_is_refused() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let _ = SharedRooms::default().push(&memory, 4090, 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no pipes")]
    fn what_is_read_goes_before_into_and_behind_them() {
        let (from, to) = std::io::pipe().unwrap();
        let memory = SharedMemory::create("test", 4096).unwrap();
        let mut rooms = SharedRooms::default();
        assert!(rooms.push(&memory, 10, 3) && rooms.push(&memory, 0, 2));
        let (mut head, mut tail) = ([0; 2], [0; 4]);
        rustix::io::write(&to, b"12abcde789").unwrap();
        assert_eq!(rooms.read_around(&from, &mut head, &mut tail), Ok(10));
        assert_eq!((&head, &tail), (b"12", b"789\0"));
        assert_eq!(bytes(&memory, 0, 14), b"de\0\0\0\0\0\0\0\0abc\0");
        rustix::io::write(&to, b"34vwxyz0").unwrap();
        assert_eq!(rooms.read_around(&from, &mut head, &mut []), Ok(7));
        assert_eq!((&head, bytes(&memory, 0, 2)), (b"34", b"yz".to_vec()));
    }
}
