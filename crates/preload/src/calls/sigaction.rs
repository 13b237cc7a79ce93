//! `sigaction` and what installs handlers beside it: behind each handler of the program's
//! stands ours (`signals::handlers`), of which the program sees nothing. libc's own functions
//! call one another inside libc; so each is ours.

use crate::calls::set_errno;
use crate::signals::handlers::{self, END};
use crate::{real, state};
use libc::{c_int, c_long, sighandler_t, sigset_t};
use std::sync::atomic::{AtomicU64, Ordering};

const SIG_ERR: sighandler_t = usize::MAX;
/// What `sigset` takes and gives for a signal that is held back.
const SIG_HOLD: sighandler_t = 2;

/// Signals whose handlers are to end calls if `signal` installs them (`siginterrupt`).
static INTERRUPT: AtomicU64 = AtomicU64::new(0);

/// An action's parts, as libc's and the kernel's structures both have them.
struct Parts<'a> {
    handler: &'a mut usize,
    flags: &'a mut u64,
    mask: u64,
}

fn is_handler(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// Puts our handler before the program's; returns what was installed before, to be undone.
fn cover(signal: c_int, new: Option<&mut Parts<'_>>) -> u64 {
    let Some(word) = handlers::installed(signal) else {
        return 0;
    };
    let before = word.load(Ordering::Acquire);
    if let Some(new) = new
        && is_handler(*new.handler)
    {
        handlers::install(signal, *new.handler, *new.flags, new.mask);
        *new.handler = handlers::ours();
        // Our own always wants to know all.
        *new.flags |= libc::SA_SIGINFO as u64;
    }
    before
}

/// It was refused.
fn undo(signal: c_int, before: u64) {
    if let Some(word) = handlers::installed(signal) {
        word.store(before, Ordering::Release);
    }
}

/// Shows the program its own handler, which was `before`, where the kernel has said ours.
fn uncover(before: u64, old: Parts<'_>) {
    if *old.handler == handlers::ours() {
        *old.handler = handlers::handler_of(before);
        if !handlers::takes_info(before) {
            *old.flags &= !(libc::SA_SIGINFO as u64);
        }
    }
}

/// The first word of a set, which is the kernel's.
fn word_of(set: &sigset_t) -> u64 {
    // SAFETY: libc's sets are longer than a word.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

/// `sigaction(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if state::is_off() {
        // SAFETY: the caller's promise.
        return unsafe { real::sigaction(signal, new, old) };
    }
    // SAFETY: as above. They may be one.
    let mut action = unsafe { new.as_ref() }.copied();
    let mut flags = action.map_or(0, |a| u64::from(a.sa_flags as u32));
    let before = cover(
        signal,
        action
            .as_mut()
            .map(|a| Parts {
                mask: word_of(&a.sa_mask),
                handler: &mut a.sa_sigaction,
                flags: &mut flags,
            })
            .as_mut(),
    );
    let new = action.as_mut().map_or(std::ptr::null(), |a| {
        a.sa_flags = flags as c_int;
        std::ptr::from_ref(a)
    });
    // SAFETY: as above.
    let result = unsafe { real::sigaction(signal, new, old) };
    if result != 0 {
        undo(signal, before);
    // SAFETY: as above.
    } else if let Some(old) = unsafe { old.as_mut() } {
        let mut flags = u64::from(old.sa_flags as u32);
        let parts = Parts {
            handler: &mut old.sa_sigaction,
            flags: &mut flags,
            mask: 0,
        };
        uncover(before, parts);
        old.sa_flags = flags as c_int;
    }
    result
}

