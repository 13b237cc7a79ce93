//! The session of the tests' engine: who is in it, what they ask, what they are
//! told.

mod attach;
mod files;
mod peers;
mod requests;

use super::{ADDRESS, Behavior, Seen};
use longshore_hostif::adapter::SendStreams;
use longshore_hostif::attach::Token;
use longshore_hostif::{
    AdapterChannel, Address, Agreed, Arena, ArenaError, BlockFlags, ChannelState, Completion,
    EdgeFlags, Features, Geometry, Hurry, Loopback, Meeting, Request, Route, SocketId, Versions,
};
use longshore_ring::{Doorbell, Sleep, Waiter};
use peers::{Peer, RECEIVE_WINDOW};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub(super) const TOKEN: Token = Token([7; 16]);
/// The first of the ports that are given out.
const FIRST_PORT: u16 = 40_000;
/// How long a turn without work lasts.
const TURN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

struct Process {
    /// Its rings at each worker.
    rings: Vec<AdapterChannel>,
    /// Sockets of which there was no room to tell.
    unreported: BTreeSet<u32>,
    pidfd: Option<OwnedFd>,
}

pub(super) struct Session {
    pub(super) arena: Arc<Arena>,
    workers: Vec<Worker>,
    listener: OwnedFd,
    clients: Vec<OwnedFd>,
    processes: BTreeMap<u16, Process>,
    wake_fds: HashMap<u32, Arc<Doorbell>>,
    peers: BTreeMap<u32, Peer>,
    rcv_free: Vec<u32>,
    /// What programs have written, and the files that they have handed over.
    send: SendStreams,
    /// Bytes that another socket has received, by the socket that sends them and their place in
    /// its send stream.
    forwarded: BTreeMap<(u32, u64), Vec<u8>>,
    pub(super) behavior: Arc<Behavior>,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// Sockets whose waiters are to be woken.
    touched: Vec<u32>,
    to_wake: Vec<u32>,
    next_port: u16,
    /// What it speaks.
    versions: Versions,
}

impl Session {
    pub(super) fn open(
        path: &Path,
        geometry: Geometry,
        (versions, forwards): (Versions, bool),
        behavior: Arc<Behavior>,
        seen: Arc<Mutex<Seen>>,
    ) -> Result<Self, ArenaError> {
        let mut agreed = versions.agree(&Versions::OURS).unwrap_or(Agreed {
            version: versions.newest,
            features: versions.features,
        });
        agreed.features.set(Features::FORWARDS, forwards);
        let agreed = agreed.with_workers(geometry.workers);
        let arena = Arc::new(Arena::create_for(geometry, agreed)?);
        seen.lock().expect("not poisoned").rung = vec![0; geometry.workers as usize];
        let own = ADDRESS.parse().expect("an address");
        let route = |prefix_len, local| Route {
            address: own,
            prefix_len,
            local,
            scope: 0,
        };
        let routes = [route(32, true), route(24, false)];
        arena.header().routes.publish(&routes, Loopback::Kernel);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .expect("make the listener");
        bind(&listener, &SocketAddrUnix::new(path).expect("a short path"))
            .expect("bind the listener");
        listen(&listener, 16).expect("open the listener");
        Ok(Self {
            workers: (0..geometry.workers)
                .map(|worker| Worker::new(&arena, worker))
                .collect(),
            listener,
            clients: Vec::new(),
            processes: BTreeMap::new(),
            wake_fds: HashMap::new(),
            peers: BTreeMap::new(),
            rcv_free: (0..geometry.rcv_chunks).rev().collect(),
            send: files::send_streams(&arena),
            forwarded: BTreeMap::new(),
            behavior,
            seen,
            touched: Vec::new(),
            to_wake: Vec::new(),
            next_port: FIRST_PORT,
            versions,
            arena,
        })
    }

    /// Does what there is to do, then waits a little for more.
    pub(super) fn turn(&mut self) {
        self.let_processes_in();
        if !self.behavior.ignores_requests.load(Ordering::Relaxed) {
            self.take_requests();
        }
        self.tear_down_the_dead();
        self.look_at_files();
        for index in self.peers.keys().copied().collect::<Vec<_>>() {
            self.move_bytes(index);
        }
        for index in self.peers.keys().copied().collect::<Vec<_>>() {
            self.report(index);
        }
        self.publish();
        self.note();
        self.sleep();
    }

