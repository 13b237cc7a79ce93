//! The program's handlers of signals, each behind one of ours.
//!
//! A handler that comes while the thread is in a call of the shim would find locks taken and
//! uses of sockets held, which stay so if it leaves for good (`siglongjmp`, an exception,
//! `pthread_exit`); its own calls on sockets would fail; and a call that is about to sleep
//! would not know of it. So `sigaction` and its like (`calls::sigaction`) install
//! [`trampoline`], which postpones the program's handler in a [section](super::within) and
//! holds all other signals back; when the section ends the signal is raised anew, and the
//! handler runs as at the end of a system call. A handler that was installed by a system call
//! of the program's own is not ours, and runs when it comes.

use crate::results::{errno, set_errno};
use crate::signals::{SET_BYTES, action};
use crate::user::{Action, Handler, In, Out};
use crate::{kernel, real};
use libc::{c_int, c_long, siginfo_t, ucontext_t};
use longshore_sockets::{is_confined, past_call, section};
use std::sync::atomic::{AtomicU64, Ordering};

/// One more than the highest number of a signal.
pub(crate) const END: usize = 65;

/// What the program has installed for each signal: the handler's address, and the flags that
/// matter in bits that no address has. It stays when the program goes back to what the kernel
/// does by itself, for a signal that was on its way.
static INSTALLED: [AtomicU64; END] = [const { AtomicU64::new(0) }; END];
/// The signals that such a handler holds back, for those with [`ONCE`].
static MASKS: [AtomicU64; END] = [const { AtomicU64::new(0) }; END];
/// And its flags.
static FLAGS: [AtomicU64; END] = [const { AtomicU64::new(0) }; END];

const TAKES_INFO: u64 = 1 << 63;
const RESTARTS: u64 = 1 << 62;
const ONCE: u64 = 1 << 61;
const ADDRESS: u64 = ONCE - 1;

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that a thread raises by what it does: their handlers cannot come later.
const AT_ONCE: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGABRT);
/// What libc keeps for itself.
pub(crate) const LIBCS: u64 = bit(32) | bit(33);
/// Signals that the kernel forgets where nobody handles them, unless they are held back.
const FORGOTTEN: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH) | bit(libc::SIGCONT);

/// The word of what is installed for a signal, if there is such a signal.
pub(crate) fn installed(signal: c_int) -> Option<&'static AtomicU64> {
    INSTALLED.get(usize::try_from(signal).ok().filter(|s| *s != 0)?)
}

/// A handler with its flags (`sa_flags`) and what it holds back.
pub(crate) fn install(signal: c_int, handler: Handler, flags: u64, mask: u64) {
    let Some(word) = installed(signal) else {
        return;
    };
    let flag = |of: c_int, is: u64| if flags & of as u64 != 0 { is } else { 0 };
    MASKS[signal as usize].store(mask, Ordering::Relaxed);
    FLAGS[signal as usize].store(flags, Ordering::Relaxed);
    let kept = flag(libc::SA_SIGINFO, TAKES_INFO)
        | flag(libc::SA_RESTART, RESTARTS)
        | flag(libc::SA_RESETHAND, ONCE);
    word.store(handler.addr() as u64 | kept, Ordering::Release);
}

/// The handler in a word of [`installed`].
pub(crate) fn handler_of(word: u64) -> Handler {
    // SAFETY: `install` has put it there, or nothing has: zero is one, too.
    unsafe { Handler::new((word & ADDRESS) as usize) }
}

/// Whether the program wants to know more than the number of the signal.
pub(crate) fn takes_info(word: u64) -> bool {
    word & TAKES_INFO != 0
}

/// [`trampoline`].
pub(crate) fn ours() -> Handler {
    Handler::of(trampoline)
}

/// Whether a signal with this handler, as the kernel has it, is postponed in a section.
pub(crate) fn is_postponed(signal: c_int, handler: Handler) -> bool {
    handler == ours() && AT_ONCE & bit(signal) == 0
}

