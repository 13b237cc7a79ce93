//! Linux's asynchronous input and output (`io_submit`): requests to poll are refused, as by a kernel
//! before 4.18, which has none. They would be about the kernel's sockets that stand behind the
//! engine's, on which nothing ever happens; programs that can do without (Seastar's) wait by epoll then.
//! What is read and written of files goes on.
//!
//! Here is also libaio's function of that name, which makes the system call by itself.

use crate::kernel::Call;
use crate::log::once;
use crate::state::{self, Mode};
use crate::user::{Argument, In};
use crate::vectors;
use libc::{c_int, c_long};

/// IOCB_CMD_POLL.
const POLL: u16 = 5;
/// The kernel takes no more requests than this at a time, unless fs.aio-max-nr was raised.
const MOST_LOOKED_AT: usize = 1 << 16;

/// The head of a request, `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    data: u64,
    key: u32,
    flags: u32,
    code: u16,
    priority: i16,
    fd: u32,
}

/// What is to be submitted of a list of requests, of which the kernel would look at no more than the
/// first that it refuses: all of them, or those before the first that is to poll.
fn before_polls(list: Argument<'_>, count: c_long) -> c_long {
    let there = |at: In<'_, In<'_, Request>>, n| {
        vectors::check(at, n * size_of::<In<'_, Request>>()).is_ok()
    };
    let at: In<'_, In<'_, Request>> = list.into();
    let len = usize::try_from(count).unwrap_or(0).min(MOST_LOOKED_AT);
    if len == 0 || !there(at, len) {
        return count;
    }
    let polls = |request: &In<'_, Request>| {
        vectors::check(*request, size_of::<Request>()).is_ok()
            && request.get().is_some_and(|request| request.code == POLL)
    };
    let first = at.slice(len).iter().position(polls);
    first.map_or(count, |first| first as c_long)
}

/// `io_submit(2)`, as the kernel has it: a negative error, or how many requests were taken.
pub(crate) fn submit(call: Call<'_>) -> c_long {
    let [_, count, list, ..] = call.arguments;
    let count = i64::from(count) as c_long;
    if state::is_off() {
        return call.make();
    }
    let taken = before_polls(list, count);
    if taken == count || !matches!(state::mode(), Mode::On(_)) {
        return call.make();
    }
    once!(
        Warn,
        Aio,
        "polling by Linux's asynchronous input and output (io_submit) is refused, as it cannot reach \
         Longshore's sockets: programs that can do without it wait otherwise"
    );
    if taken == 0 {
        return -c_long::from(libc::EINVAL);
    }
    let mut call = call;
    call.arguments[1] = Argument::from(taken as u64);
    call.make()
}

/// `io_submit(3)`, as libaio has it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn io_submit(
    context: Argument<'_>,
    count: Argument<'_>,
    list: Argument<'_>,
) -> c_int {
    let none = || Argument::from(0u64);
    submit(Call {
        number: libc::SYS_io_submit,
        arguments: [context, count, list, none(), none(), none()],
    }) as c_int
}
