//! What who runs a shared engine does with it: signals, reading its configuration again.

mod addresses;

use longshore_e2e::{Engine, Finished, Stack, Testbed, eventually, run_uncounted};
use rustix::process::Signal;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(120), body);
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
    scenario(|bed| {
        let host = bed.host(0);
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

/// An engine is found by each name that it is known by, by a user who may ask it: of a private one
/// the pid that `stat` shows and that of its launcher.
#[test]
fn an_engine_by_its_pid() {
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
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
            format!("{}/{}", bed.runtime_directory().display(), program.pid()),
        ] {
            let end = as_nobody(bed, &["stat", "--engine", &named]);
            assert_eq!(end.status.code(), Some(125), "{end:?}");
            assert!(end.stderr.contains("another user's"), "{end:?}");
        }
        let end = as_nobody(bed, &["stat", "--engine", "1"]);
        assert!(end.stderr.contains("neither an engine's"), "{end:?}");
    });
}

/// `longshore` as a user who is not root, in a place where that user may look.
fn as_nobody(bed: &Testbed, arguments: &[&str]) -> Finished {
    let (built, copied) = (longshore_e2e::longshore(), bed.directory("bin"));
    for file in ["longshore", "liblongshore_preload.so"] {
        if !copied.join(file).exists() {
            std::fs::copy(built.with_file_name(file), copied.join(file)).expect("copy");
        }
    }
    bed.peer()
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
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let server = |port: &str| engine.cmd("python3").args(["-c", LISTENS, port]);
        let ours = server("7001").spawn();
        let socket = engine.socket().to_str().expect("UTF-8").to_owned();
        let library = bed.directory("bin").join("longshore");
        let _ = as_nobody(bed, &["--version"]);
        let theirs = bed
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
            let seen = as_nobody(bed, &["ss", "--engine", named]);
            assert!(seen.status.success(), "{seen:?}");
            let has = |port: &str| seen.stdout.contains(port);
            assert!(has(":7002") && !has(":7001"), "{seen:?}");
            let stat = as_nobody(bed, &["stat", "--json", "--engine", named]);
            let json: serde_json::Value = serde_json::from_str(&stat.stdout).expect("JSON");
            assert_eq!(json[0]["sessions"].as_array().expect("a list").len(), 1);
            assert_eq!(json[0]["sessions"][0]["uid"], 65534);
        }
        let all = bed
            .peer()
            .longshore()
            .args(["ss", "--engine", &socket])
            .check();
        assert!(all.contains(":7001") && all.contains(":7002"), "{all}");
        assert_eq!(
            engine.stat()["sessions"].as_array().expect("a list").len(),
            2
        );
        // A user who may not use it may not ask it.
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        std::fs::write(engine.config(), format!("users = [1]\n{text}")).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "users is 1 now");
        let end = as_nobody(bed, &["ss", "--engine", &socket]);
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
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
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

/// Each of the engine's algorithms can be had by a program, by an option and by the
/// configuration, whatever the kernel has; `getsockopt` and `ss` say the same of it.
#[test]
fn congestion_controls_by_name() {
    const PROGRAM: &str = "import errno, socket, sys, time\n\
        def name(s): return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode()\n\
        def choose(s, n): s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, n.encode())\n\
        first = socket.socket()\n\
        print('default', name(first))\n\
        held = []\n\
        for n in ('reno', 'cubic', 'dctcp', 'bbr'):\n\
        \x20   for late in (False, True):\n\
        \x20       s = socket.socket()\n\
        \x20       if not late: choose(s, n)\n\
        \x20       s.connect((sys.argv[1], 9))\n\
        \x20       if late: choose(s, n)\n\
        \x20       assert name(s) == n, (name(s), n)\n\
        \x20       held.append(s)\n\
        \x20       try: choose(s, 'westwood'); assert False\n\
        \x20       except OSError as e: assert e.errno == errno.ENOENT\n\
        try: choose(first, 'westwood'); assert False\n\
        except OSError as e: assert e.errno == errno.ENOENT\n\
        first.connect((sys.argv[1], 9))\n\
        print('used', name(first))\n\
        l = socket.socket()\n\
        choose(l, 'dctcp')\n\
        l.bind(('', 7)); l.listen()\n\
        held.append(socket.create_connection((sys.argv[2], 7)))\n\
        held.append(l.accept()[0])\n\
        print('accepted', name(held[-1]))\n\
        print('up', flush=True)\ntime.sleep(600)";
    const SINK: &str = "import socket, time\n\
        s = socket.create_server(('', 9), backlog=64)\nheld = [s.accept() for _ in range(99)]";
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("congestion = \"dctcp\"");
        let _sink = peer.cmd("python3").args(["-c", SINK]).spawn();
        peer.wait_for((host.gateway(), 9).into());
        let (to, own) = (host.gateway().to_string(), host.ip().to_string());
        let check = |options: &[&str], usual: &str| {
            let mut cmd = peer
                .longshore()
                .args(["run", "--engine"])
                .arg(engine.socket());
            cmd = cmd
                .args(options)
                .args(["--", "python3", "-c", PROGRAM, &to, &own]);
            let program = cmd.spawn();
            eventually("the program is done", || {
                program.stdout().contains("up").then_some(())
            });
            let said = program.stdout();
            for line in [
                format!("default {usual}"),
                format!("used {usual}"),
                "accepted dctcp".to_owned(),
            ] {
                assert!(said.lines().any(|l| l == line), "no {line:?}: {said}");
            }
            let socket = engine.socket().to_str().expect("UTF-8");
            let shown = peer
                .longshore()
                .args(["ss", "--json", "--engine", socket])
                .check();
            let json: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
            let rows = json[0]["sockets"].as_array().expect("a list");
            let of = |name: &str| {
                let has = |r: &&serde_json::Value| {
                    r["tcp"]["congestion"] == name
                        && r["pids"] != serde_json::json!([])
                        && r["peer"].as_str().is_some_and(|p| p.ends_with(":9"))
                };
                rows.iter().filter(has).count()
            };
            let names = ["reno", "cubic", "dctcp", "bbr"];
            let wanted = names.map(|name| 2 + usize::from(name == usual));
            assert_eq!(names.map(of), wanted, "{usual}");
            let _ = program.terminate();
        };
        check(&[], "dctcp");
        check(&["--congestion", "bbr"], "bbr");
        let end = peer
            .longshore()
            .args(["run", "--congestion", "bic", "--", "/bin/true"])
            .run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        assert!(end.stderr.contains("reno, cubic, dctcp, bbr"), "{end:?}");
    });
}

