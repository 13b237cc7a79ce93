//! What who runs a shared engine does with it: signals, reading its configuration again.

use longshore_e2e::{Engine, Finished, Lab, Stack, eventually, run};
use rustix::process::Signal;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Lab) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(120), body);
}

/// Waits until the engine's log has this.
fn says(engine: &Engine<'_>, what: &str) {
    eventually(&format!("the engine says {what:?}"), || {
        engine.stderr().contains(what).then_some(())
    });
}

/// None of the signals that people send to services ends the engine at once; each does what
/// the manual says.
#[test]
fn signals_to_an_engine() {
    scenario(|lab| {
        let host = lab.host(0);
        let engine = host.engine("drain_seconds = 300\n[session]\nsockets = 64");
        let mut program = engine
            .cmd("/bin/sh")
            .args(["-c", "echo up; sleep 600"])
            .spawn();
        eventually("the program runs", || {
            program.stdout().contains("up").then_some(())
        });
        engine.signal(Signal::USR1);
        says(&engine, "packets");
        says(&engine, "of 64");
        engine.signal(Signal::USR2);
        says(&engine, "Local:Port");
        engine.signal(Signal::HUP);
        says(&engine, "nothing in it has changed");

        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        let other = text.replace("300", "200").replace("= 64", "= 128") + "processes = 7\n";
        let other = format!("mtu = 9000\nusers = [\"root\"]\n{other}");
        std::fs::write(engine.config(), &other).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "drain_seconds is 200 now, and was 300");
        says(&engine, "users is 0 now");
        says(&engine, "mtu stays not set; 9000 needs a restart");
        engine.cmd("/bin/true").check();
        let second = engine.cmd("sleep").arg("600").spawn();
        eventually("sessions that come have the new limits", || {
            let stat = engine.stat();
            let all = stat["sessions"].as_array().expect("a list");
            let of = |s: &serde_json::Value| s["sockets_max"].as_u64();
            let (least, most) = (
                all.iter().filter_map(of).min(),
                all.iter().filter_map(of).max(),
            );
            ((least, most) == (Some(64), Some(128))).then_some(())
        });
        drop(second);

        // One that is not right changes nothing.
        std::fs::write(engine.config(), format!("prt = 1\n{other}")).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "prt");
        says(&engine, "goes on with the configuration that it has");
        engine.cmd("/bin/true").check();

        engine.signal(Signal::QUIT);
        says(&engine, "takes no more programs");
        eventually("a new program is refused", || {
            let end = engine.cmd("/bin/true").run();
            (end.status.code() == Some(125)).then_some(())
        });
        program.assert_running();
        engine.signal(Signal::HUP);
        let _ = program.terminate();
        let end = engine.wait();
        assert!(end.status.success(), "{end:?}");
    });
}

/// An engine is found by each name that it is known by, by who may ask it: of a private one
/// the pid that `stat` shows and that of its launcher.
#[test]
fn an_engine_by_its_pid() {
    scenario(|lab| {
        let (host, peer) = (lab.host(0), lab.peer());
        let program = host.sh("echo up; exec sleep 600").spawn();
        eventually("the program runs", || {
            program.stdout().contains("up").then_some(())
        });
        let stat = |engine: &str| {
            let said = peer
                .longshore()
                .args(["stat", "--json", "--engine", engine]);
            let json: serde_json::Value = serde_json::from_str(&said.check()).expect("JSON");
            json[0]["pid"].as_i64().expect("a pid")
        };
        let pid = stat(&program.pid().to_string());
        assert_ne!(pid, i64::from(program.pid()));
        assert_eq!(stat(&pid.to_string()), pid);
        // As another user.
        for named in [
            program.pid().to_string(),
            pid.to_string(),
            format!("/run/longshore/{}", program.pid()),
        ] {
            let end = as_nobody(lab, &["stat", "--engine", &named]);
            assert_eq!(end.status.code(), Some(125), "{end:?}");
            assert!(end.stderr.contains("another user's"), "{end:?}");
        }
        let end = as_nobody(lab, &["stat", "--engine", "1"]);
        assert!(end.stderr.contains("neither an engine's"), "{end:?}");
    });
}

