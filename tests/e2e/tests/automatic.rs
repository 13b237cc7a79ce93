//! Addresses that nobody has typed: from a DHCP server, and from what routers advertise.
//! The server is dnsmasq; the router is here, and says what a test wants.

use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Proc, Stack, Testbed, payload, run, run_uncounted};
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MB: u64 = 1 << 20;
/// The network's own end of the link: what is on it is the kernel's.
const NEAR: &str = "dyn0";
/// The ports on the link, each with what makes it.
const PORTS: [(&str, &str); 2] = [
    ("packet:dyn1", "link add dyn0 type veth peer name dyn1"),
    ("tap:dyn0", "tuntap add dev dyn0 mode tap"),
];

fn longshore_only(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(300), body);
}

/// Of how an address is found: no program says a word.
fn quiet(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

/// A link of the peer's with 10.79.0.1 and fd79::1 on it, at whose other end `port` is.
fn set_up(bed: &Testbed, port: &str, make: &str) {
    let peer = bed.peer();
    let ip = |words: &str| peer.namespace().ip(words);
    ip(make);
    if port.starts_with("packet:") {
        // The kernel must not find addresses there itself.
        peer.sh("echo 1 > /proc/sys/net/ipv6/conf/dyn1/disable_ipv6")
            .check();
        ip("link set dyn1 up");
    }
    ip(&format!("address add 10.79.0.1/24 dev {NEAR}"));
    ip(&format!("address add fd79::1/64 dev {NEAR} nodad"));
    ip(&format!("address add fe80::1/64 dev {NEAR} nodad"));
    ip(&format!("link set {NEAR} up"));
}

/// dnsmasq on the link, with more options.
fn server(bed: &Testbed, more: &[&str]) -> Proc {
    let leases = format!("--dhcp-leasefile={}", bed.path("leases").display());
    let server = bed
        .peer()
        .cmd("dnsmasq")
        .args([
            "--keep-in-foreground",
            "--port=0",
            "--bind-interfaces",
            "--log-dhcp",
        ])
        .args([
            "--no-ping",
            "--log-facility=-",
            "--pid-file=",
            "--user=root",
        ])
        .args(["--conf-file=/dev/null", "--interface=dyn0"])
        .args([&*leases])
        .args(more)
        .spawn();
    // It is ready when it listens; a question that comes before is repeated late.
    let peer = bed.peer();
    longshore_e2e::eventually("dnsmasq listens", || {
        let sockets = peer.sh("cat /proc/net/udp").check();
        sockets.contains(":0043 ").then_some(())
    });
    server
}

const RANGE: &str = "--dhcp-range=10.79.0.50,10.79.0.59,255.255.255.0,2m";

/// A program fetches a file by IPv4 from a server that it knows by the lease alone.
#[test]
fn a_dhcp_server_gives_an_address_and_gets_it_back() {
    for (port, make) in PORTS {
        longshore_only(move |bed| {
            set_up(bed, port, make);
            // A far network, behind the router that the lease names.
            let peer = bed.peer();
            peer.namespace().ip("address add 192.0.2.1/32 dev lo");
            let dhcp = server(bed, &[RANGE, "--dhcp-option=26,1300"]);
            let (_, hash) = bed.payload("www/file", 4 * MB);
            let _web = peer
                .cmd(PYTHON)
                .args(["-u", "-m", "http.server", "8000", "--directory"])
                .arg(bed.directory("www"))
                .spawn();
            peer.wait_for("192.0.2.1:8000".parse().expect("an address"));
            let got = bed.path("got");
            let script = format!(
                "curl -sSf --max-time 200 -o {} -w '%{{local_ip}} ' http://192.0.2.1:8000/file; \
                 cat {}",
                got.display(),
                bed.path("leases").display(),
            );
            let said = peer
                .longshore()
                .args(["run", "--port", port, "--addr", "dhcp", "--"])
                .args(["/bin/sh", "-ec", &script])
                .check();
            assert_eq!(
                payload::sha256_of_file(&got).expect("a file"),
                hash,
                "{port}"
            );
            let (from, leases) = said.split_once(' ').expect("an address");
            assert!(from.starts_with("10.79.0.5"), "{port}: {said}");
            assert!(leases.contains(from), "{port}: {said}");
            // It has said goodbye.
            longshore_e2e::eventually("the lease is given back", || {
                let log = dhcp.stderr() + &dhcp.stdout();
                log.contains("DHCPRELEASE").then_some(())
            });
        });
    }
}

/// What somebody on the link has already is declined, and another address taken.
#[test]
fn an_address_that_somebody_has_is_declined() {
    quiet(|bed| {
        let (port, make) = PORTS[0];
        set_up(bed, port, make);
        let peer = bed.peer();
        // The one that is given first, as the server does not know.
        peer.namespace().ip("address add 10.79.0.50/32 dev dyn0");
        let dhcp = server(
            bed,
            &[
                "--dhcp-range=10.79.0.50,10.79.0.51,255.255.255.0,2m",
                "--dhcp-sequential-ip",
            ],
        );
        let mut waits = peer
            .longshore()
            .args(["run", "--port", port, "--addr", "dhcp", "--", "true"])
            .spawn();
        longshore_e2e::eventually("the address is declined", || {
            let log = dhcp.stderr() + &dhcp.stdout();
            log.contains("DHCPDECLINE").then_some(())
        });
        assert!(waits.running(), "it tries again after ten seconds");
        let done = waits.wait();
        assert!(done.stderr.contains("waiting"), "{}", done.stderr);
        done.check();
    });
}

/// Without a server there is a word, and then an error that says what to do.
#[test]
fn a_link_without_a_server_says_so() {
    quiet(|bed| {
        let (port, make) = PORTS[0];
        set_up(bed, port, make);
        let done = bed
            .peer()
            .longshore()
            .args(["run", "--port", port, "--addr", "dhcp", "--", "true"])
            .run();
        assert_eq!(done.status.code(), Some(125), "{}", done.stderr);
        for word in [
            "waiting",
            "no DHCP server has given an address",
            "--addr ADDR/PREFIX",
        ] {
            assert!(done.stderr.contains(word), "{}", done.stderr);
        }
    });
}

/// Advertisements from `NEAR`, one every half second until it is dropped.
struct Router {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Router {
    fn start(bed: &Testbed, message: Vec<u8>) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let socket = bed
            .peer()
            .namespace()
            .enter(|| raw_socket().expect("a raw socket"));
        let index: u32 = bed
            .peer()
            .sh(&format!("cat /sys/class/net/{NEAR}/ifindex"))
            .check()
            .trim()
            .parse()
            .expect("a number");
        let to = SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, index);
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let none = rustix::net::SendFlags::empty();
                let _ = rustix::net::sendto(&socket, &message, none, &to);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            longshore_testbed::join(thread);
        }
    }
}

