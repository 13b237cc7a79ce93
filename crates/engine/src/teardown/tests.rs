//! What a process held is let go of, some of it in a turn, and its channel after all of it.

use crate::testing::common::Host;
use crate::testing::{GEOMETRY, Member, Turned};
use longshore_hostif::{
    ChannelState, EdgeFlags, Geometry, HostChannel, HostSession, Request, SocketKind,
};

use super::*;
use longshore_hostif::adapter::AdapterSession;
use longshore_ring::EventfdSignaler;
use std::sync::Arc;

/// A program, and a process beside it at channel 1 that holds so many sockets and no other does.
fn held(sockets: u32) -> (Turned, Host, Member) {
    held_of(SocketKind::Datagram, sockets)
}

/// As `held`, of sockets of this kind.
fn held_of(kind: SocketKind, sockets: u32) -> (Turned, Host, Member) {
    let mut world = Turned::with(|config| {
        config.geometry = Geometry {
            sockets: 1024,
            ..GEOMETRY
        };
    });
    let [host] = world.programs();
    let member = Member::new(&mut world, &host, 1);
    let host = world.during(move |_| {
        let mut host = host;
        for _ in 0..sockets {
            let socket = host.open(kind);
            host.bind(socket, "10.0.0.1:0".parse().unwrap()).unwrap();
            host.arena.set_held(1, socket.index, true);
            let own = host.channel.index();
            host.arena.set_held(own, socket.index, false);
        }
        host
    });
    world.run_pending();
    (world, host, member)
}

fn sockets(world: &Turned) -> usize {
    world.engine.stack.status().socket_count()
}

#[test]
fn sockets_of_a_process_are_closed_some_in_a_turn_and_its_channel_is_free_after_the_last() {
    const MANY: u32 = 2 * A_TURN as u32 + 12;
    let (mut world, host, _member) = held(MANY);
    assert_eq!(sockets(&world), MANY as usize);
    assert!(!world.engine.programs.has_teardowns_of_user(0));
    world.engine.maintenance().process_died(0, 1);
    let serial = world.engine.programs.sessions.get(0).unwrap().serial;
    for left in [A_TURN + 12, 12] {
        assert_eq!(world.engine.programs.teardowns().len(), left);
        assert!(!world.engine.programs.teardowns().is_empty());
        assert!(world.engine.programs.teardowns().are_in(serial));
        assert!(!world.engine.programs.teardowns().are_in(serial + 1));
        assert!(world.engine.programs.has_teardowns_of_user(0));
        assert_eq!(host.arena.control(1).state(), ChannelState::Open);
        assert!(world.turn(), "it goes on at once");
    }
    assert!(world.engine.programs.teardowns().is_empty());
    assert_eq!(host.arena.control(1).state(), ChannelState::Free);
    assert!(!{
        let engine = &mut world.engine;
        engine.programs.continue_teardowns(&mut engine.stack)
    });
    world.run_pending();
    assert_eq!(sockets(&world), 0);
}

/// A turn that closes some of them has done something, whatever it has done besides.
#[test]
fn to_close_some_is_work_beside_what_is_asked() {
    let (mut world, mut host, _member) = held_of(SocketKind::Stream, 3 * A_TURN as u32);
    world.engine.maintenance().process_died(0, 1);
    for left in [A_TURN, 0] {
        host.open(SocketKind::Stream);
        assert!(world.turn());
        assert_eq!(world.engine.programs.teardowns().len(), left);
    }
}

/// Blocks are looked at many at a time, and no more of them than there is time for.
#[test]
fn blocks_are_looked_at_as_far_as_there_is_time() {
    let geometry = Geometry {
        sockets: 8 * BLOCKS - 64,
        ..GEOMETRY
    };
    let signaler = Arc::new(EventfdSignaler::for_one());
    let half = Half::new(AdapterSession::create(geometry, signaler).unwrap(), 0);
    let mut teardown = Teardown {
        blocks: 0..half.blocks(),
        ..Teardown::of(0, 1)
    };
    let mut look = |held: Vec<u32>, mut budget: usize| {
        teardown.held = held;
        teardown.find_held(&half, &mut budget);
        (teardown.blocks.start, budget)
    };
    assert_eq!(look(vec![], 3), (3 * BLOCKS, 0));
    assert_eq!(look(vec![], 0), (3 * BLOCKS, 0));
    // Those that were found come first.
    assert_eq!(look(vec![5], 3), (3 * BLOCKS, 3));
    assert_eq!(look(vec![], 9), (half.blocks(), 4));
    assert_eq!(look(vec![], 9), (half.blocks(), 9));
}

