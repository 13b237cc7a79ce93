//! An experiment that is interrupted ends what it has started, and removes its files, before it
//! ends by the signal.
//!
//! A handler passes the signal to a thread. The signals are not blocked for that: the programs
//! that are measured would inherit it, and could not be ended by them.

use crate::errors::{Error, system};
use crate::signals::is_ignored;
use longshore_measure::interrupted;
use std::io::{PipeWriter, Read, pipe};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// By which an experiment is interrupted.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Where the handler writes which signal has come.
static TO_THREAD: OnceLock<PipeWriter> = OnceLock::new();
/// A signal has come.
static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: libc::c_int) {
    CAME.store(true, Ordering::Relaxed);
    let number = signal.to_ne_bytes();
    if let Some(pipe) = TO_THREAD.get() {
        // SAFETY: errno is this thread's own; write reads `number`, which is there. Both are
        // async-signal-safe, and what the signal interrupts finds errno as it was.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::write(pipe.as_raw_fd(), number.as_ptr().cast(), number.len());
            *errno = before;
        }
    }
}

/// From now on a signal that would end this process ends what it has started first. Those that
/// it was started to ignore (`nohup`) are ignored.
pub(super) fn clean_up_if_interrupted() -> Result<(), Error> {
    let (mut from_handler, to_thread) = pipe().map_err(system("make a pipe"))?;
    if TO_THREAD.set(to_thread).is_err() {
        return Ok(());
    }
    std::thread::Builder::new()
        .name("interruption".to_owned())
        .spawn(move || {
            let mut number = [0; size_of::<libc::c_int>()];
            if from_handler.read_exact(&mut number).is_ok() {
                interrupted::abandon();
                end_by(libc::c_int::from_ne_bytes(number));
            }
        })
        .map_err(system("start a thread"))?;
    for signal in SIGNALS.into_iter().filter(|number| !is_ignored(*number)) {
        // SAFETY: all zeros are a valid sigaction; the handler has the type that is asked for
        // without SA_SIGINFO, and does what a handler may.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if failed != 0 {
            return Err(system("handle signals")(std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// If a signal has come, waits for the end that it brings: what the experiment says of processes
/// that were ended says nothing.
pub(super) fn wait_for_end_if_interrupted() {
    while CAME.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

/// Ends this process as the signal does by itself.
fn end_by(signal: libc::c_int) {
    // SAFETY: both touch no memory of ours.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}
