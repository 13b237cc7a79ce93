//! `make install`: what it puts where works there, and is gone after `make uninstall`; an
//! engine started by systemd says when programs can come.

use longshore_e2e::{Cmd, Host, Stack, Testbed, eventually, longshore, run_uncounted};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(120), body);
}

/// The script behind `make install`.
fn script(host: &Host<'_>) -> Cmd {
    host.cmd(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install.sh"))
        .env("SYSCONFDIR", "/nonexistent")
}

fn built() -> PathBuf {
    longshore().parent().expect("a directory").to_owned()
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// What is installed finds its shim, has its manual, and goes without a rest.
#[test]
fn installed_it_works_and_removed_it_is_gone() {
    scenario(|bed| {
        let peer = bed.peer();
        let prefix = bed.directory("prefix");
        let install = |argument: &Path| {
            script(&peer)
                .env("PREFIX", &prefix)
                .env("SYSCONFDIR", prefix.join("etc"))
                .arg(argument)
                .check()
        };
        let said = install(&built());
        assert!(said.contains(prefix.to_str().expect("UTF-8")), "{said}");

        let show = ["run", "--addr", "10.78.0.2/24", "--", "/bin/sh", "-c"];
        let preload = peer
            .cmd(prefix.join("bin/longshore"))
            .args(show)
            .arg("echo $LD_PRELOAD")
            .check();
        let shim = prefix.join("lib/longshore/liblongshore_preload.so");
        assert_eq!(Path::new(preload.trim()), shim);
        let page = prefix.join("share/man/man1/longshore-run.1");
        let page = std::fs::read_to_string(page).expect("the manual");
        assert!(page.contains(".SH EXIT STATUS"), "{page}");

        // Its configuration is one that the engine takes, and what somebody has changed in it
        // stays, whatever is installed or removed.
        let config = prefix.join("etc/longshore/engine.toml");
        let text = std::fs::read_to_string(&config).expect("the configuration");
        let changed = format!("{text}\n# mine\n");
        std::fs::write(&config, &changed).expect("write");
        let _ = install(&built());
        let _ = install(Path::new("--remove"));
        assert_eq!(files(&prefix), std::slice::from_ref(&config));
        assert_eq!(
            std::fs::read_to_string(&config).expect("the configuration"),
            changed
        );
        std::fs::write(&config, &text).expect("write");
        let _ = install(&built());
        let _ = install(Path::new("--remove"));
        assert_eq!(files(&prefix), Vec::<PathBuf>::new());
    });
}

/// Packagers put files below a directory that is not where they will be used.
#[test]
fn a_package_is_for_where_it_will_be() {
    scenario(|bed| {
        let package = bed.directory("package");
        let _ = script(&bed.peer())
            .env("DESTDIR", &package)
            .env("PREFIX", "/usr")
            .env("SYSCONFDIR", "/etc")
            .arg(built())
            .check();
        let unit = package.join("usr/lib/systemd/system/longshore.service");
        let unit = std::fs::read_to_string(unit).expect("the unit");
        let command = "ExecStart=/usr/bin/longshore engine --config /etc/longshore/engine.toml";
        assert!(unit.contains(command), "{unit}");
        assert!(unit.contains("\nExecReload="), "{unit}");
        assert!(package.join("etc/longshore/engine.toml").exists());
        // Where nothing was built, nothing is installed.
        let empty = bed.directory("empty");
        let end = script(&bed.peer()).arg(&empty).run();
        assert!(!end.status.success(), "{end:?}");
        assert!(end.stderr.contains("make build"), "{end:?}");
    });
}

/// Type=notify: the message comes when the engine serves.
#[test]
fn the_service_manager_is_told() {
    scenario(|bed| {
        let place = bed.directory("service").join("notify");
        let manager = UnixDatagram::bind(&place).expect("a socket");
        manager.set_nonblocking(true).expect("a socket");
        let socket = bed.directory("engine").join("socket");
        let config = format!(
            "port = \"tap:engine\"\naddress = \"10.78.1.2/24\"\nsocket = \"{}\"\n",
            socket.display()
        );
        let engine = bed
            .peer()
            .longshore()
            .env("NOTIFY_SOCKET", &place)
            .args(["engine", "--config"])
            .arg(bed.file("engine.toml", config))
            .spawn();
        let mut said = [0; 256];
        let length = eventually("the service manager is told", || {
            manager.recv(&mut said).ok()
        });
        assert_eq!(&said[..length], b"READY=1\n");
        assert!(socket.exists());
        engine.signal(rustix::process::Signal::TERM);
        assert!(engine.wait().status.success());
    });
}
