//! What of the time of a turn goes to requests that take long.

use super::*;
use crate::Engine;
use crate::EngineError;
use crate::control::{ControlReply, ControlRequest};
use crate::testing::common::Host;
use crate::testing::{GEOMETRY, Member, Turned, config, engine};
use longshore_hostif::attach::{join, new_session};
use longshore_hostif::{
    Arena, EdgeFlags, Geometry, HostChannel, Hurry, OpenFlags, OptionName, Query, SocketId,
    SocketKind,
};
use longshore_ring::Doorbell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod last;

/// A program whose engine has several workers would ask all of them.
#[test]
fn an_engine_has_one_worker_and_so_have_its_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, socket, _wire) = config(dir.path());
    config.geometry.workers = 2;
    let refused = Engine::new(config).map(drop);
    assert!(matches!(refused, Err(EngineError::Workers(2))));
    assert!(!socket.exists());
}

/// A program with a session of its own.
struct Program {
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    _fds: (OwnedFd, OwnedFd),
}

impl Program {
    fn new(path: &Path) -> Self {
        let (launcher, token) = new_session(path, Default::default()).unwrap();
        let joined = join(path, token).unwrap();
        let arena = Arc::new(Arena::open(joined.arena, joined.geometry).unwrap());
        Self {
            channel: HostChannel::new(arena.clone(), joined.channel),
            arena,
            doorbell: Doorbell::from_fd(joined.doorbell),
            _fds: (launcher, joined.connection),
        }
    }

    /// Asks so often for what may take long.
    fn asks(&mut self, times: u32) {
        for _ in 0..times {
            let nothing = Request::Close {
                socket: SocketId {
                    index: 0,
                    generation: 7,
                },
                snd_edge: 0,
                rcv_consumed: 0,
                linger: None,
            };
            self.channel.put(&nothing).unwrap();
        }
        self.channel.publish(&self.doorbell, false);
    }

    /// How many of its requests were served.
    fn served(&self, asked: u32) -> u32 {
        let control = self.arena.control(self.channel.index());
        let first = control.requested().wrapping_sub(asked);
        (1..=asked)
            .take_while(|n| control.has_handled(first.wrapping_add(*n)))
            .count() as u32
    }
}

/// Once a session has been served for long, the others wait too: the next turn begins with
/// them.
#[test]
fn sessions_share_the_time_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, path, _wire) = engine(dir.path());
    let come = std::thread::spawn(move || [Program::new(&path), Program::new(&path)]);
    while !come.is_finished() {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    let mut programs = come.join().unwrap();
    // The engine takes them on.
    programs.iter_mut().for_each(|p| p.asks(1));
    while programs.iter().any(|p| p.served(1) == 0) {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    programs.iter_mut().for_each(|p| p.asks(3));
    // On a slow machine some have waited already.
    let before = engine.stack.counters.waits.requests;
    // Turns that have lasted as long as all requests may take, whatever is asked.
    let mut turn = || {
        std::thread::sleep(Duration::from_millis(2));
        let began = engine.clock.now().0 - ALL_SHARES;
        engine.turn_at(Instant(began)).unwrap();
        let mut served = [0, 1].map(|i: usize| programs[i].served(3));
        served.sort_unstable();
        served
    };
    for expected in [[0, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3]] {
        assert_eq!(turn(), expected);
    }
    // In each turn a session waits that has had its share, and all those that come after it.
    assert_eq!(engine.stack.counters.waits.requests - before, 12);
}

/// A session that asks for what takes long has its share of the time, however much the turn
/// has left.
#[test]
fn a_session_has_a_share_of_the_time_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _path, _wire) = engine(dir.path());
    // The turn has just begun, and goes on beginning.
    engine.stack.set_now(Instant(u64::MAX / 2));
    engine.intake.share.left = 100;
    engine.requests().spend_time();
    assert_eq!(engine.intake.share.left, 100);
    std::thread::sleep(Duration::from_millis(1));
    engine.requests().spend_time();
    assert_eq!(engine.intake.share.left, 0);
}

