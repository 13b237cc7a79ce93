//! The pages of shared memory: a mapped, sealed memfd; or, under Miri, which has no
//! shared mappings, memory of this process that no other process can map.

#[cfg(not(miri))]
pub(super) use kernel::{are_ours, make, map, populate, release, unmap};
#[cfg(miri)]
pub(super) use process::{are_ours, make, map, populate, release, unmap};

#[cfg(not(miri))]
mod kernel {
    use rustix::fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
        ftruncate, memfd_create,
    };
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
    use std::os::fd::OwnedFd;
    use std::ptr::NonNull;

    /// Creates `len` bytes of zeroed memory that cannot be resized.
    pub(in crate::shm) fn make(name: &str, len: usize) -> Result<OwnedFd, Errno> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(fd)
    }

    /// Whether it is such memory.
    pub(in crate::shm) fn are_ours(fd: &OwnedFd, len: usize) -> bool {
        let sealed = fcntl_get_seals(fd).is_ok_and(|s| s.contains(SealFlags::SHRINK));
        sealed && fstat(fd).is_ok_and(|s| s.st_size as u64 == len as u64)
    }

    pub(in crate::shm) fn map(fd: &OwnedFd, len: usize) -> Result<NonNull<u8>, Errno> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choosing
        // replaces nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }?;
        NonNull::new(base.cast()).ok_or(Errno::NOMEM)
    }

    /// # Safety
    /// It was mapped here with this length, and is no longer used.
    pub(in crate::shm) unsafe fn unmap(base: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        let _ = unsafe { munmap(base.as_ptr().cast(), len) };
    }

    /// # Safety
    /// It lies in a mapping.
    pub(in crate::shm) unsafe fn populate(page: NonNull<u8>) {
        let advice = Advice::LinuxPopulateWrite;
        // SAFETY: the caller's promise; what is in it stays.
        let _ = unsafe { madvise(page.as_ptr().cast(), 1, advice) };
    }

    /// Discards a part of it, for all processes that have mapped it.
    pub(in crate::shm) fn release(
        fd: &OwnedFd,
        _: NonNull<u8>,
        offset: usize,
        len: usize,
    ) -> Result<(), Errno> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(fd, hole, offset as u64, len as u64)
    }
}

#[cfg(miri)]
mod process {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::Errno;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::os::fd::OwnedFd;
    use std::ptr::NonNull;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), 4096).expect("a length that can be mapped")
    }

    /// Any valid descriptor.
    pub(in crate::shm) fn make(_: &str, _: usize) -> Result<OwnedFd, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC)
    }

    /// There is no other mapping of the same memory.
    pub(in crate::shm) fn are_ours(_: &OwnedFd, _: usize) -> bool {
        false
    }

    pub(in crate::shm) fn map(_: &OwnedFd, len: usize) -> Result<NonNull<u8>, Errno> {
        // SAFETY: the layout is of at least one byte.
        NonNull::new(unsafe { alloc_zeroed(layout(len)) }).ok_or(Errno::NOMEM)
    }

    /// # Safety
    /// As the kernel's.
    pub(in crate::shm) unsafe fn unmap(base: NonNull<u8>, len: usize) {
        // SAFETY: it was allocated with this layout, and is no longer used, by the
        // caller's promise.
        unsafe { dealloc(base.as_ptr(), layout(len)) };
    }

    /// # Safety
    /// As the kernel's.
    pub(in crate::shm) unsafe fn populate(_: NonNull<u8>) {}

    pub(in crate::shm) fn release(
        _: &OwnedFd,
        base: NonNull<u8>,
        offset: usize,
        len: usize,
    ) -> Result<(), Errno> {
        // SAFETY: inside, as the caller has checked; the memory is reached by copies and
        // atomics alone.
        unsafe { base.add(offset).write_bytes(0, len) };
        Ok(())
    }
}
