//! A short sleep that is no cancellation point.
//!
//! Called where something is looked at again after a moment.

use rustix::time::Timespec;
use std::time::Duration;

/// Sleeps for less than a second. libc's functions that do so are cancellation points, at which a
/// thread that was cancelled would end.
pub fn pause(time: Duration) {
    let _ = rustix::thread::nanosleep(&Timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    });
}
