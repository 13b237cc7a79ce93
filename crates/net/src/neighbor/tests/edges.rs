//! The edges of the states: to the microsecond, at the counters, and with a full cache.

use super::*;

const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const C: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 4);

/// RFC 4861 section 6.3.4: a router's times take the place of ours.
#[test]
fn the_times_are_those_that_routers_say() {
    let mut n = Neighbors::new(4);
    n.set_times(Some(10_000), Some(200));
    n.lookup(A, at(0));
    assert_eq!(n.deadline(), Some(at(200)));
    assert_eq!(events(&mut n, at(200)), [NeighborEvent::Ask(A)]);
    assert_eq!(n.deadline(), Some(at(400)));
    n.learn(A, MAC, true, at(300));
    n.set_times(None, None);
    n.lookup(A, at(10_299));
    assert_eq!(state(&n, A), Some(State::Reachable));
    n.lookup(A, at(10_300));
    assert_eq!(state(&n, A), Some(State::Delay));
}

/// An answer is good for its time and no longer, whether or not its neighbour was the last one
/// to be looked up; then its check is due in five seconds.
#[test]
fn an_answer_ends_with_its_time() {
    for last in [true, false] {
        let mut n = knowing();
        assert_eq!(n.lookup(A, at(1)), Lookup::Found(MAC));
        n.lookup(B, at(2));
        n.learn(B, OTHER, true, at(3));
        n.lookup(if last { A } else { B }, at(4));
        events(&mut n, at(5_000));
        assert_eq!(n.lookup(A, at(59_999)), Lookup::Found(MAC));
        assert_eq!(state(&n, A), Some(State::Reachable));
        n.lookup(if last { A } else { B }, at(59_999));
        assert_eq!(n.lookup(A, at(60_000)), Lookup::Found(MAC));
        assert_eq!(state(&n, A), Some(State::Delay), "{last}");
        assert_eq!(n.deadline(), Some(at(65_000)));
        assert_eq!(events(&mut n, at(64_999)), []);
        assert_eq!(events(&mut n, at(65_000)), [NeighborEvent::Probe(A, MAC)]);
    }
}

#[test]
fn what_happens_is_counted() {
    let [u, v]: [core::net::Ipv6Addr; 2] = ["fe80::1", "fe80::2"].map(|ip| ip.parse().unwrap());
    let mut n = Neighbors::new(4);
    for ignored in 1..=2 {
        assert!(!n.advertised(u, Some(MAC), true, true, at(0)));
        assert_eq!(n.counters().ignored, ignored);
    }
    n.lookup(u, at(0));
    assert!(!n.advertised(u, None, true, true, at(1)), "no address");
    assert!(!n.advertised(u, Some(MacAddr([255; 6])), true, true, at(1)));
    assert_eq!(n.counters().ignored, 4);
    n.lookup(v, at(0));
    for (resolved, ip) in [(1, u), (2, v)] {
        assert!(n.advertised(ip, Some(MAC), true, false, at(2)));
        assert_eq!(n.counters().resolved, resolved);
    }
    assert_eq!((n.counters().asked, n.counters().failed), (2, 0));
}

/// RFC 4861 section 7.2.5: an advertisement that nobody asked for changes an address and proves
/// nothing of it.
#[test]
fn an_unasked_advertisement_is_stale() {
    let ip: core::net::Ipv6Addr = "fe80::1".parse().unwrap();
    let known = || {
        let mut n = Neighbors::new(4);
        n.lookup(ip, at(0));
        assert!(n.advertised(ip, Some(MAC), true, false, at(1)));
        n
    };
    let entry = |n: &Neighbors<core::net::Ipv6Addr>| n.iter().next().map(|(_, s, mac)| (s, mac));
    let mut n = known();
    assert!(!n.advertised(ip, Some(OTHER), false, true, at(2)));
    assert_eq!(entry(&n), Some((State::Stale, Some(OTHER))));
    // The same address, or none: nothing has changed.
    for mac in [Some(MAC), None] {
        let mut n = known();
        assert!(!n.advertised(ip, mac, false, true, at(2)));
        assert_eq!(entry(&n), Some((State::Reachable, Some(MAC))));
    }
    // It answers those who wait all the same.
    let mut n = Neighbors::new(4);
    n.lookup(ip, at(0));
    assert!(n.advertised(ip, Some(MAC), false, false, at(1)));
    assert_eq!(entry(&n), Some((State::Stale, Some(MAC))));
}

/// What has ended by itself when the link returns is checked when it is wanted.
#[test]
fn a_link_that_returns_is_nothing_to_those_that_are_not_used() {
    let mut n = knowing();
    events(&mut n, at(5_000));
    n.link_returned(at(60_000));
    assert_eq!(state(&n, A), Some(State::Stale));
    assert_eq!(n.deadline(), None);
    let mut n = knowing();
    events(&mut n, at(5_000));
    n.link_returned(at(59_999));
    assert_eq!(state(&n, A), Some(State::Probe));
    assert_eq!(n.deadline(), Some(at(59_999)));
    // One that had failed waits for nothing, but may be asked at once.
    let mut n = Neighbors::new(4);
    n.lookup(A, at(0));
    for ms in [1_000, 2_000, 3_000] {
        events(&mut n, at(ms));
    }
    assert_eq!((state(&n, A), n.deadline()), (Some(State::Failed), None));
    n.link_returned(at(3_001));
    assert_eq!(n.deadline(), None);
    assert_eq!(n.lookup(A, at(3_001)), Lookup::Ask);
}

/// One that is waited for goes last, however long ago that began.
#[test]
fn a_full_cache_keeps_what_is_waited_for() {
    let mut n = Neighbors::new(2);
    n.lookup(A, at(0));
    n.lookup(B, at(1));
    n.learn(B, MAC, true, at(1));
    n.lookup(B, at(2));
    n.hold(A, vec![1]);
    assert_eq!(n.take_overflowed(), 0);
    n.lookup(C, at(3));
    assert_eq!(
        (state(&n, A), state(&n, B)),
        (Some(State::Incomplete), None)
    );
    assert_eq!(n.counters().evicted, 1);
    assert_eq!(n.take_overflowed(), 0);
    // Of two that are waited for, the older one, with what was held for it.
    n.lookup(B, at(4));
    assert_eq!(
        (state(&n, A), state(&n, C)),
        (None, Some(State::Incomplete))
    );
    assert_eq!((n.take_overflowed(), n.take_overflowed()), (1, 0));
    assert_eq!(n.counters().evicted, 2);
}
