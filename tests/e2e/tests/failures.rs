//! When things go wrong: programs and engines that die, and what the survivors
//! see. Longshore only; the kernel does not die alone.

use longshore_e2e::peer::{connect, ends};
use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{
    Engine, Host, PATIENCE, Proc, Stack, Testbed, eventually, payload, run, run_uncounted, signal,
    soak,
};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(soak(300, 1800)), body);
}

/// Where the engine is killed before it can say what it has carried.
fn uncounted(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

/// Asks the echo server something.
fn echoes(stream: &mut TcpStream) {
    stream.write_all(b"still there?").expect("send");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"still there?");
}

/// What the engine holds for its programs: sessions, from `longshore stat --json`, and
/// descriptors.
fn held(engine: &Engine<'_>) -> (u64, u64) {
    let sessions = engine.stat_u64("sessions");
    let descriptors = || {
        std::thread::sleep(Duration::from_millis(20));
        let list = std::fs::read_dir(format!("/proc/{}/fd", engine.pid()));
        list.expect("the engine runs").count() as u64
    };
    // Whoever asked the engine just now may hang on a moment.
    let least = (0..10).map(|_| descriptors()).min().unwrap_or(0);
    (sessions, least)
}

/// A program is killed at any moment under load, again and again: its peers are
/// told, its memory comes back, and its neighbour on the engine does not notice.
#[test]
fn killed_program() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let echo = bed.file("echo.py", ECHO);
        let flood = bed.file("flood.py", FLOOD);
        let mut neighbour = engine.cmd(PYTHON).arg(&echo).arg("7").spawn();
        peer.wait_for(host.at(7));
        let mut watched = connect(&peer, host.at(7));
        let mut before = None;
        for round in 0..soak(20, 1000) {
            let victim = engine.cmd(PYTHON).arg(&flood).arg("8").spawn();
            peer.wait_for(host.at(8));
            let clients: Vec<TcpStream> = (0..4).map(|_| connect(&peer, host.at(8))).collect();
            for client in &clients {
                (&*client).write_all(&[b'x'; 30_000]).expect("send");
            }
            // At another moment each time.
            std::thread::sleep(Duration::from_millis(round * 7 % 50));
            signal(victim.program_pid("python3"), Signal::KILL);
            let end = victim.wait();
            assert_eq!(end.status.code(), Some(128 + 9), "{end:?}");
            clients.into_iter().for_each(ends);
            echoes(&mut watched);
            // The first round warms up what is kept.
            if round == 2 {
                before = Some(settled(&engine));
            }
        }
        let start = Instant::now();
        while Some(settled(&engine)) != before {
            assert!(
                start.elapsed() < PATIENCE,
                "sessions and descriptors of the engine: {before:?} and then {:?}",
                settled(&engine)
            );
        }
        neighbour.assert_running();
        // The port is free again.
        let _again = engine.cmd(PYTHON).arg(&echo).arg("8").spawn();
        peer.wait_for(host.at(8));
    });
}

/// The engine forgets a dead program within a moment: what it holds then.
fn settled(engine: &Engine<'_>) -> (u64, u64) {
    eventually("only the neighbour's session is left", || {
        let now = held(engine);
        (now.0 == 1 && held(engine) == now).then_some(now)
    })
}

/// A program that makes the descriptors by which the engine wakes it blocking, and fills
/// them, holds up nobody: not the engine, and not its neighbour.
#[test]
fn hostile_program() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let echo = bed.file("echo.py", ECHO);
        let hostile = bed.file("hostile.py", HOSTILE);
        let mut neighbour = engine.cmd(PYTHON).arg(&echo).arg("7").spawn();
        peer.wait_for(host.at(7));
        let mut watched = connect(&peer, host.at(7));
        let mut hostile = engine.cmd(PYTHON).arg(&hostile).spawn();
        eventually("its bells are full", || {
            hostile.stdout().contains("2 are full").then_some(())
        });
        // Both are woken for who connects.
        for port in [8, 9] {
            let mut stream = connect(&peer, host.at(port));
            let mut greeting = [0; 5];
            stream.read_exact(&mut greeting).expect("it wakes up");
            echoes(&mut watched);
        }
        assert_eq!(held(&engine).0, 2);
        hostile.assert_running();
        neighbour.assert_running();
    });
}

