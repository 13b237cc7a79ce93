//! An engine with two workers, and a process that has sockets at both.

use super::*;
use crate::abi::{AcceptRecord, Address, BlockFlags, Edges, Features, Naming, SocketState};
use crate::adapter::{Immediate, Next};
use crate::{ArenaError, EdgeFlags, PutError};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

const CHANNEL: u16 = 3;
const TWO: Geometry = Geometry {
    workers: 2,
    ..Geometry::SMALL
};
const NAMING: Naming = Naming::of(Features::WORKERS);

fn agreed() -> Agreed {
    Agreed::OURS.with_workers(2)
}

struct Two {
    workers: [AdapterSession; 2],
    session: HostSession,
    host: HostChannel,
    doorbell: Doorbell,
}

impl Two {
    fn new() -> Self {
        let signaler = Arc::new(EventfdSignaler::for_one());
        let first = AdapterSession::create_for(TWO, agreed(), signaler.clone()).unwrap();
        let second = first.for_worker(1, signaler.clone()).unwrap();
        assert!(
            first.for_worker(0, signaler.clone()).is_none(),
            "it is that"
        );
        assert!(first.for_worker(2, signaler).is_none());
        let mut workers = [first, second];
        for worker in &mut workers {
            worker.open_channel(CHANNEL);
        }
        let further = vec![Doorbell::new().unwrap()];
        let session = HostSession::with_doorbells(workers[0].arena(), further);
        Self {
            host: session.channel(CHANNEL.into()),
            session,
            workers,
            doorbell: Doorbell::new().unwrap(),
        }
    }

    /// A socket that a worker has, by its block's name and by that of its place.
    fn socket(&self, index: u32, worker: u32) -> SocketId {
        let block = self.session.block(index);
        let generation = block.begin_at(worker, SocketState::Open, BlockFlags::empty());
        SocketId { index, generation }
    }

    fn put(&mut self, request: Request) {
        self.host.put(&request).unwrap();
    }

    /// The requests that a worker finds, whose flags it takes.
    fn taken(&mut self, worker: usize) -> Vec<Request> {
        let worker = &mut self.workers[worker];
        worker.pending.begin();
        let flagged = worker.pending.take_flags(0);
        assert!(flagged == 0 || flagged == 1 << CHANNEL);
        let mut all = Vec::new();
        while flagged != 0
            && let Next::Request(message, _) = worker.next_request(CHANNEL, 8)
        {
            all.extend(Request::decode(&message).ok());
        }
        if !all.is_empty() {
            worker.channels.note_taken(CHANNEL);
            assert!(!worker.release_requests(crate::adapter::UnderWay::Nothing));
        }
        all
    }

    fn asleep(&self) -> [bool; 2] {
        [0, 1].map(|worker| {
            self.workers[worker]
                .pending
                .meeting()
                .engine()
                .is_declared()
        })
    }

    fn reported(&mut self) -> Vec<Completion> {
        let mut all = Vec::new();
        while let Some(completion) = self.host.get().unwrap() {
            all.extend(completion);
        }
        self.host.release();
        all
    }
}

fn subscribe(socket: SocketId) -> Request {
    Request::Subscribe { socket }
}

fn edges(rcv_edge: u64) -> Edges {
    Edges {
        rcv_edge,
        ..Edges::default()
    }
}

#[test]
fn a_request_goes_to_the_worker_that_has_its_socket_and_wakes_that_alone() {
    let mut two = Two::new();
    let sockets = [two.socket(1, 0), two.socket(2, 1)];
    assert_eq!(sockets.map(|socket| two.session.worker_of(socket)), [0, 1]);
    for (at, socket) in sockets.into_iter().enumerate() {
        for worker in &two.workers {
            worker.pending.declare_asleep();
            assert!(!worker.still_has_requests());
        }
        two.put(subscribe(socket));
        assert_eq!(two.host.staged(), 1);
        two.host.publish(&two.doorbell, true);
        assert_eq!(two.asleep(), [at != 0, at != 1]);
        let has_some = [0, 1].map(|worker| two.workers[worker].pending.has_any());
        assert_eq!(has_some, [at == 0, at == 1]);
        assert_eq!(two.taken(1 - at), []);
        assert_eq!(two.taken(at), [subscribe(socket)]);
        assert!(two.workers.iter().all(|worker| !worker.pending.has_any()));
    }
    // Two at once are a batch for each.
    for socket in sockets {
        two.put(subscribe(socket));
    }
    two.host.publish(&two.doorbell, true);
    for (at, socket) in sockets.into_iter().enumerate() {
        assert_eq!(two.taken(at), [subscribe(socket)]);
        let crossed = two.workers[at].crossings().to_adapter.descriptors;
        assert_eq!((crossed.count, crossed.transfers), (2, 2));
        assert_eq!(two.workers[at].meter.misrouted(), 0);
    }
}

