//! The cache through its states, by the clock of the test.

mod edges;

use super::*;
use proptest::prelude::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

fn at(ms: u64) -> Instant {
    Instant(1).after_ms(ms)
}

fn events(n: &mut Neighbors, now: Instant) -> Vec<NeighborEvent<Ipv4Addr>> {
    let mut all = Vec::new();
    n.poll(now, |e| all.push(e));
    all
}

fn state(n: &Neighbors, ip: Ipv4Addr) -> Option<State> {
    n.iter().find(|(i, ..)| *i == ip).map(|(_, state, _)| state)
}

/// A cache that knows `A` since time 0.
fn knowing() -> Neighbors {
    let mut n = Neighbors::new(4);
    n.lookup(A, at(0));
    assert!(n.learn(A, MAC, true, at(0)));
    n
}

#[test]
fn asked_once_found_when_answered() {
    let mut n = Neighbors::new(4);
    assert_eq!(n.lookup(A, at(0)), Lookup::Ask);
    assert_eq!(n.lookup(A, at(1)), Lookup::Wait);
    assert_eq!(n.pending(), 1);
    assert!(n.learn(A, MAC, true, at(2)));
    assert_eq!(n.lookup(A, at(3)), Lookup::Found(MAC));
    assert!(!n.learn(A, MAC, true, at(4)), "nobody waits any more");
    assert_eq!(n.pending(), 0);
    assert_eq!(events(&mut n, at(10_000)), []);
    assert_eq!(n.deadline(), None);
    assert_eq!((n.counters().asked, n.counters().resolved), (1, 1));
}

#[test]
fn asked_again_as_if_for_the_first_time() {
    let mut n = knowing();
    let b = Ipv4Addr::new(10, 0, 0, 3);
    assert_eq!(n.lookup(b, at(0)), Lookup::Ask);
    assert_eq!(events(&mut n, at(1_000)), [NeighborEvent::Ask(b)]);
    n.ask_again(at(1_900));
    assert_eq!(n.deadline(), Some(at(1_900)));
    for ask in [1_900, 2_900, 3_900] {
        assert_eq!(events(&mut n, at(ask)), [NeighborEvent::Ask(b)]);
    }
    assert_eq!(events(&mut n, at(4_900)), [NeighborEvent::Failed(b)]);
    n.ask_again(at(5_000));
    assert_eq!(events(&mut n, at(5_000)), [], "nobody is waited for");
}

#[test]
fn when_the_link_returns_those_in_use_are_asked_and_others_when_they_are_wanted() {
    let [b, c, d] = [3, 4, 5].map(|n| Ipv4Addr::new(10, 0, 0, n));
    let mut n = Neighbors::new(4);
    let later = 200_000;
    // Answered long ago; not at all; lately; not yet.
    n.lookup(b, at(0));
    assert!(n.learn(b, MAC, true, at(0)));
    n.lookup(c, at(later - 3_500));
    for ms in [2_500, 1_500, 500] {
        events(&mut n, at(later - ms));
    }
    n.lookup(A, at(later));
    assert!(n.learn(A, MAC, true, at(later)));
    n.lookup(d, at(later));
    n.link_returned(at(later + 1));
    assert_eq!(n.deadline(), Some(at(later + 1)));
    let asked = events(&mut n, at(later + 1));
    assert_eq!(asked.len(), 2);
    assert!(asked.contains(&NeighborEvent::Probe(A, MAC)));
    assert!(asked.contains(&NeighborEvent::Ask(d)));
    assert_eq!(n.lookup(A, at(later + 2)), Lookup::Found(MAC), "meanwhile");
    assert_eq!(state(&n, b), Some(State::Stale));
    assert_eq!(n.lookup(c, at(later + 2)), Lookup::Ask, "at once");
    // One answers, at another place; the other is gone.
    assert!(!n.learn(A, OTHER, true, at(later + 3)));
    assert_eq!(n.lookup(A, at(later + 4)), Lookup::Found(OTHER));
    for second in 1..4 {
        events(&mut n, at(later + 1 + second * 1_000));
    }
    assert_eq!(n.lookup(d, at(later + 3_002)), Lookup::Failed);
}

