//! Namespaces of one's own: a user and network namespace of the engine's, for launchers that
//! may not make devices in the one they are in, and one in which an experiment runs.

use crate::errors::{Error, system};
use longshore_ports::{InterfaceName, tap::bring_up};
use rustix::io::Errno;

/// Whether this process may configure the network here (CAP_NET_ADMIN).
pub(crate) fn may_configure() -> bool {
    const CAP_NET_ADMIN: u64 = 12;
    has(CAP_NET_ADMIN)
}

/// Whether a capability is in force.
fn has(capability: u64) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 << capability != 0)
}

/// Moves this process, which must have one thread only, into a user and a
/// network namespace of its own, its user and group keeping their numbers, and
/// brings the loopback interface up.
pub(crate) fn enter_own() -> Result<(), Error> {
    let (uid, gid) = own_ids();
    enter(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    map_ids(uid, gid, (uid, gid))?;
    bring_up(&InterfaceName::new("lo")?)?;
    Ok(())
}

/// Moves this process, which must have one thread only, into a network namespace of its own
/// in which it may make devices: a user who may not do that here becomes root of a user
/// namespace that has no other user.
pub(crate) fn enter_as_root() -> Result<(), Error> {
    const CAP_SYS_ADMIN: u64 = 21;
    if has(CAP_SYS_ADMIN) && may_configure() {
        enter(libc::CLONE_NEWNET)?;
    } else {
        let (uid, gid) = own_ids();
        enter(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
        map_ids(uid, gid, (0, 0))?;
    }
    bring_up(&InterfaceName::new("lo")?)?;
    Ok(())
}

fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

fn enter(namespaces: i32) -> Result<(), Error> {
    // SAFETY: unshare with the flags of namespaces changes in which of them this process is,
    // and nothing in its memory.
    if unsafe { libc::unshare(namespaces) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Error::Namespace(
        Errno::from_io_error(&error).unwrap_or(Errno::PERM),
    ))
}

/// Says which user and group inside the new user namespace those are that this process had.
fn map_ids(uid: u32, gid: u32, (inner_uid, inner_gid): (u32, u32)) -> Result<(), Error> {
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(system(format!("write {file}")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{inner_uid} {uid} 1"))?;
    write("gid_map", format!("{inner_gid} {gid} 1"))
}
