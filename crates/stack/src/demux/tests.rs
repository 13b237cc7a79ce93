use super::*;
use longshore_hostif::Interface;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::tcp4::Tcp4;
use std::net::Ipv4Addr;

/// The ports that are picked while nobody has set others.
const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;

fn addr(s: &str) -> SocketAddr {
    s.parse().unwrap()
}

/// Ports that nobody has bound, with the secrets of a seed.
fn ports(seed: u64) -> Ports {
    Ports::new(Secrets::from_seed(seed).keyed(Purpose::TcpPorts))
}

/// An empty table, with the secrets of a seed.
fn demux(seed: u64) -> Demux {
    Demux::new(&Secrets::from_seed(seed), Instant(0))
}

/// The datagram socket that has what an unconnected client sends to this address.
fn datagram(ports: &Ports, local: SocketAddr) -> Option<u32> {
    ports.find_datagram(local, addr("10.0.0.9:9"), || 0)
}

/// The datagram sockets that have what is sent to a group.
fn receivers(ports: &Ports, local: SocketAddr, remote: SocketAddr) -> Vec<u32> {
    let mut at = Receivers::START;
    std::iter::from_fn(|| ports.next_receiver(local, remote, &mut at)).collect()
}

const BOTH: Reuse = Reuse {
    address: true,
    port: true,
    over_v4: false,
    interface: Interface::Any,
};
const ADDRESS: Reuse = Reuse {
    address: true,
    port: false,
    over_v4: false,
    interface: Interface::Any,
};
const NONE: Reuse = Reuse {
    address: false,
    port: false,
    over_v4: false,
    interface: Interface::Any,
};

const USERS: [u32; 2] = [1000, 1001];

#[test]
fn a_port_is_shared_by_programs_of_one_user_alone() {
    let mut ports = self::ports(1);
    let at = addr("10.0.0.2:80");
    assert!(ports.bind(at, 1, BOTH, false, USERS[0]) && ports.listen(at, 1));
    assert!(!ports.bind(at, 2, BOTH, false, USERS[1]));
    assert!(ports.bind(at, 3, BOTH, false, USERS[0]) && ports.listen(at, 3));
    // Bound by SO_REUSEADDR before anybody listened, it may still not listen beside them.
    let other = addr("10.0.0.2:81");
    assert!(ports.bind(other, 4, BOTH, false, USERS[0]));
    assert!(ports.bind(other, 5, BOTH, false, USERS[1]));
    assert!(ports.listen(other, 4) && !ports.listen(other, 5));
}

#[test]
fn a_port_that_a_connection_holds_is_shared_if_both_agree() {
    let mut ports = self::ports(1);
    let (at, elsewhere) = (addr("10.0.0.2:80"), addr("10.0.0.3:80"));
    ports.hold(at, NONE);
    ports.hold(at, NONE);
    assert!(ports.is_free(80));
    for wanted in [at, addr("0.0.0.0:80"), addr("[::]:80")] {
        for reuse in [NONE, ADDRESS, BOTH] {
            assert!(!ports.bind(wanted, 1, reuse, false, 0), "{wanted}");
        }
    }
    assert!(ports.bind(elsewhere, 1, NONE, false, 0));
    ports.release(80, 1);
    assert!(ports.bind(addr("[::]:80"), 1, NONE, true, 0));
    ports.release(80, 1);
    ports.let_go(at, NONE);
    assert!(!ports.bind(at, 1, ADDRESS, false, 0));
    ports.let_go(at, NONE);
    assert!(ports.bind(at, 1, NONE, false, 0));
    ports.release(80, 1);
    ports.hold(at, ADDRESS);
    assert!(!ports.bind(at, 1, NONE, false, 0));
    assert!(ports.bind(at, 1, ADDRESS, false, 0));
}

#[test]
fn the_most_specific_listener_is_found() {
    let mut ports = self::ports(1);
    assert!(ports.bind(addr("0.0.0.0:80"), 1, ADDRESS, false, 0));
    assert!(ports.bind(addr("10.0.0.2:80"), 2, ADDRESS, false, 0));
    assert!(ports.listen(addr("0.0.0.0:80"), 1));
    assert_eq!(ports.find_listener(addr("10.0.0.2:80"), 0), Some(1));
    assert!(!ports.listen(addr("10.0.0.2:80"), 2));
    ports.release(80, 1);
    assert_eq!(ports.find_listener(addr("10.0.0.2:80"), 0), None);
    assert!(ports.listen(addr("10.0.0.2:80"), 2));
    assert_eq!(ports.find_listener(addr("10.0.0.2:80"), 0), Some(2));
}