/// The engine is killed: every call that waits for it returns an error at once,
/// and so does every call after.
#[test]
fn killed_engine() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let script = bed.file("orphan.py", ORPHAN);
        let stays = ["--on-engine-loss", "stay"];
        let program = engine.cmd_with(&stays, PYTHON).arg(script).arg("7").spawn();
        peer.wait_for(host.at(7));
        let _waiting: Vec<TcpStream> = (0..4).map(|_| connect(&peer, host.at(7))).collect();
        eventually("all calls wait", || {
            program.stdout().contains("waiting").then_some(())
        });
        std::thread::sleep(Duration::from_millis(300));
        engine.kill();
        let end = program.wait();
        assert!(end.took < PATIENCE / 2, "{end:?}");
        assert_eq!(end.status.code(), Some(124), "{end:?}");
        let said = end.stdout;
        for call in ["recv", "accept", "epoll", "send", "after"] {
            assert!(said.contains(&format!("{call}: ended")), "{call}: {said}");
        }
    });
}

/// The engine is killed while a program passes on by reference what it receives: it is told,
/// whether it waits for room or for what comes next.
#[test]
fn killed_engine_of_a_proxy() {
    const MUCH: usize = 500_000;
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let sinks = peer
            .cmd(PYTHON)
            .args(["-c", SINKS, &MUCH.to_string()])
            .spawn();
        let relay = bed.file("relay.py", RELAY);
        let program = engine
            .cmd_with(&["--on-engine-loss", "stay"], PYTHON)
            .arg(relay)
            .arg(peer.ip().to_string())
            .spawn();
        let bytes = vec![b'x'; MUCH];
        peer.wait_for(peer.at(9));
        peer.wait_for(peer.at(10));
        eventually("it listens", || {
            program.stdout().contains("listens").then_some(())
        });
        // The first to a sink that reads nothing, the second to one that reads all.
        let mut stalled = connect(&peer, host.at(8));
        let a_while = Some(Duration::from_secs(1));
        stalled.set_write_timeout(a_while).expect("timeout");
        while stalled.write(&bytes).is_ok() {}
        let mut waiting = connect(&peer, host.at(8));
        waiting.write_all(&bytes).expect("send");
        eventually("all has arrived", || {
            sinks.stdout().contains("all").then_some(())
        });
        eventually("much is passed on by reference", || {
            (engine.stat_u64("forwarded_bytes") > MUCH as u64 / 2).then_some(())
        });
        std::thread::sleep(Duration::from_millis(300));
        engine.kill();
        let end = program.wait();
        assert!(end.took < PATIENCE / 2, "{end:?}");
        for which in ["9", "10"] {
            let told = format!("{which}: ended");
            assert!(end.stdout.contains(&told), "{which}: {end:?}");
        }
    });
}

/// Servers of four kinds on an engine, each started with these options of `longshore run`.
fn servers(bed: &Testbed, engine: &Engine<'_>, options: &[&str]) -> [Proc; 4] {
    let host = bed.host(0);
    let node = bed.file(
        "server.js",
        "require('http').createServer((q, r) => r.end('ok')).listen(81, '0.0.0.0')",
    );
    let nginx = Nginx::default().config(bed);
    let servers = [
        engine
            .cmd_with(options, "nginx")
            .arg("-c")
            .arg(nginx)
            .spawn(),
        engine
            .cmd_with(options, "redis-server")
            .args(["--bind", "0.0.0.0", "--save", "", "--protected-mode", "no"])
            .arg("--dir")
            .arg(bed.directory("redis"))
            .spawn(),
        engine.cmd_with(options, "node").arg(node).spawn(),
        engine
            .cmd_with(options, PYTHON)
            .args(["-c", DATAGRAMS])
            .spawn(),
    ];
    eventually("it receives datagrams", || {
        servers[3].stdout().contains("ready").then_some(())
    });
    for port in [80, 6379, 81] {
        bed.peer().wait_for(host.at(port));
    }
    servers
}

/// The engine is killed: programs end, and `longshore run` says why, and fails, so that
/// whoever watches over the service starts it anew.
#[test]
fn servers_end_with_their_engine() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let servers = servers(bed, &engine, &[]);
        engine.kill();
        for server in servers {
            let end = server.wait();
            assert_eq!(end.status.code(), Some(124), "{end:?}");
            assert!(end.stderr.contains("the engine is gone"), "{end:?}");
            assert!(end.stderr.lines().count() < 10, "{end:?}");
        }
    });
}

