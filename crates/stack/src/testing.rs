//! Panics where a test wants them, and servers for a stack's link; in no build but those of tests.

#[allow(
    clippy::indexing_slicing,
    reason = "what it is asked is a test's, and no wire's"
)]
pub mod dhcp_server;

use std::cell::Cell;

/// What such a panic says.
#[derive(Debug)]
pub struct Wanted;

/// Panics that are to come.
#[derive(Debug, Clone, Copy)]
struct Plan {
    at: At,
    /// So many accesses are still let through, and so many after them panic.
    left: u32,
    times: u32,
    /// The end of a session panics after that, so often.
    then_ends: u32,
}

/// What the accesses are to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The sockets of this session.
    Session(u32),
    /// The table of half-open connections, of which one is taken out.
    HalfOpen,
    /// The sockets of this session, as lists and timers are made anew.
    Listed(u32),
    /// Half-open connections, at the same.
    HalfOpenListed,
    /// The sockets of this session, as others let go of what they kept for them.
    Parted(u32),
    /// A session that ends for a panic.
    Ended,
}

impl Plan {
    fn new(at: At, left: u32, times: u32) -> Self {
        Self {
            at,
            left,
            times,
            then_ends: 0,
        }
    }
}

thread_local! {
    static NEXT: Cell<Option<Plan>> = const { Cell::new(None) };
}

/// In this thread, the access to a socket of `session` after `accesses` others panics, once.
pub fn panic_in(session: u32, accesses: u32) {
    panic_again_in(session, accesses, 1);
}

/// The same so many times, one after the other.
pub fn panic_again_in(session: u32, accesses: u32, times: u32) {
    let (at, left) = (At::Session(session), accesses);
    NEXT.set(Some(Plan::new(at, left, times)));
}

/// Panics once at that access, and so many times more when the session ends for it.
pub fn panic_in_and_as_it_ends(session: u32, accesses: u32, ends: u32) {
    NEXT.set(Some(Plan {
        then_ends: ends,
        ..Plan::new(At::Session(session), accesses, 1)
    }));
}

/// In this thread, it panics once when half-open connections are taken out of their table,
/// after so many steps of that: each takes two.
pub fn panic_in_half_open(steps: u32) {
    let (at, left, times) = (At::HalfOpen, steps, 1);
    NEXT.set(Some(Plan::new(at, left, times)));
}

/// In this thread, it panics once when the lists and timers of a session's sockets are made anew
/// after a panic, after so many of them.
pub fn panic_as_it_is_listed(session: u32, sockets: u32) {
    let (at, left, times) = (At::Listed(session), sockets, 1);
    NEXT.set(Some(Plan::new(at, left, times)));
}

/// As `panic_as_it_is_listed`, of half-open connections.
pub fn panic_as_half_open_is_listed(connections: u32) {
    let (at, left, times) = (At::HalfOpenListed, connections, 1);
    NEXT.set(Some(Plan::new(at, left, times)));
}

/// In this thread, it panics once when a session's sockets were taken out and others let go of
/// what they kept for them, after so many of them.
pub fn panic_as_it_parts(session: u32, sockets: u32) {
    let (at, left, times) = (At::Parted(session), sockets, 1);
    NEXT.set(Some(Plan::new(at, left, times)));
}

/// Nothing panics any more; how many accesses would have been let through until then, if one
/// would have.
pub fn panic_no_more() -> Option<u32> {
    NEXT.take().map(|plan| plan.left)
}

/// A socket is about to be changed.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn access(session: Option<u32>) {
    if let Some(session) = session {
        step(At::Session(session));
    }
}

/// A half-open connection is about to be taken out of its table, or of its queue.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn half_open_goes() {
    step(At::HalfOpen);
}

/// A socket is about to be put on the lists anew.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn lists_anew(session: u32) {
    step(At::Listed(session));
}

/// A half-open connection is about to be put on the lists anew.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn lists_half_open_anew() {
    step(At::HalfOpenListed);
}

/// A socket was taken out, and others are about to let go of what they kept for it.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn parts_with(session: u32) {
    step(At::Parted(session));
}

/// A session is about to end for a panic.
#[cfg_attr(
    feature = "counted",
    allow(dead_code, reason = "what is counted is what the product does")
)]
pub(crate) fn session_ends() {
    step(At::Ended);
}

fn step(at: At) {
    let Some(plan) = NEXT.get().filter(|plan| plan.at == at) else {
        return;
    };
    let next = if plan.left != 0 {
        Some(Plan {
            left: plan.left - 1,
            ..plan
        })
    } else {
        let times = plan.times - 1;
        let ends = || (plan.then_ends != 0).then(|| Plan::new(At::Ended, 0, plan.then_ends));
        (times != 0).then_some(Plan { times, ..plan }).or_else(ends)
    };
    NEXT.set(next);
    if plan.left == 0 {
        // Without a word to the operator of the test.
        std::panic::resume_unwind(Box::new(Wanted));
    }
}
