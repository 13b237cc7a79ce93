//! What a block keeps of its socket, and what becomes of that with its next use.

use super::*;
use crate::abi::STREAM_MAX;
use std::ops::Deref;

/// Blocks are only ever made of zeroed memory.
pub(super) struct InMemory(longshore_ring::SharedMemory);

impl Deref for InMemory {
    type Target = SocketBlock;

    fn deref(&self) -> &SocketBlock {
        self.0.at(0)
    }
}

pub(super) fn block() -> InMemory {
    let block = InMemory(longshore_ring::SharedMemory::create("block", 4096).unwrap());
    block.begin(SocketState::Open, BlockFlags::empty());
    block
}

fn id(generation: u32) -> SocketId {
    SocketId {
        index: 0,
        generation,
    }
}

fn record(generation: u32) -> AcceptRecord {
    AcceptRecord {
        socket: id(generation),
        local: Address([4 | 80 << 16, 1, 0]),
        peer: Address([4 | 99 << 16, 2, 0]),
        send_limit: 5000,
        subscriber: None,
        has_mark: false,
    }
}

#[test]
fn a_new_use_is_another_socket() {
    let b = block();
    let id = id(b.generation.load(Ordering::Relaxed));
    assert!(b.is(id));
    b.begin(SocketState::Open, BlockFlags::empty());
    assert!(!b.is(id));
}

/// Whatever a program has left in it.
#[test]
fn nothing_of_one_use_is_there_in_the_next() {
    let b = block();
    let words = || {
        let word = |at: usize| b.0.at::<AtomicU32>(at);
        let last = std::mem::offset_of!(SocketBlock, usual_lowat);
        (0..=last).step_by(4).map(word)
    };
    words().for_each(|word| word.store(u32::MAX, Ordering::Relaxed));
    // But for a lock that is held, which no block has that is given back.
    for lock in [&b.snd.lock, &b.rcv.lock] {
        lock.free_in_child();
    }
    b.generation.store(41, Ordering::Relaxed);
    assert_eq!(b.begin(SocketState::Open, BlockFlags::IPV6), 42);
    let left = words().filter(|word| word.load(Ordering::Relaxed) != 0);
    // Its generation, state and flags.
    assert_eq!(left.count(), 3);
    assert_eq!(b.state(), SocketState::Open);
    assert_eq!(b.flags(), BlockFlags::IPV6);
}

/// That the engine has taken its chunks is of its use then.
#[test]
fn a_stream_that_begins_has_lost_no_chunks() {
    let b = block();
    let (offer, _) = b.snd.offer_chunks(0).unwrap();
    assert!(offer.take() && b.snd.lock.is_taken());
    b.begin(SocketState::Open, BlockFlags::empty());
    assert!(!b.snd.lock.is_taken());
}

#[test]
fn a_connection_has_what_its_record_says_and_is_of_its_listeners_family() {
    for flags in [BlockFlags::empty(), BlockFlags::IPV6 | BlockFlags::SHUT_RD] {
        let (b, listener) = (block(), block());
        listener.set_flags(flags);
        assert!(b.begin_accepted(&record(2), &listener));
        assert!(b.is(id(2)));
        assert_eq!(b.state(), SocketState::Connected);
        assert_eq!(b.flags(), (flags & BlockFlags::IPV6) | BlockFlags::BOUND);
        assert_eq!((b.local(), b.peer()), (record(2).local, record(2).peer));
        assert_eq!(b.snd_limit(), 5000);
    }
}

/// The engine has said it before the program has accepted the connection.
#[test]
fn what_is_said_of_the_mark_of_what_is_not_sent_is_there_from_the_start() {
    let not_sent = NotSent {
        sendable: 14_600,
        size_goal: 7_300,
        usual: 131_072,
    };
    for has_mark in [true, false] {
        let b = block();
        b.set_not_sent(&not_sent);
        let record = AcceptRecord {
            has_mark,
            ..record(2)
        };
        assert!(b.begin_accepted(&record, &block()));
        let expected = if has_mark {
            not_sent
        } else {
            NotSent::default()
        };
        assert_eq!(b.not_sent(), expected);
    }
}

