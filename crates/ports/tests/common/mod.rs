//! What the tests of ports against the kernel share.

use std::time::{Duration, Instant};

use longshore_ports::{Port, RxMeta};

/// How long the kernel may take to answer: machines are slow, and busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Moves this thread into a network namespace of its own. False, with a word
/// on stderr, when the user may not; a failure if `LONGSHORE_REQUIRE_ROOT` is
/// set.
pub(crate) fn in_own_namespace() -> bool {
    // SAFETY: unshare(CLONE_NEWNET) changes this thread's view of the network
    // and nothing in memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        return true;
    }
    let error = std::io::Error::last_os_error();
    assert!(
        std::env::var_os("LONGSHORE_REQUIRE_ROOT").is_none(),
        "cannot make a network namespace: {error}"
    );
    eprintln!("SKIPPED: this test makes a network namespace, and needs root for it: {error}");
    false
}

/// Waits for a frame that `wanted` accepts, past whatever else the kernel says.
pub(crate) fn expect_frame(
    port: &mut impl Port,
    buf: &mut [u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> RxMeta {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match port.recv(buf).unwrap() {
            Some(meta) if wanted(&buf[..meta.len]) => return meta,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("the kernel sent nothing of the kind");
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    let status = std::process::Command::new("ip")
        .args(words.split_whitespace())
        .status()
        .unwrap();
    assert!(status.success(), "ip {words}");
}
