//! What tests need to know of the kernel: when a thread sleeps, and what is mapped.

use rustix::thread::{Pid, gettid};
use std::fs::read_to_string;
use std::sync::mpsc::channel;
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};

/// Longer than anything takes that is waited for.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Whether a thread of this process sleeps in a system call, where a signal would end that.
pub(crate) fn is_asleep(thread: Pid) -> bool {
    let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let stat = read_to_string(stat).unwrap_or_default();
    // The state follows the name, which is in parentheses.
    stat.rsplit(") ")
        .next()
        .is_some_and(|state| state.starts_with('S'))
}

/// Whether this process has memory mapped of which the kernel says this.
pub(crate) fn is_mapped(as_this: &str) -> bool {
    read_to_string("/proc/self/maps").unwrap().contains(as_this)
}

/// Waits until it is so.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "it never is");
        yield_now();
    }
}

/// What `sleep` returns in a thread of its own, where `then` is called with that once it sleeps,
/// or has returned at once.
pub(crate) fn while_asleep<T: Send>(sleep: impl FnOnce() -> T + Send, then: impl FnOnce(Pid)) -> T {
    let (tell, told) = channel();
    scope(|scope| {
        let sleeper = scope.spawn(move || {
            tell.send(gettid()).unwrap();
            sleep()
        });
        let thread = told.recv().unwrap();
        until(|| is_asleep(thread) || sleeper.is_finished());
        then(thread);
        sleeper.join().unwrap()
    })
}