/// What is published for later is not looked at by a worker that has nothing of it.
#[test]
fn what_can_wait_is_hurried_at_the_workers_that_have_some() {
    let mut two = Two::new();
    let socket = two.socket(2, 1);
    two.put(subscribe(socket));
    two.host.publish_for(Hurry::Later, &two.doorbell, false);
    let pending = |two: &Two| {
        [0, 1].map(|worker| {
            let any = &two.workers[worker].pending.meeting().pending().any;
            any.load(Ordering::Relaxed)
        })
    };
    assert_eq!(pending(&two), [0, Hurry::Later as u32]);
    for worker in &two.workers {
        worker.pending.declare_asleep();
    }
    two.host.hurry(&two.doorbell);
    let [_, second] = pending(&two);
    assert!(second & Hurry::Now as u32 != 0);
    assert!(!two.asleep()[1]);
    assert_eq!(two.taken(1), [subscribe(socket)]);
    // One that looks at the session no more is rung for.
    assert!(two.workers[1].pending.park());
    two.put(subscribe(socket));
    two.host.publish_for(Hurry::Later, &two.doorbell, false);
    assert!(two.asleep()[1], "it takes that back itself");
    two.workers[1].pending.declare_awake();
    two.session.hurry_all(&two.doorbell);
    assert!(pending(&two).iter().all(|any| any & Hurry::Now as u32 != 0));
    for worker in &two.workers {
        worker.pending.declare_asleep();
    }
    two.session.hurry_all(&two.doorbell);
    assert_eq!(two.asleep(), [false, false]);
}

/// That is what it was not woken for, and what it may leave for later, however much of it there is.
#[test]
fn a_worker_is_hurried_for_what_it_need_not_have_fetched() {
    for (hurry, wake, is_owed) in [
        (Hurry::Later, false, true),
        (Hurry::Soon, true, true),
        (Hurry::Now, false, true),
        (Hurry::Now, true, false),
    ] {
        let mut two = Two::new();
        let socket = two.socket(2, 1);
        for _ in 0..2 {
            two.put(subscribe(socket));
            two.host.publish_for(hurry, &two.doorbell, wake);
        }
        let pending = &two.workers[1].pending.meeting().pending().any;
        pending.store(0, Ordering::Relaxed);
        two.host.hurry(&two.doorbell);
        let is_hurried = pending.load(Ordering::Relaxed) & Hurry::Now as u32 != 0;
        assert_eq!(is_hurried, is_owed, "{hurry:?} {wake}");
    }
}

#[test]
fn completions_of_all_workers_are_taken_and_each_counts_its_own() {
    let mut two = Two::new();
    let sockets = [two.socket(1, 0), two.socket(2, 1)];
    for (at, socket) in sockets.into_iter().enumerate() {
        assert!(two.workers[at].put_edges(CHANNEL, socket, &edges(10 + at as u64)));
        assert!(!two.host.pending());
    }
    for worker in &mut two.workers {
        worker.publish();
    }
    assert!(two.host.pending() && two.session.has_completions(CHANNEL.into()));
    let reported = two.reported();
    let expected = [0, 1].map(|at| Completion::Edges {
        socket: sockets[at],
        edges: edges(10 + at as u64),
    });
    assert_eq!(reported, expected);
    assert!(!two.host.pending() && !two.session.has_completions(CHANNEL.into()));
    for (worker, socket) in two.workers.iter_mut().zip(sockets) {
        let crossed = worker.crossings().to_host.descriptors;
        assert_eq!(
            (crossed.count, crossed.transfers, crossed.bytes),
            (1, 1, 24)
        );
        worker.meter.begin(socket);
        assert!(worker.put_edges(CHANNEL, socket, &edges(20)));
        let of_socket = worker.meter.of(socket).to_host.descriptors;
        assert_eq!((of_socket.count, of_socket.bytes), (1, 24));
    }
}

