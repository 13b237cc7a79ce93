//! The engine is killed: what the programs that it served see, and what `longshore run` does.

use super::{scenario, uncounted};
use longshore_e2e::peer::connect;
use longshore_e2e::servers::{Nginx, PYTHON};
use longshore_e2e::{Engine, Proc, TIMEOUT, Testbed, eventually};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

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
        assert!(end.took < TIMEOUT / 2, "{end:?}");
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
        assert!(end.took < TIMEOUT / 2, "{end:?}");
        for which in ["9", "10"] {
            let told = format!("{which}: ended");
            assert!(end.stdout.contains(&told), "{which}: {end:?}");
        }
    });
}

/// Servers of eight kinds on an engine, each started with these options of `longshore run`.
fn servers(bed: &Testbed, engine: &Engine<'_>, options: &[&str]) -> [Proc; 8] {
    let host = bed.host(0);
    let node = bed.file(
        "server.js",
        "require('http').createServer((q, r) => r.end('ok')).listen(81, '0.0.0.0')",
    );
    let nginx = Nginx::default().config(bed);
    let waits = |how: &str, port: &str| {
        engine
            .cmd_with(options, PYTHON)
            .args(["-c", WAITS, how, port])
            .spawn()
    };
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
        waits("poll", "82"),
        waits("select", "83"),
        waits("an epoll instance in poll", "84"),
        waits("an epoll instance in another", "85"),
    ];
    eventually("it receives datagrams", || {
        servers[3].stdout().contains("ready").then_some(())
    });
    for port in [80, 6379, 81, 82, 83, 84, 85] {
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
            // A server that spins has what the machine gives to one that computes: on two processors
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

/// A server of one thread that waits in another way than most.
const WAITS: &str = r#"
import select, socket, sys
how, port = sys.argv[1], int(sys.argv[2])
listener = socket.create_server(("0.0.0.0", port))
listener.setblocking(False)
inner = select.epoll()
watched = inner if how.startswith("an epoll instance") else listener
if how.endswith("another"):
    waiter, timeout = select.epoll(), 60
else:
    waiter, timeout = select.poll(), 60000
if watched is inner:
    inner.register(listener, select.EPOLLIN)
waiter.register(watched, select.POLLIN)
while True:
    if how == "select":
        select.select([listener], [], [], 60)
    else:
        waiter.poll(timeout)
    try:
        listener.accept()[0].close()
    except OSError as e:
        if not isinstance(e, BlockingIOError):
            print(e, file=sys.stderr)
"#;
