//! What a connection takes of memory while nothing happens on it, after something did. The
//! figures themselves are a benchmark's (`longshore-bench idle`); this holds the bound that
//! documentation gives, with room for what is taken by pages and tables and not by
//! connections. Longshore only: the kernel's memory for a connection is in no process.

use longshore_e2e::{Proc, Stack, Testbed, eventually, run, servers::Nginx, servers::PYTHON};
use std::fmt::Write as _;
use std::time::Duration;

/// Bytes of a connection, of the program's and the engine's memory together, that are
/// promised (docs/performance.md).
const PROMISED: u64 = 4_096;
/// What may be seen of some connections: memory comes in pages, and tables double. One
/// chunk that a connection keeps to itself would be a page of each slab, 8,192 bytes.
const SEEN: u64 = PROMISED * 3 / 2;

/// Opens connections, asks for a file on each, reads it to its end and then says and does
/// nothing.
const CLIENT: &str = r#"
import socket, sys, time
address, count = (sys.argv[1], 80), int(sys.argv[2])
held = []
for _ in range(count):
    s = socket.create_connection(address)
    s.sendall(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n")
    said = b""
    while b"\r\n\r\n" not in said:
        said += s.recv(65536)
    head, body = said.split(b"\r\n\r\n", 1)
    assert b" 200 " in head.split(b"\r\n")[0], head
    while len(body) < 1024:
        body += s.recv(65536)
    held.append(s)
print("asked", flush=True)
time.sleep(600)
"#;

/// Bytes that a program and its engine have in memory beside what is in files; what they share
/// counts once. Pages of files are nobody's alone: their part of them changes with every other
/// program that has the same libraries.
fn memory(of: &Proc) -> u64 {
    let pss = |pid: i32| -> Option<u64> {
        let all = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let figure = |name: &str| -> Option<u64> {
            let line = all.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some(figure("Pss_Anon:")? + figure("Pss_Shmem:")?)
    };
    of.family().into_iter().filter_map(pss).sum::<u64>() * 1024
}

fn connections(bed: &Testbed, server: &Proc) {
    let (host, peer) = (bed.host(0), bed.peer());
    let open = |count: u64| {
        let client = peer.cmd(PYTHON).args(["-c", CLIENT]);
        let client = client.args([&host.ip().to_string(), &count.to_string()]);
        let client = client.spawn();
        eventually("every connection has had its answer", || {
            client.stdout().contains("asked").then_some(())
        });
        client
    };
    // What the first connections bring into memory serves all others.
    let _first = open(300);
    // Memory that nobody wants goes back after some seconds.
    let settled = || {
        std::thread::sleep(Duration::from_secs(6));
        memory(server)
    };
    let many = 1_000;
    // Until nothing goes back any more: what did later would count as if connections had.
    let mut last = settled();
    let before = eventually("memory stays as it is", || {
        let (earlier, now) = (last, settled());
        last = now;
        (earlier.abs_diff(now) < 100 * many).then_some(earlier.min(now))
    });
    let _many = open(many);
    let mut seen = String::new();
    eventually("connections give back what they do not need", || {
        let each = settled().saturating_sub(before) / many;
        let _ = write!(seen, " {each}");
        eprintln!("bytes of a connection after a request, at each look:{seen}");
        (each <= SEEN).then_some(())
    });
}

#[test]
fn a_connection_after_a_request() {
    run(Stack::Longshore, Duration::from_secs(300), |bed| {
        let _ = bed.payload("www/file", 1 << 10);
        let nginx = Nginx {
            top: "worker_rlimit_nofile 8192;",
            connections: 4_096,
            server: "keepalive_timeout 600s;",
            ..Nginx::default()
        };
        let mut server = bed
            .host(0)
            .cmd("nginx")
            .arg("-c")
            .arg(nginx.config(bed))
            .spawn();
        bed.peer().wait_for(bed.host(0).at(80));
        connections(bed, &server);
        server.assert_running();
    });
}
