//! A small engine for tests: the adapter's half of the interface over sockets
//! that only meet each other, in a thread of the test.
//!
//! It has no network. What is sent on one connection arrives on the other as
//! soon as the thread gets to it; a datagram goes to the socket that has its
//! port. [`Behavior`] makes it behave badly where a test wants that. It forwards from one
//! connection to another if it is [started for that](Engine::that_forwards).

#[cfg(test)]
pub(crate) mod fixture;
mod session;

use crate::holds::Socket;
use crate::hooks::Hooks;
use crate::host::Host;
use crate::native::{Listener, Stream};
use longshore_hostif::attach::Token;
use longshore_hostif::{
    EdgeFlags, Features, Geometry, Numbered, OpenFlags, OptionName, SocketKind, SourceRequest,
    Versions,
};
use session::Session;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The engine's own address.
pub const ADDRESS: &str = "10.9.9.2";
/// A port of the engine's address that never answers.
pub const SILENT_PORT: u16 = 9;

/// What the chunks of receive streams are full of before anything is placed in them. Whoever
/// sees it reads what no socket has received.
pub const POISON: u8 = 0xdb;

/// Bytes that the send stream of an accepted connection may hold.
pub const SEND_LIMIT: u32 = 3 << 20;

/// So many workers have the engines that do not forward. All tests are to pass with two.
const WORKERS_VARIABLE: &str = "LONGSHORE_TEST_WORKERS";

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 256,
    sockets: 1024,
    snd_chunks: 512,
    rcv_chunks: 512,
    workers: 1,
};

/// How the engine behaves, to be changed while it runs.
#[derive(Debug, Default)]
pub struct Behavior {
    /// Acknowledges nothing of what is sent, though it arrives.
    pub holds_acknowledgments: AtomicBool,
    /// Does not look at requests.
    pub ignores_requests: AtomicBool,
    /// The next so many moves of edges are left out, as if there was no room.
    pub loses: AtomicU32,
    /// Bytes that it leaves unread at a receiver; 0 is the usual.
    pub window: AtomicU32,
    /// What it answers to queries; without, numbers from 0 to 103.
    pub answer: Mutex<Option<Vec<u8>>>,
    /// What it says of the sources of any group: whether those listed are received, and the list.
    pub sources: Mutex<(bool, Vec<IpAddr>)>,
    /// Takes no files.
    pub refuses_files: AtomicBool,
    /// What of data the first packet of an attempt to connect has room for (TCP_FASTOPEN_CONNECT).
    pub early_room: AtomicU32,
    /// Binds to an address alone where no port is asked for (IP_BIND_ADDRESS_NO_PORT).
    pub gives_no_port: AtomicBool,
    /// Lets go of files as soon as nobody holds them and no stream has ranges of them.
    pub lets_files_go: AtomicBool,
}

/// What the engine has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Options, in order, by the socket's index.
    pub options: Vec<(u32, OptionName, u64)>,
    /// What it was asked of sources of groups, in order: the group, the source, and what.
    pub sources: Vec<(Numbered, Numbered, SourceRequest)>,
    /// All that was said of each socket's edges, by its index.
    pub reported_flags: BTreeMap<u32, EdgeFlags>,
    /// How each socket was opened, by its index.
    pub opened: BTreeMap<u32, OpenFlags>,
    /// Sockets that are open.
    pub open: usize,
    /// Chunks of the receive slab that are in use.
    pub rcv_chunks: usize,
    /// Requests that made no sense.
    pub bad: usize,
    /// Requests in the rings of a worker that has not their socket.
    pub misrouted: usize,
    /// How often it has looked at everything.
    pub turns: u64,
    /// Files that programs have offered.
    pub offered: usize,
    /// Bytes of files that descriptors have told of.
    pub ranges: u64,
    /// How often each worker was woken by its doorbell.
    pub rung: Vec<u64>,
}

/// The engine, until it is dropped.
#[derive(Debug)]
pub struct Engine {
    path: PathBuf,
    /// How it behaves.
    pub behavior: Arc<Behavior>,
    /// What it has seen.
    pub seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    /// It does not say that it ends.
    dies: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts an engine that listens in `directory`.
    ///
    /// # Panics
    /// If it cannot: this is for tests.
    pub fn start(directory: &Path) -> Self {
        Self::with_geometry(directory, GEOMETRY)
    }

    /// As `start`, with a memory of its own measures.
    ///
    /// # Panics
    /// If it cannot.
    pub fn with_geometry(directory: &Path, geometry: Geometry) -> Self {
        Self::of(directory, geometry, Versions::OURS, false)
    }

