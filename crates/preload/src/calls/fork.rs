//! `fork`, by the handlers that libc runs around it, and `vfork`, which is a
//! fork here: the child of a real one would run in our memory.
//!
//! No signal handler runs while the locks of the process are held for the fork: it would
//! find none of its sockets in order. On either side signals come when they are free.

use crate::calls::{errno, set_errno};
use crate::signals::Held;
use crate::{epoll, fds, kept, page_exchange, place, real};
use libc::{c_int, c_long, c_void, pid_t};
use longshore_sockets::{Forking, Reservation};
use std::cell::{Cell, RefCell};

thread_local! {
    static FORKING: RefCell<Option<(Forking, Held)>> = const { RefCell::new(None) };
    /// Nothing is kept where it lies until the fork is over.
    static STOPPED: RefCell<kept::Stopped> = const { RefCell::new((None, None)) };
    /// What this thread's last fork has reserved for its child.
    static RESERVED: Cell<Option<Reservation>> = const { Cell::new(None) };
}

extern "C" fn before() {
    epoll::apart::before_fork();
    fds::share_undecided();
    let stopped = kept::before_fork();
    if let Some(host) = place::attached() {
        let held = Held::all();
        let forking = host.before_fork();
        let _ = STOPPED.try_with(|s| s.replace(stopped));
        let _ = FORKING.try_with(|f| f.replace(Some((forking, held))));
    }
}

fn forking() -> Option<(Forking, Held)> {
    FORKING.try_with(RefCell::take).ok().flatten()
}

extern "C" fn in_parent() {
    if let Some((forking, held)) = forking() {
        let reserved = forking.in_parent();
        let _ = RESERVED.try_with(|r| r.set(reserved));
        drop(STOPPED.try_with(RefCell::take));
        drop(held);
    }
}

extern "C" fn in_child() {
    epoll::apart::in_child();
    if let Some((forking, held)) = forking() {
        place::own(forking.in_child(fds::counts().into_iter()));
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
    // SAFETY: C's call, which knows what a child may do.
    let child = unsafe { real::fork() };
    if child > 0
        && let Some(reserved) = RESERVED.try_with(Cell::take).ok().flatten()
    {
        reserved.is_for(child as u32);
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
    // SAFETY: as in `fork`.
    unhandled(|| unsafe { real::_Fork() })
}

/// Has `make` make a child without the handlers of `fork`. What this process has stays held
/// for it, until its own copy of the shim finds out that it is another process now
/// ([`place::attached`]), or is loaded anew. Whatever the child may do in its first steps
/// is done in the parent.
pub(crate) fn unhandled<T: Copy + Into<i64>>(make: impl FnOnce() -> T) -> T {
    epoll::apart::before_fork();
    fds::share_undecided();
    kept::leave_all();
    let reserved = place::attached_already().and_then(|host| {
        let channel = host.reserve_channel()?;
        Some((host, channel))
    });
    let child = make();
    let child_pid: i64 = child.into();
    if child_pid > 0 {
        // What another thread has made and used meanwhile.
        kept::leave_all();
    }
    if let Some((host, channel)) = reserved {
        match child_pid {
            // This is the child, and the reservation its parent's.
            0 => {}
            pid @ 1.. => host.give_reservation(channel, pid as u32),
            _ => {
                let errno = errno();
                host.drop_reservation(channel);
                set_errno(errno);
            }
        }
    }
    child
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

/// What is made with these flags runs in this memory: if it is no thread, no count of threads
/// says so.
fn note_shared_memory(flags: u64) {
    if flags & libc::CLONE_THREAD as u64 == 0 {
        page_exchange::memory_is_shared();
    }
}

/// `clone(2)`, as libc has it. It takes its last arguments as variadic ones; on this
/// architecture they come in the same places as these.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clone(
    run: *const c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut pid_t,
    tls: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    let flags = without_shared_memory(flags as u64) as c_int;
    // SAFETY: the caller's promise.
    let make = || unsafe { real::clone(run, stack, flags, argument, parent, tls, child) };
    if flags & libc::CLONE_VM != 0 {
        note_shared_memory(flags as u64);
        return make();
    }
    unhandled(make)
}

/// A `clone` by number with these flags, which `make` does with the flags that it is given.
pub(crate) fn clone_by_number(flags: u64, make: impl FnOnce(u64) -> c_long) -> c_long {
    let flags = without_shared_memory(flags);
    if flags & libc::CLONE_VM as u64 != 0 {
        note_shared_memory(flags);
        return make(flags);
    }
    unhandled(|| make(flags))
}

/// `vfork(2)`, as `fork`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vfork() -> pid_t {
    fork()
}
