//! The ring against a queue, and against a lying peer.

mod positions;

use super::*;
use crate::Corrupt;
use proptest::prelude::*;
use std::collections::VecDeque;

fn slots(n: usize) -> Vec<Slot> {
    (0..n).map(|_| Slot::new()).collect()
}

fn message(i: u64) -> Message {
    std::array::from_fn(|w| i * 8 + w as u64)
}

#[test]
fn staged_messages_stay_unseen_until_published() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    p.stage(&ring, &slots, &message(1)).unwrap().unwrap();
    assert_eq!(c.take(&ring, &slots).unwrap(), None);
    assert_eq!(p.publish(&ring), 1);
    assert_eq!(c.take(&ring, &slots).unwrap(), Some(message(1)));
    assert!(!ring.is_claimed(), "in this ring nobody claims");
}

#[test]
fn a_lying_producer_is_an_error() {
    let (ring, slots) = (Indices::new(), slots(4));
    let mut c = Consumer::new();
    ring.tail.0.store(5, Ordering::Relaxed);
    assert!(matches!(
        c.take(&ring, &slots),
        Err(Corrupt::RingIndices { tail: 5, .. })
    ));
}

/// A tail that the slots allow, but not what of them is taken and not released; and one that
/// goes back.
#[test]
fn a_producer_that_forgets_what_was_taken_is_an_error() {
    for lie in [6, 3] {
        let (ring, slots) = (Indices::new(), slots(4));
        let mut c = Consumer::new();
        ring.tail.0.store(4, Ordering::Relaxed);
        for _ in 0..4 {
            assert!(c.take(&ring, &slots).unwrap().is_some());
        }
        ring.tail.0.store(lie, Ordering::Relaxed);
        let error = Corrupt::RingIndices {
            head: 4,
            tail: lie as u32,
            capacity: 4,
        };
        assert_eq!(c.take(&ring, &slots), Err(error));
    }
}

#[test]
fn a_lying_consumer_is_an_error() {
    let ring = Indices::new();
    let mut p = Producer::new();
    ring.head.0.store(1, Ordering::Relaxed);
    assert!(p.room(&ring, 4).is_err());
}

/// A head that goes back while messages are staged, as far as the published ones allow.
#[test]
fn a_consumer_that_goes_back_makes_no_room() {
    let (ring, slots) = (Indices::new(), slots(4));
    let mut p = Producer::new();
    for i in 0..4 {
        p.stage(&ring, &slots, &message(i)).unwrap().unwrap();
    }
    p.publish(&ring);
    ring.head.0.store(4, Ordering::Relaxed);
    p.stage(&ring, &slots, &message(4)).unwrap().unwrap();
    ring.head.0.store(0, Ordering::Relaxed);
    assert!(matches!(
        p.room(&ring, 4),
        Err(Corrupt::RingIndices { head: 0, .. })
    ));
}

#[test]
fn the_newest_message_is_taken_back_until_it_is_claimed() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::taking_back(), Consumer::claiming());
    assert!(!p.take_back(&ring), "there is none");
    let send = |p: &mut Producer, i| {
        p.stage(&ring, &slots, &message(i)).unwrap().unwrap();
        p.publish(&ring);
    };
    send(&mut p, 1);
    send(&mut p, 2);
    assert!(p.take_back(&ring));
    assert!(!p.take_back(&ring), "one alone");
    assert_eq!(ring.published(), 1);
    send(&mut p, 3);
    assert_eq!(c.take(&ring, &slots).unwrap(), Some(message(1)));
    assert!(ring.is_claimed() && !p.take_back(&ring), "all was claimed");
    assert_eq!(c.take(&ring, &slots).unwrap(), Some(message(3)));
    assert_eq!(c.take(&ring, &slots).unwrap(), None);
    // The next is its own, and one that was not published always is.
    send(&mut p, 4);
    assert!(!ring.is_claimed() && p.take_back(&ring));
    p.stage(&ring, &slots, &message(5)).unwrap().unwrap();
    assert!(p.take_back(&ring));
    send(&mut p, 6);
    assert_eq!(c.take(&ring, &slots).unwrap(), Some(message(6)));
}

