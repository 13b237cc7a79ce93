//! The POSIX shim for unmodified programs: libc's socket calls on the host library.
