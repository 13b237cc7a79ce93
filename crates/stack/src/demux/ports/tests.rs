//! What `Ports` says is what a walk through all sockets of a port says, and it costs no such walk.

mod linear;
mod many;

use super::*;
use crate::secrets::{Purpose, Secrets};
use linear::Linear;
use proptest::prelude::*;

const PORTS: std::ops::Range<u16> = 5_000..5_003;
const KEYS: std::ops::Range<u32> = 1..9;
const ADDRESSES: [&str; 6] = ["0.0.0.0", "10.0.0.2", "127.0.0.1", "::", "fd00::2", "::1"];
const PEERS: [&str; 3] = ["10.0.0.9:9", "10.0.0.9:10", "[fd00::9]:9"];

fn ports() -> Ports {
    Ports::new(Secrets::from_seed(1).keyed(Purpose::TcpPorts))
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    prop::sample::select(ADDRESSES.to_vec()).prop_map(|ip| ip.parse().unwrap())
}

fn peers() -> impl Strategy<Value = SocketAddr> {
    prop::sample::select(PEERS.to_vec()).prop_map(|peer| peer.parse().unwrap())
}

fn interfaces() -> impl Strategy<Value = Interface> {
    let all = [Interface::Any, Interface::Loopback, Interface::Link];
    prop::sample::select(all.to_vec())
}

/// How one is bound.
fn bounds() -> impl Strategy<Value = Bound> {
    let flags = any::<(bool, bool, bool)>();
    (addresses(), interfaces(), flags, 0_u32..2).prop_map(
        |(address, interface, (by_address, by_port, v6_only), user)| {
            let reuse = Reuse {
                address: by_address,
                port: by_port,
                interface,
                ..Reuse::default()
            };
            Bound::new(address, reuse, v6_only, user)
        },
    )
}

/// As `bounds`, of those that share their port with most others.
fn shared() -> impl Strategy<Value = Bound> {
    let interfaces = prop_oneof![3 => Just(Interface::Any), 1 => interfaces()];
    (bounds(), interfaces).prop_map(|(bound, interface)| Bound {
        reuse_address: true,
        interface,
        user: 0,
        ..bound
    })
}

#[derive(Debug, Clone)]
enum Change {
    Bind(Bound, u32, bool),
    Listen(u32),
    StopListening(u32),
    HandOn(u32, u32),
    Move(IpAddr, u32),
    ChooseInterface(Interface, u32),
    Connect(u32, SocketAddr),
    Disconnect(u32),
    Release(u32),
    KeepAllBut(u32),
    Hold(IpAddr, Reuse),
    LetGo(usize),
}

fn changes() -> impl Strategy<Value = (u16, Change)> {
    let bound = prop_oneof![3 => shared(), 1 => bounds()];
    let change = prop_oneof![
        8 => (bound, KEYS, any::<bool>()).prop_map(|(b, key, v4)| Change::Bind(b, key, v4)),
        2 => KEYS.prop_map(Change::Listen),
        1 => KEYS.prop_map(Change::StopListening),
        1 => (KEYS, KEYS).prop_map(|(from, to)| Change::HandOn(from, to)),
        2 => (addresses(), KEYS).prop_map(|(ip, key)| Change::Move(ip, key)),
        2 => (interfaces(), KEYS).prop_map(|(by, key)| Change::ChooseInterface(by, key)),
        6 => (KEYS, peers()).prop_map(|(key, peer)| Change::Connect(key, peer)),
        2 => KEYS.prop_map(Change::Disconnect),
        2 => KEYS.prop_map(Change::Release),
        1 => KEYS.prop_map(Change::KeepAllBut),
        2 => held().prop_map(|(ip, reuse)| Change::Hold(ip, reuse)),
        1 => (0_usize..4).prop_map(Change::LetGo),
    ];
    // Most have one port.
    let port = prop_oneof![4 => Just(PORTS.start), 1 => PORTS];
    (port, change)
}

