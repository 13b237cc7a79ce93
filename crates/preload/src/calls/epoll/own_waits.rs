//! Programs that wait in `epoll_pwait2` by a system call of their own, past libc and the shim,
//! as the JavaScript runtime Bun does: nothing of the engine's sockets would be reported to them.
//!
//! Such a call fails with ENOSYS from now on, as on a kernel before 5.11, and the program
//! waits by libc's functions instead. A filter of system calls does that, for calls from the
//! program's own code alone: libc, the shim and other libraries go on as ever, and it means
//! nothing to programs that are executed later, which have other code there, or are refused the
//! same. Called when the program makes its first epoll instance, before it can wait in it.

use crate::calls::seccomp::ARCHITECTURE;
use crate::kernel;
use crate::log::once;
use crate::own_calls;
use crate::own_code::OwnFile;
use crate::user::{Filter, In};
use libc::{c_long, c_uint, seccomp_data, sock_filter};
use longshore_sockets::is_confined;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The call that is looked for.
const NUMBER: u32 = libc::SYS_epoll_pwait2 as u32;
/// Steps of the filter.
const STEPS: usize = 11;

/// Looks through the program's code, once, and sees to it that it is refused what it would
/// not be woken from.
pub(super) fn refuse() {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    if own_calls::are_served() || LOOKED.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(own) = OwnFile::find().filter(|own| own.calls().waits()) else {
        return;
    };
    let range = own.code.as_ptr_range();
    if !is_confined() && refuse_from(range.start.addr()..range.end.addr()) {
        once!(
            Warn,
            OwnWaits,
            "the program waits in epoll_pwait2 by system calls of its own, which are refused \
             (ENOSYS), as Longshore does not see them: programs that can do without it wait by libc"
        );
    } else {
        once!(
            Error,
            OwnWaits,
            "the program waits in epoll_pwait2 by system calls of its own, which Longshore does \
             not see, and no filter can be set that refuses them: it hears nothing of its sockets"
        );
    }
}

/// Has the kernel refuse the call from this code, for all threads; says whether it does.
fn refuse_from(code: Range<usize>) -> bool {
    let Some(steps) = filter(code) else {
        return false;
    };
    let filter = Filter::of(&steps);
    let set = || {
        let for_all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC as c_uint;
        kernel::set_filter(
            libc::SECCOMP_SET_MODE_FILTER,
            for_all_threads,
            In::from(&filter),
        )
    };
    // A process that may not do it as it is may once it has given up getting more privileges.
    let refused = -c_long::from(libc::EACCES);
    let result = match set() {
        no if no == refused && rustix::thread::set_no_new_privs(true).is_ok() => set(),
        result => result,
    };
    result == 0
}

/// The filter; `None` for code that lies on both sides of a multiple of 4 GiB.
fn filter(code: Range<usize>) -> Option<[sock_filter; STEPS]> {
    const LOAD: c_uint = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: c_uint = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const REACHES: c_uint = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const RETURN: c_uint = libc::BPF_RET | libc::BPF_K;
    let above = code.start >> 32;
    if code.end >> 32 != above {
        return None;
    }
    let ip = offset_of!(seccomp_data, instruction_pointer);
    let refusal = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    // Each with the steps that are passed over where it is so, and where it is not.
    let steps = [
        (LOAD, offset_of!(seccomp_data, arch), 0, 0),
        (IS, ARCHITECTURE as usize, 0, 8),
        (LOAD, offset_of!(seccomp_data, nr), 0, 0),
        (IS, NUMBER as usize, 0, 6),
        (LOAD, ip + size_of::<u32>(), 0, 0),
        (IS, above, 0, 4),
        (LOAD, ip, 0, 0),
        (REACHES, code.start & u32::MAX as usize, 0, 2),
        // The call returns to behind it.
        (REACHES, (code.end & u32::MAX as usize) + 1, 1, 0),
        (RETURN, refusal as usize, 0, 0),
        (RETURN, libc::SECCOMP_RET_ALLOW as usize, 0, 0),
    ];
    Some(steps.map(|(code, k, jt, jf)| sock_filter {
        code: code as u16,
        jt,
        jf,
        k: k as u32,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(steps: &[sock_filter], arch: u32, nr: u32, ip: u64) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = steps[at];
            at += 1;
            let code = c_uint::from(step.code);
            if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                loaded = match step.k {
                    0 => nr,
                    4 => arch,
                    8 => ip as u32,
                    12 => (ip >> 32) as u32,
                    other => panic!("{other}"),
                };
            } else if code == libc::BPF_RET | libc::BPF_K {
                return step.k;
            } else {
                let is_so = if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
                    loaded == step.k
                } else {
                    loaded >= step.k
                };
                at += usize::from(if is_so { step.jt } else { step.jf });
            }
        }
    }

    #[test]
    fn the_call_is_refused_from_the_programs_code_alone() {
        let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        for base in [0x20_0000_usize, 0x5555_5555_4000] {
            let steps = filter(base..base + 0x1000).unwrap();
            let says = |nr, ip: usize| outcome(&steps, ARCHITECTURE, nr, ip as u64);
            for ip in [base, base + 5, base + 0x1000] {
                assert_eq!(says(NUMBER, ip), refused);
                assert_eq!(says(NUMBER - 1, ip), libc::SECCOMP_RET_ALLOW);
                let other = outcome(&steps, !ARCHITECTURE, NUMBER, ip as u64);
                assert_eq!(other, libc::SECCOMP_RET_ALLOW);
            }
            for ip in [base - 1, base + 0x1001, base + (1 << 32), 0x7fff_0000_0000] {
                assert_eq!(says(NUMBER, ip), libc::SECCOMP_RET_ALLOW, "{ip:x}");
            }
        }
        assert!(filter(0xffff_f000..0x1_0000_1000).is_none());
    }
}
