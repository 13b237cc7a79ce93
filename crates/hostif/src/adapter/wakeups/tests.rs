//! Who is woken for what, and what is left of the waiters of a process that has ended.

use super::super::session::small;
use super::{Sleeper, Subscribers};
use crate::adapter::AdapterSession;
use crate::{Geometry, HostSession};
use longshore_ring::{EventfdSignaler, Sleep};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

thread_local! {
    /// Channels whose processes' names were looked at.
    pub(super) static LOOKED_AT: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn the_waiters_of_a_process_are_freed_in_parts_and_no_others() {
    let mut adapter = small();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    let (gone, other) = (7, 8);
    let names = [gone, other, gone, other, gone];
    for name in names {
        host.waiters().claim(name, 0).unwrap();
    }
    let owners = || {
        let claimed = arena.claimed_waiters().iter();
        let owners = claimed.map(|w| w.owner.load(Ordering::Relaxed));
        owners.collect::<Vec<_>>()
    };
    assert_eq!(adapter.wakeups.free_some_waiters_of(gone, 0, 2), Some(2));
    assert_eq!(owners(), [0, other, gone, other, gone]);
    assert_eq!(adapter.wakeups.free_some_waiters_of(gone, 2, 2), Some(4));
    assert_eq!(adapter.wakeups.free_some_waiters_of(gone, 4, 2), None);
    assert_eq!(owners(), [0, other, 0, other, 0]);
    adapter.wakeups.free_waiters_of(other);
    assert_eq!(owners(), [0; 5]);
}

/// What an eventfd is charged to, which is told when it is closed.
struct Reported(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Drop for Reported {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A process that ends while its threads sleep leaves no descriptor, and no sleeper that the
/// next thread to have the waiter would be taken for.
#[test]
#[cfg_attr(miri, ignore = "it has no such eventfds")]
fn nothing_is_left_of_the_waiters_of_a_process_that_has_ended() {
    let mut adapter = small();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    let closed = std::sync::Arc::default();
    for name in [7, 8] {
        let waiter = host.waiters().claim(name, 0).unwrap();
        let charge: Box<dyn std::any::Any + Send + Sync> =
            Box::new(Reported(Clone::clone(&closed)));
        assert!(
            adapter
                .make_eventfd(waiter, || Some(Some(charge)))
                .is_some()
        );
        arena.waiters()[waiter as usize].declare(longshore_ring::Sleep::Eventfd);
    }
    assert_eq!(
        adapter.wakeups.free_some_waiters_of(7, 0, 2),
        None,
        "there are two"
    );
    assert_eq!(closed.load(Ordering::Relaxed), 1);
    let sleeps = |waiter: usize| arena.waiters()[waiter].is_declared();
    assert_eq!((sleeps(0), sleeps(1)), (false, true));
}

/// A block may name as many waiters as it likes, and those that there are not.
#[test]
fn some_are_woken_at_a_time_each_once_and_none_that_there_is_not() {
    let mut adapter = small();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    for _ in 0..8 {
        let waiter = host.waiters().claim(7, 0).unwrap();
        arena.waiters()[waiter as usize].declare(longshore_ring::Sleep::Futex);
    }
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    assert!(!adapter.owes_wakeups());
    for waiter in [0, 1, 2, 2, 1, 0, 500] {
        adapter.wakeups.note_waiter(Some(waiter), socket);
    }
    adapter.wakeups.note_waiter(None, socket);
    let asleep = || arena.waiters().iter().filter(|w| w.is_declared()).count();
    assert_eq!((adapter.wake(2), asleep()), (2, 6));
    assert!(adapter.owes_wakeups());
    assert_eq!((adapter.wake(2), asleep()), (2, 5));
    assert_eq!(adapter.meter.bad_descriptors(), 1);
    assert!(!adapter.owes_wakeups());
    assert_eq!(adapter.meter.to_host.wakeups, 3);
    // All of them, some at a time.
    adapter.wakeups.note_everybody();
    for left in [5, 4, 2, 0] {
        assert!(adapter.owes_wakeups());
        assert_eq!((adapter.wake(2), asleep()), (2, left));
    }
    assert_eq!((adapter.wake(2), adapter.owes_wakeups()), (0, false));
    assert_eq!(adapter.meter.to_host.wakeups, 8);
}

/// Of those that sleep until something happens to a socket, some are woken, each time others.
#[test]
fn some_of_those_that_wait_for_a_socket_are_picked_if_enough_are_known_to_sleep() {
    let mut adapter = small();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    let block = arena.block(socket.index);
    let word = |waiter: usize| &arena.waiters()[waiter];
    let mut all = Subscribers::NONE;
    for channel in 0..4 {
        let name = 70 + channel;
        adapter.open_channel(channel as u16);
        arena.control(channel).pid.store(name, Ordering::Relaxed);
        all.add(channel as u16);
        let waiter = host.waiters().claim(name, 0).unwrap();
        word(waiter as usize).declare(longshore_ring::Sleep::Futex);
        block.add_waiter(waiter);
        if channel == 0 {
            let picked = adapter.pick_sleepers(1, &all, 1);
            assert_eq!(picked, None, "one waits: there are no others");
        }
    }
    word(0).cancel();
    let mut pick = |among: &Subscribers, many| {
        let picked = adapter.pick_sleepers(1, among, many)?;
        adapter.wake_sleepers_after_all(socket, &picked);
        assert_eq!(adapter.publish().then(|| adapter.wake(64)), Some(many));
        let awake = |s: &Sleeper| !word(s.waiter as usize).is_declared();
        assert!(picked.iter().all(awake));
        Some(picked.iter().map(|s| s.channel).collect::<Vec<_>>())
    };
    let sleep = |waiter: usize| word(waiter).declare(longshore_ring::Sleep::Futex);
    assert_eq!(pick(&all, 4), None, "the first is awake");
    assert_eq!(pick(&all, 1), Some(vec![1]));
    sleep(1);
    assert_eq!(pick(&all, 1), Some(vec![2]), "the next has its turn");
    assert_eq!(pick(&all, 2), Some(vec![3, 1]));
    assert_eq!(pick(&all, 1), None, "all are awake");
    (0..4).for_each(sleep);
    assert_eq!(pick(&Subscribers::one(2), 1), Some(vec![2]), "and no other");
    assert_eq!(pick(&Subscribers::one(2), 1), None);
    // Those that are not listed may sleep, too.
    block.remove_waiter(1);
    block.remove_waiter(2);
    block.remove_waiter(3);
    assert_eq!(pick(&all, 1), None);
    block.unlisted_waiters.store(1, Ordering::Relaxed);
    assert_eq!(pick(&all, 1), Some(vec![0]));
}

/// Whose a waiter is, is looked for among all processes once: what a connection costs does not
/// grow with those that have its listener. One that has the waiter or the channel later is
/// found anew.
#[test]
fn the_process_of_a_waiter_is_looked_for_once() {
    const PROCESSES: u32 = if cfg!(miri) { 64 } else { 256 };
    let geometry = Geometry {
        channels: PROCESSES,
        waiters: PROCESSES,
        ..Geometry::SMALL
    };
    let signaler = Arc::new(EventfdSignaler::for_one());
    let mut adapter = AdapterSession::create(geometry, signaler).unwrap();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    let (mut all, mut half) = (Subscribers::NONE, Subscribers::NONE);
    let block = arena.block(1);
    for channel in 0..PROCESSES {
        let name = 1_000 + channel;
        adapter.open_channel(channel as u16);
        arena.control(channel).pid.store(name, Ordering::Relaxed);
        all.add(channel as u16);
        if channel < PROCESSES / 2 {
            half.add(channel as u16);
        }
        // From its own on: each looks at one, not at all that are claimed before it.
        let waiter = host.waiters().claim(name, channel).unwrap();
        arena.waiters()[waiter as usize].declare(Sleep::Futex);
    }
    let last = PROCESSES - 8..PROCESSES;
    last.clone().for_each(|waiter| block.add_waiter(waiter));
    let mut looked_at = |among: &Subscribers, many| {
        LOOKED_AT.set(0);
        let picked = adapter.pick_sleepers(1, among, many);
        let channels = picked.map(|p| p.iter().map(|s| u32::from(s.channel)).collect::<Vec<_>>());
        (channels, LOOKED_AT.get())
    };
    let (first, _) = looked_at(&all, 8);
    assert_eq!(first, Some(last.clone().collect()));
    for turn in 0..16 {
        let next = last.start + turn % 8;
        assert_eq!(looked_at(&all, 1), (Some(vec![next]), 1));
    }
    assert_eq!(looked_at(&half, 1), (None, 8), "none of these sleeps");
    // Another process has the waiter, and another the channel.
    let waiter = &arena.waiters()[last.start as usize];
    waiter.owner.store(1_003, Ordering::Relaxed);
    assert_eq!(looked_at(&half, 1), (Some(vec![3]), 1 + 4));
    arena.control(3).pid.store(77, Ordering::Relaxed);
    assert_eq!(looked_at(&half, 1).0, None);
    adapter.close_channel(3);
    arena.control(3).pid.store(1_003, Ordering::Relaxed);
    assert_eq!(adapter.pick_sleepers(1, &half, 1), None, "it is nobody's");
}

/// As many as are asked for are looked at, of those that are listed and of all together.
#[test]
fn all_are_woken_after_those_that_are_listed() {
    let mut adapter = small();
    let host = HostSession::of(adapter.arena());
    for waiter in 0..8 {
        assert_eq!(host.waiters().claim(7, 0), Some(waiter));
    }
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    for waiter in 0..3 {
        adapter.wakeups.note_waiter(Some(waiter), socket);
    }
    adapter.wakeups.note_everybody();
    assert_eq!((adapter.wake(5), adapter.owes_wakeups()), (5, true));
    assert_eq!((adapter.wake(5), adapter.owes_wakeups()), (5, true));
    assert_eq!((adapter.wake(5), adapter.owes_wakeups()), (1, false));
    let eventfds = super::Eventfds::new(Arc::new(EventfdSignaler::for_one()), 8);
    let awake = super::Wakeups::new(adapter.arena(), eventfds);
    assert!(!awake.has_any() && !awake.owes_any());
}

/// Those that wait for other sockets are woken for what was told of these before.
#[test]
fn what_is_told_without_waking_takes_back_nothing_else() {
    let mut adapter = small();
    let arena = adapter.arena().clone();
    let host = HostSession::of(adapter.arena());
    let word = |waiter: u32| &arena.waiters()[waiter as usize];
    for index in 0..2 {
        let waiter = host.waiters().claim(7, 0).unwrap();
        assert_eq!(waiter, index);
        arena.block(index).add_waiter(waiter);
        word(waiter).declare(Sleep::Futex);
    }
    adapter.wakeups.note_socket(0);
    adapter.without_waking(|adapter| adapter.wakeups.note_socket(1));
    assert!(adapter.publish());
    assert_eq!(adapter.wake(8), 1);
    assert_eq!([0, 1].map(|at| word(at).is_declared()), [false, true]);
}