#[test]
fn a_port_in_use_is_refused_unless_both_allow_it() {
    let mut ports = self::ports(1);
    assert!(ports.bind(addr("10.0.0.2:80"), 1, NONE, false, 0));
    assert!(!ports.bind(addr("0.0.0.0:80"), 2, ADDRESS, false, 0));
    assert!(ports.bind(addr("10.0.0.3:80"), 3, NONE, false, 0));
    assert!(
        ports.bind(addr("10.0.0.2:81"), 4, BOTH, false, 0)
            && ports.bind(addr("10.0.0.2:81"), 5, BOTH, false, 0)
    );
    assert!(ports.listen(addr("10.0.0.2:81"), 4) && ports.listen(addr("10.0.0.2:81"), 5));
    let spread: Vec<_> = (0..4)
        .map(|s| ports.find_listener(addr("10.0.0.2:81"), s).unwrap())
        .collect();
    assert_eq!(spread, [4, 5, 4, 5]);
}

#[test]
fn the_ipv6_wildcard_is_for_both_unless_it_says_no() {
    let mut ports = self::ports(1);
    assert!(ports.bind(addr("[::]:80"), 1, NONE, false, 0));
    assert!(!ports.bind(addr("0.0.0.0:80"), 2, NONE, false, 0));
    assert!(!ports.bind(addr("10.0.0.2:80"), 2, NONE, false, 0));
    assert_eq!(datagram(&ports, addr("10.0.0.2:80")), Some(1));
    assert_eq!(datagram(&ports, addr("[fd00::2]:80")), Some(1));
    let mut ports = self::ports(1);
    assert!(ports.bind(addr("[::]:80"), 1, NONE, true, 0));
    assert!(ports.bind(addr("0.0.0.0:80"), 2, NONE, false, 0));
    assert!(!ports.bind(addr("[fd00::2]:80"), 3, NONE, false, 0));
    assert!(ports.listen(addr("[::]:80"), 1) && ports.listen(addr("0.0.0.0:80"), 2));
    assert_eq!(ports.find_listener(addr("10.0.0.2:80"), 0), Some(2));
    assert_eq!(ports.find_listener(addr("[fd00::2]:80"), 0), Some(1));
}

/// Of one of IPv6 that was bound to the wildcard and connects, no other address of IPv4 is kept
/// from others than the wildcard, and that not if it is for IPv6 alone, or disconnected.
#[test]
fn one_that_connects_keeps_the_wildcard_of_ipv4() {
    const OF_V4: Reuse = Reuse {
        over_v4: true,
        ..NONE
    };
    for v6_only in [false, true] {
        let mut ports = self::ports(1);
        assert!(ports.bind(addr("[::]:80"), 1, NONE, v6_only, 0));
        ports.move_to(addr("[fd00::2]:80"), 1);
        assert_eq!(ports.bind(addr("0.0.0.0:80"), 2, OF_V4, false, 0), v6_only);
        ports.release(80, 2);
        assert!(ports.bind(addr("10.0.0.2:80"), 3, OF_V4, false, 0));
        ports.release(80, 3);
        ports.move_to(addr("[::]:80"), 1);
        assert_eq!(ports.bind(addr("10.0.0.2:80"), 4, OF_V4, false, 0), v6_only);
    }
}

