//! The engine is gone and another one comes: programs that stay attach to it anew, for the sockets
//! that they make from then on.

use super::uncounted;
use longshore_e2e::peer::{connect, ends};
use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Engine, Host, Proc, Testbed, eventually};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;

const ATTACHES: [&str; 2] = ["--on-engine-loss", "attach"];

/// What a program has said so often, at least.
fn says(program: &Proc, what: &str, times: usize) {
    eventually(&format!("{what} {times} times"), || {
        let said = program.stdout().matches(what).count();
        (said >= times).then_some(())
    });
}

/// An echo server on the peer, which outlives all engines.
fn echo_on_peer(bed: &Testbed) -> Proc {
    let peer = bed.peer();
    let echo = peer.cmd(PYTHON).args(["-c", ECHO]).spawn();
    peer.wait_for(peer.at(9));
    echo
}

/// Ends an engine, and starts the next, whose sessions have another size.
fn replace<'l>(host: &'l Host<'_>, engine: Engine<'l>, how: Signal) -> Engine<'l> {
    match how {
        Signal::KILL => engine.kill(),
        // It does not wait for its programs, to whom it says so.
        how => {
            engine.signal(how);
            engine.signal(how);
            let _ = engine.wait();
        }
    }
    host.engine("[session]\nsockets = 4096\nsend_mib = 64\nprocesses = 64")
}

/// A program that asks again and again, by connections and datagrams, loses those that it has, and
/// has others once there is another engine; a thread that has slept in epoll all the while, too.
/// Neither it nor `longshore run` ends for that.
#[test]
fn a_client_goes_on_at_the_next_engine() {
    uncounted(|bed| {
        let host = bed.host(0);
        let mut engine = host.engine("");
        let _echo = echo_on_peer(bed);
        let script = bed.file("client.py", CLIENT);
        let mut client = engine
            .cmd_with(&ATTACHES, PYTHON)
            .arg(script)
            .arg(bed.peer().ip().to_string())
            .spawn();
        for (round, how) in [Signal::KILL, Signal::TERM, Signal::KILL]
            .into_iter()
            .enumerate()
        {
            for answered in ["connection answered", "datagram answered"] {
                let before = client.stdout().matches(answered).count();
                says(&client, answered, before + 3);
            }
            says(&client, "lost", round);
            engine = replace(&host, engine, how);
        }
        says(&client, "lost", 3);
        let before = client.stdout().matches("connection answered").count();
        says(&client, "connection answered", before + 3);
        assert_eq!(engine.stat_u64("sessions"), 1);
        client.assert_running();
        let end = client.terminate();
        let (said, told) = (&end.stdout, &end.stderr);
        assert!(said.contains("lost: [Errno 104]"), "{said}");
        assert_eq!(told.matches("attached anew").count(), 3, "{told}");
        assert_ne!(end.status.code(), Some(124), "{end:?}");
    });
}

/// A child that is made while there is no engine, of a program that has lost its own, has sockets
/// at the next one, and so have the program that it becomes and one that begins later.
#[test]
fn children_and_other_programs_go_on_at_the_next_engine() {
    uncounted(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let _echo = echo_on_peer(bed);
        let script = bed.file("parent.py", PARENT);
        let parent = engine
            .cmd_with(&ATTACHES, PYTHON)
            .arg(script)
            .arg(bed.peer().ip().to_string())
            .spawn();
        says(&parent, "parent: answered", 1);
        engine.kill();
        says(&parent, "children made", 1);
        let next = host.engine("");
        let end = parent.wait();
        for who in ["forked", "kept none", "executed", "parent at last"] {
            assert!(
                end.stdout.contains(&format!("{who}: answered")),
                "{who}: {end:?}"
            );
        }
        assert_eq!(end.status.code(), Some(0), "{end:?}");
        drop(next);
    });
}

/// A server that closes its listener when that fails listens at the next engine.
#[test]
fn a_server_listens_again_at_the_next_engine() {
    uncounted(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let script = bed.file("server.py", SERVER);
        let mut server = engine.cmd_with(&ATTACHES, PYTHON).arg(script).spawn();
        peer.wait_for(host.at(7));
        let mut before = connect(&peer, host.at(7));
        let echoes = |stream: &mut TcpStream| {
            let mut answer = [0; 5];
            stream.write_all(b"hello").is_ok() && stream.read_exact(&mut answer).is_ok()
        };
        assert!(echoes(&mut before));
        let engine = replace(&host, engine, Signal::KILL);
        peer.wait_for(host.at(7));
        assert!(echoes(&mut connect(&peer, host.at(7))));
        // It is no connection of the next engine, which says so when it is asked.
        let _ = before.write_all(b"hello");
        ends(before);
        assert_eq!(engine.stat_u64("sessions"), 1);
        server.assert_running();
        let _ = server.terminate();
    });
}