/// `__sigaction`, as libc exports it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { sigaction(signal, new, old) }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// `rt_sigaction` by number, which `call` makes with these two.
///
/// # Safety
/// The structures are null, or can be read and written.
pub(crate) unsafe fn by_number(
    signal: c_int,
    new: *const KernelAction,
    old: *mut KernelAction,
    call: impl FnOnce(*const KernelAction, *mut KernelAction) -> c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let mut action = unsafe { new.as_ref() }.copied();
    let before = cover(
        signal,
        action
            .as_mut()
            .map(|a| Parts {
                handler: &mut a.handler,
                flags: &mut a.flags,
                mask: a.mask,
            })
            .as_mut(),
    );
    let new = action.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let result = call(new, old);
    if result != 0 {
        undo(signal, before);
    // SAFETY: the caller's promise.
    } else if let Some(old) = unsafe { old.as_mut() } {
        let parts = Parts {
            handler: &mut old.handler,
            flags: &mut old.flags,
            mask: 0,
        };
        uncover(before, parts);
    }
    result
}

/// Installs a handler with these flags and nothing but `held` held back; gives the one before.
unsafe fn replace(
    signal: c_int,
    handler: sighandler_t,
    flags: c_int,
    holds_itself: bool,
) -> sighandler_t {
    // SAFETY: all-zero structures are valid ones.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    if handler == SIG_ERR || !(1..END as c_int).contains(&signal) {
        set_errno(libc::EINVAL);
        return SIG_ERR;
    }
    (new.sa_sigaction, new.sa_flags) = (handler, flags);
    // SAFETY: structures that outlive the calls.
    unsafe {
        if holds_itself {
            libc::sigaddset(&mut new.sa_mask, signal);
        }
        if sigaction(signal, &new, &mut old) != 0 {
            return SIG_ERR;
        }
    }
    old.sa_sigaction
}

/// `signal(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if state::is_off() {
        // SAFETY: the caller's promise.
        return unsafe { real::signal(signal, handler) };
    }
    let interrupts = (1..END as c_int).contains(&signal)
        && INTERRUPT.load(Ordering::Relaxed) & 1 << (signal - 1) != 0;
    let flags = if interrupts { 0 } else { libc::SA_RESTART };
    // SAFETY: as above.
    unsafe { replace(signal, handler, flags, true) }
}

/// `bsd_signal(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's promise.
    unsafe { signal(number, handler) }
}

/// `ssignal(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ssignal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's promise.
    unsafe { signal(number, handler) }
}

/// `sysv_signal(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sysv_signal(
    signal: c_int,
    handler: sighandler_t,
) -> sighandler_t {
    if state::is_off() {
        // SAFETY: the caller's promise.
        return unsafe { real::__sysv_signal(signal, handler) };
    }
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER;
    // SAFETY: as above.
    unsafe { replace(signal, handler, flags, false) }
}

/// `sysv_signal(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's promise.
    unsafe { __sysv_signal(signal, handler) }
}

/// `siginterrupt(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    if state::is_off() {
        // SAFETY: the caller's promise.
        return unsafe { real::siginterrupt(signal, interrupts) };
    }
    // SAFETY: an all-zero structure is a valid one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: structures that outlive the calls.
    unsafe {
        if sigaction(signal, std::ptr::null(), &mut action) != 0 {
            return -1;
        }
        let bit = 1 << (signal - 1);
        if interrupts != 0 {
            INTERRUPT.fetch_or(bit, Ordering::Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPT.fetch_and(!bit, Ordering::Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        sigaction(signal, &action, std::ptr::null_mut())
    }
}

/// `sigset(3)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if state::is_off() || handler == SIG_HOLD {
        // SAFETY: the caller's promise.
        let before = unsafe { real::sigset(signal, handler) };
        return match handlers::installed(signal) {
            Some(word) if before == handlers::ours() => {
                handlers::handler_of(word.load(Ordering::Acquire))
            }
            _ => before,
        };
    }
    // SAFETY: the caller's promise.
    let before = unsafe { replace(signal, handler, 0, false) };
    if before == SIG_ERR {
        return SIG_ERR;
    }
    // SAFETY: sets that outlive the calls.
    unsafe {
        let (mut one, mut held): (sigset_t, sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaddset(&mut one, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &one, &mut held);
        if libc::sigismember(&held, signal) == 1 {
            SIG_HOLD
        } else {
            before
        }
    }
}
