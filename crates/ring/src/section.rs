//! Sections: parts of the library's calls in which no signal handler may run, and sleeps
//! in them that a signal ends.
//!
//! A handler may leave by `siglongjmp`, an exception or `pthread_exit`, or make calls of
//! its own. In a section the thread may hold a lock or a reference to a socket, so the
//! code that catches signals (`preload`) postpones the handler and runs it when the
//! section ends, as the kernel does at the end of a system call. This module owns the
//! thread's [`Section`], and a system call ([`interruptible`]) that is not made, or is
//! aborted, when a handler was postponed. There is no race between the last check and the
//! call, because the trampoline that postpones handlers moves a thread that it finds
//! there past the call ([`past_call`]).

use rustix::event::PollFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

/// Bytes of the kernel's `siginfo_t`.
pub const INFO_BYTES: usize = 128;

/// A thread's section, and the one handler that was postponed in it: all other signals
/// are blocked in the thread meanwhile.
#[repr(C)]
#[derive(Debug)]
pub struct Section {
    /// The signal whose handler was postponed; 0 if none was.
    postponed: AtomicU32,
    /// Nesting depth of the thread's sections.
    depth: Cell<u32>,
    /// The call that was aborted for the handler is restarted after it, if the handler's
    /// flags permit (SA_RESTART).
    pub restarts: Cell<bool>,
    /// The call is to be restarted now.
    pub again: Cell<bool>,
    /// The handler's flags.
    pub flags: Cell<u32>,
    /// Signals that the thread blocked before, as a kernel signal set.
    pub mask: Cell<u64>,
    /// The signal's information (`siginfo_t`).
    pub info: Cell<[u64; INFO_BYTES / 8]>,
}

impl Section {
    /// The section begins.
    #[inline]
    pub fn enter(&self) {
        self.depth.set(self.depth.get().wrapping_add(1));
    }

    /// The section ends. Returns whether it was the outermost one and a handler was
    /// postponed, which must run now.
    #[inline]
    pub fn leave(&self) -> bool {
        let depth = self.depth.get().wrapping_sub(1);
        self.depth.set(depth);
        // A handler that runs after this is not postponed; one that ran before is
        // detected.
        compiler_fence(Ordering::SeqCst);
        depth == 0 && self.postponed() != 0
    }

    /// Whether the thread is in a section.
    #[inline]
    pub fn is_entered(&self) -> bool {
        self.depth.get() != 0
    }

    /// Leaves all sections for a handler that cannot be postponed, and may not return.
    /// Returns the argument of [`Section::resume`] for when it does.
    pub fn suspend(&self) -> u32 {
        self.depth.replace(0)
    }

    /// The handler has returned.
    pub fn resume(&self, depth: u32) {
        self.depth.set(depth);
    }

    /// The signal whose handler was postponed; 0 if none was.
    #[inline]
    pub fn postponed(&self) -> u32 {
        self.postponed.load(Ordering::Relaxed)
    }

    /// Records, as the last step, that the handler of a signal was postponed; 0 clears
    /// this.
    pub fn postpone(&self, signal: u32) {
        self.postponed.store(signal, Ordering::Release);
    }
}

#[cfg(all(not(miri), not(loom)))]
mod native;

/// Under Miri and loom handlers are never postponed, so no call has to be aborted.
#[cfg(any(miri, loom))]
mod native {
    use super::Section;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;

    std::thread_local! {
        static SECTION: Section = const {
            Section {
                postponed: AtomicU32::new(0),
                depth: Cell::new(0),
                restarts: Cell::new(false),
                again: Cell::new(false),
                flags: Cell::new(0),
                mask: Cell::new(0),
                info: Cell::new([0; super::INFO_BYTES / 8]),
            }
        };
    }

    pub(super) fn own() -> *const Section {
        SECTION.with(std::ptr::from_ref)
    }

    pub(super) unsafe fn call(_: *const u32, number: i64, arguments: &[usize; 6]) -> isize {
        let [a, b, c, d, e, f] = *arguments;
        // SAFETY: the caller's promise.
        match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            -1 => -(std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize),
            result => result as isize,
        }
    }

    pub(super) fn past_call(_: usize) -> Option<usize> {
        None
    }
}