#[test]
fn a_datagram_is_for_whoever_is_connected_then_for_the_last() {
    let mut ports = self::ports(1);
    let local = addr("10.0.0.2:80");
    for key in 1..=4 {
        assert!(ports.bind(local, key, ADDRESS, false, 0));
    }
    let client = |n: u16| SocketAddr::new(addr("10.0.0.9:0").ip(), n);
    for n in [2, 4] {
        ports.connect(80, n.into(), client(n));
    }
    let find = |ports: &Ports, n| ports.find_datagram(local, client(n), || 0);
    assert_eq!(find(&ports, 2), Some(2));
    assert_eq!(find(&ports, 4), Some(4));
    assert_eq!(find(&ports, 5), Some(3));
    // Of several that are connected to one, the last that was has what comes, though it is bound before
    // the other; and without its peer it is again before those that are bound after it.
    ports.connect(80, 1, client(2));
    assert_eq!(find(&ports, 2), Some(1));
    ports.connect(80, 3, client(1));
    ports.disconnect(80, 1);
    assert_eq!([2, 5].map(|n| find(&ports, n)), [Some(2), Some(1)]);
    ports.disconnect(80, 3);
    assert_eq!([1, 5].map(|n| find(&ports, n)), [Some(3); 2]);
    // One that comes to the address is the last there, and where it is already, none.
    ports.move_to(local, 1);
    assert_eq!(find(&ports, 5), Some(3));
    ports.move_to(addr("0.0.0.0:80"), 1);
    ports.move_to(local, 1);
    assert_eq!(find(&ports, 5), Some(1));
    ports.release(80, 1);
    ports.release(80, 3);
    assert_eq!(find(&ports, 5), None);
}

#[test]
fn a_group_shares_datagrams_but_for_its_connected() {
    let mut ports = self::ports(1);
    let local = addr("10.0.0.2:80");
    assert!(ports.bind(local, 1, BOTH, false, 0));
    assert!(ports.bind(local, 2, BOTH, false, 0));
    assert!(ports.bind(local, 3, BOTH, false, 0));
    let other = addr("10.0.0.9:9");
    ports.connect(80, 2, addr("10.0.0.9:2"));
    let of = |ports: &Ports, spread| ports.find_datagram(local, other, || spread);
    assert_eq!(
        [0, 1, 2].map(|s| of(&ports, s)),
        [Some(1), Some(3), Some(1)]
    );
    // One that shares the address only, and was last, has all.
    assert!(ports.bind(local, 4, ADDRESS, false, 0));
    assert_eq!([0, 1, 2].map(|s| of(&ports, s)), [Some(4); 3]);
}

#[test]
fn of_two_wildcards_the_packets_own_is_taken() {
    let mut ports = self::ports(1);
    assert!(ports.bind(addr("[::]:80"), 1, ADDRESS, false, 0));
    assert!(ports.bind(addr("0.0.0.0:80"), 2, ADDRESS, false, 0));
    assert_eq!(datagram(&ports, addr("10.0.0.2:80")), Some(2));
    assert_eq!(datagram(&ports, addr("[fd00::2]:80")), Some(1));
    ports.release(80, 2);
    assert_eq!(datagram(&ports, addr("10.0.0.2:80")), Some(1));
}

/// Linux: two sockets listen at one address if both have SO_REUSEPORT, and are of one user.
#[test]
fn who_does_not_share_what_comes_listens_alone() {
    for (reuse, users, both) in [
        ([BOTH, BOTH], [0, 0], true),
        ([BOTH, ADDRESS], [0, 0], false),
        ([ADDRESS, BOTH], [0, 0], false),
        ([ADDRESS, ADDRESS], [0, 0], false),
        ([BOTH, BOTH], USERS, false),
    ] {
        let (mut ports, at) = (self::ports(1), addr("10.0.0.2:80"));
        for key in [0, 1] {
            assert!(ports.bind(at, key as u32, reuse[key], false, users[key]));
        }
        assert!(ports.listen(at, 0));
        assert_eq!(ports.listen(at, 1), both, "{reuse:?} {users:?}");
    }
}

/// The socket whose address is nearest to where something goes has it, whichever was bound last: its own
/// address, then the wildcard of its version, then that of both; listeners as datagram sockets.
#[test]
fn the_nearest_address_has_what_comes() {
    let bound = [addr("[::]:80"), addr("0.0.0.0:80"), addr("10.0.0.2:80")];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for (order, reuse) in orders
        .iter()
        .flat_map(|order| [(order, BOTH), (order, ADDRESS)])
    {
        let mut ports = self::ports(1);
        for at in order {
            assert!(ports.bind(bound[*at], *at as u32, reuse, false, 0));
        }
        // Without SO_REUSEPORT one alone may listen.
        for at in order.iter().filter(|_| reuse.port) {
            assert!(ports.listen(bound[*at], *at as u32));
        }
        for (to, key) in [("10.0.0.2:80", 2), ("10.0.0.3:80", 1), ("[fd00::2]:80", 0)] {
            let (to, from) = (addr(to), addr("10.0.0.9:9"));
            for spread in 0..4 {
                let found = ports.find_datagram(to, from, || spread);
                assert_eq!(found, Some(key), "{order:?} {to} {spread}");
                let found = ports.find_listener(to, spread);
                assert!(found == Some(key) || !reuse.port, "{order:?} {to} {spread}");
            }
        }
    }
}