/// Without the option a session is not opened anew, and the next engine knows nothing of it.
#[test]
fn a_program_that_is_to_stay_without_sockets_stays_without() {
    uncounted(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let _echo = echo_on_peer(bed);
        let script = bed.file("client.py", CLIENT);
        let client = engine
            .cmd_with(&["--on-engine-loss", "stay"], PYTHON)
            .arg(script)
            .arg(bed.peer().ip().to_string())
            .spawn();
        says(&client, "connection answered", 1);
        let engine = replace(&host, engine, Signal::KILL);
        let before = client.stdout().matches("connection answered").count();
        says(&client, "Network is down", 20);
        let after = client.stdout().matches("connection answered").count();
        assert!(after <= before + 1, "{after} and {before}");
        assert_eq!(engine.stat_u64("sessions"), 0);
        let end = client.terminate();
        assert_eq!(end.status.code(), Some(124), "{end:?}");
    });
}

/// Answers what comes with the same, at port 9, by connections and datagrams.
const ECHO: &str = r#"
import socket, threading
def serve(stream):
    try:
        while data := stream.recv(1000):
            stream.sendall(data)
    except OSError:
        pass
    stream.close()
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 9))
    while True:
        data, who = s.recvfrom(1000)
        s.sendto(data, who)
threading.Thread(target=datagrams, daemon=True).start()
listener = socket.create_server(("", 9))
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"#;

/// Keeps one connection as long as it lasts, which says "lost" when it is lost, and asks by others
/// and by datagrams. One epoll instance is for all, in which a thread sleeps.
const CLIENT: &str = r#"
import select, socket, sys, threading, time
peer = (sys.argv[1], 9)
ready, waiting = select.epoll(), {}
def wait():
    while True:
        for fd, events in ready.poll():
            entry = waiting.pop(fd, None)
            if entry is None:
                continue
            sock, done = entry
            try:
                print("connection answered" if sock.recv(100) else "ended", flush=True)
            except OSError as error:
                print("epoll:", error, flush=True)
            ready.unregister(fd)
            sock.close()
            done.set()
threading.Thread(target=wait, daemon=True).start()
kept = None
def keep():
    global kept
    if kept is None:
        kept = socket.create_connection(peer, 5)
        kept.settimeout(5)
    kept.sendall(b"kept")
    if not kept.recv(100):
        raise ConnectionResetError("end of file")
while True:
    time.sleep(0.05)
    try:
        keep()
    except OSError as error:
        if kept:
            try:
                kept.recv(1)
            except OSError as told:
                error = told
            print("lost:", error, flush=True)
            kept.close()
            kept = None
        else:
            print("none:", error, flush=True)
            continue
    try:
        sock = socket.create_connection(peer, 5)
        done = threading.Event()
        waiting[sock.fileno()] = sock, done
        ready.register(sock.fileno(), select.EPOLLIN)
        sock.sendall(b"ask")
        if not done.wait(20):
            print("not woken", flush=True)
            sys.exit(3)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(1)
            datagrams.sendto(b"ask", peer)
            datagrams.recv(100)
            print("datagram answered", flush=True)
    except OSError as error:
        print("failed:", error, flush=True)
"#;

/// Has children when its engine is gone: one that it forks, which has one of its sockets and closes
/// it, one that has none, and one that becomes another program.
const PARENT: &str = r#"
import os, socket, sys, time
peer = (sys.argv[1], 9)
def ask(who):
    for _ in range(600):
        try:
            with socket.create_connection(peer, 5) as s:
                s.sendall(b"ask")
                if s.recv(100) == b"ask":
                    print(f"{who}: answered", flush=True)
                    return
        except OSError:
            pass
        time.sleep(0.1)
    print(f"{who}: never", flush=True)
    sys.exit(1)
ONE = "import socket, sys, time\n" + "peer = (sys.argv[1], 9)\n"
if len(sys.argv) > 2:
    ask(sys.argv[2])
    sys.exit(0)
kept = socket.create_connection(peer, 5)
kept.sendall(b"ask")
kept.recv(100)
print("parent: answered", flush=True)
try:
    while kept.recv(100):
        pass
except OSError:
    pass
def child(body):
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    return pid
def forked():
    kept.close()
    ask("forked")
children = [child(forked)]
kept.close()
children.append(child(lambda: ask("kept none")))
children.append(child(lambda: os.execv(sys.executable, [sys.executable, sys.argv[0], sys.argv[1], "executed"])))
print("children made", flush=True)
for pid in children:
    os.waitpid(pid, 0)
ask("parent at last")
"#;

/// An echo server that begins anew when its listener fails.
const SERVER: &str = r#"
import socket, sys, time
def serve():
    with socket.create_server(("", 7)) as listener:
        while True:
            stream, _ = listener.accept()
            try:
                while data := stream.recv(100):
                    stream.sendall(data)
            except OSError:
                pass
            stream.close()
while True:
    try:
        serve()
    except OSError as error:
        print(error, flush=True)
        time.sleep(0.05)
"#;
