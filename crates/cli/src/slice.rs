//! How long the engine may run at a time, as far as the scheduler is asked.
//!
//! The engine works in short bursts and gives way after each. Linux charges who yields
//! for a whole time slice; and where all share one processor, the engine yields twice in
//! an exchange of two packets and its program once. A fair scheduler evens that out: it
//! runs the program a second time, for nothing. With half the usual slice both are
//! charged the same.

use std::mem::zeroed;

/// The part of the usual slice.
const SHARE: u64 = 2;

/// The beginning of the kernel's `struct sched_attr`, sched_setattr(2): what the first
/// version had, which all kernels take.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Nanoseconds; for SCHED_OTHER the slice, 0 where the kernel has none.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for short slices for this thread. Kernels that know none leave it as it is.
pub(crate) fn shorten() {
    const SIZE: u32 = size_of::<Attributes>() as u32;
    // SAFETY: plain numbers, for which zero is a value.
    let mut attributes: Attributes = unsafe { zeroed() };
    // SAFETY: room for `SIZE` bytes, which the kernel is told of.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, SIZE, 0) };
    let ordinary = attributes.policy == libc::SCHED_OTHER as u32;
    if failed != 0 || !ordinary || attributes.runtime == 0 {
        return;
    }
    attributes.size = SIZE;
    attributes.runtime /= SHARE;
    // SAFETY: `SIZE` bytes, as the first of them say.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
}
