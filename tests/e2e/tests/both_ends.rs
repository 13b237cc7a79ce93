//! Both ends on the stack under test: on two hosts, and on one.

use longshore_e2e::peer::fetch;
use longshore_e2e::servers::{Nginx, haproxy_config};
use longshore_e2e::{Stack, iperf3, payload, run, scenarios};
use std::time::Duration;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

scenarios! {
    /// Two hosts, the kernel only forwarding between them.
    fn nginx_and_curl_on_two_hosts(bed) within 300 {
        let (server, client) = (bed.host(0), bed.host(1));
        let (_, small) = bed.payload("www/small", KB);
        let (_, large) = bed.payload("www/large", 64 * MB);
        let _nginx = server.cmd("nginx").arg("-c").arg(Nginx::default().config(bed)).spawn();
        bed.peer().wait_for(server.at(80));
        for (name, hash) in [("small", small), ("large", large)] {
            let url = format!("http://{}/{name}", server.ip());
            assert_eq!(fetch(bed, client.cmd("curl"), &url), hash);
        }
    }

    /// Server and client under one launcher: to the host's own address.
    fn nginx_and_curl_on_one_host(bed) within 300 {
        let host = bed.host(0);
        let (_, small) = bed.payload("www/small", KB);
        let (_, large) = bed.payload("www/large", 64 * MB);
        let nginx = Nginx::default();
        let script = format!(
            "nginx -c {config} & \
             for i in $(seq 600); do curl -s -o /dev/null http://{ip}/small && break; sleep 0.1; done; \
             curl -sSf --max-time 200 -o {small} http://{ip}/small; \
             curl -sSf --max-time 200 -o {large} http://{ip}/large; \
             kill -QUIT $(cat {pid}); wait",
            config = nginx.config(bed).display(),
            ip = host.ip(),
            small = bed.path("small").display(),
            large = bed.path("large").display(),
            pid = nginx.pid_file(bed).display(),
        );
        host.sh(&script).check();
        assert_eq!(payload::sha256_of_file(&bed.path("small")).expect("a file"), small);
        assert_eq!(payload::sha256_of_file(&bed.path("large")).expect("a file"), large);
    }

    /// HAProxy before two nginx, all three and the client on one host.
    fn haproxy_before_nginx_on_one_host(bed) within 300 {
        let host = bed.host(0);
        let (_, hash) = bed.payload("www/file", 3 * MB);
        let first = Nginx { name: "first", listen: "8001", ..Nginx::default() };
        let second = Nginx { name: "second", listen: "8002", ..Nginx::default() };
        let proxy = haproxy_config(bed, 80, &[host.at(8001).to_string(), host.at(8002).to_string()]);
        let script = format!(
            "nginx -c {first} & nginx -c {second} & \
             for port in 8001 8002; do \
                for i in $(seq 600); do curl -sf -o /dev/null http://{ip}:$port/file && break; sleep 0.1; done; \
             done; \
             haproxy -db -f {proxy} & proxy=$!; \
             for i in $(seq 600); do curl -sf -o /dev/null http://{ip}/file && break; sleep 0.1; done; \
             for i in 1 2 3 4 5 6; do curl -sSf --max-time 200 http://{ip}/file | sha256sum; done; \
             kill $proxy; kill -QUIT $(cat {first_pid}) $(cat {second_pid}); wait || true",
            first = first.config(bed).display(),
            second = second.config(bed).display(),
            proxy = proxy.display(),
            ip = host.ip(),
            first_pid = first.pid_file(bed).display(),
            second_pid = second.pid_file(bed).display(),
        );
        let said = host.sh(&script).check();
        assert_eq!(said.matches(&hash).count(), 6, "{said}");
    }

    /// redis with its benchmark, on two hosts.
    fn redis_on_two_hosts(bed) within 300 {
        let (server, client) = (bed.host(0), bed.host(1));
        let _redis = server
            .cmd("redis-server")
            .args(["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir"])
            .arg(bed.directory("redis"))
            .spawn();
        bed.peer().wait_for(server.at(6379));
        let said = client
            .cmd("redis-benchmark")
            .args(["-h", &server.ip().to_string(), "-n", "20000", "-c", "20", "-q", "-t", "set,get", "--csv"])
            .check();
        assert!(said.contains("\"SET\"") && said.contains("\"GET\""), "{said}");
    }

    /// iperf3 on two hosts, both ways.
    fn iperf3_on_two_hosts(bed) within 300 {
        let (server, client) = (bed.host(0), bed.host(1));
        let _iperf = server.cmd("iperf3").arg("-s").spawn();
        bed.peer().wait_for(server.at(5201));
        for extra in [&[][..], &["-R"], &["-P", "4"]] {
            iperf3::check(&client, server.ip(), extra);
        }
    }
}

