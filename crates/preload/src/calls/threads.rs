//! Threads that the program makes, whose own system calls come to the shim, too, if those of the
//! program do (`own_calls`).

use crate::own_calls;
use crate::real;
use crate::user::{In, Out, Run, Start};
use libc::{c_int, c_void, pthread_attr_t, pthread_t};

/// What a thread begins with: a function, and what it is given.
struct Begin<R> {
    run: R,
    argument: Out<'static, c_void>,
}

/// Runs what it was made for, which ends with an `E`.
type Starts<R, E> = extern "C-unwind" fn(Box<Begin<R>>) -> E;

/// libc's, with what it hands from the one to the other.
mod handing_on {
    use super::{Begin, In, Out, Run, Start, Starts, c_int, c_void, pthread_attr_t, pthread_t};

    crate::real::real! {
        pthread_create(thread: Out<'_, pthread_t>, attr: In<'_, pthread_attr_t>, run: Starts<Start, Out<'static, c_void>>, argument: Box<Begin<Start>>) -> c_int;
        thrd_create(thread: Out<'_, pthread_t>, run: Starts<Run, c_int>, argument: Box<Begin<Run>>) -> c_int;
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

/// `thrd_create` of C11, whose `thrd_t` is glibc's `pthread_t`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn thrd_create(
    thread: Out<'_, pthread_t>,
    run: Option<Run>,
    argument: Out<'static, c_void>,
) -> c_int {
    let Some(run) = run.filter(|_| own_calls::are_served()) else {
        return real::thrd_create(thread, run, argument);
    };
    handing_on::thrd_create(thread, start_of_c11, Box::new(Begin { run, argument }))
}

extern "C-unwind" fn start(begin: Box<Begin<Start>>) -> Out<'static, c_void> {
    let (run, argument) = (begin.run, begin.argument);
    drop(begin);
    own_calls::begin_thread();
    // A thread that is ended unwinds this frame, which has nothing to drop any more.
    run(argument)
}

extern "C-unwind" fn start_of_c11(begin: Box<Begin<Run>>) -> c_int {
    let (run, argument) = (begin.run, begin.argument);
    drop(begin);
    own_calls::begin_thread();
    // As above.
    run(argument)
}
