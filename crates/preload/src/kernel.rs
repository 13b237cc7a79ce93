//! System calls without libc: for those whose wrappers in libc the shim has taken over, or that
//! libc has none for.

use crate::user::{Argument, Buffer, Filter, In, Out, Word};
use libc::{c_int, c_long, c_uint, c_void, pid_t, siginfo_t, size_t};
use std::sync::atomic::AtomicU32;

/// `prctl`'s option by which SIGSYS is raised for a thread's system calls, but for those from an
/// area (linux/prctl.h).
#[cfg(target_arch = "x86_64")]
pub(crate) const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

/// The words of a call with fewer arguments than the most, as the kernel takes them.
#[inline]
pub(crate) fn words<const N: usize>(given: [usize; N]) -> [usize; 6] {
    std::array::from_fn(|at| given.get(at).copied().unwrap_or(0))
}

/// The system call itself, without libc: this very function is what libc's
/// callers, ours among them, would come back to.
///
/// # Safety
/// As the system call of this number.
#[inline]
unsafe fn kernel(number: c_long, arguments: [usize; 6]) -> c_long {
    let result;
    // SAFETY: the kernel's calling convention: on x86-64 it changes rax, rcx and r11, on AArch64
    // x0, and what the arguments point to, as the caller expects.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// A call of the program's by number, which promises for its arguments what the manual says of
/// this number.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) number: c_long,
    pub(crate) arguments: [Argument<'a>; 6],
}

impl Call<'_> {
    /// Makes it; what the kernel returns.
    #[inline]
    pub(crate) fn make(self) -> c_long {
        // SAFETY: the program's promise, which the arguments carry.
        unsafe { kernel(self.number, self.arguments.map(Word::word)) }
    }
}

/// System calls by their types; the arguments carry C's promises with them.
macro_rules! system_calls {
    ($($name:ident($($arg:ident: $type:ty),*) = $number:expr;)*) => {$(
        pub(crate) fn $name($($arg: $type),*) -> c_long {
            let arguments = words([$($arg.word()),*]);
            // SAFETY: the call of this number takes arguments of these types, and what C has
            // promised for them they say by their types.
            unsafe { kernel($number, arguments) }
        }
    )*};
}

system_calls! {
    madvise(at: Out<'_, c_void>, len: size_t, advice: c_int) = libc::SYS_madvise;
    mprotect(at: Out<'_, c_void>, len: size_t, how: c_int) = libc::SYS_mprotect;
    munmap(at: Out<'_, c_void>, len: size_t) = libc::SYS_munmap;
    mremap(at: Out<'_, c_void>, len: size_t, new_len: size_t, flags: c_int, to: Out<'_, c_void>) = libc::SYS_mremap;
    cachestat(fd: c_int, range: In<'_, [u64; 2]>, found: Out<'_, [u64; 5]>, flags: c_uint) = 451;
    set_filter(operation: c_uint, flags: c_uint, program: In<'_, Filter<'_>>) = libc::SYS_seccomp;
    process_vm_readv(of: pid_t, to: In<'_, Buffer<'_>>, places: usize, from: In<'_, Buffer<'_>>, count: usize, flags: usize) = libc::SYS_process_vm_readv;
    process_vm_writev(of: pid_t, from: In<'_, Buffer<'_>>, places: usize, to: In<'_, Buffer<'_>>, count: usize, flags: usize) = libc::SYS_process_vm_writev;
    rt_tgsigqueueinfo(process: pid_t, thread: pid_t, signal: c_int, info: In<'_, siginfo_t>) = libc::SYS_rt_tgsigqueueinfo;
    rt_sigprocmask(how: c_int, new: In<'_, u64>, old: Out<'_, u64>, bytes: size_t) = libc::SYS_rt_sigprocmask;
}

#[cfg(target_arch = "x86_64")]
system_calls! {
    dispatch_calls(option: c_int, how: usize, start: usize, len: usize) = libc::SYS_prctl;
}

/// Whether there is a word at `address`, which is a multiple of four, that may be read:
/// FUTEX_CMP_REQUEUE looks at it, and has nobody to wake or to move.
pub(crate) fn reads(address: usize) -> bool {
    let own = AtomicU32::new(0);
    reaches(libc::FUTEX_CMP_REQUEUE, [address, own.as_ptr().addr()], 0)
}

/// As `reads`, for a word that may be written: FUTEX_WAKE_OP adds 0 to it, in one step with what
/// other threads do, and wakes nobody unless the word is less than -2048, and then, of those that
/// wait for it to change, one, who looks at it again.
pub(crate) fn writes(address: usize) -> bool {
    const ADD_0_IF_LESS: u32 =
        (libc::FUTEX_OP_ADD as u32) << 28 | (libc::FUTEX_OP_CMP_LT as u32) << 24 | 0x800;
    let own = AtomicU32::new(0);
    reaches(
        libc::FUTEX_WAKE_OP,
        [own.as_ptr().addr(), address],
        ADD_0_IF_LESS,
    )
}

/// Whether the kernel finds both words for one of the two operations above.
fn reaches(operation: c_int, [first, second]: [usize; 2], how: u32) -> bool {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [first, operation, 0, 0, second, how as usize];
    // SAFETY: the kernel changes nothing there by these two, and says so of what it cannot reach.
    let said = unsafe { kernel(libc::SYS_futex, arguments) };
    said != -c_long::from(libc::EFAULT)
}
