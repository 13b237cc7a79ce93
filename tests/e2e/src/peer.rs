//! A peer in the test itself: a connection from a host of the testbed, and its end.

use longshore_testbed::{Host, PATIENCE};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// A connection from `host` to `at`, whose reads wait for no longer than [`PATIENCE`].
///
/// # Panics
/// If there is none within that time.
pub fn connect(host: &Host<'_>, at: SocketAddr) -> TcpStream {
    host.namespace().enter(|| {
        let stream = TcpStream::connect_timeout(&at, PATIENCE).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream
    })
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
        assert!(start.elapsed() < PATIENCE, "it does not end");
    }
}