/// A socket that is none.
const NOBODY: SocketId = SocketId {
    index: 0,
    generation: 77,
};

/// A request that takes no time, and is not answered.
const TRIFLE: Request = Request::SetOption {
    socket: NOBODY,
    name: OptionName::KeepIdle,
    value: 1,
};

/// How many of the last requests of a channel, of which there were `asked`, were served.
fn served(arena: &Arena, channel: u32, asked: u32) -> u32 {
    let control = arena.control(channel);
    let first = control.requested().wrapping_sub(asked);
    (1..=asked)
        .take_while(|n| control.has_handled(first.wrapping_add(*n)))
        .count() as u32
}

/// Puts so many requests that take no time, and notifies nobody.
fn ask(host: &mut Host, times: u32) {
    for _ in 0..times {
        host.channel.put(&TRIFLE).unwrap();
    }
    host.channel.publish(&host.doorbell, false);
}

/// A world with one program in which nothing is left to do, and a time from which turns go on.
fn quiet() -> (Turned, Host, u64) {
    let mut world = Turned::new();
    let [host] = world.programs();
    world.run_pending();
    // Beyond what the clock shows while the test runs.
    let start = world.engine.stack.now().0 + 1_000_000_000;
    (world, host, start)
}

#[test]
fn requests_of_a_program_that_is_at_work_on_more_wait_for_it_and_not_for_long() {
    let (mut world, mut host, start) = quiet();
    host.channel.put(&TRIFLE).unwrap();
    host.channel.publish_for(Hurry::Soon, &host.doorbell, false);
    let channel = host.channel.index();
    for (at, expected) in [(0, 0), (LONGEST_DELAY - 1, 0), (LONGEST_DELAY, 1)] {
        world.engine.turn_at(Instant(start + at)).unwrap();
        assert_eq!(served(&host.arena, channel, 1), expected, "{at}");
        assert_eq!(world.engine.intake.are_soon_due, expected == 0);
    }
    // They are due at once where others want the processor.
    host.channel.put(&TRIFLE).unwrap();
    host.channel.publish_for(Hurry::Soon, &host.doorbell, false);
    world.engine.turn_at(Instant(start + 1_000)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 0);
    world.engine.intake.is_in_hurry = true;
    world.engine.turn_at(Instant(start + 1_001)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 1);
    assert!(!world.engine.intake.is_in_hurry, "it is over");
}

/// An option that was set before a packet came holds for that packet.
#[test]
fn what_was_asked_before_a_frame_came_is_done_before_it_is_looked_at() {
    let (mut world, mut host, start) = quiet();
    host.channel.put(&TRIFLE).unwrap();
    host.channel
        .publish_for(Hurry::First, &host.doorbell, false);
    let channel = host.channel.index();
    world.engine.turn_at(Instant(start)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 0, "no frame came");
    let any = longshore_ports::TxFrame::whole(&[0xff; 60]);
    longshore_ports::Port::send(&mut world.wire, &any).unwrap();
    world.engine.turn_at(Instant(start + 1)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 1);
    // What its program holds back has nothing to do with it.
    host.channel.put(&TRIFLE).unwrap();
    host.channel
        .publish_for(Hurry::HeldBack, &host.doorbell, false);
    longshore_ports::Port::send(&mut world.wire, &any).unwrap();
    world.engine.turn_at(Instant(start + 2)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 0);
}

/// An engine that is about to sleep, or to end, takes what is held back, too.
#[test]
fn all_that_was_published_may_be_taken_at_once() {
    let (mut world, mut host, _) = quiet();
    world.engine.intake.are_soon_due = true;
    assert!(!world.engine.requests().take_all(), "there is nothing");
    assert!(!world.engine.intake.are_soon_due);
    host.channel.put(&TRIFLE).unwrap();
    host.channel
        .publish_for(Hurry::HeldBack, &host.doorbell, false);
    assert!(world.engine.requests().take_all());
    assert!(!world.engine.requests().take_all());
    // Of a process that has ended, which says how many they were.
    (0..3).for_each(|_| host.channel.put(&TRIFLE).unwrap());
    host.channel
        .publish_for(Hurry::HeldBack, &host.doorbell, false);
    let channel = host.channel.index() as u16;
    assert_eq!(world.engine.requests().take_last(0, channel), 3);
    assert_eq!(world.engine.requests().take_last(0, channel), 0);
}

