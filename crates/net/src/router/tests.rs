use super::*;
use crate::address6::State;
use longshore_wire::icmpv6::MAX_PREFIXES;

const R1: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const R2: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const P: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 0);
const HOUR: u32 = 3600;

const fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

/// Routers of a link and our addresses on it.
struct World {
    routers: Routers,
    addresses: Addresses,
}

impl World {
    fn new() -> Self {
        let identifiers = Identifiers::new([3; 32], b"eth0");
        Self {
            routers: Routers::new(identifiers, 1500, 5, at(0)),
            addresses: Addresses::new(),
        }
    }

    fn receive(&mut self, from: Ipv6Addr, lifetime: u16, prefixes: &[PrefixInfo], s: u64) -> bool {
        let mut options = NdpOptions::default();
        options.prefixes[..prefixes.len()]
            .copy_from_slice(&prefixes.iter().map(|p| Some(*p)).collect::<Vec<_>>());
        let advert = Advert {
            lifetime,
            ..Advert::default()
        };
        self.routers
            .handle_advert(from, &advert, &options, &mut self.addresses, at(s))
    }

    fn own(&self) -> Vec<Ipv6Addr> {
        let in_use = self.addresses.iter();
        let in_use = in_use.filter(|(_, s)| *s != State::Expired && *s != State::Duplicate);
        in_use
            .filter_map(|(c, _)| match c.address {
                core::net::IpAddr::V6(ip) => Some(ip),
                core::net::IpAddr::V4(_) => None,
            })
            .collect()
    }

    /// Lets time pass for our addresses.
    fn pass(&mut self, s: u64) {
        self.addresses.poll(at(s), |_| {});
    }
}

fn prefix(valid: u32, preferred: u32) -> PrefixInfo {
    PrefixInfo {
        prefix: P,
        len: 64,
        on_link: true,
        autonomous: true,
        valid,
        preferred,
    }
}

#[test]
fn one_advertisement_gives_an_address_a_network_and_a_router() {
    let mut w = World::new();
    assert!(w.receive(R1, 1800, &[prefix(HOUR, HOUR)], 0));
    let [own] = w.own()[..] else { panic!() };
    assert_eq!(own.segments()[..4], P.segments()[..4]);
    assert_eq!(w.routers.default_router(), Some(R1));
    let networks: Vec<_> = w.routers.networks().collect();
    assert_eq!(networks.len(), 1);
    assert_eq!(networks[0].to_string(), "fd00:0:0:1::/64");
    assert!(
        !w.receive(R1, 1800, &[prefix(HOUR, HOUR)], 60),
        "nothing new"
    );
    assert_eq!(w.own(), [own]);
    // The same machine on the same network makes the same.
    let mut again = World::new();
    again.receive(R2, 0, &[prefix(60, 60)], 0);
    assert_eq!(again.own(), [own]);
    assert_eq!(again.routers.default_router(), None, "no default router");
}

#[test]
fn each_flag_has_its_own_meaning() {
    let mut w = World::new();
    let on_link = PrefixInfo {
        autonomous: false,
        ..prefix(HOUR, HOUR)
    };
    w.receive(R1, 0, &[on_link], 0);
    assert_eq!((w.own().len(), w.routers.networks().count()), (0, 1));
    let mut w = World::new();
    let autonomous = PrefixInfo {
        on_link: false,
        ..prefix(HOUR, HOUR)
    };
    w.receive(R1, 0, &[autonomous], 0);
    assert_eq!((w.own().len(), w.routers.networks().count()), (1, 0));
}

#[test]
fn prefixes_that_cannot_be_are_passed_over() {
    let mut w = World::new();
    let odd = [
        PrefixInfo {
            prefix: R1,
            ..prefix(HOUR, HOUR)
        },
        PrefixInfo {
            prefix: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0),
            ..prefix(HOUR, HOUR)
        },
        PrefixInfo {
            len: 65,
            on_link: false,
            ..prefix(HOUR, HOUR)
        },
        PrefixInfo {
            on_link: false,
            ..prefix(HOUR, HOUR + 1)
        },
        PrefixInfo {
            on_link: false,
            ..prefix(0, 0)
        },
    ];
    assert!(odd.len() <= MAX_PREFIXES);
    assert!(!w.receive(R1, 0, &odd, 0));
    assert_eq!((w.own().len(), w.routers.networks().count()), (0, 0));
}

/// RFC 4862 section 5.5.3 e.
#[test]
fn a_forged_advertisement_takes_no_address_away_at_once() {
    let mut w = World::new();
    w.receive(R1, 0, &[prefix(5 * HOUR, HOUR)], 0);
    let own = w.own()[0];
    let valid = |w: &World| w.addresses.made(own).unwrap().lifetimes.valid;
    w.receive(R1, 0, &[prefix(1, 1)], 10);
    assert_eq!(valid(&w), at(7210), "two hours, not a second");
    let preferred = w.addresses.made(own).unwrap().lifetimes.preferred;
    assert_eq!(preferred, at(11), "but no longer preferred");
    w.receive(R1, 0, &[prefix(1, 1)], 3610);
    assert_eq!(
        valid(&w),
        at(7210),
        "less than two hours are left as they are"
    );
    w.receive(R1, 0, &[prefix(HOUR, HOUR)], 7000);
    assert_eq!(valid(&w), at(10_600), "longer than what is left");
    w.receive(R1, 0, &[prefix(u32::MAX, u32::MAX)], 7000);
    assert_eq!(valid(&w), NEVER);
}