/// A program that ends at no SIGTERM is killed.
#[test]
fn stubborn_program_without_its_engine() {
    uncounted(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let program = engine
            .cmd("/bin/sh")
            .args([
                "-c",
                "trap '' TERM; echo ready; sleep 1000 & while :; do wait; done",
            ])
            .spawn();
        eventually("it ignores SIGTERM", || {
            program.stdout().contains("ready").then_some(())
        });
        let shell = program.program_pid("sh");
        engine.kill();
        let end = program.wait();
        assert_eq!(end.status.code(), Some(124), "{end:?}");
        assert!(end.stderr.contains("is killed"), "{end:?}");
        assert!(!std::path::Path::new(&format!("/proc/{shell}")).exists());
    });
}

/// Processor time that a process and its children have taken, in seconds.
fn processor_time(of: &Proc) -> f64 {
    let each = of.family().into_iter().map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after.split_whitespace().skip(11).take(2);
        ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>()
    });
    each.sum::<f64>() / 100.0
}

/// Servers that stay without their engine wait, and neither take a processor nor fill their
/// logs.
#[test]
fn servers_that_stay_are_quiet() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let mut servers = servers(bed, &engine, &["--on-engine-loss", "stay"]);
        engine.kill();
        eventually("they have heard of it", || {
            let told = |s: &Proc| s.stderr().contains("the engine is gone");
            servers.iter().all(told).then_some(())
        });
        std::thread::sleep(Duration::from_millis(500));
        let before: Vec<f64> = servers.iter().map(processor_time).collect();
        let start = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        for (server, before) in servers.iter_mut().zip(before) {
            server.assert_running();
            let took = processor_time(server) - before;
            // Who spins has what the machine gives to one that computes: on two processors
            // that others use, a good part of one.
            let share = took / start.elapsed().as_secs_f64();
            assert!(share < 0.1, "{share}: {}", server.stderr());
            assert!(server.stderr().lines().count() < 20, "{}", server.stderr());
        }
        let log = std::fs::read_to_string(bed.path("logs/nginx-error.log")).unwrap_or_default();
        assert!(log.lines().count() < 100, "{} lines", log.lines().count());
        for server in servers {
            let end = server.terminate();
            assert_eq!(end.status.code(), Some(124), "{end:?}");
        }
    });
}

/// No process and no interface of a private engine is left.
fn nothing_is_left(peer: &Host<'_>) {
    eventually("no process and no interface is left", || {
        let links = std::process::Command::new("ip")
            .args(["-n", peer.namespace().name(), "-o", "link"])
            .output()
            .expect("ip is installed");
        let only_loopback = String::from_utf8_lossy(&links.stdout).lines().count() == 1;
        (only_loopback && peer.namespace().pids().is_empty()).then_some(())
    });
}

/// A private engine is gone with its program, and the program with its engine.
#[test]
fn nothing_is_left_behind() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 100_000);
        for _ in 0..2 {
            let nginx = host
                .cmd("nginx")
                .arg("-c")
                .arg(Nginx::default().config(bed))
                .spawn();
            peer.wait_for(host.at(80));
            let url = format!("http://{}/file", host.ip());
            peer.cmd("curl")
                .args(["-sSf", "-o"])
                .arg(bed.path("got"))
                .arg(url)
                .check();
            assert_eq!(
                payload::sha256_of_file(&bed.path("got")).expect("a file"),
                hash
            );
            nginx.signal(Signal::TERM);
            let _ = nginx.wait();
            nothing_is_left(&peer);
        }
    });
}

