//! `longshore` where the machine's files are hidden: in mounts of its own.

use longshore_testbed::{Cmd, Testbed, longshore};

/// A script of the shell, on the peer, in mounts of its own.
pub(crate) fn in_own_mounts(bed: &Testbed, script: &str) -> Cmd {
    bed.peer()
        .cmd("unshare")
        .args(["--mount", "--", "/bin/sh", "-ec", script])
}

/// `longshore` with these arguments after `before`, commands of the shell that mount or change
/// the environment: nothing else sees their mounts.
pub fn with_mounts(bed: &Testbed, before: &str, arguments: &str) -> Cmd {
    let longshore = longshore();
    let script = format!("{before}; exec {} {arguments}", longshore.display());
    in_own_mounts(bed, &script)
}
