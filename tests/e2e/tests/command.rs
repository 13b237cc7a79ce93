//! The command line: exit codes, errors that say what to do, ordinary users.

use longshore_e2e::conformance::compile_with;
use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Finished, Stack, Testbed, as_ordinary_user, payload, run, run_uncounted};
use std::path::PathBuf;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(300), body);
}

/// Of how Longshore begins, fails and tells of itself: no program says a word.
fn quiet(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

/// Longshore itself failed, with one message that has all these words.
fn failed(end: &Finished, words: &[&str]) {
    assert_eq!(end.status.code(), Some(125), "{end:?}");
    for word in words {
        assert!(end.stderr.contains(word), "no {word:?} in: {}", end.stderr);
    }
    assert!(!end.stderr.contains("panicked"), "{end:?}");
}

/// The program's exit status is that of `longshore run`, as with env or nohup.
#[test]
fn exit_status() {
    quiet(|bed| {
        let host = bed.host(0);
        for (script, status) in [
            ("exit 0", 0),
            ("exit 7", 7),
            ("kill -9 $$", 137),
            ("kill -TERM $$", 143),
        ] {
            let end = host.sh(script).run();
            assert_eq!(end.status.code(), Some(status), "{script}: {end:?}");
        }
        assert_eq!(host.cmd("/no/such/program").run().status.code(), Some(127));
        let data = bed.file("data", "no program");
        assert_eq!(host.cmd(data).run().status.code(), Some(126));
    });
}

/// Standard input, output and error are the program's own.
#[test]
fn standard_streams_pass_through() {
    quiet(|bed| {
        let end = bed.host(0).sh("echo out; echo err >&2; cat").run();
        assert_eq!(end.stdout, "out\n");
        assert!(end.stderr.contains("err\n"), "{end:?}");
    });
}

/// Signals reach the program.
#[test]
fn signals_are_passed_on() {
    quiet(|bed| {
        let program = bed
            .host(0)
            .sh("trap 'echo got it; exit 5' HUP; echo ready; while :; do sleep 0.05; done")
            .spawn();
        longshore_e2e::eventually("it is ready", || {
            program.stdout().contains("ready").then_some(())
        });
        program.signal(rustix::process::Signal::HUP);
        let end = program.wait();
        assert_eq!(
            (end.status.code(), end.stdout.as_str()),
            (Some(5), "ready\ngot it\n")
        );
    });
}

/// What cannot work says what failed, on what, and what to do.
#[test]
fn errors_say_what_to_do() {
    quiet(|bed| {
        let peer = bed.peer();
        let run = |args: &[&str]| peer.longshore().args(args).run();
        for (args, word) in [
            (
                &["run", "--addr", "10.77.0.2", "--", "/bin/true"][..],
                "10.77.0.2",
            ),
            (&["run", "--mtu", "9", "--", "/bin/true"], "68 to 65535"),
            (&["run", "--port", "eth9", "--", "/bin/true"], "tap:"),
            (&["run", "--nonsense", "--", "/bin/true"], "--nonsense"),
            (&["run"], "PROGRAM"),
            (&["frobnicate"], "frobnicate"),
        ] {
            let end = run(args);
            assert!(!end.status.success(), "{end:?}");
            assert!(end.stderr.contains(word), "no {word:?}: {end:?}");
        }
        // An address that another interface has.
        peer.namespace()
            .ip("link add dummy0 type veth peer name dummy1");
        peer.namespace().ip("address add 10.77.5.1/24 dev dummy0");
        peer.namespace().ip("link set dummy0 up");
        let end = run(&["run", "--addr", "10.77.5.2/24", "--", "/bin/true"]);
        failed(&end, &["10.77.5", "dummy0"]);
        // A name that is no TAP.
        let end = run(&[
            "run",
            "--port",
            "tap:dummy0",
            "--addr",
            "10.77.0.2/24",
            "--",
            "/bin/true",
        ]);
        failed(&end, &["dummy0"]);
        // An interface that is not there, with an address and without.
        for addr in [&["--addr", "10.77.0.2/24"][..], &[]] {
            let head = ["run", "--port", "packet:nosuch0"];
            let args: Vec<&str> = [&head[..], addr, &["--", "/bin/true"]].concat();
            failed(&run(&args), &["there is no interface nosuch0", "ip link"]);
        }
        // One whose network nobody has said.
        let end = run(&["run", "--port", "packet:dummy0", "--", "/bin/true"]);
        failed(&end, &["the network of the device dummy0", "--addr"]);
        // An engine that is not there.
        let end = run(&["run", "--engine", "/no/such/engine.sock", "--", "/bin/true"]);
        failed(&end, &["/no/such/engine.sock"]);
        // Configurations.
        let bad = bed.file("bad.toml", "port = \"tap:x\"\naddres = \"10.77.0.2/24\"\n");
        let end = run(&["engine", "--config", bad.to_str().expect("UTF-8")]);
        failed(&end, &["bad.toml", "addres"]);
        let end = run(&["engine", "--config", "/no/such.toml"]);
        failed(&end, &["/no/such.toml"]);
    });
}

/// Two private engines cannot have one address; the second says so.
#[test]
fn address_is_taken() {
    quiet(|bed| {
        let host = bed.host(0);
        let first = host.sh("echo up; exec sleep 600").spawn();
        longshore_e2e::eventually("the first is up", || {
            first.stdout().contains("up").then_some(())
        });
        let second = host.cmd("/bin/true").run();
        failed(&second, &["10.77.0"]);
    });
}

/// Help, version, and the example configuration, which must be a valid one.
#[test]
fn help_helps() {
    quiet(|bed| {
        let peer = bed.peer();
        for args in [
            &["--help"][..],
            &["run", "--help"],
            &["engine", "--help"],
            &["stat", "--help"],
            &["ss", "--help"],
            &["--version"],
        ] {
            assert!(!peer.longshore().args(args).check().is_empty());
        }
        let example = peer
            .longshore()
            .args(["engine", "--example-config"])
            .check();
        assert!(example.contains("address ="), "{example}");
    });
}

/// What a container is to the engine: its pids are others'. A child keeps what it inherits,
/// is seen to live, and is seen to die.
const FAMILY: &str = r#"
import os, socket, subprocess, sys, time
# As high as no process of the engine's namespace.
limit = int(open("/proc/sys/kernel/pid_max").read())
open("/proc/sys/kernel/ns_last_pid", "w").write(str(min(limit - 100, 4_000_000)))
listener = socket.create_server(("", 7))
def pair():
    far = socket.create_connection((os.environ["OURS"], 7))
    return far, listener.accept()[0]
def says(far, what):
    far.settimeout(60)
    got = far.recv(100)
    assert got == what, got
far, near = pair()
child = os.fork()
if not child:
    # Longer than the engine takes to look whether somebody is dead.
    time.sleep(2.5)
    near.sendall(b"forked")
    time.sleep(600)
near.close()
says(far, b"forked")
os.kill(child, 9)
says(far, b"")
far, near = pair()
script = "import socket, time; time.sleep(2.5); socket.socket(fileno=%d).sendall(b'new image')"
child = subprocess.Popen([sys.executable, "-c", script % near.fileno()], pass_fds=[near.fileno()])
near.close()
says(far, b"new image")
assert child.wait() == 0
print("all is well")
"#;

#[test]
fn a_family_in_a_pid_namespace_of_its_own() {
    scenario(|bed| {
        let family = bed.file("family.py", FAMILY);
        let host = bed.host(0);
        let said = host
            .cmd("unshare")
            .args(["--pid", "--fork", "--mount-proc", PYTHON])
            .arg(&family)
            .env("OURS", host.ip().to_string())
            .check();
        assert!(said.contains("all is well"), "{said}");
    });
}

/// What a child that was spawned, or made by `_Fork`, has inherited goes with it: the engine does not
/// know it by the pid that its parent has for it, and keeps a channel for ten seconds for one that may
/// still come.
const SPAWNED: &str = r#"
import ctypes, os, signal, socket, sys, time
libc = ctypes.PyDLL(None)
listener = socket.create_server(("", 7))
def spawned(*command):
    far = socket.create_connection((os.environ["OURS"], 7))
    near = listener.accept()[0]
    onto = [(os.POSIX_SPAWN_DUP2, near.fileno(), 0), (os.POSIX_SPAWN_DUP2, near.fileno(), 1)]
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=onto)
    near.close()
    far.settimeout(60)
    return far, child
