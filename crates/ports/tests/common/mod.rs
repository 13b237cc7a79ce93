//! What the tests of ports against the kernel share.

use std::time::{Duration, Instant};

use longshore_ports::{Port, RxMeta, TxFrame};

/// How long the kernel may take to answer: machines are slow, and busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a frame that `wanted` accepts, past whatever else the kernel says.
pub(crate) fn expect_frame(
    port: &mut impl Port,
    buf: &mut [u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> RxMeta {
    let found = look_for_frame(port, buf, PATIENCE, wanted);
    found.expect("the kernel sends something of the kind")
}

/// Sends `question` until `wanted` accepts what the kernel says: a device that has just
/// come up may not speak yet.
pub(crate) fn ask(
    port: &mut impl Port,
    buf: &mut [u8],
    question: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> RxMeta {
    let deadline = Instant::now() + PATIENCE;
    loop {
        port.send(&TxFrame::whole(question)).unwrap();
        if let Some(meta) = look_for_frame(port, buf, Duration::from_millis(100), &wanted) {
            return meta;
        }
        assert!(Instant::now() < deadline, "the kernel does not answer");
    }
}

fn look_for_frame(
    port: &mut impl Port,
    buf: &mut [u8],
    limit: Duration,
    wanted: impl Fn(&[u8]) -> bool,
) -> Option<RxMeta> {
    let deadline = Instant::now() + limit;
    loop {
        // The last look comes after the deadline, however long we were kept from it.
        let is_late = Instant::now() >= deadline;
        match port.recv(buf).unwrap() {
            Some(meta) if wanted(&buf[..meta.len]) => return Some(meta),
            Some(_) => {}
            None if is_late => return None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    let status = std::process::Command::new("ip")
        .args(words.split_whitespace())
        .status()
        .unwrap();
    assert!(status.success(), "ip {words}");
}
