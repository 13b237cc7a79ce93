//! `prctl`, and what goes to it and to `seccomp` by number: a program that locks
//! itself into a filter of system calls.
//!
//! Such a filter is written for what the program calls, not for what we do. So
//! what we shall need is made before the filter holds, and after it the shim
//! waits with the calls that any such filter has to permit
//! ([`longshore_sockets::is_confined`]), and with `futex`, which not every one does
//! (vsftpd's, for it has one thread); and it reads options of sockets. These two are
//! permitted before the filter is asked: they change nothing but the process's own memory
//! and what it shares already.

use crate::calls::note_nonblocking;
use crate::fds::{self, Entry};
use crate::state::{self, Mode};
use crate::user::{Argument, Filter, In};
use crate::{epoll, kept, real, signals, vectors};
use libc::{c_int, c_uint, c_ulong, seccomp_data, sock_filter};
use rustix::fs::OFlags;
use std::mem::offset_of;

/// What is permitted to programs besides what their filters permit: to wait, and to look at
/// the options of a socket that becomes the engine's.
const PERMITTED: [libc::c_long; 2] = [libc::SYS_futex, libc::SYS_getsockopt];
/// Most steps of a filter (BPF_MAXINSNS).
const MOST_STEPS: usize = 4096;
/// What the kernel passes to a filter as the architecture (linux/audit.h).
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: u32 = 0xc000_003e;
/// What the kernel passes to a filter as the architecture (linux/audit.h).
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: u32 = 0xc000_00b7;

/// `seccomp(2)`: a filter is set.
const SET_MODE_FILTER: c_ulong = 1;

/// `prctl(2)`. It takes its arguments as variadic ones; on this architecture they come in the
/// same places as these.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn prctl(
    option: c_int,
    a: Argument<'_>,
    b: Argument<'_>,
    c: Argument<'_>,
    d: Argument<'_>,
) -> c_int {
    if option == libc::PR_SET_SECCOMP && u64::from(a) == u64::from(libc::SECCOMP_MODE_FILTER) {
        let with = |program: In<'_, Filter<'_>>| real::prctl(option, a, program.into(), c, d);
        filtered(b.into(), with, |result| *result == 0)
    } else {
        real::prctl(option, a, b, c, d)
    }
}

/// Whether `seccomp(2)` with this first argument sets a filter.
pub(crate) fn sets_filter(operation: c_ulong) -> bool {
    operation == SET_MODE_FILTER
}

/// What stands before a program's filter: these calls of this architecture are permitted, all
/// else is for the filter, which begins by loading what it looks at.
fn permitted() -> [sock_filter; PERMITTED.len() + 4] {
    const LOAD: c_uint = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: c_uint = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let step = |code: c_uint, k: u32, (then, otherwise): (usize, usize)| sock_filter {
        code: code as u16,
        jt: then as u8,
        jf: otherwise as u8,
        k,
    };
    let count = PERMITTED.len();
    std::array::from_fn(|at| match at {
        0 => step(LOAD, offset_of!(seccomp_data, arch) as u32, (0, 0)),
        1 => step(IS, ARCHITECTURE, (0, count + 2)),
        2 => step(LOAD, offset_of!(seccomp_data, nr) as u32, (0, 0)),
        _ => match PERMITTED.get(at - 3) {
            // The last one goes past the end where it is not the call.
            Some(call) => step(
                IS,
                *call as u32,
                (count + 2 - at, usize::from(at == count + 2)),
            ),
            None => step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, (0, 0)),
        },
    })
}

/// The program's filter behind [`permitted`]; `None` if it is none, or would be too
/// long.
fn extended(program: In<'_, Filter<'_>>) -> Option<Vec<sock_filter>> {
    let program = program.get()?;
    let len = program.len();
    vectors::check(program.place(), len * size_of::<sock_filter>()).ok()?;
    let before = permitted();
    if len == 0 || len + before.len() > MOST_STEPS {
        return None;
    }
    Some([&before, program.steps()].concat())
}

/// Makes ready for a filter, and has it set. One that is refused changes
/// nothing.
pub(crate) fn filtered<T>(
    program: In<'_, Filter<'_>>,
    set: impl FnOnce(In<'_, Filter<'_>>) -> T,
    done: impl FnOnce(&T) -> bool,
) -> T {
    let before = longshore_sockets::is_confined();
    let Mode::On(host) = state::mode() else {
        return set(program);
    };
    let steps = vectors::check(program, size_of::<Filter<'_>>())
        .ok()
        .and_then(|()| extended(program));
    let longer = steps.as_deref().map(Filter::of);
    let program = longer.as_ref().map_or(program, In::from);
    if before {
        return set(program);
    }
    for (fd, entry) in fds::all() {
        if matches!(entry, Entry::Engine(_)) {
            let flags = rustix::fs::fcntl_getfl(crate::calls::borrow(fd));
            note_nonblocking(fd, flags.is_ok_and(|f| f.contains(OFlags::NONBLOCK)));
        }
    }
    kept::end();
    epoll::prepare_all(host);
    signals::remember();
    host.threads().confine();
    let result = set(program);
    if !done(&result) {
        host.threads().unconfine();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the steps lead for a call: `None` behind them, to the program's filter.
    fn outcome(architecture: u32, call: u32) -> Option<u32> {
        let steps = permitted();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = steps.get(at)?;
            let code = c_uint::from(step.code);
            at += 1;
            if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                let is_number = step.k == offset_of!(seccomp_data, nr) as u32;
                loaded = if is_number { call } else { architecture };
            } else if code == libc::BPF_RET | libc::BPF_K {
                return Some(step.k);
            } else {
                at += usize::from(if loaded == step.k { step.jt } else { step.jf });
                assert!(at <= steps.len(), "past the filter's first step");
            }
        }
    }

    #[test]
    fn only_what_is_listed_is_permitted_before_the_filter() {
        for call in PERMITTED {
            assert_eq!(
                outcome(ARCHITECTURE, call as u32),
                Some(libc::SECCOMP_RET_ALLOW)
            );
            assert_eq!(outcome(!ARCHITECTURE, call as u32), None);
        }
        for call in (0..600).filter(|call| !PERMITTED.contains(call)) {
            assert_eq!(outcome(ARCHITECTURE, call as u32), None);
        }
    }
}