/// Who kills the launcher kills the program that it stands for: by SIGKILL, too, which
/// cannot be passed on. What the program has put in the background stays, with the
/// engine, until it ends.
#[test]
fn killed_launcher() {
    const IN_FRONT: &str = "exec python3 -m http.server 80";
    const IN_BACKGROUND: &str = "python3 -m http.server 80 >&2 & echo $!; wait";
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let launcher = host.sh(IN_FRONT).spawn();
        peer.wait_for(host.at(80));
        let open = connect(&peer, host.at(80));
        launcher.signal(Signal::KILL);
        let _ = launcher.wait();
        ends(open);
        nothing_is_left(&peer);

        let launcher = host.sh(IN_BACKGROUND).spawn();
        peer.wait_for(host.at(80));
        let server = eventually("the shell says a pid", || {
            let said = launcher.stdout();
            said.strip_suffix('\n')
                .map(|pid| pid.parse().expect("a pid"))
        });
        launcher.signal(Signal::KILL);
        std::thread::sleep(Duration::from_millis(200));
        let open = connect(&peer, host.at(80));
        signal(server, Signal::TERM);
        ends(open);
        let _ = launcher.wait();
        nothing_is_left(&peer);
    });
}

/// SIGTERM drains a shared engine: programs on it finish, new ones are refused.
#[test]
fn engine_drains() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("drain_seconds = 300");
        let echo = bed.file("echo.py", ECHO);
        let program = engine.cmd(PYTHON).arg(&echo).arg("7").spawn();
        peer.wait_for(host.at(7));
        let mut stream = connect(&peer, host.at(7));
        echoes(&mut stream);
        engine.signal(Signal::TERM);
        eventually("a new program is refused", || {
            let end = engine.cmd("/bin/true").run();
            (end.status.code() == Some(125)).then_some(())
        });
        echoes(&mut stream);
        let _ = program.terminate();
        let end = engine.wait();
        assert!(end.status.success(), "{end:?}");
    });
}

/// Garbage from the wire is counted, dropped, survived.
#[test]
fn garbage_on_the_wire() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let echo = bed.file("echo.py", ECHO);
        let mut program = host.cmd(PYTHON).arg(&echo).arg("7").spawn();
        peer.wait_for(host.at(7));
        let mut stream = connect(&peer, host.at(7));
        echoes(&mut stream);
        let script = bed.file("garbage.py", GARBAGE);
        let sent = peer.cmd(PYTHON).arg(script).check();
        assert!(sent.contains("sent"), "{sent}");
        echoes(&mut stream);
        program.assert_running();
    });
}

const ECHO: &str = r#"
import socket, sys, threading
def serve(s):
    try:
        while data := s.recv(65536):
            s.sendall(data)
    except OSError:
        pass
    s.close()
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Waits in epoll and in poll, each in a thread, behind eventfds that it has filled. The
/// shim keeps its descriptors from the program, but not from libc's own symbols.
const HOSTILE: &str = r#"
import ctypes, fcntl, os, select, socket, threading, time
libc = ctypes.CDLL("libc.so.6")
def bells():
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[eventfd]":
                found.add(int(fd))
        except OSError:
            pass
    return found
listeners = [socket.create_server(("0.0.0.0", port)) for port in (8, 9)]
before = bells()
def serve(listener, ready):
    while True:
        if ready():
            listener.accept()[0].send(b"hello")
for listener, waits in zip(listeners, (select.epoll(), select.poll())):
    waits.register(listener, select.EPOLLIN)
    threading.Thread(target=serve, args=(listener, waits.poll), daemon=True).start()
most = ctypes.c_uint64(2**64 - 2)
while len(mine := bells() - before) < 2:
    time.sleep(0.01)
for fd in mine:
    libc.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
    while libc.write(fd, ctypes.byref(most), 8) != 8:
        libc.read(fd, ctypes.byref(ctypes.c_uint64()), 8)
    libc.fcntl(fd, fcntl.F_SETFL, 0)
print(len(mine), "are full", flush=True)
time.sleep(60)
"#;

/// Sends without end to whoever connects, and reads half of what comes.
const FLOOD: &str = r#"
import socket, sys, threading
def serve(s):
    try:
        s.recv(15000)
        while True:
            s.sendall(b"y" * 100000)
    except OSError:
        pass
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Passes what comes over its first connection on to port 9 of the host that it is told, and what
/// comes over the second to port 10.
const RELAY: &str = "
import os, socket, sys, threading

def relay(source, port):
    sink = socket.create_connection((sys.argv[1], port))
    out, into = os.pipe()
    try:
        while True:
            kept = os.splice(source.fileno(), into, 65536)
            if kept == 0:
                break
            while kept:
                kept -= os.splice(out, sink.fileno(), kept)
    except OSError as error:
        print(f'{port}: ended {error}', flush=True)

