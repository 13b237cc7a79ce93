//! System calls that the program makes itself, without libc: as Go's runtime does, Rust's rustix,
//! and Zig's standard library.
//!
//! The kernel does not make such a call, but raises SIGSYS for it (syscall user dispatch): for each
//! that does not come from above the program, where its libraries lie. `caught` has the thread go
//! on in `entry`, on a stack of ours (`stacks`), as that of a goroutine may be too small. What
//! concerns the shim `calls::own_calls` makes, and all else the kernel; the registers are then as
//! after a system call.
//!
//! Begun (`dispatch`) by `calls::exec` before the program begins, if `program` finds that it makes
//! such calls; then by `calls::threads` in each thread, and by `calls::fork` in a child, where the
//! kernel ends it, as it does at exec.
//!
//! On other processors the kernel does not do so.

#[cfg(target_arch = "x86_64")]
mod caught;
#[cfg(target_arch = "x86_64")]
mod dispatch;
#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod frame;
#[cfg(target_arch = "x86_64")]
mod own_action;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod stacks;
#[cfg(not(target_arch = "x86_64"))]
mod unserved;

#[cfg(target_arch = "x86_64")]
pub(crate) use caught::Serves;
#[cfg(target_arch = "x86_64")]
pub(crate) use dispatch::{are_served, begin, begin_thread, restorer};
#[cfg(target_arch = "x86_64")]
pub(crate) use frame::Frame;
#[cfg(target_arch = "x86_64")]
pub(crate) use own_action::exchange;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use unserved::{are_served, begin_thread, exchange, restorer};
