//! An engine that a test turns and whose clock it moves on, and programs on it that are made by
//! hand.

use crate::lifetime::Prospect;
use crate::{Config, Engine};
use common::Host;
use longshore_hostif::agent::Peer;
use longshore_hostif::{ChannelState, Geometry, HostChannel, Loopback};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

#[path = "../../tests/common/mod.rs"]
pub(crate) mod common;

/// A moment of rest, where there is nothing to do.
const REST: Duration = Duration::from_millis(1);

/// Room for little.
pub(crate) const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 64,
    workers: 1,
};

/// What an engine is set up with that never looks for more work before it sleeps, where it
/// answers, and the other end of its wire.
pub(crate) fn config(dir: &Path) -> (Config, PathBuf, MemoryPort) {
    let (port, wire) = pair(&MemoryConfig::default());
    let socket = dir.join("engine.sock");
    let config = Config {
        port: Box::new(port),
        port_name: "memory".to_owned(),
        addresses: vec!["10.0.0.1/24".parse().unwrap()],
        gateways: Vec::new(),
        automatic: crate::Automatic::default(),
        scope: 0,
        loopback: Loopback::Kernel,
        cut_through: true,
        socket: socket.clone(),
        control: None,
        geometry: GEOMETRY,
        private: false,
        others_may_join: true,
        users: Vec::new(),
        spin: Duration::ZERO,
        placement: crate::config::Placement::Scheduler,
        grace: Duration::ZERO,
    };
    (config, socket, wire)
}

/// An engine that the test turns, where it answers, and the other end of its wire.
pub(crate) fn engine(dir: &Path) -> (Engine, PathBuf, MemoryPort) {
    let (config, socket, wire) = config(dir);
    (Engine::new(config).unwrap(), socket, wire)
}

/// A port that wakes its engine when the test says so.
struct Waking {
    port: MemoryPort,
    frames: Arc<OwnedFd>,
    link: Arc<OwnedFd>,
    attached: Arc<AtomicBool>,
    flushed: Arc<AtomicU64>,
}

/// The descriptors by which a test wakes such a port's engine.
pub(crate) struct WakeHandles {
    /// Readable when there are frames.
    pub(crate) frames: Arc<OwnedFd>,
    /// Readable when something has become of its interface.
    pub(crate) link: Arc<OwnedFd>,
    /// The interface is there.
    pub(crate) attached: Arc<AtomicBool>,
    /// How often it was to send all that it was given.
    pub(crate) flushed: Arc<AtomicU64>,
    _wire: MemoryPort,
}

impl Waking {
    /// Around this one; no descriptor is readable yet.
    fn new(port: MemoryPort) -> Self {
        let eventfd = || Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        Self {
            port,
            frames: eventfd(),
            link: eventfd(),
            attached: Arc::new(AtomicBool::new(true)),
            flushed: Arc::default(),
        }
    }
}

/// Makes one of them readable.
pub(crate) fn signal(fd: &OwnedFd) {
    rustix::io::write(fd, &1u64.to_ne_bytes()).unwrap();
}

impl Port for Waking {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.port.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.flushed.fetch_add(1, Ordering::Relaxed);
        self.port.flush()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.frames.as_fd())
    }

    fn link_events_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn take_link_events(&mut self) -> bool {
        let _ = rustix::io::read(&self.link, &mut [0u8; 8]);
        false
    }

    fn take_refusal(&mut self) -> Option<String> {
        Some("this interface cannot be used".to_owned())
    }

    fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// An engine that the test turns, and all that it needs.
pub(crate) struct Turned {
    pub(crate) engine: Engine,
    pub(crate) path: PathBuf,
    /// The other end of its wire.
    pub(crate) wire: MemoryPort,
    _dir: TempDir,
}

impl Turned {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// One whose port wakes it by descriptors; and the test's ends of these.
    pub(crate) fn waking(change: impl FnOnce(&mut Config)) -> (Self, WakeHandles) {
        let mut handles = None;
        let world = Self::with(|config| {
            let (port, wire) = pair(&MemoryConfig::default());
            let port = Waking::new(port);
            let (frames, link) = (port.frames.clone(), port.link.clone());
            let (attached, flushed) = (port.attached.clone(), port.flushed.clone());
            handles = Some(WakeHandles {
                frames,
                link,
                attached,
                flushed,
                _wire: wire,
            });
            config.port = Box::new(port);
            change(config);
        });
        (world, handles.unwrap())
    }