#[test]
fn ports_are_picked_until_none_is_left() {
    let mut ports = self::ports(1);
    let at = |port| SocketAddr::from(([10, 0, 0, 2], port));
    let port = ports.pick(7).unwrap();
    assert!(EPHEMERAL.contains(&port));
    let held = EPHEMERAL.filter(|port| *port % 2 == 0 && *port != 40_000);
    held.for_each(|port| ports.hold(at(port), NONE));
    let bound = EPHEMERAL.filter(|port| *port % 2 == 1);
    bound.for_each(|port| assert!(ports.bind(at(port), u32::from(port), NONE, false, 0)));
    assert_eq!(ports.pick(7), Some(40_000));
    assert!(ports.bind(at(40_000), 1, NONE, false, 0));
    assert_eq!(ports.pick(7), None);
    ports.release(50_001, 50_001);
    assert_eq!(ports.pick(7), Some(50_001));
    ports.hold(at(50_000), NONE);
    ports.let_go(at(50_000), NONE);
    assert_ne!(ports.pick(8), Some(50_000), "it is held once more");
    ports.release(50_001, 7);
    ports.let_go(at(50_000), NONE);
    let both = [ports.pick(1), ports.pick(2), ports.pick(3), ports.pick(4)];
    assert!(
        both.iter().all(|p| matches!(p, Some(50_000 | 50_001))),
        "{both:?}"
    );
}

/// The last port towards a destination is found, at no cost that grows with those that are
/// taken, and one that has become free again, too.
#[test]
fn the_last_ports_to_a_destination_are_found() {
    let mut demux = self::demux(1);
    let (ip, to) = (addr("10.0.0.2:0").ip(), addr("10.0.0.9:80"));
    let flow = |port| Flow::new(SocketAddr::new(ip, port), to);
    let mut left: std::collections::BTreeSet<u16> = EPHEMERAL.collect();
    let began = std::time::Instant::now();
    while let Some(port) = demux.pick_port(left.len(), ip, to) {
        assert!(left.remove(&port), "{port} is taken");
        demux.insert(flow(port), u32::from(port));
    }
    assert!(left.is_empty(), "{left:?}");
    // 28,000 walks along 28,000 ports take tens of seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    // Another destination has all of them.
    assert!(demux.pick_port(1, ip, addr("10.0.0.9:81")).is_some());
    demux.remove(&flow(50_000));
    assert_eq!(demux.pick_port(2, ip, to), Some(50_000));
    let waiting = || Waiting {
        record: longshore_tcp::TimeWait::of(&longshore_tcp::Tcb::connect(
            &longshore_tcp::Config::default(),
            1460,
            longshore_wire::SeqNumber(1),
            0,
            Instant(0),
        )),
        local: SocketAddr::new(ip, 50_000),
        remote: to,
        reuse: NONE,
        alarm: crate::timers::Alarm::OFF,
    };
    demux.wait(flow(50_000), waiting());
    assert_eq!(demux.pick_port(3, ip, to), None);
    demux.end_wait(&flow(50_000));
    assert_eq!(demux.pick_port(4, ip, to), Some(50_000));
    // Nor does what is noted outlast the crowd.
    EPHEMERAL.for_each(|port| demux.remove(&flow(port)));
    let picked: std::collections::BTreeSet<_> =
        (0..50).map(|i| demux.pick_port(i, ip, to)).collect();
    assert!(picked.len() > 40, "{picked:?}");
}

