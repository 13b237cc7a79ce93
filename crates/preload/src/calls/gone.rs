//! Servers whose engine is gone: nobody will connect any more, and no datagram will come. One
//! that asks again and again, and notes the answers in its log, is not to do so without
//! end: it is held up for a while at each time but the first, or answered that nothing is there.
//! Called by `accept`, and by `recv` and its like for datagrams.

use crate::calls::must_not_wait;
use crate::signals::waits;
use crate::user::{In, Out};
use libc::{c_int, timespec};
use longshore_sockets::SocketError;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call says that waits on `fd` for somebody to come, or for a datagram.
pub(crate) fn without_engine(fd: c_int, flags: c_int) -> SocketError {
    static TOLD: AtomicBool = AtomicBool::new(false);
    static PAUSE: timespec = timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    if must_not_wait(fd, flags) {
        return SocketError::WouldBlock;
    }
    let pause = || waits::nanosleep(In::from(&PAUSE), Out::null());
    if TOLD.swap(true, Ordering::Relaxed) && pause().is_err() {
        return SocketError::Restarts;
    }
    SocketError::EngineGone
}
