//! `syscall`, for the libraries that make some socket calls by number: libuv
//! closes so, and sends and receives datagrams so, several at a time. And for those that ask for
//! io_uring by number: it would pass the shim by.

use crate::calls::{close, recvmsg, seccomp, sendmsg, set_errno};
use crate::log::once;
use crate::state::{self, Mode};
use libc::{c_int, c_long, c_uint};

/// `syscall(2)`: the numbers of socket calls that libraries are known to use go
/// where the calls of that name go, all others to the kernel.
///
/// # Safety
/// As libc's. It takes its arguments as variadic ones; on this architecture
/// they come in the same places as these.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    match number {
        // SAFETY: the caller's promise, for a call of this name.
        libc::SYS_close => c_long::from(unsafe { close::close(a as c_int) }),
        libc::SYS_close_range => {
            // SAFETY: as above.
            c_long::from(unsafe { close::close_range(a as c_uint, b as c_uint, c as c_int) })
        }
        // SAFETY: as above.
        libc::SYS_sendmmsg => c_long::from(unsafe {
            sendmsg::sendmmsg(a as c_int, b as *mut _, c as c_uint, d as c_int)
        }),
        // SAFETY: as above.
        libc::SYS_recvmmsg => c_long::from(unsafe {
            recvmsg::recvmmsg(
                a as c_int,
                b as *mut _,
                c as c_uint,
                d as c_int,
                e as *mut _,
            )
        }),
        libc::SYS_prctl => {
            // SAFETY: as above.
            let result = unsafe { seccomp::prctl(a as c_int, b as _, c as _, d as _, e as _) };
            c_long::from(result)
        }
        libc::SYS_seccomp if seccomp::sets_filter(a as _) => {
            // SAFETY: as above.
            let set = || unsafe { libc_syscall(number, [a, b, c, d, e, f]) };
            seccomp::filtered(set, |result| *result == 0)
        }
        libc::SYS_io_uring_setup if matches!(state::mode(), Mode::On(_)) => no_ring(),
        // SAFETY: as above.
        _ => unsafe { libc_syscall(number, [a, b, c, d, e, f]) },
    }
}

/// Refuses io_uring, as kernels do that have none. What goes through a ring is the
/// kernel's to do, on the kernel's sockets that stand behind the engine's: libuv, which
/// changes what epoll waits for by a ring where it gets one, would wait for those for
/// ever. It and its like then make plain calls.
fn no_ring() -> c_long {
    once!(
        Warn,
        Ring,
        "io_uring is refused, as it cannot reach Longshore's sockets: programs that can do \
         without it make plain calls"
    );
    set_errno(libc::ENOSYS);
    -1
}

/// What libc's `syscall` does.
///
/// # Safety
/// As the system call of this number.
unsafe fn libc_syscall(number: c_long, arguments: [c_long; 6]) -> c_long {
    // SAFETY: the caller's promise.
    match unsafe { kernel(number, arguments) } {
        failed @ -4095..=-1 => {
            set_errno(-failed as c_int);
            -1
        }
        result => result,
    }
}

/// The system call itself, without libc: this very function is what libc's
/// callers, ours among them, would come back to.
///
/// # Safety
/// As the system call of this number.
unsafe fn kernel(number: c_long, arguments: [c_long; 6]) -> c_long {
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
