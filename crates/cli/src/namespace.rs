//! A user and network namespace of the engine's own, for launchers that may
//! not make devices in the one they are in.

use crate::errors::{Error, system};
use longshore_ports::{InterfaceName, tap::bring_up};
use rustix::io::Errno;

/// Whether this process may configure the network here (CAP_NET_ADMIN).
pub(crate) fn may_configure() -> bool {
    const CAP_NET_ADMIN: u64 = 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 << CAP_NET_ADMIN != 0)
}

/// Moves this process, which must have one thread only, into a user and a
/// network namespace of its own, its user and group keeping their numbers, and
/// brings the loopback interface up.
pub(crate) fn enter_own() -> Result<(), Error> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: unshare with these flags changes which namespaces this process is
    // in, and nothing in its memory.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::Namespace(
            Errno::from_io_error(&error).unwrap_or(Errno::PERM),
        ));
    }
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(system(format!("write {file}")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{0} {0} 1", uid.as_raw()))?;
    write("gid_map", format!("{0} {0} 1", gid.as_raw()))?;
    bring_up(&InterfaceName::new("lo")?)?;
    Ok(())
}
