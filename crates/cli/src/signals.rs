//! Signals as something to read: blocked in this process and taken from a
//! descriptor, in the order of an ordinary loop.

use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Those that are passed on to the program.
pub(crate) const FORWARDED: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    /// The kernel sent it to the whole foreground group of the terminal (^C),
    /// so that the program has it already.
    pub(crate) from_terminal: bool,
    /// It was ignored when this process was started (by `nohup`, or in the background of a
    /// script): the program decides what to do with it, and nothing is to end by it here.
    pub(crate) ignored: bool,
}

/// Signals that are blocked and read here.
pub(crate) struct Signals {
    fd: OwnedFd,
    /// What was blocked before.
    before: libc::sigset_t,
    /// Those of them that were ignored before. They are read all the same: the kernel
    /// drops no signal that is blocked.
    ignored: Vec<i32>,
}

/// Whether a signal is ignored in this process.
pub(crate) fn is_ignored(number: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given; `action` has room for the one there is.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all zeros are a valid sigaction, and the call has replaced them if it worked.
    asked == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

impl Signals {
    /// Blocks signals in this thread, and all threads that it starts from now
    /// on, and opens a descriptor for them. To be called before any other
    /// thread runs.
    pub(crate) fn block(numbers: &[i32]) -> Result<Self, Errno> {
        let ignored: Vec<i32> = numbers.iter().copied().filter(|n| is_ignored(*n)).collect();
        if ignored.contains(&libc::SIGCHLD) {
            // The kernel reaps the children of those who ignore it, and nobody learns how
            // they ended.
            // SAFETY: signal(2) with a default action touches no memory.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the whole set, which sigaddset then
        // changes; an invalid number is refused and changes nothing.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for number in numbers {
                libc::sigaddset(set.as_mut_ptr(), *number);
            }
            set.assume_init()
        };
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `set` is a valid set, and `before` has room for one.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr()) };
        if failed != 0 {
            return Err(Errno::from_raw_os_error(failed));
        }
        // SAFETY: `set` is a valid set; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        }
        // SAFETY: signalfd returned a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: pthread_sigmask succeeded, so it has filled the set.
        let before = unsafe { before.assume_init() };
        Ok(Signals {
            fd,
            before,
            ignored,
        })
    }

    /// Has a command start with what was blocked and ignored before, and not with these.
    pub(crate) fn unblock_in(&self, command: &mut Command) {
        let before = self.before;
        let ignores_children = self.ignored.contains(&libc::SIGCHLD);
        let restore = move || {
            if ignores_children {
                // SAFETY: signal(2) is async-signal-safe and touches no memory of ours.
                unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            }
            // SAFETY: `before` is a valid set; the old mask is not asked for.
            let failed =
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
            match failed {
                0 => Ok(()),
                errno => Err(std::io::Error::from_raw_os_error(errno)),
            }
        };
        // SAFETY: between fork and exec only signal and pthread_sigmask are called, which
        // are async-signal-safe; nothing is allocated but for an error's number.
        unsafe { command.pre_exec(restore) };
    }

    /// The next signal that waits.
    pub(crate) fn next(&self) -> Option<Signal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0u8; SIZE];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut bytes)) {
            Ok(SIZE) => {}
            _ => return None,
        }
        // SAFETY: the kernel filled all of a signalfd_siginfo, which is plain
        // data; the read is unaligned because `bytes` need not be aligned.
        let info: libc::signalfd_siginfo = unsafe {
            bytes
                .as_ptr()
                .cast::<libc::signalfd_siginfo>()
                .read_unaligned()
        };
        Some(Signal {
            number: info.ssi_signo as i32,
            from_terminal: info.ssi_code == libc::SI_KERNEL,
            ignored: self.ignored.contains(&(info.ssi_signo as i32)),
        })
    }

    /// Waits for a signal that was not ignored when this process was started.
    pub(crate) fn wait(&self) -> Signal {
        loop {
            while let Some(signal) = self.next() {
                if !signal.ignored {
                    return signal;
                }
            }
            let mut fds = [rustix::event::PollFd::new(
                &self.fd,
                rustix::event::PollFlags::IN,
            )];
            let _ = rustix::event::poll(&mut fds, None);
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_and_told_from_the_terminals() {
        let signals = Signals::block(&[libc::SIGWINCH]).unwrap();
        assert_eq!(signals.next(), None);
        // To this thread alone, since other threads of the tests do not block it.
        // SAFETY: gettid and tgkill touch no memory; the signal is blocked here.
        unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                libc::gettid(),
                libc::SIGWINCH,
            );
        }
        let expected = Signal {
            number: libc::SIGWINCH,
            from_terminal: false,
            ignored: false,
        };
        assert_eq!(signals.wait(), expected);
    }
}
