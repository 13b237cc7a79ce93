//! Memory of the shim's own that is not malloc's, mapped for it alone.
//!
//! For what is made where malloc may not be called, what is measured or copied in whole pages,
//! and what this process shares with its children.

use crate::user::{Out, Word};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr;

/// Memory to be read and written, which is unmapped when this goes.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: Out<'static, u8>,
    len: usize,
}

// SAFETY: nothing in it is of one thread.
unsafe impl Send for Mapping {}

const BOTH: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(len: usize, flags: MapFlags) -> Result<Self, Errno> {
        let flags = flags.difference(MapFlags::FIXED);
        // SAFETY: new memory, where nothing else is.
        let at = unsafe { Out::new(mmap_anonymous(ptr::null_mut(), len, BOTH, flags)?.cast()) };
        Ok(Self { at, len })
    }

    /// The first bytes of a file, which has so many, to which nobody else writes while they
    /// are looked at here.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn of(file: impl AsFd, len: usize, flags: MapFlags) -> Result<Self, Errno> {
        let flags = flags.difference(MapFlags::FIXED);
        // SAFETY: as above.
        let at = unsafe { Out::new(mmap(ptr::null_mut(), len, BOTH, flags, file, 0)?.cast()) };
        Ok(Self { at, len })
    }

    /// The address of its first byte.
    pub(crate) fn address(&self) -> usize {
        self.at.word()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.at.as_in().slice(self.len)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.at.slice_mut(self.len)
    }

    /// Puts memory behind these of its bytes, without changing any.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn populate(&mut self, range: Range<usize>) -> Result<(), Errno> {
        let part = &mut self.bytes_mut()[range];
        // SAFETY: within it, and it changes no byte.
        unsafe {
            madvise(
                part.as_mut_ptr().cast(),
                part.len(),
                Advice::LinuxPopulateWrite,
            )
        }
    }

    /// It stays for as long as the process lives.
    pub(crate) fn leak(self) -> Out<'static, u8> {
        ManuallyDrop::new(self).at
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let at = ptr::with_exposed_provenance_mut(self.address());
        // SAFETY: mapped for this alone, and nobody has it any more.
        let _ = unsafe { munmap(at, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zeros_and_keeps_what_is_put_there() {
        let mut memory = Mapping::new(100, MapFlags::PRIVATE).unwrap();
        assert!(memory.bytes().len() == 100 && memory.bytes().iter().all(|b| *b == 0));
        memory.bytes_mut()[99] = 7;
        memory.populate(0..100).unwrap();
        assert_eq!(memory.bytes()[99], 7);
        let leaked = memory.leak();
        assert_eq!(leaked.add(99).get(), Some(7));
    }

    #[test]
    fn it_shows_a_file() {
        let file = rustix::fs::memfd_create("shown", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, b"abc").unwrap();
        let mut memory = Mapping::of(&file, 3, MapFlags::SHARED).unwrap();
        assert_eq!(memory.bytes(), b"abc");
        memory.bytes_mut()[1] = b'-';
        let mut read = [0; 3];
        rustix::io::pread(&file, &mut read, 0).unwrap();
        assert_eq!(&read, b"a-c");
    }
}
