//! What `crossing`, the experiments and [`crate::interrupted`] have in common of child processes: waiting until one
//! serves, and ending it.

use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a program may take to begin or to end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at something that is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
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

/// The processes that a process has started, by whichever of its threads.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let all = tasks.into_iter().flatten().flatten().map(of_task);
    let all: Vec<String> = all.filter_map(Result::ok).collect();
    let words = all.iter().flat_map(|some| some.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process is there and has not ended.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, in which anything may stand.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
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
