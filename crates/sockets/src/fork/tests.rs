//! What is reserved for a child, and what it begins with. Here the process goes on as its own
//! child would: its parent is the channel that it leaves.

use super::*;
use crate::host::SUBSCRIBED;
use crate::testing::Engine;
use crate::testing::fixture::{Ignored, engine, requested};
use crate::{Departure, Ready, ReadySet, Socket, WaitLimit};
use longshore_hostif::{OpenFlags, SocketKind};
use std::io::{IoSlice, IoSliceMut};

/// The tests' own threads are in nothing of the host's.
fn only_thread() -> OnlyThread {
    // SAFETY: this thread alone uses the host, and is in no call on it.
    unsafe { OnlyThread::new() }
}

#[test]
fn a_reservation_has_what_its_process_holds() {
    let (mut engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let control = |channel| host.arena.control(channel);
    let before = host.arena.header().reservations.load(Ordering::Acquire);
    let reservation = host.reserve_channel().unwrap();
    let channel = reservation.channel();
    assert_ne!(channel, host.own_channel());
    assert_eq!(control(channel).state(), ChannelState::Reserved);
    let pid = control(channel).pid.load(Ordering::Acquire);
    assert_eq!(pid, host.identity.pid());
    let reservations = &host.arena.header().reservations;
    assert_eq!(reservations.load(Ordering::Acquire), before + 1);
    let holds = |socket: &Socket| host.arena.holds(channel, socket.id().index);
    assert!(holds(a.socket()) && holds(b.socket()));
    assert_eq!((a.socket().uses(), b.socket().uses()), (2, 2));
    reservation.leave_out(a.socket().id());
    assert!(!holds(a.socket()) && holds(b.socket()));
    // The next one is another.
    let second = host.reserve_channel().unwrap();
    assert_ne!(second.channel(), channel);
    second.release();
    // One that is another's is left alone.
    control(channel).pid.store(pid + 1, Ordering::Release);
    reservation.release();
    assert_eq!(control(channel).state(), ChannelState::Reserved);
    control(channel).pid.store(pid, Ordering::Release);
    reservation.release();
    assert_eq!(control(channel).state(), ChannelState::Free);
    assert!(!holds(b.socket()));
    // It is given back once: the channel may be reserved again.
    let third = host.reserve_channel().unwrap();
    assert_eq!(third.channel(), channel);
    third.release();
    reservation.release();
    engine.stop();
    host.look_at_engine();
    assert!(host.reserve_channel().is_none());
}

#[test]
fn a_session_has_so_many_channels_and_no_more() {
    let (_engine, host, _directory) = engine();
    let all: Vec<Reservation> = std::iter::from_fn(|| host.reserve_channel()).collect();
    assert_eq!(all.len(), host.arena.geometry().channels as usize - 1);
    for reservation in &all {
        reservation.release();
    }
    assert!(host.reserve_channel().is_some());
}

/// A pid that nobody has: its process has ended, and its parent knows.
fn pid_of_the_ended() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// A fork waits for the channel of a process that has ended, which the engine is about to free, and
/// for nobody else's.
#[test]
fn a_channel_that_is_about_to_be_freed_is_waited_for() {
    let (_engine, host, _directory) = engine();
    while let Some(reservation) = host.reserve_channel() {
        let control = host.arena.control(reservation.channel());
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    }
    let began = Instant::now();
    assert!(host.reserve_channel().is_none());
    assert!(began.elapsed() < FREED_WITHIN, "all live");
    let channel = (host.own_channel() + 1) % host.arena.geometry().channels;
    let control = host.arena.control(channel);
    control.pid.store(pid_of_the_ended(), Ordering::Release);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(FREED_WITHIN / 8);
            control.set_state(ChannelState::Free);
        });
        let reservation = host.reserve_channel().expect("it is freed in time");
        assert_eq!(reservation.channel(), channel);
    });
    // An engine that does not free it is not waited for for ever.
    assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    control.pid.store(pid_of_the_ended(), Ordering::Release);
    let began = Instant::now();
    assert!(host.reserve_channel().is_none());
    assert!(began.elapsed() >= FREED_WITHIN);
    // In a namespace of pids of its own it does not know who has ended.
    host.identity.leave_namespace();
    let is_at_once = |_| {
        let began = Instant::now();
        assert!(host.reserve_channel().is_none());
        began.elapsed() < FREED_WITHIN
    };
    // Others may have the processor for longer than that, but not each time.
    assert!((0..10).any(is_at_once));
}