/// What is taken for a bind that waits comes after all else of its turn, and is not done before what it
/// leads to can be seen.
#[test]
fn what_is_taken_late_is_done_in_the_next_turn() {
    let mut world = Turned::new();
    let [mut client, mut server] = world.programs();
    let (mut client, mut server, socket, accepted) = world.during(move |_| {
        let listener = server.listening("10.0.0.1:80");
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener).socket;
        (client, server, socket, accepted)
    });
    world.run_pending();
    client.send(socket, b"hello", EdgeFlags::PUSH);
    world.engine.maintenance().bind_late();
    world.engine.stack.publish();
    let channel = client.channel.index();
    assert_eq!(served(&client.arena, channel, 1), 0);
    world.turns(3);
    assert_eq!(served(&client.arena, channel, 1), 1);
    world.during(move |_| assert_eq!(server.receive(accepted, 5), b"hello"));
}

/// Two programs that have asked for something are no fewer than one.
#[test]
fn a_turn_in_which_several_sessions_are_served_says_so() {
    let mut world = Turned::new();
    let mut hosts: [Host; 2] = world.programs();
    world.run_pending();
    hosts.iter_mut().for_each(|host| ask(host, 1));
    let at = world.engine.stack.now().0 + 1_000_000_000;
    assert!(world.engine.turn_at(Instant(at)).unwrap());
}

/// A request that may take long, and has not, keeps no other session waiting.
#[test]
fn sessions_are_served_in_one_turn_as_long_as_there_is_time() {
    let mut world = Turned::new();
    let mut hosts: [Host; 2] = world.programs();
    world.run_pending();
    let nothing = Request::Close {
        socket: NOBODY,
        snd_edge: 0,
        rcv_consumed: 0,
        linger: None,
    };
    for host in &mut hosts {
        host.channel.put(&nothing).unwrap();
        host.channel.publish(&host.doorbell, false);
    }
    // It has not begun yet by the clock, so none of its time is over.
    let at = world.engine.stack.now().0 + 1_000_000_000;
    world.engine.turn_at(Instant(at)).unwrap();
    for host in &hosts {
        assert_eq!(served(&host.arena, host.channel.index(), 1), 1);
    }
    assert_eq!(world.engine.stack.counters.waits.requests, 0);
}

#[test]
fn requests_that_their_program_holds_back_are_taken_in_time_all_the_same() {
    let (mut world, mut host, start) = quiet();
    host.channel.put(&TRIFLE).unwrap();
    host.channel
        .publish_for(Hurry::HeldBack, &host.doorbell, false);
    let channel = host.channel.index();
    let until = start + LONGEST_HELD_BACK;
    for at in [start, start + 1, until - 1] {
        world.engine.turn_at(Instant(at)).unwrap();
        assert_eq!(served(&host.arena, channel, 1), 0);
        assert_eq!(world.engine.intake.held_back_until, Instant(until));
    }
    world.engine.turn_at(Instant(until)).unwrap();
    assert_eq!(served(&host.arena, channel, 1), 1);
    world.engine.turn_at(Instant(until + 1)).unwrap();
    assert!(world.engine.intake.held_back_until.is_never());
}

#[test]
fn a_process_has_so_many_requests_served_in_a_turn() {
    let (mut world, mut host, start) = quiet();
    const ASKED: u32 = 2 * BATCH + 88;
    ask(&mut host, ASKED);
    for (turn, expected) in [(1, BATCH), (2, 2 * BATCH), (3, ASKED)] {
        assert!(world.engine.turn_at(Instant(start + turn)).unwrap());
        assert_eq!(served(&host.arena, host.channel.index(), ASKED), expected);
    }
    assert!(!world.engine.turn_at(Instant(start + 4)).unwrap());
}

