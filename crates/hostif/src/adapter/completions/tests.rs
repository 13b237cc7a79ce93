//! What processes are told, what is put off when a ring is full, who is woken for it, and that all
//! of it is counted, for each socket too.

use super::*;
use crate::abi::{Address, EdgeFlags, SocketState};
use crate::adapter::session::small;
use crate::host::HostChannel;
use longshore_ring::{Doorbell, Sleep};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CHANNELS: u16 = 2;

/// A session with channels of two processes, and both as these read them.
fn session() -> (AdapterSession, [HostChannel; CHANNELS as usize]) {
    let mut session = small();
    (0..CHANNELS).for_each(|channel| session.open_channel(channel));
    let arena = Arc::clone(session.arena());
    let channel = |channel: u16| HostChannel::new(Arc::clone(&arena), channel.into());
    (session, [channel(0), channel(1)])
}

/// A socket whose block has begun.
fn begun(session: &AdapterSession, index: u32) -> SocketId {
    let block = session.arena().block(index);
    let generation = block.begin(SocketState::Open, BlockFlags::empty());
    SocketId { index, generation }
}

fn edges(rcv_edge: u64) -> Edges {
    Edges {
        rcv_edge,
        ..Edges::default()
    }
}

fn reported(channel: &mut HostChannel) -> Vec<Completion> {
    let mut all = Vec::new();
    while let Some(completion) = channel.get().unwrap() {
        all.extend(completion);
    }
    channel.release();
    all
}

fn answer(socket: SocketId, tag: u32) -> Completion {
    Completion::Done {
        socket,
        tag,
        errno: 0,
        value: 0,
        address: Address::NONE,
    }
}

/// Nothing is seen before it is published, and all of it once.
#[test]
fn what_is_published_is_seen_once_by_its_process() {
    let (mut session, [mut first, mut second]) = session();
    let socket = begun(&session, 1);
    assert!(!session.publish(), "there is nothing");
    session.put_answer(0, &answer(socket, 7));
    assert!(session.put_edges(1, socket, &edges(5)));
    assert_eq!(
        (reported(&mut first), reported(&mut second)),
        (vec![], vec![])
    );
    session.publish();
    assert_eq!(reported(&mut first), [answer(socket, 7)]);
    let edges = edges(5);
    assert_eq!(reported(&mut second), [Completion::Edges { socket, edges }]);
    session.publish();
    assert_eq!(
        (reported(&mut first), reported(&mut second)),
        (vec![], vec![])
    );
    // To a channel of nobody nothing is told, and that is no fault.
    session.put_answer(9, &answer(socket, 8));
    assert!(session.put_edges(9, socket, &edges));
    assert!(!session.channels.has_pending(9));
    assert_eq!(session.meter.bad_descriptors(), 0);
}

/// What crosses is counted for the session, and for the socket that it is about.
#[test]
fn descriptors_are_counted_for_their_sockets() {
    let (mut session, _channels) = session();
    let [one, other] = [1, 2].map(|index| begun(&session, index));
    session.meter.begin(one);
    session.put_answer(0, &answer(one, 7));
    session.put_edges(0, one, &edges(5));
    session.put_edges(0, other, &edges(5));
    session.publish();
    let of_one = session.meter.of(one).to_host.descriptors;
    assert_eq!(of_one.count, 2);
    assert_eq!(session.meter.of(other).to_host.descriptors.count, 0);
    assert_eq!(session.crossings().to_host.descriptors.count, 3);
    assert!(of_one.bytes > 0);
    // Of another socket in the same block nothing is known, and of this one nothing any more.
    let next = SocketId {
        generation: one.generation + 1,
        ..one
    };
    assert_eq!(session.meter.of(next).to_host.descriptors.count, 0);
    session.meter.end(one.index);
    assert_eq!(session.meter.of(one).to_host.descriptors.count, 0);
}