/// A process that claims more waiters than are looked at together.
#[test]
fn waiters_of_a_process_are_free_after_its_end() {
    let mut world = Turned::with(|config| {
        config.geometry = Geometry {
            waiters: 4_096,
            ..GEOMETRY
        };
    });
    let [host] = world.programs();
    let _member = Member::new(&mut world, &host, 1);
    let session = HostSession::of(&host.arena);
    let theirs = session.name_of(1);
    let own = session.name_of(host.channel.index());
    let mut claimed = 0;
    while session.waiters().claim(theirs, 0).is_some() {
        claimed += 1;
    }
    assert_eq!(claimed, 4_096);
    world.engine.maintenance().process_died(0, 1);
    // Many in a turn, and not all.
    assert!(!world.engine.programs.teardowns().is_empty());
    assert_eq!(host.arena.control(1).state(), ChannelState::Open);
    for _ in 0..4 {
        world.turn();
    }
    assert!(world.engine.programs.teardowns().is_empty());
    assert_eq!(host.arena.control(1).state(), ChannelState::Free);
    let free = (0..4_096).filter(|_| session.waiters().claim(own, 0).is_some());
    assert_eq!(free.count(), 4_096);
}

/// Another session may have its place.
#[test]
fn what_is_under_way_in_a_session_ends_with_it() {
    let (mut world, _host, _member) = held(A_TURN as u32 + 12);
    world.engine.maintenance().process_died(0, 1);
    assert!(!world.engine.programs.teardowns().is_empty());
    world.engine.programs.sessions.get_mut(0).unwrap().serial += 1;
    world.run_pending();
    assert!(world.engine.programs.teardowns().is_empty());
    assert_eq!(sockets(&world), 12, "these are another's");
}

/// A socket that another process holds, too, stays; so does one that has gone on to another owner.
#[test]
fn sockets_that_others_hold_stay() {
    let (mut world, host, _member) = held(3);
    let index = (0..1024).find(|index| host.arena.holds(1, *index));
    let own = host.channel.index();
    host.arena.set_held(own, index.unwrap(), true);
    world.engine.maintenance().process_died(0, 1);
    world.run_pending();
    assert_eq!(sockets(&world), 1);
    assert_eq!(host.arena.control(1).state(), ChannelState::Free);
}

/// Sessions of other users wait for nothing.
#[test]
fn what_is_under_way_is_of_one_user() {
    let (mut world, _host, _member) = held(A_TURN as u32 + 12);
    let [_other]: [Host; 1] = world.programs();
    world.engine.programs.sessions.get_mut(1).unwrap().uid += 1;
    world.engine.maintenance().process_died(0, 1);
    assert!(world.engine.programs.has_teardowns_of_user(0));
    assert!(!world.engine.programs.has_teardowns_of_user(1));
}

/// The next process at its channel learns nothing of a socket that another process holds.
#[test]
fn a_process_that_has_ended_is_told_of_its_sockets_no_more() {
    let (mut world, mut host, member) = held(0);
    let (mut host, client, server) = world.during(move |_| {
        let listener = host.listening("10.0.0.1:7000");
        let client = host.open(SocketKind::Stream);
        assert_eq!(host.connect(client, "10.0.0.1:7000".parse().unwrap()), 0);
        let server = host.accept(listener).socket;
        (host, client, server)
    });
    let mut theirs = HostChannel::new(host.arena.clone(), 1);
    theirs.put(&Request::Subscribe { socket: server }).unwrap();
    theirs.publish(&host.doorbell, false);
    host.arena.set_held(1, server.index, true);
    world.run_pending();
    assert!(theirs.get().unwrap().is_some());
    world.engine.maintenance().process_died(0, 1);
    world.run_pending();
    assert_eq!(host.arena.control(1).state(), ChannelState::Free);
    drop(member);
    host.arena.control(1).reset();
    let _next = Member::new(&mut world, &host, 1);
    let host = world.during(move |_| {
        host.send(client, b"x", EdgeFlags::PUSH);
        assert_eq!(host.receive(server, 1), b"x");
        host
    });
    world.run_pending();
    let mut theirs = HostChannel::new(host.arena.clone(), 1);
    assert!(theirs.get().unwrap().is_none());
}