/// iperf3 with both ends on one host: nearly nothing is copied by the engine, and of what the
/// programs copy nothing crosses.
#[test]
fn what_iperf3_sends_on_one_host_is_lent() {
    run(Stack::Longshore, Duration::from_secs(300), |bed| {
        let host = bed.host(0);
        // Between two tests the server closes its listener for a moment.
        let script = format!(
            "iperf3 -s > /dev/null & server=$!; trap 'kill $server' EXIT; \
             send() {{ for i in $(seq 100); do \
                 iperf3 -c {ip} -n \"$@\" > /dev/null && return; sleep 0.1; done; return 1; }}; \
             send 1K; send 500M; send 500M -R; \
             {longshore} stat --json",
            ip = host.ip(),
            longshore = longshore_testbed::longshore().display(),
        );
        let said = host.sh(&script).check();
        let stat: serde_json::Value = serde_json::from_str(&said).expect("its statistics");
        let count = |path: &str| stat[0].pointer(path).and_then(serde_json::Value::as_u64);
        let all = count("/engine/cut_through_bytes").expect("a count");
        let lent = count("/engine/lent_bytes").expect("a count");
        assert!(all >= 900 * MB && lent > all / 10 * 9, "{lent} of {all}");
        for way in ["to_adapter", "to_host"] {
            let crossed = count(&format!("/crossings/{way}/bytes")).expect("a count");
            assert!(crossed < all / 5, "{crossed} of {all} {way}, {lent} lent");
        }
    });
}

/// A program that waits for a whole message is woken once for each, by the engine, which knows how long
/// they are (SO_RCVLOWAT).
#[test]
fn who_waits_for_a_whole_message_is_woken_once_for_each() {
    const MESSAGES: u64 = 40;
    const PIECES: u64 = 5;
    const PROGRAM: &str = "
import select, socket, sys, threading, time
ip, mark, messages, pieces = sys.argv[1], *map(int, sys.argv[2:])
listener = socket.create_server((ip, 7000))
near = socket.create_connection((ip, 7000))
far, _ = listener.accept()
if mark > 1: far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
def send():
    for _ in range(messages * pieces):
        near.send(bytes(100)); time.sleep(0.005)
sender = threading.Thread(target=send)
sender.start()
read = 0
poll = select.poll()
poll.register(far, select.POLLIN)
while read < messages * pieces * 100:
    poll.poll()
    read += len(far.recv(100 * pieces))
sender.join()
";
    run(Stack::Longshore, Duration::from_secs(300), |bed| {
        let host = bed.host(0);
        let program = bed.path("program.py");
        std::fs::write(&program, PROGRAM).expect("a file");
        let stat = format!("{} stat --json", longshore_testbed::longshore().display());
        let python = |mark: u64| {
            let (program, ip) = (program.display(), host.ip());
            format!("python3 {program} {ip} {mark} {MESSAGES} {PIECES}")
        };
        let (less, whole) = (python(1), python(100 * PIECES));
        let said = host
            .sh(&format!("{stat}; {less}; {stat}; {whole}; {stat}"))
            .check();
        let stats = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
        let stats: Vec<_> = stats.collect::<Result<_, _>>().expect("its statistics");
        let count = |path: &str| -> Vec<u64> {
            let count = |stat: &serde_json::Value| stat[0].pointer(path)?.as_u64();
            let counts: Option<Vec<u64>> = stats.iter().map(count).collect();
            counts
                .expect("a count")
                .windows(2)
                .map(|w| w[1] - w[0])
                .collect()
        };
        let [little, woken] = ["/engine/below_low_water", "/crossings/to_host/wakeups"].map(count);
        assert_eq!(little[0], 0, "without a mark");
        assert!(little[1] >= MESSAGES * (PIECES - 1) / 2, "{little:?}");
        // A few are of the program's beginning and its end.
        assert!(
            woken[1] <= MESSAGES + 10 && woken[0] > woken[1] * 3 / 2,
            "{woken:?}"
        );
        eprintln!("wake-ups without a mark and with one: {woken:?}");
    });
}
