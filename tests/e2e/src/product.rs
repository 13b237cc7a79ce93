//! Which stack is under test, and where the built product lies.

use std::path::PathBuf;

/// The stack under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// The kernel's, for the scenario to prove itself and to compare with.
    Kernel,
    /// Ours.
    Longshore,
}

/// The `longshore` program: `$LONGSHORE`, or the release build of this workspace.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn longshore() -> PathBuf {
    let path = std::env::var_os("LONGSHORE").map_or_else(
        || target_directory().join("release/longshore"),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "{} does not exist: run `make build` first, or set LONGSHORE",
        path.display()
    );
    path
}

/// The directory in which cargo built this test: `.../target` of
/// `.../target/debug/deps/test-hash`.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors()
        .nth(3)
        .expect("a test lies in target/PROFILE/deps")
        .to_path_buf()
}
