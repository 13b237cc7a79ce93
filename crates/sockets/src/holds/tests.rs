//! The processes that have a socket, and what becomes of it with the last use.

use super::*;
use crate::Departure;
use crate::reported_edges::Having;
use crate::testing::Engine;
use crate::testing::fixture::{SMALL, engine, forwarding_engine};
use longshore_hostif::{LEAST_FORWARD, OwnersSignal};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn channels_are_asked_only_about_what_was_handed_on() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (writer, _reader) = Engine::pair(host);
    let (socket, index) = (writer.socket(), writer.socket().id().index);
    let control = host.arena.control(63);
    assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
    host.arena.set_held(63, index, true);
    assert!(
        !host.sockets().is_held_elsewhere(index),
        "nobody can have it"
    );
    socket.share();
    assert!(host.sockets().is_held_elsewhere(index));
    host.arena.set_held(63, index, false);
    assert!(!host.sockets().is_held_elsewhere(index));
}

/// The process that gets it holds it first, and then says that it has arrived.
#[test]
fn what_arrives_while_it_is_looked_for_is_kept() {
    use std::cell::Cell;
    let (in_transit, held) = (Cell::new(true), Cell::new(false));
    let arrives_behind = |seen: bool| {
        held.set(true);
        in_transit.set(false);
        seen
    };
    assert!(is_kept(
        || arrives_behind(in_transit.get()),
        || arrives_behind(held.get())
    ));
    in_transit.set(false);
    held.set(false);
    assert!(!is_kept(|| in_transit.get(), || held.get()));
}

#[test]
fn what_a_child_may_have_is_not_marked_though_another_thread_gets_it_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    for _ in 0..100 {
        std::thread::scope(|scope| {
            let getting = scope.spawn(|| (Engine::pair(host), Engine::pair(host)));
            while !getting.is_finished() {
                let reservation = host.reserve_channel().unwrap();
                let held = host.arena.held(reservation.channel()).iter().enumerate();
                for (index, word) in held {
                    let word = word.load(Ordering::Acquire);
                    let indices = (0..64).filter(|bit| word & 1 << bit != 0);
                    for index in indices.map(|bit| index as u32 * 64 + bit) {
                        let is_alone = host.held_sockets.is_marked(index, ALONE);
                        assert!(!is_alone, "the child has {index}, too");
                    }
                }
                reservation.release();
            }
            drop(getting.join().unwrap());
        });
    }
}

/// Whether a socket is marked as held in the channel of this process.
fn holds(host: &'static Host, id: SocketId) -> bool {
    let is_marked = host.arena.holds(host.own_channel(), id.index);
    assert_eq!(host.sockets().held().any(|held| held == id), is_marked);
    is_marked
}

#[test]
fn a_socket_is_held_until_its_last_use_ends() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let id = socket.id();
    assert!(holds(host, id));
    assert_eq!(
        (socket.uses(), host.held_sockets.having(id)),
        (1, Having::Alone)
    );
    let (second, third) = (socket.clone(), host.sockets().acquire(id).unwrap());
    assert_eq!(socket.uses(), 3);
    drop((second, third));
    assert_eq!(socket.uses(), 1);
    let again = Socket::from_use(host, socket.into_use());
    assert_eq!((again.uses(), again.id()), (1, id));
    drop(again);
    assert!(!holds(host, id));
    assert_eq!(host.held_sockets.having(id), Having::Not);
    assert!(host.sockets().acquire(id).is_none(), "it is gone");
    engine.wait_until("it is closed", |seen| seen.open == 0);
    // The next in its place is another.
    let next = Engine::open(host, SocketKind::Stream);
    assert_ne!(next.id(), id);
    assert!(host.sockets().acquire(id).is_none() && host.sockets().inherit(id).is_none());
}

#[test]
fn a_socket_that_never_was_is_not_held() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let id = socket.id();
    let other = SocketId {
        generation: id.generation + 1,
        ..id
    };
    let beyond = SocketId {
        index: host.arena.geometry().sockets,
        ..id
    };
    for no in [other, beyond] {
        assert!(host.sockets().acquire(no).is_none() && host.sockets().inherit(no).is_none());
    }
    // The socket in whose place it would be is held as before.
    assert!(holds(host, id) && socket.uses() == 1);
    let free = SocketId {
        index: id.index + 100,
        generation: 9,
    };
    assert!(host.sockets().inherit(free).is_none());
    assert!(!holds(host, free) && holds(host, id));
    assert_eq!(host.held_sockets.having(free), Having::Not);
}

