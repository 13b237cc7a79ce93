//! What one turn does is bounded, however much there is to be done: for many half-open connections
//! whose listener is closed, for many that nobody has accepted, and for many processes that have
//! one listener. All of it is done in the turns that follow, and another session's turn is among
//! them.

use super::single::{FIRST_PORT, HALF_OPEN, ISN, Single, header};
use crate::Undelivered;
use crate::socket::Kind;
use crate::testing;
use longshore_hostif::{
    ACCEPT_RECORD, Completion, EdgeFlags, Geometry, HostChannel, Request, SocketId, SocketKind,
};
use longshore_ring::Sleep;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::sync::atomic::Ordering;

const PROCESSES: u16 = 256;
/// What may be done in one turn: half-open connections reset, processes told and woken.
const RESETS: usize = 64;
const REPORTED: u64 = 32;

const GEOMETRY: Geometry = Geometry {
    channels: 320,
    waiters: 256,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
    workers: 1,
};

#[test]
fn the_half_open_connections_of_a_closed_listener_are_reset_some_in_each_turn() {
    let mut single = Single::new(GEOMETRY, PROCESSES);
    let listener = single.listen();
    single.turn();
    for client in 0..HALF_OPEN as u16 {
        single.bring(client, TcpFlags::SYN, SeqNumber(0));
    }
    assert_eq!(single.stack.status().half_open_count(), HALF_OPEN);
    single.answered();
    single.close(listener);
    let mut turns = 0;
    while single.stack.has_work_left() {
        let before = single.stack.status().half_open_count();
        if turns == 1 {
            // Its port is free, and its clients are clients of the next that has it: the
            // first connection is the last that is reset.
            single.listen();
            single.bring(0, TcpFlags::SYN, SeqNumber(0));
            assert!(single.answered().is_some());
            assert_eq!(single.stack.status().half_open_count(), before);
        }
        single.turn();
        turns += 1;
        let done = before - single.stack.status().half_open_count();
        assert!(done <= RESETS, "{done} in one turn");
    }
    assert_eq!(
        single.stack.status().half_open_count(),
        1,
        "the new listener's"
    );
    assert!(turns >= HALF_OPEN / RESETS);
}

