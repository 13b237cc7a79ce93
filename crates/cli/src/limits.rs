//! How many file descriptors an engine may have, what precedence, and how large its files may be.
//!
//! It needs some descriptors for each process of its programs. The limit that it inherits is
//! meant for programs that use select(2), for which descriptors above 1023 are useless; the
//! engine does not.
//!
//! It raises its scheduling priority at times, which takes a privilege that it gives up before
//! it serves, or this limit.
//!
//! Files are its captures, and the memory of each session, which may be larger than the limit that
//! it inherits. That limit stays, since captures take space on a disk.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of a process that may have any nice value: 20 less the least, which is -20.
const ANY_PRIORITY: u64 = 40;

/// What each process that serves programs does before anything else.
pub(crate) fn prepare() {
    raise();
    outlive_largest_file();
}

/// Lets this process have as many descriptors as it is permitted.
fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where even that is refused, it goes on with what it has.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// From now on a file that would exceed RLIMIT_FSIZE is an error (EFBIG) of the call that makes it
/// so, as a full disk is, and does not end this process by SIGXFSZ (setrlimit(2)).
fn outlive_largest_file() {
    // SAFETY: signal(2) with SIG_IGN installs no function and touches no memory.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Lets this process raise its priority without a privilege, as far as it is permitted.
pub(crate) fn permit_priority() {
    let both = |most| Rlimit {
        current: most,
        maximum: most,
    };
    // A user without CAP_SYS_RESOURCE may have what its limit has left; less is no reason to end.
    if setrlimit(Resource::Nice, both(Some(ANY_PRIORITY))).is_err() {
        let _ = setrlimit(Resource::Nice, both(getrlimit(Resource::Nice).maximum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_permitted() {
        raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        permit_priority();
        let limit = getrlimit(Resource::Nice);
        assert_eq!(limit.current, limit.maximum);
        let all = rustix::thread::capabilities(None).unwrap().effective;
        let is_privileged = all.contains(rustix::thread::CapabilitySet::SYS_RESOURCE);
        assert!(!is_privileged || limit.current == Some(ANY_PRIORITY));
    }
}
