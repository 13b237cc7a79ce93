//! A wire that flips bits: checksums find each, what they cover is dropped and counted,
//! and every byte arrives as it was sent.

mod common;

use common::Host;
use common::engines::{bytes, config, run};
use longshore_engine::control::{ControlReply, StatReply};
use longshore_hostif::{EdgeFlags, Loopback, OpenFlags, SocketKind};
use longshore_ports::Faults;
use longshore_ports::fault::{FaultConfig, FaultPort};
use longshore_ports::memory::{MemoryConfig, pair};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const SERVER: &str = "10.0.0.1/24 fd00::1/64";
const CLIENT: &str = "10.0.0.2/24 fd00::2/64";

fn drops(control: &Path) -> u64 {
    let mut stream = UnixStream::connect(control).unwrap();
    stream.write_all(b"{\"cmd\":\"stat\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let stat: Box<StatReply> = match serde_json::from_str(&line).unwrap() {
        ControlReply::Stat(stat) => stat,
        other => panic!("{other:?}"),
    };
    let of = |name| stat.drops.get(name).copied().unwrap_or(0);
    of("ip_bad_checksum") + of("bad_transport_checksum")
}

#[test]
fn what_a_wire_has_corrupted_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = pair(&MemoryConfig {
        ethernet: false,
        ..MemoryConfig::default()
    });
    let faults = Faults {
        corrupt: 0.03,
        ..Faults::default()
    };
    let bad = FaultPort::new(
        far,
        &FaultConfig {
            tx: faults,
            rx: faults,
            seed: 7,
        },
    );
    let mut server = config(dir.path(), SERVER, Box::new(near), Loopback::Kernel, true);
    let mut client = config(dir.path(), CLIENT, Box::new(bad), Loopback::Kernel, true);
    let control = (dir.path().join("one"), dir.path().join("other"));
    server.control = Some(control.0.clone());
    client.control = Some(control.1.clone());
    let (a, b) = (run(server), run(client));
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let both = OpenFlags::IPV6 | OpenFlags::REUSE_ADDRESS;
    let listener = server.open_with(SocketKind::Stream, both);
    server.bind(listener, "[::]:80".parse().unwrap()).unwrap();
    assert_eq!(server.listen(listener), 0);
    for (seed, to) in [(1, "[::ffff:10.0.0.1]:80"), (2, "[fd00::1]:80")] {
        let socket = client.open_with(SocketKind::Stream, both);
        assert_eq!(client.connect(socket, to.parse().unwrap()), 0);
        let accepted = server.accept(listener).socket;
        let (there, back) = (bytes(1_000_000, seed), bytes(1_000_000, !seed));
        client.send(socket, &there, EdgeFlags::empty());
        server.send(accepted, &back, EdgeFlags::empty());
        assert!(server.receive(accepted, there.len()) == there, "to {to}");
        assert!(client.receive(socket, back.len()) == back, "from {to}");
    }
    for control in [&control.0, &control.1] {
        assert!(drops(control) > 5, "{}", drops(control));
    }
}