/// Nine sessions of one user, each of which asks for as much as a process may have of a turn:
/// together more than a user may have. A session that was left out comes first in the next turn.
#[test]
fn sessions_of_a_user_take_turns_when_it_has_had_its_share() {
    let mut world = Turned::new();
    let mut hosts: [Host; 9] = world.programs();
    world.run_pending();
    let account = world.engine.attach.users.get(4_000_001).account.clone();
    for key in 0..9 {
        let session = world.engine.stack.endpoints.sessions.get_mut(key).unwrap();
        session.account = Some(account.clone());
    }
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    hosts.iter_mut().for_each(|host| ask(host, 1_000));
    let mut turn = |n: u64| {
        world.engine.turn_at(Instant(start + n)).unwrap();
        let of = |host: &Host| served(&host.arena, host.channel.index(), 1_000) / BATCH;
        hosts.each_ref().map(of)
    };
    assert_eq!(turn(1), [1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(turn(2), [2, 2, 2, 2, 2, 2, 2, 1, 1]);
    assert_eq!(turn(3), [3, 3, 3, 3, 3, 3, 2, 2, 2]);
    // In each turn one session is left out, and one has had its share.
    assert_eq!(world.engine.stack.counters.waits.requests, 6);
}

/// How often each of these processes of a session, which ask for more and more, was served as much as
/// a process may be, after each of three turns. The first begins with the channel `first`.
fn served_in_turns(first: u16, channels: &[u32]) -> [Vec<u32>; 3] {
    let mut world = Turned::with(|config| {
        config.geometry = Geometry {
            channels: 128,
            ..GEOMETRY
        };
    });
    let [host] = world.programs();
    let processes: Vec<Member> = channels
        .iter()
        .map(|channel| Member::new(&mut world, &host, *channel))
        .collect();
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    for channel in channels {
        let mut channel = HostChannel::new(host.arena.clone(), *channel);
        (0..1_000).for_each(|_| channel.put(&TRIFLE).unwrap());
        channel.publish(&host.doorbell, false);
    }
    world
        .engine
        .programs
        .sessions
        .get_mut(0)
        .unwrap()
        .first_channel = first;
    let turns = [1, 2, 3].map(|n: u64| {
        world.engine.turn_at(Instant(start + n)).unwrap();
        let of = |channel: &u32| served(&host.arena, *channel, 1_000) / BATCH;
        channels.iter().map(of).collect()
    });
    drop(processes);
    turns
}

/// Four of the processes of a session have all that it may have of a turn: the next one begins with
/// those behind them, in whichever word of channels, and those that are passed over wait on.
#[test]
fn processes_of_a_session_take_turns_when_it_has_had_its_share() {
    let six = [[1, 1, 1, 1, 0, 0], [2, 2, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]];
    for channels in [[1, 2, 3, 4, 5, 70], [1, 2, 3, 70, 71, 72]] {
        let turns = six.map(|turn| turn.to_vec());
        assert_eq!(served_in_turns(0, &channels), turns, "{channels:?}");
    }
    let nine = [
        [1, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 1, 0],
        [2, 2, 2, 1, 1, 1, 1, 1, 1],
    ];
    let turns = nine.map(|turn| turn.to_vec());
    assert_eq!(served_in_turns(0, &[1, 2, 3, 4, 5, 6, 7, 8, 70]), turns);
}

/// The share ends with the last channel of a word: those of other words wait, or those of the same
/// that came before the one that was first.
#[test]
fn processes_wait_though_none_of_the_same_word_does() {
    let other_word = [[1, 1, 1, 1, 0, 0], [2, 2, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]];
    let turns = other_word.map(|turn| turn.to_vec());
    assert_eq!(served_in_turns(0, &[1, 2, 3, 4, 70, 71]), turns);
    let before = [[0, 0, 1, 1, 1, 1], [1, 1, 2, 2, 1, 1], [2, 2, 2, 2, 2, 2]];
    let turns = before.map(|turn| turn.to_vec());
    assert_eq!(served_in_turns(3, &[1, 2, 3, 4, 5, 6]), turns);
}

fn question(tag: u32) -> Request {
    Request::Query {
        socket: NOBODY,
        tag,
        waiter: None,
        query: Query::TcpInfo,
    }
}

/// Answers that nobody takes fill their ring: the requests behind them wait, looked at ever more
/// seldom, until some are taken.
#[test]
fn requests_of_a_process_that_takes_no_answers_wait_until_it_takes_some() {
    const ASKED: u32 = 1_024;
    let (mut world, mut host, start) = quiet();
    for tag in 0..ASKED {
        host.channel.put(&question(tag)).unwrap();
    }
    host.channel.publish(&host.doorbell, false);
    for n in 0..8 {
        world.engine.turn_at(Instant(start + n)).unwrap();
    }
    let stalls = |world: &Turned| world.engine.stack.counters.sessions.stalled_channels;
    assert_eq!(stalls(&world), 1);
    let until = |world: &Turned| world.engine.intake.stalled.until().0;
    let mut pauses = Vec::new();
    for n in 1..10 {
        let at = until(&world);
        assert!(world.engine.next_deadline().is_some());
        world.engine.turn_at(Instant(at - 1)).unwrap();
        assert_eq!((stalls(&world), until(&world)), (n, at));
        world.engine.turn_at(Instant(at)).unwrap();
        assert_eq!(stalls(&world), n + 1);
        pauses.push(until(&world) - at);
    }
    let expected = [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000];
    assert_eq!(pauses, expected);
    // It takes them, and is served again.
    host.drain();
    let at = until(&world);
    for n in 0..8 {
        world.engine.turn_at(Instant(at + n)).unwrap();
    }
    let channel = host.channel.index();
    assert_eq!(served(&host.arena, channel, 100), 100);
    assert!(world.engine.intake.stalled.until().is_never());
    assert_eq!(
        world.engine.programs.sessions.get(0).unwrap().stalled_for,
        SHORTEST_STALL
    );
    assert!(
        world
            .engine
            .programs
            .sessions
            .get(0)
            .unwrap()
            .stalled
            .is_empty()
    );
}

/// What had the address is a process that has ended: whoever binds it has heard of that before the
/// engine has, or while it still lets go of much else that the process held.
#[test]
fn an_address_of_a_process_that_has_ended_can_be_bound_at_once() {
    // Of one the engine has never heard: it was a child that ended as soon as it had begun.
    for (others, is_known) in [(0, true), (150, true), (0, false)] {
        let mut world = Turned::with(|config| {
            config.geometry = Geometry {
                sockets: 256,
                ..GEOMETRY
            };
        });
        let [mut host] = world.programs();
        let process = if is_known {
            Member::new(&mut world, &host, 1)
        } else {
            Member::unknown(&host, 1)
        };
        host = world.during(move |_| {
            for port in 0..=others {
                let socket = host.open_with(SocketKind::Datagram, OpenFlags::empty());
                let local = format!("10.0.0.1:{}", if port == 0 { 7_000 } else { 0 });
                host.bind(socket, local.parse().unwrap()).unwrap();
                host.arena.set_held(1, socket.index, true);
                host.arena
                    .set_held(host.channel.index(), socket.index, false);
            }
            host
        });
        drop(process);
        let socket = host.open_with(SocketKind::Datagram, OpenFlags::empty());
        host.put(Request::Bind {
            socket,
            tag: u32::MAX,
            waiter: None,
            local: "10.0.0.1:7000"
                .parse::<std::net::SocketAddr>()
                .unwrap()
                .into(),
        });
        // The engine looks at no descriptor meanwhile.
        world.run_pending();
        let ControlReply::Ss(reply) = world
            .engine
            .report()
            .to_own_user(ControlRequest::Ss { from: 0 })
        else {
            panic!("another answer");
        };
        let rows = reply.rows.iter().map(|row| (&*row.local, &row.pids));
        let own = vec![std::process::id()];
        assert_eq!(rows.collect::<Vec<_>>(), [("10.0.0.1:7000", &own)]);
    }
}

/// An address that a living process has is in use.
#[test]
fn an_address_that_is_in_use_is_refused_in_the_end() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.during(move |_| {
        let local = "10.0.0.1:7000".parse().unwrap();
        let [first, second] =
            [(); 2].map(|()| host.open_with(SocketKind::Datagram, OpenFlags::empty()));
        host.bind(first, local).unwrap();
        assert_eq!(host.bind(second, local), Err(98));
        host
    });
}

/// Each may have taken a look at all ports, and all processes that have ended: a session has one of them
/// in a turn, and the others have the next.
#[test]
fn of_addresses_that_are_in_use_a_session_is_refused_one_in_a_turn() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let local = "10.0.0.1:7000".parse().unwrap();
    let (mut host, sockets) = world.during(move |_| {
        let sockets = [(); 3].map(|()| host.open_with(SocketKind::Datagram, OpenFlags::empty()));
        host.bind(sockets[0], local).unwrap();
        (host, sockets)
    });
    for (tag, socket) in (201..).zip(&sockets[1..]) {
        host.put(Request::Bind {
            socket: *socket,
            tag,
            waiter: None,
            local: local.into(),
        });
    }
    let mut answered = Vec::new();
    for _ in 0..10 {
        world.turn();
        host.drain();
        answered.push((201..203).filter_map(|tag| host.done_with(tag)).count());
    }
    answered.retain(|count| *count != 0);
    assert_eq!(answered, [1, 1]);
}

