//! The testbed: a kernel peer, and hosts on the stack under test, with their files and what
//! the engines among them have carried. The hosts themselves are in `host`.

use crate::{Cmd, Namespace, Stack, longshore};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Tells `longshore` where its engines are found.
pub(crate) const RUNTIME_DIR: &str = "LONGSHORE_RUNTIME_DIR";
/// The directory of a scenario in which engines leave their last statistics.
pub(crate) const LAST_STATS: &str = "last-stats";

/// One scenario's namespaces, files and programs.
#[derive(Debug)]
pub struct Testbed {
    pub(crate) stack: Stack,
    pub(crate) peer: Arc<Namespace>,
    /// With the kernel under test, a namespace for each host.
    pub(crate) hosts: Mutex<BTreeMap<u8, Arc<Namespace>>>,
    /// With Longshore, the namespaces of the programs of each host.
    pub(crate) programs: Mutex<BTreeMap<u8, Arc<Namespace>>>,
    /// Whether CUBIC is pinned on both sides, whatever the machine's default is.
    pub(crate) cubic: bool,
    /// Whether Longshore is known to have carried something.
    carried: AtomicBool,
    pub(crate) files: TempDir,
}

impl Testbed {
    /// A testbed with the peer in it. Takes root.
    ///
    /// # Panics
    /// If its namespace or its files cannot be made.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self::make(stack, false)
    }

    /// A testbed for measurements: kernel ends use CUBIC, so that figures do
    /// not depend on the machine's default, and Longshore attaches to TAPs that
    /// are there before it, so that their routes can say so.
    ///
    /// # Panics
    /// Like [`Testbed::new`].
    #[must_use]
    pub fn for_measurement(stack: Stack) -> Self {
        Self::make(stack, true)
    }

    fn make(stack: Stack, cubic: bool) -> Self {
        let files = tempfile::Builder::new()
            .prefix("longshore-e2e-")
            .tempdir()
            .expect("make a directory");
        // Servers drop root privileges and must still read their files.
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        for name in ["logs", LAST_STATS] {
            fs::create_dir(files.path().join(name)).expect("make a directory");
        }
        // An ordinary user's engine also writes its last statistics there.
        let open_to_all = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(files.path().join(LAST_STATS), open_to_all).expect("chmod");
        Testbed {
            stack,
            peer: Arc::new(Namespace::new()),
            hosts: Mutex::new(BTreeMap::new()),
            programs: Mutex::new(BTreeMap::new()),
            cubic,
            carried: AtomicBool::new(false),
            files,
        }
    }

    /// The stack under test.
    #[must_use]
    pub fn stack(&self) -> Stack {
        self.stack
    }

    /// A path for a file of this scenario.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Writes a file of this scenario and gives its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap_or_else(|e| panic!("writing {}: {e}", path.display()));
        path
    }

    /// Makes a directory of this scenario and gives its path.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("making {}: {e}", path.display()));
        path
    }

    /// A file of `length` bytes and its SHA-256.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn payload(&self, name: &str, length: u64) -> (PathBuf, String) {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("make a directory");
        }
        let hash =
            crate::payload::write_file(&path, length ^ 0x5eed, length).expect("write a file");
        (path, hash)
    }

    fn namespaces(&self) -> Vec<Arc<Namespace>> {
        let hosts = self.hosts.lock().expect("no panic while it is held");
        let programs = self.programs.lock().expect("no panic while it is held");
        std::iter::once(&self.peer)
            .chain(hosts.values())
            .chain(programs.values())
            .cloned()
            .collect()
    }

    /// The directory in which the engines of this scenario, and no others, are found.
    #[must_use]
    pub fn runtime_directory(&self) -> PathBuf {
        self.path("engines")
    }

    /// What `stat --json` says, or said last, of every engine that this scenario has
    /// started, but those that were killed.
    fn stats(&self) -> Vec<serde_json::Value> {
        let alive = Cmd::new(&self.path("logs"), Vec::new(), longshore().as_os_str())
            .env(RUNTIME_DIR, self.runtime_directory())
            .args(["stat", "--json"])
            .run();
        // Without an engine, it reports that.
        let alive: Vec<serde_json::Value> = serde_json::from_str(&alive.stdout).unwrap_or_default();
        let ended = fs::read_dir(self.path(LAST_STATS)).into_iter().flatten();
        let ended = ended.filter_map(|entry| {
            let said = fs::read(entry.ok()?.path()).ok()?;
            serde_json::from_slice(&said).ok()
        });
        ended.chain(alive).collect()
    }

    /// Whether one of the engines has carried something so far.
    #[must_use]
    pub fn has_carried(&self) -> bool {
        self.stats().iter().any(has_carried)
    }

    /// Makes sure that Longshore carried what the scenario's programs said: that one of its
    /// engines has by its own counters been asked for something, and has sent or received.
    ///
    /// # Panics
    /// If none has, which shows that the programs went another way.
    pub fn assert_carried(&self) {
        if self.stack == Stack::Kernel {
            return;
        }
        crate::eventually(
            "an engine has carried something, by its own counters",
            || self.has_carried().then_some(()),
        );
        self.carried.store(true, Ordering::Relaxed);
    }

    /// Whether [`Testbed::assert_carried`] has been called, and was satisfied.
    #[must_use]
    pub fn is_known_to_have_carried(&self) -> bool {
        self.carried.load(Ordering::Relaxed)
    }

    /// Kills all programs of this scenario.
    pub fn kill_all(&self) {
        for namespace in self.namespaces() {
            namespace.kill_all();
        }
    }

    /// Prints the end of everything that the scenario's programs wrote.
    pub fn print_logs(&self) {
        let mut logs: Vec<PathBuf> = fs::read_dir(self.files.path().join("logs"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        logs.sort();
        for log in logs {
            let bytes = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            if lines.is_empty() {
                continue;
            }
            eprintln!("--- {}", log.file_name().unwrap_or_default().display());
            for line in &lines[lines.len().saturating_sub(25)..] {
                eprintln!("{line}");
            }
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.kill_all();
        if std::env::var_os("LONGSHORE_KEEP").is_some() {
            self.files.disable_cleanup(true);
            eprintln!("files kept in {}", self.files.path().display());
        }
    }
}

/// Whether an engine has carried something for a program, by its statistics.
fn has_carried(stat: &serde_json::Value) -> bool {
    let count = |path: &str| stat.pointer(path).and_then(serde_json::Value::as_u64);
    // Each request of a program is a descriptor.
    let asked = count("/crossings/to_adapter/descriptors");
    let carried = [
        "/tcp/segments_in",
        "/tcp/segments_out",
        "/net/datagrams_in",
        "/net/datagrams_out",
        "/engine/cut_through_bytes",
    ];
    asked > Some(0) && carried.iter().any(|path| count(path) > Some(0))
}