#[test]
fn three_requests_a_second_apart_then_failure() {
    let mut n = Neighbors::new(4);
    assert_eq!(n.lookup(A, at(0)), Lookup::Ask);
    assert_eq!(n.deadline(), Some(at(1_000)));
    assert_eq!(events(&mut n, at(999)), []);
    assert_eq!(events(&mut n, at(1_000)), [NeighborEvent::Ask(A)]);
    assert_eq!(events(&mut n, at(2_000)), [NeighborEvent::Ask(A)]);
    assert_eq!(events(&mut n, at(3_000)), [NeighborEvent::Failed(A)]);
    assert_eq!(n.deadline(), None);
    assert_eq!(n.lookup(A, at(5_999)), Lookup::Failed);
    assert_eq!(n.lookup(A, at(6_000)), Lookup::Ask, "a new attempt later");
    assert_eq!(n.deadline(), Some(at(7_000)));
    assert_eq!((n.counters().asked, n.counters().failed), (4, 1));
}

#[test]
fn an_answer_after_the_failure_still_counts() {
    let mut n = Neighbors::new(4);
    n.lookup(A, at(0));
    for s in 1..=3 {
        events(&mut n, at(s * 1_000));
    }
    assert!(n.learn(A, MAC, true, at(3_100)));
    assert_eq!(n.lookup(A, at(3_200)), Lookup::Found(MAC));
}

#[test]
fn an_old_answer_is_used_while_it_is_checked() {
    let mut n = knowing();
    assert_eq!(n.lookup(A, at(59_999)), Lookup::Found(MAC));
    assert_eq!(state(&n, A), Some(State::Reachable));
    assert_eq!(n.lookup(A, at(70_000)), Lookup::Found(MAC));
    assert_eq!(state(&n, A), Some(State::Delay));
    assert_eq!(events(&mut n, at(75_000)), [NeighborEvent::Probe(A, MAC)]);
    assert_eq!(n.lookup(A, at(75_001)), Lookup::Found(MAC));
    assert!(!n.learn(A, MAC, true, at(75_002)));
    assert_eq!(state(&n, A), Some(State::Reachable));
    assert_eq!(n.lookup(A, at(135_001)), Lookup::Found(MAC));
    assert_eq!(state(&n, A), Some(State::Reachable));
}

#[test]
fn a_neighbour_that_is_gone_is_noticed() {
    let mut n = knowing();
    n.lookup(A, at(70_000));
    for s in 75..78 {
        assert_eq!(
            events(&mut n, at(s * 1_000)),
            [NeighborEvent::Probe(A, MAC)]
        );
    }
    assert_eq!(events(&mut n, at(78_000)), [NeighborEvent::Failed(A)]);
    assert_eq!(n.lookup(A, at(78_001)), Lookup::Failed);
}

#[test]
fn an_unused_neighbour_is_left_alone() {
    let mut n = knowing();
    assert_eq!(events(&mut n, at(1_000_000)), []);
    assert_eq!(n.deadline(), None);
}

#[test]
fn progress_above_saves_the_check() {
    let mut n = knowing();
    n.lookup(A, at(70_000));
    n.confirm(A, at(71_000));
    assert_eq!(events(&mut n, at(75_000)), []);
    assert_eq!(n.lookup(A, at(130_000)), Lookup::Found(MAC));
    assert_eq!(state(&n, A), Some(State::Reachable));
    n.confirm(Ipv4Addr::new(10, 0, 0, 9), at(130_000));
}

#[test]
fn who_asks_us_is_known_but_not_proven() {
    let mut n = Neighbors::new(4);
    assert!(!n.learn(A, MAC, true, at(0)));
    assert_eq!(state(&n, A), Some(State::Stale));
    assert_eq!(n.lookup(A, at(1)), Lookup::Found(MAC));
    assert_eq!(state(&n, A), Some(State::Delay));
}

#[test]
fn what_is_said_to_all_only_changes_what_is_known() {
    let mut n = Neighbors::new(4);
    assert!(!n.learn(A, MAC, false, at(0)));
    assert_eq!((state(&n, A), n.counters().ignored), (None, 1));
    let mut n = knowing();
    assert!(!n.learn(A, OTHER, false, at(1)));
    assert_eq!(n.lookup(A, at(2)), Lookup::Found(OTHER));
    assert_eq!(state(&n, A), Some(State::Delay), "to be checked");
    let mut n = Neighbors::new(4);
    n.lookup(A, at(0));
    assert!(n.learn(A, MAC, false, at(1)), "it was waited for");
    assert_eq!(state(&n, A), Some(State::Stale), "but nothing is proven");
}

