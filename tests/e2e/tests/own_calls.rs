//! Programs that make their system calls without libc, as Go's, Zig's and those with rustix do: the
//! kernel brings these calls to the shim, on x86-64.
#![cfg(target_arch = "x86_64")]

use longshore_e2e::{Host, Proc, Stack, Testbed, conformance, longshore, run_uncounted, scenarios};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A program of Rust with rustix, whose calls are in its own code (`src/bin/own_calls.rs`).
const PROGRAM: &str = env!("CARGO_BIN_EXE_own_calls");
const PORT: u16 = 7000;
const BYTES: usize = 3 << 20;

/// Has this host send what it receives, on all its addresses.
fn server(host: &Host<'_>) -> Proc {
    host.cmd(PROGRAM)
        .args(["serve", &format!("0.0.0.0:{PORT}")])
        .spawn()
}

/// Three connections at once: all that is sent comes back.
fn ask(host: &Host<'_>, address: SocketAddr) {
    host.cmd(PROGRAM)
        .args(["ask", &address.to_string(), "3", &BYTES.to_string()])
        .check();
}

scenarios! {
    /// Threads with epoll sets of their own, which share a listener.
    fn serves(bed) within 60 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = server(&host);
        peer.wait_for(host.at(PORT));
        ask(&peer, host.at(PORT));
    }

    fn asks(bed) within 60 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = server(&peer);
        peer.wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        ask(&host, peer.at(PORT));
    }

    /// Registers, small stacks, signals and threads.
    fn particulars(bed) within 120 { conformance::run_without_libc(bed, "own_calls"); }

    /// What programs do by libc they may do without.
    fn stream(bed) within 300 { conformance::run_without_libc(bed, "stream"); }

    /// Its functions make whatever call they are told.
    fn unoptimised(bed) within 300 { conformance::run_unoptimised_without_libc(bed, "stream"); }

    fn connect(bed) within 300 { conformance::run_without_libc(bed, "connect"); }

    fn datagram(bed) within 300 { conformance::run_without_libc(bed, "datagram"); }

    fn readiness(bed) within 300 { conformance::run_without_libc(bed, "readiness"); }

    fn descriptors(bed) within 300 { conformance::run_without_libc(bed, "descriptors"); }

    fn processes(bed) within 300 { conformance::run_without_libc(bed, "processes"); }

    fn children(bed) within 300 { conformance::run_without_libc(bed, "children"); }

    fn signals(bed) within 300 { conformance::run_without_libc(bed, "signals"); }

    fn memory(bed) within 300 { conformance::run_without_libc(bed, "memory"); }

    fn misuse(bed) within 300 { conformance::run_without_libc(bed, "misuse"); }

    fn inet6(bed) within 300 { conformance::run_without_libc(bed, "inet6"); }
}

/// What is said when the program is run, on a kernel of this version, with this in the variable.
fn said(bed: &Testbed, version: &str, own_calls: &str) -> String {
    let older = conformance::compile(bed, "older");
    let (peer, address) = (bed.peer(), SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    let _server = server(&peer);
    peer.wait_for(address);
    let run = peer
        .cmd(older)
        .arg(version)
        .arg(longshore())
        .args(["run", "--", PROGRAM, "ask"]);
    let asks = run.args([&address.to_string(), "1", "1000"]);
    let finished = asks.env("LONGSHORE_OWN_CALLS", own_calls).run();
    assert!(finished.status.success(), "{}", finished.stderr);
    finished.stderr
}

/// Where the kernel cannot bring them, they stay with it, and it is said; and where that was asked
/// for.
#[test]
fn calls_that_stay_with_the_kernel_are_told_of() {
    run_uncounted(Stack::Longshore, Duration::from_secs(60), |bed| {
        let unserved = "makes socket calls without libc";
        assert!(said(bed, "5.10", "").contains(unserved));
        assert!(!said(bed, "5.11", "").contains(unserved));
        assert!(!said(bed, "5.10", "kernel").contains(unserved));
    });
}