/// What the kernel calls for a signal. It may be called by another handler, too, that was
/// installed over it.
extern "C-unwind" fn trampoline(
    signal: c_int,
    info: Out<'_, siginfo_t>,
    context: Out<'_, ucontext_t>,
) {
    let Some(word) = installed(signal).map(|w| w.load(Ordering::Acquire)) else {
        return;
    };
    let Some(handler) = handler_of(word).function() else {
        return;
    };
    let (is_entered, is_free) = section(|s| (s.is_entered(), s.postponed() == 0));
    if !is_entered {
        handler(signal, info, context);
        return;
    }
    let may_wait = is_free && AT_ONCE & bit(signal) == 0 && !is_confined();
    if !may_wait || !postpone(word, signal, info, context) {
        let depth = section(|s| s.suspend());
        handler(signal, info, context);
        section(|s| s.resume(depth));
    }
}

/// Notes the handler for the end of the section, holds back what else may come until then,
/// and ends the call that the thread sleeps in, or is about to. Not of a signal of which no more
/// was said than its number.
fn postpone(
    word: u64,
    signal: c_int,
    info: Out<'_, siginfo_t>,
    context: Out<'_, ucontext_t>,
) -> bool {
    let (Some(info), Some(context)) = (info.cast::<[u64; 16]>().get(), context.as_mut()) else {
        return false;
    };
    // The kernel's set is one word.
    let held = Out::from(&mut context.uc_sigmask).cast::<u64>();
    let before = held.get().unwrap_or(0);
    let handled = (1..END as c_int).filter(|s| INSTALLED[*s as usize].load(Ordering::Relaxed) != 0);
    let forgotten = handled.fold(FORGOTTEN, |set, signal| set & !bit(signal));
    section(|s| {
        s.mask.set(before);
        s.flags.set(u32::from(word & RESTARTS != 0));
        s.info.set(info);
        s.postpone(signal as u32);
    });
    held.put(before | !(AT_ONCE | LIBCS | forgotten));
    move_past_call(context);
    true
}

/// Has a thread that was found right before a call go on behind it.
fn move_past_call(context: &mut ucontext_t) {
    #[cfg(target_arch = "x86_64")]
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    let at = &mut context.uc_mcontext.pc;
    if let Some(past) = past_call(*at as usize) {
        *at = past as _;
    }
}

/// Raises the signal anew whose handler was postponed in the section that has just ended:
/// the handler runs in here, and may never come back.
#[cold]
#[inline(never)]
pub(crate) fn raise_postponed() {
    let errno = errno();
    let (signal, mask, info, again) = section(|s| {
        let signal = s.postponed() as c_int;
        s.postpone(0);
        let again = s.restarts.take() && s.flags.get() != 0;
        (signal, s.mask.get(), s.info.get(), again)
    });
    install_once_more(signal);
    // All signals are held back until the mask is set. As from the kernel: with its `info`.
    let process = rustix::process::getpid().as_raw_pid();
    let thread = rustix::thread::gettid().as_raw_pid();
    let info = In::from(&info).cast();
    let full = -c_long::from(libc::EAGAIN);
    while kernel::rt_tgsigqueueinfo(process, thread, signal, info) == full {
        // Others of this user have the kernel's memory for signals.
        rustix::thread::sched_yield();
    }
    hold_back(mask & !bit(signal));
    if mask & bit(signal) != 0 {
        hold_back(mask);
    }
    section(|s| s.again.set(again));
    set_errno(errno);
}

/// Sets which signals are held back from this thread. Handlers may run in here.
fn hold_back(mask: u64) {
    kernel::rt_sigprocmask(libc::SIG_SETMASK, In::from(&mask), Out::null(), SET_BYTES);
}

/// A handler that was to run once (SA_RESETHAND) has been taken away by the kernel when it
/// was postponed: it is put back to run now.
fn install_once_more(signal: c_int) {
    let Some(word) = installed(signal).map(|w| w.load(Ordering::Acquire)) else {
        return;
    };
    if word & ONCE == 0 {
        return;
    }
    let is_default = |now: &Action| now.handler().addr() == libc::SIG_DFL;
    if !action(signal).as_ref().is_some_and(is_default) {
        return;
    }
    let flags = FLAGS[signal as usize].load(Ordering::Relaxed) as c_int | libc::SA_SIGINFO;
    let held = MASKS[signal as usize].load(Ordering::Relaxed);
    let action = Action::new(ours(), flags, held);
    real::sigaction(signal, In::from(&action), Out::null());
}