/// The first worker has told nothing.
#[test]
fn completions_of_a_further_worker_alone_are_seen() {
    let mut two = Two::new();
    let socket = two.socket(2, 1);
    let channel = u32::from(CHANNEL);
    assert!(!two.session.has_completions(channel));
    assert!(two.workers[1].put_edges(CHANNEL, socket, &edges(1)));
    two.workers[1].publish();
    assert!(two.session.has_completions(channel));
    assert!(!two.session.has_completions(channel + 1));
    assert_eq!(two.reported().len(), 1);
    assert!(!two.session.has_completions(channel));
}

/// It sleeps in one place for the sockets of both: whoever comes first wakes it.
#[test]
fn a_thread_that_waits_for_sockets_of_both_is_woken_once() {
    let mut two = Two::new();
    let sockets = [two.socket(1, 0), two.socket(2, 1)];
    let waiter = two.session.waiters().claim(7, 0).unwrap();
    for socket in sockets {
        two.session.block(socket.index).add_waiter(waiter);
    }
    two.session.waiters().at(waiter).declare(Sleep::Futex);
    let mut woken = Vec::new();
    for (worker, socket) in two.workers.iter_mut().zip(sockets) {
        worker.put_edges(CHANNEL, socket, &edges(1));
        worker.wakeups.note_socket(socket.index);
        assert!(worker.publish());
        worker.wake(8);
        woken.push(worker.crossings().to_host.wakeups);
    }
    assert_eq!(woken, [1, 0]);
    assert!(!two.session.waiters().at(waiter).is_declared());
}