/// The consumer knows where the last message ends that it sees, and of no other.
#[test]
fn where_the_last_message_ends_is_said_with_it() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::taking_back(), Consumer::claiming());
    let stage = |p: &mut Producer, i: u64, left| {
        p.stage(&ring, &slots, &message(i)).unwrap().unwrap();
        p.leave_words(left);
    };
    let mut take = |expected: &[u32]| {
        for left in expected {
            assert!(c.take(&ring, &slots).unwrap().is_some());
            assert_eq!(c.words_left(), *left);
        }
        assert_eq!(c.take(&ring, &slots).unwrap(), None);
        c.release(&ring);
    };
    stage(&mut p, 1, 5);
    stage(&mut p, 2, 7);
    p.publish(&ring);
    assert_eq!(ring.published(), 2);
    take(&[0, 7]);
    // One that was published is taken back with where it ends, and another put in its place.
    stage(&mut p, 3, 3);
    p.publish(&ring);
    stage(&mut p, 4, 4);
    p.publish(&ring);
    assert!(p.take_back(&ring));
    take(&[0]);
    stage(&mut p, 5, 6);
    stage(&mut p, 6, 1);
    assert!(p.take_back(&ring));
    p.publish(&ring);
    take(&[0]);
    stage(&mut p, 7, 2);
    p.publish(&ring);
    assert!(!ring.is_claimed());
    take(&[2]);
}

/// A message with slots behind its own comes whole or not at all, wherever in the ring it
/// begins, and is taken back whole.
#[test]
fn a_long_message_takes_slots_behind_its_own() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::taking_back(), Consumer::claiming());
    for round in 0..9u64 {
        let long = |p: &mut Producer, more, kept| {
            p.stage_long(more, kept, &ring, &slots, &message(round)[..4])
                .unwrap()
        };
        assert_eq!(long(&mut p, 4, 0), Err(Full), "longer than the ring");
        assert_eq!(long(&mut p, 2, 2), Err(Full), "it leaves too few");
        let own = (round * 3) as usize % 4;
        assert_eq!(long(&mut p, 3, 0), Ok(own));
        p.publish(&ring);
        assert!(p.take_back(&ring));
        assert_eq!(ring.published(), round as u32 * 3);
        assert_eq!(long(&mut p, 2, 1), Ok(own));
        p.publish(&ring);
        assert_eq!(
            c.take(&ring, &slots).unwrap().unwrap()[..4],
            message(round)[..4]
        );
        assert_eq!(c.take_more(3, &slots), None, "it was not published");
        assert_eq!(c.take_more(2, &slots), Some(own));
        assert_eq!(c.take(&ring, &slots).unwrap(), None);
        assert!(!p.take_back(&ring), "all of it was claimed");
        c.release(&ring);
    }
}

/// A batch is one move, or two where the ring goes on at its beginning; as the consumer has
/// it, of what it saw at once, and a long message is where its first slot is.
#[test]
fn each_contiguous_piece_of_a_batch_is_one_move() {
    let (ring, slots) = (Indices::new(), slots(8));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    let mut batch = |count: u64| {
        let (mut staged, mut taken) = (Vec::new(), Vec::new());
        for i in 0..count {
            p.stage(&ring, &slots, &message(i)).unwrap().unwrap();
            staged.push(p.begins_move(8));
        }
        p.publish(&ring);
        while c.take(&ring, &slots).unwrap().is_some() {
            taken.push(c.begins_move(0, 8));
        }
        c.release(&ring);
        assert_eq!(staged, taken);
        taken
    };
    let (first, later) = (true, false);
    assert_eq!(batch(3), [first, later, later]);
    assert_eq!(batch(4), [first, later, later, later]);
    // From slot 7 over the end.
    assert_eq!(batch(3), [first, first, later]);
    assert_eq!(batch(1), [first]);

    // From slot 3: one of a single slot, one with two behind it.
    p.stage(&ring, &slots, &message(1)).unwrap().unwrap();
    p.stage_long(2, 0, &ring, &slots, &message(2)[..4])
        .unwrap()
        .unwrap();
    p.publish(&ring);
    assert!(c.take(&ring, &slots).unwrap().is_some() && c.begins_move(0, 8));
    assert!(c.take(&ring, &slots).unwrap().is_some());
    assert_eq!(c.take_more(2, &slots), Some(4));
    assert!(!c.begins_move(2, 8));
    // From slot 7, which is the last, and one that begins there.
    p.stage(&ring, &slots, &message(3)).unwrap().unwrap();
    p.stage_long(1, 0, &ring, &slots, &message(4)[..4])
        .unwrap()
        .unwrap();
    p.publish(&ring);
    assert!(c.take(&ring, &slots).unwrap().is_some() && c.begins_move(0, 8));
    assert!(c.take(&ring, &slots).unwrap().is_some());
    assert_eq!(c.take_more(1, &slots), Some(0));
    assert!(c.begins_move(1, 8), "its first slot is the ring's");
}

