//! The programs that get a session, and those whose end ends one.

use super::*;
use crate::Engine;
use crate::testing::common::{Host, TIMEOUT};
use crate::testing::{Member, Turned};
use longshore_hostif::attach::{AttachError, dial, new_session, receive, send_as};
use longshore_hostif::{ChannelState, Features, HostChannel, Query, Request, SocketKind};
use longshore_ring::{Doorbell, EventfdSignaler};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Why an engine does not do something.
fn why<T>(asked: Result<T, AttachError>) -> Option<Refusal> {
    match asked {
        Err(AttachError::Refused(why)) => Some(why),
        _ => None,
    }
}

#[test]
fn an_engine_that_is_about_to_end_opens_no_session_and_lets_processes_join_those_that_are_there() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.engine.drain(Duration::from_secs(3600));
    let options = SessionOptions::default();
    let refused = world.during(|path| why(new_session(path, options)));
    assert_eq!(refused, Some(Refusal::Draining));
    assert_eq!(world.engine.programs.sessions.iter().count(), 1);
    let token = host.token;
    host = world.during(|path| {
        Host::join(path, token);
        host
    });
    assert!(host.launcher.is_some());
}

#[test]
fn a_session_ends_with_its_own_launcher_alone() {
    let mut world = Turned::new();
    let options = SessionOptions::default();
    let mut launchers: Vec<OwnedFd> = world.during(|path| {
        (0..3)
            .map(|_| new_session(path, options).unwrap().0)
            .collect()
    });
    // Some other connection.
    world.during(|path| drop(dial(path).unwrap()));
    world.run_pending();
    let keys = |engine: &Engine| {
        engine
            .programs
            .sessions
            .iter()
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&world.engine), [0, 1, 2]);
    drop(launchers.remove(1));
    world.until("its end", |engine| keys(engine).len() < 3);
    assert_eq!(keys(&world.engine), [0, 2]);
    // One that takes too much memory, by its number.
    let serial = world.engine.programs.sessions.get(2).unwrap().serial;
    world
        .engine
        .attaching()
        .handle(Event::Overdrawn(serial + 100));
    world.run_pending();
    assert_eq!(keys(&world.engine), [0, 2]);
    world.engine.attaching().handle(Event::Overdrawn(serial));
    world.run_pending();
    assert_eq!(keys(&world.engine), [0]);
}

/// Asks over a connection of its own.
fn asks(world: &mut Turned, versions: Versions, message: &Message) -> Message {
    world.during(|path| {
        let connection = dial(path).unwrap();
        send_as(&versions, connection.as_fd(), message, &[]).unwrap();
        receive(connection.as_fd()).unwrap().0
    })
}

/// Asks over a connection of its own, and the loop has not heard of it yet.
fn unheard(world: &Turned, message: &Message) -> (OwnedFd, Event) {
    let connection = dial(&world.path).unwrap();
    send_as(&Versions::OURS, connection.as_fd(), message, &[]).unwrap();
    let began = Instant::now();
    loop {
        if let Some(event) = world.engine.attach.inbox.take().pop() {
            return (connection, event);
        }
        assert!(began.elapsed() < TIMEOUT, "waited for {message:?}");
        std::thread::yield_now();
    }
}

/// A process joins a session by this token; what it is answered.
fn joins(world: &mut Turned, token: Token, process: &Member) -> Message {
    let (answers, event) = unheard(world, &Message::Join(token));
    let Event::Join(token, versions, _, connection) = event else {
        panic!("something else: {event:?}");
    };
    let event = Event::Join(token, versions, process.peer(), connection);
    world.engine.attaching().handle(event);
    receive(answers.as_fd()).unwrap().0
}

/// It has nothing more to say: its program joins by connections of its own.
#[test]
fn who_has_asked_for_a_session_may_be_silent_once_it_has_that() {
    let mut world = Turned::new();
    let wanted = Message::NewSession(SessionOptions::default());
    let (_launcher, event) = unheard(&world, &wanted);
    let Event::New(_, _, connection) = &event else {
        panic!("something else: {event:?}");
    };
    let connection = connection.clone();
    assert!(!connection.may_be_silent());
    world.engine.attaching().handle(event);
    assert!(connection.may_be_silent());
}