/// A range that is set later is that of the ports which are picked from then on.
#[test]
fn ports_are_those_of_the_range_that_is_set() {
    let mut demux = self::demux(1);
    let (ip, to) = (addr("10.0.0.2:0").ip(), addr("10.0.0.9:80"));
    let flow = |port| Flow::new(SocketAddr::new(ip, port), to);
    for (first, last) in [(2_000, 2_002), (u16::MAX - 1, u16::MAX), (2_001, 2_003)] {
        demux.use_local_ports(crate::LocalPorts::new(first, last).unwrap(), None);
        assert!((first..=last).contains(&demux.udp.pick(first).unwrap()));
        assert!((first..=last).contains(&demux.tcp.pick(first).unwrap()));
        let mut picked: Vec<u16> = std::iter::from_fn(|| {
            let port = demux.pick_port(first, ip, to)?;
            demux.insert(flow(port), u32::from(port));
            Some(port)
        })
        .collect();
        picked.sort_unstable();
        // The last of the third range is all that the first one has left.
        let free = (first..=last).filter(|port| first != 2_001 || *port == 2_003);
        assert_eq!(picked, free.collect::<Vec<_>>());
        assert_eq!(demux.pick_port(1, ip, to), None);
    }
}

/// What is reserved is given to nobody who asks for no port in particular, as soon as it is and as
/// long, and may be bound all the same.
#[test]
fn reserved_ports_are_not_picked() {
    let mut demux = self::demux(1);
    let (ip, to) = (addr("10.0.0.2:0").ip(), addr("10.0.0.9:80"));
    let flow = |port| Flow::new(SocketAddr::new(ip, port), to);
    let range = crate::LocalPorts::new(2_000, 2_009).unwrap();
    let reserved = |text| Arc::new(ReservedPorts::parse(text).unwrap());
    let all_of = |demux: &mut Demux| {
        let mut picked: Vec<u16> = std::iter::from_fn(|| {
            let port = demux.pick_port(1, ip, to)?;
            demux.insert(flow(port), u32::from(port));
            Some(port)
        })
        .collect();
        picked.sort_unstable();
        picked.iter().for_each(|port| demux.remove(&flow(*port)));
        picked
    };
    let (most, others) = (reserved("2000-2003,2005-2009"), reserved("2001,2004"));
    demux.use_local_ports(range, Some(&most));
    assert_eq!(all_of(&mut demux), [2_004]);
    for _ in 0..2 {
        assert_eq!(demux.tcp.pick(1), Some(2_004));
        assert_eq!(demux.udp.pick(1), Some(2_004));
    }
    assert!(demux.tcp.bind(addr("10.0.0.2:2004"), 1, NONE, false, 0));
    assert_eq!(demux.tcp.pick(1), None);
    assert_eq!(all_of(&mut demux), [0; 0]);
    assert!(demux.tcp.bind(addr("10.0.0.2:2005"), 2, NONE, false, 0));
    demux.tcp.release(2_004, 1);
    demux.tcp.release(2_005, 2);
    demux.use_local_ports(range, Some(&others));
    let left = [2_000, 2_002, 2_003, 2_005, 2_006, 2_007, 2_008, 2_009];
    assert_eq!(all_of(&mut demux), left);
    demux.use_local_ports(range, None);
    assert_eq!(all_of(&mut demux).len(), 10);
}

/// Each that comes is compared with all the ways in which others are bound, and here each user has
/// its own.
#[test]
fn a_port_is_not_shared_in_more_than_so_many_ways() {
    let mut ports = self::ports(1);
    let at = addr("0.0.0.0:53");
    let shares = (0..2_000).filter(|user| ports.bind(at, *user, ADDRESS, false, *user));
    assert_eq!(shares.count(), 1_024);
    // Of those that are known there may be more, at any address.
    assert!(ports.bind(at, 5_000, ADDRESS, false, 0));
    assert!(!ports.bind(addr("10.0.0.2:53"), 5_001, ADDRESS, false, 0));
    ports.release(53, 7);
    for (key, host) in (6_000..).zip(1..=100) {
        let at = SocketAddr::from(([10, 0, 0, host], 53));
        assert!(ports.bind(at, key, ADDRESS, false, 0), "{at}");
    }
    assert!(!ports.bind(at, 7, ADDRESS, false, 7));
    // What is refused has no place in the table.
    assert!(ports.users().all(|(key, _)| key != 7));
}

