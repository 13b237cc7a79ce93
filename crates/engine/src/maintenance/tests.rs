//! The sessions that are looked over and when, when they end, and when the engine does.

use super::*;
use crate::Engine;
use crate::lifetime::Prospect;
use crate::testing::common::Host;
use crate::testing::{Member, Turned, during_both};
use longshore_hostif::attach::{SessionOptions, new_session};
use longshore_hostif::{CHUNK, ChannelState, EdgeFlags, SocketId, SocketKind};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod unacknowledged;

/// A second, in microseconds.
const SECOND: u64 = 1_000_000;

/// Launchers, whose sessions have no process yet.
fn launchers(world: &mut Turned, count: usize) -> Vec<OwnedFd> {
    let launch = |path: &std::path::Path| new_session(path, SessionOptions::default()).unwrap().0;
    world.during(|path| (0..count).map(|_| launch(path)).collect())
}

/// The launcher of a program is gone, and so is its process, as the engine sees it.
fn leaves(world: &mut Turned, host: &mut Host, key: u32) {
    drop(host.launcher.take());
    world.until("the launcher's end", |engine| {
        engine
            .programs
            .sessions
            .get(key)
            .is_none_or(|s| !s.launched)
    });
    let channel = host.channel.index() as u16;
    world.engine.maintenance().process_died(key, channel);
}

#[test]
fn an_engine_of_many_goes_on_without_sessions_and_one_of_a_program_ends_with_its_last() {
    let mut shared = Turned::new();
    let mut private = Turned::with(|config| config.private = true);
    for world in [&mut shared, &mut private] {
        assert_eq!(world.prospect(), Prospect::GoesOn, "nobody has come");
        let launchers = launchers(world, 2);
        assert_eq!(world.prospect(), Prospect::GoesOn);
        drop(launchers);
        world.until("their end", |engine| {
            engine.programs.sessions.iter().count() == 0
        });
    }
    assert_eq!(shared.prospect(), Prospect::GoesOn);
    assert_eq!(private.prospect(), Prospect::IsOver);
}

/// What cannot be sent is not waited for.
#[test]
fn without_an_interface_an_engine_of_a_program_ends_with_it_and_delivers_nothing() {
    let (mut world, handles) = Turned::waking(|config| config.private = true);
    let (mut client, _server, _) = undelivered(&mut world);
    leaves(&mut world, &mut client, 0);
    world.later(2 * SECOND);
    assert!(world.engine.programs.sessions.get(0).is_some());
    handles.attached.store(false, Ordering::Relaxed);
    (0..2).for_each(|_| world.later(2 * SECOND));
    assert!(world.engine.programs.sessions.get(0).is_none());
    assert_eq!(world.prospect(), Prospect::GoesOn, "there is another");
    world.engine.maintenance().end_session(1);
    (0..2).for_each(|_| world.later(SECOND));
    assert_eq!(world.prospect(), Prospect::IsOver);
}

#[test]
fn an_engine_that_is_told_to_stop_goes_on_for_its_sessions_and_no_longer_than_it_may() {
    let mut world = Turned::new();
    let launcher = launchers(&mut world, 1);
    world.engine.drain(Duration::from_secs(5));
    // It is looked whether that time is over, whatever programs do.
    assert!(world.engine.next_deadline() <= Some(Duration::from_secs(1)));
    assert!(world.engine.next_deadline().is_some());
    world.later(4 * SECOND);
    assert_eq!(world.prospect(), Prospect::GoesOn);
    world.later(SECOND);
    assert_eq!(world.prospect(), Prospect::IsOver);
    drop(launcher);
    // With the last session it ends before.
    let mut world = Turned::new();
    let launcher = launchers(&mut world, 1);
    world.engine.drain(Duration::from_secs(5));
    drop(launcher);
    world.until("its end", |engine| {
        engine.programs.sessions.iter().count() == 0
    });
    assert_eq!(world.prospect(), Prospect::IsOver);
}