/// The loop would not know of its requests.
#[test]
fn a_session_whose_doorbell_cannot_be_watched_is_refused_and_kept_nowhere() {
    let mut world = Turned::new();
    let wanted = Message::NewSession(SessionOptions::default());
    let (launcher, mut event) = unheard(&world, &wanted);
    let Event::New(session, ..) = &mut event else {
        panic!("something else: {event:?}");
    };
    session.0.doorbell = Doorbell::from_fd(tempfile::tempfile().unwrap().into());
    world.engine.attaching().handle(event);
    let answer = receive(launcher.as_fd()).unwrap().0;
    assert_eq!(answer, Message::Refused(Refusal::NoResources));
    assert!(world.engine.stack.endpoints.sessions.is_empty());
    assert_eq!(world.engine.programs.sessions.iter().count(), 0);
}

/// Its parent has claimed that for it, and the engine has not looked there since.
#[test]
fn a_child_that_joins_has_the_channel_that_is_claimed_for_it() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let child = Member::unknown(&host, 3);
    HostChannel::new(host.arena.clone(), 3).flag();
    let answer = joins(&mut world, host.token, &child);
    assert!(matches!(answer, Message::Welcome(3, _)), "{answer:?}");
}

#[test]
fn the_end_of_a_process_that_has_joined_is_noticed() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let process = Member::alone();
    let answer = joins(&mut world, host.token, &process);
    assert!(matches!(answer, Message::Welcome(1, _)), "{answer:?}");
    let living = |world: &Turned| {
        let session = world.engine.programs.sessions.get(0).unwrap();
        session.processes.living()
    };
    assert_eq!(living(&world), 2);
    drop(process);
    world.engine.maintenance().take_deaths(1);
    assert_eq!(living(&world), 1);
}

#[test]
fn whoever_is_in_no_session_is_given_nothing_of_one() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let socket = SocketId {
        index: 0,
        generation: 1,
    };
    let owner = Message::Owner {
        socket,
        signals: 1,
        ask: 1,
    };
    let refused = |why| Message::Refused(why);
    for (message, reason) in [
        (Message::Eventfd { waiter: 0, ask: 1 }, Refusal::NoResources),
        (owner, Refusal::NoResources),
        (Message::Join(Token([1; 16])), Refusal::UnknownSession),
        (Message::Child(Token([1; 16]), 3), Refusal::UnknownSession),
        (Message::Child(host.token, 9_999), Refusal::NoChannel),
    ] {
        let answer = asks(&mut world, Versions::OURS, &message);
        assert_eq!(answer, refused(reason), "{message:?}");
    }
    // One that knows the token may register a child.
    let child = Message::Child(host.token, 3);
    assert_eq!(asks(&mut world, Versions::OURS, &child), Message::Known);
    assert_eq!(host.arena.control(3).state(), ChannelState::Free);
}

/// It has claimed its channel before, and nothing else tells the engine to look there.
#[test]
fn a_child_that_registers_has_its_channel_at_once() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let _child = Member::unknown(&host, 1);
    let message = Message::Child(host.token, 1);
    let answer = asks(&mut world, Versions::OURS, &message);
    assert_eq!(answer, Message::Known);
    assert_eq!(host.arena.control(1).state(), ChannelState::Open);
}

/// A session has so many files, and no more.
#[test]
fn a_file_is_taken_if_the_session_has_room_for_it() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let file = || {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        OwnedFd::from(file)
    };
    let connection = host.connection.as_fd();
    let offer = Message::File { ask: 1 };
    let offers = |world: &mut Turned| {
        world.during(|_| {
            send_as(&Versions::OURS, connection, &offer, &[file().as_fd()]).unwrap();
            receive(connection).unwrap().0
        })
    };
    assert_eq!(offers(&mut world), offer);
    let half = world.engine.stack.endpoints.sessions.get_mut(0).unwrap();
    let lend = |half: &mut Half| {
        let file = OfferedFile::check(file()).unwrap();
        half.host.send.lend_file(file, 0).is_ok()
    };
    while lend(half) {}
    let refused = Message::Refused(Refusal::NoResources);
    assert_eq!(offers(&mut world), refused);
}

