//! What POSIX, and Linux beyond it, mean for sockets of the engine: which descriptors are
//! such sockets ([`descriptors`]), and which options they have ([`options`]).
//!
//! Nothing here knows how a program's calls are caught: that, C's pointers and libc's own
//! functions are `preload`'s, which calls this crate with typed arguments. So a second way of
//! catching calls can stand on it. It makes no system call, and has no unsafe code.

#![forbid(unsafe_code)]

pub mod descriptors;
pub mod options;
