//! The system calls that the program makes without libc, where they are brought to the shim
//! ([`crate::own_calls`]): as by number, but with their errors in their results.

use crate::calls::{errno, set_errno, syscall};
use crate::kernel::{self, Call};
use crate::own_calls::{self, Frame, Serves};
use crate::signals::{SET_BYTES, SIGSYS};
use crate::user::{In, Out};
use libc::c_long;

/// Has them brought here, if the program makes any.
pub(crate) fn begin() {
    own_calls::begin(Serves { concerns, make });
}

/// Whether the shim makes a call: one that may concern a socket, that makes a process, or that
/// must not hold back SIGSYS.
fn concerns(frame: &Frame) -> bool {
    match frame.number {
        libc::SYS_clone => frame.new_stack() == 0,
        libc::SYS_rt_sigprocmask => true,
        number => syscall::concerns(number),
    }
}

/// Makes a call as the kernel would, errors in its result.
extern "C-unwind" fn make(frame: Out<'_, Frame>) {
    let Some(frame) = frame.as_mut() else {
        return;
    };
    let before = errno();
    let call = frame.call();
    let result = match call.number {
        libc::SYS_rt_sigprocmask => return frame.number = set_mask(call),
        // libc's `clone` does without, and so do those who have learned from it.
        libc::SYS_clone3 if begins_elsewhere(call) => -c_long::from(libc::ENOSYS),
        _ => syscall::by_number(call),
    };
    frame.number = match result {
        -1 => -c_long::from(errno()),
        result => result,
    };
    set_errno(before);
}

/// Whether what `clone3` makes has a stack of its own.
fn begins_elsewhere(call: Call<'_>) -> bool {
    const STACK: usize = 5;
    let [arguments, bytes, ..] = call.arguments;
    let needed = (STACK + 1) * size_of::<u64>();
    bytes.number() >= needed && {
        let words: In<'_, u64> = arguments.into();
        syscall::is_there(arguments, needed) && words.add(STACK).get() != Some(0)
    }
}

/// `rt_sigprocmask`, which leaves SIGSYS out: held back, it would end the process at its next call.
fn set_mask(call: Call<'_>) -> c_long {
    let [how, set, before, bytes, ..] = call.arguments;
    if bytes.number() != SET_BYTES
        || how.number() == libc::SIG_UNBLOCK as usize
        || !syscall::is_there(set, SET_BYTES)
    {
        return call.make();
    }
    let set: In<'_, u64> = set.into();
    let set = set.get().unwrap_or(0) & !SIGSYS;
    kernel::rt_sigprocmask(how.into(), In::from(&set), before.into(), SET_BYTES)
}
