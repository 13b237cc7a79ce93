//! `longshore run` ends as the program ends, and says what is wrong when it
//! cannot run it.

mod support;

use longshore_hostif::attach::Refusal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{AttachServer, TOKEN, harmless_library, longshore, run_on};

fn code(command: &mut Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn the_exit_code_is_the_programs() {
    let engine = AttachServer::open(None);
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -INT $$", 130),
    ] {
        let (got, stderr) = code(&mut run_on(&engine.path, &["sh", "-c", script]));
        assert_eq!(got, expected, "{script}: {stderr}");
        assert_eq!(stderr, "");
    }
}

#[test]
fn programs_that_cannot_be_run() {
    let engine = AttachServer::open(None);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (program, expected, says) in [
        ("no-such-program".to_owned(), 127, "not found"),
        ("/no/such/program".to_owned(), 127, "not found"),
        (file("closed", "", 0o644), 126, "not marked executable"),
        (dir.path().to_str().unwrap().to_owned(), 126, "directory"),
        (
            file("bad", "#!/no/such/interpreter\n", 0o755),
            126,
            "interpreter",
        ),
    ] {
        let (got, stderr) = code(&mut run_on(&engine.path, &[&program]));
        assert_eq!(got, expected, "{program}: {stderr}");
        assert!(stderr.contains(says), "{program}: {stderr}");
    }
}

#[test]
fn scripts_without_a_first_line_are_the_shells() {
    use std::os::unix::fs::PermissionsExt;
    let engine = AttachServer::open(None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    std::fs::write(&path, "exit 9\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (got, stderr) = code(&mut run_on(&engine.path, &[path.to_str().unwrap()]));
    assert_eq!(got, 9, "{stderr}");
}

#[test]
fn failures_of_our_own_are_125_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let (got, stderr) = code(&mut run_on(&dir.path().join("none"), &["true"]));
    assert_eq!(got, 125);
    assert!(stderr.contains("cannot reach the engine"), "{stderr}");
    assert!(stderr.contains("hint: is the engine running?"), "{stderr}");
    let (got, stderr) = code(&mut run_on(dir.path(), &["true"]));
    assert_eq!(got, 125);
    assert!(stderr.contains("hint: that is no socket"), "{stderr}");

    let draining = AttachServer::open(Some(Refusal::Draining));
    let (got, stderr) = code(&mut run_on(&draining.path, &["true"]));
    assert_eq!(got, 125);
    assert!(stderr.contains("shutting down"), "{stderr}");

    let mut command = run_on(&draining.path, &["true"]);
    let (got, stderr) = code(command.env("LONGSHORE_PRELOAD", "/no/such.so"));
    assert_eq!(got, 125);
    assert!(stderr.contains("liblongshore_preload.so"), "{stderr}");

    let (got, stderr) = code(longshore().args(["run", "--mtu", "5", "--", "true"]));
    assert_eq!(got, 125);
    assert!(stderr.contains("68 to 65535"), "{stderr}");

    let (got, stderr) = code(longshore().args(["run", "--gateway", "10.0.0.1", "--", "true"]));
    assert_eq!(got, 125);
    assert!(stderr.contains("--addr"), "{stderr}");
}

#[test]
fn the_program_gets_its_environment_and_its_streams() {
    let engine = AttachServer::open(None);
    let script = "read line; echo $line; echo $LD_PRELOAD; echo $LONGSHORE_ENGINE; \
                  echo $LONGSHORE_SESSION; echo $0";
    let mut child = run_on(&engine.path, &["sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let out = child.wait_with_output().unwrap();
    let lines: Vec<&str> = std::str::from_utf8(&out.stdout).unwrap().lines().collect();
    let library = harmless_library().canonicalize().unwrap();
    let expected = [
        "hello".to_owned(),
        library.display().to_string(),
        engine.path.display().to_string(),
        TOKEN.to_string(),
        "sh".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_session_is_held_while_the_program_runs() {
    let engine = AttachServer::open(None);
    let mut child = run_on(&engine.path, &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"x\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        engine
            .closed
            .recv_timeout(Duration::from_millis(100))
            .is_err()
    );
    drop(stdin);
    assert!(child.wait().unwrap().success());
    engine.closed.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn signals_are_passed_on() {
    let engine = AttachServer::open(None);
    for (signal, number) in [
        ("INT", 2),
        ("TERM", 15),
        ("HUP", 1),
        ("QUIT", 3),
        ("USR1", 10),
    ] {
        let script =
            format!("trap 'exit 4{number}' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut child = run_on(&engine.path, &["sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        let pid = rustix::process::Pid::from_child(&child);
        let signal = rustix::process::Signal::from_named_raw(number).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let expected = format!("4{number}").parse::<i32>().unwrap() & 0xff;
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{signal:?}");
    }
}

/// Has a command start with a signal ignored, as `nohup` does it with SIGHUP.
fn ignoring(command: &mut Command, signal: i32) -> &mut Command {
    use std::os::unix::process::CommandExt;
    // SAFETY: signal(2) is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal, libc::SIG_IGN);
            Ok(())
        })
    }
}

/// Under nohup a program stays when the terminal goes, and so does its launcher.
#[test]
fn what_nohup_ignores_ends_nothing() {
    let engine = AttachServer::open(None);
    let script = "kill -HUP $$; echo ready; read line; exit 3";
    let mut command = run_on(&engine.path, &["sh", "-c", script]);
    let mut child = ignoring(&mut command, libc::SIGHUP)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// The program that starts us may ignore SIGCHLD; how the program ended is known all the same, and the
/// program finds it ignored.
#[test]
fn an_ignored_sigchld_hides_no_exit_code() {
    let engine = AttachServer::open(None);
    let mut command = run_on(&engine.path, &["sh", "-c", "exit 7"]);
    let (got, stderr) = code(ignoring(&mut command, libc::SIGCHLD));
    assert_eq!(got, 7, "{stderr}");
    // It is the seventeenth.
    let is_ignored = [
        "grep",
        "-q",
        "^SigIgn:.*[13579bdf]....$",
        "/proc/self/status",
    ];
    for (mut command, expected) in [
        (run_on(&engine.path, &is_ignored), 1),
        (run_on(&engine.path, &is_ignored), 0),
    ] {
        if expected == 0 {
            ignoring(&mut command, libc::SIGCHLD);
        }
        assert_eq!(code(&mut command).0, expected);
    }
}

#[test]
fn programs_that_the_library_cannot_enter_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let engine = AttachServer::open(None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("true");
    std::fs::copy("/bin/true", &path).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let (got, stderr) = code(&mut run_on(&engine.path, &[path.to_str().unwrap()]));
    assert_eq!(got, 0);
    assert!(
        stderr.contains("warning") && stderr.contains("setuid"),
        "{stderr}"
    );
}