#[test]
fn everything_ends_with_its_time() {
    let mut w = World::new();
    w.receive(R1, 100, &[prefix(300, 200)], 0);
    w.receive(R2, 50, &[], 0);
    assert_eq!(w.routers.deadline(), Some(at(50)));
    let quiet = Due {
        solicit: false,
        changed: false,
    };
    assert_eq!(w.routers.poll(at(50)), quiet, "it was not the one in use");
    assert_eq!(w.routers.deadline(), Some(at(100)));
    let due = w.routers.poll(at(100));
    assert_eq!(
        due,
        Due {
            solicit: true,
            changed: true
        },
        "and another is sought"
    );
    assert_eq!(w.routers.default_router(), None);
    w.routers.poll(at(300));
    assert_eq!(w.routers.networks().count(), 0);
    w.pass(1);
    w.pass(300);
    assert!(w.own().is_empty());
    // A router that advertises a lifetime of 0.
    assert!(w.receive(R1, 100, &[prefix(300, 200)], 400));
    assert_eq!(w.own().len(), 1);
    assert!(w.receive(
        R1,
        0,
        &[PrefixInfo {
            autonomous: false,
            ..prefix(0, 0)
        }],
        401
    ));
    assert_eq!(w.routers.default_router(), None);
    assert_eq!(w.routers.networks().count(), 0);
}

#[test]
fn a_router_that_does_not_answer_makes_way() {
    let mut w = World::new();
    w.receive(R1, 100, &[], 0);
    assert!(!w.routers.unreachable(R1), "there is no other");
    w.receive(R2, 100, &[], 0);
    assert!(!w.routers.unreachable(R2), "it is not in use");
    assert!(w.routers.unreachable(R1));
    assert_eq!(w.routers.default_router(), Some(R2));
    for i in 0..20 {
        w.receive(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, i), 100, &[], 0);
    }
    assert_eq!(w.routers.routers.len(), MOST_ROUTERS);
}

#[test]
fn routers_are_asked_for_ever_more_rarely() {
    let mut w = World::new();
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..14 {
        let next = w.routers.deadline().unwrap();
        waits.push(next.since(now) / 1_000_000);
        now = next;
        assert!(w.routers.poll(now).solicit);
        assert!(!w.routers.poll(now).solicit, "once");
    }
    assert_eq!(waits[0], 0);
    assert!(
        (3..=4).contains(&waits[1]) && (6..=9).contains(&waits[2]),
        "{waits:?}"
    );
    assert!(waits[13] >= 3240 && waits[13] <= 3960, "{waits:?}");
    w.receive(R1, 0, &[prefix(HOUR, HOUR)], now.0 / 1_000_000);
    assert!(w.routers.solicitation.is_some(), "no default router");
    w.receive(R1, 1800, &[], now.0 / 1_000_000);
    assert_eq!(w.routers.solicitation, None);
    w.routers.ask_again(now);
    assert!(w.routers.poll(now).solicit);
}

#[test]
fn advice_is_taken_if_it_makes_sense() {
    let mut w = World::new();
    let mut advise = |mtu, advert: Advert| {
        let options = NdpOptions {
            mtu: Some(mtu),
            ..NdpOptions::default()
        };
        w.routers
            .handle_advert(R1, &advert, &options, &mut w.addresses, at(0));
        *w.routers.advice()
    };
    let none = Advert::default();
    for wrong in [0, 1279, 1501, 70_000] {
        assert_eq!(advise(wrong, none), Advice::default(), "{wrong}");
    }
    let much = Advert {
        reachable_ms: 3_600_001,
        retransmit_ms: u32::MAX,
        ..none
    };
    assert_eq!(advise(1501, much), Advice::default());
    let good = Advert {
        hop_limit: 9,
        reachable_ms: 5_000,
        retransmit_ms: 300,
        ..none
    };
    let expected = Advice {
        hop_limit: Some(9),
        mtu: Some(1280),
        reachable_ms: Some(5_000),
        retransmit_ms: Some(300),
    };
    assert_eq!(advise(1280, good), expected);
    assert_eq!(advise(0, none), expected, "no advice changes nothing");
}

#[test]
fn an_address_that_another_has_is_replaced_a_few_times() {
    let mut w = World::new();
    w.receive(R1, 0, &[prefix(HOUR, HOUR)], 0);
    let mut tried = vec![w.own()[0]];
    loop {
        let taken = tried[tried.len() - 1];
        assert!(w.addresses.conflict(taken));
        match w.routers.replace(taken, &mut w.addresses, at(1)) {
            Some(another) => tried.push(another),
            None => break,
        }
    }
    assert_eq!(tried.len(), 3);
    assert!(w.own().is_empty());
    tried.dedup();
    assert_eq!(tried.len(), 3);
    w.receive(R1, 0, &[prefix(HOUR, HOUR)], 2);
    assert!(w.own().is_empty(), "not from the beginning");
    assert_eq!(w.routers.replace(R1, &mut w.addresses, at(1)), None);
}

