//! What a program receives in bulk is read by its engine's port to where it takes it, and is what
//! was sent, on several connections, by both versions of IP, and where its pages are exchanged.

use longshore_e2e::peer::connect;
use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Host, Stack, TIMEOUT, Testbed, payload, run};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// Reads each connection to its end, into whole pages, and sends the SHA-256 of what came.
const SINK: &str = "import hashlib, mmap, socket, threading\n\
    def serve(s):\n\
    \x20   memory, hash = memoryview(mmap.mmap(-1, 1 << 18)), hashlib.sha256()\n\
    \x20   while n := s.recv_into(memory): hash.update(memory[:n])\n\
    \x20   s.sendall(hash.hexdigest().encode()); s.close()\n\
    listener = socket.create_server(('::', 9), family=socket.AF_INET6, dualstack_ipv6=True)\n\
    while True: threading.Thread(target=serve, args=[listener.accept()[0]]).start()";
/// Bytes of each connection.
const LEN: usize = 32 << 20;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(300), body);
}

/// So many connections from the peer bring bytes at the same time, and what came of each is right.
fn upload(peer: &Host<'_>, at: SocketAddr, connections: u64) {
    std::thread::scope(|scope| {
        for seed in 0..connections {
            scope.spawn(move || {
                let bytes = payload::Bytes::take(seed, LEN);
                let (hash, _) = payload::sha256_of(&bytes[..]).expect("a hash");
                let mut stream = connect(peer, at);
                stream.set_write_timeout(Some(TIMEOUT)).expect("timeout");
                // A part of 128 KiB and a bit, and now and then a few bytes.
                for (i, part) in bytes.chunks(131_100).enumerate() {
                    let (few, rest) = part.split_at(if i % 7 == 0 { 5 } else { 0 });
                    stream.write_all(few).expect("few bytes");
                    stream.write_all(rest).expect("a part");
                }
                stream.shutdown(Shutdown::Write).expect("the end");
                let mut said = String::new();
                stream.read_to_string(&mut said).expect("a hash");
                assert_eq!(said, hash, "connection {seed}");
            });
        }
    });
}

/// How many segments an engine has received into place, of how many with payload.
fn counts(stats: &[serde_json::Value]) -> (u64, u64) {
    assert_eq!(stats.len(), 1, "{stats:?}");
    let count = |name: &str| {
        let count = stats[0]["tcp"][name].as_u64();
        count.unwrap_or_else(|| panic!("no {name}: {}", stats[0]))
    };
    (count("received_in_place"), count("data_segments_in"))
}

fn is_received_into_place(options: &'static [&'static str]) {
    scenario(move |bed| {
        let host = options.iter().fold(bed.host(0), Host::option);
        let peer = bed.peer();
        let mut sink = host.cmd(PYTHON).args(["-c", SINK]).spawn();
        peer.wait_for(host.at(9));
        for (at, connections) in [(host.at(9), 1), (host.at6(9), 1), (host.at(9), 4)] {
            let (before, all_before) = counts(&host.stat());
            upload(&peer, at, connections);
            let (after, all_after) = counts(&host.stat());
            let (in_place, all) = (after - before, all_after - all_before);
            println!("{at}, {connections} connections: {in_place} of {all}");
            // Other work has turns of few frames, or the connections by turns.
            let least = if connections == 1 { all / 4 } else { 1 };
            assert!(in_place >= least, "{at}: {in_place} of {all}");
        }
        sink.assert_running();
    });
}

#[test]
fn bulk_is_received_into_place() {
    is_received_into_place(&[]);
}

/// Pages of the receive slab are shown in the program's memory while the port reads behind them.
#[test]
fn bulk_is_received_into_place_beside_pages_that_are_exchanged() {
    is_received_into_place(&["--zero-copy", "always"]);
}

/// An engine for many programs must not put one's bytes where another's reads.
#[test]
fn an_engine_for_many_receives_nothing_into_place() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let _sink = engine.cmd(PYTHON).args(["-c", SINK]).spawn();
        peer.wait_for(host.at(9));
        upload(&peer, host.at(9), 1);
        assert_eq!(counts(&[engine.stat()]).0, 0);
    });
}
