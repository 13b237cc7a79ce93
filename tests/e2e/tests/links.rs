//! Programs on one machine, their engine on another, with a link between them: two namespaces,
//! and the kernel's TCP. That the engine has carried the traffic is seen by its own counters.

use longshore_e2e::peer::{connect, ends, fetch};
use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{
    Cmd, Engine, Host, Proc, Stack, Testbed, eventually, iperf3, run, run_uncounted, signal,
};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;
/// Where links come in.
const PORT: u16 = 4077;
/// The exit code of `longshore run` when the engine was lost, and when it failed itself.
const ENGINE_LOST: i32 = 124;
const OWN_FAILURE: i32 = 125;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(300), body);
}

/// Where nothing is carried.
fn uncounted(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

fn key(bed: &Testbed, name: &str, digit: char) -> PathBuf {
    let path = bed.file(name, String::from(digit).repeat(64));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    path
}

/// An engine that takes links: its machine's kernel has `gateway`.
fn engine<'h>(bed: &Testbed, host: &'h Host<'_>) -> Engine<'h> {
    let place = format!("tcp:{}:{PORT}", host.gateway());
    let key = key(bed, "link.key", 'a');
    host.engine_with(
        "",
        &[
            "--link",
            &place,
            "--link-key",
            key.to_str().expect("a name"),
        ],
    )
}

/// A program on another machine, on the engine of `engine`'s.
fn cmd(bed: &Testbed, programs: &Host<'_>, engine: &Host<'_>, program: &str) -> Cmd {
    cmd_with(programs, engine, &key(bed, "link.key", 'a'), program)
}

fn cmd_with(programs: &Host<'_>, engine: &Host<'_>, key: &PathBuf, program: &str) -> Cmd {
    programs
        .longshore()
        .args([
            "run",
            "--engine",
            &format!("link:{}:{PORT}", engine.gateway()),
        ])
        .arg("--link-key")
        .arg(key)
        .arg("--")
        .arg(program)
}

/// The engine has let go of all that came over links.
fn is_empty(engine: &Engine<'_>) {
    eventually("the engine holds nothing", || {
        (engine.stat_u64("sessions") == 0).then_some(())
    });
}

/// Bytes that the engine has taken from programs.
fn taken(engine: &Engine<'_>) -> u64 {
    engine.stat()["crossings"]["to_adapter"]["bytes"]
        .as_u64()
        .expect("a number")
}

/// Files arrive as they are from workers that share a listener; what they were, the engine
/// at the other end has had.
#[test]
fn nginx_with_workers() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let files: Vec<_> = [0, 1, 64 * KB, 8 * MB]
            .map(|size| (size, bed.payload(&format!("www/{size}"), size).1))
            .into();
        let nginx = Nginx {
            workers: 3,
            ..Nginx::default()
        };
        let nginx = cmd(bed, &near, &far, "nginx")
            .arg("-c")
            .arg(nginx.config(bed))
            .spawn();
        peer.wait_for(far.at(80));
        let url = |size| format!("http://{}/{size}", far.ip());
        for (size, hash) in &files {
            assert_eq!(
                &fetch(bed, peer.cmd("curl"), &url(*size)),
                hash,
                "{size} bytes"
            );
        }
        assert!(taken(&engine) > 8 * MB);
        std::thread::scope(|scope| {
            let fetches: Vec<_> = (0..6)
                .map(|_| {
                    let url = url(8 * MB);
                    scope.spawn(move || fetch(bed, bed.peer().cmd("curl"), &url))
                })
                .collect();
            for one in fetches {
                assert_eq!(one.join().expect("fetched"), files[3].1);
            }
        });
        // Many short connections, each on whichever worker is first.
        let mut fetches = String::new();
        for i in 0..200 {
            let _ = writeln!(fetches, "url = \"{}?{i}\"\noutput = \"/dev/null\"", url(1));
        }
        let list = bed.file("urls", fetches);
        peer.cmd("curl")
            .args(["-sSf", "--no-keepalive", "-H", "Connection: close", "-K"])
            .arg(list)
            .check();
        assert!(engine.stat()["tcp"]["passive_opens"].as_u64() >= Some(200));
        let end = nginx.terminate();
        assert!(end.status.success(), "nginx ended with {}", end.status);
        is_empty(&engine);
    });
}

#[test]
fn clients() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let (_, hash) = bed.payload("www/file", 8 * MB);
        let _nginx = peer
            .cmd("nginx")
            .arg("-c")
            .arg(Nginx::default().config(bed))
            .spawn();
        peer.wait_for(peer.at(80));
        let url = format!("http://{}/file", peer.ip());
        for _ in 0..3 {
            assert_eq!(fetch(bed, cmd(bed, &near, &far, "curl"), &url), hash);
        }
        assert_eq!(engine.stat()["tcp"]["active_opens"].as_u64(), Some(3));
        let refused = cmd(bed, &near, &far, "curl")
            .arg(format!("http://{}:9/", peer.ip()))
            .run();
        // As curl has it where nobody listens.
        assert_eq!(refused.status.code(), Some(7), "{refused:?}");
        is_empty(&engine);
    });
}