/// `longshore` as a user who is not root, in a place where that user may look.
fn as_nobody(lab: &Lab, arguments: &[&str]) -> Finished {
    let (built, copied) = (longshore_e2e::longshore(), lab.directory("bin"));
    for file in ["longshore", "liblongshore_preload.so"] {
        if !copied.join(file).exists() {
            std::fs::copy(built.with_file_name(file), copied.join(file)).expect("copy");
        }
    }
    lab.peer()
        .cmd("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(copied.join("longshore"))
        .args(arguments)
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .run()
}

/// Users of a shared engine ask it, and see their own sockets; root sees all.
#[test]
fn who_sees_which_sockets() {
    const LISTENS: &str = "import socket, sys, time\n\
        s = socket.create_server(('', int(sys.argv[1])))\n\
        print('up', flush=True)\ntime.sleep(600)";
    scenario(|lab| {
        let host = lab.host(0);
        let engine = host.engine("");
        let server = |port: &str| engine.cmd("python3").args(["-c", LISTENS, port]);
        let ours = server("7001").spawn();
        let socket = engine.socket().to_str().expect("UTF-8").to_owned();
        let library = lab.directory("bin").join("longshore");
        let _ = as_nobody(lab, &["--version"]);
        let theirs = lab
            .peer()
            .cmd("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&library)
            .args([
                "run", "--engine", &socket, "--", "python3", "-c", LISTENS, "7002",
            ])
            .env("XDG_RUNTIME_DIR", "/nonexistent")
            .spawn();
        for program in [&ours, &theirs] {
            eventually("the program listens", || {
                program.stdout().contains("up").then_some(())
            });
        }
        let pid = engine.pid().to_string();
        for named in [&*socket, &*pid] {
            let seen = as_nobody(lab, &["ss", "--engine", named]);
            assert!(seen.status.success(), "{seen:?}");
            let has = |port: &str| seen.stdout.contains(port);
            assert!(has(":7002") && !has(":7001"), "{seen:?}");
            let stat = as_nobody(lab, &["stat", "--json", "--engine", named]);
            let json: serde_json::Value = serde_json::from_str(&stat.stdout).expect("JSON");
            assert_eq!(json[0]["sessions"].as_array().expect("a list").len(), 1);
            assert_eq!(json[0]["sessions"][0]["uid"], 65534);
        }
        let all = lab
            .peer()
            .longshore()
            .args(["ss", "--engine", &socket])
            .check();
        assert!(all.contains(":7001") && all.contains(":7002"), "{all}");
        assert_eq!(
            engine.stat()["sessions"].as_array().expect("a list").len(),
            2
        );
        // Who may not use it may not ask it.
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        std::fs::write(engine.config(), format!("users = [1]\n{text}")).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "users is 1 now");
        let end = as_nobody(lab, &["ss", "--engine", &socket]);
        assert!(end.stderr.contains("user 65534 may not use it"), "{end:?}");
    });
}

/// `ss` shows the timers that run, by the names that the kernel's has for them, and `stat` the
/// memory that is held for what is not acknowledged.
#[test]
fn timers_and_send_chunks() {
    const PROGRAM: &str = "import socket, sys, time\n\
        s = socket.create_connection((sys.argv[1], 9), 10)\n\
        idle = socket.create_connection((sys.argv[1], 9), 10)\n\
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)\n\
        quiet = socket.create_connection((sys.argv[1], 9), 10)\n\
        s.setblocking(False)\n\
        for again in range(1000):\n\
        \x20   try: s.send(bytes(1 << 20))\n\
        \x20   except BlockingIOError: break\n\
        print('up', flush=True)\ntime.sleep(600)";
    const SINK: &str = "import socket, time\n\
        s = socket.create_server(('', 9))\nheld = [s.accept() for _ in range(3)]\n\
        time.sleep(600)";
    scenario(|lab| {
        let (host, peer) = (lab.host(0), lab.peer());
        let engine = host.engine("");
        let idle = engine.stat();
        let _sink = peer.cmd("python3").args(["-c", SINK]).spawn();
        peer.wait_for((host.gateway(), 9).into());
        let to = host.gateway().to_string();
        let program = engine.cmd("python3").args(["-c", PROGRAM, &to]).spawn();
        eventually("the program has sent what it could", || {
            program.stdout().contains("up").then_some(())
        });
        assert!(idle["sessions"].as_array().is_some_and(Vec::is_empty));
        let used = engine.stat_u64("snd_chunks");
        assert!((2..200).contains(&used), "{used}");
        let socket = engine.socket().to_str().expect("UTF-8");
        let rows = eventually("the peer's window is closed", || {
            let said = peer
                .longshore()
                .args(["ss", "--json", "--engine", socket])
                .check();
            let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            let rows = json[0]["sockets"].as_array().expect("a list").clone();
            let stands = rows.iter().any(|r| r["timer"][0] == "persist");
            stands.then_some(rows)
        });
        let named = |name: &str| rows.iter().filter(|r| r["timer"][0] == name).count();
        let without = rows.iter().filter(|r| r["timer"].is_null()).count();
        assert_eq!(
            (named("persist"), named("keepalive"), without),
            (1, 1, 1),
            "{rows:?}"
        );
        let idle = rows
            .iter()
            .find(|r| r["timer"][0] == "keepalive")
            .expect("one");
        let left = idle["timer"][1].as_u64().expect("a time");
        assert!((7_000_000..=7_200_000).contains(&left), "{left}");
        let text = peer.longshore().args(["ss", "--engine", socket]).check();
        assert!(text.contains("timer:(keepalive,1"), "{text}");
    });
}
