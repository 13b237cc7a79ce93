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

/// The `longshore` program: `$LONGSHORE`, or the release build beside the program
/// or test that asks.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn longshore() -> PathBuf {
    let path = std::env::var_os("LONGSHORE").map_or_else(built, PathBuf::from);
    assert!(
        path.exists(),
        "{} does not exist: run `make build` first, or set LONGSHORE",
        path.display()
    );
    path
}

/// `target/release/longshore`, seen from `target/PROFILE/program` or from
/// `target/PROFILE/deps/test-hash`.
fn built() -> PathBuf {
    let me = std::env::current_exe().expect("a program has a path");
    let beside = me.with_file_name("longshore");
    let in_deps = me.ancestors().nth(1).is_some_and(|d| d.ends_with("deps"));
    if beside.exists() || !in_deps {
        return beside;
    }
    me.ancestors()
        .nth(3)
        .expect("deps lies in target/PROFILE")
        .join("release/longshore")
}
