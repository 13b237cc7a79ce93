//! `sigaction` and what installs handlers beside it: behind each handler of the program's
//! stands ours (`signals::handlers`), of which the program sees nothing. libc's own functions
//! call one another inside libc; so each is ours.

use crate::calls::set_errno;
use crate::own_calls;
use crate::signals::handlers::{self, END};
use crate::signals::{self, SIGSYS};
use crate::user::{Action, Handler, In, Out, Zero};
use crate::{real, state};
use libc::{c_int, c_long};
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals whose handlers are to end calls if `signal` installs them (`siginterrupt`).
static INTERRUPT: AtomicU64 = AtomicU64::new(0);

/// An action's parts, as libc's and the kernel's structures both have them.
struct Parts<'a> {
    handler: &'a mut Handler,
    flags: &'a mut u64,
    mask: u64,
}

/// Puts our handler before the program's; returns what was installed before, to be undone.
fn cover(signal: c_int, new: Option<Parts<'_>>) -> u64 {
    let Some(word) = handlers::installed(signal) else {
        return 0;
    };
    let before = word.load(Ordering::Acquire);
    if let Some(new) = new
        && new.handler.is_handling()
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

/// Installs an action as the program sees them, and gives the one that was there, to be seen
/// by it.
///
/// # Errors
/// libc's return value, with errno set.
fn exchange(signal: c_int, mut new: Option<Action>) -> Result<Action, c_int> {
    if own_calls::are_served() {
        if signal == libc::SIGSYS {
            return Ok(own_calls::exchange(new));
        }
        if let Some(new) = &mut new {
            new.set_held(new.held() & !SIGSYS);
        }
    }
    let mut flags = new.map_or(0, |a| u64::from(a.flags() as u32));
    let mut handler = new.map(|a| a.handler());
    let parts = new.zip(handler.as_mut()).map(|(a, handler)| Parts {
        mask: a.held(),
        handler,
        flags: &mut flags,
    });
    let before = cover(signal, parts);
    if let (Some(a), Some(handler)) = (&mut new, handler) {
        a.set_handler(handler);
        a.set_flags(flags as c_int);
    }
    let (new, mut old) = (new.as_ref().map_or(In::null(), In::from), Action::zero());
    let result = real::sigaction(signal, new, Out::from(&mut old));
    if result != 0 {
        undo(signal, before);
        return Err(result);
    }
    let (mut handler, mut flags) = (old.handler(), u64::from(old.flags() as u32));
    let parts = Parts {
        handler: &mut handler,
        flags: &mut flags,
        mask: 0,
    };
    uncover(before, parts);
    old.set_handler(handler);
    old.set_flags(flags as c_int);
    Ok(old)
}

/// `sigaction(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigaction(
    signal: c_int,
    new: In<'_, Action>,
    old: Out<'_, Action>,
) -> c_int {
    if state::is_off() {
        return real::sigaction(signal, new, old);
    }
    // They may be one.
    match exchange(signal, new.get()) {
        Ok(before) => {
            old.put(before);
            0
        }
        Err(result) => result,
    }
}

