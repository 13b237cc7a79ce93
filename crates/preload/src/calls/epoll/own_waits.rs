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
use crate::user::{Filter, In, Out, Text};
use libc::{Elf64_Phdr, c_int, c_long, c_uint, dl_phdr_info, seccomp_data, size_t, sock_filter};
use longshore_programs::instructions::{ENTERS, loads};
use longshore_sockets::is_confined;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The call that is looked for. Its elder kin are not, as no program could do without them.
const NUMBER: u32 = libc::SYS_epoll_pwait2 as u32;
/// Bytes of code within which a number that was loaded is used.
const BEHIND: usize = 48;
/// Steps of the filter.
const STEPS: usize = 11;

/// Looks through the program's code, once, and sees to it that it is refused what it would
/// not be woken from.
pub(super) fn refuse() {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    if LOOKED.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(code) = code().filter(|code| waits(code)) else {
        return;
    };
    let range = code.as_ptr_range();
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

/// The loader's description of an object (`struct dl_phdr_info`), as far as it is looked at.
#[repr(C)]
struct Object<'a> {
    /// What is added to the addresses in its headers.
    base: usize,
    name: Text<'a>,
    headers: In<'a, Elf64_Phdr>,
    count: u16,
}

const _: () = assert!(offset_of!(Object<'_>, headers) == offset_of!(dl_phdr_info, dlpi_phdr));
const _: () = assert!(offset_of!(Object<'_>, count) == offset_of!(dl_phdr_info, dlpi_phnum));

/// Where code lies: nowhere if it has no length.
#[repr(C)]
struct Code {
    start: usize,
    len: usize,
}

/// What looks at an object; none is looked at behind one for which it says 1.
type Look = extern "C" fn(In<'_, Object<'_>>, size_t, Out<'_, Code>) -> c_int;

unsafe extern "C" {
    safe fn dl_iterate_phdr(look: Look, found: Out<'_, Code>) -> c_int;
    safe fn memmem<'a>(
        all: In<'a, u8>,
        len: size_t,
        part: In<'_, u8>,
        part_len: size_t,
    ) -> In<'a, u8>;
}

/// The program's own code, without that of its libraries.
fn code() -> Option<&'static [u8]> {
    /// For the first object, which is the program.
    extern "C" fn first(object: In<'_, Object<'_>>, _: size_t, found: Out<'_, Code>) -> c_int {
        let Some(object) = object.as_ref() else {
            return 1;
        };
        let wanted = libc::PF_X | libc::PF_R;
        let is_code = |h: &&Elf64_Phdr| h.p_type == libc::PT_LOAD && h.p_flags & wanted == wanted;
        let headers = object.headers.slice(object.count.into());
        if let Some(header) = headers.iter().find(is_code) {
            found.put(Code {
                start: object.base + header.p_vaddr as usize,
                len: header.p_filesz as usize,
            });
        }
        1
    }
    let mut found = Code { start: 0, len: 0 };
    dl_iterate_phdr(first, Out::from(&mut found));
    if found.len == 0 {
        return None;
    }
    let start = std::ptr::with_exposed_provenance(found.start);
    // SAFETY: the loader has mapped so many bytes there, to be read and executed, and the program
    // is never unloaded.
    Some(unsafe { std::slice::from_raw_parts(start, found.len) })
}

/// Whether code loads the call's number and enters the kernel soon after.
fn waits(code: &[u8]) -> bool {
    loads(NUMBER).iter().any(|one| is_used_soon(code, one))
}

/// Whether code has this instruction, and enters the kernel soon after.
fn is_used_soon(code: &[u8], loads: &[u8]) -> bool {
    let mut rest = code;
    while let Some(at) = find(rest, loads) {
        rest = &rest[at + loads.len()..];
        let behind = &rest[..rest.len().min(BEHIND)];
        if behind.windows(ENTERS.len()).any(|two| two == ENTERS) {
            return true;
        }
    }
    false
}

/// Where `loads` is in `code`. libc looks many bytes at a time, which matters where there
/// are 50 MB of them.
fn find(code: &[u8], loads: &[u8]) -> Option<usize> {
    let at = In::from(code);
    let found = memmem(at, code.len(), In::from(loads), loads.len());
    (!found.is_null()).then(|| found.addr() - at.addr())
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

    #[test]
    fn code_that_waits_by_itself_is_found() {
        for loads in loads(NUMBER) {
            let call = [&loads[..], &[0x90; 20], &ENTERS].concat();
            assert!(waits(&[&[0; 1000][..], &call].concat()));
            assert!(waits(&[&loads[..], &[0x90; BEHIND], &call].concat()));
            assert!(!waits(&call[..call.len() - 1]));
            assert!(!waits(&[&loads[..], &[0x90; BEHIND], &ENTERS].concat()));
        }
        assert!(!waits(&[]));
    }

    #[test]
    fn the_code_is_this_programs() {
        let code = code().unwrap();
        let this = the_code_is_this_programs as fn() as usize;
        let range = code.as_ptr_range();
        assert!((range.start.addr()..range.end.addr()).contains(&this));
    }
}