/// Whatever the consumer makes of the word that both write, the producer goes on from what
/// it knows itself.
#[test]
fn a_consumer_that_lies_about_its_claims_is_survived() {
    let (ring, slots) = (Indices::new(), slots(4));
    let mut p = Producer::taking_back();
    p.stage(&ring, &slots, &message(1)).unwrap().unwrap();
    p.publish(&ring);
    ring.tail.0.store(77, Ordering::Relaxed);
    assert!(!p.take_back(&ring));
    p.stage(&ring, &slots, &message(2)).unwrap().unwrap();
    p.publish(&ring);
    assert_eq!(ring.published(), 2);
    // It gives back what it then lets the producer take back.
    ring.head.0.store(2, Ordering::Relaxed);
    assert_eq!(p.room(&ring, 4), Ok(4));
    assert!(p.take_back(&ring));
    assert!(p.stage(&ring, &slots, &message(3)).is_err());
}

/// Steps of a random case at most: under Miri as many as go round the ring a few times.
const MOST_STEPS: usize = if cfg!(miri) { 100 } else { 400 };

proptest! {
    #[test]
    fn what_is_taken_back_was_never_there(ops in proptest::collection::vec(0u8..5, 1..MOST_STEPS)) {
        let (ring, slots) = (Indices::new(), slots(8));
        let (mut p, mut c) = (Producer::taking_back(), Consumer::claiming());
        // What is published and not claimed, claimed and not taken, staged.
        let (mut open, mut claimed, mut staged) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let (mut next, mut unreleased, mut is_newest) = (0u64, 0usize, false);
        for op in ops {
            match op {
                0 => {
                    let all = open.len() + claimed.len() + staged.len() + unreleased;
                    let result = p.stage(&ring, &slots, &message(next)).unwrap();
                    prop_assert_eq!(result.is_err(), all == 8);
                    if all != 8 { staged.push_back(next); next += 1; is_newest = true; }
                }
                1 => { p.publish(&ring); open.append(&mut staged); }
                2 => {
                    let from = if staged.is_empty() { &mut open } else { &mut staged };
                    let is_there = !from.is_empty() && is_newest;
                    prop_assert_eq!(p.may_take_back(&ring), is_there);
                    prop_assert_eq!(p.take_back(&ring), is_there);
                    if is_there { from.pop_back(); is_newest = false; }
                }
                3 => {
                    if claimed.is_empty() { claimed.append(&mut open); }
                    let want = claimed.pop_front();
                    if want.is_some() { unreleased += 1; }
                    prop_assert_eq!(c.take(&ring, &slots).unwrap(), want.map(message));
                }
                _ => { c.release(&ring); unreleased = 0; }
            }
        }
    }

    #[test]
    fn behaves_as_a_bounded_queue(ops in proptest::collection::vec(0u8..4, 1..MOST_STEPS)) {
        let (ring, slots) = (Indices::new(), slots(8));
        let (mut p, mut c) = (Producer::new(), Consumer::new());
        let (mut visible, mut staged) = (VecDeque::new(), VecDeque::new());
        let (mut next, mut unreleased) = (0u64, 0usize);
        for op in ops {
            match op {
                0 => {
                    let full = visible.len() + staged.len() + unreleased == 8;
                    let result = p.stage(&ring, &slots, &message(next)).unwrap();
                    prop_assert_eq!(result.is_err(), full);
                    if !full { staged.push_back(next); next += 1; }
                }
                1 => { p.publish(&ring); visible.append(&mut staged); }
                2 => {
                    let got = c.take(&ring, &slots).unwrap();
                    let want = visible.pop_front();
                    if want.is_some() { unreleased += 1; }
                    prop_assert_eq!(got, want.map(message));
                }
                _ => { c.release(&ring); unreleased = 0; }
            }
        }
    }

    #[test]
    fn any_indices_are_survived(tail: u32, head: u32) {
        let (ring, slots) = (Indices::new(), slots(8));
        ring.tail.0.store(tail.into(), Ordering::Relaxed);
        ring.head.0.store(head, Ordering::Relaxed);
        let (mut p, mut c) = (Producer::new(), Consumer::new());
        for _ in 0..20 {
            let _ = p.stage(&ring, &slots, &message(1));
            let _ = c.take(&ring, &slots);
        }
    }
}
