//! When the loop looks at its descriptors, spins and sleeps.

use super::*;
use crate::lifetime::Lifetime;
use crate::receive_policy::ReceivePolicy;
use crate::testing::common::Host;
use crate::testing::{Member, Turned, signal};
use longshore_hostif::{OptionName, SocketId, SocketKind};
use std::sync::atomic::{AtomicU32, Ordering};

/// A socket that is none.
const NOBODY: SocketId = SocketId {
    index: 0,
    generation: 77,
};

/// As if the last turn had left something: the loop goes on at once.
fn is_busy(world: &mut Turned) {
    world.engine.receiver.receive_policy.reached_end(false);
}

/// Whether the loop has taken the order that [`orders`] has given.
fn wants_wake_up(world: &Turned) -> bool {
    world.engine.lifetime.is_draining()
}

/// Gives an order, which waits at a descriptor.
fn orders(world: &Turned) {
    world.engine.handle().stop();
}

/// The descriptors were looked at so long before the turn that has just been.
fn looked(world: &mut Turned, before: u64) {
    let now = world.engine.stack.now().0;
    world.engine.sleeper.looked_at = Instant(now - before);
}

fn sleeps(world: &Turned) -> u64 {
    world.engine.stack.counters.event_loop.sleeps
}

#[test]
fn a_busy_engine_looks_at_its_descriptors_each_millisecond() {
    let mut world = Turned::new();
    orders(&world);
    world.engine.clock.advance(10_000);
    for (before, expected) in [(LOOK_EVERY - 1, false), (LOOK_EVERY, true)] {
        world.turn();
        is_busy(&mut world);
        looked(&mut world, before);
        world.engine.rest(true).unwrap();
        assert_eq!(wants_wake_up(&world), expected, "{before}");
    }
    assert_eq!(sleeps(&world), 0);
    assert!(world.engine.sleeper.looked_at >= world.engine.stack.now());
}

#[test]
fn it_looks_more_often_for_the_doorbells_of_parked_sessions() {
    let mut world = Turned::new();
    let _programs: [Host; 1] = world.programs();
    world.run_pending();
    assert!(world.engine.stack.endpoints.sessions.park(0));
    orders(&world);
    for (before, expected) in [
        (LOOK_FOR_PARKED_EVERY - 1, false),
        (LOOK_FOR_PARKED_EVERY, true),
    ] {
        world.turn();
        is_busy(&mut world);
        looked(&mut world, before);
        world.engine.rest(true).unwrap();
        assert_eq!(wants_wake_up(&world), expected, "{before}");
    }
}

/// What the look has found may be work for a turn.
#[test]
fn an_engine_does_not_sleep_after_a_look_that_has_found_something() {
    let mut world = Turned::new();
    orders(&world);
    world.engine.clock.advance(10_000);
    world.turn();
    world.engine.rest(false).unwrap();
    assert!(wants_wake_up(&world));
    assert_eq!(sleeps(&world), 0);
}

#[test]
fn an_engine_looks_for_more_as_long_as_it_was_told_and_then_sleeps() {
    const SPIN: u64 = 10_000_000;
    let spin = Duration::from_micros(SPIN);
    let (mut world, _handles) = Turned::waking(|config| config.spin = spin);
    let mut rest = |after: u64, worked: bool| {
        world.engine.clock.advance(after);
        world.turn();
        looked(&mut world, 0);
        // Nobody has kept the processor meanwhile.
        world.engine.sleeper.contention = Contention::default();
        // What ends a sleep.
        orders(&world);
        let before = sleeps(&world);
        world.engine.rest(worked).unwrap();
        let slept = sleeps(&world) != before;
        assert_eq!(slept, wants_wake_up(&world));
        world.engine.lifetime = Lifetime::new(false, Duration::ZERO);
        slept
    };
    assert!(!rest(0, false));
    assert!(!rest(SPIN / 2, false));
    // From the last piece of work on.
    assert!(!rest(SPIN / 3, true));
    assert!(!rest(SPIN / 2, false));
    assert!(rest(SPIN / 2, false));
    // And from the end of a sleep.
    assert!(!rest(SPIN / 2, false));
    assert!(rest(SPIN, false));
}

/// Whether other threads want the processor.
fn is_contended(world: &mut Turned) {
    let now = world.engine.stack.now();
    world
        .engine
        .sleeper
        .contention
        .enter(Instant(now.0 - 5_000));
    assert!(world.engine.sleeper.contention.leave(now));
}

#[test]
fn an_engine_whose_processor_others_want_sleeps_instead_of_looking_for_more() {
    let (mut world, _handles) = Turned::waking(|config| config.spin = Duration::from_secs(10));
    world.engine.clock.advance(10_000);
    world.turn();
    looked(&mut world, 0);
    orders(&world);
    is_contended(&mut world);
    world.engine.rest(false).unwrap();
    assert!(wants_wake_up(&world));
    assert_eq!(sleeps(&world), 1);
}