/// By another process that has it, what is sent still arrives when the first has closed it.
#[test]
fn what_another_process_has_is_left_to_it() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let (a, b) = Engine::pair(host);
    let id = b.socket().id();
    b.socket().share();
    assert_eq!(host.held_sockets.having(id), Having::Shared);
    let theirs = second.sockets().inherit(id).unwrap();
    assert_eq!(b.socket().uses(), 2, "the other process counts as one");
    assert!(
        host.sockets().is_held_elsewhere(id.index) && second.sockets().is_held_elsewhere(id.index)
    );
    drop(b);
    assert!(!host.sockets().is_held_elsewhere(id.index) || !holds(host, id));
    a.write_all(b"x").unwrap();
    engine.wait_until("it has come", |_| {
        second.messages().drain_if_free();
        theirs.receive_stream().readable_bytes() == 1
    });
    assert_eq!(theirs.uses(), 1);
    drop(theirs);
    assert_eq!(a.read(&mut [0; 1]), Ok(0));
}

/// A descriptor in a message on a Unix socket keeps the socket open, whoever receives it.
#[test]
fn a_socket_on_its_way_stays_open() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let (a, b) = Engine::pair(host);
    let id = b.socket().id();
    b.socket().set_inode(4711);
    b.socket().send_off();
    b.socket().send_off();
    b.socket().arrived();
    drop(b);
    assert_eq!(
        second.sockets().find_inode(4711),
        Some(id),
        "it is on its way"
    );
    let theirs = second.sockets().inherit_inode(4711).unwrap();
    assert_eq!(theirs.id(), id);
    theirs.arrived();
    theirs.arrived();
    assert_eq!(theirs.block().in_transit.load(Ordering::Acquire), 0);
    a.write_all(b"x").unwrap();
    engine.wait_until("it has come", |_| {
        second.messages().drain_if_free();
        theirs.receive_stream().readable_bytes() == 1
    });
    drop(theirs);
    assert_eq!(second.sockets().find_inode(4711), None);
    assert_eq!(a.read(&mut [0; 1]), Ok(0));
}

/// Before an `exec`, which closes all descriptors: another process has it, or it is kept.
#[test]
fn a_socket_is_left_to_others_if_there_are_any() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let (_a, b) = Engine::pair(host);
    let id = b.socket().id();
    b.socket().share();
    assert_eq!(host.sockets().leave_to_others(id), Ok(false));
    assert!(holds(host, id));
    let theirs = second.sockets().inherit(id).unwrap();
    let is_subscribed = || host.held_sockets.is_marked(id.index, SUBSCRIBED);
    let requests = || {
        let all = host.own_rings().map(|ring| host.session.requested(ring));
        all.fold(0, u32::wrapping_add)
    };
    let before = requests();
    assert_eq!(host.sockets().leave_to_others(id), Ok(true));
    assert!(!holds(host, id) && !is_subscribed());
    assert_eq!(requests().wrapping_sub(before), 1, "to be told no more");
    // The `exec` has failed.
    host.sockets().hold_again(id);
    assert!(holds(host, id) && is_subscribed());
    assert_eq!(requests().wrapping_sub(before), 2, "to be told again");
    drop(theirs);
    assert_eq!(host.sockets().leave_to_others(id), Ok(false));
    let gone = SocketId {
        generation: id.generation + 1,
        ..id
    };
    assert_eq!(
        host.sockets().leave_to_others(gone),
        Ok(true),
        "it is there no more"
    );
    host.sockets().hold_again(gone);
    assert!(holds(host, id));
    let free = SocketId {
        index: id.index + 100,
        ..id
    };
    host.sockets().hold_again(free);
    assert!(!host.arena.holds(host.own_channel(), free.index));
}

/// After an `exec`: what the last image held, and this one has no descriptor of, is closed.
#[test]
fn what_no_descriptor_is_there_for_is_closed() {
    let (engine, host, _directory) = engine();
    let (kept, left) = (
        Engine::open(host, SocketKind::Stream),
        Engine::open(host, SocketKind::Stream),
    );
    let ids = (kept.id(), left.into_use());
    host.held_sockets.set_count(ids.1, 0);
    let control = host.arena.control(host.own_channel());
    assert!(!control.has_inherited());
    host.sockets().drop_unused();
    assert!(control.has_inherited(), "its parent may let go of all");
    assert!(holds(host, ids.0) && !holds(host, ids.1));
    engine.wait_until("it is closed", |seen| seen.open == 1);
}

