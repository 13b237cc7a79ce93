//! `stat` and `ss` against a control socket with known answers, and `engine`'s
//! complaints.

mod support;

use longshore_engine::control::{
    Asker, ControlReply, ControlRequest, ControlServer, SsReply, SsRow, StatReply,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use support::longshore;

/// A control socket that answers as an engine with 600 sockets.
struct Answering {
    dir: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn answer(_: Asker, request: ControlRequest) -> ControlReply {
    match request {
        ControlRequest::Stat => ControlReply::Stat(Box::new(StatReply {
            pid: 4321,
            addresses: vec!["10.77.0.2/24".to_owned()],
            ..Default::default()
        })),
        ControlRequest::Ss { from } => {
            let row = |i: u32| SsRow {
                proto: "tcp".to_owned(),
                state: "LISTEN".to_owned(),
                local: format!("10.77.0.2:{i}"),
                peer: "*:*".to_owned(),
                ..Default::default()
            };
            let end = (from + 256).min(600);
            ControlReply::Ss(SsReply {
                rows: (from..end).map(row).collect(),
                next: (end < 600).then_some(end),
            })
        }
    }
}

impl Answering {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = ControlServer::open(&dir.path().join("control")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                server.serve(&mut answer);
                thread::yield_now();
            }
        });
        Answering {
            dir,
            stop,
            thread: Some(thread),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn stat_for_people_and_for_programs() {
    let engine = Answering::start();
    let show = |extra: &[&str]| {
        output(
            longshore()
                .args(["stat", "--engine"])
                .arg(engine.path())
                .args(extra),
        )
    };
    let (code, out, _) = show(&[]);
    assert_eq!(code, 0);
    assert!(out.starts_with("engine 4321 at 10.77.0.2/24"), "{out}");
    let (_, out, _) = show(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["pid"], 4321);
    assert_eq!(json[0]["crossings"]["to_host"]["wakeups"], 0);
}

#[test]
fn ss_shows_all_sockets_however_many() {
    let engine = Answering::start();
    let show = |extra: &[&str]| {
        let socket: PathBuf = engine.path().join("engine");
        output(longshore().args(["ss", "--engine"]).arg(socket).args(extra))
    };
    let (code, out, _) = show(&[]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 601);
    let (_, out, _) = show(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["sockets"].as_array().unwrap().len(), 600);
    assert_eq!(json[0]["sockets"][599]["local"], "10.77.0.2:599");
}

#[test]
fn an_engine_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = output(
        longshore()
            .args(["stat", "--engine"])
            .arg(dir.path().join("x")),
    );
    assert_eq!(code, 125);
    assert!(err.contains("neither an engine's directory"), "{err}");
    std::fs::write(dir.path().join("control"), "").unwrap();
    let (code, _, err) = output(longshore().args(["ss", "--engine"]).arg(dir.path()));
    assert_eq!(code, 125);
    assert!(err.contains("does not answer"), "{err}");
}

#[test]
fn engine_says_what_is_wrong_with_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine.toml");
    let engine = || output(longshore().args(["engine", "--config"]).arg(&path));
    let (code, _, err) = engine();
    assert_eq!(code, 125);
    assert!(
        err.contains("cannot read") && err.contains("--example-config"),
        "{err}"
    );
    std::fs::write(&path, "port = \"tap:x\"\nadress = \"10.0.0.2/24\"\n").unwrap();
    let (code, _, err) = engine();
    assert_eq!(code, 125);
    assert!(err.contains("adress") && err.contains("line 2"), "{err}");
}

#[test]
fn the_example_configuration_is_printed() {
    let (code, out, _) = output(longshore().args(["engine", "--example-config"]));
    assert_eq!(code, 0);
    assert!(out.contains("address = ") && out.contains("[session]"));
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let engine = Answering::start();
    let stat = ["stat", "--engine", engine.path().to_str().unwrap()];
    for arguments in [
        &["engine", "--example-config"][..],
        &["--help"],
        &["run", "--help"],
        &["measure"],
        &stat,
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (code, _, err) = output(longshore().args(arguments).stdout(full.unwrap()));
        assert_eq!(code, 125, "{arguments:?}: {err}");
        assert!(
            err.starts_with("longshore: cannot print: No space left on device"),
            "{arguments:?}: {err}"
        );
    }
}

/// An engine's directory in one that has nothing else: `stat` finds it there.
fn found_by_itself(answer: impl FnMut(Asker, ControlRequest) -> ControlReply) -> (i32, String) {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("1234");
    std::fs::create_dir(&dir).unwrap();
    let mut answer = answer;
    let mut server = ControlServer::open(&dir.join("control")).unwrap();
    let stat = longshore()
        .arg("stat")
        .env("LONGSHORE_RUNTIME_DIR", base.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    let mut stat = stat.unwrap();
    while stat.try_wait().unwrap().is_none() {
        server.serve(&mut answer);
        thread::yield_now();
    }
    let Output { status, stderr, .. } = stat.wait_with_output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn an_engine_that_does_not_serve_this_user_is_running_all_the_same() {
    let (code, err) = found_by_itself(|asker, _| ControlReply::Error {
        message: format!("user {} may not use it", asker.uid),
    });
    assert_eq!(code, 125);
    assert!(
        err.contains("does not answer this user") && err.contains("`users`"),
        "{err}"
    );
    assert!(!err.contains("no engine is running"), "{err}");
    assert!(!err.contains("just ended"), "{err}");
}

#[test]
fn an_engine_that_is_stopped_is_running_all_the_same() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("1234");
    std::fs::create_dir(&dir).unwrap();
    // The kernel takes the connection, and nobody answers.
    let _server = ControlServer::open(&dir.join("control")).unwrap();
    let (code, _, err) = output(
        longshore()
            .arg("ss")
            .env("LONGSHORE_RUNTIME_DIR", base.path()),
    );
    assert_eq!(code, 125);
    assert!(
        err.contains("has not answered for 10 s") && err.contains("stopped"),
        "{err}"
    );
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    assert_eq!(output(longshore().args(["stat", "--nonsense"])).0, 2);
    for (slip, meant) in [
        ("rnu", "run"),
        ("sta", "stat"),
        ("egnine", "engine"),
        ("sss", "ss"),
    ] {
        let (code, _, err) = output(longshore().arg(slip));
        assert_eq!(code, 2);
        assert!(
            err.contains(&format!("'{meant}'")) || err.contains(&format!("longshore {meant}`")),
            "{err}"
        );
    }
    for slip in [&["serve"][..], &["run", "--abc", "true"]] {
        let (_, _, err) = output(longshore().args(slip));
        assert!(!err.contains("did you mean"), "{err}");
    }
    for (slips, meant) in [
        (&["run", "--mut", "9000", "true"][..], "`--mtu`"),
        (&["run", "--enc=3", "true"], "`--ecn`"),
        (&["run", "--congestoin", "bbr", "true"], "'--congestion'"),
        (&["ss", "--josn"], "'--json'"),
    ] {
        let (_, _, err) = output(longshore().args(slips));
        assert!(err.contains(meant), "{slips:?}: {err}");
    }
    let (code, out, _) = output(longshore().args(["run", "--help"]));
    assert_eq!(code, 0);
    assert!(out.contains("Examples:") && out.contains("127"), "{out}");
}