/// Each process that sleeps for ever costs nothing.
#[test]
fn an_engine_with_nothing_to_do_wakes_for_nothing() {
    let mut world = Turned::new();
    let _programs: [Host; 2] = world.programs();
    world.run_pending();
    assert!(!world.engine.needs_maintenance());
    assert_eq!(world.engine.next_deadline(), None);
    // Something is to be looked after soon, and not before.
    world.later(2 * SECOND);
    world.engine.drain(Duration::from_secs(60));
    world
        .engine
        .programs
        .schedule
        .soon(world.engine.stack.now());
    let deadline = world.engine.next_deadline().unwrap();
    let soon = Duration::from_micros(SOON);
    assert!(deadline > soon / 2 && deadline <= soon, "{deadline:?}");
    world
        .engine
        .programs
        .schedule
        .set_at(world.engine.stack.now());
    world
        .engine
        .programs
        .schedule
        .soon(world.engine.stack.now());
    let at = world.engine.programs.schedule.at();
    assert_eq!(at, world.engine.stack.now(), "what is earlier stays");
}

#[test]
fn some_sessions_are_looked_over_in_a_turn_and_all_in_the_end() {
    const MANY: usize = LOOKED_OVER * 2 + 5;
    let mut world = Turned::new();
    let _launchers = launchers(&mut world, MANY);
    world.run_pending();
    let keys = world.engine.stack.endpoints.sessions.keys();
    assert_eq!(keys.len(), MANY);
    for key in keys {
        world
            .engine
            .programs
            .sessions
            .get_mut(key)
            .unwrap()
            .has_changed = true;
        world.look_over_now(key);
    }
    let waiting = |engine: &Engine| {
        engine
            .programs
            .sessions
            .iter()
            .filter(|(_, s)| s.has_changed)
            .count()
    };
    for expected in [LOOKED_OVER + 5, 5, 0] {
        world.turn();
        assert_eq!(waiting(&world.engine), expected);
        assert_eq!(world.engine.needs_maintenance(), expected != 0);
    }
    let sessions = world.engine.programs.sessions.iter();
    assert!(sessions.into_iter().all(|(_, s)| !s.is_listed));
    let now = world.engine.stack.now();
    assert!(
        world.engine.programs.schedule.at() > now,
        "and then not again"
    );
}

#[test]
fn what_crossed_in_a_session_that_has_ended_still_counts() {
    let mut world = Turned::new();
    let [mut host, _other] = world.programs();
    let host = world.during(move |_| {
        let socket = host.open(SocketKind::Stream);
        host.bind(socket, "0.0.0.0:0".parse().unwrap()).unwrap();
        host
    });
    world.run_pending();
    let before = world.engine.statistics().crossings;
    assert!(before.to_adapter.descriptors >= 2 && before.to_host.descriptors >= 1);
    world.engine.maintenance().end_session(0);
    // Nobody is in it any more.
    let session = world.engine.programs.sessions.get(0).unwrap();
    assert_eq!(session.processes.living(), 0);
    world.run_pending();
    assert!(world.engine.programs.sessions.get(0).is_none());
    assert!(world.engine.stack.endpoints.sessions.get(0).is_none());
    let after = world.engine.statistics().crossings;
    assert!(after.to_adapter.descriptors >= before.to_adapter.descriptors);
    assert!(after.to_host.descriptors >= before.to_host.descriptors);
    assert_ne!(host.arena.header().closed.load(Ordering::Acquire), 0);
    assert!(world.engine.programs.sessions.get(1).is_some());
}

/// More than the other end has room for.
const MUCH: usize = 40 * CHUNK;

/// A program that has written much to one in another session, which reads nothing of it: its
/// socket has it still.
fn undelivered(world: &mut Turned) -> (Host, Host, SocketId) {
    let [mut client, mut server] = world.programs();
    world.during(move |_| {
        let listener = server.listening("10.0.0.1:80");
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener).socket;
        client.send(socket, &[7; MUCH], EdgeFlags::empty());
        server.wait("some of it", |s| {
            s.edges(accepted)
                .is_some_and(|e| e.rcv_edge != 0)
                .then_some(())
        });
        (client, server, accepted)
    })
}

#[test]
fn what_a_program_has_written_is_delivered_for_a_minute_after_its_end() {
    let mut world = Turned::new();
    let (mut client, mut server, accepted) = undelivered(&mut world);
    leaves(&mut world, &mut client, 0);
    world.run_pending();
    for second in 1..59 {
        world.later(SECOND);
        if second % 20 == 0 {
            // Otherwise the connection itself would give up.
            server = world.during(move |_| {
                server.receive(accepted, 100);
                server
            });
        }
        assert!(
            world.engine.programs.sessions.get(0).is_some(),
            "after {second} s"
        );
    }
    (0..4).for_each(|_| world.later(SECOND));
    assert!(world.engine.programs.sessions.get(0).is_none());
}

