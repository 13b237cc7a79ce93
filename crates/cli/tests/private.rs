//! Engines that `longshore run` and `longshore engine` start, each test in a
//! network namespace of its own. The programs are not on the engine: what is
//! tested is how it comes, how it goes, and what it leaves behind.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::{harmless_library, longshore};

/// How long anything may take: machines are slow, and busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A network namespace of this test's own, with its loopback up; false if there can be none.
fn in_own_namespace() -> bool {
    let is_there = longshore_testbed::in_own_namespace();
    if is_there {
        ip("link set lo up");
    }
    is_there
}

/// Runs `ip`, here, and answers what it prints.
fn ip(arguments: &str) -> String {
    let out = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(out.status.success(), "ip {arguments}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A `longshore run` whose program has said `ready` and goes on until its
/// input ends, then exits with 5.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = longshore()
            .arg("run")
            .args(arguments)
            .args(["--", "sh", "-c", "echo ready; cat; exit 5"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let mut running = Running { child, out };
        if line != "ready\n" {
            panic!("{}", running.end().1);
        }
        running
    }

    /// What `stat --json` says of its engine.
    fn stat(&self) -> serde_json::Value {
        let pid = self.child.id().to_string();
        let out = longshore()
            .args(["stat", "--json", "--engine", &pid])
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()[0].clone()
    }

    /// Lets the program end; the exit code and what was said on stderr.
    fn end(&mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (status.code(), said)
    }
}

fn is_alive(pid: &serde_json::Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for yet is dead, once all of its threads are: until then
    // its descriptors are open.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !stat.is_empty() && (!stat.contains(") Z ") || threads > 1)
}

fn kill(pid: u64, signal: i32) {
    // SAFETY: kill touches no memory; the process is one that the test started.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, signal) }, 0);
}

#[test]
fn an_engine_comes_and_goes_with_its_program() {
    if !in_own_namespace() {
        return;
    }
    let mut run = Running::start(&["--mtu", "9000"]);
    let links = ip("addr show");
    assert!(
        links.contains("10.77.0.1/24") && links.contains("mtu 9000"),
        "{links}"
    );
    let stat = run.stat();
    let addresses = stat["addresses"].as_array().unwrap();
    assert_eq!(addresses[0], "10.77.0.2/24");
    if links.contains("inet6") {
        assert_eq!(addresses[1], "fd4c:6f6e:6773::2/64");
        assert!(links.contains("fd4c:6f6e:6773::1/64"), "{links}");
    }
    assert_eq!(stat["port"]["name"], "tap:longshore0");
    assert_eq!(stat["port"]["mtu"], 9000);
    let dir = PathBuf::from("/run/longshore").join(run.child.id().to_string());
    assert!(dir.exists() || !Path::new("/run/longshore").exists());
    assert_eq!(run.end(), (Some(5), String::new()));
    assert!(!ip("link show").contains("longshore"));
    assert!(!dir.exists());
    assert!(!is_alive(&stat["pid"]));
}

#[test]
fn two_runs_get_two_networks_and_one_address_one_run() {
    if !in_own_namespace() {
        return;
    }
    let (mut one, mut two) = (Running::start(&[]), Running::start(&[]));
    let addresses = [&mut one, &mut two].map(|run| run.stat()["addresses"][0].clone());
    assert_eq!(addresses, ["10.77.0.2/24", "10.77.1.2/24"]);
    let out = longshore()
        .args(["run", "--addr", "10.77.1.9/24", "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(
        said.contains("10.77.1.1/24") && said.contains("--addr"),
        "{said}"
    );
    one.end();
    two.end();
}

#[test]
fn an_engine_that_dies_is_told_of_and_ends_its_program() {
    if !in_own_namespace() {
        return;
    }
    for (arguments, ends) in [(&[][..], true), (&["--on-engine-loss", "stay"], false)] {
        let mut run = Running::start(arguments);
        let engine = run.stat()["pid"].clone();
        kill(engine.as_u64().unwrap(), libc::SIGKILL);
        eventually("the engine is gone", || !is_alive(&engine));
        if ends {
            // Its standard input is still open: what ends it is SIGTERM.
            run.child.wait().unwrap();
        }
        let (code, said) = run.end();
        assert_eq!(code, Some(124), "{said}");
        assert!(said.contains("the engine has ended by signal 9"), "{said}");
        assert_eq!(said.contains("and is ended"), ends, "{said}");
    }
}

/// A private engine is its run's alone.
#[test]
fn no_engine_comes_after_a_private_one() {
    let run = Command::new(env!("CARGO_BIN_EXE_longshore"))
        .args(["run", "--on-engine-loss", "attach", "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("needs --engine SOCKET"), "{said}");
}

#[test]
fn an_engine_ends_when_its_launcher_is_killed() {
    if !in_own_namespace() {
        return;
    }
    let mut run = Running::start(&[]);
    let engine = run.stat()["pid"].clone();
    run.child.kill().unwrap();
    run.end();
    eventually("the engine is gone", || !is_alive(&engine));
    // The next run clears up what the killed one left.
    let left = PathBuf::from("/run/longshore").join(run.child.id().to_string());
    Running::start(&[]).end();
    assert!(!left.exists());
}

#[test]
fn a_run_lasts_as_long_as_what_its_program_left_behind() {
    if !in_own_namespace() {
        return;
    }
    let started = Instant::now();
    let out = longshore()
        .args(["run", "--", "sh", "-c", "(sleep 1; echo late) & exit 6"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(6));
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(out.stdout, b"late\n");
}

#[test]
fn signals_find_what_was_left_behind() {
    if !in_own_namespace() {
        return;
    }
    let script =
        "sh -c 'trap \"echo told; exit\" TERM; echo ready; while :; do sleep 0.05; done' & exit 6";
    let mut child = longshore()
        .args(["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Once its parent has ended, it is the launcher's child.
    let me = child.id();
    eventually("the parent has ended", || {
        let children = format!("/proc/{me}/task/{me}/children");
        let children = std::fs::read_to_string(children).unwrap();
        children.split_whitespace().any(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("-c\0trap")
        })
    });
    kill(me.into(), libc::SIGTERM);
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "told\n");
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn a_device_that_exists_is_used_and_stays() {
    if !in_own_namespace() {
        return;
    }
    ip("tuntap add dev mine mode tap");
    let out = longshore()
        .args(["run", "--port", "tap:mine", "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("mine") && said.contains("--addr"), "{said}");
    let mut run = Running::start(&["--port", "tap:mine", "--addr", "192.168.7.5/24"]);
    assert_eq!(run.stat()["addresses"][0], "192.168.7.5/24");
    assert!(ip("addr show dev mine").contains("192.168.7.1/24"));
    let second = longshore()
        .args([
            "run",
            "--port",
            "tap:mine",
            "--addr",
            "192.168.7.6/24",
            "--",
            "true",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("in use by another process"), "{said}");
    run.end();
    assert!(ip("link show").contains("mine"));
}

#[test]
fn an_exposed_port_leads_to_the_engine() {
    if !in_own_namespace() {
        return;
    }
    let mut run = Running::start(&["--expose", "127.0.0.1:8080:80"]);
    let before = run.stat()["port"]["rx"]["frames"].as_u64().unwrap();
    let mut client = TcpStream::connect("127.0.0.1:8080").unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    // Nobody listens on the engine, which says so, and the client is told.
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(run.stat()["port"]["rx"]["frames"].as_u64().unwrap() > before);
    run.end();
}

#[test]
fn packets_are_captured() {
    if !in_own_namespace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.pcapng");
    let mut run = Running::start(&["--capture", path.to_str().unwrap()]);
    // Makes the kernel ask for the engine's hardware address.
    let _ = TcpStream::connect_timeout(&"10.77.0.2:80".parse().unwrap(), TIMEOUT);
    run.end();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.len() > 200, "{} bytes", bytes.len());
}

/// The memory that a program shares with its engine counts as a file (RLIMIT_FSIZE). Where it is
/// too large for that, the session is refused with a hint, and SIGXFSZ ends nobody.
#[test]
fn a_session_beyond_the_limit_of_file_sizes_is_refused_with_a_hint() {
    if !in_own_namespace() {
        return;
    }
    let run = longshore();
    let out = Command::new("sh")
        .args(["-c", "ulimit -f 1000; exec \"$0\" run -- true"])
        .arg(run.get_program())
        .env("LONGSHORE_PRELOAD", harmless_library())
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("the engine refused: "), "{said}");
    assert!(said.contains("`ulimit -f`"), "{said}");
}

#[test]
fn an_engine_for_many_serves_until_it_is_told_to_stop() {
    if !in_own_namespace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let config = dir.path().join("engine.toml");
    let text = format!(
        "port = \"tap:many\"\naddress = \"10.9.0.2/24\"\nsocket = {socket:?}\ndrain_seconds = 1\n"
    );
    std::fs::write(&config, text).unwrap();
    let start = || {
        let mut command = longshore();
        command
            .args(["engine", "--config"])
            .arg(&config)
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut engine = start();
    // Its socket is there a little before it is ready for anybody.
    let mut said = BufReader::new(engine.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" serves ") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it has ended");
    }
    let run = |script: &str| {
        let mut command = support::run_on(&socket, &["sh", "-c", script]);
        command.output().unwrap()
    };
    assert_eq!(run("exit 3").status.code(), Some(3));
    assert_eq!(run("exit 4").status.code(), Some(4));
    let out = longshore()
        .args(["stat", "--engine"])
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("10.9.0.2/24 on tap:many"), "{said}");

    let second = start().wait_with_output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(125), "{said}");
    assert!(said.contains("many is in use"), "{said}");
    assert!(
        socket.exists(),
        "the second has taken the first's socket away"
    );

    kill(engine.id().into(), libc::SIGTERM);
    assert!(engine.wait().unwrap().success());
    assert!(!socket.exists());
    assert!(!ip("link show").contains("many"));
}
