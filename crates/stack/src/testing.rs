//! Panics where a test wants them; in no build but those of tests.

use crate::socket::Socket;
use std::cell::Cell;

/// What such a panic says.
#[derive(Debug)]
pub struct Wanted;

thread_local! {
    /// The session, and how many accesses to its sockets are still let through.
    static NEXT: Cell<Option<(u32, u32)>> = const { Cell::new(None) };
}

/// In this thread, the access to a socket of `session` after `accesses` others panics, once.
pub fn panic_in(session: u32, accesses: u32) {
    NEXT.set(Some((session, accesses)));
}

/// Nothing panics any more; how many accesses would have been let through until then, if one
/// would have.
pub fn panic_no_more() -> Option<u32> {
    NEXT.take().map(|(_, left)| left)
}

/// A socket is about to be changed.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn access(socket: Option<&Socket>) {
    let Some((session, left)) = NEXT.get() else {
        return;
    };
    if socket.is_none_or(|s| s.session != session) {
        return;
    }
    NEXT.set(left.checked_sub(1).map(|left| (session, left)));
    if left == 0 {
        // Without a word to the operator of the test.
        std::panic::resume_unwind(Box::new(Wanted));
    }
}