    fn sleep(&mut self) {
        for worker in &self.workers {
            worker.words.engine().declare(Sleep::Eventfd);
        }
        let ignores_all = self.behavior.ignores_requests.load(Ordering::Relaxed);
        let processes = &self.processes;
        let mut pending = false;
        for (at, worker) in self.workers.iter_mut().enumerate() {
            let has_some = |p: &Process| p.rings[at].pending(&self.arena);
            let has_some = processes.values().any(has_some);
            worker.is_due |= has_some;
            pending |= has_some && !ignores_all;
        }
        if !pending {
            let doorbells = self.workers.iter().map(|w| &w.doorbell);
            let mut fds: Vec<_> = doorbells.map(|d| PollFd::new(d, PollFlags::IN)).collect();
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
            fds.extend(self.clients.iter().map(|v| PollFd::new(v, PollFlags::IN)));
            let _ = poll(&mut fds, Some(&TURN));
            let are_rung: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            for (at, worker) in self.workers.iter_mut().enumerate() {
                if are_rung[at] {
                    worker.doorbell.clear();
                    worker.is_due = true;
                    self.seen.lock().expect("not poisoned").rung[at] += 1;
                }
            }
        }
        for worker in &self.workers {
            worker.words.engine().cancel();
        }
    }

    fn take_requests(&mut self) {
        for worker in 0..self.workers.len() {
            if self.workers[worker].looks() {
                self.take_requests_at(worker);
            }
        }
    }

    /// Takes the requests of all processes in their rings at one worker.
    fn take_requests_at(&mut self, worker: usize) {
        let geometry = *self.arena.geometry();
        for channel in 0..geometry.channels as u16 {
            let control = self.arena.control(u32::from(channel));
            if worker == 0 && control.state() == ChannelState::Claimed {
                control.set_state(ChannelState::Open);
                let pid = control.pid.load(Ordering::Acquire);
                self.processes
                    .insert(channel, process(&geometry, channel, pid));
            }
            let (word, bit) = (usize::from(channel) / 64, 1 << (channel % 64));
            let flags = &self.workers[worker].words.pending().channels[word];
            if flags.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                self.report_rest(channel);
            }
            while let Some(p) = self.processes.get_mut(&channel) {
                let rings = &mut p.rings[worker];
                let Ok(Some(message)) = rings.next(&self.arena) else {
                    rings.release(&self.arena);
                    break;
                };
                match Request::decode(&message) {
                    Ok(request) if self.worker_of(request.socket()) == worker => {
                        self.serve(channel, &request);
                    }
                    Ok(_) => self.seen.lock().expect("not poisoned").misrouted += 1,
                    Err(_) => self.seen.lock().expect("not poisoned").bad += 1,
                }
            }
        }
    }

    /// The worker that has a socket, as its name says.
    pub(super) fn worker_of(&self, socket: SocketId) -> usize {
        self.arena.naming().worker(socket) as usize
    }

    fn done(
        &mut self,
        channel: u16,
        socket: SocketId,
        tag: u32,
        waiter: Option<u16>,
        answer: Result<(u64, Address), u16>,
    ) {
        let (errno, (value, address)) = match answer {
            Ok(answer) => (0, answer),
            Err(errno) => (errno, (0, Address::NONE)),
        };
        let done = Completion::Done {
            socket,
            tag,
            errno,
            value,
            address,
        };
        let worker = self.worker_of(socket);
        if let Some(p) = self.processes.get_mut(&channel) {
            let rings = &mut p.rings[worker];
            rings.put(&self.arena, &done).expect("room for answers");
        }
        self.to_wake.extend(waiter.map(u32::from));
    }

    /// Tells a socket's processes what has changed.
    fn report(&mut self, index: u32) {
        let Some(peer) = self.peers.get_mut(&index) else {
            return;
        };
        if !std::mem::take(&mut peer.unreported) {
            return;
        }
        let edges = peer.edges();
        if edges.flags.contains(EdgeFlags::DEAD) {
            let block = self.arena.block(index);
            block.set_flags(BlockFlags::FAILED);
        }
        let completion = Completion::Edges {
            socket: peer.id,
            edges,
        };
        let worker = self.arena.naming().worker(peer.id) as usize;
        for channel in peer.subscribers.clone() {
            let lose = self
                .behavior
                .loses
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok();
            let Some(p) = self.processes.get_mut(&channel) else {
                continue;
            };
            let rings = &mut p.rings[worker];
            if lose || rings.put(&self.arena, &completion).is_err() {
                p.unreported.insert(index);
                rings.say_more(&self.arena).expect("room for it");
            }
        }
        self.touched.push(index);
    }

    /// Tells a process that has made room of what there was none for.
    fn report_rest(&mut self, channel: u16) {
        let Some(p) = self.processes.get_mut(&channel) else {
            return;
        };
        for rings in &mut p.rings {
            rings.look_for_room(&self.arena);
        }
        while let Some(index) = p.unreported.pop_first() {
            let Some(peer) = self.peers.get(&index) else {
                continue;
            };
            let edges = Completion::Edges {
                socket: peer.id,
                edges: peer.edges(),
            };
            let rings = &mut p.rings[self.arena.naming().worker(peer.id) as usize];
            if rings.put(&self.arena, &edges).is_err() {
                p.unreported.insert(index);
                rings.say_more(&self.arena).expect("room for it");
                break;
            }
            self.touched.push(index);
        }
    }

    fn publish(&mut self) {
        for p in self.processes.values_mut() {
            for rings in &mut p.rings {
                rings.publish(&self.arena);
            }
        }
        Waiter::fence();
        for index in self.touched.drain(..) {
            let block = self.arena.block(index);
            self.to_wake.extend(block.waiters());
            if block.unlisted_waiters.load(Ordering::Relaxed) != 0 {
                self.to_wake.extend(0..self.arena.geometry().waiters);
            }
        }
        for waiter in self.to_wake.drain(..) {
            self.arena.waiters()[waiter as usize].wake(self.wake_fds.get(&waiter).map(Arc::as_ref));
        }
    }

    fn tear_down_the_dead(&mut self) {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let dead: Vec<u16> = self
            .processes
            .iter()
            .filter(|(_, p)| {
                p.pidfd.as_ref().is_some_and(|fd| {
                    let mut fds = [PollFd::new(fd, PollFlags::IN)];
                    poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0)
                })
            })
            .map(|(channel, _)| *channel)
            .collect();
        for channel in dead {
            self.processes.remove(&channel);
            let control = self.arena.control(u32::from(channel));
            control.set_state(ChannelState::Free);
            for index in 0..self.arena.geometry().sockets {
                if self.arena.set_held(u32::from(channel), index, false)
                    && !self.is_held(index)
                    && let Some(peer) = self.peers.get_mut(&index)
                {
                    peer.orphan = true;
                    peer.snd_shut = true;
                }
            }
        }
    }

    fn is_held(&self, index: u32) -> bool {
        (0..self.arena.geometry().channels).any(|c| {
            self.arena.control(c).state() != ChannelState::Free && self.arena.holds(c, index)
        })
    }

    fn note(&self) {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.turns += 1;
        seen.open = self.peers.len();
        seen.rcv_chunks = self.arena.geometry().rcv_chunks as usize - self.rcv_free.len();
    }

    pub(super) fn window(&self) -> u64 {
        match self.behavior.window.load(Ordering::Relaxed) {
            0 => RECEIVE_WINDOW,
            window => u64::from(window),
        }
    }

    /// Says that it is over, and wakes everybody.
    pub(super) fn close(&mut self) {
        self.arena.header().closed.store(1, Ordering::Release);
        self.to_wake.extend(0..self.arena.geometry().waiters);
        self.publish();
    }
}

