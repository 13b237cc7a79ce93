//! The share under floods that the engine can and cannot read.

use super::*;

/// An engine that reads so many SYNs in a millisecond, under a flood of so many.
struct Flood {
    share: SynDrop,
    now: Instant,
    reads: u64,
    /// Other frames that it reads beside.
    others: u64,
    /// What the shares were, each with the time of its beginning.
    shares: Vec<(u64, u8)>,
    behind: u64,
}

impl Flood {
    fn new(reads: u64) -> Self {
        Self {
            share: SynDrop::default(),
            now: Instant(1_000_000),
            reads,
            others: 100,
            shares: Vec::new(),
            behind: 0,
        }
    }

    /// So many milliseconds with so many SYNs in each.
    fn goes_on(&mut self, milliseconds: u64, each: u64) {
        for _ in 0..milliseconds {
            self.now = self.now.after_us(1_000);
            let passed = each >> self.share.shift;
            let read = passed.min(self.reads);
            for _ in 0..read {
                self.share.came();
            }
            let is_behind = passed > self.reads;
            self.behind += u64::from(is_behind);
            self.share.looked((read + self.others) as usize, is_behind);
            if let Some(shift) = self.share.decide(is_behind, self.now) {
                self.shares.push((self.now.0, shift));
            }
        }
    }
}

#[test]
fn a_flood_that_can_be_read_is_let_through() {
    let mut flood = Flood::new(300);
    flood.goes_on(1_000, 300);
    assert_eq!(flood.shares, []);
    assert_eq!(flood.share.deadline(), None);
    assert_eq!(flood.share.dropped(), 0);
}

#[test]
fn of_more_as_much_passes_as_can_be_read() {
    let mut flood = Flood::new(300);
    flood.goes_on(1_000, 5_000);
    // 5,000 / 32 is less than 300, and 5,000 / 16 is not.
    assert_eq!(flood.share.shift, 5);
    let first: Vec<u8> = flood.shares.iter().take(4).map(|s| s.1).collect();
    assert_eq!(first, [2, 3, 4, 5]);
    assert!(flood.shares[3].0 - flood.shares[0].0 <= 4 * SETTLES);
    // What each of them does is seen before the next.
    let settle = |pair: &[(u64, u8)]| pair[1].0 - pair[0].0 >= SETTLES;
    assert!(flood.shares[..4].windows(2).all(settle));
    let due = flood
        .share
        .deadline()
        .expect("it is seen whether it is over");
    assert_eq!(due, flood.share.window.after_us(WINDOW));
    // What is tried again and again fails ever less often.
    let before = flood.behind;
    flood.goes_on(10_000, 5_000);
    assert!(flood.behind - before < 20, "{}", flood.behind - before);
    let total = 11_000 * 5_000;
    let dropped = flood.share.dropped();
    assert!(dropped > total * 8 / 10 && dropped < total, "{dropped}");
}

#[test]
fn a_few_clients_amid_much_else_are_let_through() {
    let mut flood = Flood::new(10);
    flood.goes_on(1_000, 20);
    assert_eq!(flood.shares, []);
}

/// One client connects again and again, and what it sends next is there before the engine looks:
/// it never sees the end. Of three frames one is a SYN.
#[test]
fn a_client_whose_connections_are_established_is_no_flood() {
    let (mut share, mut now) = (SynDrop::default(), Instant(1_000_000));
    for look in 0..10_000 {
        for _ in 0..21 {
            share.came();
            share.served();
        }
        share.looked(64, true);
        assert_eq!(share.decide(true, now), None, "{look}");
        now = now.after_us(if look % 100 == 0 { 10_000 } else { 100 });
    }
    assert_eq!((share.dropped(), share.deadline()), (0, None));
    // As many of which nothing comes are one, beside those.
    for _ in 0..10_000 {
        share.came();
        share.came();
        share.served();
    }
    share.looked(30_000, true);
    assert_eq!(
        share.decide(true, now),
        None,
        "among all since it was behind"
    );
    share.looked(0, false);
    for _ in 0..100 {
        share.came();
        share.came();
        share.served();
    }
    share.looked(300, true);
    assert_eq!(share.decide(true, now), Some(FIRST));
}

