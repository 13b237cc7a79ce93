//! Limits that are reached: the engine's of file descriptors, and a session's of sockets,
//! processes and memory. A program that meets one is told what to do; all others go on.
//! Longshore only: the limits are its own.

use longshore_e2e::conformance::compile;
use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Engine, Stack, Testbed, eventually, run, run_uncounted, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use std::os::fd::OwnedFd;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(300), body);
}

/// Connects again and again, one after the other and many at once; says how many processes have
/// answered, each connection once.
const CONNECTS: &str = r#"
import socket, sys
at = (sys.argv[1], int(sys.argv[2]))
one_by_one, at_once, rounds = map(int, sys.argv[3:])
who = set()
def read(s):
    said = b""
    while part := s.recv(100):
        said += part
    s.close()
    assert said.count(b"\n") == 1, said
    who.add(int(said))
for _ in range(one_by_one):
    read(socket.create_connection(at, 60))
for _ in range(rounds):
    for s in [socket.create_connection(at, 60) for _ in range(at_once)]:
        read(s)
print(len(who))
"#;

/// Where a limit is met before anything is sent.
fn quiet(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

/// How many times something is said.
fn times(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// Takes all of the engine's file descriptors, as long as what it returns is held.
fn take_all_descriptors(engine: &Engine<'_>) -> Vec<OwnedFd> {
    const MORE: u64 = 16;
    permit(engine, Some(MORE));
    // Each takes one; the last are turned away.
    let callers = (0..100 + MORE).map(|_| {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let caller = socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
        let at = SocketAddrUnix::new(engine.socket()).expect("a path");
        connect(&caller, &at).expect("the engine listens");
        caller
    });
    let callers: Vec<OwnedFd> = callers.collect();
    eventually("the last is turned away", || {
        let last = callers.last()?;
        let mut fds = [PollFd::new(last, PollFlags::IN)];
        let at_once = Timespec::default();
        (poll(&mut fds, Some(&at_once)) == Ok(1)).then_some(())
    });
    callers
}

/// Has the engine have room for this many descriptors more; as many as it may, if `None`.
fn permit(engine: &Engine<'_>, more: Option<u64>) {
    let pid = Pid::from_raw(engine.pid());
    let open = std::fs::read_dir(format!("/proc/{}/fd", engine.pid())).expect("it runs");
    let open = open.count() as u64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = more.map_or(maximum, |more| Some(open + more));
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("prlimit");
}

/// An engine that has no descriptor left says so to a program that wants one, and goes on with those
/// that it serves.
#[test]
fn an_engine_without_descriptors() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let mut server = engine.cmd(PYTHON).args(["-m", "http.server", "80"]).spawn();
        peer.wait_for(host.at(80));
        let callers = take_all_descriptors(&engine);
        for _ in 0..3 {
            let end = engine.cmd("/bin/true").run();
            assert_eq!(end.status.code(), Some(125), "{end:?}");
            for word in ["file descriptors", "ulimit -n"] {
                assert!(end.stderr.contains(word), "{end:?}");
            }
            let end = host
                .longshore()
                .args(["stat", "--engine"])
                .arg(engine.socket())
                .run();
            assert_eq!(end.status.code(), Some(125), "{end:?}");
            assert!(end.stderr.contains("no file descriptor left"), "{end:?}");
        }
        peer.cmd("curl")
            .args(["-sSf", "-o", "/dev/null"])
            .arg(format!("http://{}/", host.ip()))
            .check();
        server.assert_running();
        drop(callers);
        permit(&engine, None);
        engine.cmd("/bin/true").check();
    });
}

/// Has 400 threads, 20 at a time, each of which waits once; then 20 that wait until they are told
/// to end. What is next begins at SIGUSR1.
const THREADS: &str = r#"
import os, select, signal, socket, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def wait(end, milliseconds):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 0))
    both = select.poll()
    both.register(s, select.POLLIN)
    both.register(end, select.POLLIN)
    both.poll(milliseconds)
    s.close()
def start(milliseconds):
    end, tell = os.pipe()
    threads = [threading.Thread(target=wait, args=(end, milliseconds)) for _ in range(20)]
    for t in threads: t.start()
    def finish():
        for t in threads: t.join()
        os.close(end)
    return tell, finish
def step(name):
    print(name, flush=True)
    signal.sigwait([signal.SIGUSR1])
# The process joins its session by its first socket.
wait(os.pipe()[0], 1)
step("begun")
before = len(os.listdir("/proc/self/fd"))
for _ in range(20):
    tell, finish = start(20)
    finish()
    os.close(tell)
step("short")
tell, finish = start(120_000)
step("waiting")
os.close(tell)
finish()
assert len(os.listdir("/proc/self/fd")) <= before + 2
step("done")
"#;