/// On which address a connection holds its port, and how.
fn held() -> impl Strategy<Value = (IpAddr, Reuse)> {
    let own = addresses().prop_filter("a connection's", |ip| !ip.is_unspecified());
    (own, any::<(bool, bool, bool)>()).prop_map(|(ip, (address, port, over_v4))| {
        let over_v4 = over_v4 && ip.is_ipv6();
        let reuse = Reuse {
            address,
            port,
            over_v4,
            ..Reuse::default()
        };
        (ip, reuse)
    })
}

fn reuse_of(b: &Bound, over_v4: bool) -> Reuse {
    Reuse {
        address: b.reuse_address,
        port: b.reuse_port,
        interface: b.interface,
        over_v4,
    }
}

/// Does the same to both, which say the same of it.
fn make(ports: &mut Ports, linear: &mut Linear, port: u16, change: &Change) {
    let (has_peer, listens) = match *change {
        Change::Listen(key) | Change::HandOn(key, _) | Change::Connect(key, _) => {
            linear.kinds(port, key)
        }
        _ => (false, false),
    };
    match *change {
        // Streams listen, and datagram sockets are connected.
        Change::Listen(_) | Change::HandOn(..) if has_peer => {}
        Change::Connect(..) if listens => {}
        Change::Bind(b, key, over_v4) => {
            let (at, reuse) = (SocketAddr::new(b.address, port), reuse_of(&b, over_v4));
            let is_bound = ports.bind(at, key, reuse, b.v6_only, b.user);
            assert_eq!(is_bound, linear.bind(port, key, b, reuse));
        }
        Change::Listen(key) => {
            let at = linear.of(port).iter().find(|s| s.key == key);
            let at = at.map_or(Ipv4Addr::UNSPECIFIED.into(), |s| s.bound.address);
            let listens = ports.listen(SocketAddr::new(at, port), key);
            assert_eq!(listens, linear.listen(port, key));
        }
        Change::StopListening(key) => {
            ports.stop_listening(port, key);
            linear.change(port, key, |s| s.bound.listening = false);
        }
        Change::HandOn(from, to) => {
            let of = linear.of(port).iter().find(|s| s.key == from);
            let at = of.map(|s| SocketAddr::new(s.bound.address, port));
            assert_eq!(ports.hand_on(port, from, to), at);
            linear.hand_on(port, from, to);
        }
        Change::Move(ip, key) => {
            ports.move_to(SocketAddr::new(ip, port), key);
            linear.move_to(port, key, ip);
        }
        Change::ChooseInterface(by, key) => {
            ports.set_interface(port, key, by);
            linear.change(port, key, |s| s.bound.interface = by);
        }
        Change::Connect(key, peer) => {
            ports.connect(port, key, peer);
            linear.connect(port, key, peer);
        }
        Change::Disconnect(key) => {
            ports.disconnect(port, key);
            linear.change(port, key, |s| s.peer = None);
        }
        Change::Release(key) => {
            ports.release(port, key);
            linear.release(port, key);
        }
        Change::KeepAllBut(key) => {
            ports.retain(|k| k != key);
            linear.retain_all_but(key);
        }
        Change::Hold(ip, reuse) => {
            ports.hold(SocketAddr::new(ip, port), reuse);
            linear.hold(port, ip, reuse);
        }
        Change::LetGo(nth) => {
            if let Some((ip, reuse)) = linear.let_go(port, nth) {
                ports.let_go(SocketAddr::new(ip, port), reuse);
            }
        }
    }
}

fn sorted(mut keys: Vec<u32>) -> Vec<u32> {
    keys.sort_unstable();
    keys
}