/// A child that is made without our knowing has it until its own shim takes over.
#[test]
fn a_reservation_is_given_to_a_child() {
    let (engine, host, _directory) = engine();
    let reservation = host.reserve_channel().unwrap();
    let control = host.arena.control(reservation.channel());
    // A process that lives.
    let child = rustix::process::getpid().as_raw_nonzero().get() as u32;
    reservation.give_to(child);
    assert_eq!(control.pid.load(Ordering::Acquire), child);
    for _ in 0..12_000 {
        if control.state() == ChannelState::Open {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(control.state(), ChannelState::Open, "the engine was told");
    drop(engine);
}

#[test]
fn a_parent_knows_what_it_has_reserved() {
    let (_engine, host, _directory) = engine();
    let reservation = host.before_fork().in_parent().unwrap();
    let control = host.arena.control(reservation.channel());
    assert_eq!(control.state(), ChannelState::Reserved);
    reservation.is_for(4711);
    assert_eq!(control.child(), Some(4711));
    reservation.release();
    // All locks are free again.
    let (a, b) = Engine::pair(host);
    a.write_all(b"x").unwrap();
    assert_eq!(b.read(&mut [0; 9]), Ok(1));
}

/// The child has the sockets that it has descriptors of, in a channel of its own, and nothing
/// that its parent had begun.
#[test]
fn a_child_goes_on_with_the_sockets_that_it_has_descriptors_of() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let other = host
        .sockets()
        .open(SocketKind::Stream, OpenFlags::empty(), 0)
        .unwrap();
    let datagram = Engine::open(host, SocketKind::Datagram);
    let to = datagram.addresses().bind(Engine::address(0)).unwrap();
    let part = [IoSlice::new(b"part")];
    datagram
        .datagrams()
        .begin(&part, Some(to), Departure::default())
        .unwrap();
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.add(b.socket(), 5, 1, 7).unwrap();
    let parent = host.own_channel();
    let ids = [a.socket().id(), b.socket().id(), datagram.id()];
    let forking = host.before_fork();
    let epoch = host.identity.epoch();
    let child = forking.in_child(&only_thread(), ids.into_iter().zip([1, 2, 1]));
    assert!(std::ptr::eq(child, host));
    assert_eq!(host.identity.epoch(), epoch + 1);
    assert_ne!(host.own_channel(), parent);
    for id in ids {
        assert!(host.arena.holds(host.own_channel(), id.index));
    }
    // The parent counts as one more.
    assert_eq!((a.socket().uses(), b.socket().uses()), (2, 3));
    assert_eq!(host.held_sockets.count(other.id().index), 0);
    assert_eq!(
        datagram.datagrams().begun_for(),
        Ok(None),
        "its parent has begun it"
    );
    assert_eq!(set.wake_fd_if_made(), None, "its parent sleeps there");
    assert_ne!(
        set.wake_fd().unwrap().map(|(_, is_new)| is_new),
        Some(false)
    );
    let _ = fd;
    // Both ends work, by the child's own channel.
    let copy = host.sockets().acquire(b.socket().id()).unwrap();
    a.write_all(b"abc").unwrap();
    let mut buf = [0; 9];
    let read = copy.wait(None, WaitLimit::ENDLESS, || {
        copy.receive_stream()
            .recv(&mut [IoSliceMut::new(&mut buf)], false)
    });
    assert_eq!(read, Ok(3));
    let mut reported = Vec::new();
    a.write_all(b"d").unwrap();
    engine.wait_until("it has come", |_| {
        host.messages().drain_if_free();
        copy.receive_stream().readable_bytes() == 1
    });
    set.harvest(9, |report| reported.push(report.data)).unwrap();
    assert_eq!(reported, [7], "it has the sets of its parent");
    std::mem::forget(other);
}

/// A child that sleeps for a set of its parent's is told of the sockets in it.
#[test]
fn a_child_is_told_of_the_sockets_in_the_sets_that_it_sleeps_for() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(b.socket(), 5, 1, 7).unwrap();
    let ids = [a.socket().id(), b.socket().id()];
    host.before_fork()
        .in_child(&only_thread(), ids.into_iter().zip([1, 1]));
    let is_told = |id: SocketId| host.held_sockets.is_marked(id.index, SUBSCRIBED);
    assert_eq!(ids.map(is_told), [false, false]);
    assert!(set.wake_fd().unwrap().is_some());
    assert_eq!(ids.map(is_told), [false, true]);
}

