//! What one turn does is bounded, however much there is to be done: for many half-open
//! connections whose listener is closed, and for many processes that have one listener. All
//! of it is done in the turns that follow, and another session's turn is among them.

use super::single::{HALF_OPEN, Single};
use longshore_hostif::{ACCEPT_RECORD, Completion, Geometry, HostChannel, Request};
use longshore_ring::Sleep;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::sync::atomic::Ordering;

const PROCESSES: u16 = 256;
/// What may be done in one turn: half-open connections reset, processes told and woken.
const RESETS: usize = 64;
const TOLD: u64 = 32;

const GEOMETRY: Geometry = Geometry {
    channels: 320,
    waiters: 256,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
};

#[test]
fn the_half_open_connections_of_a_closed_listener_are_reset_some_in_each_turn() {
    let mut single = Single::new(GEOMETRY, PROCESSES);
    let listener = single.listen();
    single.turn();
    for client in 0..HALF_OPEN as u16 {
        single.bring(client, TcpFlags::SYN, SeqNumber(0));
    }
    assert_eq!(single.stack.half_open_count(), HALF_OPEN);
    single.answered();
    single.ask(
        0,
        &Request::Close {
            socket: listener,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: None,
        },
    );
    let mut turns = 0;
    while single.stack.has_work_left() {
        let before = single.stack.half_open_count();
        if turns == 1 {
            // Its port is free, and its clients are clients of the next that has it: the
            // first connection is the last that is reset.
            single.listen();
            single.bring(0, TcpFlags::SYN, SeqNumber(0));
            assert!(single.answered().is_some());
            assert_eq!(single.stack.half_open_count(), before);
        }
        single.turn();
        turns += 1;
        let done = before - single.stack.half_open_count();
        assert!(done <= RESETS, "{done} in one turn");
    }
    assert_eq!(single.stack.half_open_count(), 1, "the new listener's");
    assert!(turns >= HALF_OPEN / RESETS);
}

/// Descriptors to the host, and wake-ups.
fn told(single: &Single) -> (u64, u64) {
    let to_host = single.to_host();
    (to_host.descriptors.count, to_host.wakeups)
}

#[test]
fn of_many_processes_that_have_a_listener_some_are_told_and_woken_in_each_turn() {
    let mut single = Single::new(GEOMETRY, PROCESSES);
    let socket = single.listen();
    (1..PROCESSES).for_each(|channel| single.ask(channel, &Request::Subscribe { socket }));
    single.turn();
    for waiter in single.arena.waiters() {
        waiter.declare(Sleep::Futex);
    }
    let header = single.arena.header();
    header
        .waiters_end
        .store(GEOMETRY.waiters, Ordering::Release);
    let block = single.arena.block(socket.index);
    block.unlisted_waiters.store(1, Ordering::Release);

    single.bring(0, TcpFlags::SYN, SeqNumber(0));
    let iss = single.answered().expect("a SYN-ACK");
    single.bring(0, TcpFlags::ACK, iss.add(1));
    let mut before = told(&single);
    let first = before;
    for turn in 0..40 {
        single.turn();
        let now = told(&single);
        let (told, woken) = (now.0 - before.0, now.1 - before.1);
        assert!(told <= TOLD && woken <= TOLD, "{told} and {woken}");
        let all_are_told = now.0 - first.0 >= u64::from(PROCESSES);
        assert!(all_are_told || now.1 == first.1, "turn {turn}: too early");
        before = now;
    }
    let all = u64::from(PROCESSES);
    assert_eq!((before.0 - first.0, before.1 - first.1), (all, all));
    for channel in 0..PROCESSES {
        let mut program = HostChannel::new(single.arena.clone(), channel.into());
        let mut edge = 0;
        while let Some(completion) = program.get().unwrap() {
            if let Some(Completion::Edges { edges, .. }) = completion {
                edge = edges.rcv_edge;
            }
        }
        assert_eq!(edge, ACCEPT_RECORD as u64, "process {channel}");
    }
}