/// RFC 6056: an observer that has seen a port knows nothing of the next.
#[test]
fn ports_are_spread_over_the_range() {
    let ports = self::ports(1);
    let picked: Vec<u16> = (0..1_000).map(|i| ports.pick(i).unwrap()).collect();
    let eighth = (EPHEMERAL.end - EPHEMERAL.start).div_ceil(8);
    for from in EPHEMERAL.step_by(eighth.into()) {
        let within = picked.iter().filter(|p| **p >= from && **p - from < eighth);
        // 125 are expected; a deviation of 11 is usual.
        assert!((50..200).contains(&within.count()), "{picked:?}");
    }
    let follows = picked
        .windows(2)
        .filter(|p| p[0].abs_diff(p[1]) < 10)
        .count();
    assert!(follows < 50, "{picked:?}");
    // Nor does another engine pick the same.
    let other = self::ports(2);
    let same = (0..1_000).filter(|i| other.pick(i) == Some(picked[*i]));
    assert!(same.count() < 50);
}

/// RFC 6528: for the same ends the numbers follow a clock of 4 us, so that no segment of
/// the last connection fits the next; those of others tell nothing of them.
#[test]
fn initial_sequence_numbers_follow_the_clock_and_differ_by_their_ends() {
    let (demux, other) = (demux(1), demux(2));
    let (local, remote) = (addr("10.0.0.2:80"), addr("10.0.0.1:5000"));
    let at = |demux: &Demux, remote, us| demux.initial_sequence(local, remote, Instant(us)).0;
    let first = at(&demux, remote, 1_000_000);
    assert_eq!(at(&demux, remote, 3_000_000).wrapping_sub(first), 500_000);
    let of_port = |port| at(&demux, SocketAddr::new(remote.ip(), port), 1_000_000);
    let near = |other: u32| other.wrapping_sub(first) as i32 as i64;
    let close = (5_001..6_001).filter(|port| near(of_port(*port)).abs() < 1 << 20);
    // One in two thousand is expected.
    assert!(close.count() < 20);
    assert_ne!(at(&other, remote, 1_000_000), first);
}

#[test]
fn the_last_flow_is_found_again_without_the_table() {
    let mut demux = self::demux(1);
    let flow = Flow::new(addr("10.0.0.2:80"), addr("10.0.0.1:5000"));
    assert_eq!(demux.find(&flow), None);
    demux.insert(flow, 3);
    assert_eq!(demux.find(&flow), Some(Found::Socket(3)));
    assert_eq!(demux.find(&flow), Some(Found::Socket(3)));
    assert_eq!(demux.cache_misses, 2);
    demux.remove(&flow);
    assert_eq!(demux.find(&flow), None);
}

/// A packet with a TCP header of 20 bytes.
fn packet(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    let ip = Ipv4Header {
        tos: 0,
        payload_len: 20,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        source: from.0,
        destination: to.0,
    };
    ip.emit(&mut bytes);
    bytes[20..22].copy_from_slice(&from.1.to_be_bytes());
    bytes[22..24].copy_from_slice(&to.1.to_be_bytes());
    bytes
}

#[test]
fn a_segments_flow_leads_to_its_connection() {
    let mut demux = self::demux(1);
    let (local, remote) = (addr("10.0.0.2:80"), addr("10.0.0.1:5000"));
    let (l, r) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
    let (flow, segment) = (Flow::new(local, remote), Flow4::new((r, 5000), (l, 80)));
    assert_eq!(flow.flow4(), Some(segment));
    assert_eq!(demux.find4(&segment), None);
    // Headers that are not known are no connection's, not even those of nonsense.
    let nonsense = Flow::new(addr("0.0.0.0:0"), addr("0.0.0.0:0"));
    assert_eq!(demux.find(&nonsense), None);
    demux.insert(flow, 3);
    demux.insert(Flow::new(local, addr("10.0.0.1:5001")), 4);
    assert_eq!(demux.find4(&segment), Some(3));
    assert_eq!(demux.find4(&Flow4::new((r, 5001), (l, 80))), Some(4));
    assert_eq!(demux.cache_misses, 3);
    let packet = packet((r, 5000), (l, 80));
    assert_eq!(demux.cached(), (&CachedHeaders4::NONE, NO_KEY));
    demux.cache(Tcp4::read(&packet).unwrap().cached([0; 14]), 3);
    let (cached, key) = demux.cached();
    assert_eq!(
        (cached.segment_of(&packet, true), key),
        (Some(&packet[20..]), 3)
    );
    // What is known of it serves the other way of finding it, too.
    assert_eq!(demux.find(&flow), Some(Found::Socket(3)));
    assert_eq!(demux.cache_misses, 3);
    // Another's end is nothing to it; its own is.
    demux.remove(&Flow::new(local, addr("10.0.0.1:5001")));
    assert_eq!(demux.cached().1, 3);
    demux.remove(&flow);
    assert_eq!(demux.cached(), (&CachedHeaders4::NONE, NO_KEY));
    assert_eq!(demux.find(&flow), None);
    assert_eq!(demux.find4(&segment), None);
}