/// To know who claims a channel takes the kernel's time, which counts as that of a request that may
/// take long.
#[test]
fn a_claim_takes_of_the_time_of_a_turn() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let _process = Member::unknown(&host, 1);
    assert!(!world.engine.intake.slow_request);
    world.engine.requests().take_of(0, 1);
    assert!(world.engine.intake.slow_request);
}

/// A program that may not have a port is told so, and its socket stays as it was.
#[test]
fn a_port_of_the_privileged_is_refused() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let access = &mut world.engine.stack.settings.access;
    access.low_ports = longshore_stack::LowPorts::Root;
    let session = world.engine.programs.sessions.get_mut(0).unwrap();
    session.uid = 4_000_001;
    world.during(move |_| {
        let socket = host.open_with(SocketKind::Datagram, OpenFlags::empty());
        let low = "10.0.0.1:1".parse().unwrap();
        assert_eq!(host.bind(socket, low), Err(13));
        assert!(host.bind(socket, "10.0.0.1:7000".parse().unwrap()).is_ok());
        host
    });
}

/// Fills the ring of answers of a process, which takes none, in turns of this time: its requests are
/// stalled then.
fn stall(world: &mut Turned, channel: &mut HostChannel, doorbell: &Doorbell, at: u64) {
    (0..1_024).for_each(|tag| channel.put(&question(tag)).unwrap());
    channel.publish(doorbell, false);
    for _ in 0..8 {
        world.engine.turn_at(Instant(at)).unwrap();
    }
}