/// A set of a socket, from which nothing is to be read.
fn set_of(socket: &Socket) -> ReadySet {
    let set = ReadySet::new(socket.host()).unwrap();
    set.add(socket, 5, Ready::IN.bits(), 7).unwrap();
    assert_eq!(set.harvest(9, |_| ()), Ok(0));
    assert!(!set.is_ready());
    set
}

/// With no channel left for it, a child's sockets fail, and its parent's go on.
#[test]
fn a_child_without_a_channel_fails() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = set_of(b.socket());
    while host.reserve_channel().is_some() {}
    let forking = host.before_fork();
    assert!(forking.reservation.is_none());
    let child = forking.in_child(&only_thread(), std::iter::once((a.socket().id(), 1)));
    assert!(child.is_gone() && child.is_cut_off());
    let sent = a.socket().send_stream().send(&[IoSlice::new(b"x")], false);
    assert!(sent.is_err());
    assert!(set.is_ready(), "who waits for it is told");
    std::mem::forget((a, b));
}

/// Linux closes nothing of a child that is held up, but the engine gives its channel to another.
#[test]
fn a_child_that_comes_too_late_fails() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = set_of(b.socket());
    let forking = host.before_fork();
    let control = host.arena.control(forking.reservation.unwrap().channel());
    assert!(control.change_state(ChannelState::Reserved, ChannelState::Free));
    let child = forking.in_child(&only_thread(), std::iter::once((a.socket().id(), 1)));
    assert!(child.is_gone() && child.is_cut_off());
    assert!(set.is_ready(), "who waits for it is told");
    assert_eq!(control.state(), ChannelState::Free);
    std::mem::forget((a, b));
}

#[test]
fn a_child_of_one_without_an_engine_has_none_either() {
    let (mut engine, host, _directory) = engine();
    engine.stop();
    host.look_at_engine();
    let child = host.before_fork().in_child(&only_thread(), [].into_iter());
    assert!(child.is_gone() && child.is_cut_off());
}

/// What its parent had read, and not told of, or kept, is the parent's to tell of.
#[test]
fn a_child_tells_of_nothing_that_its_parent_read() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let index = b.socket().id().index;
    a.write_all(b"abc").unwrap();
    assert_eq!(b.read(&mut [0; 2]), Ok(2));
    host.kept.enter().unwrap().insert(index, 1);
    assert!(!host.unreported.enter().unwrap().is_empty());
    let ids = [a.socket().id(), b.socket().id()];
    let mut forking = host.before_fork();
    // Another thread has read something just before.
    let unreported = forking.unreported.as_mut().unwrap();
    assert!(unreported.is_empty(), "all before that was told");
    unreported.push(b.socket().id());
    // One that the parent's threads asked with before.
    std::mem::forget(host.query.enter().unwrap());
    forking.in_child(&only_thread(), ids.into_iter().zip([1, 1]));
    assert!(host.unreported.enter().unwrap().is_empty());
    assert!(host.kept.enter().unwrap().is_empty());
    assert!(host.query.try_enter().is_some(), "nobody asks in the child");
    drop(engine);
}