/// A socket for which there is no room is noted once, its process is told that there is more, and
/// of which sockets, once it has made room.
#[test]
#[cfg_attr(miri, ignore = "it takes a minute there, and nothing is unsafe")]
fn a_full_ring_puts_off_and_loses_nothing() {
    let (mut session, [mut process, _]) = session();
    let socket = begun(&session, 1);
    let late = begun(&session, 2);
    let mut edge = 0;
    while session.put_edges(0, socket, &edges(edge)) {
        edge += 1;
    }
    assert!(edge > 100);
    assert!(!session.put_edges(0, late, &edges(1)));
    assert!(!session.put_edges(0, late, &edges(2)));
    session.publish();
    assert!(session.channels.has_pending(0));
    assert!(!session.channels.has_pending(1), "another's");
    let all = reported(&mut process);
    assert_eq!(all.last(), Some(&Completion::More));
    let mores = all.iter().filter(|reported| **reported == Completion::More);
    assert_eq!((mores.count(), all.len() as u64), (1, edge + 1));
    process.ask_for_more(&Doorbell::new().unwrap());
    assert!(session.channels.has_pending(0));
    let pending: Vec<u32> = std::iter::from_fn(|| session.channels.next_pending(0)).collect();
    assert_eq!(pending, [socket.index, late.index]);
    assert!(!session.channels.has_pending(0));
    assert!(session.put_edges(0, late, &edges(3)), "there is room");
    session.publish();
    let edges = edges(3);
    let socket = late;
    assert_eq!(
        reported(&mut process),
        [Completion::Edges { socket, edges }]
    );
    assert_eq!(session.meter.bad_descriptors(), 0);
}

/// A death is in the block, too, where a program that only writes sees it.
#[test]
fn that_a_socket_is_dead_stands_in_its_block() {
    let (mut session, [mut process, _]) = session();
    let socket = begun(&session, 1);
    let failed = |session: &AdapterSession| {
        let flags = session.arena().block(1).flags();
        flags.contains(BlockFlags::FAILED)
    };
    let mut to = Subscribers::one(0);
    session.put_edges_to(&to, socket, edges(1));
    assert!(!failed(&session));
    let before = session.crossings().to_host.control;
    let dead = Edges {
        flags: EdgeFlags::DEAD,
        errno: 104,
        ..edges(1)
    };
    session.put_edges_to(&to, socket, dead);
    assert!(failed(&session));
    let after = session.crossings().to_host.control;
    assert_ne!(before, after, "the word crossed");
    session.put_edges_to(&to, socket, dead);
    assert_eq!(session.crossings().to_host.control, after, "once");
    session.publish();
    assert_eq!(reported(&mut process).len(), 3);
    // All of those that have it are told.
    to.add(1);
    session.put_edges_to(&to, socket, edges(9));
    session.publish();
    assert_eq!(reported(&mut process).len(), 1);
}

/// Those that wait for a socket are woken when what is told of it is published, by `wake`; what is
/// told without waking wakes them later.
#[test]
fn those_that_wait_for_a_socket_are_woken_after_publication() {
    let (mut session, _channels) = session();
    let arena = Arc::clone(session.arena());
    let host = crate::HostSession::of(&arena);
    let waiters = [7, 8].map(|name| host.waiters().claim(name, 0).unwrap());
    let [one, other] = [1, 2].map(|index| begun(&session, index));
    session.meter.begin(one);
    for (socket, waiter) in [(one, waiters[0]), (other, waiters[1])] {
        arena.block(socket.index).add_waiter(waiter);
    }
    let sleep = || {
        for waiter in waiters {
            arena.waiters()[waiter as usize].declare(Sleep::Futex);
        }
    };
    let asleep = || waiters.map(|waiter| arena.waiters()[waiter as usize].is_declared());
    let to = Subscribers::one(0);
    sleep();
    session.put_edges_to(&to, one, edges(1));
    assert!(session.publish(), "somebody is to be woken");
    assert!(session.owes_wakeups());
    assert_eq!(asleep(), [true, true], "not before");
    assert_eq!(session.wake(0), 0);
    assert_eq!(asleep(), [true, true]);
    assert_eq!(session.wake(10), 1);
    assert_eq!(asleep(), [false, true]);
    assert!(!session.owes_wakeups());
    assert_eq!(session.crossings().to_host.wakeups, 1);
    assert_eq!(session.meter.of(one).to_host.wakeups, 1);
    // Whoever does not sleep is not woken.
    session.wakeups.note_socket(one.index);
    session.publish();
    session.wake(10);
    assert_eq!(session.crossings().to_host.wakeups, 1);
    // Told and not woken, and then woken after all.
    sleep();
    session.without_waking(|session| session.put_edges_to(&to, one, edges(2)));
    session.publish();
    session.wake(10);
    assert_eq!(asleep(), [true, true]);
    session.wake_after_all(one);
    session.publish();
    session.wake(10);
    assert_eq!(asleep(), [false, true]);
    // A waiter that the block does not list.
    sleep();
    let unlisted = &arena.block(other.index).unlisted_waiters;
    unlisted.store(1, Ordering::Relaxed);
    session.wakeups.note_socket(other.index);
    session.publish();
    session.wake(10);
    assert_eq!(asleep(), [false, false], "all of them");
    sleep();
    session.wake_everybody();
    assert_eq!(asleep(), [false, false]);
    sleep();
    session.wakeups.note_waiter(Some(waiters[1] as u16), other);
    session.publish();
    session.wake(10);
    assert_eq!(asleep(), [true, false]);
}

