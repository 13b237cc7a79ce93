//! How long calls that wait for several descriptors wait, and how long they sleep at a time.

use crate::signals::SET_BYTES;
use crate::user::In;
use crate::vectors;
use libc::{sigset_t, timespec};
use longshore_sockets::{BLIND_SLEEP, Host, LONGEST_SLEEP, is_confined};
use std::time::Duration;

/// How long a call with this timeout waits at most, for ever without one; `None` if the
/// kernel refuses it, or where it is.
pub(crate) fn limit_of(timeout: In<'_, timespec>) -> Option<Option<Duration>> {
    if timeout.is_null() {
        return Some(None);
    }
    vectors::check(timeout, size_of::<timespec>()).ok()?;
    let t = timeout.get()?;
    let seconds = u64::try_from(t.tv_sec).ok()?;
    let nanos = u32::try_from(t.tv_nsec).ok();
    let nanos = nanos.filter(|n| *n < 1_000_000_000)?;
    Some(Some(Duration::new(seconds, nanos)))
}

/// Whether the mask of a call that waits is there, if it has one; the kernel refuses one that is not,
/// also where there is nothing to be waited for.
pub(crate) fn is_mask_there(mask: In<'_, sigset_t>) -> bool {
    mask.is_null() || vectors::check(mask, SET_BYTES).is_ok()
}

/// A time as the kernel has it.
pub(crate) fn timespec_of(time: Duration) -> timespec {
    timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// How long one sleep in the kernel may last, of the time that is left: not long
/// where nobody wakes us, or nothing tells us that the engine has died.
pub(crate) fn longest_sleep(
    host: &'static Host,
    watched: bool,
) -> impl Fn(Option<Duration>) -> Option<Duration> {
    move |left| {
        let longest = if !watched || host.is_short() {
            BLIND_SLEEP
        } else if is_confined() {
            LONGEST_SLEEP
        } else {
            return left;
        };
        Some(left.map_or(longest, |l| l.min(longest)))
    }
}