/// It was begun by the engine, as its other end is there, too; or it has ended since, and is
/// another, or none.
#[test]
fn a_connection_that_is_begun_already_stays_as_it_is() {
    let b = block();
    assert!(b.begin_accepted(&record(1), &block()));
    assert_eq!(b.state(), SocketState::Open);
    assert!(!b.begin_accepted(&record(0), &block()));
    assert!(!b.begin_accepted(&record(3), &block()));
    b.set_state(SocketState::Free);
    assert!(!b.begin_accepted(&record(1), &block()));
    assert_eq!(b.generation.load(Ordering::Relaxed), 1);
}

#[test]
fn a_use_that_never_was_is_passed_over() {
    let b = block();
    b.skip(2);
    assert_eq!(b.state(), SocketState::Free);
    assert!(b.is_before(id(3)) && !b.is(id(2)));
}

#[test]
fn it_is_in_use_until_it_is_free_or_the_last_process_has_closed_it() {
    let b = block();
    assert!(b.is_in_use() && b.is(id(1)));
    b.close();
    assert!(!b.is_in_use() && !b.is(id(1)));
    b.clear_flags(BlockFlags::CLOSED);
    assert!(b.is_in_use() && !b.is(id(2)));
    b.set_state(SocketState::Free);
    assert!(!b.is_in_use() && !b.is(id(1)));
}

#[test]
fn each_state_comes_back_and_others_are_free() {
    use SocketState::*;
    let b = block();
    for state in [
        Free, Open, Listening, Connecting, Connected, Closing, Dead, Early,
    ] {
        b.set_state(state);
        assert_eq!(b.state(), state);
        assert_eq!(SocketState::from_raw(state as u32), state);
    }
    for raw in [8, u32::MAX] {
        assert_eq!(SocketState::from_raw(raw), Free);
    }
    b.set_state(Connecting);
    assert!(!b.change_state(Open, Dead) && b.state() == Connecting);
    assert!(b.change_state(Connecting, Connected) && b.state() == Connected);
}

#[test]
fn flags_are_added_and_taken_away_one_by_one() {
    use BlockFlags as F;
    let b = block();
    assert_eq!(b.set_flags(F::PEER_FIN | F::BOUND), F::empty());
    assert_eq!(b.set_flags(F::BOUND | F::IPV6), F::PEER_FIN | F::BOUND);
    b.clear_flags(F::BOUND | F::DATAGRAM);
    assert_eq!(b.flags(), F::PEER_FIN | F::IPV6);
}

#[test]
fn an_error_is_reported_once() {
    let b = block();
    assert!(!b.has_error());
    b.errno.store(104, Ordering::Relaxed);
    assert!(b.has_error());
    assert_eq!(b.take_errno(), 104);
    assert!(!b.has_error());
    assert_eq!(b.take_errno(), 0);
    b.errors.store(1, Ordering::Relaxed);
    assert!(b.has_error());
}

#[test]
fn the_other_end_is_known_once_it_is_said() {
    let b = block();
    assert_eq!(b.other_end(), None);
    for index in [0, 7] {
        b.set_other_end(index);
        assert_eq!(b.other_end(), Some(index));
    }
}

#[test]
fn each_half_has_a_limit_of_its_own() {
    let b = block();
    assert_eq!(b.snd_limit(), SEND_BUFFER.into());
    assert_eq!(b.rcv_limit(), RECEIVE_BUFFER.into());
    b.snd.limit.store(7000, Ordering::Relaxed);
    b.rcv.limit.store(u32::MAX, Ordering::Relaxed);
    assert_eq!((b.snd_limit(), b.rcv_limit()), (7000, STREAM_MAX));
}

#[test]
fn each_half_has_a_time_limit_of_its_own() {
    let b = block();
    b.time_limit(true).store(5, Ordering::Relaxed);
    b.time_limit(false).store(7, Ordering::Relaxed);
    let (sending, receiving) = (&b.snd.time_limit, &b.rcv.time_limit);
    assert_eq!(sending.load(Ordering::Relaxed), 5);
    assert_eq!(receiving.load(Ordering::Relaxed), 7);
}