/// Descriptors to the host, and wake-ups.
fn reported(single: &Single) -> (u64, u64) {
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
    let mut before = reported(&single);
    let first = before;
    for turn in 0..40 {
        single.turn();
        let now = reported(&single);
        let (reported, woken) = (now.0 - before.0, now.1 - before.1);
        assert!(
            reported <= REPORTED && woken <= REPORTED,
            "{reported} and {woken}"
        );
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

/// Room for a deep accept queue.
const MANY_SOCKETS: Geometry = Geometry {
    channels: 64,
    sockets: 4_096,
    ..GEOMETRY
};
const WAITING: u16 = 1_000;
/// Resets of connections that nobody accepts, in one turn.
const UNACCEPTED: usize = 64;

/// Ends a listener with a deep accept queue as `end` does: some connections are reset in each
/// turn, and other clients' turns are among them.
fn the_accept_queue_is_reset_in_parts(end: impl FnOnce(&mut Single, SocketId)) {
    let mut single = Single::new(MANY_SOCKETS, 1);
    let listener = single.listen();
    for client in 0..WAITING {
        single.connect(client);
    }
    single.turn();
    single.discard_completions();
    assert!(single.sent().is_empty());
    end(&mut single, listener);
    let (mut turns, mut reset) = (0, 0);
    loop {
        if turns == 1 {
            single.segment(
                &header(WAITING, TcpFlags::ACK, SeqNumber(1), SeqNumber(1)),
                &[],
            );
            assert_eq!(single.sent().len(), 1, "another is answered meanwhile");
        }
        let is_left = single.stack.has_work_left();
        single.turn();
        let sent = single.sent();
        assert!(sent.iter().all(|s| s.flags.contains(TcpFlags::RST)));
        assert!(sent.len() <= UNACCEPTED, "{} in one turn", sent.len());
        reset += sent.len();
        turns += 1;
        if !is_left {
            break;
        }
    }
    assert_eq!(reset, usize::from(WAITING));
    assert!(turns > usize::from(WAITING) / UNACCEPTED);
    // All that had blocks have given them back, but for the listener's, if it is there.
    let names = single.stack.endpoints.sockets.len();
    assert!(names <= 1, "{names} sockets are left");
}

#[test]
fn the_accept_queue_of_a_closed_listener_is_reset_in_parts() {
    the_accept_queue_is_reset_in_parts(|single, socket| {
        single.close(socket);
    });
}

#[test]
fn the_accept_queue_of_a_listener_that_is_shut_down_is_reset_in_parts() {
    the_accept_queue_is_reset_in_parts(|single, socket| {
        shut_down(single, socket);
    });
}

fn shut_down(single: &mut Single, socket: SocketId) {
    single.edges(socket, 0, EdgeFlags::SHUT_RD);
}

#[test]
fn a_listener_that_listens_again_hands_out_none_that_was_reset() {
    let mut single = Single::new(MANY_SOCKETS, 1);
    let listener = single.listen();
    (0..100).for_each(|client| _ = single.connect(client));
    shut_down(&mut single, listener);
    single.turn();
    single.listen_at(listener, HALF_OPEN as u32);
    let kept = single.connect(200);
    // The host reads the records of those that are reset, some before that has happened.
    single.edges(listener, 101 * ACCEPT_RECORD as u64, EdgeFlags::empty());
    for _ in 0..5 {
        single.turn();
    }
    assert_eq!(
        single.stack.endpoints.sockets.len(),
        2,
        "the listener and the last"
    );
    single.sent();
    single.segment(&kept, b"here");
    single.turn_after(100_000);
    let answer = single.sent().pop().expect("it is acknowledged");
    assert!(!answer.flags.contains(TcpFlags::RST));
}

/// Steps that a turn may take for connections that were accepted: each is looked up with its
/// listener, and changed.
const ACCEPTED: u32 = 64 * 4;

/// How often sockets are looked up while `work` is done.
fn steps(work: impl FnOnce()) -> u32 {
    let many = u32::MAX;
    testing::panic_in(0, many);
    work();
    many - testing::panic_no_more().expect("nobody has that many")
}

/// A host that has said at once that it has accepted [`WAITING`] connections.
fn accepts_many() -> (Single, SocketId) {
    let mut single = Single::new(MANY_SOCKETS, 1);
    let listener = single.listen();
    for client in 0..WAITING {
        single.connect(client);
    }
    single.turn();
    single.discard_completions();
    single.sent();
    let all = u64::from(WAITING) * ACCEPT_RECORD as u64;
    let taken = steps(|| single.edges(listener, all, EdgeFlags::empty()));
    assert!(taken <= ACCEPTED, "{taken} steps for one request");
    (single, listener)
}

/// How many connections a listener still has.
fn unaccepted(single: &Single) -> usize {
    let waits = |kind: &Kind| matches!(kind, Kind::Stream(c) if c.listener.is_some());
    let sockets = single.stack.endpoints.sockets.iter();
    sockets.filter(|(_, s)| waits(&s.kind)).count()
}

/// Turns until nothing is left to be done, each with a bounded number of steps.
fn turns_in_parts(single: &mut Single) -> usize {
    let mut turns = 0;
    while single.stack.has_work_left() {
        let before = unaccepted(single);
        let taken = steps(|| single.turn());
        assert!(taken <= ACCEPTED, "{taken} steps in one turn");
        let done = before - unaccepted(single);
        assert!(done <= UNACCEPTED, "{done} in one turn");
        turns += 1;
    }
    turns
}

#[test]
fn what_a_host_has_accepted_at_once_is_its_own_in_parts() {
    let (mut single, listener) = accepts_many();
    assert!(unaccepted(&single) >= usize::from(WAITING) - UNACCEPTED);
    let turns = turns_in_parts(&mut single);
    assert!(turns + 1 >= usize::from(WAITING) / UNACCEPTED);
    assert_eq!(unaccepted(&single), 0);
    single.close(listener);
    turns_in_parts(&mut single);
    assert!(single.sent().is_empty(), "none is reset");
    assert_eq!(single.stack.endpoints.sockets.len(), usize::from(WAITING));
}

#[test]
fn what_a_host_has_accepted_stays_its_own_when_it_closes_the_listener_next() {
    let (mut single, listener) = accepts_many();
    single.connect(WAITING);
    single.sent();
    single.close(listener);
    turns_in_parts(&mut single);
    let reset = single.sent();
    assert_eq!(reset.len(), 1, "the one that was not accepted");
    assert!(reset[0].flags.contains(TcpFlags::RST));
    assert_eq!(unaccepted(&single), 0);
    assert_eq!(single.stack.endpoints.sockets.len(), usize::from(WAITING));
}

/// What [`Undelivered`] is found to be at last, and in how many looks, each at some sockets.
fn looks(single: &mut Single) -> (Undelivered, usize) {
    let mut looks = 0;
    loop {
        let before = single.stack.endpoints.sockets.delivered_below;
        let found = single.stack.lifecycle().look_for_undelivered();
        let looked_at = single.stack.endpoints.sockets.delivered_below - before;
        assert!(looked_at as usize <= UNACCEPTED, "{looked_at} at once");
        looks += 1;
        if found != Undelivered::Unknown {
            return (found, looks);
        }
    }
}

#[test]
fn what_programs_have_left_to_deliver_is_looked_for_in_parts() {
    let (mut single, listener) = accepts_many();
    turns_in_parts(&mut single);
    let accepted = single
        .stack
        .endpoints
        .sockets
        .iter()
        .filter(|(_, s)| s.id != listener);
    let accepted: Vec<SocketId> = accepted.map(|(_, s)| s.id).collect();
    assert_eq!(looks(&mut single), (Undelivered::Some, 1));
    accepted.iter().for_each(|socket| single.close(*socket));
    single.close(listener);
    single.turn();
    assert_eq!(looks(&mut single), (Undelivered::Some, 1));
    let fins = single.sent();
    assert_eq!(fins.len(), accepted.len());
    let mut acks = fins.iter().map(|fin| {
        assert!(fin.flags.contains(TcpFlags::FIN));
        header(
            fin.dst_port - FIRST_PORT,
            TcpFlags::ACK,
            ISN.add(1),
            fin.seq.add(1),
        )
    });
    let last = acks.next_back().unwrap();
    acks.for_each(|ack| single.segment(&ack, &[]));
    single.turn();
    let parts = accepted.len() / UNACCEPTED;
    let (found, looks_for_it) = looks(&mut single);
    assert_eq!(found, Undelivered::Some);
    assert!(looks_for_it >= parts, "{looks_for_it} looks");
    assert_eq!(
        looks(&mut single),
        (Undelivered::Some, 1),
        "none is looked at again"
    );
    single.segment(&last, &[]);
    single.turn();
    assert_eq!(looks(&mut single), (Undelivered::None, 1));
    single.stack.lifecycle().look_for_undelivered_anew();
    let (found, looks) = looks(&mut single);
    assert_eq!(found, Undelivered::None);
    assert!(looks >= parts);
}

/// How many of our own connecting sockets were refused.
fn refused(single: &Single) -> usize {
    let is_refused = |kind: &Kind| matches!(kind, Kind::Pair(p) if p.dead.is_some());
    let sockets = single.stack.endpoints.sockets.iter();
    sockets.filter(|(_, s)| is_refused(&s.kind)).count()
}

#[test]
fn our_own_sockets_in_line_enter_as_there_is_room_and_are_refused_in_parts() {
    let mut single = Single::new(MANY_SOCKETS, 1);
    let listener = single.listen();
    let room = 4;
    single.listen_at(listener, room);
    // A queue takes one more than its backlog.
    let entered = room as usize + 1;
    for number in 0..WAITING {
        let socket = single.bind(SocketKind::Stream, 2_000 + number);
        single.connect_to_own(socket);
        single.discard_completions();
    }
    single.turn();
    let all = 1 + usize::from(WAITING);
    assert_eq!(single.stack.endpoints.sockets.len(), all + entered);
    // Two are accepted: two of those in line enter.
    single.edges(listener, 2 * ACCEPT_RECORD as u64, EdgeFlags::empty());
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), all + entered + 2);

    single.close(listener);
    let mut turns = 0;
    while single.stack.has_work_left() {
        let before = refused(&single);
        single.turn();
        single.discard_completions();
        let done = refused(&single) - before;
        assert!(done <= UNACCEPTED, "{done} in one turn");
        turns += 1;
    }
    assert!(turns > usize::from(WAITING) / UNACCEPTED);
    assert_eq!(
        refused(&single),
        usize::from(WAITING) - 2,
        "all but those accepted"
    );
}
