//! Namespaces of one's own: a user and network namespace of the engine's, for launchers that
//! may not make devices in the one they are in, and one in which an experiment runs.

use crate::errors::{Error, system};
use longshore_ports::InterfaceName;
use longshore_ports::tap::{TapError, bring_up};
use rustix::io::Errno;
use std::io::ErrorKind;

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
    enter_as_user(uid, gid, (uid, gid))
}

/// Moves this process, which must have one thread only, into a network namespace of its own
/// in which it may make devices: a user who may not do that here becomes root of a user
/// namespace that has no other user.
pub(crate) fn enter_as_root() -> Result<(), Error> {
    const CAP_SYS_ADMIN: u64 = 21;
    if has(CAP_SYS_ADMIN) && may_configure() {
        enter(libc::CLONE_NEWNET)?;
        bring_up(&InterfaceName::new("lo")?)?;
        return Ok(());
    }
    let (uid, gid) = own_ids();
    enter_as_user(uid, gid, (0, 0))
}

/// Moves this process into a user and a network namespace of its own, in which it has these
/// numbers. Some systems refuse nothing of it but what is done inside (AppArmor's profile
/// `unprivileged_userns`).
fn enter_as_user(uid: u32, gid: u32, inner: (u32, u32)) -> Result<(), Error> {
    enter(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    map_ids(uid, gid, inner)
        .and_then(|()| bring_up(&InterfaceName::new("lo")?).map_err(Error::from))
        .map_err(without_use)
}

/// What is told of a failure in a namespace that this process has just made.
fn without_use(error: Error) -> Error {
    match error {
        Error::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Error::Namespace(Errno::from_io_error(&source).unwrap_or(Errno::PERM))
        }
        Error::Tap(TapError::NoPermission { .. }) => Error::Namespace(Errno::PERM),
        error => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_in_which_nothing_is_permitted_is_as_none() {
        let told = |error| without_use(error).to_string();
        for errno in [Errno::PERM, Errno::ACCESS] {
            let refused = || std::io::Error::from(errno);
            let namespace = Error::Namespace(errno).to_string();
            assert_eq!(told(system("write uid_map")(refused())), namespace);
        }
        let action = "bring lo up".to_owned();
        let namespace = Error::Namespace(Errno::PERM).to_string();
        assert_eq!(told(TapError::NoPermission { action }.into()), namespace);
        let other = || system("write uid_map")(std::io::Error::from(Errno::NOENT));
        assert_eq!(told(other()), other().to_string());
    }
}
