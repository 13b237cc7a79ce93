//! Which of many processes that wait for a connection are told of one, and woken: as many as have
//! come, and the others when nobody accepts.

use super::single::Single;
use crate::requests::From;
use crate::turns::WAKEUPS;
use crate::{Account, Of, testing};
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{
    ACCEPT_RECORD, Completion, EdgeFlags, Features, Geometry, HostChannel, Query, Request, SocketId,
};
use longshore_ring::Sleep;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const RECORD: u64 = ACCEPT_RECORD as u64;
/// More than the waiters that a socket's block lists.
const PROCESSES: u16 = 20;
/// Longer than those that were not woken wait for those that were.
const LATE_US: u64 = 20_000;

const GEOMETRY: Geometry = Geometry {
    channels: 320,
    waiters: 320,
    sockets: 4_096,
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
        Self::of(PROCESSES)
    }

    /// So many.
    fn of(processes: u16) -> Self {
        let mut single = Single::new(GEOMETRY, processes);
        let socket = single.listen();
        (1..processes).for_each(|channel| single.ask(channel, &Request::Subscribe { socket }));
        single.turn();
        let header = single.arena.header();
        let end = u32::from(processes);
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
        let channels = 0..u32::from(processes);
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
        let waiters = &self.single.arena.waiters()[..self.channels.len()];
        waiters.iter().for_each(|w| w.declare(Sleep::Futex));
    }

    /// Those that still sleep.
    fn asleep(&self) -> Vec<u16> {
        let waiters = self.single.arena.waiters();
        let sleeps = |channel: &u16| waiters[usize::from(*channel)].is_declared();
        (0..self.channels.len() as u16).filter(sleeps).collect()
    }

    /// So many clients connect; who is told of it, and who is woken.
    fn connect(&mut self, clients: u16) -> (Vec<u16>, Vec<u16>) {
        for _ in 0..clients {
            self.single.connect(self.next_client);
            self.next_client += 1;
        }
        self.after(10)
    }

    /// The processes that are told of the listener within that time, and those that are woken: by what each reads, and
    /// whether it still sleeps.
    fn after(&mut self, us: u64) -> (Vec<u16>, Vec<u16>) {
        let before = self.asleep();
        self.single.turn_after(us);
        (0..3).for_each(|_| self.single.turn());
        let reported = self.take_told();
        let asleep = self.asleep();
        let woken = before.into_iter().filter(|c| !asleep.contains(c));
        (reported, woken.collect())
    }

    /// The processes that were told how far the listener's stream reaches now.
    fn take_told(&mut self) -> Vec<u16> {
        let edge = u64::from(self.next_client) * RECORD;
        let mut reported = Vec::new();
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
                reported.push(index as u16);
            }
        }
        reported
    }

    /// All read what they are told, whatever it is.
    fn discard_told(&mut self) {
        for channel in &mut self.channels {
            while channel.get().unwrap().is_some() {}
            channel.release();
        }
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
        self.discard_told();
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
    let (reported, woken) = asleep.connect(1);
    assert_eq!((reported.len(), &reported), (1, &woken));
    assert_ne!(reported, [3]);
    asleep.accept(woken[0]);
    asleep.sleep();
    let (reported, woken) = asleep.connect(2);
    assert_eq!(
        (reported.len(), reported),
        (2, woken),
        "as many as have come"
    );
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

/// The connection that a process was told of, and that is gone, is told to all others at once.
#[test]
fn who_is_gone_leaves_its_connection_to_the_others() {
    let mut asleep = Asleep::new();
    asleep.connect(1);
    asleep.accept(3);
    asleep.sleep();
    assert_eq!(asleep.connect(1), (vec![3], vec![3]));
    let (session, listener) = (asleep.single.session(), asleep.listener);
    let key = asleep.single.stack.endpoints.key_of(session, listener);
    let mut lifecycle = asleep.single.stack.lifecycle();
    lifecycle.forget_subscriber(key.expect("it listens"), 3);
    let mut others = all();
    others.retain(|channel| *channel != 3);
    assert_eq!(asleep.after(10), (others.clone(), others));
}

#[test]
fn more_than_are_known_to_sleep_wake_all() {
    let mut asleep = Asleep::new();
    asleep.connect(1);
    asleep.accept(3);
    asleep.sleep();
    let (reported, woken) = asleep.connect(9);
    assert_eq!((reported, woken), (vec![3], all()), "a block lists eight");
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

/// A session's sleepers are woken some in each turn, and that others wait is counted: as it ends, say,
/// of which all are to hear.
#[test]
fn more_sleepers_than_a_turn_wakes_are_woken_in_the_next() {
    const A_TURN: usize = 32;
    const ALL: usize = A_TURN + 8;
    let mut asleep = Asleep::of(ALL as u16);
    let account = Arc::new(Account::new(1_000));
    asleep.single.in_stack_mut().account = Some(account.clone());
    asleep.single.in_stack_mut().end();
    asleep.single.turn();
    assert_eq!(asleep.asleep().len(), ALL - A_TURN);
    let turn = asleep.single.stack.counters.event_loop.turns;
    let left = account.spent.left(Of::Wakeups, turn) as usize;
    assert_eq!(left, WAKEUPS as usize - A_TURN);
    assert_eq!(asleep.single.stack.counters.waits.wakeups, 1);
    asleep.single.turn();
    assert!(asleep.asleep().is_empty());
    assert_eq!(asleep.single.stack.counters.waits.wakeups, 1);
}

/// A process that is given a socket, and sleeps on it, looks at how it stands.
#[test]
fn who_is_given_a_socket_is_woken_to_look_at_it() {
    let mut asleep = Asleep::of(2);
    let socket = asleep.listener;
    asleep.single.ask(1, &Request::Subscribe { socket });
    let (told, woken) = asleep.after(10);
    assert!(
        told.contains(&1) && woken.contains(&1),
        "{told:?} {woken:?}"
    );
}

/// Those who listen are told of connections when the process that was told of them is gone, and only
/// then.
#[test]
fn who_is_gone_leaves_nothing_where_nothing_has_come() {
    for has_come in [false, true] {
        let mut asleep = Asleep::new();
        asleep.connect(1);
        asleep.accept(3);
        asleep.sleep();
        if has_come {
            assert_eq!(asleep.connect(1), (vec![3], vec![3]));
        }
        let (session, socket) = (asleep.single.session(), asleep.listener);
        let key = asleep.single.stack.endpoints.key_of(session, socket);
        let mut lifecycle = asleep.single.stack.lifecycle();
        lifecycle.forget_subscriber(key.expect("it is open"), 3);
        let (told, _) = asleep.after(10);
        assert_eq!(!told.is_empty(), has_come, "{told:?}");
    }
}

/// What is done for a while: look-ups of sockets, descriptors to the host, and wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    steps: u32,
    descriptors: u64,
    wakeups: u64,
}

impl Asleep {
    fn work(&mut self, work: impl FnOnce(&mut Self)) -> Work {
        const MANY: u32 = u32::MAX;
        let before = self.single.to_host();
        testing::panic_in(self.single.session(), MANY);
        work(self);
        let left = testing::panic_no_more().expect("nobody has that many");
        let after = self.single.to_host();
        Work {
            steps: MANY - left,
            descriptors: after.descriptors.count - before.descriptors.count,
            wakeups: after.wakeups - before.wakeups,
        }
    }

    /// The first connection comes, of which all are told, some in each turn; one accepts it, and
    /// all sleep again.
    fn begin(&mut self) {
        self.connect(1);
        (0..self.channels.len()).for_each(|_| self.single.turn());
        assert!(self.asleep().is_empty(), "nobody is known to accept");
        let all = 0..self.channels.len() as u16;
        all.clone().for_each(|channel| self.wake_up(channel));
        self.accept(0);
        all.for_each(|channel| self.sleep_again(channel));
    }

    /// A process that was woken leaves the list of those that wait, as it does before it accepts.
    fn wake_up(&self, channel: u16) {
        let block = self.single.arena.block(self.listener.index);
        block.remove_waiter(channel.into());
    }

    /// It has accepted, and waits for the next.
    fn sleep_again(&self, channel: u16) {
        let block = self.single.arena.block(self.listener.index);
        block.add_waiter(channel.into());
        self.single.arena.waiters()[usize::from(channel)].declare(Sleep::Futex);
    }
}

/// Connections come one by one, at a listener of so many processes, of which so many are
/// busy with the last ones: what each costs, and how often each process has accepted.
fn serve(processes: u16, busy: usize, connections: u16) -> (Vec<Work>, Vec<u32>) {
    let mut asleep = Asleep::of(processes);
    asleep.begin();
    let (mut accepted, mut at_work) = (vec![0; processes.into()], VecDeque::new());
    let mut costs = Vec::new();
    for _ in 0..connections {
        let (mut reported, mut woken) = (Vec::new(), Vec::new());
        let cost = asleep.work(|asleep| (reported, woken) = asleep.connect(1));
        assert_eq!((reported.len(), &reported), (1, &woken));
        let one = woken[0];
        assert!(!at_work.contains(&one), "it sleeps");
        asleep.wake_up(one);
        asleep.accept(one);
        accepted[usize::from(one)] += 1;
        costs.push(cost);
        at_work.push_back(one);
        if at_work.len() > busy {
            let done = at_work.pop_front().expect("one more than are busy");
            asleep.sleep_again(done);
        }
    }
    (costs, accepted)
}

/// What a connection costs does not grow with the processes that have its listener: one that sleeps
/// is told of it and woken, and the others are neither.
#[test]
fn a_connection_costs_the_same_at_a_listener_of_many_processes() {
    const CONNECTIONS: u16 = 1_000;
    for busy in [0, 1, 5] {
        let (few, _) = serve(busy as u16 + 3, busy, CONNECTIONS);
        let (many, accepted) = serve(256, busy, CONNECTIONS);
        assert_eq!(accepted.iter().sum::<u32>(), u32::from(CONNECTIONS));
        for (few, many) in few.iter().zip(&many) {
            assert_eq!(many, few, "{busy}");
            assert_eq!((many.wakeups, many.descriptors), (1, 1));
        }
    }
}

/// If more are busy than a block lists, all others are woken, of whom as many as it lists are known then:
/// so a wake-up in vain is for each process once in so many connections.
#[test]
fn those_that_are_not_listed_are_woken_in_vain_once_in_eight_connections_at_most() {
    const PROCESSES: u16 = 256;
    const LISTED: u16 = 8;
    const CONNECTIONS: u16 = 800;
    let mut asleep = Asleep::of(PROCESSES);
    asleep.begin();
    let mut at_work = VecDeque::new();
    let mut accepted = 0;
    let work = asleep.work(|asleep| {
        for _ in 0..CONNECTIONS {
            let (_, woken) = asleep.connect(1);
            let one = *woken.first().expect("somebody is woken");
            woken.iter().for_each(|channel| asleep.wake_up(*channel));
            asleep.accept(one);
            accepted += 1;
            woken[1..]
                .iter()
                .for_each(|channel| asleep.sleep_again(*channel));
            at_work.push_back(one);
            if at_work.len() > 64 {
                let done = at_work.pop_front().expect("more than are busy");
                asleep.sleep_again(done);
            }
        }
    });
    assert_eq!(accepted, CONNECTIONS);
    let in_vain = work.wakeups - u64::from(CONNECTIONS);
    assert!(
        in_vain <= u64::from(CONNECTIONS / LISTED * PROCESSES),
        "{in_vain}"
    );
}

/// What a turn costs in which a connection comes to a listener of so many processes, all of which
/// have accepted and are asleep or at work, and another session asks something: the worst of many
/// turns. That is answered in the same turn.
fn beside_a_question(processes: u16, are_asleep: bool) -> Work {
    let mut asleep = Asleep::of(processes);
    let (session, arena) = asleep.single.add_session(GEOMETRY, Features::empty());
    let mut other = HostChannel::new(arena, 0);
    asleep.connect(1);
    (0..processes).for_each(|channel| asleep.accept(channel));
    if !are_asleep {
        (0..processes).for_each(|channel| asleep.wake_up(channel));
    }
    let mut worst = Work {
        steps: 0,
        descriptors: 0,
        wakeups: 0,
    };
    for tag in 0..200 {
        if are_asleep {
            asleep.sleep();
        }
        let request = Request::Query {
            socket: SocketId {
                index: 0,
                generation: 0,
            },
            tag,
            waiter: None,
            query: Query::SendQueue,
        };
        let from = From {
            session,
            channel: 0,
        };
        let cost = asleep.work(|asleep| {
            asleep.single.connect(asleep.next_client);
            asleep.next_client += 1;
            let stack = &mut asleep.single.stack;
            stack.handle_request(from, &request, &Immediate::default());
            asleep.single.turn();
        });
        let answer = other.get().unwrap().flatten();
        let is_it = matches!(answer, Some(Completion::Done { tag: t, .. }) if t == tag);
        assert!(is_it, "{answer:?}");
        other.release();
        worst = Work {
            steps: worst.steps.max(cost.steps),
            descriptors: worst.descriptors.max(cost.descriptors),
            wakeups: worst.wakeups.max(cost.wakeups),
        };
        asleep.discard_told();
        asleep.accept(tag as u16 % processes);
    }
    worst
}

/// Where those that have the listener sleep, a turn with a connection costs the same however many
/// they are. Where they are at work, more of them are told of it, but in each turn no more than
/// a few.
#[test]
fn a_question_is_answered_in_its_turn_beside_a_listener_of_many_processes() {
    let (few, many) = (beside_a_question(8, true), beside_a_question(256, true));
    assert_eq!(many, few);
    let (few, many) = (beside_a_question(8, false), beside_a_question(256, false));
    assert!(many.steps <= few.steps * 12 / 10, "{many:?} and {few:?}");
    assert!(many.descriptors <= 32 && many.wakeups == 0, "{many:?}");
}