/// `__sigaction`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __sigaction(
    signal: c_int,
    new: In<'_, Action>,
    old: Out<'_, Action>,
) -> c_int {
    sigaction(signal, new, old)
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelAction {
    handler: Handler,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl From<KernelAction> for Action {
    fn from(of: KernelAction) -> Self {
        Self::new(of.handler, of.flags as c_int, of.mask)
    }
}

impl From<Action> for KernelAction {
    fn from(of: Action) -> Self {
        Self {
            handler: of.handler(),
            flags: u64::from(of.flags() as u32),
            restorer: 0,
            mask: of.held(),
        }
    }
}

/// `rt_sigaction` by number, which `call` makes with these two.
pub(crate) fn by_number(
    signal: c_int,
    new: In<'_, KernelAction>,
    old: Out<'_, KernelAction>,
    call: impl FnOnce(In<'_, KernelAction>, Out<'_, KernelAction>) -> c_long,
) -> c_long {
    let mut action = new.get();
    if own_calls::are_served() {
        if signal == libc::SIGSYS {
            let before = own_calls::exchange(action.map(Into::into));
            old.put(before.into());
            return 0;
        }
        if let Some(action) = &mut action {
            action.mask &= !SIGSYS;
            action.restorer = own_calls::restorer();
        }
    }
    let parts = action.as_mut().map(|a| Parts {
        handler: &mut a.handler,
        flags: &mut a.flags,
        mask: a.mask,
    });
    let before = cover(signal, parts);
    let result = call(action.as_ref().map_or(In::null(), In::from), old);
    if result != 0 {
        undo(signal, before);
    } else if let Some(mut now) = old.get() {
        let parts = Parts {
            handler: &mut now.handler,
            flags: &mut now.flags,
            mask: 0,
        };
        uncover(before, parts);
        old.put(now);
    }
    result
}

/// Installs a handler with these flags and nothing but `held` held back; gives the one before.
fn replace(signal: c_int, handler: Handler, flags: c_int, holds_itself: bool) -> Handler {
    if handler == Handler::FAILED || !(1..END as c_int).contains(&signal) {
        set_errno(libc::EINVAL);
        return Handler::FAILED;
    }
    let held = if holds_itself { 1 << (signal - 1) } else { 0 };
    let new = Action::new(handler, flags, held);
    exchange(signal, Some(new)).map_or(Handler::FAILED, |old| old.handler())
}

/// `signal(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn signal(signal: c_int, handler: Handler) -> Handler {
    if state::is_off() {
        return real::signal(signal, handler);
    }
    let interrupts = (1..END as c_int).contains(&signal)
        && INTERRUPT.load(Ordering::Relaxed) & 1 << (signal - 1) != 0;
    let flags = if interrupts { 0 } else { libc::SA_RESTART };
    replace(signal, handler, flags, true)
}

/// `bsd_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn bsd_signal(number: c_int, handler: Handler) -> Handler {
    signal(number, handler)
}

/// `ssignal(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ssignal(number: c_int, handler: Handler) -> Handler {
    signal(number, handler)
}

/// `sysv_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __sysv_signal(signal: c_int, handler: Handler) -> Handler {
    if state::is_off() {
        return real::__sysv_signal(signal, handler);
    }
    replace(
        signal,
        handler,
        libc::SA_RESETHAND | libc::SA_NODEFER,
        false,
    )
}

/// `sysv_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sysv_signal(signal: c_int, handler: Handler) -> Handler {
    __sysv_signal(signal, handler)
}

/// `siginterrupt(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    if state::is_off() {
        return real::siginterrupt(signal, interrupts);
    }
    let mut action = match exchange(signal, None) {
        Ok(action) => action,
        Err(result) => return result,
    };
    let bit = 1 << (signal - 1);
    if interrupts != 0 {
        INTERRUPT.fetch_or(bit, Ordering::Relaxed);
        action.set_flags(action.flags() & !libc::SA_RESTART);
    } else {
        INTERRUPT.fetch_and(!bit, Ordering::Relaxed);
        action.set_flags(action.flags() | libc::SA_RESTART);
    }
    exchange(signal, Some(action)).map_or_else(|result| result, |_| 0)
}

/// `sigset(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigset(signal: c_int, handler: Handler) -> Handler {
    if state::is_off() || handler == Handler::HOLD {
        let before = real::sigset(signal, handler);
        return match handlers::installed(signal) {
            Some(word) if before == handlers::ours() => {
                handlers::handler_of(word.load(Ordering::Acquire))
            }
            _ => before,
        };
    }
    let before = replace(signal, handler, 0, false);
    if before == Handler::FAILED {
        return Handler::FAILED;
    }
    let bit = 1 << (signal - 1);
    match signals::change_mask(libc::SIG_UNBLOCK, Some(bit)) {
        Some(held) if held & bit != 0 => Handler::HOLD,
        _ => before,
    }
}
