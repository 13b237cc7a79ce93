use super::*;
use crate::testing::common::Host;
use crate::testing::{GEOMETRY, Turned};
use longshore_hostif::attach::{SessionOptions, new_session};
use longshore_hostif::{Delimiter, Features, MessageRule};
use longshore_stack::LowPorts;
use longshore_tcp::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;

fn settings() -> Adjustable {
    let rule = MessageRule::Delimiter(Delimiter::new(b"\n").unwrap());
    let timed = TimedRule { rule, within_ms: 5 };
    Adjustable {
        users: vec![4_000_001],
        geometry: Geometry {
            sockets: 128,
            ..GEOMETRY
        },
        user_limits: UserLimits {
            sockets: 7,
            memory: 8,
        },
        grace: Duration::from_secs(9),
        host_settings: Some(HostSettings::open()),
        ecn: EcnMode::from_number(1),
        access: Access {
            low_ports: LowPorts::Root,
            ..Access::default()
        },
        congestion: Some(Congestion::ALL[0]),
        user_timeout_option: true,
        kernel_too: false,
        batching: Batching::fixed(2, 3),
        messages: BTreeMap::from([(80, timed)]),
        accept_on_data: BTreeMap::from([(81, 82)]),
    }
}

#[test]
fn all_settings_hold_from_the_moment_at_which_the_engine_gets_them() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let congestion = |host: &Host| host.arena.header().congestion.load(Ordering::Relaxed);
    let before = congestion(&host);
    let handle = world.engine.handle();
    handle.adjust(settings());
    world.until("the order", |engine| !engine.lifetime.grace().is_zero());
    let engine = &mut world.engine;
    assert!(engine.attach.is_listed(4_000_001) && !engine.attach.is_listed(4_000_002));
    assert_eq!(engine.lifetime.grace(), Duration::from_secs(9));
    let user = engine.attach.users.get(4_000_001);
    let held: Vec<_> = (0..9).map_while(|_| user.account.take_socket()).collect();
    assert_eq!(held.len(), 7);
    let now = Instant(1);
    let set = &mut engine.stack.settings;
    assert!(set.host.defaults(now).is_some());
    assert_eq!(set.ecn, EcnMode::from_number(1));
    assert_eq!(set.access.low_ports, LowPorts::Root);
    assert_eq!(set.congestion, Some(Congestion::ALL[0]));
    assert!(set.user_timeout_option && !set.kernel_too);
    assert_eq!(set.batching, Batching::fixed(2, 3));
    assert_eq!(set.messages, settings().messages);
    assert_eq!(set.accept_on_data, settings().accept_on_data);
    // Programs that are there know with what new sockets begin.
    assert_ne!(congestion(&host), before);
    // A new session has as much as is said now.
    let options = SessionOptions::default();
    let root = world.during(|path| new_session(path, options).is_ok());
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(root, is_root, "others are not on the list");
    if is_root {
        let of = |half: &longshore_stack::Session| half.host.geometry().sockets;
        let [mut other] = world.programs();
        let half = world
            .engine
            .stack
            .endpoints
            .sessions
            .iter()
            .map(|(_, half)| of(half));
        assert!(half.collect::<Vec<_>>().contains(&128));
        other.drain();
    }
}

/// One that follows no host's settings begins with its own.
#[test]
fn new_sockets_begin_with_the_settings_of_the_host_that_the_engine_follows() {
    let mut world = Turned::new();
    let follows = |world: &mut Turned| {
        let host = &mut world.engine.stack.settings.host;
        (
            host.defaults(Instant(1)).is_some(),
            host.fast_open_keys().is_some(),
        )
    };
    assert_eq!(follows(&mut world), (false, false));
    world.engine.follow(HostSettings::open());
    assert_eq!(follows(&mut world), (true, true));
}

#[test]
fn modes_of_ecn_are_those_that_linux_has_numbers_for() {
    for number in 0..=5 {
        assert_eq!(
            Adjustable::ecn_mode(number).ok(),
            EcnMode::from_number(number)
        );
    }
    assert!(matches!(Adjustable::ecn_mode(6), Err(EngineError::Ecn(6))));
    let mut world = Turned::new();
    assert!(world.engine.set_ecn(6).is_err());
    assert_eq!(world.engine.stack.settings.ecn, None);
    world.engine.set_ecn(3).unwrap();
    assert_eq!(world.engine.stack.settings.ecn, EcnMode::from_number(3));
}

/// What another thread asks is answered as the engine's own user is.
#[test]
fn an_engine_answers_and_stops_by_its_handle() {
    let mut world = Turned::with(|config| config.grace = Duration::from_secs(5));
    let handle = world.engine.handle();
    let answer = world.during(move |_| {
        let answer = handle.ask(ControlRequest::Stat, Duration::from_secs(60));
        handle.stop();
        answer
    });
    assert!(matches!(answer, Some(ControlReply::Stat(_))));
    world.until("the order", |engine| engine.lifetime.is_draining());
    let left = world.engine.lifetime.drain_by().0 - world.engine.stack.now().0;
    assert!((4_000_000..=5_000_000).contains(&left), "{left}");
    // Once it has looked, no order wakes it again.
    world.engine.take_orders();
    let wake = world.engine.orders.fd();
    let mut wakes = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    assert_eq!(poll(&mut wakes, Some(&Timespec::default())), Ok(0));
}

/// Another look may have taken the order that it was woken for.
#[test]
fn an_engine_that_looks_for_orders_does_not_wait_for_one() {
    let orders = Orders::new().unwrap();
    let flags = rustix::fs::fcntl_getfl(orders.fd()).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn orders_wait_in_turn_and_those_for_an_engine_that_is_gone_are_lost() {
    let orders = Orders::new().unwrap();
    let handle = orders.handle.clone();
    handle.stop();
    assert!(matches!(orders.waiting.try_recv(), Ok(Order::Stop)));
    assert!(orders.waiting.try_recv().is_err());
    drop(orders);
    handle.stop();
    assert_eq!(
        handle.ask(ControlRequest::Stat, Duration::from_secs(60)),
        None
    );
}

/// As the engine of another release would.
#[test]
fn an_engine_speaks_what_it_is_told_with_those_that_attach_from_then_on() {
    let mut world = Turned::new();
    let [before] = world.programs();
    let mut of_another = Versions::OURS;
    of_another.features.remove(Features::FILES);
    world.engine.set_versions(of_another);
    let [after] = world.programs();
    assert!(before.arena.takes_files() && !after.arena.takes_files());
}
