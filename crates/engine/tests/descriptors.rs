//! An engine whose process has no file descriptor left: who asks it something is told so, and does not wait
//! without end. This is the only test of its process, whose limit it lowers.

mod common;

use common::TIMEOUT;
use common::engines::{alone, run, stat};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;

/// Descriptors that the process may have for a while.
const FEW: u64 = 256;

#[test]
fn who_asks_an_engine_without_descriptors_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _other) = alone(dir.path());
    let control = dir.path().join("control.sock");
    config.control = Some(control.clone());
    let _engine = run(config);
    let address = SocketAddrUnix::new(&control).unwrap();
    let clients = [(); 3].map(|()| {
        let client = socket(AddressFamily::UNIX, SocketType::STREAM, None);
        UnixStream::from(client.unwrap())
    });
    let usual = getrlimit(Resource::Nofile);
    let current = Some(FEW);
    setrlimit(Resource::Nofile, Rlimit { current, ..usual }).unwrap();
    let eventfds = std::iter::from_fn(|| eventfd(0, EventfdFlags::CLOEXEC).ok());
    let eventfds: Vec<_> = eventfds.collect();
    for client in &clients {
        connect(client, &address).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).unwrap();
        assert!(answer.contains("no file descriptor left"), "{answer}");
    }
    drop(eventfds);
    setrlimit(Resource::Nofile, usual).unwrap();
    assert_eq!(stat(&control).pid, std::process::id());
}
