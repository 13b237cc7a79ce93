//! What each side says of where it is, and of what waits.

use super::*;

fn send(p: &mut Producer, ring: &Indices, slots: &[Slot], count: u64) {
    for i in 0..count {
        p.stage(ring, slots, &message(i)).unwrap().unwrap();
    }
    p.publish(ring);
}

fn take(c: &mut Consumer, ring: &Indices, slots: &[Slot], count: u32) {
    for _ in 0..count {
        assert!(c.take(ring, slots).unwrap().is_some());
    }
}

#[test]
fn both_indices_are_told_until_the_ring_is_emptied() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::new(), Consumer::claiming());
    let stand = || (ring.published(), ring.given_back(), ring.are_even());
    assert_eq!(stand(), (0, 0, true));
    send(&mut p, &ring, &slots, 3);
    take(&mut c, &ring, &slots, 2);
    assert_eq!(stand(), (3, 0, false));
    c.release(&ring);
    assert_eq!(stand(), (3, 2, false));
    take(&mut c, &ring, &slots, 1);
    c.release(&ring);
    assert_eq!(stand(), (3, 3, true));
    send(&mut p, &ring, &slots, 1);
    ring.reset();
    assert_eq!(stand(), (0, 0, true));
    assert!(!ring.is_claimed());
}

#[test]
fn a_producer_knows_what_it_has_seen_given_back() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    assert_eq!((p.next(), p.staged()), (0, 0));
    send(&mut p, &ring, &slots, 2);
    assert_eq!(p.next(), 2);
    take(&mut c, &ring, &slots, 1);
    c.release(&ring);
    assert!(!p.is_taken(0), "it has not looked");
    assert_eq!(p.room(&ring, 4), Ok(3));
    assert!(p.is_taken(0) && !p.is_taken(1) && !p.is_taken(2));
}

#[test]
fn a_consumer_gives_back_what_it_took_piece_by_piece() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    send(&mut p, &ring, &slots, 4);
    assert_eq!((c.taken(), c.keeps_any()), (0, false));
    take(&mut c, &ring, &slots, 3);
    assert_eq!((c.taken(), c.keeps_any()), (3, true));
    // To the second; what is back already, again and less; what is not taken yet.
    for to in [2, 2, 1, 4] {
        c.release_to(&ring, to);
        assert_eq!((ring.given_back(), c.keeps_any()), (2, true), "to {to}");
    }
    c.release_to(&ring, 3);
    assert_eq!((ring.given_back(), c.keeps_any()), (3, false));
}

/// Of those the last of which is not taken, and of those that it has not seen yet.
#[test]
fn messages_are_pending_until_the_last_is_taken() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::new(), Consumer::new());
    assert!(!c.pending(&ring));
    send(&mut p, &ring, &slots, 2);
    assert!(c.pending(&ring));
    take(&mut c, &ring, &slots, 1);
    assert!(c.pending(&ring));
    take(&mut c, &ring, &slots, 1);
    assert!(!c.pending(&ring));
}

/// The first word of a message says here how many slots are behind it.
fn behind(message: &Message) -> u32 {
    message[0] as u32
}

#[test]
fn what_waits_is_counted_in_messages_and_claimed_by_nobody() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, mut c) = (Producer::taking_back(), Consumer::claiming());
    let waiting = |c: &Consumer, most| c.waiting(&ring, &slots, most, behind);
    for round in 0..12 {
        assert_eq!(waiting(&c, 9), 0);
        // Alone, three of one slot each that follow one that is taken, or one of three and one.
        let lens: &[u64] = [&[0][..], &[0, 0, 0], &[2, 0]][round % 3];
        for len in lens {
            let own = p.stage_long(*len as u32, 0, &ring, &slots, &[*len, 9]);
            let own = own.unwrap().unwrap();
            for i in 1..=*len as usize {
                // None of these is a message.
                slots[(own + i) & 3].store(&[7, 7]);
            }
        }
        assert_eq!(waiting(&c, 9), 0, "none is published");
        p.publish(&ring);
        let count = lens.len() as u32;
        for most in 0..6 {
            assert_eq!(waiting(&c, most), count.min(most));
        }
        assert!(!ring.is_claimed());
        for (left, len) in (0..count).rev().zip(lens) {
            assert!(c.take(&ring, &slots).unwrap().is_some());
            assert!(c.take_more(*len as u32, &slots).is_some());
            assert_eq!(waiting(&c, 9), left);
        }
        c.release(&ring);
    }
}

#[test]
fn a_full_ring_is_counted_and_more_than_full_is_as_much_as_is_asked() {
    let (ring, slots) = (Indices::new(), slots(4));
    let (mut p, c) = (Producer::new(), Consumer::new());
    send(&mut p, &ring, &slots, 4);
    assert_eq!(c.waiting(&ring, &slots, 9, |_| 0), 4);
    for lie in [5, 6, u64::from(u32::MAX)] {
        ring.tail.0.store(lie, Ordering::Relaxed);
        assert_eq!(c.waiting(&ring, &slots, 9, |_| 0), 9);
    }
    // A message that says it is longer than all that there is.
    ring.tail.0.store(4, Ordering::Relaxed);
    assert_eq!(c.waiting(&ring, &slots, 9, |_| u32::MAX), 1);
}

/// Beside the index stand three bits, and the claim before them, whatever is said of the words.
#[test]
fn the_word_of_the_tail_has_its_parts_where_the_other_side_looks() {
    let (ring, slots) = (Indices::new(), slots(4));
    let mut p = Producer::taking_back();
    p.stage(&ring, &slots, &message(1)).unwrap().unwrap();
    p.leave_words(8 + 5);
    p.publish(&ring);
    assert_eq!(ring.tail.0.load(Ordering::Relaxed), 1 | 5 << 33);
    let mut c = Consumer::claiming();
    take(&mut c, &ring, &slots, 1);
    assert_eq!(ring.tail.0.load(Ordering::Relaxed), 1 | 1 << 32 | 5 << 33);
}
