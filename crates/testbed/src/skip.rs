//! Skipping tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write;

/// Whether a test that cannot run is a failure: on a machine that is there to run all of
/// them (`CI`), or where somebody says so (`LONGSHORE_REQUIRE_ROOT`).
fn nothing_may_be_skipped() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "false");
    is_set("CI") || is_set("LONGSHORE_REQUIRE_ROOT")
}

/// Notes that the test that runs cannot run here, and why; the caller then returns.
/// `make test` names the file that gathers them, and lists them at its end.
///
/// # Panics
/// If nothing may be skipped here.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    // nextest says it; a test may call this from another thread than its own.
    let named = std::env::var("NEXTEST_TEST_NAME").ok();
    let test = named.as_deref().or(thread.name()).unwrap_or("a test");
    assert!(
        !nothing_may_be_skipped(),
        "{test} cannot run here, and nothing may be skipped: {why}"
    );
    eprintln!("SKIPPED: {test}: {why}");
    if let Some(list) = std::env::var_os("LONGSHORE_SKIPPED") {
        let line = format!("{test}: {why}\n");
        let added = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&list)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        added.unwrap_or_else(|e| panic!("writing {}: {e}", list.display()));
    }
}

/// Moves this thread, and what it starts, into a network namespace of its own. Where the
/// user may not, the test is skipped, and this says false.
///
/// # Panics
/// If nothing may be skipped here.
#[must_use]
pub fn in_own_namespace() -> bool {
    // SAFETY: unshare(CLONE_NEWNET) changes this thread's view of the network and nothing
    // in memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        return true;
    }
    let error = std::io::Error::last_os_error();
    skip(&format!(
        "it makes a network namespace, which takes root: {error}"
    ));
    false
}