/// The thread that was given way to had work of its own.
#[test]
fn an_engine_that_looks_for_more_notices_that_others_want_its_processor() {
    let (mut world, _handles) = Turned::waking(|config| config.spin = Duration::from_secs(10));
    for sleeps_now in [0, 1] {
        world.turn();
        looked(&mut world, 0);
        orders(&world);
        world.engine.rest(false).unwrap();
        assert_eq!(sleeps(&world), sleeps_now);
        world.engine.clock.advance(5_000);
    }
}

/// A policy that has seen frames come alone for long.
fn frames_come_alone() -> ReceivePolicy {
    let mut policy = ReceivePolicy::default();
    for _ in 0..100 {
        policy.is_due(false);
        policy.reached_end(true);
        policy.took(1, 64);
    }
    policy
}

/// In an exchange of single frames whoever is to answer has the processor, unless others do.
#[test]
fn an_engine_gives_way_after_a_frame_that_came_alone_where_nobody_else_wants_the_processor() {
    let (mut world, _handles) = Turned::waking(|_| ());
    let gives_way = |world: &mut Turned, after: u64| {
        let mut policy = frames_come_alone();
        policy.rests();
        policy.took(1, policy.most());
        // So that it does not sleep.
        policy.reached_end(false);
        world.turn();
        looked(world, 0);
        world.engine.receiver.receive_policy = policy;
        world.engine.rest(true).unwrap();
        world.engine.clock.advance(after);
        let now = world.engine.clock.now();
        world.engine.sleeper.contention.leave(now)
    };
    assert!(gives_way(&mut world, 5_000));
    assert!(!gives_way(&mut world, 50_000), "they do");
    assert!(gives_way(&mut world, 5_000), "and do no more");
    assert_eq!(sleeps(&world), 0);
}

#[test]
fn a_frame_after_a_rest_may_be_one_that_comes_alone() {
    let mut world = Turned::new();
    world.turn();
    looked(&mut world, 0);
    world.engine.receiver.receive_policy = frames_come_alone();
    assert_ne!(world.engine.receiver.receive_policy.most(), 1);
    orders(&world);
    world.engine.rest(false).unwrap();
    assert_eq!(world.engine.receiver.receive_policy.most(), 1);
}

#[test]
fn an_engine_that_expects_requests_looks_for_longer_until_it_has_slept_for_long() {
    let mut world = Turned::with(|config| config.spin = Duration::from_micros(20));
    world.turn();
    assert_eq!(world.engine.sleeper.spin.length, 20);
    world.engine.sleeper.expect_requests();
    assert_eq!(world.engine.sleeper.spin.length, 100);
    world.engine.drain(Duration::from_secs(60));
    world
        .engine
        .programs
        .schedule
        .set_at(Instant(world.engine.stack.now().0 + 5_000));
    world.engine.sleep().unwrap();
    assert_eq!(world.engine.sleeper.spin.length, 50);
}

/// One that sleeps is rung for, and one that is awake is not.
#[test]
fn programs_ring_for_an_engine_that_sleeps_alone() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    let mut ask = || {
        host.set(NOBODY, OptionName::KeepIdle, 1);
    };
    while world.engine.look(Some(Duration::ZERO)).unwrap() {}
    ask();
    assert!(!world.engine.look(Some(Duration::ZERO)).unwrap());
    world.run_pending();
    world
        .engine
        .stack
        .endpoints
        .sessions
        .get_mut(0)
        .unwrap()
        .host
        .pending
        .declare_asleep();
    ask();
    assert!(world.engine.look(Some(Duration::ZERO)).unwrap());
    world.run_pending();
    orders(&world);
    world.engine.sleep().unwrap();
    ask();
    assert!(!world.engine.look(Some(Duration::ZERO)).unwrap());
}

/// It is looked by itself whether others ask for something.
#[test]
fn a_session_whose_program_rings_is_parked_no_more() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    while world.engine.look(Some(Duration::ZERO)).unwrap() {}
    assert!(world.engine.stack.endpoints.sessions.park(0));
    let rung = |world: &Turned| {
        let crossings = world.engine.statistics().crossings;
        crossings.to_adapter.wakeups
    };
    let before = rung(&world);
    host.set(NOBODY, OptionName::KeepIdle, 1);
    assert!(world.engine.look(Some(Duration::ZERO)).unwrap());
    assert_eq!(world.engine.stack.endpoints.sessions.parked(), 0);
    assert_eq!(rung(&world), before + 1);
    assert!(world.turn(), "what it asks is done");
}

/// Nothing would wake it for a frame.
#[test]
fn an_engine_whose_port_has_no_descriptor_looks_for_more_whoever_wants_the_processor() {
    let mut world = Turned::with(|config| config.spin = Duration::from_secs(10));
    world.engine.clock.advance(10_000);
    world.turn();
    looked(&mut world, 0);
    is_contended(&mut world);
    world.engine.rest(false).unwrap();
    assert_eq!(sleeps(&world), 0);
    assert!(!world.engine.has_done_all(), "there may be frames");
}