/// A child of which we heard nothing has the locks as they were, and a place that it has asked for
/// itself.
#[test]
fn a_child_that_has_joined_by_itself_begins_anew() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let other = Engine::open(host, SocketKind::Stream);
    let datagram = Engine::open(host, SocketKind::Datagram);
    let part = [IoSlice::new(b"part")];
    let to = Some(Engine::address(7));
    let begun = datagram.datagrams().begin(&part, to, Departure::default());
    assert_eq!(begun, Ok(4));
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.add(b.socket(), 5, 1, 7).unwrap();
    a.write_all(b"abc").unwrap();
    assert_eq!(b.read(&mut [0; 2]), Ok(2));
    host.kept.enter().unwrap().insert(b.socket().id().index, 1);
    assert!(!host.unreported.enter().unwrap().is_empty());

    let joined = longshore_hostif::attach::join(engine.path(), engine.token()).unwrap();
    let (parent, channel) = (host.own_channel(), joined.channel);
    assert_ne!(parent, channel);
    // One that nobody holds for now, as it is on its way.
    let sent = Engine::open(host, SocketKind::Stream);
    host.arena.set_held(parent, sent.id().index, false);
    // Threads of the parent were in the midst of something, and an image of the child before this
    // one held a socket.
    std::mem::forget(host.query.enter().unwrap());
    std::mem::forget(host.unfinished.enter().unwrap());
    std::mem::forget(host.unreported.enter().unwrap());
    std::mem::forget(host.channel.stop().unwrap());
    host.arena.set_held(channel, other.id().index, true);
    let (epoch, waiter) = (host.identity.epoch(), host.threads().my_waiter());
    let gone = SocketId {
        generation: sent.id().generation + 1,
        ..sent.id()
    };
    let ids = [a.socket().id(), b.socket().id()];
    let descriptors = ids.into_iter().zip([1, 2]).chain([(gone, 1)]);
    let left = host.begin_anew(&only_thread(), joined, descriptors);

    let left: Vec<_> = left.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    assert_eq!(left, [fd], "its parent sleeps there");
    assert_eq!(host.own_channel(), channel);
    assert_eq!(host.identity.epoch(), epoch + 1);
    assert_ne!(host.threads().my_waiter(), waiter, "that is the parent's");
    let holds = |channel, id: SocketId| host.arena.holds(channel, id.index);
    for id in ids {
        assert!(holds(parent, id) && holds(channel, id));
    }
    assert!(holds(parent, other.id()) && !holds(channel, other.id()));
    assert!(!holds(channel, datagram.id()) && !holds(channel, sent.id()));
    let closed = longshore_hostif::BlockFlags::CLOSED;
    assert!(!sent.block().flags().contains(closed), "it is another's");
    assert_eq!(host.channel.stop().unwrap().channel(), channel);
    // The parent counts as one more.
    assert_eq!((a.socket().uses(), b.socket().uses()), (2, 3));
    let count = |socket: &Socket| host.held_sockets.count(socket.id().index);
    assert_eq!((count(&other), count(&datagram)), (0, 0));
    assert_eq!(datagram.datagrams().begun_for(), Ok(None));
    assert!(host.unreported.enter().unwrap().is_empty());
    assert!(host.kept.enter().unwrap().is_empty());
    assert!(host.query.try_enter().is_some());
    assert!(host.arena.control(channel).has_inherited());
    // Both ends work, by the child's own channel, and it has the sets of its parent.
    let copy = host.sockets().acquire(b.socket().id()).unwrap();
    a.write_all(b"d").unwrap();
    engine.wait_until("it has come", |_| {
        host.messages().drain_if_free();
        copy.receive_stream().readable_bytes() == 2
    });
    let mut reported = Vec::new();
    set.harvest(9, |report| reported.push(report.data)).unwrap();
    assert_eq!(reported, [7]);
    std::mem::forget((other, datagram, sent));
}