/// What the configuration does not allow is not accepted, connected to, or bound; it is
/// counted, and other rules hold once the configuration was read again.
#[test]
fn access_by_prefix_and_port() {
    const SERVER: &str = "import errno, socket, sys, time\n\
        def denied(what):\n\
        \x20   try: what(); assert False\n\
        \x20   except OSError as e: assert e.errno == errno.EPERM, e\n\
        denied(lambda: socket.create_server((sys.argv[2], 7003)))\n\
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        denied(lambda: u.bind((sys.argv[2], 7003)))\n\
        denied(lambda: socket.create_connection((sys.argv[1], 8)))\n\
        denied(lambda: u.connect((sys.argv[1], 8)))\n\
        held = [socket.create_server((sys.argv[2], p)) for p in (7001, 7002)]\n\
        for p in (7001, 7002):\n\
        \x20   s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[2], p)); held.append(s)\n\
        # A denied datagram is lost, the next one is not.\n\
        u.sendto(b'lost', (sys.argv[1], 8))\n\
        u.sendto(b'found', (sys.argv[1], 9))\n\
        assert u.recv(100) == b'answer'\n\
        print('up', flush=True)\n\
        held[2].settimeout(1); held[3].settimeout(60)\n\
        print('heard', held[3].recv(100).decode(), flush=True)\n\
        try: held[2].recv(100); assert False\n\
        except TimeoutError: pass\n\
        print('deaf', flush=True)\ntime.sleep(600)";
    const FAR: &str = "import socket\n\
        a, b = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]\n\
        a.bind(('', 8)); b.bind(('', 9)); print('up', flush=True)\n\
        data, who = b.recvfrom(100); b.sendto(b'answer', who)\n\
        a.setblocking(False)\n\
        try: print('leaked', a.recv(100))\n\
        except BlockingIOError: print('got', data.decode(), flush=True)";
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let rules = "[access]\naccept = [\"deny 10.77.0.0/24 port 7001\"]\n\
            connect = [\"deny any port 8\"]\nbind = [\"deny any port 7003\"]";
        let engine = host.engine(rules);
        let far = peer.cmd("python3").args(["-c", FAR]).spawn();
        eventually("the far end is bound", || {
            far.stdout().contains("up").then_some(())
        });
        let (to, own) = (host.gateway().to_string(), host.ip().to_string());
        let program = engine
            .cmd("python3")
            .args(["-c", SERVER, &to, &own])
            .spawn();
        eventually("the program serves", || {
            program.stdout().contains("up").then_some(())
        });
        eventually("only what is allowed gets out", || {
            far.stdout().contains("got found").then_some(())
        });
        let denied = engine.stat_u64("access_denied");
        assert!(denied >= 5, "{denied}");
        let send = |port: u16| {
            let script = format!(
                "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'word', ('{own}', {port}))"
            );
            let _ = peer.cmd("python3").args(["-c", &script]).check();
        };
        send(7001);
        send(7002);
        eventually("only what is allowed gets in", || {
            program.stdout().contains("heard word\ndeaf").then_some(())
        });
        let connects = |port: u16, within: u32| {
            let script =
                format!("import socket; socket.create_connection(('{own}', {port}), {within})");
            peer.cmd("python3")
                .args(["-c", &script])
                .run()
                .status
                .success()
        };
        assert!(connects(7002, 60) && !connects(7001, 2));
        assert!(engine.stat_u64("access_denied") > denied + 1);
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        std::fs::write(engine.config(), text.replace(" port 7001", " port 7009")).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "access is accept");
        assert!(connects(7001, 60));
    });
}

/// Which programs may bind ports below 1024 is up to the configuration.
#[test]
fn low_ports() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("[access]\nlow_ports = \"all\"");
        let socket = engine.socket().to_str().expect("UTF-8").to_owned();
        let binds = |uid: &str| {
            let script = "import socket; socket.create_server(('10.77.0.2', 80))";
            let _ = as_nobody(bed, &["--version"]);
            let end = bed
                .peer()
                .cmd("setpriv")
                .args(["--reuid", uid, "--regid", uid, "--clear-groups", "--"])
                .arg(bed.directory("bin").join("longshore"))
                .args(["run", "--engine", &socket, "--", "python3", "-c", script])
                .env("XDG_RUNTIME_DIR", "/nonexistent")
                .run();
            assert!(
                end.status.success() || end.stderr.contains("Errno 13"),
                "{end:?}"
            );
            end.status.success()
        };
        assert!(binds("65534") && binds("0"));
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        for rule in ["host", "root"] {
            let other = text.replace("\"all\"", &format!("\"{rule}\""));
            std::fs::write(engine.config(), other).expect("write");
            engine.signal(Signal::HUP);
            says(&engine, &format!("low_ports {rule} now"));
            assert!(!binds("65534") && binds("0"), "{rule}");
        }
    });
}