/// What threads sleep on that have ended costs the engine no descriptor, though their process goes
/// on: those that came one after the other as little as those that were there at once.
#[test]
fn descriptors_of_threads_that_have_ended() {
    const AT_ONCE: usize = 20;
    // Whatever else the engine opens and closes.
    const FEW: usize = 4;
    quiet(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let script = bed.file("threads.py", THREADS);
        let program = engine.cmd(PYTHON).arg(&script).spawn();
        let open = || {
            let open = std::fs::read_dir(format!("/proc/{}/fd", engine.pid()));
            open.expect("it runs").count()
        };
        let is_at = |step: &str| {
            eventually(step, || program.stdout().contains(step).then_some(()));
        };
        let go_on = || signal(program.program_pid("python3"), Signal::USR1);
        is_at("begun");
        let before = open();
        go_on();
        is_at("short");
        let after = open();
        assert!(after <= before + AT_ONCE + FEW, "{before}, then {after}");
        eventually("those of the short threads are closed", || {
            (open() <= before + FEW).then_some(())
        });
        go_on();
        is_at("waiting");
        eventually("each thread has one", || {
            (open() >= before + AT_ONCE).then_some(())
        });
        assert!(open() <= before + AT_ONCE + FEW, "{before}, {}", open());
        go_on();
        is_at("done");
        eventually("the others are closed, too", || {
            (open() <= before + FEW).then_some(())
        });
        go_on();
        program.wait().check();
    });
}

/// An engine has all the descriptors that it may have, whatever it was started with; one
/// that has too few says so.
#[test]
fn an_engine_that_is_started_with_few_descriptors() {
    quiet(|bed| {
        let peer = bed.peer();
        let run = |limit: &str| {
            let longshore = longshore_e2e::longshore();
            let script = format!("{limit}; exec {} run -- /bin/true", longshore.display());
            peer.cmd("/bin/sh").args(["-c", &script]).run()
        };
        let end = run("ulimit -Sn 12");
        assert!(end.status.success(), "{end:?}");
        let end = run("ulimit -n 12");
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        assert!(end.stderr.contains("ulimit -n"), "{end:?}");
    });
}

const SOCKETS: &str = r#"
import errno, os, socket, time
held = []
def one():
    s = socket.socket()
    s.bind(("", 0))
    held.append(s)
for again in range(3):
    try:
        while len(held) < 1000:
            one()
    except OSError as e:
        assert e.errno == errno.ENFILE, e
print("held", len(held), flush=True)
held.pop().close()
deadline = time.monotonic() + 60
while True:
    try:
        one()
        break
    except OSError as e:
        assert e.errno == errno.ENFILE and time.monotonic() < deadline, e
        time.sleep(0.01)
print("one more")
"#;

/// A program on an engine whose sessions have 64 of something says this, and has been told
/// so many times which key of the configuration that is.
fn meets_limit(key: &'static str, program: &'static str, said: &'static str, told: usize) {
    quiet(move |bed| {
        let host = bed.host(0);
        let engine = host.engine(&format!("[session]\n{key} = 64"));
        let script = bed.file("program.py", program);
        // The second has a session of its own.
        for _ in 0..2 {
            let end = engine.cmd(PYTHON).arg(&script).run();
            assert_eq!(end.stdout, said, "{end:?}");
            let name = format!("session.{key}");
            assert_eq!(times(&end.stderr, &name), told, "{end:?}");
            assert!(!end.stderr.contains("engine is gone"), "{end:?}");
        }
    });
}

/// A session has as many sockets as its engine's configuration says; the program that wants
/// more gets the error of a full table, and a line that says what to do.
#[test]
fn a_session_without_sockets() {
    meets_limit("sockets", SOCKETS, "held 64\none more\n", 1);
}

const PROCESSES: &str = r#"
import os, socket, sys
listener = socket.create_server(("", 7))
children, hold = 80, os.pipe()
say = os.pipe()
for i in range(children):
    if not os.fork():
        os.close(hold[1])
        try:
            socket.socket().bind(("", 0))
            os.write(say[1], b"y")
        except OSError:
            os.write(say[1], b"n")
        os.read(hold[0], 1)
        os._exit(0)
said = b""
while len(said) < children:
    said += os.read(say[0], 100)
os.close(hold[1])
for i in range(children):
    os.wait()
print("with sockets", said.count(b"y"), "without", said.count(b"n"), flush=True)
# The parent's, and those of who comes later, are as they were.
if not os.fork():
    listener.getsockname()
    socket.socket().bind(("", 0))
    print("and one more", flush=True)
    os._exit(0)
os.wait()
"#;

/// A session with its limit of processes: those that find no room have no sockets, and say why.
#[test]
fn a_session_without_room_for_processes() {
    let said = "with sockets 63 without 17\nand one more\n";
    meets_limit("processes", PROCESSES, said, 17);
}