#[test]
fn iperf3_both_ways() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let _server = cmd(bed, &near, &far, "iperf3").arg("-s").spawn();
        peer.wait_for(far.at(5201));
        let before = taken(&engine);
        iperf3::check(&peer, far.ip(), &["-t", "2"]);
        iperf3::check(&peer, far.ip(), &["-t", "2", "-R"]);
        iperf3::check(&peer, far.ip(), &["-t", "2", "-P", "4", "--bidir"]);
        assert!(taken(&engine) - before > 10 * MB);
    });
}

#[test]
fn redis() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let _redis = cmd(bed, &near, &far, "redis-server")
            .args(["--protected-mode", "no", "--save", ""])
            .spawn();
        peer.wait_for(far.at(6379));
        let ip = far.ip().to_string();
        let report = peer
            .cmd("redis-benchmark")
            .args([
                "-h",
                &ip,
                "-q",
                "-n",
                "3000",
                "-c",
                "20",
                "-t",
                "set,get,lpush",
                "-d",
                "3000",
            ])
            .check();
        assert!(report.contains("GET:"), "{report}");
        assert!(taken(&engine) > 3000 * 3000);
    });
}

const DATAGRAMS: &str = r"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7))
print('up', flush=True)
while True:
    data, peer = s.recvfrom(65535)
    s.sendto(data, peer)
";

const ASKS: &str = r"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
for size in list(range(0, 1400, 13)) + [9000, 30000]:
    s.sendto(bytes([size % 251]) * size, (sys.argv[1], 7))
    data, peer = s.recvfrom(65535)
    assert data == bytes([size % 251]) * size, (size, len(data))
    assert peer == (sys.argv[1], 7), peer
";

#[test]
fn datagrams() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let (echo, asks) = (bed.file("echo.py", DATAGRAMS), bed.file("asks.py", ASKS));
        let is_up = |server: &Proc| {
            eventually("the server is up", || {
                server.stdout().contains("up").then_some(())
            });
        };
        let server = cmd(bed, &near, &far, PYTHON).arg(&echo).spawn();
        is_up(&server);
        peer.cmd(PYTHON)
            .arg(&asks)
            .arg(far.ip().to_string())
            .check();
        assert!(engine.stat()["net"]["datagrams_in"].as_u64() >= Some(100));
        drop(server);
        // And the other way round.
        let server = peer.cmd(PYTHON).arg(&echo).spawn();
        is_up(&server);
        cmd(bed, &near, &far, PYTHON)
            .arg(&asks)
            .arg(peer.ip().to_string())
            .check();
    });
}

const FORKS: &str = r"
import os, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', 7))
s.listen(50)
print('up', flush=True)
while True:
    c, peer = s.accept()
    if os.fork() == 0:
        s.close()
        while data := c.recv(65536):
            c.sendall(data)
        os._exit(0)
    c.close()
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0): pass
    except ChildProcessError: pass
";

fn echoes(stream: &mut TcpStream) {
    stream.write_all(b"still there?").expect("send");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"still there?");
}

/// A process for each connection: what a child holds is its own, and closed with it. One that
/// is killed takes nothing else with it.
#[test]
fn processes_that_fork_and_are_killed() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let program = bed.file("forks.py", FORKS);
        let server = cmd(bed, &near, &far, PYTHON).arg(&program).spawn();
        eventually("the server is up", || {
            server.stdout().contains("up").then_some(())
        });
        let mut streams: Vec<_> = (0..20).map(|_| connect(&peer, far.at(7))).collect();
        for stream in &mut streams {
            echoes(stream);
        }
        streams.drain(10..).for_each(|stream| {
            stream
                .shutdown(std::net::Shutdown::Write)
                .expect("shut down");
            ends(stream);
        });
        let main = server.program_pid("python3");
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children"));
        let children = children.expect("it runs");
        let first = children.split_whitespace().next().expect("a child");
        signal(first.parse().expect("a pid"), Signal::KILL);
        let over = eventually("the connection of the killed one ends", || {
            streams.iter().position(is_over)
        });
        drop(streams.remove(over));
        for stream in &mut streams {
            echoes(stream);
        }
        signal(main, Signal::KILL);
        // The launcher stays until the last of the children has ended.
        drop(streams);
        let end = server.wait();
        assert_eq!(end.status.code(), Some(128 + 9), "{end:?}");
        is_empty(&engine);
    });
}

/// A program that ends while a socket of its own is in a message that nobody receives: its launcher
/// ends when the socket has been closed, though nothing tells it of that.
#[test]
fn a_socket_that_nobody_receives() {
    const PASSES: &str = "import array, socket, sys
connected = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connected.sendall(b'here')
here, there = socket.socketpair()
fds = array.array('i', [connected.fileno()])
here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
";
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let program = bed.file("passes.py", PASSES);
        let listener = peer
            .namespace()
            .enter(|| std::net::TcpListener::bind((far.gateway(), 7)))
            .expect("listen");
        let passes = cmd(bed, &near, &far, PYTHON)
            .arg(&program)
            .args([far.gateway().to_string(), "7".to_owned()])
            .timeout(Duration::from_secs(60))
            .spawn();
        let (mut stream, _) = listener.accept().expect("accept");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the end");
        assert_eq!(bytes, b"here");
        let end = passes.wait();
        assert!(end.status.success(), "{end:?}");
        is_empty(&engine);
    });
}

