//! Starting children of tests with default signal dispositions, whatever the tests
//! themselves have inherited.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The highest signal number of Linux.
const LAST_SIGNAL: i32 = 64;

/// Has a command start with the default action for every signal, and none blocked. What is
/// ignored or blocked is inherited by whatever is started: under `nohup`, or in a shell's
/// background, a program could neither die of SIGHUP, SIGINT or SIGQUIT nor (if it is a
/// shell) trap them.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in 1..=LAST_SIGNAL {
            // SAFETY: signal(2) is async-signal-safe and touches no memory of ours. Where it
            // is refused (KILL, STOP, glibc's own two), there is nothing to reset.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: sigset_t is plain data, for which all zeros is the empty set on Linux, and
        // sigemptyset makes it one in any case; the old mask is not asked for.
        let failed = unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
        };
        match failed {
            0 => Ok(()),
            errno => Err(std::io::Error::from_raw_os_error(errno)),
        }
    };
    // SAFETY: between fork and exec only signal and pthread_sigmask are called, which are
    // async-signal-safe; nothing is allocated.
    unsafe { command.pre_exec(reset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The children of a process that ignores and blocks SIGHUP die of it.
    #[test]
    fn what_is_ignored_and_blocked_is_not_inherited() {
        let script = "kill -HUP $$; echo alive";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        // SAFETY: as above; hooks run in the order in which they were added.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut set, libc::SIGHUP);
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                Ok(())
            });
        }
        let output = with_default_signals(&mut command).output().expect("run sh");
        assert_eq!(output.stdout, b"", "{output:?}");
        assert!(!output.status.success(), "{output:?}");
    }
}
