//! Unmodified servers on the stack under test, clients on the kernel.

use longshore_e2e::peer::{connect, ends, fetch};
use longshore_e2e::servers::{Nginx, PYTHON, haproxy_config, sshd_config};
use longshore_e2e::{
    Host, Proc, TIMEOUT, Testbed, eventually, iperf3, payload, scenarios, signal, soak,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

fn start_nginx(host: &Host<'_>, peer: &Host<'_>, bed: &Testbed, nginx: &Nginx<'_>) -> Proc {
    let proc = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
    peer.wait_for(host.at(80));
    proc
}

/// The processes that this one has begun and that live.
fn children(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.expect("it lives");
    let pids = list.split_whitespace().map(str::parse);
    pids.map(|pid| pid.expect("a pid")).collect()
}

fn read_pid(bed: &Testbed, nginx: &Nginx<'_>) -> i32 {
    eventually("nginx writes its pid", || {
        std::fs::read_to_string(nginx.pid_file(bed))
            .ok()?
            .trim()
            .parse()
            .ok()
    })
}

/// Requests completed and errors, from wrk's report.
fn wrk_result(report: &str) -> (u64, bool) {
    let requests = report
        .lines()
        .find_map(|l| l.trim().split_once(" requests in "))
        .and_then(|(n, _)| n.parse().ok())
        .unwrap_or_else(|| panic!("no request count in wrk's report:\n{report}"));
    let errors = report.contains("Socket errors") || report.contains("Non-2xx");
    (requests, errors)
}

scenarios! {
    /// Files of all sizes arrive as they are, one after another and at once.
    fn nginx_serves_files(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let files: Vec<_> = [0, 1, KB, 64 * KB, 512 * KB, 64 * MB]
            .into_iter()
            .map(|size| (size, bed.payload(&format!("www/{size}"), size).1))
            .collect();
        let mut nginx = start_nginx(&host, &peer, bed, &Nginx::default());
        for (size, hash) in &files {
            assert_eq!(&fetch(bed, peer.cmd("curl"), &format!("http://{}/{size}", host.ip())), hash, "{size} bytes");
        }
        let big = bed.payload("www/big", 8 * MB).1;
        std::thread::scope(|scope| {
            let fetches: Vec<_> = (0..8)
                .map(|i| {
                    let url = format!("http://{}/big?{i}", host.ip());
                    scope.spawn(move || fetch(bed, bed.peer().cmd("curl"), &url))
                })
                .collect();
            for one in fetches {
                assert_eq!(one.join().expect("fetched"), big);
            }
        });
        nginx.assert_running();
        let end = nginx.terminate();
        assert!(end.status.success(), "nginx ended with {}", end.status);
    }

    /// The master detaches; its workers serve; `longshore run` stays until the
    /// last of them is gone.
    fn nginx_as_daemon(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 64 * KB);
        let nginx = Nginx { daemon: true, workers: 2, ..Nginx::default() };
        let launched = start_nginx(&host, &peer, bed, &nginx);
        for _ in 0..10 {
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/file", host.ip())), hash);
        }
        signal(read_pid(bed, &nginx), Signal::QUIT);
        assert!(launched.wait().status.success());
        eventually("nginx is gone", || {
            host.namespace()
                .enter(|| TcpStream::connect_timeout(&host.at(80), Duration::from_millis(500)))
                .is_err()
                .then_some(())
        });
    }

    /// Several workers share the listener under load, and nothing is lost.
    fn nginx_workers_under_load(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _ = bed.payload("www/1k", KB);
        let mut nginx = start_nginx(&host, &peer, bed, &Nginx { workers: 3, ..Nginx::default() });
        let url = format!("http://{}/1k", host.ip());
        for extra in [vec![], vec!["-H", "Connection: close"]] {
            let report = peer
                .cmd("wrk")
                .args(["--timeout", "60s", "-t1", "-c32", "-d2s"])
                .args(extra)
                .arg(&url)
                .check();
            let (requests, errors) = wrk_result(&report);
            assert!(requests > 500 && !errors, "{report}");
        }
        nginx.assert_running();
    }

    /// HUP under load: new workers take over, not a request fails; QUIT lets
    /// open transfers finish.
    fn nginx_reloads_and_quits_gracefully(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _ = bed.payload("www/1k", KB);
        let (_, hash) = bed.payload("www/slow", 2 * MB);
        let nginx = Nginx { workers: 2, server: "limit_rate_after 64k; limit_rate 1m;", ..Nginx::default() };
        let launched = start_nginx(&host, &peer, bed, &nginx);
        let master = read_pid(bed, &nginx);
        let load = peer
            .cmd("wrk")
            .args(["--timeout", "60s", "-t1", "-c8", "-d4s"])
            .arg(format!("http://{}/1k", host.ip()))
            .spawn();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(600));
            signal(master, Signal::HUP);
        }
        let report = load.wait().check();
        let (requests, _) = wrk_result(&report);
        // A worker that is told to go closes idle keep-alive connections, which
        // wrk may count as read errors; refused connections would be ours.
        assert!(requests > 500 && !report.contains("Non-2xx"), "{report}");
        let errors = report.lines().find(|line| line.contains("Socket errors"));
        assert!(
            errors.is_none_or(|e| e.contains("connect 0,") && e.contains("timeout 0")),
            "{report}"
        );
        let to = bed.path("slow");
        let url = format!("http://{}/slow", host.ip());
        let fetching = peer.cmd("curl").args(["-sSf", "--no-buffer", "-o"]).arg(&to).arg(url).spawn();
        eventually("the transfer begins", || {
            std::fs::metadata(&to).is_ok_and(|file| file.len() > 0).then_some(())
        });
        signal(master, Signal::QUIT);
        fetching.wait().check();
        assert_eq!(payload::sha256_of_file(&to).expect("a file"), hash);
        assert!(launched.wait().status.success());
    }

    /// Workers are killed, and then all of nginx: the connections that they had end, and those who
    /// come in their place serve on the same port.
    fn nginx_killed(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 300 * KB);
        let nginx = Nginx { workers: 2, ..Nginx::default() };
        let launched = start_nginx(&host, &peer, bed, &nginx);
        let master = read_pid(bed, &nginx);
        let served = || fetch(bed, peer.cmd("curl"), &format!("http://{}/file", host.ip()));
        // A client that has an answer has a worker; one that has none may wait for the next.
        let answered = || {
            let mut held = connect(&peer, host.at(80));
            held.write_all(b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n").expect("a request");
            held.read_exact(&mut [0; 1000]).expect("an answer");
            held
        };
        assert_eq!(served(), hash);
        let held = answered();
        let workers = children(master);
        assert_eq!(workers.len(), 2);
        workers.iter().for_each(|worker| signal(*worker, Signal::KILL));
        ends(held);
        for _ in 0..5 {
            assert_eq!(served(), hash);
        }
        let held = answered();
        let workers = children(master);
        signal(master, Signal::KILL);
        workers.iter().for_each(|worker| signal(*worker, Signal::KILL));
        ends(held);
        assert!(!launched.wait().status.success());
        let again = start_nginx(&host, &peer, bed, &nginx);
        assert_eq!(served(), hash);
        let other = eventually("another master writes its pid", || {
            Some(read_pid(bed, &nginx)).filter(|pid| *pid != master)
        });
        signal(other, Signal::QUIT);
        assert!(again.wait().status.success());
    }

    /// A body sent up arrives whole (nginx answers with what it got).
    fn uploads_arrive(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (upload, hash) = bed.payload("upload", 32 * MB);
        let script = bed.file("sink.py", SINK);
        let _server = host.cmd(PYTHON).arg(script).arg(host.ip().to_string()).spawn();
        peer.wait_for(host.at(8080));
        let answer = peer
            .cmd("curl")
            .args(["--silent", "--show-error", "--fail", "-H", "Expect:", "--data-binary"])
            .arg(format!("@{}", upload.display()))
            .arg(format!("http://{}/", host.at(8080)))
            .check();
        assert_eq!(answer.trim(), hash);
    }

    /// redis-server under redis-benchmark, plain and pipelined, and redis-cli.
    fn redis(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let state = bed.directory("redis");
        let mut server = host
            .cmd("redis-server")
            .args(["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir"])
            .arg(state)
            .spawn();
        let ip = host.ip().to_string();
        peer.wait_for(host.at(6379));
        let cli = |args: &[&str]| {
            peer.cmd("redis-cli").args(["-h", &ip]).args(args).check().trim().to_owned()
        };
        assert_eq!(cli(&["set", "key", "value"]), "OK");
        assert_eq!(cli(&["get", "key"]), "value");
        let big = "x".repeat(100_000);
        assert_eq!(cli(&["set", "big", &big]), "OK");
        assert_eq!(cli(&["get", "big"]), big);
        for pipeline in ["1", "16"] {
            let report = peer
                .cmd("redis-benchmark")
                .args(["-h", &ip, "-n", "20000", "-c", "20", "-P", pipeline, "-q", "-t", "set,get,lpush,lrange_100", "--csv"])
                .check();
            assert!(report.lines().count() >= 4 && !report.contains("rror"), "{report}");
        }
        // All of these connect at once.
        let report = peer
            .cmd("redis-benchmark")
            .args(["-h", &ip, "-n", "3000", "-c", "1500", "-q", "-t", "set", "--csv"])
            .check();
        assert!(report.contains("SET") && !report.contains("rror"), "{report}");
        assert_eq!(cli(&["llen", "mylist"]).parse::<u64>().expect("a number") % 10_000, 0);
        server.assert_running();
        let _ = peer.cmd("redis-cli").args(["-h", &ip, "shutdown", "nosave"]).run();
        assert!(server.wait().status.success());
    }

    /// memcached: threads share listener and connections; sets and gets over
    /// many connections at once, large values, UDP off.
    fn memcached(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let mut server = host
            .cmd("memcached")
            .args(["-u", "root", "-U", "0", "-t", "3", "-l", "0.0.0.0", "-m", "128"])
            .spawn();
        peer.wait_for(host.at(11211));
        let at = host.at(11211);
        peer.namespace().enter(|| {
            std::thread::scope(|scope| {
                for thread in 0..8_u64 {
                    scope.spawn(move || memcached_client(at, thread, soak(50, 2000)));
                }
            });
        });
        server.assert_running();
    }

    /// HAProxy in front of two nginx: connections in and out of one program.
    fn haproxy_before_nginx(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, small) = bed.payload("www/1k", KB);
        let (_, large) = bed.payload("www/1m", MB);
        let nginx = Nginx { listen: "8001", ..Nginx::default() };
        let _backend = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(SocketAddr::from(([127, 0, 0, 1], 8001)));
        let config = haproxy_config(bed, 80, &[peer.at(8001).to_string()]);
        let mut proxy = host.cmd("haproxy").args(["-db", "-f"]).arg(config).spawn();
        peer.wait_for(host.at(80));
        for _ in 0..5 {
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/1k", host.ip())), small);
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/1m", host.ip())), large);
        }
        let report = peer
            .cmd("wrk")
            .args(["--timeout", "60s", "-t1", "-c16", "-d2s"])
            .arg(format!("http://{}/1k", host.ip()))
            .check();
        let (requests, errors) = wrk_result(&report);
        assert!(requests > 200 && !errors, "{report}");
        proxy.assert_running();
    }

    /// Python's own HTTP server: threads, stdio over sockets.
    fn python_http_server(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, small) = bed.payload("www/1k", KB);
        let (_, large) = bed.payload("www/8m", 8 * MB);
        let mut server = host
            .cmd(PYTHON)
            .args(["-m", "http.server", "8000", "--directory"])
            .arg(bed.directory("www"))
            .spawn();
        peer.wait_for(host.at(8000));
        for _ in 0..3 {
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/1k", host.at(8000))), small);
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/8m", host.at(8000))), large);
        }
        server.assert_running();
    }

    /// Apache with its event MPM: listeners that children share, threads, sendfile, load.
    fn apache(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, small) = bed.payload("www/1k", KB);
        let (_, large) = bed.payload("www/8m", 8 * MB);
        let state = bed.directory("apache");
        let config = format!(
            "ServerRoot {state}\nServerName test\nPidFile {state}/pid\nListen {at}\n\
             LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             DefaultRuntimeDir {state}\nMutex file:{state}\nErrorLog {state}/error.log\n\
             DocumentRoot {www}\nEnableSendfile On\nStartServers 2\nThreadsPerChild 25\n\
             MaxRequestWorkers 100\nServerLimit 4\nMinSpareThreads 1\nMaxSpareThreads 100\n\
             MaxKeepAliveRequests 0\n",
            state = state.display(),
            at = host.at(80),
            www = bed.directory("www").display(),
        );
        let config = bed.file("apache.conf", &config);
        let mut server = host
            .cmd("/usr/sbin/apache2")
            .args(["-D", "FOREGROUND", "-f"])
            .arg(config)
            .spawn();
        peer.wait_for(host.at(80));
        for _ in 0..6 {
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/1k", host.at(80))), small);
            assert_eq!(fetch(bed, peer.cmd("curl"), &format!("http://{}/8m", host.at(80))), large);
        }
        let url = format!("http://{}/1k", host.at(80));
        let report = peer.cmd("wrk").args(["--timeout", "60s", "-t2", "-c16", "-d1s", &url]).check();
        assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
        server.assert_running();
    }

    /// socat: a process for each connection, joined to another program by a socket pair.
    fn socat(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (file, hash) = bed.payload("file", 8 * MB);
        let at = host.at(7000);
        let listen = format!("TCP-LISTEN:{},fork,reuseaddr", at.port());
        let mut server = host.cmd("socat").args([&listen, "EXEC:cat"]).spawn();
        peer.wait_for(at);
        let back = bed.path("back");
        let script = format!(
            "socat -t120 - TCP:{at} < {} > {}",
            file.display(),
            back.display()
        );
        peer.sh(&script).check();
        assert_eq!(payload::sha256_of_file(&back).expect("it came back"), hash);
        server.assert_running();
    }

    /// An MQTT broker: subscribers are told what others publish.
    fn mosquitto(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let config = format!("listener 1883 {}\nallow_anonymous true\n", host.ip());
        let config = bed.file("mosquitto.conf", &config);
        let mut server = host.cmd("mosquitto").arg("-c").arg(config).spawn();
        peer.wait_for(host.at(1883));
        let ip = host.ip().to_string();
        let listens = peer
            .cmd("mosquitto_sub")
            .args(["-h", &ip, "-t", "news/#", "-q", "1", "-C", "3", "-W", "120"])
            .spawn();
        // What is kept is told to a subscriber that comes later, so the two need no agreement.
        for n in 0..3 {
            let (topic, text) = (format!("news/{n}"), format!("message {n}"));
            peer.cmd("mosquitto_pub")
                .args(["-h", &ip, "-t", &topic, "-m", &text, "-q", "1", "-r"])
                .check();
        }
        let heard = listens.wait().check();
        for n in 0..3 {
            assert!(heard.contains(&format!("message {n}")), "{heard}");
        }
        server.assert_running();
    }

    /// iperf3 as the server: to it, from it, eight streams, both ways at once.
    fn iperf3_server(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = host.cmd("iperf3").arg("-s").spawn();
        for extra in [&[][..], &["-R"], &["-P", "8"], &["-P", "8", "-R"], &["--bidir"]] {
            iperf3::check(&peer, host.ip(), extra);
        }
    }

    /// iperf3 -u: datagrams both ways arrive in numbers, and all but a few of them at a
    /// rate of which buffers hold what comes while a busy machine lets a program wait.
    fn iperf3_server_udp(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let _server = host.cmd("iperf3").arg("-s").spawn();
        for way in [&[][..], &["-R"]] {
            let with = |rate: &[&'static str]| {
                let report = iperf3::run(&peer, host.ip(), &[&["-u"], rate, way].concat());
                report["end"]["sum"].clone()
            };
            let fast = with(&["-b", "50M"]);
            assert!(fast["packets"].as_u64().expect("a count") > 100, "{fast}");
            assert!(fast["lost_percent"].as_f64().expect("a share") < 95.0, "{fast}");
            eventually(&format!("fewer than 5 % are lost, {way:?}"), || {
                let slow = with(&["-b", "3M", "-t", "2"]);
                assert!(slow["packets"].as_u64().expect("a count") > 100, "{slow}");
                (slow["lost_percent"].as_f64().expect("a share") < 5.0).then_some(())
            });
        }
    }

    /// sshd: privilege separation, re-exec, pseudo-terminals; scp both ways.
    fn sshd_and_scp(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (config, key) = sshd_config(bed, 2222);
        let mut server = host.cmd("/usr/sbin/sshd").args(["-D", "-e", "-f"]).arg(config).spawn();
        peer.wait_for(host.at(2222));
        let options = [
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
        ];
        let said = peer
            .cmd("ssh")
            .args(options)
            .args(["-p", "2222", "-i"])
            .arg(&key)
            .arg(format!("root@{}", host.ip()))
            .arg("echo hello from the other side")
            .check();
        assert_eq!(said.trim(), "hello from the other side");
        let (file, hash) = bed.payload("sent", 16 * MB);
        let scp = |from: String, to: String| {
            peer.cmd("scp").args(options).args(["-P", "2222", "-i"]).arg(&key).arg(from).arg(to).check();
        };
        let there = format!("root@{}:{}", host.ip(), bed.path("there").display());
        scp(file.display().to_string(), there.clone());
        assert_eq!(payload::sha256_of_file(&bed.path("there")).expect("it came"), hash);
        scp(there, bed.path("back").display().to_string());
        assert_eq!(payload::sha256_of_file(&bed.path("back")).expect("it came"), hash);
        server.assert_running();
    }

    /// A UDP service: datagrams of all sizes, fragmented ones too, come back.
    fn udp_echo(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let script = bed.file("echo.py", UDP_ECHO);
        let _server = host.cmd(PYTHON).arg(script).spawn();
        let at = host.at(9999);
        peer.namespace().enter(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
            eventually("there is a way", || socket.connect(at).ok());
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
            let mut answer = vec![0; 70_000];
            eventually("the echo answers", || {
                let _ = socket.send(b"are you there");
                socket.recv(&mut answer).ok()
            });
            socket.set_read_timeout(Some(TIMEOUT)).expect("timeout");
            for size in [0, 1, 1000, 1472, 1473, 9000, 40_000, 65_507] {
                let sent = payload::Bytes::take(size as u64, size);
                socket.send(&sent).expect("send");
                // Late answers to the first question may come in between.
                loop {
                    let n = socket.recv(&mut answer).unwrap_or_else(|e| panic!("{size} bytes: {e}"));
                    if &answer[..n] != b"are you there" {
                        assert!(answer[..n] == sent[..], "{size} bytes came back as {n}, or changed");
                        break;
                    }
                }
            }
        });
    }
}

