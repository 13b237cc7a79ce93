//! `mlockall`, which would otherwise fill the arena.
//!
//! The arena is some gigabytes of address space of which only the pages in use
//! have memory behind them. Locking all that a program maps would put memory
//! behind all of it, at once.

use crate::real;
use libc::c_int;

/// `mlockall(2)`, with each page locked when it is first touched and not
/// before. What was locked is never paged out, as promised; what is touched for
/// the first time faults once.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mlockall(flags: c_int) -> c_int {
    let flags = if flags & (libc::MCL_CURRENT | libc::MCL_FUTURE) != 0 {
        flags | libc::MCL_ONFAULT as c_int
    } else {
        flags
    };
    real::mlockall(flags)
}
