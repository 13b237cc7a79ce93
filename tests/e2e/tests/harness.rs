//! The testbed itself: what does not go through Longshore does not arrive, and is not
//! taken for carried.

use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Stack, Testbed, run_uncounted};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A library that does nothing, in the shim's place.
fn empty_library(bed: &Testbed) -> PathBuf {
    let source = bed.file("empty.c", "");
    let library = bed.path("empty.so");
    let output = std::process::Command::new("gcc")
        .args(["-shared", "-o"])
        .arg(&library)
        .arg(&source)
        .output()
        .expect("gcc is installed");
    assert!(output.status.success(), "{output:?}");
    library
}

/// Programs that Longshore does not serve reach nobody, and nobody them.
#[test]
fn an_empty_library_carries_nothing() {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), |bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let library = empty_library(bed);
        let _server = peer.cmd(PYTHON).args(["-m", "http.server", "8000"]).spawn();
        peer.wait_for(SocketAddr::from(([127, 0, 0, 1], 8000)));
        let client = host
            .cmd("curl")
            .args(["-sS", "--max-time", "60"])
            .arg(format!("http://{}/", peer.at(8000)))
            .env("LONGSHORE_PRELOAD", &library)
            .run();
        // It could not connect.
        assert_eq!(client.status.code(), Some(7), "{client:?}");
        let mut server = host
            .cmd(PYTHON)
            .args(["-u", "-m", "http.server", "8000"])
            .env("LONGSHORE_PRELOAD", &library)
            .spawn();
        longshore_e2e::eventually("it listens, somewhere", || {
            server.stdout().contains("Serving").then_some(())
        });
        let client = peer
            .cmd("curl")
            .args(["-sS", "--max-time", "60"])
            .arg(format!("http://{}/", host.at(8000)))
            .run();
        assert_eq!(client.status.code(), Some(7), "{client:?}");
        server.assert_running();
        drop(server);
        assert!(!bed.has_carried());
    });
}