#[test]
fn a_session_ends_soon_after_all_that_its_program_had_written_is_read() {
    let mut world = Turned::new();
    let (mut client, mut server, accepted) = undelivered(&mut world);
    leaves(&mut world, &mut client, 0);
    world.later(2 * SECOND);
    world.later(2 * SECOND);
    assert!(world.engine.programs.sessions.get(0).is_some());
    world.during(move |_| {
        assert_eq!(server.receive(accepted, MUCH), [7; MUCH]);
        server.wait_flag(accepted, EdgeFlags::PEER_FIN);
        server
    });
    world.later(2 * SECOND);
    assert!(world.engine.programs.sessions.get(0).is_none());
}

#[test]
fn a_process_that_asked_for_much_before_its_end_is_the_last_that_is_seen_to_in_a_look() {
    const ASKED: u32 = longshore_hostif::RING as u32;
    let mut world = Turned::new();
    let [host] = world.programs();
    let processes = [1, 2, 3].map(|channel| Member::new(&mut world, &host, channel));
    for channel in 1..=3 {
        let mut channel = longshore_hostif::HostChannel::new(host.arena.clone(), channel);
        for _ in 0..ASKED {
            let nothing = longshore_hostif::Request::Close {
                socket: SocketId {
                    index: 0,
                    generation: 7,
                },
                snd_edge: 0,
                rcv_consumed: 0,
                linger: None,
            };
            channel.put(&nothing).unwrap();
        }
        // Nobody is notified.
        channel.publish(&host.doorbell, false);
    }
    drop(processes);
    let living = |engine: &Engine| engine.programs.sessions.get(0).unwrap().processes.living();
    assert_eq!(living(&world.engine), 4);
    for expected in [3, 2, 1] {
        world.engine.maintenance().take_deaths(64);
        assert_eq!(living(&world.engine), expected);
    }
}

/// The kernel reports an end as often as it is asked, until it has been seen to.
#[test]
fn an_end_is_seen_to_once() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let process = Member::new(&mut world, &host, 1);
    drop(process);
    world.until("its end", |engine| {
        engine.programs.sessions.get(0).unwrap().processes.living() == 1
    });
    assert!(world.engine.programs.deaths.look(64).is_empty());
    assert_eq!(host.arena.control(1).state(), ChannelState::Free);
}

/// A channel is reserved for a child.
fn is_about_to_fork(host: &Host) {
    let control = host.arena.control(9);
    assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
    host.arena
        .header()
        .reservations
        .fetch_add(1, Ordering::AcqRel);
}

/// A chunk was used, and is free: its memory is to go back.
fn leaves_memory(host: &Host) {
    let chunk = host.arena.take_snd_chunk().unwrap().unwrap();
    host.arena.give_snd_chunk(chunk).unwrap();
}

/// Each of these is to be looked after from time to time, though nobody asks for it.
#[test]
fn an_engine_wakes_for_what_is_to_be_looked_after_in_a_session() {
    let lends_file = |world: &mut Turned| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let file = longshore_hostif::adapter::OfferedFile::check(file.into()).unwrap();
        let now = world.engine.stack.now().0;
        let half = world.engine.stack.endpoints.sessions.get_mut(0).unwrap();
        assert!(half.host.send.lend_file(file, now).is_ok());
    };
    for cause in 0..3 {
        let mut world = Turned::new();
        let [host] = world.programs();
        world.run_pending();
        assert!(!world.engine.needs_maintenance());
        match cause {
            0 => is_about_to_fork(&host),
            1 => leaves_memory(&host),
            _ => lends_file(&mut world),
        }
        assert!(world.engine.needs_maintenance());
        assert!(world.engine.next_deadline() <= Some(Duration::from_secs(1)));
    }
}

/// A thread asks for the eventfd of a waiter that it has claimed.
fn sleeps_on_eventfd(world: &mut Turned, host: Host, waiter: u32) -> Host {
    use longshore_hostif::attach::{Message, receive, send};
    let session = longshore_hostif::HostSession::of(&host.arena);
    assert!(session.waiters().claim_this(7, waiter));
    world.during(move |_| {
        let connection = host.connection.as_fd();
        let question = Message::Eventfd { waiter, ask: 1 };
        send(connection, &question, &[]).unwrap();
        let (answer, fds) = receive(connection).unwrap();
        assert_eq!((answer, fds.len()), (question, 1));
        host
    })
}