#[test]
#[cfg_attr(miri, ignore = "it has no such eventfds")]
fn all_workers_wake_by_the_eventfd_of_a_waiter() {
    let mut two = Two::new();
    let waiter = two.session.waiters().claim(7, 0).unwrap();
    let [first, second] = &mut two.workers;
    let fd = first.make_eventfd(waiter, || Some(None)).unwrap();
    let fd = fd.try_clone_to_owned().unwrap();
    first.wakeups.share_eventfd(waiter, &mut second.wakeups);
    let rung = || {
        let mut count = [0; 8];
        rustix::io::read(&fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    };
    let socket = SocketId {
        index: 2,
        generation: NAMING.next(0, 1),
    };
    for worker in [second, first] {
        two.session.waiters().at(waiter).declare(Sleep::Eventfd);
        worker.wakeups.note_waiter(Some(waiter as u16), socket);
        worker.publish();
        worker.wake(8);
        assert_eq!(rung(), 1);
    }
}

#[test]
fn what_is_asked_of_a_worker_that_has_not_the_socket_is_counted_and_no_request() {
    let mut two = Two::new();
    let (first, second) = (two.socket(1, 0), two.socket(2, 1));
    let none = SocketId {
        index: 4,
        generation: NAMING.next(0, 9),
    };
    assert_eq!(two.host.put(&subscribe(none)), Err(PutError::NoWorker(9)));
    let of_none = two.host.put_accepted(&subscribe(first), none);
    assert_eq!(of_none, Ok(()), "that is the listener's");
    two.host.publish(&two.doorbell, false);
    assert_eq!(two.taken(0), [subscribe(first)]);
    // A program that puts all into the rings of the first.
    two.workers[0].close_channel(CHANNEL);
    two.workers[0].arena().reset_channel(CHANNEL.into());
    two.workers[0].open_channel(CHANNEL);
    let mut other = HostChannel::new(Arc::clone(two.workers[0].arena()), CHANNEL.into());
    let open = Request::Open {
        socket: second,
        kind: crate::SocketKind::Stream,
        flags: crate::OpenFlags::empty(),
    };
    let all = [subscribe(second), open, subscribe(none), subscribe(first)];
    for request in all {
        other.put(&request).unwrap();
    }
    other.publish(&two.doorbell, false);
    let worker = &mut two.workers[0];
    for counted in 1..=3 {
        let next = worker.next_request(CHANNEL, 8);
        assert_eq!(next, Next::Request([0; 8], Immediate::default()));
        assert_eq!(worker.meter.misrouted(), counted);
        let Next::Request(message, _) = next else {
            unreachable!()
        };
        assert!(Request::decode(&message).is_err());
    }
    let next = worker.next_request(CHANNEL, 8);
    assert_eq!(
        next,
        Next::Request(subscribe(first).encode(), Immediate::default())
    );
    assert_eq!(worker.meter.misrouted(), 3);
    assert_eq!(worker.meter.of(second), crate::Meter::default());
}

#[test]
fn what_a_worker_tells_of_anothers_socket_is_counted_and_passed_over() {
    let mut two = Two::new();
    let (first, second) = (two.socket(1, 0), two.socket(2, 1));
    two.workers[1].put_edges(CHANNEL, first, &edges(1));
    two.workers[1].put_edges(CHANNEL, second, &edges(2));
    let done = Completion::Done {
        socket: second,
        tag: 5,
        errno: 0,
        value: 0,
        address: Address::NONE,
    };
    two.workers[0].put_answer(CHANNEL, &done);
    two.workers.iter_mut().for_each(|worker| {
        worker.publish();
    });
    let reported = two.reported();
    let expected = Completion::Edges {
        socket: second,
        edges: edges(2),
    };
    assert_eq!(reported, [expected]);
    assert_eq!(two.host.misrouted(), 2);
}

/// With one worker, the bits that would say another are looked at all the same.
#[test]
fn with_one_worker_there_is_no_other() {
    let signaler = Arc::new(EventfdSignaler::for_one());
    let mut adapter = AdapterSession::create(Geometry::SMALL, signaler).unwrap();
    adapter.open_channel(CHANNEL);
    let mut host = HostChannel::new(Arc::clone(adapter.arena()), CHANNEL.into());
    let socket = SocketId {
        index: 1,
        generation: NAMING.next(0, 1),
    };
    host.put(&subscribe(socket)).unwrap();
    host.publish(&Doorbell::new().unwrap(), false);
    let next = adapter.next_request(CHANNEL, 8);
    assert_eq!(next, Next::Request([0; 8], Immediate::default()));
    assert_eq!(adapter.meter.misrouted(), 1);
    adapter.put_edges(CHANNEL, socket, &edges(1));
    adapter.publish();
    assert_eq!(host.get().unwrap(), Some(None));
    assert_eq!(host.misrouted(), 1);
}

/// Sessions of releases that know of no workers count with all bits.
#[test]
fn without_workers_a_generation_is_a_number() {
    let agreed = Agreed {
        features: Agreed::OURS.features - Features::WORKERS,
        ..Agreed::OURS
    };
    let signaler = Arc::new(EventfdSignaler::for_one());
    let mut adapter = AdapterSession::create_for(Geometry::SMALL, agreed, signaler).unwrap();
    adapter.open_channel(CHANNEL);
    let mut host = HostChannel::new(Arc::clone(adapter.arena()), CHANNEL.into());
    let block = adapter.arena().block(0);
    block.generation.store(1 << 26, Ordering::Relaxed);
    let taken = adapter.blocks().take(|_| false).unwrap();
    assert_eq!(taken.generation, (1 << 26) + 1);
    let record = AcceptRecord {
        socket: taken,
        local: Address::NONE,
        peer: Address::NONE,
        send_limit: 0,
        subscriber: None,
        has_mark: false,
    };
    let arena = Arc::clone(adapter.arena());
    assert!(arena.block(0).begin_accepted(&record, arena.block(1)));
    host.put(&subscribe(taken)).unwrap();
    host.publish(&Doorbell::new().unwrap(), false);
    let next = adapter.next_request(CHANNEL, 8);
    assert_eq!(
        next,
        Next::Request(subscribe(taken).encode(), Immediate::default())
    );
    adapter.put_edges(CHANNEL, taken, &edges(1));
    adapter.publish();
    assert!(matches!(
        host.get(),
        Ok(Some(Some(Completion::Edges { .. })))
    ));
    assert_eq!((adapter.meter.misrouted(), host.misrouted()), (0, 0));
}

#[test]
fn a_worker_takes_blocks_by_its_name_and_chunks_that_are_no_others() {
    let mut two = Two::new();
    let ids = [0, 1].map(|at: usize| two.workers[at].blocks().take(|_| false).unwrap());
    assert_ne!(ids[0].index, ids[1].index);
    assert_eq!(ids.map(|id| two.session.worker_of(id)), [0, 1]);
    for (id, other) in [(ids[0], ids[1]), (ids[1], ids[0])] {
        let record = AcceptRecord {
            socket: id,
            local: Address::NONE,
            peer: Address::NONE,
            send_limit: 0,
            subscriber: None,
            has_mark: false,
        };
        let block = two.session.block(id.index);
        assert!(block.is_before(id) && !block.is(id));
        assert!(block.begin_accepted(&record, two.session.block(other.index)));
        assert!(block.is(id) && !block.is_before(id));
    }
    // What is given back may be another worker's next.
    two.workers[1].blocks().give_back(ids[1]);
    let again = two.workers[0].blocks().take(|_| false).unwrap();
    assert_eq!(again.index, ids[1].index);
    assert_eq!(two.session.worker_of(again), 0);
    let mut chunks: Vec<u32> = two
        .workers
        .iter_mut()
        .flat_map(|worker| {
            assert_eq!(worker.receive.available(), TWO.rcv_chunks / 2);
            std::iter::from_fn(|| worker.receive.take()).collect::<Vec<_>>()
        })
        .collect();
    chunks.sort_unstable();
    assert_eq!(chunks, (0..TWO.rcv_chunks).collect::<Vec<_>>());
}

/// Answers that do not fit a descriptor, and what is under way, are at each worker apart.
#[test]
fn what_there_is_of_a_channel_is_at_each_worker_apart() {
    let mut two = Two::new();
    let channel = u32::from(CHANNEL);
    let rings: Vec<u32> = two.session.rings(channel).collect();
    assert_eq!(rings, [3, 64 + 3]);
    assert_eq!(rings[1], two.session.ring(channel, 1));
    for (at, worker) in two.workers.iter().enumerate() {
        assert_eq!(worker.write_mailbox(CHANNEL, &[at as u8 + 1; 8]), 8);
    }
    let first = |ring: &u32| two.session.read_mailbox(*ring)[0];
    assert_eq!(rings.iter().map(first).collect::<Vec<_>>(), [1, 2]);
    let socket = two.socket(2, 1);
    two.put(subscribe(socket));
    two.host.publish(&two.doorbell, false);
    rings
        .iter()
        .for_each(|ring| two.session.under_way().note(*ring));
    assert_eq!(
        two.session.under_way().unhandled().collect::<Vec<_>>(),
        [(67, 1)]
    );
    two.taken(1);
    assert!(two.session.has_handled(67, 1));
    assert_eq!(two.session.under_way().unhandled().count(), 0);
    assert!(!two.session.under_way().are_any());
    // A process that opens sockets has all of them at one worker.
    let workers = [0, 1, 2, 3].map(|channel| two.session.worker_for(channel));
    assert_eq!(workers, [0, 1, 0, 1]);
}

#[test]
fn a_channel_that_is_given_to_another_process_is_empty_at_all_workers() {
    let mut two = Two::new();
    let sockets = [two.socket(1, 0), two.socket(2, 1)];
    for (at, socket) in sockets.into_iter().enumerate() {
        two.put(subscribe(socket));
        two.workers[at].put_edges(CHANNEL, socket, &edges(1));
        two.workers[at].publish();
    }
    two.host.publish(&two.doorbell, false);
    let arena = Arc::clone(two.workers[0].arena());
    for worker in &mut two.workers {
        worker.close_channel(CHANNEL);
    }
    arena.reset_channel(CHANNEL.into());
    for worker in &mut two.workers {
        worker.open_channel(CHANNEL);
        assert_eq!(worker.next_request(CHANNEL, 8), Next::Nothing);
    }
    two.host = two.session.channel(CHANNEL.into());
    assert_eq!(two.reported(), []);
    two.put(subscribe(sockets[1]));
    two.host.publish(&two.doorbell, false);
    assert_eq!(two.taken(1), [subscribe(sockets[1])]);
}

#[test]
fn several_workers_have_to_be_agreed_to() {
    let refused = |features| {
        let agreed = Agreed {
            features,
            ..Agreed::OURS
        };
        match Arena::create_for(TWO, agreed) {
            Err(ArenaError::Workers { workers, .. }) => workers == 2,
            made => panic!("{made:?}"),
        }
    };
    assert!(refused(Features::IMMEDIATE_DATA));
    // What one worker has another cannot send.
    for feature in [
        Features::FILES,
        Features::FORWARDS,
        Features::FORWARDS_WITHIN,
        Features::LENT_CHUNKS,
    ] {
        assert!(refused(Features::WORKERS | feature));
        let without = Agreed {
            features: Features::WORKERS | feature,
            ..Agreed::OURS
        };
        assert!(without.with_workers(2).can_have_workers(2));
        assert_eq!(without.with_workers(1), without);
    }
    let none = Geometry { workers: 0, ..TWO };
    let made = Arena::create_for(none, agreed());
    assert!(matches!(made, Err(ArenaError::Geometry(_))));
}

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn a_program_looks_whether_several_workers_were_agreed_to() {
    use std::os::fd::AsFd;
    let arena = Arena::create_for(TWO, agreed()).unwrap();
    let open = || Arena::open(arena.as_fd().try_clone_to_owned().unwrap(), TWO);
    assert_eq!(open().unwrap().geometry(), &TWO);
    let others = u32::from(Features::IMMEDIATE_DATA.bits());
    arena.header().features.store(others, Ordering::Relaxed);
    let opened = open().map(drop);
    assert!(matches!(
        opened,
        Err(ArenaError::Workers { workers: 2, .. })
    ));
}

/// Each worker is a thread that sleeps whenever it has nothing, and so is the program: a wake-up
/// that is lost holds this up for ever.
#[test]
#[cfg_attr(miri, ignore = "it sleeps in poll")]
fn nobody_oversleeps_what_is_for_it() {
    use rustix::event::{PollFd, PollFlags, poll};
    const ROUNDS: u64 = 2_000;
    let two = Two::new();
    let sockets = [two.socket(1, 0), two.socket(2, 1)];
    let waiter = two.session.waiters().claim(7, 0).unwrap();
    for socket in sockets {
        two.session.block(socket.index).add_waiter(waiter);
    }
    let answered = AtomicU64::new(0);
    let meters = Mutex::new(Vec::new());
    let Two {
        workers,
        session,
        mut host,
        doorbell,
    } = two;
    let doorbells = [&doorbell, &session.doorbells[0]];
    std::thread::scope(|scope| {
        for ((mut worker, socket), doorbell) in workers.into_iter().zip(sockets).zip(doorbells) {
            let (answered, meters) = (&answered, &meters);
            scope.spawn(move || {
                let mut done = 0;
                while done < ROUNDS {
                    worker.pending.begin();
                    let flagged = worker.pending.take_flags(0);
                    while flagged != 0
                        && let Next::Request(message, _) = worker.next_request(CHANNEL, 8)
                    {
                        assert_eq!(Request::decode(&message).unwrap().socket(), socket);
                        done += 1;
                        worker.put_edges(CHANNEL, socket, &edges(done));
                        worker.wakeups.note_socket(socket.index);
                    }
                    if worker.publish() {
                        worker.wake(8);
                    }
                    worker.channels.note_taken(CHANNEL);
                    worker.release_requests(crate::adapter::UnderWay::Nothing);
                    worker.pending.declare_asleep();
                    if done < ROUNDS && !worker.still_has_requests() {
                        poll(&mut [PollFd::new(doorbell, PollFlags::IN)], None).unwrap();
                        doorbell.clear();
                        worker.meter.note_doorbell();
                    }
                    worker.pending.declare_awake();
                }
                answered.fetch_add(done, Ordering::Relaxed);
                meters.lock().unwrap().push(worker.crossings());
            });
        }
        for round in 1..=ROUNDS {
            for socket in sockets {
                let edges = Request::Edges {
                    socket,
                    snd_edge: 0,
                    rcv_consumed: round,
                    flags: EdgeFlags::empty(),
                    immediate: 0,
                };
                host.put(&edges).unwrap();
                host.publish(&doorbell, true);
            }
            let mut reported = 0;
            while reported < sockets.len() {
                session.waiters().at(waiter).declare(Sleep::Futex);
                let before = reported;
                while let Some(completion) = host.get().unwrap() {
                    let socket = match completion.unwrap() {
                        Completion::Edges { socket, edges } if edges.rcv_edge == round => socket,
                        other => panic!("{other:?} in round {round}"),
                    };
                    assert!(sockets.contains(&socket));
                    reported += 1;
                }
                host.release();
                if reported == before {
                    session.waiters().at(waiter).sleep(None);
                }
                session.waiters().at(waiter).cancel();
            }
        }
    });
    assert_eq!(answered.into_inner(), 2 * ROUNDS);
    for meter in meters.into_inner().unwrap() {
        assert_eq!(meter.to_adapter.descriptors.count, ROUNDS);
        assert_eq!(meter.to_host.descriptors.count, ROUNDS);
        assert!(meter.to_adapter.wakeups <= ROUNDS && meter.to_host.wakeups <= ROUNDS);
    }
    assert_eq!(host.misrouted(), 0);
}