/// Sets that a thread was changing are left behind as they are: the child has none of them.
#[test]
fn a_child_that_begins_anew_has_no_sets_that_were_being_changed() {
    let (engine, host, _directory) = engine();
    let set = ReadySet::new(host).unwrap();
    assert!(set.wake_fd().unwrap().is_some());
    std::mem::forget(host.ready_sets.enter().unwrap());
    let joined = longshore_hostif::attach::join(engine.path(), engine.token()).unwrap();
    let left = host.begin_anew(&only_thread(), joined, [].into_iter());
    assert!(left.is_empty());
    assert!(host.ready_sets.try_enter().is_some());
    assert!(set.wake_fd().is_err(), "it is gone");
}

#[test]
fn a_child_without_a_place_of_its_own_fails() {
    let (_engine, host, _directory) = engine();
    let epoch = host.identity.epoch();
    host.fail_in_child("there is none");
    assert!(host.is_gone() && host.is_cut_off());
    assert_eq!(host.identity.epoch(), epoch + 1);
}

/// Of a process that the engine does not see by the pid that it has for itself.
#[test]
fn a_child_in_another_namespace_is_not_named() {
    let (_engine, host, _directory) = engine();
    let reservation = host.before_fork().in_parent().unwrap();
    let control = host.arena.control(reservation.channel());
    reservation.is_for(4711);
    assert_eq!(control.child(), Some(4711));
    host.identity.leave_namespace();
    reservation.is_for(4712);
    assert_eq!(control.child(), Some(4711));
    let pid = control.pid.load(Ordering::Acquire);
    reservation.give_to(4713);
    assert_eq!(control.state(), ChannelState::Reserved);
    assert_eq!(control.pid.load(Ordering::Acquire), pid);
}

/// Where its parent cannot, it says itself which reservation is for it.
#[test]
fn a_child_that_has_joined_names_itself() {
    let (engine, host, _directory) = engine();
    let reservation = host.reserve_channel().unwrap();
    assert_eq!(reservation.name(), None, "its parent gives it");
    host.identity.leave_namespace();
    let name = reservation.name().expect("a name");
    let control = host.arena.control(reservation.channel());
    let child = engine.join();
    // A channel that there is not, and a reservation that is over.
    let channel = host.arena.geometry().channels;
    child.be_child_of(ReservationName { channel, ..name });
    let number = name.number.wrapping_sub(1);
    child.be_child_of(ReservationName { number, ..name });
    assert_eq!(control.child(), None);
    // One whose pid means nothing to the engine has another name there.
    let own = child.identity.pid();
    for known_as in [own, REGISTERED | child.own_channel()] {
        child.identity.take_channel(child.own_channel(), known_as);
        child.be_child_of(name.to_string().parse().expect("a name"));
        assert_eq!(control.child(), Some(known_as));
    }
    child.identity.take_channel(child.own_channel(), own + 1);
    child.be_cut_off();
    child.be_child_of(name);
    assert_ne!(control.child(), Some(own + 1));
}

/// The engine may have given it up, and another thread have reserved the channel.
#[test]
fn a_reservation_that_is_over_is_not_given_back() {
    let (_engine, host, _directory) = engine();
    let first = host.reserve_channel().unwrap();
    let control = host.arena.control(first.channel());
    control.set_state(ChannelState::Free);
    let second = host.reserve_channel().unwrap();
    assert_eq!(second.channel(), first.channel());
    first.release();
    assert_eq!(control.state(), ChannelState::Reserved);
    second.release();
    assert_eq!(control.state(), ChannelState::Free);
}

