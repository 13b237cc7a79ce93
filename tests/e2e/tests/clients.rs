//! Unmodified clients on the stack under test, servers on the kernel.

use longshore_e2e::servers::{Nginx, PYTHON, sshd_config};
use longshore_e2e::{TIMEOUT, iperf3 as perf, payload, scenarios};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

scenarios! {
    /// curl, one file and many at once over HTTP/1.1.
    fn curl(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let files: Vec<_> = [0, 1, KB, 64 * KB, 512 * KB, 64 * MB]
            .into_iter()
            .map(|size| (size, bed.payload(&format!("www/{size}"), size).1))
            .collect();
        let nginx = Nginx { listen: "8080", ..Nginx::default() };
        let _server = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        // On Longshore the peer's address is there only once an engine runs.
        let script = format!(
            "for i in $(seq 600); do curl -s -o /dev/null http://{0}/1 && break; sleep 0.1; done; \
             for size in 0 1 1024 65536 524288 67108864; do \
                curl -sSf --max-time 200 -o {1}/got-$size http://{0}/$size; \
             done; \
             curl -sSf --max-time 200 --parallel -o {1}/a http://{0}/524288 -o {1}/b http://{0}/67108864 \
                -o {1}/c http://{0}/65536",
            peer.at(8080),
            bed.path("").display(),
        );
        host.sh(&script).check();
        for (size, hash) in &files {
            let got = payload::sha256_of_file(&bed.path(&format!("got-{size}"))).expect("a file");
            assert_eq!(&got, hash, "{size} bytes");
        }
        for (name, size) in [("a", 512 * KB), ("b", 64 * MB), ("c", 64 * KB)] {
            let got = payload::sha256_of_file(&bed.path(name)).expect("a file");
            let (_, hash) = files.iter().find(|(s, _)| *s == size).expect("it is there");
            assert_eq!(&got, hash, "{size} bytes in parallel");
        }
    }

    /// wget, which uses select and blocking calls.
    fn wget(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 16 * MB);
        let nginx = Nginx { listen: "8080", ..Nginx::default() };
        let _server = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(SocketAddr::from(([127, 0, 0, 1], 8080)));
        host.cmd("wget")
            .args(["-q", "--tries=5", "--retry-connrefused", "-O"])
            .arg(bed.path("got"))
            .arg(format!("http://{}/file", peer.at(8080)))
            .check();
        assert_eq!(payload::sha256_of_file(&bed.path("got")).expect("a file"), hash);
    }

    /// A refused connection and a name that leads nowhere fail as they should.
    fn curl_fails_properly(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let refused = host
            .cmd("curl")
            .args(["-sS", "--max-time", "60"])
            .arg(format!("http://{}/", peer.at(9)))
            .run();
        assert_eq!(refused.status.code(), Some(7), "{refused:?}");
        assert!(refused.took < TIMEOUT / 2, "{refused:?}");
    }

    /// iperf3 as the client: to the server, from it, in eight streams.
    fn iperf3(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = peer.cmd("iperf3").arg("-s").spawn();
        for extra in [&[][..], &["-R"], &["-P", "8"], &["-P", "8", "-R"], &["-u", "-b", "50M"], &["-u", "-b", "50M", "-R"]] {
            perf::check(&host, peer.ip(), extra);
        }
    }

    /// redis-benchmark and redis-cli against a kernel redis-server.
    fn redis(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = peer
            .cmd("redis-server")
            .args(["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir"])
            .arg(bed.directory("redis"))
            .spawn();
        let ip = peer.ip().to_string();
        let script = format!(
            "for i in $(seq 600); do redis-cli -h {ip} ping && break; sleep 0.1; done; \
             redis-cli -h {ip} set k v; redis-cli -h {ip} get k; \
             redis-benchmark -h {ip} -n 20000 -c 20 -q -t set,get --csv; \
             redis-benchmark -h {ip} -n 20000 -c 20 -P 16 -q -t set,get --csv"
        );
        let said = host.sh(&script).check();
        assert!(said.contains("\nOK\nv\n"), "{said}");
        assert_eq!(said.matches("\"GET\"").count(), 2, "{said}");
    }

    /// ssh and scp as clients of a kernel sshd.
    fn ssh_and_scp(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (config, key) = sshd_config(bed, 2222);
        let _server = peer.cmd("/usr/sbin/sshd").args(["-D", "-e", "-f"]).arg(config).spawn();
        peer.wait_for(SocketAddr::from(([127, 0, 0, 1], 2222)));
        let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR";
        let (file, hash) = bed.payload("file", 16 * MB);
        let script = format!(
            "ssh {options} -p 2222 -i {key} root@{ip} echo hello; \
             scp {options} -P 2222 -i {key} {file} root@{ip}:{there}; \
             scp {options} -P 2222 -i {key} root@{ip}:{there} {back}",
            key = key.display(),
            ip = peer.ip(),
            file = file.display(),
            there = bed.path("there").display(),
            back = bed.path("back").display(),
        );
        let said = host.sh(&script).check();
        assert_eq!(said.trim(), "hello");
        assert_eq!(payload::sha256_of_file(&bed.path("there")).expect("a file"), hash);
        assert_eq!(payload::sha256_of_file(&bed.path("back")).expect("a file"), hash);
    }

    /// dig asks a name server by UDP.
    fn dig(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        peer.namespace().enter(|| {
            let socket = UdpSocket::bind("0.0.0.0:53").expect("bind");
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        answer_one(&socket);
                    }
                });
                let said = host
                    .cmd("dig")
                        .args(["+short", "+tries=12", &format!("@{}", peer.ip()), "www.example.com"])
                    .run();
                done.store(true, std::sync::atomic::Ordering::Relaxed);
                assert_eq!(said.check().trim(), "192.0.2.77");
            });
        });
    }

    /// Python: many connections at once from threads, blocking with timeouts.
    fn python_threads(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 300 * KB);
        let nginx = Nginx { listen: "8080", ..Nginx::default() };
        let _server = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(SocketAddr::from(([127, 0, 0, 1], 8080)));
        let script = bed.file("fetch.py", FETCH);
        let said = host
            .cmd(PYTHON)
            .arg(script)
            .arg(format!("http://{}/file", peer.at(8080)))
            .arg(&hash)
            .check();
        assert_eq!(said.trim(), "64 right");
    }
}

/// Answers one DNS question with 192.0.2.77.
fn answer_one(socket: &UdpSocket) {
    let mut question = [0; 512];
    let Ok((n, from)) = socket.recv_from(&mut question) else {
        return;
    };
    // Header, then the question, which ends with a root label, type and class.
    let end = 12 + question[12..n].iter().position(|b| *b == 0).unwrap_or(0) + 5;
    let mut answer = question[..end].to_vec();
    answer[2..12].copy_from_slice(&[0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77]);
    // A client that asked twice may be gone.
    let _ = socket.send_to(&answer, from);
}

const FETCH: &str = r#"
import hashlib, sys, threading, urllib.request
url, expected = sys.argv[1:]
right = []
def fetch():
    for _ in range(8):
        with urllib.request.urlopen(url, timeout=120) as answer:
            if hashlib.sha256(answer.read()).hexdigest() == expected:
                right.append(1)
threads = [threading.Thread(target=fetch) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(len(right), "right")
"#;
