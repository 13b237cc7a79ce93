//! System calls without libc: for those whose wrappers in libc the shim has taken over, or that
//! libc has none for.

use libc::c_long;

/// The system call itself, without libc: this very function is what libc's
/// callers, ours among them, would come back to.
///
/// # Safety
/// As the system call of this number.
pub(crate) unsafe fn kernel(number: c_long, arguments: [c_long; 6]) -> c_long {
    let result;
    // SAFETY: the kernel's calling convention on x86-64: it changes rax, rcx and
    // r11 and what the arguments point to, as the caller expects.
    unsafe {
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
    }
    result
}
