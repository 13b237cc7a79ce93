//! What is said when a filter forbids a system call: which it was, and where, before the
//! process is ended by SIGSYS. Everything here runs in a signal's handler, and so neither
//! allocates nor locks.

use super::calls;
use libc::{c_int, c_long, c_void};
use rustix::io::Errno;
use std::io::{Cursor, Write};
use std::mem::MaybeUninit;

/// Where siginfo_t of SIGSYS has the address of the call, its number, and the architecture
/// (`_sigsys` of asm-generic/siginfo.h, on 64-bit machines).
#[repr(C)]
struct Forbidden {
    head: [c_int; 4],
    address: usize,
    number: c_int,
    architecture: u32,
}

/// The longest message, in bytes.
const LONGEST: usize = 256;

/// Has a forbidden call reported.
pub(super) fn set_handler() -> Result<(), Errno> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a valid sigaction.
    let action = unsafe { action.assume_init_mut() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = report_call;
    action.sa_sigaction = handler as usize;
    // After the message the signal is what it is without a handler: the end.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and makes calls that
    // are async-signal-safe; what was there before is not asked for.
    match unsafe { libc::sigaction(libc::SIGSYS, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// The message about a call; its length.
fn message(number: c_long, address: usize, thread: c_long, to: &mut [u8]) -> usize {
    let mut to = Cursor::new(to);
    let name = calls::name(number).unwrap_or("?");
    // What does not fit is cut off.
    let _ = writeln!(
        to,
        "longshore: the engine made the system call {name} ({number}) at {address:#x} in thread \
         {thread}, which its sandbox forbids: it is ended"
    );
    to.position() as usize
}

extern "C" fn report_call(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a siginfo_t, of 128 bytes, which
    // begins so if it comes from a filter; otherwise the numbers are others.
    let forbidden = unsafe { info.cast::<Forbidden>().read() };
    // SAFETY: gettid takes nothing.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let mut text = [0; LONGEST];
    let number = c_long::from(forbidden.number);
    let len = message(number, forbidden.address, thread, &mut text);
    // SAFETY: `text` has that many bytes. The signal is blocked while its handler runs, and
    // comes again when that returns.
    unsafe {
        libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text.as_ptr(), len);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGSYS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_call_and_fits() {
        let mut text = [0; LONGEST];
        let len = message(
            libc::SYS_execve,
            usize::MAX,
            c_long::from(c_int::MAX),
            &mut text,
        );
        let text = std::str::from_utf8(&text[..len]).unwrap();
        assert!(
            text.contains("execve (") && text.ends_with("ended\n"),
            "{text}"
        );
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert!(size_of::<Forbidden>() <= size_of::<libc::siginfo_t>());
        assert_eq!(std::mem::offset_of!(Forbidden, address), 16);
        assert_eq!(std::mem::offset_of!(Forbidden, number), 24);
    }
}