/// One worker: the thread of the test plays all of them. One that sleeps and is not woken looks at no
/// requests that are to be fetched now, so that a doorbell that is not rung, or another's, shows.
struct Worker {
    doorbell: Doorbell,
    words: Meeting,
    /// It has found requests, or was woken, and has not looked since.
    is_due: bool,
    is_alone: bool,
}

impl Worker {
    fn new(arena: &Arena, worker: u32) -> Self {
        Self {
            doorbell: Doorbell::new().expect("make a doorbell"),
            words: arena.meeting(worker),
            is_due: true,
            is_alone: arena.geometry().workers == 1,
        }
    }

    /// Whether it looks at requests in this turn. Those that can wait it finds by itself.
    fn looks(&mut self) -> bool {
        let pending = &self.words.pending().any;
        let are_due = pending.load(Ordering::SeqCst) & Hurry::Now as u32 != 0;
        let looks = self.is_alone || self.is_due || !are_due;
        if looks {
            self.is_due = false;
            pending.store(0, Ordering::SeqCst);
        }
        looks
    }
}

fn process(geometry: &Geometry, channel: u16, pid: u32) -> Process {
    let pidfd = Pid::from_raw(pid as i32).and_then(|p| pidfd_open(p, PidfdFlags::empty()).ok());
    Process {
        rings: (0..geometry.workers)
            .map(|worker| AdapterChannel::new(geometry.ring(channel.into(), worker)))
            .collect(),
        unreported: BTreeSet::new(),
        pidfd,
    }
}