#[test]
fn when_it_is_over_all_pass_again() {
    let mut flood = Flood::new(300);
    flood.goes_on(10_000, 5_000);
    assert_eq!(flood.share.shift, 5);
    let addresses = flood.now;
    // A few clients are left, or none; nobody need send a frame for it.
    flood.goes_on(1_000, 1);
    assert_eq!(flood.share.shift, 0);
    assert_eq!(flood.share.deadline(), None);
    assert!(flood.shares.last().unwrap().0 - addresses.0 <= 2 * WINDOW + 1_000);
    // The next one is met as the first was.
    flood.goes_on(20, 5_000);
    assert_eq!(flood.share.shift, 5);
    assert_eq!(flood.share.stand, SHORTEST_STAND);
}

#[test]
fn a_smaller_flood_is_found_out_step_by_step() {
    let mut flood = Flood::new(300);
    flood.goes_on(100, 40_000);
    assert_eq!(flood.share.shift, 8);
    flood.goes_on(20_000, 1_000);
    assert_eq!(flood.share.shift, 2);
}

#[test]
fn what_has_no_end_stays_in_bounds() {
    let mut share = SynDrop::default();
    let mut now = Instant(1);
    for _ in 0..100 {
        share.came();
        share.looked(1, true);
        share.decide(true, now);
        now = now.after_us(SETTLES);
    }
    assert!(share.shift <= MAX_SYN_DROP);
}

/// One SYN among four frames is a good part of them, and one among five is not.
#[test]
fn a_good_part_is_one_in_four() {
    for (frames, expected) in [(4, Some(FIRST)), (5, None)] {
        let mut share = SynDrop::default();
        share.came();
        share.looked(frames, true);
        assert_eq!(share.decide(true, Instant(1_000_000)), expected);
    }
}

/// A flood that pauses for less than a window is not over.
#[test]
fn a_flood_may_pause() {
    let mut flood = Flood::new(300);
    flood.goes_on(1_000, 5_000);
    for _ in 0..20 {
        flood.goes_on(30, 5_000);
        flood.goes_on(10, 0);
    }
    assert!(flood.shares.iter().all(|(_, shift)| *shift != 0));
}

/// One in four passes since a second, and so many that passed have come in the last window.
fn at_the_end_of_a_window(came: u64) -> (SynDrop, Instant) {
    let now = Instant(2_000_000);
    let begun = Instant(now.0 - WINDOW);
    let share = SynDrop {
        shift: 2,
        set_at: begun,
        window: begun,
        came,
        ..SynDrop::default()
    };
    (share, now)
}

/// Fewer than 20,000 in a second are few.
#[test]
fn what_passes_tells_how_many_come() {
    for (came, expected) in [(0, 0), (1, 0), (249, 0), (250, 1), (2_000, 1)] {
        let (mut share, now) = at_the_end_of_a_window(came);
        assert_eq!(share.decide(false, now), Some(expected), "{came}");
        // Before the end it is too early to say.
        let (mut share, now) = at_the_end_of_a_window(came);
        assert_eq!(share.decide(false, Instant(now.0 - 1)), None, "{came}");
    }
}

/// A larger share that was too much at once is not tried again soon; one that has stood its time
/// was not too much. What is halved again after that changes nothing of it.
#[test]
fn a_share_that_did_not_stand_is_tried_less_often() {
    const STAND: u64 = 4 * SHORTEST_STAND;
    for (is_trial, stood, expected) in [
        (true, STAND - 1, 2 * STAND),
        (true, STAND, SHORTEST_STAND),
        (false, STAND - 1, STAND),
        (false, STAND, STAND),
    ] {
        let mut share = SynDrop {
            shift: 3,
            set_at: Instant(1_000_000),
            stand: STAND,
            is_trial,
            ..SynDrop::default()
        };
        share.came();
        share.looked(1, true);
        let now = Instant(1_000_000 + stood);
        assert_eq!(share.decide(true, now), Some(4));
        assert_eq!(share.stand, expected, "{is_trial} {stood}");
    }
}

/// What was read before the share was set says nothing of what passes since.
#[test]
fn with_a_share_the_count_begins_anew() {
    let (mut share, now) = (SynDrop::default(), Instant(1_000_000));
    (0..1_000).for_each(|_| share.came());
    share.looked(1_000, true);
    assert_eq!(share.decide(true, now), Some(FIRST));
    share.came();
    share.looked(500, true);
    assert_eq!(share.decide(true, now.after_us(SETTLES)), None);
}