    /// An engine that sends what one connection has received by another, where it lies.
    ///
    /// # Panics
    /// If it cannot.
    pub fn that_forwards(directory: &Path) -> Self {
        Self::of(directory, GEOMETRY, Versions::OURS, true)
    }

    /// An engine that takes files: one of several workers takes none.
    ///
    /// # Panics
    /// If it cannot.
    pub fn that_takes_files(directory: &Path) -> Self {
        let mut of_one_worker = Versions::OURS;
        of_one_worker.features.remove(Features::WORKERS);
        Self::of_release(directory, of_one_worker)
    }

    /// The engine of another release: what it has to say is the same.
    ///
    /// # Panics
    /// If it cannot.
    pub fn of_release(directory: &Path, versions: Versions) -> Self {
        Self::of(directory, GEOMETRY, versions, false)
    }

    fn of(directory: &Path, geometry: Geometry, versions: Versions, forwards: bool) -> Self {
        let geometry = match std::env::var(WORKERS_VARIABLE) {
            Ok(workers) if !forwards && versions.features.contains(Features::WORKERS) => Geometry {
                workers: workers.parse().expect("a number of workers"),
                ..geometry
            },
            _ => geometry,
        };
        // A wake-up that is missing is to show.
        crate::wait::NEVER_LOOKS.store(true, Ordering::Relaxed);
        let path = directory.join("engine.sock");
        let (behavior, seen, stop) =
            <(Arc<Behavior>, Arc<Mutex<Seen>>, Arc<AtomicBool>)>::default();
        let (reported, sees) = (behavior.clone(), seen.clone());
        let mut session = Session::open(&path, geometry, (versions, forwards), reported, sees)
            .expect("make a session");
        let (stopped, dies) = (stop.clone(), Arc::<AtomicBool>::default());
        let died = dies.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                session.turn();
            }
            if !died.load(Ordering::Relaxed) {
                session.close();
            }
        });
        Self {
            path,
            behavior,
            seen,
            stop,
            dies,
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token of its only session.
    pub fn token(&self) -> Token {
        session::TOKEN
    }

    /// Joins the session, as a process of its own would.
    ///
    /// # Panics
    /// If it is refused.
    pub fn join(&self) -> &'static Host {
        Host::join(&self.path, self.token(), Hooks::default()).expect("join the session")
    }

    /// An address of the engine.
    pub fn address(port: u16) -> SocketAddr {
        SocketAddr::new(ADDRESS.parse().expect("an address"), port)
    }

    /// A connection of the process to itself: the end that connected, and the other.
    ///
    /// # Panics
    /// If there is none.
    pub fn pair(host: &'static Host) -> (Stream, Stream) {
        let listener = Listener::bind(host, Self::address(0), 8).expect("a listener");
        let to = listener.local().expect("its address");
        let client = Stream::connect(host, to).expect("a connection");
        let (server, from) = listener.accept().expect("its other end");
        assert_eq!(client.socket().addresses().local(), Some(from));
        assert_eq!(client.socket().addresses().peer(), Ok(to));
        (client, server)
    }

    /// A new socket of this kind, which is not bound. What is written in its block is not the
    /// engine's doing: one that it is to hear no more of is given to [`std::mem::forget`].
    ///
    /// # Panics
    /// If there is none.
    pub fn open(host: &'static Host, kind: SocketKind) -> Socket {
        host.sockets()
            .open(kind, OpenFlags::empty(), 0)
            .expect("a socket")
    }

    /// Waits until `right` holds of what the engine has seen.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub fn wait_until(&self, what: &str, right: impl Fn(&Seen) -> bool) {
        for _ in 0..12_000 {
            if right(&self.seen.lock().expect("no panic while it is held")) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("never: {what}: {:?}", self.seen);
    }

    /// Whether each worker has found the requests about its sockets alone.
    ///
    /// # Panics
    /// If the thread of the engine has panicked.
    pub fn all_were_routed(&self) -> bool {
        self.seen
            .lock()
            .expect("no panic while it is held")
            .misrouted
            == 0
    }

    /// From now on sleepers of this process look again, as they do outside tests.
    pub fn let_sleepers_look() {
        crate::wait::NEVER_LOOKS.store(false, Ordering::Relaxed);
    }

    /// Ends it as an engine ends that is killed: the kernel closes what it had, and that is
    /// all.
    pub fn kill(&mut self) {
        self.dies.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Ends it, as an engine ends that is told to.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            // It is the test's.
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
