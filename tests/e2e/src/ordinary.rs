//! Programs of an ordinary user, on a machine on which that user may open the TUN device.

use crate::mounts::in_own_mounts;
use longshore_testbed::{Cmd, Testbed};

/// `longshore` with these arguments as an ordinary user with nothing of its own, after root
/// has done what `before` says, a command of the shell.
pub fn as_ordinary_user(bed: &Testbed, before: &str, arguments: &str) -> Cmd {
    // That user may not look into the directory in which it was built.
    let (built, copied) = (longshore_testbed::longshore(), bed.directory("bin"));
    for file in ["longshore", "liblongshore_preload.so"] {
        std::fs::copy(built.with_file_name(file), copied.join(file)).expect("copy the product");
    }
    let script = format!(
        "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun; \
         {before}; exec setpriv --reuid 65534 --regid 65534 --clear-groups -- {} {arguments}",
        copied.join("longshore").display()
    );
    in_own_mounts(bed, &script)
        // The testbed's directory for engines is root's.
        .env("LONGSHORE_RUNTIME_DIR", "")
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .env("HOME", "/nonexistent")
}