/// Whether a connection has ended.
fn is_over(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("nonblocking");
    let mut byte = [0];
    let over = match stream.peek(&mut byte) {
        Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
        Ok(n) => n == 0,
    };
    stream.set_nonblocking(false).expect("blocking");
    over
}

/// A server over a link, and a connection to it.
fn served<'h>(
    bed: &Testbed,
    near: &Host<'_>,
    far: &'h Host<'_>,
    peer: &Host<'_>,
) -> (Engine<'h>, Proc, TcpStream) {
    let engine = engine(bed, far);
    let program = bed.file("forks.py", FORKS);
    let server = cmd(bed, near, far, PYTHON).arg(&program).spawn();
    eventually("the server is up", || {
        server.stdout().contains("up").then_some(())
    });
    let mut stream = connect(peer, far.at(7));
    echoes(&mut stream);
    (engine, server, stream)
}

/// Whichever end of a link is killed, connections end, the program is ended as where an engine
/// is lost, and the engine has nothing of it left and serves on.
#[test]
fn killed_ends() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        for end in ["longshore-link", "longshore-proxy"] {
            let (engine, server, stream) = served(bed, &near, &far, &peer);
            let of = match end {
                "longshore-link" => server.pid(),
                _ => engine.pid(),
            };
            signal(below(of, end).expect("it runs"), Signal::KILL);
            ends(stream);
            let finished = server.wait();
            assert_eq!(
                finished.status.code(),
                Some(ENGINE_LOST),
                "{end}: {finished:?}"
            );
            is_empty(&engine);
            cmd(bed, &near, &far, "/bin/true").check();
        }
    });
}

/// The pid of a process of this name that `of` has started, or one that it has started has.
fn below(of: i32, name: &str) -> Option<i32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().find_map(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let pid = pid.parse().ok()?;
        match comm.is_ok_and(|comm| comm.trim() == name) {
            true => Some(pid),
            false => below(pid, name),
        }
    })
}

/// The machines lose sight of each other: nothing hangs, and the peers hear of it.
#[test]
fn a_link_that_is_cut() {
    scenario(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let (engine, server, idle) = served(bed, &near, &far, &peer);
        // And one whose peer does not read, until its server does not read either.
        let mut unread = connect(&peer, far.at(7));
        unread.set_nonblocking(true).expect("nonblocking");
        let mut quiet = 0;
        while quiet < 20 {
            match unread.write(&[b'x'; 65_536]) {
                Ok(_) => quiet = 0,
                Err(_) => quiet += 1,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unread.set_nonblocking(false).expect("blocking");
        // Both machines' kernels are one here, and the link is on its loopback: the engine's
        // device, by which its peers hear of it, stays.
        near.namespace().ip("link set lo down");
        let finished = server.wait();
        assert_eq!(finished.status.code(), Some(ENGINE_LOST), "{finished:?}");
        assert!(
            finished.stderr.contains("the link to the engine is broken"),
            "{finished:?}"
        );
        is_empty(&engine);
        for stream in [idle, unread] {
            ends(stream);
        }
    });
}

/// Nobody without the key gets anything, or keeps anybody else from it.
#[test]
fn strangers() {
    uncounted(|bed| {
        let (far, near, peer) = (bed.host(0), bed.host(1), bed.peer());
        let engine = engine(bed, &far);
        let wrong = key(bed, "wrong.key", 'b');
        let refused = cmd_with(&near, &far, &wrong, "/bin/true").run();
        assert_eq!(refused.status.code(), Some(OWN_FAILURE), "{refused:?}");
        assert!(refused.stderr.contains("--link-key"), "{refused:?}");
        let open = bed.file("open.key", "a".repeat(64));
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).expect("a mode");
        let refused = cmd_with(&near, &far, &open, "/bin/true").run();
        assert!(refused.stderr.contains("chmod 600"), "{refused:?}");

        let at = SocketAddr::new(far.gateway(), PORT);
        let silent = connect(&peer, at);
        for length in [1, 47, 48, 49, 1000, 100_000] {
            let mut stranger = connect(&peer, at);
            let _ = stranger.write_all(&vec![0x5a; length]);
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            ends(stranger);
        }
        ends(silent);
        assert_eq!(engine.stat_u64("sessions"), 0);
        // A host that has the key gets through: it is told that nobody listens.
        let nobody = format!("http://{}:9/", peer.ip());
        let refused = cmd(bed, &near, &far, "curl").arg(nobody).run();
        assert_eq!(refused.status.code(), Some(7), "{refused:?}");
        assert_eq!(engine.stat()["tcp"]["active_opens"].as_u64(), Some(1));
        is_empty(&engine);
    });
}