def ends(far):
    since = time.monotonic()
    assert far.recv(100) == b""
    took = time.monotonic() - since
    assert took < 5, took
# It says what its variable is, which is the shim's alone.
far, child = spawned("sh", "-c", "echo it is ${LONGSHORE_HELD-away}")
got = far.makefile().readline()
assert got == "it is away\n", got
ends(far)
assert os.waitpid(child, 0)[1] == 0
# Longer than the engine takes to look whether somebody is dead.
far, child = spawned("sh", "-c", "sleep 2.5; echo spawned; exec sleep 600")
assert far.recv(100) == b"spawned\n"
os.kill(child, signal.SIGKILL)
ends(far)
# It executes another program at once, or after calls of its own, or none.
script = "import socket, time; s = socket.socket(fileno=%d); s.sendall(b'made'); time.sleep(600)"
def forked(first, goes_on):
    far = socket.create_connection((os.environ["OURS"], 7))
    near = listener.accept()[0]
    near.set_inheritable(True)
    child = libc._Fork()
    if child == 0:
        first(near)
        if goes_on:
            os.execv(sys.executable, [sys.executable, "-c", script % near.fileno()])
        time.sleep(600)
    near.close()
    far.settimeout(60)
    return far, child
send = lambda near: near.send(b"first ")
for first, goes_on, said in [(lambda near: 0, 1, b"made"), (send, 1, b"first made"), (send, 0, b"first ")]:
    far, child = forked(first, goes_on)
    got = far.makefile("rb").read(len(said))
    assert got == said, got
    os.kill(child, signal.SIGKILL)
    ends(far)
