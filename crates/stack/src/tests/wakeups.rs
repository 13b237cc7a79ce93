//! Which of many processes that wait for a connection are told of one, and woken: as many as have
//! come, and the others when nobody accepts.

use super::single::Single;
use longshore_hostif::{
    ACCEPT_RECORD, Completion, EdgeFlags, Geometry, HostChannel, Request, SocketId,
};
use longshore_ring::Sleep;
use std::sync::atomic::Ordering;

const RECORD: u64 = ACCEPT_RECORD as u64;
/// More than the waiters that a socket's block lists.
const PROCESSES: u16 = 20;
/// Longer than those that were not woken wait for those that were.
const LATE_US: u64 = 20_000;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
    workers: 1,
};

/// Processes of which each has a thread that sleeps until a connection comes.
struct Asleep {
    single: Single,
    listener: SocketId,
    /// By which each process reads what it is told.
    channels: Vec<HostChannel>,
    next_client: u16,
}

impl Asleep {
    fn new() -> Self {
        let mut single = Single::new(GEOMETRY, PROCESSES);
        let socket = single.listen();
        (1..PROCESSES).for_each(|channel| single.ask(channel, &Request::Subscribe { socket }));
        single.turn();
        let header = single.arena.header();
        let end = u32::from(PROCESSES);
        header.waiters_end.store(end, Ordering::Release);
        let block = single.arena.block(socket.index);
        for channel in 0..end {
            let name = 1_000 + channel;
            let control = single.arena.control(channel);
            control.pid.store(name, Ordering::Relaxed);
            let waiter = &single.arena.waiters()[channel as usize];
            waiter.owner.store(name, Ordering::Relaxed);
            block.add_waiter(channel);
        }
        let channels = 0..u32::from(PROCESSES);
        let channels = channels.map(|channel| HostChannel::new(single.arena.clone(), channel));
        let mut asleep = Self {
            channels: channels.collect(),
            single,
            listener: socket,
            next_client: 0,
        };
        asleep.sleep();
        asleep.take_told();
        asleep
    }

    /// All sleep.
    fn sleep(&self) {
        let waiters = &self.single.arena.waiters()[..usize::from(PROCESSES)];
        waiters.iter().for_each(|w| w.declare(Sleep::Futex));
    }

    /// Those that still sleep.
    fn asleep(&self) -> Vec<u16> {
        let waiters = self.single.arena.waiters();
        let sleeps = |channel: &u16| waiters[usize::from(*channel)].is_declared();
        (0..PROCESSES).filter(sleeps).collect()
    }

    /// So many clients connect; who is told of it, and who is woken.
    fn connect(&mut self, clients: u16) -> (Vec<u16>, Vec<u16>) {
        for _ in 0..clients {
            self.single.connect(self.next_client);
            self.next_client += 1;
        }
        self.after(10)
    }

    /// Who is told of the listener within that time, and who is woken: by what each reads, and
    /// whether it still sleeps.
    fn after(&mut self, us: u64) -> (Vec<u16>, Vec<u16>) {
        let before = self.asleep();
        self.single.turn_after(us);
        (0..3).for_each(|_| self.single.turn());
        let told = self.take_told();
        let asleep = self.asleep();
        let woken = before.into_iter().filter(|c| !asleep.contains(c));
        (told, woken.collect())
    }

    /// The processes that were told how far the listener's stream reaches now.
    fn take_told(&mut self) -> Vec<u16> {
        let edge = u64::from(self.next_client) * RECORD;
        let mut told = Vec::new();
        for (index, channel) in self.channels.iter_mut().enumerate() {
            let mut edges = None;
            while let Some(completion) = channel.get().unwrap() {
                if let Some(Completion::Edges { socket, edges: e }) = completion
                    && socket == self.listener
                {
                    edges = Some(e.rcv_edge);
                }
            }
            channel.release();
            if let Some(edges) = edges {
                assert_eq!(edges, edge, "process {index}");
                told.push(index as u16);
            }
        }
        told
    }

    /// The process of this channel accepts all that came.
    fn accept(&mut self, channel: u16) {
        let edges = Request::Edges {
            socket: self.listener,
            snd_edge: 0,
            rcv_consumed: u64::from(self.next_client) * RECORD,
            flags: EdgeFlags::empty(),
            immediate: 0,
        };
        self.single.ask(channel, &edges);
        self.single.turn();
        self.take_told();
    }
}

fn all() -> Vec<u16> {
    (0..PROCESSES).collect()
}

#[test]
fn a_connection_wakes_one_of_those_that_sleep() {
    let mut asleep = Asleep::new();
    let first = asleep.connect(1);
    assert_eq!(first, (all(), all()), "nobody is known to accept");
    asleep.accept(3);
    asleep.sleep();
    assert_eq!(
        asleep.connect(1),
        (vec![3], vec![3]),
        "it has accepted before"
    );
    asleep.accept(3);
    // It does not sleep now: another is told, and not it.
    let (told, woken) = asleep.connect(1);
    assert_eq!((told.len(), &told), (1, &woken));
    assert_ne!(told, [3]);
    asleep.accept(woken[0]);
    asleep.sleep();
    let (told, woken) = asleep.connect(2);
    assert_eq!((told.len(), told), (2, woken), "as many as have come");
}

#[test]
fn all_are_told_and_woken_if_nobody_accepts() {
    let mut asleep = Asleep::new();
    asleep.connect(1);
    asleep.accept(3);
    asleep.sleep();
    assert_eq!(asleep.connect(1), (vec![3], vec![3]));
    let soon = asleep.after(LATE_US / 4);
    assert_eq!(soon, (vec![], vec![]), "it may wait for a processor");
    let mut others = all();
    others.retain(|channel| *channel != 3);
    assert_eq!(asleep.after(LATE_US), (all(), others));
}

#[test]
fn more_than_are_known_to_sleep_wake_all() {
    let mut asleep = Asleep::new();
    asleep.connect(1);
    asleep.accept(3);
    asleep.sleep();
    let (told, woken) = asleep.connect(9);
    assert_eq!((told, woken), (vec![3], all()), "a block lists eight");
}

#[test]
fn who_sleeps_is_woken_when_another_process_shuts_the_listener_down() {
    let mut asleep = Asleep::new();
    let shut = Request::Edges {
        socket: asleep.listener,
        snd_edge: 0,
        rcv_consumed: 0,
        flags: EdgeFlags::SHUT_RD,
        immediate: 0,
    };
    asleep.single.ask(3, &shut);
    assert_eq!(asleep.after(10), (all(), all()));
}
