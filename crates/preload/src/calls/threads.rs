//! Threads that the program makes, whose own system calls come to the shim, too, if those of the
//! program do (`own_calls`).

use crate::own_calls;
use crate::real;
use crate::user::{In, Out, Start};
use libc::{c_int, c_void, pthread_attr_t, pthread_t};

/// What a thread begins with.
struct Begin {
    run: Start,
    argument: Out<'static, c_void>,
}

/// Runs what it was made for.
type Starts = extern "C-unwind" fn(Box<Begin>) -> Out<'static, c_void>;

/// libc's, with what it hands from the one to the other.
mod handing_on {
    use super::{Begin, In, Out, Starts, c_int, pthread_attr_t, pthread_t};

    crate::real::real! {
        pthread_create(thread: Out<'_, pthread_t>, attr: In<'_, pthread_attr_t>, run: Starts, argument: Box<Begin>) -> c_int;
    }
}

/// `pthread_create(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_create(
    thread: Out<'_, pthread_t>,
    attr: In<'_, pthread_attr_t>,
    run: Option<Start>,
    argument: Out<'static, c_void>,
) -> c_int {
    let Some(run) = run.filter(|_| own_calls::are_served()) else {
        return real::pthread_create(thread, attr, run, argument);
    };
    // Where libc makes no thread, these few bytes stay: nobody gives them back.
    handing_on::pthread_create(thread, attr, start, Box::new(Begin { run, argument }))
}

extern "C-unwind" fn start(begin: Box<Begin>) -> Out<'static, c_void> {
    let (run, argument) = (begin.run, begin.argument);
    drop(begin);
    own_calls::begin_thread();
    // A thread that is ended unwinds this frame, which has nothing to drop any more.
    run(argument)
}