/// Sets and gets of one connection, keys and values of its own.
fn memcached_client(at: SocketAddr, thread: u64, rounds: u64) {
    let stream = TcpStream::connect(at).expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    stream.set_read_timeout(Some(TIMEOUT)).expect("timeout");
    let mut reader = BufReader::new(stream.try_clone().expect("clone"));
    let mut writer = stream;
    for round in 0..rounds {
        let size = [1, 100, 1500, 60_000, 500_000][(round % 5) as usize];
        let value = payload::Bytes::take(thread << 32 | round, size);
        write!(writer, "set k{thread} 0 0 {size}\r\n").expect("send");
        writer.write_all(&value).expect("send");
        writer.write_all(b"\r\n").expect("send");
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert_eq!(line, "STORED\r\n");
        write!(writer, "get k{thread}\r\n").expect("send");
        line.clear();
        reader.read_line(&mut line).expect("an answer");
        assert_eq!(line, format!("VALUE k{thread} 0 {size}\r\n"));
        let mut got = vec![0; size + 7];
        reader.read_exact(&mut got).expect("the value");
        assert!(got[..size] == value[..] && &got[size..] == b"\r\nEND\r\n");
    }
}

/// Answers a POST with the SHA-256 of its body.
const SINK: &str = r#"
import hashlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Sink(BaseHTTPRequestHandler):
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            digest.update(piece)
            left -= len(piece)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(digest.hexdigest().encode())

HTTPServer((sys.argv[1], 8080), Sink).serve_forever()
"#;

const UDP_ECHO: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9999))
while True:
    data, sender = s.recvfrom(70000)
    s.sendto(data, sender)
"#;