listener = socket.create_server(('', 8))
print('listens', flush=True)
threads = [threading.Thread(target=relay, args=[listener.accept()[0], port]) for port in (9, 10)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

/// Takes a connection at port 9 of which it reads nothing, and one at 10 of which it reads so much.
const SINKS: &str = "
import socket, sys, time
listeners = [socket.create_server(('', port)) for port in (9, 10)]
left = int(sys.argv[1])
while left == int(sys.argv[1]):
    stream = listeners[1].accept()[0]
    while left and (got := len(stream.recv(65536))):
        left -= got
print('all', flush=True)
time.sleep(1000)
";

/// A thread in each kind of waiting call; says how each ended.
const ORPHAN: &str = r#"
import os, select, socket, sys, threading
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
probe, _ = listener.accept()
probe.close()
conns = [listener.accept()[0] for _ in range(4)]
def tell(name, call):
    try:
        result = call()
    except OSError as e:
        result = e
    os.write(1, f"{name}: ended {result!r}\n".encode())
def send():
    while True:
        conns[2].send(b"z" * 100000)
epoll = select.epoll()
epoll.register(conns[1], select.EPOLLIN)
threads = [threading.Thread(target=tell, args=a) for a in [
    ("recv", lambda: conns[0].recv(10)),
    ("epoll", lambda: epoll.poll(600)),
    ("send", send),
    ("accept", listener.accept),
]]
for t in threads: t.start()
os.write(1, b"waiting\n")
for t in threads: t.join()
tell("after", lambda: socket.create_connection(("10.77.0.1", 9), 5))
"#;

/// A server that waits for datagrams, whatever it is told.
const DATAGRAMS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 5353))
print("ready", flush=True)
while True:
    try:
        s.sendto(*s.recvfrom(100))
    except OSError as e:
        print(e, file=sys.stderr)
"#;

/// Frames of every kind of nonsense straight onto the engine's link.
const GARBAGE: &str = r#"
import os, random, socket, struct
random.seed(5)
name = [n for _, n in socket.if_nameindex() if n != "lo"][0]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((name, 0))
mac = open(f"/sys/class/net/{name}/address").read().strip()
me = bytes.fromhex(mac.replace(":", ""))
neighbours = os.popen("ip neigh show 10.77.0.2").read().split()
engine = bytes.fromhex(neighbours[neighbours.index("lladdr") + 1].replace(":", ""))
def checksum(b):
    b += b"\0" * (len(b) % 2)
    t = sum(struct.unpack(f"!{len(b)//2}H", b))
    while t >> 16: t = (t & 0xffff) + (t >> 16)
    return ~t & 0xffff
def ip(protocol, payload, flags=0, length=None, header=5):
    h = struct.pack("!BBHHHBBH4s4s", 0x40 | header, 0, length or 20 + len(payload),
        random.randrange(65536), flags, 64, protocol, 0,
        socket.inet_aton("10.77.0.1"), socket.inet_aton("10.77.0.2"))
    return h[:10] + struct.pack("!H", checksum(h)) + h[12:] + payload
for i in range(20000):
    kind = i % 8
    junk = os.urandom(random.randrange(0, 200))
    if kind == 0: body = junk; ether = random.choice([0x0800, 0x0806, 0x86dd, random.randrange(65536)])
    elif kind == 1: body = ip(random.randrange(256), junk); ether = 0x0800
    elif kind == 2: body = ip(6, junk); ether = 0x0800
    elif kind == 3: body = ip(6, struct.pack("!HHIIBBHHH", random.randrange(65536), 7, random.getrandbits(32), random.getrandbits(32), random.randrange(256), random.randrange(256), 1000, 0, 0) + junk); ether = 0x0800
    elif kind == 4: body = ip(17, junk); ether = 0x0800
    elif kind == 5: body = ip(1, junk); ether = 0x0800
    elif kind == 6: body = ip(random.choice([6, 17]), junk, flags=random.randrange(65536)); ether = 0x0800
    else: body = ip(6, junk, length=random.randrange(65536), header=random.randrange(16)); ether = 0x0800
    try:
        s.send(engine + me + struct.pack("!H", ether) + body)
    except OSError:
        pass
print("sent")
"#;
