//! When things go wrong: programs and engines that die, and what the survivors
//! see. Longshore only; the kernel does not die alone.

mod engine_killed;
mod engine_replaced;

use longshore_e2e::peer::{connect, ends};
use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{
    Engine, Host, Stack, TIMEOUT, Testbed, eventually, payload, run, run_uncounted, signal, soak,
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
    // A connection that asked the engine just now may stay a moment.
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
                start.elapsed() < TIMEOUT,
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
        // Both are woken for the client that connects.
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

/// A signal that kills the launcher kills the program that it stands for: by SIGKILL, too, which
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
# A number that one has for a moment only, until it is moved out of the program's way, may be
# another's then.
mine = set()
while len(mine) < 2 or mine != bells() - before:
    mine = bells() - before
    time.sleep(0.05)
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