/// How often a channel was found stalled, and when one is looked at again, after `start`.
fn stalls(world: &Turned, start: u64) -> (u64, u64) {
    let until = world.engine.intake.stalled.until().0;
    let count = world.engine.stack.counters.sessions.stalled_channels;
    (count, until - start)
}

#[test]
fn sessions_that_take_no_answers_are_looked_at_each_in_its_own_time() {
    let mut world = Turned::new();
    let mut hosts: [Host; 2] = world.programs();
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    for (host, at) in hosts.iter_mut().zip([start, start + 100]) {
        stall(&mut world, &mut host.channel, &host.doorbell, at);
    }
    assert_eq!(stalls(&world, start), (2, 200));
    let expected = [(200, 3, 300), (300, 4, 400), (400, 5, 500), (500, 6, 800)];
    for (at, count, until) in expected {
        world.engine.turn_at(Instant(start + at)).unwrap();
        assert_eq!(stalls(&world, start), (count, until), "at {at}");
    }
}

#[test]
fn processes_of_a_session_that_take_no_answers_are_looked_at_together() {
    let (mut world, mut host, _) = quiet();
    let _process = Member::new(&mut world, &host, 1);
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    stall(&mut world, &mut host.channel, &host.doorbell, start);
    let mut other = HostChannel::new(host.arena.clone(), 1);
    stall(&mut world, &mut other, &host.doorbell, start + 100);
    assert_eq!(stalls(&world, start), (2, 200));
    for (at, count, until) in [(200, 4, 400), (400, 6, 1_200)] {
        world.engine.turn_at(Instant(start + at)).unwrap();
        assert_eq!(stalls(&world, start), (count, until), "at {at}");
        let session = world.engine.programs.sessions.get(0).unwrap();
        assert_eq!(session.stalled, [0, 1]);
    }
    // One of them publishes more: it is found stalled again, and is still looked at once.
    host.channel.flag();
    world.engine.turn_at(Instant(start + 401)).unwrap();
    assert_eq!(stalls(&world, start).0, 7);
    let session = world.engine.programs.sessions.get(0).unwrap();
    assert_eq!(session.stalled, [0, 1]);
}

