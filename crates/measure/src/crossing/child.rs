//! What [`super::running`] and experiments have in common of a child process: waiting until it
//! serves, and ending it.

use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a program may take to begin or to end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at something that is waited for.
pub(super) const PAUSE: Duration = Duration::from_millis(5);
/// How long a try to connect may take.
const TRY: Duration = Duration::from_secs(1);

/// Waits until somebody accepts connections at `server`.
///
/// # Errors
/// In words: the child has ended, or [`TIMEOUT`] is over.
pub(crate) fn wait_until_served(child: &mut Child, server: SocketAddr) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    while TcpStream::connect_timeout(&server, TRY).is_err() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended too soon, with {status}"));
        }
        if Instant::now() > deadline {
            return Err("it did not begin to serve".to_owned());
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// Tells the child to end, and kills it if it does not.
pub(crate) fn end(child: &mut Child) {
    let deadline = Instant::now() + TIMEOUT;
    // One that was waited for has its pid no more.
    if let Ok(None) = child.try_wait() {
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
    while let Ok(None) = child.try_wait() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        sleep(PAUSE);
    }
}
