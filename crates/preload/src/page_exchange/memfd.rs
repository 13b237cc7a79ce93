//! Memory with a file behind it, of which pages are mapped.
//!
//! Called by `sending`, which has one, and by `cost`, to measure.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Resource, getrlimit};
use std::os::fd::OwnedFd;

/// A file of `len` bytes. `None` if the process may not have it: to make a file longer
/// than it may write (RLIMIT_FSIZE) would end the process.
pub(super) fn create(name: &str, len: u64) -> Option<OwnedFd> {
    if getrlimit(Resource::Fsize)
        .current
        .is_some_and(|most| most < len)
    {
        return None;
    }
    let file = memfd_create(name, MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, len).ok()?;
    Some(file)
}
