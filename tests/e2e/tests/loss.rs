//! Bulk through a bad network: every byte arrives, once and in its place.

use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{payload, scenarios, soak};
use std::time::Duration;

/// What the engine's port does to packets, in both directions.
const BAD: &str = "loss=2%,reorder=2%,duplicate=1%,seed=7";

scenarios! {
    /// Out: a server on the stack under test sends through the bad network.
    fn download(bed) within 900 {
        let (host, peer) = (bed.host(0).option("--fault").option(BAD), bed.peer());
        let (_, hash) = bed.payload("www/file", soak(128 << 20, 1 << 30));
        let _nginx = host.cmd("nginx").arg("-c").arg(Nginx::default().config(bed)).spawn();
        peer.wait_for(host.at(80));
        peer.cmd("curl")
            .args(["-sSf", "-o"])
            .arg(bed.path("got"))
            .arg(format!("http://{}/file", host.ip()))
            .timeout(Duration::from_secs(soak(600, 800)))
            .check();
        assert_eq!(payload::sha256_of_file(&bed.path("got")).expect("a file"), hash);
    }

    /// In: a client sends to a server on the stack under test.
    fn upload(bed) within 900 {
        let (host, peer) = (bed.host(0).option("--fault").option(BAD), bed.peer());
        let (file, hash) = bed.payload("file", soak(128 << 20, 1 << 30));
        let script = bed.file("sink.py", SINK);
        let _server = host.cmd(PYTHON).arg(script).spawn();
        peer.wait_for(host.at(9000));
        let said = peer
            .cmd(PYTHON)
            .args(["-c", SOURCE])
            .arg(host.ip().to_string())
            .arg(file)
            .timeout(Duration::from_secs(soak(600, 800)))
            .check();
        assert_eq!(said.trim(), hash);
    }
}

/// Answers each connection with the SHA-256 of what it got until its end.
const SINK: &str = r#"
import hashlib, socket
listener = socket.create_server(("0.0.0.0", 9000))
while True:
    connection, _ = listener.accept()
    digest = hashlib.sha256()
    while piece := connection.recv(1 << 18):
        digest.update(piece)
    try:
        connection.sendall(digest.hexdigest().encode())
    except OSError:
        pass
    connection.close()
"#;

const SOURCE: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], 9000))
with open(sys.argv[2], "rb") as f:
    s.sendfile(f)
s.shutdown(socket.SHUT_WR)
print(s.recv(100).decode())
"#;