print("all is well")
"#;

#[test]
fn what_a_spawned_child_has_in_a_pid_namespace_of_its_own() {
    scenario(|bed| {
        let spawned = bed.file("spawned.py", SPAWNED);
        let host = bed.host(0);
        let said = host
            .cmd("unshare")
            .args(["--pid", "--fork", "--mount-proc", PYTHON])
            .arg(&spawned)
            .env("OURS", host.ip().to_string())
            .check();
        assert!(said.contains("all is well"), "{said}");
    });
}

/// The TUN device is root's alone, as on some distributions.
const NO_TUN: &str = "chmod 600 /dev/net/tun";

/// An ordinary user has a namespace made for it, and a port of the kernel leads
/// to the program.
#[test]
fn ordinary_user_with_exposed_port() {
    scenario(|bed| {
        let peer = bed.peer();
        let (_, hash) = bed.payload("www/file", 3 << 20);
        let arguments = format!(
            "run --expose 8080:8000 -- {PYTHON} -m http.server 8000 --directory {}",
            bed.path("www").display()
        );
        let mut server = as_ordinary_user(bed, "true", &arguments).spawn();
        longshore_e2e::eventually("the program is reached", || {
            let end = peer
                .cmd("curl")
                .args(["-sf", "http://127.0.0.1:8080/"])
                .run();
            server.assert_running();
            end.status.success().then_some(())
        });
        for _ in 0..3 {
            peer.cmd("curl")
                .args([
                    "-sSf",
                    "--max-time",
                    "200",
                    "http://127.0.0.1:8080/file",
                    "-o",
                ])
                .arg(bed.path("got"))
                .check();
            assert_eq!(
                payload::sha256_of_file(&bed.path("got")).expect("a file"),
                hash
            );
        }
        server.assert_running();
    });
}

/// Without permission for the device, the error says what to do.
#[test]
fn ordinary_user_without_permission() {
    quiet(|bed| {
        let end = as_ordinary_user(bed, NO_TUN, "run -- /bin/true").run();
        failed(&end, &["/dev/net/tun", "root"]);
    });
}

