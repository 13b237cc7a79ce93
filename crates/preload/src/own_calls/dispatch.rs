//! Whether the program makes system calls itself, and the kernel's switch that has them come here.

use super::caught::{self, Serves, caught};
use super::{entry, own_action, program, stacks};
use crate::kernel::{self, PR_SET_SYSCALL_USER_DISPATCH};
use crate::log::warn_of_program;
use crate::real;
use crate::signals::{SIGSYS, change_mask};
use crate::user::{Action, Handler, In, Out, Zero};
use longshore_programs::{OWN_CALLS_TO_KERNEL, OWN_CALLS_TO_LONGSHORE, OWN_CALLS_VARIABLE};
use std::ops::Range;
use std::sync::OnceLock;

/// SIGSYS is raised (linux/prctl.h).
const PR_SYS_DISPATCH_ON: usize = 1;
/// Above all that a program can address.
const END_OF_ADDRESSES: usize = 1 << 56;

/// The addresses from which the kernel makes calls, once others come here.
static UNTOUCHED: OnceLock<Range<usize>> = OnceLock::new();

/// Whether the program's own system calls come here.
#[inline]
pub(crate) fn are_served() -> bool {
    UNTOUCHED.get().is_some()
}

/// Looks, before the program begins, whether it makes system calls itself, and has them come here,
/// and to what `serves` them.
pub(crate) fn begin(serves: Serves) {
    let to = std::env::var_os(OWN_CALLS_VARIABLE).unwrap_or_default();
    if to == OWN_CALLS_TO_KERNEL {
        return;
    }
    let Some(own) = program::look(to == OWN_CALLS_TO_LONGSHORE) else {
        return;
    };
    let served = match own.is_without_libraries {
        true => Err("it has no libc"),
        false => serve(&own.code, serves),
    };
    if let Err(why) = served {
        let path = std::env::current_exe().unwrap_or_default();
        warn_of_program(format_args!(
            "{} {}, as {why}",
            path.display(),
            own.obstacle
        ));
    }
}

/// Has what this code calls come here.
///
/// # Errors
/// Why it cannot.
fn serve(code: &Range<usize>, serves: Serves) -> Result<(), &'static str> {
    let ours = caught as *const () as usize;
    if ours < code.end {
        return Err("its code lies above that of its libraries");
    }
    if !entry::keeps_registers() {
        return Err("this processor has registers that cannot be kept");
    }
    caught::serve_by(serves);
    // All signals wait until the thread has gone on elsewhere.
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let action = Action::new(Handler::of(caught), flags, u64::MAX);
    let mut before = Action::zero();
    if real::sigaction(libc::SIGSYS, In::from(&action), Out::from(&mut before)) != 0 {
        return Err("SIGSYS cannot be handled");
    }
    let untouched = code.end..END_OF_ADDRESSES;
    if !dispatch(&untouched) {
        real::sigaction(libc::SIGSYS, In::from(&before), Out::null());
        return Err(
            "no kernel before Linux 5.11 can bring such calls to Longshore, nor this one if it is forbidden",
        );
    }
    own_action::set(before);
    let _ = UNTOUCHED.set(untouched);
    Ok(())
}

/// Has the kernel raise SIGSYS for calls of this thread from elsewhere; says whether it will.
fn dispatch(untouched: &Range<usize>) -> bool {
    // It may have begun with all signals held back; SIGSYS would then end the process.
    stacks::make() && change_mask(libc::SIG_UNBLOCK, Some(SIGSYS)).is_some() && {
        let len = untouched.end - untouched.start;
        kernel::dispatch_calls(
            PR_SET_SYSCALL_USER_DISPATCH,
            PR_SYS_DISPATCH_ON,
            untouched.start,
            len,
        ) == 0
    }
}

/// What this thread's code calls comes here from now on, if the program's is to.
pub(crate) fn begin_thread() {
    if let Some(untouched) = UNTOUCHED.get() {
        dispatch(untouched);
    }
}

/// To where handlers of the program's are to return.
pub(crate) fn restorer() -> usize {
    entry::restorer as *const () as usize
}