/// Accepts connections, reads nothing until told to, and then each to its end, that first
/// for which there is least room.
const HOARDER: &str = r#"
import hashlib, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
listener.bind(("", 7))
listener.listen(100)
held = [listener.accept()[0] for _ in range(int(sys.argv[1]))]
print("all are here", flush=True)
signal.sigwait([signal.SIGUSR1])
for s in reversed(held):
    digest, size = hashlib.sha256(), 0
    while data := s.recv(1 << 20):
        digest.update(data)
        size += len(data)
    print(size, digest.hexdigest(), flush=True)
"#;

/// As many connections, over each of which it sends the file.
const SENDERS: &str = r#"
import os, socket, sys, threading
data = open(sys.argv[1], "rb").read()
def send():
    s = socket.create_connection(("10.77.0.2", 7))
    s.sendall(data)
    s.close()
threads = [threading.Thread(target=send) for _ in range(int(sys.argv[2]))]
for t in threads: t.start()
for t in threads: t.join()
print("sent")
"#;

/// More is sent than a session has memory for, and nobody reads: the connections wait with closed
/// windows, the neighbour's do not, and nothing is lost when somebody reads at last.
#[test]
fn a_session_without_memory_for_what_comes() {
    const CONNECTIONS: &str = "20";
    const BYTES: u64 = 2 << 20;
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("[session]\nreceive_mib = 32");
        let hoarder = bed.file("hoarder.py", HOARDER);
        let hoarder = engine.cmd(PYTHON).arg(&hoarder).arg(CONNECTIONS).spawn();
        let mut neighbour = engine.cmd(PYTHON).args(["-m", "http.server", "80"]).spawn();
        peer.wait_for(host.at(80));
        let (file, hash) = bed.payload("data", BYTES);
        let senders = bed.file("senders.py", SENDERS);
        eventually("the hoarder listens", || {
            let ss = host
                .longshore()
                .args(["ss", "--engine"])
                .arg(engine.socket());
            ss.check().contains("0.0.0.0:7").then_some(())
        });
        let senders = peer.cmd(PYTHON).arg(senders).arg(file).arg(CONNECTIONS);
        let senders = senders.spawn();
        eventually("memory is short", || {
            let narrowed = engine.stat()["tcp"]["windows_narrowed"].as_u64();
            (narrowed.expect("a count") >= 10).then_some(())
        });
        peer.cmd("curl")
            .args(["-sSf", "-o", "/dev/null"])
            .arg(format!("http://{}/", host.ip()))
            .check();
        neighbour.assert_running();
        signal(hoarder.program_pid("python3"), Signal::USR1);
        assert_eq!(senders.wait().check(), "sent\n");
        let said = hoarder.wait().check();
        assert_eq!(times(&said, &format!("{BYTES} {hash}")), 20, "{said}");
        engine.signal(Signal::TERM);
        drop(neighbour);
        let end = engine.wait();
        assert_eq!(times(&end.stderr, "session.receive_mib"), 1, "{end:?}");
    });
}

/// Of 256 processes that accept from one listener one accepts each connection, and it is
/// not for each that all are woken.
#[test]
fn a_connection_is_accepted_by_one_of_many_processes() {
    scenario(|bed| {
        const PROCESSES: usize = 256;
        const ONE_BY_ONE: u64 = 500;
        const AT_ONCE: u64 = 100;
        const ROUNDS: u64 = 10;
        let program = compile(bed, "acceptors");
        let (host, peer) = (bed.host(0).with_its_engine(), bed.peer());
        let engine = host.engine("[session]\nprocesses = 320");
        let mut server = engine.cmd(&program.to_string_lossy());
        server = server
            .arg(host.ip().to_string())
            .arg("7")
            .arg(PROCESSES.to_string());
        let server = server.spawn();
        eventually("all processes are there", || {
            server.stdout().contains("serves").then_some(())
        });
        let script = bed.file("connects.py", CONNECTS);
        let mut connects = peer
            .cmd(PYTHON)
            .arg(script)
            .arg(host.ip().to_string())
            .arg("7");
        for number in [ONE_BY_ONE, AT_ONCE, ROUNDS] {
            connects = connects.arg(number.to_string());
        }
        let answered: usize = connects.check().trim().parse().expect("a number");
        assert!(answered > 1 && answered <= PROCESSES, "{answered}");
        let all = ONE_BY_ONE + AT_ONCE * ROUNDS;
        let stat = engine.stat();
        let woken = stat.pointer("/sessions/0/crossings/to_host/wakeups");
        let woken = woken.and_then(serde_json::Value::as_u64).expect("a count");
        // Others than the one that accepts are woken where nobody is known to sleep, or a connection
        // waits for long: on a busy machine for its processor.
        assert!(
            woken <= all * (1 + PROCESSES as u64 / 8),
            "{woken} for {all}"
        );
        let end = server.terminate();
        let counts = end.stdout.lines().last().expect("the counts");
        let counts = counts
            .split_whitespace()
            .map(|n| n.parse::<u64>().expect("a count"));
        assert_eq!(counts.sum::<u64>(), all, "{end:?}");
    });
}