/// Its process goes on, and does nothing more. Whether the session is parked is no matter.
#[test]
fn what_a_thread_slept_on_is_closed_some_time_after_its_end() {
    let mut world = Turned::new();
    let mut programs: Vec<Host> = world.programs::<4>().into();
    world.turns(2_000);
    assert_eq!(world.engine.stack.endpoints.sessions.parked(), 2);
    for waiter in [3, 5] {
        let again = programs.into_iter();
        programs = again
            .map(|host| sleeps_on_eventfd(&mut world, host, waiter))
            .collect();
    }
    let have_eventfds = |world: &Turned| {
        let sessions = &world.engine.stack.endpoints.sessions;
        let keys = sessions.keys().into_iter();
        let wakeups = keys.filter_map(|key| Some(&sessions.get(key)?.host.wakeups));
        wakeups.filter(|w| w.have_eventfds()).count()
    };
    (0..5).for_each(|_| world.later(SECOND));
    assert_eq!(have_eventfds(&world), 4);
    for host in &programs {
        let session = longshore_hostif::HostSession::of(&host.arena);
        assert!([3, 5].into_iter().all(|w| session.waiters().free(w)));
    }
    assert!(world.engine.next_deadline() <= Some(Duration::from_secs(1)));
    (0..3).for_each(|_| world.later(SECOND));
    assert_eq!(have_eventfds(&world), 0);
    assert!(!world.engine.needs_maintenance());
}

/// The eventfds of threads that live for long do not wake an engine for ever.
#[test]
fn an_engine_of_threads_that_wait_wakes_for_nothing_after_a_while() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let _host = sleeps_on_eventfd(&mut world, host, 3);
    assert!(world.engine.needs_maintenance());
    (0..60).for_each(|_| world.later(SECOND));
    assert!(!world.engine.needs_maintenance());
    assert_eq!(world.engine.next_deadline(), None);
}

/// A child may claim a channel for itself before it finds the one that its parent has claimed for it.
/// That one is a reservation then, for which nobody may come.
#[test]
fn what_a_child_claims_besides_its_channel_is_looked_after_soon() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let child = Member::new(&mut world, &host, 1);
    (0..60).for_each(|_| world.later(SECOND));
    assert_eq!(world.engine.next_deadline(), None);
    child.claims(&host, 2);
    longshore_hostif::HostChannel::new(host.arena.clone(), 2).flag();
    host.doorbell.ring();
    world.run_pending();
    assert_eq!(host.arena.control(2).state(), ChannelState::Reserved);
    let deadline = world.engine.next_deadline();
    assert!(deadline.is_some_and(|after| after <= Duration::from_micros(SOON)));
}

/// What it has left behind is looked after all the same.
#[test]
fn a_session_whose_memory_is_to_go_back_is_looked_over_though_it_is_parked() {
    let mut world = Turned::new();
    let programs: [Host; 4] = world.programs();
    world.run_pending();
    programs.iter().for_each(leaves_memory);
    world.turns(2_000);
    assert_eq!(world.engine.stack.endpoints.sessions.parked(), 2);
    (0..10).for_each(|_| world.later(SECOND));
    for host in &programs {
        assert!(!host.arena.has_warm_snd_chunk());
    }
}

/// A parent has reserved a channel, with what its child is to inherit in it, and there is no child.
#[test]
fn what_a_child_was_to_inherit_that_never_came_is_closed() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let host = world.during(move |_| {
        let socket = host.open(SocketKind::Datagram);
        host.bind(socket, "10.0.0.1:7000".parse().unwrap()).unwrap();
        is_about_to_fork(&host);
        host.arena.set_held(9, socket.index, true);
        host.arena
            .set_held(host.channel.index(), socket.index, false);
        host
    });
    let sockets = |world: &Turned| world.engine.stack.status().socket_count();
    (0..9).for_each(|_| world.later(SECOND));
    assert_eq!(sockets(&world), 1, "it may still come");
    (0..3).for_each(|_| world.later(SECOND));
    assert_eq!(sockets(&world), 0);
    assert_eq!(host.arena.control(9).state(), ChannelState::Free);
}