#[test]
fn nonsense_is_not_learnt() {
    let mut n = Neighbors::new(4);
    n.lookup(A, at(0));
    assert!(!n.learn(A, MacAddr::BROADCAST, true, at(1)));
    assert!(!n.learn(Ipv4Addr::UNSPECIFIED, MAC, true, at(1)));
    assert!(!n.learn(Ipv4Addr::BROADCAST, MAC, true, at(1)));
    assert_eq!(n.lookup(A, at(2)), Lookup::Wait);
    assert_eq!(n.counters().ignored, 3);
}

#[test]
fn unused_neighbors_do_not_push_out_one_that_is_used() {
    let mut n = knowing();
    n.lookup(A, at(1));
    for i in 3..250 {
        n.learn(Ipv4Addr::new(10, 0, 0, i), MAC, true, at(u64::from(i)));
        assert!(n.iter().count() <= 4);
    }
    assert_eq!(n.lookup(A, at(1_000)), Lookup::Found(MAC));
    assert_eq!(n.counters().evicted, 247 - 3);
}

#[test]
fn who_did_not_answer_makes_room_first() {
    let b = Ipv4Addr::new(10, 0, 0, 3);
    let mut n = Neighbors::new(2);
    n.learn(b, OTHER, true, at(0));
    n.lookup(A, at(0));
    for s in 1..=3 {
        events(&mut n, at(s * 1_000));
    }
    assert_eq!(state(&n, A), Some(State::Failed));
    assert_eq!(n.lookup(Ipv4Addr::new(10, 0, 0, 4), at(3_001)), Lookup::Ask);
    assert_eq!((state(&n, A), state(&n, b)), (None, Some(State::Stale)));
}

#[test]
fn two_neighbours_in_turn() {
    let b = Ipv4Addr::new(10, 0, 0, 3);
    let mut n = knowing();
    n.lookup(b, at(0));
    n.learn(b, OTHER, true, at(0));
    for i in 1..5 {
        assert_eq!(n.lookup(A, at(i)), Lookup::Found(MAC));
        assert_eq!(n.lookup(b, at(i)), Lookup::Found(OTHER));
    }
    // Even where the last one has moved to another's place.
    n.learn(Ipv4Addr::new(10, 0, 0, 1), MAC, true, at(5));
    assert_eq!(n.lookup(b, at(6)), Lookup::Found(OTHER));
    assert_eq!(n.lookup(A, at(6)), Lookup::Found(MAC));
}

const V6: core::net::Ipv6Addr = core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn v6_state(n: &Neighbors<core::net::Ipv6Addr>) -> Option<(State, Option<MacAddr>)> {
    n.iter().next().map(|(_, state, mac)| (state, mac))
}

/// An IPv6 cache with a request for the neighbour and, if `known`, its answer.
fn v6_cache(known: bool) -> Neighbors<core::net::Ipv6Addr> {
    let mut n = Neighbors::new(4);
    assert_eq!(n.lookup(V6, at(0)), Lookup::Ask);
    if known {
        assert!(n.advertised(V6, Some(MAC), true, true, at(1)));
    }
    n
}

#[test]
fn an_advertisement_answers_who_waits() {
    let mut n = v6_cache(true);
    assert_eq!(v6_state(&n), Some((State::Reachable, Some(MAC))));
    assert_eq!(n.lookup(V6, at(30_002)), Lookup::Found(MAC));
    assert_eq!(v6_state(&n), Some((State::Delay, Some(MAC))), "after 30 s");
    // Without an address it resolves nothing.
    let mut n = v6_cache(false);
    assert!(!n.advertised(V6, None, true, true, at(1)));
    assert_eq!(v6_state(&n), Some((State::Incomplete, None)));
    // Not asked for, it says where, and no more.
    assert!(n.advertised(V6, Some(MAC), false, false, at(2)));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(MAC))));
    let mut n = Neighbors::<core::net::Ipv6Addr>::new(4);
    assert!(!n.advertised(V6, Some(MAC), true, true, at(0)));
    assert_eq!(v6_state(&n), None, "nobody asked for it");
}