/// Listens, and has a connected UDP socket.
const SHOWN: &str = r#"
import runpy, socket, sys
asks = socket.socket(type=socket.SOCK_DGRAM)
asks.connect(("10.77.0.1", 9))
sys.argv[1:] = ["8000"]
runpy.run_module("http.server", run_name="__main__")
"#;

/// `stat` and `ss` show what runs, for people and for programs.
#[test]
fn stat_and_ss() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let server = host.cmd(PYTHON).args(["-c", SHOWN]).spawn();
        peer.wait_for(host.at(8000));
        peer.cmd("curl")
            .args(["-sSf", "-o", "/dev/null"])
            .arg(format!("http://{}/", host.at(8000)))
            .check();
        let stat = peer.longshore().arg("stat").check();
        assert!(stat.contains("10.77.0.2"), "{stat}");
        let json = peer.longshore().args(["stat", "--json"]).check();
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(!json.as_array().expect("an array").is_empty());
        let ss = peer.longshore().arg("ss").check();
        assert!(ss.contains(":8000"), "{ss}");
        let mut words = ss.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
        let udp = words.find(|w| w[0] == "udp").expect("a UDP socket");
        assert!(udp[4].starts_with("10.77.0.2:"), "{ss}");
        assert_eq!((udp[1], udp[5]), ("ESTAB", "10.77.0.1:9"), "{ss}");
        let json = peer.longshore().args(["ss", "--json"]).check();
        assert!(json.contains("8000"), "{json}");
        drop(server);
    });
}

/// An MTU beyond Ethernet's, and the largest.
#[test]
fn large_packets() {
    for mtu in ["9000", "65000"] {
        scenario(move |bed| {
            let host = bed.host(0).option("--mtu").option(mtu);
            let peer = bed.peer();
            let (_, hash) = bed.payload("www/file", 64 << 20);
            let nginx = longshore_e2e::servers::Nginx::default();
            let _server = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
            peer.wait_for(host.at(80));
            peer.cmd("curl")
                .args(["-sSf", "-o"])
                .arg(bed.path("got"))
                .arg(format!("http://{}/file", host.ip()))
                .check();
            assert_eq!(
                payload::sha256_of_file(&bed.path("got")).expect("a file"),
                hash
            );
        });
    }
}

/// What Longshore has to say is shown by the launcher, once, and does not stand among what
/// the program's own programs say: others read that.
#[test]
fn warnings_are_the_launchers() {
    quiet(|bed| {
        // A launcher in another network namespace than its program's is not found.
        let host = bed.host(0).with_its_engine();
        let engine = host.engine("");
        let asks = format!("{PYTHON} -c 'import ctypes; ctypes.CDLL(None).syscall(425, 1, 0)'");
        let script = format!("for i in 1 2 3; do {asks} 2>&1; done; echo all");
        let end = engine.cmd("/bin/sh").args(["-c", &script]).run();
        assert!(end.status.success(), "{end:?}");
        assert_eq!(end.stdout, "all\n");
        assert_eq!(
            end.stderr.matches("io_uring is refused").count(),
            1,
            "{end:?}"
        );
        // A program that was given an environment of its own says it there, too.
        let script = format!("env -i {asks} 2>&1; echo all");
        let end = engine.cmd("/bin/sh").args(["-c", &script]).run();
        assert_eq!(end.stdout, "all\n");
        assert!(end.stderr.contains("io_uring is refused"), "{end:?}");
        // A program that has no launcher is told by standard error.
        let script = format!("unset LONGSHORE_WARNINGS; {asks} 2>&1");
        let end = engine.cmd("/bin/sh").args(["-c", &script]).run();
        assert!(end.stdout.contains("io_uring is refused"), "{end:?}");
    });
}

