//! `fork`, by the handlers that libc runs around it, and `vfork`, which is a
//! fork here: the child of a real one would run in our memory.
//!
//! No signal handler runs while the locks of the process are held for the fork: it would
//! find none of its sockets in order. On either side signals come when they are free.
//!
//! A child has the memory of its parent as it is at that moment, and none of its threads: what
//! another thread was changing would stay half changed in the child, and locked. So this thread
//! holds all of it meanwhile, however the child is made, as long as it is made here.

use crate::calls::{errno, set_errno};
use crate::epoll::apart::HeldLists;
use crate::signals::{Held, prepare, within};
use crate::user::{Out, Run};
use crate::{cancel, epoll, fds, kept, namespace, own_calls, page_exchange, place, real, state};
use libc::{c_int, c_long, c_void, pid_t};
use longshore_sockets::{Forking, HeldSets, Host, OnlyThread, Reservation, ReservationName};
use std::cell::{Cell, RefCell};

thread_local! {
    static FORKING: RefCell<Option<(Option<Forking>, HeldLists, Held)>> =
        const { RefCell::new(None) };
    /// Nothing is kept where it lies until the fork is over.
    static STOPPED: RefCell<kept::Stopped> = const { RefCell::new((None, None)) };
    /// What this thread's last fork has reserved for its child.
    static RESERVED: Cell<Option<Reservation>> = const { Cell::new(None) };
}

extern "C" fn before() {
    cancel::held(make_ready);
}

fn make_ready() {
    // First, as a handler would find the heap taken.
    let held = Held::all();
    epoll::apart::before_fork();
    fds::share_undecided();
    let stopped = kept::before_fork();
    let host = place::attached();
    if host.is_some() || epoll::are_there() {
        let lists = epoll::apart::hold_lists();
        let forking = host.map(Host::before_fork);
        let _ = STOPPED.try_with(|s| s.replace(stopped));
        let _ = FORKING.try_with(|f| f.replace(Some((forking, lists, held))));
    }
}

fn forking() -> Option<(Option<Forking>, HeldLists, Held)> {
    FORKING.try_with(RefCell::take).ok().flatten()
}

extern "C" fn in_parent() {
    if let Some((forking, lists, held)) = forking() {
        let reserved = forking.and_then(Forking::in_parent);
        let _ = RESERVED.try_with(|r| r.set(reserved));
        drop(STOPPED.try_with(RefCell::take));
        drop(lists);
        drop(held);
    }
}

extern "C" fn in_child() {
    cancel::held(begin_child);
}

fn begin_child() {
    // SAFETY: libc has made this child with the thread that has called `fork`.
    let only = unsafe { OnlyThread::new() };
    state::in_child(&only);
    own_calls::begin_thread();
    if let Some((forking, lists, held)) = forking() {
        drop(lists);
        epoll::apart::in_child(&only);
        if let Some(forking) = forking {
            place::own(forking.in_child(&only, fds::counts().into_iter()));
        }
        if let Ok(stopped) = STOPPED.try_with(RefCell::take) {
            kept::in_child(stopped);
        }
        drop(held);
    }
}

unsafe extern "C" {
    safe fn pthread_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
    ) -> c_int;
}

/// Has libc call us around each fork.
pub(crate) fn install() {
    pthread_atfork(before, in_parent, in_child);
}

/// `fork(2)`. The parent's handler does not know the child yet; here it is known.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fork() -> pid_t {
    let child = real::fork();
    if child > 0 {
        within(|| {
            if let Some(reserved) = RESERVED.try_with(Cell::take).ok().flatten() {
                reserved.is_for(child as u32);
            }
        });
    }
    child
}

/// `__fork`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __fork() -> pid_t {
    fork()
}

/// `__vfork`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __vfork() -> pid_t {
    fork()
}

/// `_Fork(3)`, which calls no handlers.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _Fork() -> pid_t {
    unhandled(0, real::_Fork)
}

/// What the process has, as it is while a child is made without the handlers of `fork`. Signals
/// come when all else is let go of, on either side: fields are dropped from the first on.
struct HeldForChild {
    _sets: Option<HeldSets>,
    _lists: HeldLists,
    _signals: Held,
}

impl HeldForChild {
    fn new() -> Self {
        let signals = Held::all();
        let lists = epoll::apart::hold_lists();
        let sets = place::attached_already().map(Host::hold_sets);
        Self {
            _sets: sets,
            _lists: lists,
            _signals: signals,
        }
    }
}

/// Has `make` make a child without the handlers of `fork`. What this process has stays held
/// for it, until its own copy of the shim finds out that it is another process now
/// ([`place::attached`]), or is loaded anew. Whatever the child may do in its first steps
/// is done in the parent. `flags` are those of `clone`, none for a fork.
pub(crate) fn unhandled<T: Copy + Into<i64>>(flags: u64, make: impl FnOnce() -> T) -> T {
    held_by(flags, |held, reserved| {
        let child = make();
        drop(held);
        if child.into() == 0 {
            begin_unhandled(reserved);
        }
        child
    })
}