/// The buckets of a table of a million get what chance would give them: flows
/// that differ in a few bits do not meet.
#[test]
fn flows_that_are_alike_are_spread() {
    let local = addr("10.0.0.2:80");
    for key in 0..20u64 {
        // Keys that look like nothing, the same on every run.
        let secret = [key, !key].map(|k| {
            let product = u128::from(k ^ 0x5851_f42d_4c95_7f2d) * 0xda94_2042_e4dd_58b5;
            product as u64 ^ (product >> 64) as u64
        });
        let keyed = Keyed {
            secret: [secret[0], secret[1] | 1],
        };
        let mut buckets = vec![0u8; 1 << 16];
        for host in 0..64u8 {
            for port in 0..1024 {
                let remote = SocketAddr::new([10, 0, 1, host].into(), 1024 + port);
                let hash = keyed.hash_one(Flow::new(local, remote));
                buckets[hash as usize & 0xffff] += 1;
            }
        }
        // Chance has 8 or 9 in the fullest of 65,536 buckets.
        let most = buckets.iter().max().copied().unwrap_or(0);
        assert!(most < 14, "{most} flows in a bucket");
        let used = buckets.iter().filter(|b| **b > 0).count();
        assert!((39_000..44_000).contains(&used), "{used} buckets in use");
    }
}

#[test]
fn flows_of_ipv6_are_spread_too() {
    let keyed = Keyed::new(&Secrets::from_seed(1), Purpose::Table6);
    let hash = |local: &str, remote: &str| keyed.hash_one(Flow::new(addr(local), addr(remote)));
    let one = hash("[fd00:1::1]:80", "[fd00:2::2]:1000");
    assert_ne!(one, hash("[fd00:2::1]:80", "[fd00:1::2]:1000"));
    assert_ne!(one, hash("[fd00:1::1]:80", "[fd00:3::2]:1000"));
    assert_ne!(one, hash("[fd00:1::2]:80", "[fd00:2::2]:1000"));
}

/// What goes to an address of the loopback comes by that, and all else by the link.
#[test]
fn one_that_is_bound_to_an_interface_has_what_comes_by_that() {
    let by = |interface| Reuse { interface, ..NONE };
    let mut ports = self::ports(1);
    let any = addr("0.0.0.0:80");
    assert!(ports.bind(any, 1, by(Interface::Loopback), false, 0));
    assert!(ports.bind(any, 2, by(Interface::Link), false, 0));
    for (key, interface) in [Interface::Any, Interface::Loopback, Interface::Link]
        .into_iter()
        .enumerate()
    {
        assert!(!ports.bind(any, key as u32 + 3, by(interface), false, 0));
    }
    assert!(ports.listen(any, 1) && ports.listen(any, 2));
    let [own, loopback] = [addr("10.0.0.2:80"), addr("127.0.0.1:80")];
    for (at, key) in [(own, 2), (loopback, 1)] {
        assert_eq!(ports.find_listener(at, 0), Some(key));
        assert_eq!(datagram(&ports, at), Some(key));
        assert_eq!(receivers(&ports, at, addr("10.0.0.9:9")), [key]);
    }
    ports.release(80, 2);
    assert_eq!(
        (ports.find_listener(own, 0), datagram(&ports, own)),
        (None, None)
    );
    ports.set_interface(80, 1, Interface::Any);
    assert_eq!(ports.find_listener(own, 0), Some(1));
    assert_eq!(ports.find_listener(loopback, 0), Some(1));
}
