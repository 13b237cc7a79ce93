//! What engines give up once they have opened what needs privileges, what they can do all the
//! same, and that the programs on them give up nothing.

use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Proc, Stack, Testbed, as_ordinary_user, eventually, run_uncounted};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(120), body);
}

/// The value of a line of a status in /proc.
fn value<'a>(status: &'a str, key: &str) -> &'a str {
    let mut lines = status.lines();
    let of = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':').map(str::trim);
    lines
        .find_map(of)
        .unwrap_or_else(|| panic!("no {key} in {status}"))
}

/// A set of capabilities.
fn set(status: &str, key: &str) -> u64 {
    u64::from_str_radix(value(status, key), 16).expect("a set of capabilities")
}

/// All threads of a process, by their statuses; none if it has ended.
fn threads(pid: i32) -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("status")).ok()
    };
    tasks.filter_map(status).collect()
}

/// CAP_SYS_RESOURCE.
const RESOURCES: u64 = 1 << 24;

/// A process is confined in each of its threads, and has none but these capabilities.
fn is_confined(pid: i32, kept: u64) {
    has_given_up(pid, kept);
    for status in threads(pid) {
        assert_eq!(set(&status, "CapBnd"), 0, "{status}");
    }
}

/// A process is confined as far as it could be: it could not give up what it never had.
fn has_given_up(pid: i32, kept: u64) {
    let all = threads(pid);
    assert!(all.len() >= 3, "{all:?}");
    for status in all {
        assert_eq!(value(&status, "NoNewPrivs"), "1", "{status}");
        assert_eq!(value(&status, "Seccomp"), "2", "{status}");
        for name in ["CapEff", "CapPrm"] {
            assert_eq!(set(&status, name), kept, "{name}: {status}");
        }
        for name in ["CapInh", "CapAmb"] {
            assert_eq!(set(&status, name), 0, "{name}: {status}");
        }
    }
}

/// Prints what it has of what an engine gives up, and waits.
const SHOWS: &str =
    "grep -E 'NoNewPrivs|Seccomp:|CapEff|CapBnd' /proc/self/status; echo up; sleep 600";

/// A program is as whoever has started it.
fn is_as_this_process(program: &Proc) {
    let own = std::fs::read_to_string("/proc/self/status").expect("a status");
    eventually("the program runs", || {
        program.stdout().contains("up").then_some(())
    });
    let shown = program.stdout();
    for key in ["NoNewPrivs", "Seccomp", "CapEff", "CapBnd"] {
        assert_eq!(value(&shown, key), value(&own, key), "{key}");
    }
}

/// What a shared engine keeps of what this process has.
fn kept() -> u64 {
    let own = std::fs::read_to_string("/proc/self/status").expect("a status");
    set(&own, "CapEff") & RESOURCES
}

#[test]
fn a_shared_engine_is_confined() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        is_confined(engine.pid(), kept());
        let program = engine.cmd("/bin/sh").args(["-c", SHOWS]).spawn();
        is_as_this_process(&program);
        let stat = engine.stat();
        let words = stat["sandbox"].as_str().expect("words");
        assert!(words.contains("no capabilities") && words.contains("seccomp"));
        assert!(engine.stderr().contains(words), "{words}");
    });
}

#[test]
fn private_engines_are_confined() {
    scenario(|bed| {
        for host in [bed.host(0), bed.host_beside_the_kernel(1)] {
            let program = host.sh(SHOWS).spawn();
            is_as_this_process(&program);
            let engine = program.program_pid("longshore-eng");
            is_confined(engine, 0);
        }
    });
}

/// One that an ordinary user shares has no capabilities to give up, and is confined all the
/// same.
#[test]
fn an_ordinary_users_shared_engine_is_confined() {
    scenario(|bed| {
        let directory = bed.directory("mine");
        let socket = directory.join("engine.sock");
        let config = bed.file(
            "mine.toml",
            format!(
                "port = \"tap:mine\"\naddress = \"10.78.2.2/24\"\nsocket = \"{}\"\n",
                socket.display()
            ),
        );
        let before = format!(
            "chown 65534 {}; ip tuntap add dev mine mode tap user 65534 vnet_hdr; \
             ip addr add 10.78.2.1/24 dev mine; ip link set mine up",
            directory.display()
        );
        let engine = as_ordinary_user(
            bed,
            &before,
            &format!("engine --config {}", config.display()),
        )
        .spawn();
        let says = |what: &str| {
            eventually(&format!("the engine says {what:?}"), || {
                engine.stderr().contains(what).then_some(())
            });
        };
        says(" serves ");
        has_given_up(engine.pid(), 0);
        engine.signal(Signal::HUP);
        says("nothing in it has changed");
        let run = [
            "run",
            "--engine",
            &socket.to_string_lossy(),
            "--",
            "/bin/true",
        ];
        bed.peer().longshore().args(run).check();
        engine.signal(Signal::TERM);
        assert!(engine.wait().status.success());
        assert!(!socket.exists());
    });
}

/// A private engine of an ordinary user has all capabilities in a namespace of its own, and
/// keeps none; it relays, for which it makes sockets.
#[test]
fn an_ordinary_users_engine_is_confined() {
    scenario(|bed| {
        let program = as_ordinary_user(
            bed,
            "true",
            &format!(
                "run --expose 8080:8000 --expose 8080:8000/udp -- {PYTHON} -m http.server 8000"
            ),
        )
        .spawn();
        let fetch = || {
            let url = ["-sf", "http://127.0.0.1:8080/"];
            bed.peer().cmd("curl").args(url).run().status.success()
        };
        eventually("the program is reached", || fetch().then_some(()));
        is_confined(program.program_pid("longshore-eng"), 0);
    });
}

