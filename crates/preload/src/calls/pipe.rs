//! `pipe`, `pipe2`, `tee`, `vmsplice`: which pipes are this process's alone, and what is done
//! with them but `splice`.

use crate::user::{Buffer, In, Out};
use crate::{cancel, page_exchange, pipes, real, room, state};
use libc::{c_int, c_uint, size_t, ssize_t};
use rustix::fs::{Mode, OFlags, open};

/// `pipe(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pipe(ends: Out<'_, c_int>) -> c_int {
    made(ends, real::pipe(ends))
}

/// `__pipe`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __pipe(ends: Out<'_, c_int>) -> c_int {
    pipe(ends)
}

/// `pipe2(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pipe2(ends: Out<'_, c_int>, flags: c_int) -> c_int {
    let result = real::pipe2(ends, flags);
    // One of packets keeps what is written apart.
    if flags & libc::O_DIRECT != 0 {
        return result;
    }
    made(ends, result)
}

fn made(ends: Out<'_, c_int>, result: c_int) -> c_int {
    if result == 0
        && !state::is_off()
        && let (Some(reader), Some(writer)) = (ends.get(), ends.add(1).get())
    {
        pipes::note_made(reader, writer);
    }
    result
}

/// `tee(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tee(from: c_int, to: c_int, len: size_t, flags: c_uint) -> ssize_t {
    pipes::leave(from);
    pipes::leave(to);
    real::tee(from, to, len, flags)
}

/// `vmsplice(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vmsplice(
    fd: c_int,
    iov: In<'_, Buffer<'_>>,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    pipes::leave(fd);
    // The pipe may have the pages for longer than the program's memory shows them.
    page_exchange::leave_all();
    real::vmsplice(fd, iov, count, flags)
}

/// Opens what `splice` throws away into, as long as it can be reached.
pub(crate) fn prepare() {
    pipes::prepare(|| {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let open = || open("/dev/null", flags, Mode::empty()).ok().map(room::keep);
        cancel::held(|| room::within(open))
    });
}