/// In a child that was made without the handlers of `fork`.
fn begin_unhandled(reserved: Option<ReservationName>) {
    place::reserved_is(reserved);
    own_calls::begin_thread();
}

/// As `unhandled`, where `make` lets go on either side of what it is given, and begins the child
/// with the name of what is reserved for it.
fn held_by<T: Copy + Into<i64>>(
    flags: u64,
    make: impl FnOnce(Option<HeldForChild>, Option<ReservationName>) -> T,
) -> T {
    let reserved = prepare(|| {
        cancel::held(|| {
            epoll::apart::before_fork();
            fds::share_undecided();
            kept::leave_all();
            place::attached_already()?.reserve_channel()
        })
    });
    let name = reserved.and_then(Reservation::name);
    let child = make((!waits_for_child(flags)).then(HeldForChild::new), name);
    let child_pid: i64 = child.into();
    within(|| child_is_made(child_pid, reserved));
    child
}

/// What was reserved for a child is its own, or nobody's if it was not made.
fn child_is_made(child: i64, reserved: Option<Reservation>) {
    if child > 0 {
        // What another thread has made and used meanwhile.
        cancel::held(kept::leave_all);
    }
    if let Some(reservation) = reserved {
        match child {
            // This is the child, and the reservation its parent's.
            0 => {}
            pid @ 1.. => reservation.give_to(pid as u32),
            _ => {
                let errno = errno();
                reservation.release();
                set_errno(errno);
            }
        }
    }
}

/// Flags of a process that is made in the memory of its parent, which waits until it has
/// gone on to another program: as with [`vfork`], it gets a copy, because what it closes
/// would be closed in the parent's tables.
fn without_shared_memory(flags: u64) -> u64 {
    const BORROWS: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    const SHARES: u64 = (libc::CLONE_THREAD | libc::CLONE_FILES) as u64;
    if flags & BORROWS == BORROWS && flags & SHARES == 0 {
        flags & !(libc::CLONE_VM as u64)
    } else {
        flags
    }
}

/// Whether the parent waits until a child that is made with these flags has gone on to another
/// program or has ended: its other threads are not to wait for that, too.
fn waits_for_child(flags: u64) -> bool {
    flags & libc::CLONE_VFORK as u64 != 0
}

/// What is made with these flags runs in this memory: if it is no thread, no count of threads
/// says so.
fn note_shared_memory(flags: u64) {
    if flags & libc::CLONE_THREAD as u64 == 0 {
        page_exchange::memory_is_shared();
    }
}

/// `clone(2)`, as libc has it. It takes its last arguments as variadic ones; on this
/// architecture they come in the same places as these.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn clone(
    run: Option<Run>,
    stack: Out<'_, c_void>,
    flags: c_int,
    argument: Out<'_, c_void>,
    parent: Out<'_, pid_t>,
    tls: Out<'_, c_void>,
    child: Out<'_, pid_t>,
) -> c_int {
    namespace::follow(flags as u64);
    let flags = without_shared_memory(flags as u64) as c_int;
    let make = |run, argument: Out<'_, c_void>| {
        real::clone(run, stack, flags, argument, parent, tls, child)
    };
    if flags & libc::CLONE_VM != 0 {
        note_shared_memory(flags as u64);
        return make(run, argument);
    }
    // Without anything to run it fails.
    let Some(run) = run else {
        return make(None, argument);
    };
    held_by(flags as u64, |held, reserved| {
        let mut begin = Begin {
            run,
            argument,
            held,
            reserved,
        };
        let child = make(Some(begin_cloned), Out::from(&mut begin).cast());
        drop(begin.held);
        child
    })
}

/// What a child of `clone` begins with, in its copy of its parent's memory.
struct Begin<'a> {
    run: Run,
    argument: Out<'a, c_void>,
    held: Option<HeldForChild>,
    reserved: Option<ReservationName>,
}

/// Lets go in a child of `clone` of what its parent held for it, and runs what it was made for.
extern "C-unwind" fn begin_cloned(begin: Out<'_, c_void>) -> c_int {
    // The caller is `clone`, which the parent left before it: this is a copy.
    let Some(begin) = begin.cast::<Begin<'_>>().as_mut() else {
        return -1;
    };
    drop(begin.held.take());
    begin_unhandled(begin.reserved);
    (begin.run)(begin.argument)
}

/// A `clone` by number with these flags, which `make` does with the flags that it is given.
pub(crate) fn clone_by_number(flags: u64, make: impl FnOnce(u64) -> c_long) -> c_long {
    namespace::follow(flags);
    let flags = without_shared_memory(flags);
    if flags & libc::CLONE_VM as u64 != 0 {
        note_shared_memory(flags);
        return make(flags);
    }
    unhandled(flags, || make(flags))
}

/// `vfork(2)`, as `fork`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vfork() -> pid_t {
    fork()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_with_nothing_to_run_is_not_made() {
        let mut stack = [0u64; 512];
        let top = Out::from(&mut stack[..]).add(510).cast();
        let (no, nowhere) = (Out::null(), Out::null());
        let child = clone(None, top, libc::SIGCHLD, no, nowhere, no, nowhere);
        assert_eq!((child, errno()), (-1, libc::EINVAL));
    }
}