#[test]
fn no_sandbox_is_said() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("sandbox = false");
        let unconfined = |pid: i32| {
            let all = threads(pid);
            assert!(all.len() >= 3, "{all:?}");
            for status in all {
                assert_eq!(value(&status, "Seccomp"), "0", "{status}");
                assert_eq!(value(&status, "NoNewPrivs"), "0", "{status}");
            }
        };
        unconfined(engine.pid());
        assert!(engine.stderr().contains("sandbox: off"));
        assert_eq!(engine.stat()["sandbox"], "off");
        drop(engine);
        let program = host.option("--no-sandbox").sh(SHOWS).spawn();
        is_as_this_process(&program);
        unconfined(program.program_pid("longshore-eng"));
    });
}

/// A shared engine with a directory for its socket.
fn engine_in(bed: &Testbed, name: &str, options: &[&str]) -> Proc {
    let socket = bed.directory(name).join("engine.sock");
    let config = format!(
        "port = \"tap:{name}\"\naddress = \"10.78.1.2/24\"\nsocket = \"{}\"\n",
        socket.display()
    );
    let engine = bed
        .peer()
        .longshore()
        .arg("engine")
        .args(options)
        .arg("--config")
        .arg(bed.file(&format!("{name}.toml"), config))
        .spawn();
    eventually("the engine serves", || {
        engine.stderr().contains(" serves ").then_some(())
    });
    engine
}

/// An engine removes its socket when it ends. If its directory has become another, then it
/// is another file: whoever is confined cannot remove it.
#[test]
fn files_that_are_not_its_own_are_out_of_reach() {
    scenario(|bed| {
        let removes_another = |name: &str, options: &[&str]| {
            let engine = engine_in(bed, name, options);
            let (dir, moved) = (bed.path(name), bed.path(&format!("{name}-moved")));
            std::fs::rename(&dir, &moved).expect("rename");
            let precious = bed.directory(name).join("engine.sock");
            std::fs::write(&precious, "precious").expect("write");
            engine.signal(Signal::TERM);
            assert!(engine.wait().status.success());
            !precious.exists()
        };
        // It would, otherwise.
        assert!(removes_another("free", &["--no-sandbox"]));
        if has_landlock() {
            assert!(!removes_another("confined", &[]));
        } else {
            longshore_testbed::skip("this kernel has no Landlock");
        }
        // And where nothing has happened to it, nothing is left.
        let engine = engine_in(bed, "usual", &[]);
        let pid = engine.pid();
        engine.signal(Signal::TERM);
        assert!(engine.wait().status.success());
        let left: Vec<_> = std::fs::read_dir(bed.path("usual"))
            .expect("a directory")
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!bed.runtime_directory().join(pid.to_string()).exists());
    });
}

/// Whether the kernel has Landlock.
fn has_landlock() -> bool {
    // SAFETY: with this flag (LANDLOCK_CREATE_RULESET_VERSION) the call takes no attributes.
    let version = unsafe {
        let none = std::ptr::null::<libc::c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, 1)
    };
    version > 0
}

/// What a reload needs is had by an engine that opens no files any more: a configuration in
/// the place of the one that it was started with, names of users, the host's settings, the
/// device that keeps processors awake. Whoever opens them ends with the engine.
#[test]
fn a_confined_engine_reads_its_configuration_again() {
    scenario(|bed| {
        let host = bed.host(0);
        let engine = host.engine("");
        let says = |what: &str| {
            eventually(&format!("the engine says {what:?}"), || {
                engine.stderr().contains(what).then_some(())
            });
        };
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        let has_device = Path::new("/dev/cpu_dma_latency").exists();
        let more = "users = [\"nobody\"]\nsysctl = \"none\"\nsandbox = false\n";
        let new = bed.file("new.toml", format!("{text}awake = {has_device}\n{more}"));
        std::fs::rename(&new, engine.config()).expect("rename");
        engine.signal(Signal::HUP);
        says("users is 65534 now");
        says("sandbox stays true; false needs a restart");
        if has_device {
            says("awake is true now");
            assert!(has_open(engine.pid(), "/dev/cpu_dma_latency"));
        } else {
            longshore_testbed::skip("there is no /dev/cpu_dma_latency");
        }
        std::fs::write(engine.config(), text).expect("write");
        engine.signal(Signal::HUP);
        says("sysctl is host now");
        std::fs::remove_file(engine.config()).expect("remove");
        engine.signal(Signal::HUP);
        says("cannot read the configuration");
        engine.cmd("/bin/true").check();

        let pid = engine.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let opener: i32 = children
            .expect("children")
            .trim()
            .parse()
            .expect("one child");
        let of_opener = threads(opener);
        assert_eq!(of_opener.len(), 1);
        for status in of_opener {
            assert_eq!(value(&status, "NoNewPrivs"), "1", "{status}");
            assert_eq!(value(&status, "Seccomp"), "2", "{status}");
            // CAP_DAC_READ_SEARCH.
            assert_eq!(set(&status, "CapEff") & !(1 << 2), 0, "{status}");
        }
        engine.kill();
        eventually("whoever opens files ends, too", || {
            // Somebody else waits for it, some time.
            let alive = threads(opener)
                .iter()
                .any(|s| !value(s, "State").starts_with('Z'));
            (!alive).then_some(())
        });
    });
}

/// Whether a process has a file open.
fn has_open(pid: i32, path: &str) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.into_iter().any(|link| link == Path::new(path))
}
