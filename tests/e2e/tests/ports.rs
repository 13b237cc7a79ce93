//! The engine on interfaces that it did not make.

use longshore_e2e::servers::Nginx;
use longshore_e2e::{Stack, TIMEOUT, conformance, payload, scenarios};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

const MB: u64 = 1024 * 1024;

scenarios! {
    /// nginx for a kernel curl, and curl for a kernel nginx, over a veth pair
    /// that the kernel goes on using.
    fn beside_the_kernel_on_a_veth(bed) within 300 {
        let (host, peer) = (bed.host_beside_the_kernel(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 64 * MB);
        let ours = Nginx { name: "ours", listen: "80; listen [::]:80", ..Nginx::default() };
        let theirs = Nginx { name: "theirs", listen: "8080", ..Nginx::default() };
        let fetch = |from: SocketAddr, to: &Path| {
            let to = to.display();
            format!(
                "for i in $(seq 600); do \
                    curl -sf --max-time 200 -o {to} http://{from}/file && exit; sleep 0.1; \
                 done; exit 1"
            )
        };
        {
            let server = host.cmd("nginx").arg("-c").arg(ours.config(bed)).spawn();
            let to = bed.path("served");
            let command = fetch(host.at(80), &to);
            peer.wait_for(host.at(80));
            peer.sh(&command).check();
            assert_eq!(payload::sha256_of_file(&to).expect("a file"), hash);
            let to = bed.path("served-by-ipv6");
            peer.sh(&fetch(host.at6(80), &to)).check();
            assert_eq!(payload::sha256_of_file(&to).expect("a file"), hash);
            if bed.stack() == Stack::Longshore {
                the_kernel_is_still_there(&host, &peer);
            }
            server.terminate().check();
        }
        let _server = peer.cmd("nginx").arg("-c").arg(theirs.config(bed)).spawn();
        let to = bed.path("fetched");
        host.sh(&fetch(peer.at(8080), &to)).check();
        assert_eq!(payload::sha256_of_file(&to).expect("a file"), hash);
    }

    /// A program that makes a tunnel, waits for the peer's connection on it, and
    /// is that peer itself: it writes and reads the tunnel's packets.
    fn on_a_tunnel_that_the_program_makes(bed) within 300 {
        let program = conformance::compile(bed, "tunnel");
        let host = bed.host_beside_the_kernel(0);
        match bed.stack() {
            Stack::Kernel => {
                let said = host.cmd(&program).args(["192.168.7.1", "kernel"]).check();
                assert!(said.contains("heard: hello"), "{said}");
            }
            Stack::Longshore => {
                let said = host
                    .longshore()
                    .args(["run", "--port", "packet:tun0", "--addr", "192.168.7.1/24", "--"])
                    .arg(&program)
                    .args(["192.168.7.1", "engine"])
                    .check();
                assert!(said.contains("heard: hello"), "{said}");
            }
        }
    }
}

/// The kernel of the engine's host answers at its own address on the same
/// interface.
fn the_kernel_is_still_there(host: &longshore_e2e::Host<'_>, peer: &longshore_e2e::Host<'_>) {
    let listener = host
        .namespace()
        .enter(|| TcpListener::bind("10.77.0.3:8081"))
        .expect("a port of the kernel");
    let said = peer.namespace().enter(move || {
        let limit = TIMEOUT;
        let at = "10.77.0.3:8081".parse().expect("an address");
        let mut near = TcpStream::connect_timeout(&at, limit).expect("connect to the kernel");
        let (mut far, _) = listener.accept().expect("accept in the kernel");
        near.write_all(b"kernel").expect("write");
        drop(near);
        let mut said = String::new();
        far.read_to_string(&mut said).expect("read");
        said
    });
    assert_eq!(said, "kernel");
}