#[test]
fn an_inherited_listener_is_asked_for_what_waits() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let socket = Engine::open(host, SocketKind::Stream);
    socket.share();
    let theirs = second.sockets().inherit(socket.id()).unwrap();
    assert!(host.held_sockets.knows_waiting(socket.id()));
    assert!(!second.held_sockets.knows_waiting(theirs.id()));
}

#[test]
fn a_session_without_a_free_socket_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = Engine::with_geometry(directory.path(), SMALL);
    let host = engine.join();
    let open = || {
        host.sockets()
            .open(SocketKind::Stream, OpenFlags::V6ONLY | OpenFlags::IPV6, 0)
    };
    let mut all = Vec::new();
    let last = loop {
        match open() {
            Ok(socket) => all.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(last, SocketError::NoSocket);
    assert!(all.len() >= 60 && all.iter().all(|socket| socket.options().is_v6_only()));
    all.pop();
    engine.wait_until("its place is free", |seen| seen.open == all.len());
    assert!(open().is_ok());
    engine.stop();
    host.look_at_engine();
    assert_eq!(open().err(), Some(SocketError::EngineGone));
}

/// What is found by the kernel's socket is in use, by whatever process of the session.
#[test]
fn a_socket_is_found_by_the_kernels_behind_it() {
    let (engine, host, _directory) = engine();
    let second = engine.join();
    let sockets: Vec<_> = (0..70)
        .map(|inode| {
            host.sockets()
                .open(SocketKind::Stream, OpenFlags::empty(), 1000 + inode)
                .unwrap()
        })
        .collect();
    for (inode, socket) in (1000..).zip(&sockets) {
        assert_eq!(second.sockets().find_inode(inode), Some(socket.id()));
    }
    assert_eq!(second.sockets().find_inode(999), None);
    drop(sockets);
    assert_eq!(second.sockets().find_inode(1000), None);
}

/// What a process keeps of a socket goes with its last use: its place is another's then.
#[test]
fn nothing_is_kept_of_a_socket_that_is_closed() {
    let (engine, host, _directory) = forwarding_engine();
    let datagram = Engine::open(host, SocketKind::Datagram);
    let (id, to) = (datagram.id(), Some(Engine::address(7)));
    let begin = |socket: &Socket| {
        let parts = [std::io::IoSlice::new(b"x")];
        socket.datagrams().begin(&parts, to, Departure::default())
    };
    assert_eq!(begin(&datagram), Ok(1));
    let is_begun = || host.unfinished.enter().unwrap().get(&id).is_some();
    assert!(is_begun());
    drop(datagram);
    assert!(!is_begun());
    let (a, b) = Engine::pair(host);
    let socket = b.socket();
    let bytes = LEAST_FORWARD as usize;
    a.write_all(&vec![7; bytes]).unwrap();
    engine.wait_until("all has come", |_| {
        host.messages().drain_if_free();
        socket.receive_stream().readable_bytes() == bytes
    });
    let (mut kept, all) = (None, |given: &[&[u8]]| Ok(given.concat().len()));
    let taken = socket.keeping().take(&mut kept, bytes, all);
    assert_eq!(taken, Ok(Some(bytes)));
    let index = socket.id().index;
    assert_eq!(host.kept_from(index), Some(0));
    drop(b);
    assert_eq!(host.kept_from(index), None);
}

/// To the owner of a socket, whose program may take it for one of the next that has the descriptor.
#[test]
fn no_signal_comes_after_a_socket_was_closed() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let block = socket.block();
    let is_raised = AtomicBool::new(false);
    let (begins, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let raise = || {
            begins.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            is_raised.store(true, Ordering::Release);
            Ok::<_, ()>(())
        };
        scope.spawn(move || block.raise(OwnersSignal::Urgent, raise).unwrap());
        has_begun.recv().unwrap();
        drop(socket);
        assert!(is_raised.load(Ordering::Acquire));
    });
    let never = || -> Result<(), ()> { panic!("raised") };
    block.raise(OwnersSignal::Urgent, never).unwrap();
}

