//! A filter of system calls (seccomp(2)), as a typed argument.

use super::In;
use libc::{sock_filter, sock_fprog};
use std::mem::offset_of;

/// The kernel's `struct sock_fprog`: how many steps, and where.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter<'a> {
    len: u16,
    steps: In<'a, sock_filter>,
}

const _: () = assert!(size_of::<Filter<'_>>() == size_of::<sock_fprog>());
const _: () = assert!(offset_of!(Filter<'_>, len) == offset_of!(sock_fprog, len));
const _: () = assert!(offset_of!(Filter<'_>, steps) == offset_of!(sock_fprog, filter));

impl<'a> Filter<'a> {
    /// One of these steps, of which no more are named than it can count.
    pub(crate) fn of(steps: &'a [sock_filter]) -> Self {
        Self {
            len: u16::try_from(steps.len()).unwrap_or(u16::MAX),
            steps: In::from(steps),
        }
    }

    /// How many steps it has.
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// Where they are, or are said to be.
    pub(crate) fn place(&self) -> In<'a, sock_filter> {
        self.steps
    }

    /// Its steps, which are there.
    pub(crate) fn steps(&self) -> &'a [sock_filter] {
        self.steps.slice(self.len())
    }
}
