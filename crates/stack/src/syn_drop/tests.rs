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