/// Its session was parked meanwhile, as it asked for nothing that could be taken.
#[test]
fn a_process_that_takes_answers_again_is_served_though_its_session_is_parked() {
    let mut world = Turned::new();
    let mut hosts: [Host; 4] = world.programs();
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    for host in &mut hosts {
        stall(&mut world, &mut host.channel, &host.doorbell, start);
    }
    let polled = |world: &Turned| world.engine.stack.endpoints.sessions.polled().len();
    for _ in 0..2_000 {
        world.engine.turn_at(Instant(start)).unwrap();
    }
    assert_eq!(polled(&world), 2);
    hosts.iter_mut().for_each(Host::drain);
    for n in 0..8 {
        world.engine.turn_at(Instant(start + 200 + n)).unwrap();
    }
    assert_eq!(polled(&world), hosts.len());
    assert!(world.engine.intake.stalled.until().is_never());
}

/// One that takes no answers for long is looked at ever more seldom, and one that has just begun to is not.
#[test]
fn a_process_that_has_just_taken_answers_is_looked_at_before_one_that_has_not_for_long() {
    let (mut world, mut host, _) = quiet();
    let _process = Member::new(&mut world, &host, 1);
    world.run_pending();
    let start = world.engine.stack.now().0 + 1_000_000_000;
    stall(&mut world, &mut host.channel, &host.doorbell, start);
    for (at, count, until) in [(200, 2, 400), (400, 3, 800)] {
        world.engine.turn_at(Instant(start + at)).unwrap();
        assert_eq!(stalls(&world, start), (count, until), "at {at}");
    }
    let mut other = HostChannel::new(host.arena.clone(), 1);
    stall(&mut world, &mut other, &host.doorbell, start + 450);
    assert_eq!(stalls(&world, start), (4, 650));
}

/// A process that breaks its ring is counted once, and served no more.
#[test]
fn a_process_that_breaks_its_ring_is_counted_and_served_no_more() {
    let (mut world, mut host, _) = quiet();
    let broken = |world: &Turned| world.engine.stack.counters.sessions.broken_channels;
    // What counts from the beginning again takes back what was published.
    let mut again = HostChannel::new(host.arena.clone(), host.channel.index());
    ask(&mut host, 2);
    world.run_pending();
    assert_eq!((served(&host.arena, 0, 2), broken(&world)), (2, 0));
    again.put(&TRIFLE).unwrap();
    again.publish(&host.doorbell, false);
    world.run_pending();
    assert_eq!(broken(&world), 1);
    ask(&mut host, 1);
    world.run_pending();
    assert_eq!((served(&host.arena, 0, 1), broken(&world)), (0, 1));
}