#[test]
fn the_link_local_address_is_made_in_the_same_way() {
    let mut w = World::new();
    w.routers.add_link_local(&mut w.addresses, at(0));
    let ours = w.routers.link_local();
    assert!(ours.is_unicast_link_local());
    assert_eq!(w.own(), [ours]);
    assert!(w.addresses.conflict(ours));
    let another = w.routers.replace(ours, &mut w.addresses, at(1)).unwrap();
    assert!(another.is_unicast_link_local() && another != ours);
}

/// What a router says of itself and what of prefixes: any change is one.
#[test]
fn one_change_among_others_is_told() {
    let mut w = World::new();
    // The router is new, and nothing else.
    assert!(w.receive(R1, 1_800, &[prefix(0, 0)], 1));
    assert!(!w.receive(R1, 1_800, &[prefix(0, 0)], 2));
    // The prefix is new, and then its address.
    let on_link = PrefixInfo {
        autonomous: false,
        on_link: true,
        ..prefix(HOUR, HOUR)
    };
    assert!(w.receive(R1, 1_800, &[on_link], 3));
    assert!(!w.receive(R1, 1_800, &[on_link], 4));
    let own = PrefixInfo {
        autonomous: true,
        ..on_link
    };
    assert!(w.receive(R1, 1_800, &[own], 5));
    assert!(!w.receive(R1, 1_800, &[own], 6));
    // What is behind the change does not hide it.
    let gone = PrefixInfo {
        autonomous: false,
        ..prefix(0, 0)
    };
    assert!(w.receive(R1, 1_800, &[gone, own], 7));
    assert!(w.receive(R2, 0, &[on_link, gone, own], 8));
}

/// Only so many prefixes are kept; what is there stays, and makes room when it goes.
#[test]
fn a_network_more_than_fit_is_passed_over() {
    let mut w = World::new();
    let of = |n: u16, valid| PrefixInfo {
        prefix: Ipv6Addr::new(0xfd00, 0, 0, n, 0, 0, 0, 0),
        autonomous: false,
        ..prefix(valid, 0)
    };
    for n in 0..MOST_NETWORKS as u16 {
        assert!(w.receive(R1, 0, &[of(n, HOUR)], 1), "{n}");
    }
    assert!(!w.receive(R1, 0, &[of(99, HOUR)], 2));
    assert_eq!(w.routers.networks().count(), MOST_NETWORKS);
    assert!(!w.receive(R1, 0, &[of(3, HOUR)], 3), "it is known");
    assert!(!w.receive(R1, 0, &[of(99, 0)], 4), "it is not");
    assert!(w.receive(R1, 0, &[of(3, 0)], 5));
    assert!(w.receive(R1, 0, &[of(99, HOUR)], 6));
    assert_eq!(w.routers.networks().count(), MOST_NETWORKS);
}

/// RFC 4862 section 5.5.3 e: what an advertisement says of more than two hours holds, although the
/// address had longer.
#[test]
fn a_lifetime_of_more_than_two_hours_may_be_shortened() {
    for (said, left) in [(5 * HOUR, 5 * HOUR), (2 * HOUR, 2 * HOUR), (1, 2 * HOUR)] {
        let mut w = World::new();
        w.receive(R1, 0, &[prefix(10 * HOUR, HOUR)], 0);
        assert_eq!(w.own().len(), 1);
        w.receive(R1, 0, &[prefix(said, 1)], 0);
        w.pass(u64::from(left) - 1);
        assert_eq!(w.own().len(), 1, "{said}");
        w.pass(u64::from(left));
        assert!(w.own().is_empty(), "{said}");
    }
}

/// RFC 7559 section 2: four seconds at first, doubled each time, a tenth more or less by chance.
#[test]
fn solicitations_are_spread() {
    let (mut shorter, mut longer) = (0, 0);
    for seed in 0..200 {
        let identifiers = Identifiers::new([3; 32], b"eth0");
        let mut r = Routers::new(identifiers, 1500, seed * 7_919, at(0));
        assert!(r.poll(at(0)).solicit);
        let mut last = r.deadline().expect("another one");
        let first = last.since(at(0));
        assert!((3_600_000..4_400_000).contains(&first), "{first}");
        shorter += u32::from(first < 4_000_000);
        longer += u32::from(first >= 4_000_000);
        assert!(r.poll(last).solicit);
        let next = r.deadline().expect("another one");
        let wait = next.since(last);
        assert!((18 * first / 10..22 * first / 10).contains(&wait), "{wait}");
        for _ in 0..20 {
            last = r.deadline().expect("another one");
            assert!(r.poll(last).solicit);
        }
        let wait = r.deadline().expect("another one").since(last);
        assert!((3_240_000_000..3_960_000_000).contains(&wait), "{wait}");
    }
    assert!(shorter > 50 && longer > 50, "{shorter} {longer}");
}
