//! A file of a program, mapped so that the kernel sends its bytes from the page cache.
//!
//! Whoever has the file may shorten it at any moment. The kernel then fails a system call that
//! is given bytes beyond its end with EFAULT; an access from here would be a SIGBUS. So the
//! mapping is only handed to system calls, and whoever has to see the bytes reads them by
//! [`MappedFile::read`]. `hostif` makes these.

use crate::SharedBytes;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// A file that is mapped for reading, until this is dropped.
#[derive(Debug)]
pub struct MappedFile {
    base: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is only read, by the kernel; any thread may unmap it.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the first `len` bytes of a file, more than none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(fd: OwnedFd, len: usize) -> Result<Self, Errno> {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choosing replaces nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, len, fd })
    }

    /// Bytes that are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none (never, for one that was mapped).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes at `at`, if they are mapped, for a system call alone: whatever else
    /// touches them ends the process with SIGBUS if the file has become shorter.
    #[must_use]
    pub fn for_the_kernel(&self, at: u64, len: usize) -> Option<SharedBytes<'_>> {
        let last = self.len.checked_sub(len)?;
        (at <= last as u64).then(|| {
            // SAFETY: within the mapping by the line above, which is there as long as `self`;
            // nobody has a reference to it.
            unsafe { SharedBytes::new(self.base.as_ptr().add(at as usize), len) }
        })
    }

    /// Reads the bytes at `at`, zeros where the file has none or cannot be read.
    pub fn read(&self, at: u64, to: &mut [u8]) {
        // SAFETY: a slice, which nobody else has.
        unsafe { self.read_to(at, to.as_mut_ptr(), to.len()) }
    }

    /// As `read`, for memory that others may have as well.
    ///
    /// # Safety
    /// `len` bytes are mapped at `to`, writable, and nobody has a reference to them.
    pub(crate) unsafe fn read_to(&self, at: u64, to: *mut u8, len: usize) {
        let mut done = 0;
        while done < len {
            let Ok(from) = libc::off_t::try_from(at.saturating_add(done as u64)) else {
                break;
            };
            // SAFETY: the rest of what the caller speaks of; the kernel writes there.
            let read =
                unsafe { libc::pread(self.fd.as_raw_fd(), to.add(done).cast(), len - done, from) };
            match usize::try_from(read) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) if Error::last_os_error().kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // SAFETY: as above.
        unsafe { to.add(done).write_bytes(0, len - done) };
    }
}

impl AsFd for MappedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: it was mapped here with this length; what was given of it has borrowed it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::testing::is_mapped;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::pipe::pipe;

    fn file(bytes: &[u8]) -> (OwnedFd, MappedFile) {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::pwrite(&fd, bytes, 0).unwrap();
        let mapped = MappedFile::map(fd.try_clone().unwrap(), bytes.len()).unwrap();
        (fd, mapped)
    }

    fn written(bytes: &SharedBytes<'_>) -> Result<Vec<u8>, Errno> {
        let (reader, writer) = pipe().unwrap();
        // SAFETY: they go to the kernel.
        let slices = unsafe { SharedBytes::io_slices(std::slice::from_ref(bytes)) };
        let len = rustix::io::writev(&writer, slices)?;
        let mut got = vec![0; len];
        rustix::io::read(&reader, &mut got[..]).unwrap();
        Ok(got)
    }

    #[test]
    fn the_kernel_takes_what_is_mapped_and_nothing_else_is_given() {
        let (_fd, mapped) = file(b"abcdefgh");
        let bytes = mapped.for_the_kernel(2, 6).unwrap();
        assert_eq!(written(&bytes).unwrap(), b"cdefgh");
        assert_eq!((mapped.len(), mapped.is_empty()), (8, false));
        assert!(mapped.for_the_kernel(3, 6).is_none());
        assert!(mapped.for_the_kernel(u64::MAX, 1).is_none());
        assert!(mapped.for_the_kernel(0, 9).is_none());
    }

    #[test]
    fn a_file_that_was_shortened_is_an_error_of_the_call_and_reads_as_zeros() {
        let (fd, mapped) = file(&[7; 20_000]);
        ftruncate(&fd, 5).unwrap();
        let beyond = mapped.for_the_kernel(8192, 100).unwrap();
        assert_eq!(written(&beyond), Err(Errno::FAULT));
        let mut got = [9; 8];
        mapped.read(0, &mut got);
        assert_eq!(got, [7, 7, 7, 7, 7, 0, 0, 0]);
        mapped.read(1 << 40, &mut got);
        assert_eq!(got, [0; 8]);
    }

    #[test]
    fn a_file_is_mapped_until_it_is_dropped() {
        let fd = memfd_create("longshore-test-file", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&fd, b"abc").unwrap();
        let mapped = MappedFile::map(fd, 3).unwrap();
        assert!(is_mapped("longshore-test-file"));
        drop(mapped);
        assert!(!is_mapped("longshore-test-file"));
    }

    /// Into shared memory, and nothing beside it.
    #[test]
    fn a_file_is_read_into_shared_memory() {
        let (_fd, file) = file(b"0123456789");
        let memory = crate::SharedMemory::create("test", 4096).unwrap();
        memory.write(100, &[b'.'; 12]);
        memory.read_file(&file, 6, 101, 10);
        let mut got = [0; 12];
        memory.read(100, &mut got);
        assert_eq!(&got, b".6789\0\0\0\0\0\0.");
    }
}
