//! What peers do in tests: connections from a host of the testbed to the test itself, their
//! end, and files that are fetched.

use longshore_testbed::{Cmd, Host, TIMEOUT, Testbed, payload};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// A connection from `host` to `at`, whose reads wait for no longer than [`TIMEOUT`].
///
/// # Panics
/// If there is none within that time.
pub fn connect(host: &Host<'_>, at: SocketAddr) -> TcpStream {
    host.namespace().enter(|| {
        let stream = TcpStream::connect_timeout(&at, TIMEOUT).expect("connect");
        stream.set_read_timeout(Some(TIMEOUT)).expect("timeout");
        stream
    })
}

/// Fetches a URL with this curl, within 200 s; the SHA-256 of what came.
///
/// # Panics
/// If it does not come, or is not written.
pub fn fetch(bed: &Testbed, curl: Cmd, url: &str) -> String {
    let name = url.replace('/', "_");
    let output = bed.path(&format!("fetched-{name}-{:?}", std::thread::current().id()));
    curl.args(["-sSf", "--max-time", "200", "-o"])
        .arg(&output)
        .arg(url)
        .check();
    let hash = payload::sha256_of_file(&output).expect("curl wrote a file");
    std::fs::remove_file(output).expect("remove it");
    hash
}

/// The connection ends: by a reset, or by the end of the stream.
///
/// # Panics
/// If it does neither.
pub fn ends(mut stream: TcpStream) {
    let mut bytes = [0; 65536];
    let start = Instant::now();
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(e) => panic!("the connection neither ends nor goes on: {e}"),
        }
        assert!(start.elapsed() < TIMEOUT, "it does not end");
    }
}