/// Many are woken in parts, each one once.
#[test]
fn many_are_woken_in_parts() {
    let (mut session, _channels) = session();
    let arena = Arc::clone(session.arena());
    let host = crate::HostSession::of(&arena);
    let socket = begun(&session, 1);
    let waiters: Vec<u32> = (0..5)
        .map(|name| host.waiters().claim(100 + name, 0).unwrap())
        .collect();
    let asleep = || {
        let sleeps = |waiter: &&u32| arena.waiters()[**waiter as usize].is_declared();
        waiters.iter().filter(sleeps).count()
    };
    for waiter in &waiters {
        arena.waiters()[*waiter as usize].declare(Sleep::Futex);
        // Each twice.
        session.wakeups.note_waiter(Some(*waiter as u16), socket);
        session.wakeups.note_waiter(Some(*waiter as u16), socket);
    }
    session.publish();
    assert_eq!((session.wake(3), asleep()), (3, 2));
    assert!(session.owes_wakeups());
    assert_eq!((session.wake(3), asleep()), (2, 0));
    assert!(!session.owes_wakeups());
    // All that there are, in parts too.
    for waiter in &waiters {
        arena.waiters()[*waiter as usize].declare(Sleep::Futex);
    }
    session.wakeups.note_everybody();
    assert_eq!((session.wake(2), asleep()), (2, 3));
    assert_eq!((session.wake(2), asleep()), (2, 1));
    assert_eq!((session.wake(2), asleep()), (1, 0));
    assert!(!session.owes_wakeups());
    assert_eq!(session.crossings().to_host.wakeups, 10);
}

/// A word is one of the session, and of the socket that it is written for; an entry of a
/// directory is one, too.
#[test]
fn words_and_entries_are_counted() {
    let (mut session, _channels) = session();
    let [one, other] = [1, 2].map(|index| begun(&session, index));
    session.meter.begin(one);
    let control = |session: &AdapterSession| {
        let moved = session.crossings().to_host.control;
        (moved.transfers, moved.bytes)
    };
    assert_eq!(control(&session), (0, 0));
    session.blocks().set_error(one, 104, 1);
    session.blocks().set_error(other, 104, 1);
    assert_eq!(control(&session), (4, 16));
    let of_one = session.meter.of(one).to_host.control;
    assert_eq!((of_one.transfers, of_one.bytes), (2, 8));
    assert_eq!(session.meter.of(other).to_host.control.transfers, 0);
    let mut stream = ReceiveStream::EMPTY;
    // The first entry is as it was: it names the first chunk.
    let bytes = vec![1; 3 * crate::CHUNK];
    let slab = &mut session.receive;
    stream.place(0, 0, &bytes, slab, one.index).unwrap();
    assert_eq!(control(&session), (6, 24));
    let entries = stream.entries_written();
    assert_eq!((entries.transfers, entries.bytes), (2, 8));
    let (mut next, slab) = (ReceiveStream::EMPTY, &mut session.receive);
    next.place(0, 0, b"abc", slab, other.index).unwrap();
    assert_eq!(next.entries_written().transfers, 1);
}

