//! Which address is whose, and that readers see one table or another whatever the writer does.

use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn table(loopback: Loopback) -> Box<Routes> {
    let routes = Box::new(Routes {
        count: AtomicU32::new(0),
        loopback: AtomicU32::new(0),
        link_mtu: [const { AtomicU32::new(0) }; 2],
        narrow_paths: AtomicU32::new(0),
        written: std::array::from_fn(|_| {
            std::array::from_fn(|_| Entry {
                address: std::array::from_fn(|_| AtomicU64::new(0)),
                meta: AtomicU64::new(0),
            })
        }),
    });
    let route = |address: &str, prefix_len, local| Route {
        address: address.parse().unwrap(),
        prefix_len,
        local,
        scope: 5,
    };
    let given = [
        route("10.77.0.2", 32, true),
        route("10.77.0.0", 24, false),
        route("fe80::2", 128, true),
        route("fe80::", 64, false),
    ];
    assert_eq!(routes.publish(&given, loopback), given.len());
    assert!(routes.iter().eq(given));
    routes
}

fn at(ip: &str) -> SocketAddr {
    format!("[{ip}]:80")
        .parse()
        .unwrap_or_else(|_| format!("{ip}:80").parse().unwrap())
}

#[test]
fn what_the_link_takes_is_told_by_version() {
    let t = table(Loopback::Engine);
    t.publish_mtu([1500, 1400], true);
    let mtu = |ip: &str| t.link_mtu(ip.parse().unwrap());
    assert_eq!((mtu("10.77.0.1"), mtu("fd00::9")), (1500, 1400));
    assert_eq!(mtu("::ffff:10.77.0.1"), 1500);
    for own in ["10.77.0.2", "fe80::2", "127.0.0.1", "::1"] {
        assert_eq!(mtu(own), 65_535, "{own}");
    }
    assert!(t.has_narrow_paths());
}

#[test]
fn destinations_go_where_they_are_routed() {
    let t = table(Loopback::Kernel);
    let owner = |ip: &str| t.owner_of(at(ip));
    assert_eq!(owner("10.77.0.1"), Owner::Engine);
    assert_eq!(owner("::ffff:10.77.0.1"), Owner::Engine);
    assert_eq!(owner("10.78.0.1"), Owner::Kernel);
    for loopback in ["127.0.0.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(owner(loopback), Owner::Kernel, "{loopback}");
        let ours = table(Loopback::Engine);
        assert_eq!(ours.owner_of(at(loopback)), Owner::Engine, "{loopback}");
        assert_eq!(ours.owner_of_local(at(loopback)), Owner::Engine);
    }
}

#[test]
fn groups_and_broadcasts_are_the_engines_unless_they_name_another_link() {
    let t = table(Loopback::Kernel);
    for (to, owner) in [
        ("224.0.0.251", Owner::Engine),
        ("255.255.255.255", Owner::Engine),
        ("10.77.0.255", Owner::Engine),
        ("10.78.0.255", Owner::Kernel),
        ("ff02::fb", Owner::Engine),
        ("ff02::fb%5", Owner::Engine),
        ("ff02::fb%4", Owner::Kernel),
    ] {
        assert_eq!(t.owner_of(at(to)), owner, "{to}");
        assert_eq!(t.owner_of_local(at(to)), owner, "{to}");
    }
    let broadcast = |ip: &str| t.is_broadcast(at(ip).ip());
    assert!(broadcast("255.255.255.255") && broadcast("10.77.0.255"));
    assert!(broadcast("::ffff:10.77.0.255"));
    assert!(!broadcast("10.77.0.2") && !broadcast("10.77.0.254"));
    assert!(!broadcast("10.78.0.255") && !broadcast("ff02::1"));
    assert_eq!(t.link_scope(), 5);
    // Without an address of its version, the engine has no part in it.
    t.publish(&[], Loopback::Kernel);
    for to in ["224.0.0.251", "255.255.255.255", "ff02::fb"] {
        assert_eq!(t.owner_of(at(to)), Owner::Kernel, "{to}");
    }
    assert_eq!(t.link_scope(), 0);
}

#[test]
fn a_writer_that_is_held_up_keeps_no_reader_waiting() {
    let t = table(Loopback::Kernel);
    let before: Vec<Route> = t.iter().collect();
    let number = t.count.load(Ordering::Relaxed) >> COUNT_BITS;
    for entry in t.entries(number + 1).iter().take(2) {
        entry.address[0].store(u64::MAX, Ordering::Relaxed);
    }
    assert!(t.iter().eq(before));
}

#[test]
fn a_reader_sees_one_writing_or_another() {
    let t = table(Loopback::Kernel);
    let of = |number: u8| {
        (0..=number % 8)
            .map(|host| Route {
                address: IpAddr::from([10, number, number, host]),
                prefix_len: number % 33,
                local: true,
                scope: 0,
            })
            .collect::<Vec<_>>()
    };
    t.publish(&of(0), Loopback::Kernel);
    let rounds = if cfg!(miri) { 40 } else { 20_000u32 };
    // The writer does not come to its end before anybody reads.
    let both_are_there = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            both_are_there.wait();
            for round in 0..rounds {
                t.publish(&of(round as u8), Loopback::Kernel);
            }
        });
        both_are_there.wait();
        while !writer.is_finished() {
            let seen: Vec<Route> = t.iter().collect();
            let IpAddr::V4(first) = seen[0].address else {
                panic!("{seen:?}");
            };
            assert_eq!(seen, of(first.octets()[1]));
        }
    });
}