/// The first fragment of a packet from 10.0.0.2.
fn fragment() -> Vec<u8> {
    let mut packet = [0; 28];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 1, 0x20, 0, 64, 17]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    let words = packet[..20]
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let link = [2, b'L', b'S', 0, 0, 1, 2, b'L', b'S', 0, 0, 2, 8, 0];
    [&link[..], &packet[..]].concat()
}

#[test]
fn fragments_that_stay_alone_are_forgotten() {
    use longshore_ports::{Port as _, TxFrame};
    let mut world = Turned::new();
    world.run_pending();
    assert!(!world.engine.needs_maintenance());
    world.wire.send(&TxFrame::whole(&fragment())).unwrap();
    world.turn();
    assert!(world.engine.stack.status().has_fragments());
    assert!(world.engine.needs_maintenance());
    (0..62).for_each(|_| world.later(SECOND));
    assert!(!world.engine.stack.status().has_fragments());
    assert!(!world.engine.needs_maintenance());
}

#[test]
fn a_session_ends_as_soon_as_its_last_process_does() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    drop(host.launcher.take());
    world.until("the launcher's end", |engine| {
        engine.programs.sessions.get(0).is_some_and(|s| !s.launched)
    });
    // Nothing else would be looked over for a second.
    world.later(2 * SECOND);
    assert!(world.engine.programs.sessions.get(0).is_some());
    world
        .engine
        .maintenance()
        .process_died(0, host.channel.index() as u16);
    world.turn();
    assert!(world.engine.programs.sessions.get(0).is_none());
}

/// A child goes on with a socket that its parent has made, and ends before the engine has heard of
/// either.
#[test]
fn what_a_process_asked_before_its_end_comes_after_what_others_asked_before() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let _member = Member::new(&mut world, &host, 1);
    world.run_pending();
    let socket = host.open(SocketKind::Datagram);
    let mut channel = longshore_hostif::HostChannel::new(host.arena.clone(), 1);
    channel
        .put(&longshore_hostif::Request::Bind {
            socket,
            tag: 1,
            waiter: None,
            local: "10.0.0.1:7000"
                .parse::<std::net::SocketAddr>()
                .unwrap()
                .into(),
        })
        .unwrap();
    channel.publish(&host.doorbell, false);
    world.engine.maintenance().process_died(0, 1);
    let local = world.engine.stack.status().sockets(0).map(|(_, s)| s.local);
    let local: Vec<_> = local.collect();
    assert_eq!(local, ["10.0.0.1:7000".parse().ok()]);
}

#[test]
fn sessions_that_ask_for_nothing_are_parked_but_for_a_few_and_for_those_that_fork() {
    let mut world = Turned::new();
    let programs: [Host; 8] = world.programs();
    // Three of them are about to have a child.
    for host in &programs[5..] {
        is_about_to_fork(host);
    }
    world.turns(2_000);
    // Nobody rings for a reservation.
    let mut polled = world.engine.stack.endpoints.sessions.polled().to_vec();
    polled.sort_unstable();
    assert_eq!(polled, [5, 6, 7]);
    // A parked one whose launcher leaves is looked over all the same.
    let parked = 3;
    world.look_over_now(parked);
    assert!(world.engine.needs_maintenance());
    assert_eq!(world.engine.next_deadline(), Some(Duration::ZERO));
    world.turn();
    assert!(
        !world
            .engine
            .programs
            .sessions
            .get(parked)
            .unwrap()
            .is_listed
    );
}

#[test]
fn programs_are_told_when_their_engine_ends_and_woken_if_they_sleep() {
    const WAITER: usize = 5;
    let mut world = Turned::new();
    let programs: [Host; 2] = world.programs();
    for host in &programs {
        let end = &host.arena.header().waiters_end;
        end.store(WAITER as u32 + 1, Ordering::Release);
        host.arena.waiters()[WAITER].declare(longshore_ring::Sleep::Futex);
    }
    world.engine.mark_all_closed();
    for host in &programs {
        assert_ne!(host.arena.header().closed.load(Ordering::Acquire), 0);
        assert!(!host.arena.waiters()[WAITER].is_declared());
    }
}