    /// One that is set up otherwise.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut config, path, wire) = config(dir.path());
        change(&mut config);
        Self {
            engine: Engine::new(config).unwrap(),
            path,
            wire,
            _dir: dir,
        }
    }

    /// Has the engine serve while a program does something in another thread.
    pub(crate) fn during<T: Send>(&mut self, what: impl FnOnce(&Path) -> T + Send) -> T {
        let path = self.path.clone();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || what(&path));
            while !thread.is_finished() {
                self.engine.turn_and_rest(REST).unwrap();
            }
            thread.join().unwrap()
        })
    }

    /// Programs come, each with a session of its own.
    pub(crate) fn programs<const N: usize>(&mut self) -> [Host; N] {
        self.during(|path| [(); N].map(|()| Host::new(path)))
    }

    /// One turn.
    pub(crate) fn turn(&mut self) -> bool {
        self.engine.turn().unwrap()
    }

    /// Some turns, in which all is done that takes no time.
    pub(crate) fn run_pending(&mut self) {
        self.turns(20);
    }

    /// So many turns.
    pub(crate) fn turns(&mut self, count: u32) {
        for _ in 0..count {
            self.turn();
        }
    }

    /// Time goes by, and the engine has its turns at the end of it.
    pub(crate) fn later(&mut self, microseconds: u64) {
        self.engine.clock.advance(microseconds);
        self.run_pending();
    }

    /// Turns it, with rests, until something is so.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Engine) -> bool) {
        let began = std::time::Instant::now();
        while !is_so(&mut self.engine) {
            assert!(began.elapsed() < common::TIMEOUT, "waited for {what}");
            self.engine.turn_and_rest(REST).unwrap();
        }
    }

    /// What is ahead of it.
    pub(crate) fn prospect(&mut self) -> Prospect {
        let engine = &mut self.engine;
        engine.lifetime.prospect(&mut engine.stack)
    }

    /// A session is to be looked over at once.
    pub(crate) fn look_over_now(&mut self, session: u32) {
        let now = self.engine.stack.now();
        self.engine.programs.look_over_now(session, now);
    }
}

/// A process beside a program's own, which has claimed a channel of its session as a rule.
pub(crate) struct Member(Child);

impl Member {
    /// One that the engine has taken on.
    pub(crate) fn new(world: &mut Turned, host: &Host, channel: u32) -> Self {
        let member = Self::unknown(host, channel);
        HostChannel::new(host.arena.clone(), channel).flag();
        host.doorbell.ring();
        let control = host.arena.control(channel);
        world.until("its channel", |_| control.state() == ChannelState::Open);
        member
    }

    /// Its pid.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// What the engine knows of it when it connects.
    pub(crate) fn peer(&self) -> Peer {
        let pidfd = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty());
        Peer {
            pid: self.id(),
            pidfd: pidfd.ok(),
        }
    }

    /// One of which the engine has not heard.
    pub(crate) fn unknown(host: &Host, channel: u32) -> Self {
        let member = Self::alone();
        member.claims(host, channel);
        member
    }

    /// One that has claimed no channel yet.
    pub(crate) fn alone() -> Self {
        let mut command = Command::new("sleep");
        let (nothing, nowhere) = (Stdio::null(), Stdio::null());
        command.arg("1000").stdin(nothing).stdout(nowhere);
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// It claims a channel, and does not say so.
    pub(crate) fn claims(&self, host: &Host, channel: u32) {
        let control = host.arena.control(channel);
        assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
        control.pid.store(self.0.id(), Ordering::Release);
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    }
}

/// It ends.
impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has two engines serve while programs do something in another thread.
pub(crate) fn during_both<T: Send>(
    one: &mut Turned,
    other: &mut Turned,
    what: impl FnOnce(&Path, &Path) -> T + Send,
) -> T {
    let paths = (one.path.clone(), other.path.clone());
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || what(&paths.0, &paths.1));
        while !thread.is_finished() {
            for world in [&mut *one, &mut *other] {
                world.engine.turn_and_rest(Duration::ZERO).unwrap();
            }
        }
        thread.join().unwrap()
    })
}
