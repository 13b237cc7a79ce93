//! The ring against a queue, and against a lying peer.

use super::*;
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

proptest! {
    #[test]
    fn behaves_as_a_bounded_queue(ops in proptest::collection::vec(0u8..4, 1..400)) {
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
        ring.tail.0.store(tail, Ordering::Relaxed);
        ring.head.0.store(head, Ordering::Relaxed);
        let (mut p, mut c) = (Producer::new(), Consumer::new());
        for _ in 0..20 {
            let _ = p.stage(&ring, &slots, &message(1));
            let _ = c.take(&ring, &slots);
        }
    }
}
