//! Files, TCP ports and processes that this thread, and those that it will start, can still
//! reach (landlock(7)). Descriptors that are open already are not concerned.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The newest version of Landlock of which everything is used that it can forbid.
const NEWEST: ABI = ABI::V7;

/// Why there are no restrictions.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lack {
    #[error("this kernel does not have it")]
    Missing,
    #[error(transparent)]
    Refused(#[from] RulesetError),
}

/// What is permitted; everything else is not.
#[derive(Debug, Default)]
pub(super) struct Paths {
    beneath: Vec<(PathBuf, BitFlags<AccessFs>)>,
    ports: Vec<u16>,
}

impl Paths {
    fn allow(&mut self, path: impl AsRef<Path>, access: impl Into<BitFlags<AccessFs>>) {
        let path = match path.as_ref() {
            here if here.as_os_str().is_empty() => Path::new("."),
            path => path,
        };
        self.beneath.push((path.to_owned(), access.into()));
    }

    /// Files may be read there, as far as the user may.
    pub(super) fn read(&mut self, path: impl AsRef<Path>) {
        self.allow(path, AccessFs::ReadFile);
    }

    /// Files may be read and written there.
    pub(super) fn write(&mut self, path: impl AsRef<Path>) {
        self.allow(path, AccessFs::ReadFile | AccessFs::WriteFile);
    }

    /// Files and sockets may be removed there.
    pub(super) fn remove_files(&mut self, path: impl AsRef<Path>) {
        self.allow(path, AccessFs::RemoveFile);
    }

    /// Everything in there may be listed and removed.
    pub(super) fn empty(&mut self, path: impl AsRef<Path>) {
        let all = AccessFs::ReadDir | AccessFs::RemoveFile | AccessFs::RemoveDir;
        self.allow(path, all);
    }

    /// Empty directories may be removed there.
    pub(super) fn remove_directories(&mut self, path: impl AsRef<Path>) {
        self.allow(path, AccessFs::RemoveDir);
    }

    /// Connections of the kernel's TCP may be made to these ports.
    pub(super) fn connect_to(&mut self, ports: &[u16]) {
        self.ports.extend(ports);
    }
}

/// Forbids what is not permitted: other files, TCP's other ports, and, where the kernel can,
/// signals to other processes and their sockets in the abstract namespace. Says which version
/// of Landlock the kernel has.
pub(super) fn restrict(paths: &Paths) -> Result<i32, Lack> {
    let status = apply(paths)?;
    match (status.ruleset, version()) {
        (RulesetStatus::NotEnforced, _) | (_, None) => Err(Lack::Missing),
        (_, Some(version)) => Ok(version),
    }
}

fn apply(paths: &Paths) -> Result<RestrictionStatus, RulesetError> {
    let mut scopes = Scope::from_all(NEWEST);
    // The service manager's socket, to which a connection is yet to be made.
    let is_abstract = |path: OsString| path.as_encoded_bytes().first() == Some(&b'@');
    if std::env::var_os("NOTIFY_SOCKET").is_some_and(is_abstract) {
        scopes.remove(Scope::AbstractUnixSocket);
    }
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(scopes)?
        .create()?;
    for (path, access) in &paths.beneath {
        // What is not there needs no permission.
        if let Ok(fd) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(fd, *access))?;
        }
    }
    for port in &paths.ports {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    rules.restrict_self()
}

/// The version of Landlock that the kernel has.
fn version() -> Option<i32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no attributes and makes no descriptor.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0,
            VERSION,
        )
    };
    i32::try_from(version).ok().filter(|version| *version > 0)
}
