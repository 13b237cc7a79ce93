//! The interface between programs and the engine is what its document says: a program that is
//! written from docs/host-adapter-interface.md alone, and has nothing of Longshore's in it, is served.

use longshore_e2e::{Stack, Testbed, eventually, run_uncounted};
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(120), body);
}

#[test]
fn a_program_by_the_document_alone_serves_a_request() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/by_the_document.py");
        // Without the shim, which would find it an engine.
        let peer = bed.peer();
        let server = peer
            .cmd("python3")
            .arg(program)
            .arg(engine.socket())
            .spawn();
        eventually("it listens", || {
            server.stdout().contains("READY").then_some(())
        });
        let url = format!("http://{}/", host.at(8000));
        let got = bed
            .peer()
            .cmd("curl")
            .args(["-sS", "-m", "20", &url])
            .check();
        assert_eq!(got, "as the document says\n");
        let end = server.wait();
        assert!(end.status.success(), "{end:?}");
        assert!(end.stdout.contains("GET / HTTP/1.1"), "{end:?}");
    });
}