/// A program of a release that does not speak what the session does.
#[test]
fn a_program_joins_a_session_whose_version_it_speaks() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let newer = Versions {
        oldest: Versions::OURS.newest,
        newest: Versions::OURS.newest + 1,
        features: Features::from_bits_retain(!0),
    };
    let join = Message::Join(host.token);
    assert!(matches!(
        asks(&mut world, newer, &join),
        Message::Welcome(..)
    ));
    // It is spoken with as another release's engine would.
    let session = &mut world.engine.programs.sessions;
    assert!(session.get_mut(0).is_some());
    let other = Versions {
        features: Features::empty(),
        ..Versions::OURS
    };
    let answer = asks(&mut world, other, &join);
    assert_eq!(answer, Message::Refused(Refusal::Version));
}

/// A program that becomes another one is the same process: it has the channel that it had.
#[test]
fn a_process_that_joins_again_has_its_channel() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let (token, channel) = (host.token, host.channel.index());
    let again = world.during(|path| Host::join(path, token));
    assert_eq!(again.channel.index(), channel);
    let session = world.engine.programs.sessions.get(0).unwrap();
    assert_eq!(session.processes.living(), 1);
    assert!(world.engine.lifetime.had_session());
}

/// What programs cannot send, the engine need not close, which may last. The kernel may not have
/// that.
#[test]
fn an_engine_knows_whether_programs_can_send_it_descriptors() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let can_refuse = longshore_ring::refuse_descriptors(&socket).is_ok();
    assert_eq!(Turned::new().engine.refuses_descriptors(), can_refuse);
}

/// It rings for its own program by a write, which that may hold up; for those of many by what never
/// waits, where the kernel has that.
#[test]
fn an_engine_of_one_program_may_be_held_up_by_it() {
    let of_one = Turned::with(|config| config.private = true);
    assert!(of_one.engine.may_be_held_up());
    let of_many = Turned::new().engine.may_be_held_up();
    assert_eq!(of_many, EventfdSignaler::for_many().may_block());
}

/// Whoever has seen which ports one chooses knows nothing of those of another.
#[test]
fn an_engine_has_secrets_of_its_own() {
    let ports = || {
        Turned::new().during(|path| {
            let mut host = Host::new(path);
            [(); 3].map(|()| {
                let socket = host.open(SocketKind::Datagram);
                let any = "10.0.0.1:0".parse().unwrap();
                host.bind(socket, any).unwrap().port()
            })
        })
    };
    assert_ne!(ports(), ports());
}

/// It waits behind answers that the process has not taken, and nobody takes them any more.
#[test]
fn what_a_process_has_asked_before_it_became_another_program_is_done() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let (mut host, socket) = world.during(move |_| {
        let socket = host.open(SocketKind::Datagram);
        host.bind(socket, "10.0.0.1:7000".parse().unwrap()).unwrap();
        (host, socket)
    });
    host.arena
        .set_held(host.channel.index(), socket.index, false);
    let mut asks = |world: &mut Turned, requests: &[Request]| {
        for request in requests {
            host.channel.put(request).unwrap();
        }
        host.channel.publish(&host.doorbell, false);
        world.run_pending();
    };
    let question = Request::Query {
        socket,
        tag: 1,
        waiter: None,
        query: Query::TcpInfo,
    };
    asks(&mut world, &[question; 900]);
    asks(&mut world, &[question; 200]);
    let close = Request::Close {
        socket,
        snd_edge: 0,
        rcv_consumed: 0,
        linger: None,
    };
    asks(&mut world, &[close]);
    let sockets = |world: &Turned| world.engine.stack.status().socket_count();
    assert_eq!(sockets(&world), 1);
    let token = host.token;
    let _again = world.during(|path| Host::join(path, token));
    // It is closed at the end of the turn.
    world.run_pending();
    assert_eq!(sockets(&world), 0);
}