/// A socket for ICMPv6, whose messages have passed no router. The kernel makes checksums.
fn raw_socket() -> io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket, sockopt};
    let fd = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))?;
    sockopt::set_ipv6_multicast_hops(&fd, 255)?;
    Ok(fd)
}

/// A router advertisement for fd79:0:0:5::/64: 30 minutes, an MTU of 1400, a hop limit of
/// 33, a resolver.
fn advertisement() -> Vec<u8> {
    let mut m = vec![134, 0, 0, 0, 33, 0];
    m.extend(1800u16.to_be_bytes());
    m.extend([0; 8]);
    m.extend([5, 1, 0, 0]);
    m.extend(1400u32.to_be_bytes());
    m.extend([3, 4, 64, 0xc0]);
    m.extend(3600u32.to_be_bytes());
    m.extend(1800u32.to_be_bytes());
    m.extend([0; 4]);
    m.extend(Ipv6Addr::new(0xfd79, 0, 0, 5, 0, 0, 0, 0).octets());
    m.extend([25, 3, 0, 0, 0, 0, 2, 88]);
    m.extend(Ipv6Addr::new(0xfd79, 0, 0, 0, 0, 0, 0, 53).octets());
    m
}

/// An address is made of what a router advertises, the same each time, and the world is
/// reached through the router.
#[test]
fn a_router_advertises_a_prefix() {
    for (port, make) in PORTS {
        longshore_only(move |bed| {
            set_up(bed, port, make);
            let peer = bed.peer();
            // On the link, and behind the router.
            peer.namespace()
                .ip(&format!("address add fd79:0:0:5::1/64 dev {NEAR} nodad"));
            peer.namespace().ip("address add 2001:db8::1/128 dev lo");
            let (_, hash) = bed.payload("www/file", 4 * MB);
            let _web = peer
                .cmd(PYTHON)
                .args([
                    "-u",
                    "-m",
                    "http.server",
                    "8000",
                    "--bind",
                    "::",
                    "--directory",
                ])
                .arg(bed.directory("www"))
                .spawn();
            peer.wait_for("[2001:db8::1]:8000".parse().expect("an address"));
            let _router = Router::start(bed, advertisement());
            let got = bed.path("got");
            let script = format!(
                "curl -sSf -g --max-time 200 -o {} -w '%{{local_ip}}' 'http://[2001:db8::1]:8000/file'",
                got.display()
            );
            let mut from = Vec::new();
            for _ in 0..2 {
                let said = peer
                    .longshore()
                    .args(["run", "--port", port, "--addr", "slaac", "--"])
                    .args(["/bin/sh", "-ec", &script])
                    .check();
                let own: Ipv6Addr = said.parse().expect("an address");
                assert_eq!(own.segments()[..4], [0xfd79, 0, 0, 5], "{port}: {said}");
                assert_eq!(payload::sha256_of_file(&got).expect("a file"), hash);
                from.push(said);
            }
            assert_eq!(from[0], from[1], "{port}: the same each time");
        });
    }
}
