//! Network namespaces, created for one scenario and removed with it.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Names of our namespaces are `lse-<pid of the test>-<number>`.
const PREFIX: &str = "lse-";

/// A network namespace of our own.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with its loopback up, which forwards between its links.
    ///
    /// # Panics
    /// If it cannot be made; that takes root.
    #[must_use]
    pub fn new() -> Self {
        static SWEEP: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SWEEP.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        ip(&format!("netns add {name}"));
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace.enter(|| {
            for (setting, value) in [
                ("ipv4/ip_forward", "1"),
                // A burst of tests may not be taken for an attack.
                ("ipv4/tcp_max_syn_backlog", "4096"),
                // Fast Open for clients and listeners that ask for it.
                ("ipv4/tcp_fastopen", "3"),
                ("ipv4/icmp_ratelimit", "0"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv6/icmp/ratelimit", "0"),
            ] {
                let path = format!("/proc/sys/net/{setting}");
                fs::write(&path, value).unwrap_or_else(|e| panic!("writing {path}: {e}"));
            }
        });
        namespace
    }

    /// Its name, for `ip netns exec`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it, with these words.
    ///
    /// # Panics
    /// If `ip` fails.
    pub fn ip(&self, words: &str) {
        ip(&format!("-n {} {words}", self.name));
    }

    /// Waits until a link that was set up, as its other end was, is known to be up. Before that the
    /// kernel may lose a datagram that is sent to an address of it, also within the host.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn await_link(&self, device: &str) {
        crate::eventually(&format!("{device} is up"), || {
            let state = ip(&format!("-n {} -oneline link show {device}", self.name));
            state.contains(" state UP ").then_some(())
        });
    }

    /// Runs `work` on a thread of its own inside the namespace: sockets made
    /// there belong to it.
    ///
    /// # Panics
    /// If `work` does, or the namespace is gone.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(Path::new("/run/netns").join(&self.name)).expect("open namespace");
        std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    rustix::thread::move_into_link_name_space(
                        file.as_fd(),
                        Some(rustix::thread::LinkNameSpaceType::Network),
                    )
                    .expect("enter namespace");
                    work()
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The processes in it.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        pids_in(&self.name)
    }

    /// Kills all processes in it. They are all ours: the namespace is.
    pub fn kill_all(&self) {
        kill_all_in(&self.name);
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// What `ip` says to these words.
fn ip(words: &str) -> String {
    let output = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .expect("ip is installed");
    assert!(
        output.status.success(),
        "ip {words} failed: {} (namespaces need root)",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn pids_in(name: &str) -> Vec<i32> {
    let output = Command::new("ip")
        .args(["netns", "pids", name])
        .stderr(Stdio::null())
        .output()
        .expect("ip is installed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

fn kill_all_in(name: &str) {
    let mut ending: Vec<i32> = Vec::new();
    // A process may fork while it is being killed: look again until none is left.
    for _ in 0..200 {
        let pids = pids_in(name);
        for pid in &pids {
            crate::process::signal(*pid, rustix::process::Signal::KILL);
        }
        ending.extend(pids);
        ending.retain(|pid| !has_ended(*pid));
        if ending.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process has released all its resources, listeners included. It leaves its
/// namespace before it does.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with(['Z', 'X'])
}

fn remove(name: &str) {
    kill_all_in(name);
    let _ = Command::new("ip")
        .args(["netns", "del", name])
        .stderr(Stdio::null())
        .status();
}

/// Removes what an earlier run left behind because it was killed.
fn sweep() {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if let Some(owner) = owner
            && !Path::new("/proc").join(owner).exists()
        {
            remove(&name);
        }
    }
}