/// In a session whose descriptors have lengths, what is left of a slot counts with the next one
/// of the same batch.
#[test]
fn edges_take_three_words_and_what_lies_between_them() {
    let (mut session, _channels) = session();
    let socket = begun(&session, 1);
    let bytes = |session: &mut AdapterSession| {
        assert!(session.put_edges(0, socket, &edges(5)));
        session.crossings().to_host.descriptors.bytes
    };
    assert_eq!(bytes(&mut session), 24);
    assert_eq!(bytes(&mut session), 24 + 64);
    session.publish();
    assert_eq!(bytes(&mut session), 24 + 64 + 24);
}

#[test]
fn edges_take_a_slot_before_the_version_that_has_lengths() {
    for (version, bytes) in [(17, 64), (18, 24)] {
        let agreed = crate::Agreed {
            version,
            ..crate::Agreed::OURS
        };
        let signaler = Arc::new(longshore_ring::EventfdSignaler::for_one());
        let session = AdapterSession::create_for(crate::Geometry::SMALL, agreed, signaler);
        let mut session = session.unwrap();
        session.open_channel(0);
        let socket = begun(&session, 1);
        assert!(session.put_edges(0, socket, &edges(5)));
        assert_eq!(session.crossings().to_host.descriptors.bytes, bytes);
    }
}

/// It is published though nothing else is, counted for the socket, and said once.
#[test]
fn that_there_is_more_is_published_by_itself() {
    let (mut session, [mut process, _]) = session();
    let socket = begun(&session, 1);
    session.meter.begin(socket);
    let mut edge = 0;
    while edge < u64::from(crate::RING as u32) - 16 {
        assert!(session.put_edges(0, socket, &edges(edge)));
        edge += 1;
    }
    session.publish();
    assert_eq!(session.channels.put_off(), 0);
    assert!(!session.channels.has_staged(), "all is published");
    for put_off in 1..=2 {
        assert!(!session.put_edges(0, socket, &edges(edge)));
        assert_eq!(session.channels.put_off(), put_off);
    }
    session.publish();
    let reported = reported(&mut process);
    assert_eq!(reported.len() as u64, edge + 1);
    assert_eq!(reported.last(), Some(&Completion::More));
    let of_it = session.meter.of(socket).to_host.descriptors;
    assert_eq!(of_it.count, edge + 1);
    assert_eq!(session.meter.bad_descriptors(), 0);
    // It is taken: there may be more to tell again.
    process.release();
    let end = session.channels.end(0).unwrap();
    let arena = session.arena.clone();
    assert!(end.say_more(&arena).unwrap().is_some());
}

/// A process that says it has taken what nobody told it.
#[test]
fn a_process_that_breaks_its_own_ring_is_told_nothing_more() {
    use longshore_ring::spsc::{Consumer, Indices, Producer, Slot};
    let (mut session, _channels) = session();
    let socket = begun(&session, 1);
    let (ring, slots) = (Indices::new(), [(); 4].map(|()| Slot::new()));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    for _ in 0..2 {
        p.stage(&ring, &slots, &[0; 8]).unwrap().unwrap();
    }
    p.publish(&ring);
    while c.take(&ring, &slots).unwrap().is_some() {}
    c.release(&session.arena().control(0).completions);
    // What it says is looked at once it is full.
    let mut reported = 0;
    while session.meter.bad_descriptors() == 0 {
        assert!(session.put_edges(0, socket, &edges(reported)));
        reported += 1;
        assert!(reported < 2000);
    }
    // Answers have more room.
    for _ in 0..20 {
        session.put_answer(0, &answer(socket, 7));
    }
    let bad = session.meter.bad_descriptors();
    assert!(bad > 1);
    assert!(session.put_edges(0, socket, &edges(reported)));
    assert_eq!(session.meter.bad_descriptors(), bad + 1);
}

/// What waits for more is told, and nobody is woken.
#[test]
fn without_waking_the_same_is_told() {
    let (mut session, [mut process, _]) = session();
    let socket = begun(&session, 1);
    let edges = edges(5);
    let to = Subscribers::one(0);
    session.without_waking(|session| session.put_edges_to(&to, socket, edges));
    assert!(!session.wakeups.has_any());
    session.publish();
    assert_eq!(
        reported(&mut process),
        [Completion::Edges { socket, edges }]
    );
    session.wake_after_all(socket);
    assert!(session.wakeups.has_any());
}