/// Calls `with` with this thread's section.
#[inline]
pub fn section<T>(with: impl FnOnce(&Section) -> T) -> T {
    // SAFETY: it exists as long as the thread, and no other thread accesses it.
    with(unsafe { &*native::own() })
}

/// Makes a system call, unless a handler was postponed in this thread's section or is
/// before the kernel begins with it. In that case, and if a handler is postponed while it
/// waits, the result is -EINTR (also for handlers with SA_RESTART). Negative results are
/// error numbers.
///
/// # Safety
/// As the system call of this number.
pub unsafe fn interruptible(number: i64, arguments: [usize; 6]) -> isize {
    section(|own| {
        let word = (&raw const own.postponed).cast();
        // SAFETY: the caller's promise; the word is the thread's.
        unsafe { native::call(word, number, &arguments) }
    })
}

/// `poll`, interruptible as in [`interruptible`].
///
/// # Errors
/// The kernel's; EINTR as there.
pub fn poll_unless_interrupted(
    fds: &mut [PollFd<'_>],
    mut timeout: Option<Timespec>,
) -> Result<usize, Errno> {
    let at_most = timeout.as_mut().map_or(0, |t| std::ptr::from_mut(t).addr());
    let arguments = [fds.as_mut_ptr().addr(), fds.len(), at_most, 0, 0, 0];
    // SAFETY: a list of that length, laid out as the kernel's, and a time.
    match unsafe { interruptible(libc::SYS_ppoll, arguments) } {
        failed @ ..0 => Err(Errno::from_raw_os_error(-failed as i32)),
        ready => Ok(ready as usize),
    }
}

/// Where a thread continues that a signal has found at the instruction `at` in
/// [`interruptible`], before the kernel's call or its restart: after the call. `None` if
/// the thread was elsewhere.
pub fn past_call(at: usize) -> Option<usize> {
    native::past_call(at)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_only_the_outermost_ends() {
        section(|s| {
            s.enter();
            s.enter();
            s.postpone(10);
            assert!(!s.leave() && s.is_entered());
            assert!(s.leave() && !s.is_entered());
            s.postpone(0);
            s.enter();
            assert!(!s.leave());
        });
    }

    #[test]
    fn a_handler_that_cannot_wait_runs_outside_of_all_sections() {
        section(|s| {
            s.enter();
            s.enter();
            let depth = s.suspend();
            assert!(!s.is_entered());
            s.resume(depth);
            s.postpone(10);
            assert!(!s.leave() && s.leave(), "there were two");
            s.postpone(0);
        });
    }

    #[test]
    fn each_thread_has_its_own() {
        section(|s| {
            s.enter();
            std::thread::scope(|scope| {
                scope.spawn(|| section(|other| assert!(!other.is_entered())));
            });
            s.leave();
        });
    }

    #[test]
    #[cfg(not(miri))]
    fn no_call_is_made_once_a_handler_was_postponed() {
        let pid = || {
            // SAFETY: asks only.
            unsafe { interruptible(libc::SYS_getpid, [0; 6]) }
        };
        assert_eq!(pid(), std::process::id() as isize);
        section(|s| s.postpone(10));
        assert_eq!(pid(), -(libc::EINTR as isize));
        section(|s| s.postpone(0));
        assert_eq!(past_call(0), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no such poll")]
    fn poll_says_how_many_are_ready() {
        use rustix::event::PollFlags;
        let (from, to) = rustix::pipe::pipe().unwrap();
        let ready = || {
            let mut fds = [
                PollFd::new(&from, PollFlags::IN),
                PollFd::new(&to, PollFlags::IN),
            ];
            poll_unless_interrupted(&mut fds, Some(Timespec::default()))
        };
        assert_eq!(ready(), Ok(0));
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!(ready(), Ok(1));
    }

    #[test]
    #[cfg(not(miri))]
    fn poll_ends_at_once_for_a_postponed_handler() {
        section(|s| s.postpone(10));
        assert_eq!(poll_unless_interrupted(&mut [], None), Err(Errno::INTR));
        section(|s| s.postpone(0));
    }
}