/// liburing's rings are refused as by a kernel that has none, which its launcher is told once, and
/// a program that can do without them sends plainly.
#[test]
fn rings_of_liburing_are_refused() {
    quiet(|bed| {
        let host = bed.host(0).with_its_engine();
        let (engine, peer) = (host.engine(""), bed.peer());
        for flags in [&["-Wl,--no-as-needed", "-luring"][..], &["-DLOADED"]] {
            let program = compile_with(bed, "rings", flags);
            let end = peer.cmd(&program).arg(peer.ip().to_string()).run();
            assert_eq!(end.stdout, "by a ring: hello\n", "{flags:?} {end:?}");
            let end = engine
                .cmd(&program.to_string_lossy())
                .arg(host.ip().to_string())
                .run();
            assert_eq!(end.stdout, "plainly: hello\n", "{flags:?} {end:?}");
            let told = end.stderr.matches("io_uring is refused").count();
            assert_eq!(told, 1, "{flags:?} {end:?}");
        }
        let none = ["LONGSHORE_ENGINE="];
        let program = compile_with(bed, "rings", &["-Wl,--no-as-needed", "-luring"]);
        let end = engine
            .cmd("env")
            .args(none)
            .arg(&program)
            .arg("127.0.0.1")
            .run();
        assert_eq!(end.stdout, "by a ring: hello\n", "{end:?}");
    });
}

/// A program with system calls of its own for rings is refused them, and goes on without, or is spoken
/// of when it starts.
#[test]
fn programs_that_set_up_rings_by_themselves_are_told_of() {
    quiet(|bed| {
        let host = bed.host(0).with_its_engine();
        let engine = host.engine("");
        let linked = [
            "-Wl,--whole-archive",
            "-l:liburing.a",
            "-Wl,--no-whole-archive",
        ];
        let program = compile_with(bed, "rings", &linked);
        let end = engine
            .cmd(&program.to_string_lossy())
            .arg(host.ip().to_string())
            .run();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(
                end.stderr.matches("io_uring is refused").count(),
                1,
                "{end:?}"
            );
            assert_eq!(end.stdout, "plainly: hello\n", "{end:?}");
            return;
        }
        let said = format!(
            "longshore: warning: {} sets up io_uring by system calls of its own",
            program.display()
        );
        assert_eq!(end.stderr.matches(&said).count(), 1, "{end:?}");
        assert!(end.stdout.starts_with("by a ring: "), "{end:?}");
        assert!(!end.stdout.contains("hello"), "{end:?}");
    });
}

/// Compiles a program that does nothing, without a loader.
fn static_program(bed: &Testbed, name: &str) -> PathBuf {
    let (source, program) = (
        bed.file("none.c", "int main(void){return 0;}"),
        bed.path(name),
    );
    let output = std::process::Command::new("gcc")
        .args(["-static", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .expect("gcc is installed");
    assert!(output.status.success(), "{output:?}");
    program
}

/// Each program that the shim does not get into is spoken of, whoever starts it and however
/// often, and not those that are to be left alone.
#[test]
fn programs_that_are_lost_are_told_of() {
    quiet(|bed| {
        let host = bed.host(0).with_its_engine();
        let engine = host.engine("");
        let (one, two) = (static_program(bed, "one"), static_program(bed, "two"));
        let (three, four) = (static_program(bed, "three"), static_program(bed, "four"));
        let script = bed.file("script", format!("#!{}\n", two.display()));
        let script = format!(
            "chmod 755 {script}; for i in 1 2 3; do {one}; env -i {one}; done; {script}; \
             LONGSHORE_ENGINE= {four}; {PYTHON} -c 'import os; \
             os.waitpid(os.posix_spawn(\"{three}\", [\"3\"], dict()), 0)'; echo all",
            script = script.display(),
            one = one.display(),
            three = three.display(),
            four = four.display(),
        );
        let end = engine.cmd("/bin/sh").args(["-c", &script]).run();
        assert_eq!(end.stdout, "all\n", "{end:?}");
        for program in [&one, &two, &three] {
            let said = format!(
                "longshore: warning: {} is statically linked",
                program.display()
            );
            assert_eq!(end.stderr.matches(&said).count(), 1, "{end:?}");
        }
        assert!(!end.stderr.contains("four"), "{end:?}");
    });
}