/// One that is about to end, or to have a child, is looked over soon again, and no other.
#[test]
fn sessions_that_are_changing_are_looked_over_soon_again() {
    let soon = Duration::from_micros(SOON);
    let mut world = Turned::new();
    let [host] = world.programs();
    leaves_memory(&host);
    world.later(2 * SECOND);
    assert!(world.engine.next_deadline().unwrap() > soon);
    is_about_to_fork(&host);
    world.later(2 * SECOND);
    assert!(world.engine.next_deadline().unwrap() <= soon);
    let mut world = Turned::new();
    let (mut client, _server, _) = undelivered(&mut world);
    leaves(&mut world, &mut client, 0);
    world.later(2 * SECOND);
    assert!(world.engine.programs.sessions.get(0).is_some());
    assert!(world.engine.next_deadline().unwrap() <= soon);
}

/// A message that has a socket in it may never be received.
#[test]
fn a_socket_that_was_on_its_way_for_a_minute_is_closed() {
    let mut world = Turned::new();
    let [mut host] = world.programs();
    let host = world.during(move |_| {
        let socket = host.open(SocketKind::Datagram);
        host.bind(socket, "10.0.0.1:7000".parse().unwrap()).unwrap();
        let block = host.arena.block(socket.index);
        block.in_transit.store(1, Ordering::Release);
        host.arena
            .set_held(host.channel.index(), socket.index, false);
        host.put(longshore_hostif::Request::Unsubscribe { socket });
        host
    });
    let sockets = |world: &Turned| world.engine.stack.status().socket_count();
    (0..55).for_each(|_| world.later(SECOND));
    assert_eq!(sockets(&world), 1);
    (0..8).for_each(|_| world.later(SECOND));
    assert_eq!(sockets(&world), 0);
    drop(host);
}

/// As if there had been no descriptor that reports its end when it came.
#[test]
fn a_process_that_nothing_tells_of_is_asked_after_and_watched_as_soon_as_that_can_be() {
    for ended_before in [false, true] {
        let mut world = Turned::new();
        let [host] = world.programs();
        world.run_pending();
        let child = Member::unknown(&host, 9);
        let (pid, pidfd) = (child.id(), None);
        let (s, half) = world
            .engine
            .programs
            .pair_mut(&mut world.engine.stack, 0)
            .unwrap();
        let peer = longshore_hostif::agent::Peer { pid, pidfd };
        let channel = s.attach(half, peer).unwrap();
        host.arena.control(9).set_state(ChannelState::Free);
        let mut child = Some(child);
        if ended_before {
            child.take();
        }
        // What there is to be done is done by and by.
        assert!(world.engine.needs_maintenance());
        world.later(2 * SECOND);
        let living = |engine: &Engine| engine.programs.sessions.get(0).unwrap().processes.living();
        assert_eq!(living(&world.engine), 2 - usize::from(ended_before));
        child.take();
        world.until("its end", |engine| living(engine) == 1);
        let control = host.arena.control(channel.into());
        assert_eq!(control.state(), ChannelState::Free);
    }
}

/// Of what its programs ask from then on, nothing is done, though they are still there.
#[test]
fn a_session_that_is_ended_is_served_no_more() {
    for ends in [false, true] {
        let mut world = Turned::new();
        let [mut host] = world.programs();
        world.run_pending();
        let option = longshore_hostif::Request::SetOption {
            socket: longshore_hostif::SocketId {
                index: 0,
                generation: 77,
            },
            name: longshore_hostif::OptionName::KeepIdle,
            value: 1,
        };
        host.channel.put(&option).unwrap();
        host.channel.publish(&host.doorbell, false);
        if ends {
            world.engine.maintenance().end_session(0);
        }
        world.turn();
        let control = host.arena.control(host.channel.index());
        assert_eq!(control.has_handled(control.requested()), !ends);
    }
}

/// Nothing else may wake the loop for it.
#[test]
fn an_engine_does_not_sleep_through_what_is_to_be_seen_to_in_a_parked_session() {
    let mut world = Turned::new();
    let [_host] = world.programs();
    (0..10).for_each(|_| world.later(SECOND));
    assert!(world.engine.stack.endpoints.sessions.park(0));
    assert!(!world.engine.needs_maintenance());
    world.look_over_now(0);
    assert!(world.engine.needs_maintenance());
    let deadline = world.engine.next_deadline();
    assert!(deadline.is_some_and(|within| within <= Duration::from_secs(1)));
}