/// Both say the same of all that can come to a port.
fn find_the_same(ports: &Ports, linear: &Linear, port: u16) {
    assert_eq!(ports.is_free(port), linear.of(port).is_empty());
    assert_eq!(ports.are_held.contains(port), linear.is_held(port));
    for ip in ADDRESSES.iter().chain(&["10.0.0.3", "fd00::3"]) {
        let local = SocketAddr::new(ip.parse().unwrap(), port);
        let listeners = linear.listeners(local);
        // Each number chooses another, until all have been.
        let found =
            (0..listeners.len().max(1) as u64).filter_map(|n| ports.find_listener(local, n));
        assert_eq!(sorted(found.collect()), sorted(listeners), "{local}");
        for remote in PEERS.iter().map(|peer| peer.parse().unwrap()) {
            let datagram = linear.datagram(local, remote);
            let all = 0..datagram.len().max(1) as u64;
            let found = all.filter_map(|n| ports.find_datagram(local, remote, || n));
            assert_eq!(
                sorted(found.collect()),
                sorted(datagram),
                "{local} {remote}"
            );
            let mut at = Receivers::START;
            let found = std::iter::from_fn(|| ports.next_receiver(local, remote, &mut at));
            let found = sorted(found.collect());
            assert_eq!(
                found,
                sorted(linear.receivers(local, remote)),
                "{local} {remote}"
            );
        }
    }
}

proptest! {
    /// Whatever comes, changes and goes: the same is said of each packet, and of each that is to be
    /// bound.
    #[test]
    fn whom_a_walk_through_all_finds_is_found(
        all in prop::collection::vec(changes(), 1..60), news in prop::collection::vec(bounds(), 4))
    {
        let (mut ports, mut linear) = (ports(), Linear::default());
        for (port, change) in all {
            make(&mut ports, &mut linear, port, &change);
            for port in PORTS {
                find_the_same(&ports, &linear, port);
                for (new, key) in news.iter().zip(KEYS.start..) {
                    for over_v4 in [false, true] {
                        let may_bind = linear.may_bind(port, new, key, over_v4);
                        assert_eq!(ports.may_bind(port, new, key, over_v4), may_bind);
                    }
                    let is_alike = |b: &Bound| b.reuse_port && b.user == new.user && b.overlaps(new);
                    let has_alike = linear.has_alike(port, new, key);
                    assert_eq!(ports.has_other(port, new, key, is_alike), has_alike);
                }
            }
            let users = PORTS.flat_map(|port| linear.of(port)).map(|s| (s.key, s.peer));
            let mut users: Vec<_> = users.collect();
            let mut found: Vec<_> = ports.users().collect();
            users.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, users);
        }
    }

    /// It is said of no port that one could be bound to, and of each at which one without any option
    /// has the wildcard of all versions that `new` wants.
    #[test]
    fn what_nobody_shares_is_known(all in prop::collection::vec(changes(), 1..40), new in bounds()) {
        let (mut ports, mut linear) = (ports(), Linear::default());
        for (port, change) in all {
            make(&mut ports, &mut linear, port, &change);
            for port in PORTS {
                let is_known = ports.is_exclusive(port, &new);
                prop_assert!(!is_known || !ports.may_bind(port, &new, KEYS.end, false));
                prop_assert!(!linear.has_exclusive(port, new.address) || is_known);
            }
        }
    }
}

/// All automatic ports have one who leaves them to nobody but those of the other version: what shares
/// one is found behind all of them.
#[test]
fn one_port_to_share_is_found_among_all() {
    let mut ports = ports();
    let range = ports.automatic.all_from(0).collect::<Vec<_>>();
    let any: IpAddr = "0.0.0.0".parse().unwrap();
    let shared = range[range.len() / 2];
    let reuse = Reuse {
        address: true,
        ..Reuse::default()
    };
    for (key, port) in (1..).zip(range) {
        let reuse = if port == shared {
            reuse
        } else {
            Reuse::default()
        };
        assert!(ports.bind(SocketAddr::new(any, port), key, reuse, false, 0));
    }
    for seed in 0..20 {
        assert_eq!(
            ports.pick_shared(seed, any, 0, reuse, false, 0),
            Some(shared)
        );
        assert_eq!(
            ports.pick_shared(seed, any, 0, Reuse::default(), false, 0),
            None
        );
    }
}
