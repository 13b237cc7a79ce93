//! Programs that are executed with an environment of their own, in which nothing says that
//! they are on Longshore: they stay on it, with the sockets that they inherit.

use longshore_e2e::servers::Nginx;
use longshore_e2e::{Host, Testbed, eventually, payload, scenarios, signal};
use rustix::process::Signal;

const KB: u64 = 1024;

/// Starts a kernel nginx on the peer and gives the address of a file there, with its hash.
fn served_by_peer(bed: &Testbed, peer: &Host<'_>) -> (longshore_e2e::Proc, String, String) {
    let (_, hash) = bed.payload("www/file", 300 * KB);
    let nginx = Nginx {
        listen: "8080",
        ..Nginx::default()
    };
    let server = peer.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
    peer.wait_for(([127, 0, 0, 1], 8080).into());
    (server, format!("http://{}/file", peer.at(8080)), hash)
}

/// A file is fetched, byte by byte, by what `script` makes of a command on a host of the stack
/// under test.
fn fetches(bed: &Testbed, script: impl FnOnce(&str) -> String) {
    let (_server, url, hash) = served_by_peer(bed, &bed.peer());
    let to = bed.path("got");
    // On Longshore the peer's address is there only once an engine runs.
    let curl = format!(
        "/usr/bin/curl -sSf --retry 60 --retry-connrefused --retry-delay 1 -o {} {url}",
        to.display()
    );
    bed.host(0).sh(&script(&curl)).check();
    assert_eq!(payload::sha256_of_file(&to).expect("curl wrote it"), hash);
}

/// The file that nginx on `host` serves is the right one.
fn check_served(bed: &Testbed, host: &Host<'_>, hash: &str) {
    let to = bed.path("got");
    let url = format!("http://{}/file", host.ip());
    let curl = bed.peer().cmd("curl").args(["-sSf", "--max-time", "60"]);
    curl.arg("-o").arg(&to).arg(url).check();
    assert_eq!(payload::sha256_of_file(&to).expect("curl wrote it"), hash);
}

/// Says what is preloaded into it.
const PRELOADED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) { puts(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "nothing"); }
"#;

/// The loader of glibc.
const LOADER: &str = if cfg!(target_arch = "x86_64") {
    "/lib64/ld-linux-x86-64.so.2"
} else {
    "/lib/ld-linux-aarch64.so.1"
};

/// A program that is linked for musl's loader, by its name: behind that is the one of this machine.
fn program_for_musl(bed: &Testbed) -> std::path::PathBuf {
    let loader = bed.directory("loader").join("ld-musl-any.so.1");
    std::os::unix::fs::symlink(LOADER, &loader).expect("a loader");
    let (source, binary) = (bed.file("preloaded.c", PRELOADED), bed.path("preloaded"));
    let mut gcc = std::process::Command::new("gcc");
    let gcc = gcc.arg("-o").arg(&binary).arg(source);
    let loader = format!("-Wl,--dynamic-linker={}", loader.display());
    assert!(gcc.arg(loader).status().expect("run gcc").success());
    binary
}

scenarios! {
    /// A program that the loader would not start with what is preloaded is executed without it: by
    /// a shell, by its `exec`, by one that looks for it, and as the interpreter of a script; with
    /// what else is preloaded.
    fn for_musl(bed) within 300 {
        let program = program_for_musl(bed);
        // The engine carries what is executed after it.
        fetches(bed, |curl| format!("{}; {curl}", program.display()));
        let name = program.display();
        let script = bed.file("script", format!("#!{name}\n"));
        let library = format!("/lib/{}-linux-gnu/libutil.so.1", std::env::consts::ARCH);
        let more = format!("LD_PRELOAD=$LD_PRELOAD:{library}");
        let scripts = [
            (format!("{name}; true"), "nothing\n"),
            (format!("exec {name}"), "nothing\n"),
            (format!("env {name}"), "nothing\n"),
            (format!("PATH=/nowhere:$(dirname {name}) /usr/bin/env preloaded"), "nothing\n"),
            (format!("chmod +x {0}; {0}", script.display()), "nothing\n"),
            (
                format!("{more} {name} | sed s/^://"),
                &format!("{library}\n"),
            ),
        ];
        for (text, said) in scripts {
            assert_eq!(bed.host(0).sh(&text).check(), said, "{text}");
        }
    }

    /// The environment is emptied.
    fn env_i(bed) within 300 { fetches(bed, |curl| format!("env -i {curl}")); }

    /// It is a login's.
    fn su(bed) within 300 { fetches(bed, |curl| format!("su - -s /bin/sh -c '{curl}'")); }

    /// nginx executes its program anew while it serves (USR2), with little but the numbers of
    /// its listeners: first old and new serve, then the new one alone.
    fn nginx_upgrade(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (_, hash) = bed.payload("www/file", 300 * KB);
        let nginx = Nginx { daemon: true, workers: 2, ..Nginx::default() };
        // It executes what it was called, without looking for it.
        let launched = host.cmd("/usr/sbin/nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(host.at(80));
        let master = |not: i32| eventually("a master writes its pid", || {
            let pid = std::fs::read_to_string(nginx.pid_file(bed)).ok()?.trim().parse().ok()?;
            (pid != not).then_some(pid)
        });
        let old: i32 = master(0);
        // Before there is a worker it would take the signal and forget it.
        check_served(bed, &host, &hash);
        signal(old, Signal::USR2);
        let new = master(old);
        for _ in 0..10 {
            check_served(bed, &host, &hash);
        }
        signal(old, Signal::QUIT);
        eventually("the old master is gone", || {
            (!std::path::Path::new(&format!("/proc/{old}")).exists()).then_some(())
        });
        for _ in 0..10 {
            check_served(bed, &host, &hash);
        }
        signal(new, Signal::QUIT);
        assert!(launched.wait().status.success());
    }
}