/// It connects to the engine, which learns by that which process it is; if it cannot, it has its
/// own pid.
#[test]
fn a_child_in_another_namespace_is_known_by_its_channel() {
    let (mut engine, host, _directory) = engine();
    let reservation = host.before_fork().in_parent().unwrap();
    assert_eq!(reservation.name_of_child(4711), 4711);
    host.identity.leave_namespace();
    let name = REGISTERED | reservation.channel();
    assert_ne!(name, REGISTERED);
    assert_eq!(reservation.name_of_child(4711), name);
    engine.stop();
    assert_eq!(reservation.name_of_child(4711), 4711);
}

#[test]
fn a_reservation_that_is_anothers_is_not_given() {
    let (_engine, host, _directory) = engine();
    let reservation = host.reserve_channel().unwrap();
    let control = host.arena.control(reservation.channel());
    let pid = control.pid.load(Ordering::Acquire);
    control.pid.store(pid + 1, Ordering::Release);
    reservation.give_to(pid + 2);
    assert_eq!(control.state(), ChannelState::Reserved);
    // Whose it is, it was given to: the engine finds that process by its pid.
    assert_eq!(control.pid.load(Ordering::Acquire), pid + 1);
}

#[test]
fn sets_that_are_held_are_not_changed() {
    let (_engine, host, _directory) = engine();
    let held = host.hold_sets();
    assert!(host.ready_sets.try_enter().is_none());
    drop(held);
    assert!(host.ready_sets.try_enter().is_some());
}

/// A channel may have been a process's before.
#[test]
fn a_reservation_is_of_an_empty_channel() {
    let (_engine, host, _directory) = engine();
    let reservation = host.reserve_channel().unwrap();
    let channel = reservation.channel();
    reservation.release();
    host.arena.control(channel).note_inherited();
    assert_eq!(host.reserve_channel().unwrap().channel(), channel);
    assert!(!host.arena.control(channel).has_inherited());
}

/// The other process may ask of what was forwarded before its parent's requests are looked at.
#[test]
fn what_was_forwarded_is_taken_before_a_child_is_made() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let id = socket.id();
    type Makes = fn(&'static Host);
    let ways: [Makes; 2] = [
        |host| {
            let _ = host.reserve_channel();
        },
        |host| {
            let _ = host.before_fork().in_parent();
        },
    ];
    for makes in ways {
        host.in_flight.note_forwarded(id);
        let before = requested(host);
        makes(host);
        assert_eq!(host.in_flight.take_forwarded(), None);
        assert_eq!(requested(host), before + 1, "it is asked");
    }
}

/// The channel is marked as one to be looked at, and the engine is woken for it.
#[test]
fn the_engine_is_told_of_a_channel_that_is_taken() {
    for by_itself in [false, true] {
        let ignored = Ignored::new();
        let host = ignored.host;
        let forking = host.before_fork();
        let reservation = forking.reservation.unwrap();
        let channel = reservation.channel();
        let control = host.arena.control(channel);
        let own = std::process::id();
        let rung = || ignored.engine.seen.lock().unwrap().rung[0];
        let before = rung();
        if by_itself {
            // Its parent's, or what stands for that.
            control.pid.store(4711, Ordering::Release);
            forking.in_child(&only_thread(), [].into_iter());
            assert_eq!(host.identity.pid(), own);
        } else {
            drop(forking);
            reservation.give_to(own);
        }
        assert_eq!(control.pid.load(Ordering::Acquire), own);
        assert_eq!(control.state(), ChannelState::Claimed);
        let flagged = &host.arena.header().requests_pending.channels[channel as usize / 64];
        assert_ne!(flagged.load(Ordering::Acquire) & 1 << (channel % 64), 0);
        ignored
            .engine
            .wait_until("it is woken", |seen| seen.rung[0] > before);
        std::mem::forget(ignored.socket);
    }
}