#[test]
fn loopback_addresses_have_places_where_they_are_the_engines() {
    let own: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for ip in own {
        let t = table(Loopback::Engine);
        let place = t.own_place(ip).unwrap();
        let found = t.own_address(place).unwrap();
        assert_eq!((found.address, found.scope), (ip, LOOPBACK_INTERFACE));
        let kernels = table(Loopback::Kernel);
        assert_eq!(kernels.own_place(ip), None);
        assert_eq!(kernels.own_address(place), None);
    }
}

#[test]
fn wildcard_and_own_addresses_are_bound_on_the_engine() {
    let t = table(Loopback::Kernel);
    let owner = |ip: &str| t.owner_of_local(at(ip));
    assert_eq!(owner("0.0.0.0"), Owner::Engine);
    assert_eq!(owner("::"), Owner::Engine);
    assert_eq!(owner("10.77.0.2"), Owner::Engine);
    assert_eq!(owner("10.77.0.1"), Owner::Kernel);
    assert_eq!(owner("127.0.0.1"), Owner::Kernel);
}

#[test]
fn link_local_addresses_are_of_a_link() {
    let t = table(Loopback::Kernel);
    assert_eq!(t.owner_of(at("fe80::9%5")), Owner::Engine);
    assert_eq!(t.owner_of(at("fe80::9%4")), Owner::Kernel);
    assert_eq!(t.owner_of(at("fe80::9")), Owner::Kernel);
    assert_eq!(t.owner_of_local(at("fe80::2%5")), Owner::Engine);
    assert_eq!(t.owner_of_local(at("fe80::2%4")), Owner::Kernel);
    assert_eq!(t.scope_for("fe80::9".parse().unwrap()), 5);
    assert_eq!(t.scope_for("10.77.0.2".parse().unwrap()), 0);
}

/// A reader that is slow reads the one that was written before.
#[test]
fn each_writing_of_the_table_is_elsewhere() {
    let t = table(Loopback::Kernel);
    let count = || t.count.load(Ordering::Relaxed);
    for number in 2..6 {
        let routes: Vec<Route> = t.iter().collect();
        assert_eq!(t.publish(&routes, Loopback::Kernel), routes.len());
        assert_eq!(count(), number << COUNT_BITS | routes.len() as u32);
        assert!(t.iter().eq(routes));
    }
    let entries = |number| std::ptr::from_ref(t.entries(number));
    // Programs of other releases find them there, too.
    let [even, odd] = &t.written;
    assert_eq!(
        [2, 3, 4].map(entries),
        [even, odd, even].map(std::ptr::from_ref)
    );
}

/// What is left of a longer one in the same place is none.
#[test]
fn a_table_has_no_more_than_was_written_last() {
    let t = table(Loopback::Kernel);
    let routes: Vec<Route> = t.iter().collect();
    for count in [4, 4, 2, 1, 0] {
        assert_eq!(t.publish(&routes[..count], Loopback::Kernel), count);
        assert!(t.iter().eq(routes[..count].iter().copied()), "{count}");
    }
}

#[test]
fn own_addresses_are_found_by_their_places_and_back() {
    let t = table(Loopback::Kernel);
    for (place, ip) in [(1, "10.77.0.2"), (2, "fe80::2")] {
        let ip = ip.parse().unwrap();
        assert_eq!(t.own_place(ip), Some(place));
        assert_eq!(t.own_address(place).map(|route| route.address), Some(ip));
    }
    assert_eq!(t.own_place("10.77.0.0".parse().unwrap()), None);
    assert!(t.own_address(0).is_none() && t.own_address(3).is_none());
}

#[test]
fn what_links_and_paths_take_is_as_it_was_said_last() {
    let t = table(Loopback::Kernel);
    assert!(!t.has_narrow_paths());
    t.publish_mtu([1500, usize::MAX], false);
    assert_eq!(t.mtu_of_link(), [1500, u32::MAX]);
    assert!(!t.has_narrow_paths());
}

/// The last address of a network that has more than two, and is no host's.
#[test]
fn the_last_address_of_a_network_is_its_broadcast_address() {
    let t = table(Loopback::Kernel);
    let route = |address: &str, prefix_len, local| Route {
        address: address.parse().unwrap(),
        prefix_len,
        local,
        scope: 0,
    };
    let all = [
        route("10.1.0.0", 24, false),
        route("10.2.0.6", 31, false),
        route("10.3.0.4", 30, false),
        route("10.4.0.3", 8, true),
    ];
    t.publish(&all, Loopback::Kernel);
    for (ip, is_one) in [
        ("10.1.0.255", true),
        ("10.1.0.254", false),
        ("10.1.0.127", false),
        ("10.9.0.255", false),
        ("10.2.0.7", false),
        ("10.3.0.7", true),
        ("10.4.0.3", false),
        ("10.255.255.255", false),
        ("255.255.255.255", true),
        ("::ffff:10.1.0.255", true),
        ("fe80::ff", false),
    ] {
        assert_eq!(t.is_broadcast(ip.parse().unwrap()), is_one, "{ip}");
    }
}

/// A group or a broadcast goes to the engine's link by the number that names it, or by none, if the
/// engine has an address of that version.
#[test]
fn groups_reach_the_link_that_is_named() {
    let t = table(Loopback::Kernel);
    let group = |scope| {
        let address = "ff02::1".parse().unwrap();
        SocketAddr::V6(std::net::SocketAddrV6::new(address, 80, 0, scope))
    };
    for (scope, reaches) in [(0, true), (5, true), (6, false)] {
        assert_eq!(t.leads_to_all(group(scope)), reaches, "{scope}");
    }
    assert!(t.leads_to_all(at("224.0.0.1")));
    let v4: Vec<Route> = t.iter().filter(|r| r.address.is_ipv4()).collect();
    t.publish(&v4, Loopback::Kernel);
    assert!(!t.leads_to_all(group(0)) && !t.leads_to_all(group(5)));
    assert!(t.leads_to_all(at("224.0.0.1")));
}