#[test]
fn only_an_override_takes_a_known_address_away() {
    let mut n = v6_cache(true);
    assert!(!n.advertised(V6, Some(OTHER), true, false, at(2)));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(MAC))), "to be asked");
    assert!(!n.advertised(V6, Some(OTHER), true, false, at(3)));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(MAC))));
    n.advertised(V6, Some(OTHER), false, true, at(4));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(OTHER))));
    n.advertised(V6, None, true, false, at(5));
    assert_eq!(v6_state(&n), Some((State::Reachable, Some(OTHER))));
    n.advertised(V6, Some(OTHER), false, true, at(6));
    assert_eq!(
        v6_state(&n),
        Some((State::Reachable, Some(OTHER))),
        "no news"
    );
}

#[test]
fn who_solicits_is_heard_but_may_not_hear_us() {
    let mut n = v6_cache(false);
    assert!(n.asked_by(V6, MAC, at(1)));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(MAC))));
    let mut n = v6_cache(true);
    assert!(!n.asked_by(V6, OTHER, at(2)));
    assert_eq!(v6_state(&n), Some((State::Stale, Some(OTHER))));
    let group = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    assert!(!n.asked_by(group, MAC, at(3)));
    assert_eq!(n.counters().ignored, 1);
}

#[test]
fn packets_are_held_for_who_is_asked_for() {
    let mut n = Neighbors::new(2);
    let [first, second, third] = [1, 2, 3].map(|last| Ipv4Addr::new(10, 0, 0, last));
    // Nobody has asked for it.
    n.hold(first, vec![0]);
    assert_eq!(n.take_overflowed(), 1);
    assert_eq!(n.lookup(first, at(0)), Lookup::Ask);
    n.hold(first, vec![1]);
    n.hold(first, vec![2]);
    assert!(n.learn(first, MAC, true, at(1)));
    assert_eq!(n.release(first), [vec![1], vec![2]]);
    assert!(n.release(first).is_empty());
    // It is known.
    n.hold(first, vec![3]);
    assert_eq!(n.take_overflowed(), 1);

    // Given up, they are the caller's to drop.
    assert_eq!(n.lookup(second, at(1)), Lookup::Ask);
    n.hold(second, vec![4]);
    let mut failed = Vec::new();
    for second in 1..5 {
        n.poll(at(1 + second * 1_000), |e| {
            if let NeighborEvent::Failed(ip) = e {
                failed.push(ip);
            }
        });
    }
    assert_eq!(failed, [second]);
    assert_eq!(n.release(second), [vec![4]]);

    // Nothing is left of an evicted entry.
    let mut n = Neighbors::new(1);
    n.lookup(first, at(0));
    n.hold(first, vec![5]);
    n.lookup(third, at(0));
    assert_eq!((n.counters().evicted, n.take_overflowed()), (1, 1));
    n.lookup(first, at(1));
    assert!(n.release(first).is_empty());
}

proptest! {
    /// Whatever happens: the size stays bounded, no deadline is missed, nobody is
    /// asked for more than once a second, and nobody waits for more than three.
    #[test]
    fn promises_hold(steps in proptest::collection::vec((0u8..4, 1u8..8, any::<bool>(), 0u64..1_500), 1..200)) {
        let mut n = Neighbors::new(5);
        let mut now = at(0);
        let mut asked = std::collections::HashMap::<Ipv4Addr, Instant>::new();
        let mut ask = |ip: Ipv4Addr, now: Instant| {
            let before = asked.insert(ip, now);
            before.is_none_or(|b| now.since(b) >= 1_000_000)
        };
        for (what, who, to_us, wait) in steps {
            now = now.after_ms(wait);
            let ip = Ipv4Addr::new(10, 0, 0, who);
            let before = n.counters().evicted;
            match what {
                0 | 1 => {
                    if n.lookup(ip, now) == Lookup::Ask && before == 0 && n.counters().evicted == 0 {
                        prop_assert!(ask(ip, now));
                    }
                }
                2 => {
                    n.learn(ip, MAC, to_us, now);
                    prop_assert!(state(&n, ip) != Some(State::Incomplete));
                }
                _ => {
                    let evicted = n.counters().evicted;
                    let mut right = true;
                    n.poll(now, |e| {
                        if let NeighborEvent::Ask(ip) | NeighborEvent::Probe(ip, _) = e {
                            right &= evicted != 0 || ask(ip, now);
                        }
                    });
                    prop_assert!(right);
                    prop_assert!(n.deadline().is_none_or(|d| d > now));
                }
            }
            prop_assert!(n.iter().count() <= 5);
            prop_assert!(n.pending() == 0 || n.deadline().is_some());
        }
    }
}