/// A thread that is given way to may keep the processor for longer than the requests may wait.
#[test]
fn requests_that_are_soon_due_keep_the_engine_awake() {
    let mut world = Turned::new();
    world.engine.clock.advance(10_000);
    for contended in [false, true] {
        world.turn();
        looked(&mut world, 0);
        world.engine.intake.are_soon_due = true;
        world.engine.rest(false).unwrap();
        assert_eq!(world.engine.intake.is_in_hurry, contended);
        // The thread that was given way to keeps the processor.
        world.engine.clock.advance(5_000);
    }
    assert_eq!(sleeps(&world), 0);
}

/// A request that can wait rings nobody.
#[test]
fn an_engine_that_is_about_to_sleep_sees_what_was_asked_meanwhile() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    world.run_pending();
    let began = std::time::Instant::now();
    // Otherwise it is the engine's own deadline that ends the sleep.
    world.engine.drain(Duration::from_secs(3600));
    world
        .engine
        .programs
        .schedule
        .set_at(Instant(world.engine.stack.now().0 + 60_000_000));
    host.channel
        .put(&longshore_hostif::Request::Subscribe { socket: NOBODY })
        .unwrap();
    host.channel.publish(&host.doorbell, false);
    looked(&mut world, 0);
    world.engine.sleep().unwrap();
    assert!(began.elapsed() < Duration::from_secs(50));
    assert_eq!(sleeps(&world), 1);
}

#[test]
fn a_sleep_ends_when_the_first_thing_is_due() {
    let later = |world: &Turned| Instant(world.engine.clock.now().0 + 5_000_000);
    let sets: [fn(&mut Engine, Instant); 2] = [
        |engine, at| engine.intake.stalled.look_by(at),
        |engine, at| engine.intake.held_back_until = at,
    ];
    for set in sets {
        let mut world = Turned::new();
        assert_eq!(world.engine.next_deadline(), None);
        let at = later(&world);
        set(&mut world.engine, at);
        let deadline = world.engine.next_deadline().unwrap();
        let range = Duration::from_secs(3)..=Duration::from_secs(5);
        assert!(range.contains(&deadline), "{deadline:?}");
        // One that has passed.
        world.engine.clock.advance(6_000_000);
        assert_eq!(world.engine.next_deadline(), Some(Duration::ZERO));
    }
}

/// A doorbell is not read.
#[test]
fn a_doorbell_wakes_the_engine_once_for_each_time_that_it_rings() {
    let mut world = Turned::new();
    let [host] = world.programs();
    world.run_pending();
    let look = |world: &mut Turned| world.engine.look(Some(Duration::ZERO)).unwrap();
    while look(&mut world) {}
    for _ in 0..2 {
        host.doorbell.ring();
        assert!(look(&mut world));
        assert!(!look(&mut world));
    }
    // Nobody listens to it any more.
    world.engine.maintenance().end_session(0);
    world.run_pending();
    host.doorbell.ring();
    while look(&mut world) {}
    host.doorbell.ring();
    assert!(!look(&mut world));
}

/// All of them wake the loop by one descriptor.
#[test]
fn the_end_of_a_process_wakes_the_engine() {
    let mut world = Turned::new();
    let [host]: [Host; 1] = world.programs();
    let process = Member::new(&mut world, &host, 1);
    world.run_pending();
    while world.engine.look(Some(Duration::ZERO)).unwrap() {}
    drop(process);
    let mut ready = Vec::new();
    let sleeper = &world.engine.sleeper;
    sleeper.wait(Some(Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, [Source::Deaths]);
    assert!(world.engine.look(Some(Duration::ZERO)).unwrap());
    assert!(!world.engine.look(Some(Duration::ZERO)).unwrap());
}

/// Each of these is work that a turn has left.
#[test]
fn an_engine_that_has_left_something_goes_on_at_once() {
    let (mut world, handles) = Turned::waking(|_| ());
    let [mut host] = world.programs();
    // It stays: its end would be an event of its own.
    let _host = world.during(move |_| {
        let socket = host.open(SocketKind::Stream);
        host.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
        host
    });
    world.run_pending();
    assert!(world.engine.has_done_all());
    is_busy(&mut world);
    assert!(!world.engine.has_done_all());
    world.turn();
    assert!(world.engine.has_done_all());
    // It sleeps then, until a frame comes.
    signal(&handles.frames);
    looked(&mut world, 0);
    world.engine.rest(true).unwrap();
    assert_eq!(sleeps(&world), 1);
    let mut ready = Vec::new();
    world
        .engine
        .sleeper
        .wait(Some(Duration::ZERO), &mut ready)
        .unwrap();
    assert_eq!(ready, [Source::Port]);
}

#[test]
fn the_operator_is_told_why_an_interface_cannot_be_used() {
    static NOTICES: AtomicU32 = AtomicU32::new(0);
    let (mut world, handles) = Turned::waking(|_| ());
    world.engine.on_notice(|words| {
        assert_eq!(words, "this interface cannot be used");
        NOTICES.fetch_add(1, Ordering::Relaxed);
    });
    assert!(!world.engine.look(Some(Duration::ZERO)).unwrap());
    signal(&handles.link);
    assert!(world.engine.look(Some(Duration::ZERO)).unwrap());
    assert_eq!(NOTICES.load(Ordering::Relaxed), 1);
    assert!(!world.engine.look(Some(Duration::ZERO)).unwrap());
}