/// More of them than one word of the bitmap has.
#[test]
fn a_process_names_all_that_it_holds() {
    let (_engine, host, _directory) = engine();
    let sockets: Vec<Socket> = (0..130)
        .map(|_| Engine::open(host, SocketKind::Stream))
        .collect();
    let mut held: Vec<u32> = host.sockets().held().map(|id| id.index).collect();
    let mut opened: Vec<u32> = sockets.iter().map(|socket| socket.id().index).collect();
    held.sort_unstable();
    opened.sort_unstable();
    assert_eq!(held, opened);
    assert!(host.sockets().held().all(|id| host.held_sockets.has(id)));
}

/// A socket stands behind an inode while a process holds it, or while it is on its way to one.
#[test]
fn what_nobody_holds_is_behind_no_inode() {
    let (_engine, host, _directory) = engine();
    let socket = host
        .sockets()
        .open(SocketKind::Stream, OpenFlags::empty(), 77)
        .unwrap();
    let id = socket.id();
    assert_eq!(host.sockets().find_inode(77), Some(id));
    host.arena.set_held(host.own_channel(), id.index, false);
    assert_eq!(host.sockets().find_inode(77), None);
    let in_transit = &socket.block().in_transit;
    in_transit.store(1, Ordering::Release);
    assert_eq!(
        (host.sockets().find_inode(77), host.sockets().find_inode(78)),
        (Some(id), None)
    );
    in_transit.store(0, Ordering::Release);
    host.arena.set_held(host.own_channel(), id.index, true);
}

/// The engine is told nothing of a socket that was gone when it was taken hold of.
#[test]
fn a_use_of_what_is_gone_is_given_back_in_silence() {
    let (_engine, host, _directory) = engine();
    let first = Engine::open(host, SocketKind::Stream);
    let (second, index) = (first.clone(), first.id().index);
    let is_held = || host.arena.holds(host.own_channel(), index);
    host.sockets().let_go_silently(first);
    assert!(is_held() && host.held_sockets.count(index) == 1);
    assert!(host.held_sockets.is_marked(index, ALONE));
    let block = second.block();
    host.sockets().let_go_silently(second);
    assert!(!is_held() && host.held_sockets.count(index) == 0);
    assert!(!host.held_sockets.is_marked(index, ALONE));
    assert!(!block.flags().contains(BlockFlags::CLOSED));
}

/// A socket that is gone, and in whose place there is another, is held no more either.
#[test]
fn what_is_gone_is_not_held_after_its_last_use() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let (index, block) = (socket.id().index, socket.block());
    let generation = block.generation.fetch_add(1, Ordering::AcqRel);
    drop(socket);
    assert!(!host.arena.holds(host.own_channel(), index));
    assert!(
        !block.flags().contains(BlockFlags::CLOSED),
        "it is the other's"
    );
    block.generation.store(generation, Ordering::Release);
}

#[test]
fn each_process_asks_by_rings_of_its_own() {
    let (engine, first, _directory) = engine();
    let second = engine.join();
    for (host, other) in [(first, second), (second, first)] {
        let socket = Engine::open(host, SocketKind::Stream);
        assert!(host.own_rings().any(|ring| ring == socket.rings()));
        assert!(other.own_rings().all(|ring| ring != socket.rings()));
    }
}

/// What was done to a listener, other sockets of the process may show, and what to a socket without a
/// connection, none.
#[test]
fn a_listener_that_is_closed_may_show_at_others() {
    let (_engine, host, _directory) = engine();
    for is_listening in [false, true] {
        let socket = Engine::open(host, SocketKind::Stream);
        if is_listening {
            socket.accept_queue().listen(1).unwrap();
        }
        host.in_flight.take_done_to_own();
        drop(socket);
        assert_eq!(host.in_flight.take_done_to_own(), is_listening);
    }
}

/// Another process asks over a channel of its own, at which the engine may look first.
#[test]
fn what_was_forwarded_is_taken_before_a_socket_is_sent_off() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let id = socket.id();
    host.in_flight.note_forwarded(id);
    socket.send_off();
    assert_eq!(host.in_flight.take_forwarded(), None);
    socket.arrived();
}

/// What the engine could not be told is not taken to have been told.
#[test]
fn a_subscription_that_did_not_reach_the_engine_is_none() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let index = socket.id().index;
    host.held_sockets.unmark(index, SUBSCRIBED);
    host.be_cut_off();
    socket.subscribe(Wake::Soon);
    assert!(!host.held_sockets.is_marked(index, SUBSCRIBED));
    std::mem::forget(socket);
}
