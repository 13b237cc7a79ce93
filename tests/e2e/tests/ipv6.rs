//! Unmodified programs over IPv6, and over both versions at once.

use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{Host, Stack, Testbed, iperf3, payload, peer, scenarios};
use std::net::SocketAddr;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

/// Listens as Debian's default site does, on each version by a socket of its own.
const BOTH: &str = "80; listen [::]:80 ipv6only=on";

/// Fetches a file by IPv4 (`-4`) or IPv6 (`-6`); gives the SHA-256 of what came.
fn fetch(bed: &Testbed, from: &Host<'_>, version: &str, at: SocketAddr, file: &str) -> String {
    let curl = from.cmd("curl").arg(version);
    peer::fetch(bed, curl, &format!("http://{at}/{file}"))
}

/// To it, from it, several at once, datagrams.
const IPERF: [&[&str]; 5] = [
    &[],
    &["-R"],
    &["-P", "4", "-R"],
    &["-u", "-b", "50M"],
    &["-u", "-b", "50M", "-R"],
];

scenarios! {
    /// nginx serves both versions, on two sockets and on one.
    fn nginx(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, small) = bed.payload("www/small", KB);
        let (_, large) = bed.payload("www/large", 64 * MB);
        for (name, listen) in [("two", BOTH), ("one", "[::]:80 ipv6only=off")] {
            let nginx = Nginx { name, listen, workers: 2, ..Nginx::default() };
            let mut server = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
            peer.wait_for(host.at6(80));
            for (file, hash) in [("small", &small), ("large", &large)] {
                assert_eq!(&fetch(bed, &peer, "-6", host.at6(80), file), hash, "{name}: IPv6");
                assert_eq!(&fetch(bed, &peer, "-4", host.at(80), file), hash, "{name}: IPv4");
            }
            server.assert_running();
            bed.assert_carried();
            bed.kill_all();
        }
    }

    /// Python's HTTP server on the wildcard of IPv6, which is IPv4's too.
    fn python_http_server(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/8m", 8 * MB);
        let _server = host
            .cmd(PYTHON)
            .args(["-m", "http.server", "8000", "--bind", "::", "--directory"])
            .arg(bed.directory("www"))
            .spawn();
        peer.wait_for(host.at6(8000));
        assert_eq!(fetch(bed, &peer, "-6", host.at6(8000), "8m"), hash);
        assert_eq!(fetch(bed, &peer, "-4", host.at(8000), "8m"), hash);
    }

    /// iperf3 -6 as the server.
    fn iperf3_server(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = host.cmd("iperf3").args(["-6", "-s"]).spawn();
        for extra in IPERF {
            iperf3::check(&peer, host.ip6(), extra);
        }
    }

    /// curl -6 and iperf3 -6 as clients of kernel servers.
    fn clients(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/large", 64 * MB);
        let nginx = Nginx { listen: "[::]:8080", ..Nginx::default() };
        let _server = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        // On Longshore the peer's address is there only once an engine runs.
        let script = format!(
            "for i in $(seq 600); do curl -6 -s -o /dev/null http://{0}/ && break; sleep 0.1; done; \
             curl -6 -sSf --max-time 200 -o {1} http://{0}/large",
            peer.at6(8080),
            bed.path("got").display(),
        );
        host.sh(&script).check();
        assert_eq!(payload::sha256_of_file(&bed.path("got")).expect("a file"), hash);
        let _server = peer.cmd("iperf3").args(["-6", "-s"]).spawn();
        for extra in IPERF {
            iperf3::check(&host, peer.ip6(), extra);
        }
    }

    /// Two hosts, the kernel only forwarding between them.
    fn nginx_and_curl_on_two_hosts(bed) within 300 {
        let (server, client) = (bed.host(0), bed.host(1));
        let (_, hash) = bed.payload("www/large", 64 * MB);
        let nginx = Nginx { listen: BOTH, ..Nginx::default() };
        let _nginx = server.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        bed.peer().wait_for(server.at6(80));
        assert_eq!(fetch(bed, &client, "-6", server.at6(80), "large"), hash);
    }

    /// One host, its own addresses and ::1, which is Longshore's where it is told so.
    fn nginx_and_curl_on_one_host(bed) within 300 {
        let host = bed.host(0).option("--loopback").option("engine");
        let (_, hash) = bed.payload("www/large", 64 * MB);
        let nginx = Nginx { listen: "[::]:80 ipv6only=off", ..Nginx::default() };
        let script = format!(
            "nginx -c {config} & \
             for i in $(seq 600); do curl -s -o /dev/null http://{own}/ && break; sleep 0.1; done; \
             curl -sSf --max-time 200 -o {to}/own http://{own}/large; \
             curl -sSf --max-time 200 -o {to}/loopback 'http://[::1]/large'; \
             curl -sSf --max-time 200 -o {to}/mapped 'http://127.0.0.1/large'; \
             kill -QUIT $(cat {pid}); wait",
            config = nginx.config(bed).display(),
            own = host.at6(80),
            to = bed.path("").display(),
            pid = nginx.pid_file(bed).display(),
        );
        host.sh(&script).check();
        for name in ["own", "loopback", "mapped"] {
            let got = payload::sha256_of_file(&bed.path(name)).expect("a file");
            assert_eq!(got, hash, "{name}");
        }
    }

    /// The address that a host has on its link alone, by the link's number.
    fn link_local(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let server = host
            .cmd(PYTHON)
            .args(["-u", "-m", "http.server", "8000", "--bind", "::", "--directory"])
            .arg(bed.directory("www"))
            .spawn();
        let (_, hash) = bed.payload("www/file", MB);
        peer.wait_for(host.at6(8000));
        let (address, device) = match bed.stack() {
            Stack::Kernel => (of_kernel(&host), "host0".to_owned()),
            Stack::Longshore => of_engine(&host),
        };
        let got = bed.path("got");
        peer.cmd("curl")
            .args(["-g", "-sSf", "--max-time", "200", "-o"])
            .arg(&got)
            .arg(format!("http://[{address}%25{device}]:8000/file"))
            .check();
        assert_eq!(payload::sha256_of_file(&got).expect("a file"), hash);
        drop(server);
    }
}

/// The link-local address of a host on the kernel.
fn of_kernel(host: &Host<'_>) -> String {
    let said = host
        .cmd("ip")
        .args(["-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"])
        .check();
    let address = said.split_whitespace().skip_while(|w| *w != "inet6").nth(1);
    let (address, _) = address
        .and_then(|a| a.split_once('/'))
        .expect("an address with a length");
    address.to_owned()
}

/// The link-local address of the engine in a host's namespace, and its device.
fn of_engine(host: &Host<'_>) -> (String, String) {
    let stat = host.stat();
    let addresses = stat[0]["addresses"].as_array().expect("a list");
    let mut texts = addresses.iter().filter_map(|a| a.as_str());
    let link = texts.find(|a| a.starts_with("fe80:")).expect("one of them");
    let port = stat[0]["port"]["name"].as_str().expect("a name");
    let (address, _) = link.split_once('/').expect("a length");
    let (_, device) = port.split_once(':').expect("a kind");
    (address.to_owned(), device.to_owned())
}
