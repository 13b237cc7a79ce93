//! Ports that nobody shares: what is known of them without comparing is what comparing says.

use super::*;
use crate::secrets::{Purpose, Secrets};
use proptest::prelude::*;

const PORTS: std::ops::Range<u16> = 5_000..5_003;
const KEYS: std::ops::Range<u32> = 1..6;

fn ports() -> Ports {
    Ports::new(Secrets::from_seed(1).keyed(Purpose::TcpPorts))
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    let all = ["0.0.0.0", "10.0.0.2", "127.0.0.1", "::", "fd00::2", "::1"];
    prop::sample::select(all.to_vec()).prop_map(|ip| ip.parse().unwrap())
}

fn interfaces() -> impl Strategy<Value = Interface> {
    let all = [Interface::Any, Interface::Loopback, Interface::Link];
    prop::sample::select(all.to_vec())
}

/// What is bound, and how.
fn bounds() -> impl Strategy<Value = Bound> {
    let flags = any::<(bool, bool, bool)>();
    (addresses(), KEYS, interfaces(), flags, 0_u32..2).prop_map(
        |(address, key, interface, (by_address, by_port, v6_only), user)| {
            let reuse = Reuse {
                address: by_address,
                port: by_port,
                interface,
                ..Reuse::default()
            };
            Bound::new(address, key, reuse, v6_only, user)
        },
    )
}

#[derive(Debug, Clone)]
enum Change {
    Bind(Bound),
    Move(IpAddr, u32),
    ChooseInterface(Interface, u32),
    Release(u32),
    KeepAllBut(u32),
}

fn changes() -> impl Strategy<Value = (u16, Change)> {
    let change = prop_oneof![
        4 => bounds().prop_map(Change::Bind),
        1 => (addresses(), KEYS).prop_map(|(ip, key)| Change::Move(ip, key)),
        1 => (interfaces(), KEYS).prop_map(|(by, key)| Change::ChooseInterface(by, key)),
        1 => KEYS.prop_map(Change::Release),
        1 => KEYS.prop_map(Change::KeepAllBut),
    ];
    (PORTS, change)
}

fn reuse_of(b: &Bound) -> Reuse {
    Reuse {
        address: b.reuse_address,
        port: b.reuse_port,
        interface: b.interface,
        over_v4: false,
    }
}

proptest! {
    /// It is said of no port that one could be bound to, and of each at which one without any option
    /// has the wildcard of all versions that `new` wants.
    #[test]
    fn what_nobody_shares_is_known(all in prop::collection::vec(changes(), 1..40), new in bounds()) {
        let new = Bound { key: KEYS.end, ..new };
        let mut ports = ports();
        for (port, change) in all {
            match change {
                Change::Bind(b) => {
                    let at = SocketAddr::new(b.address, port);
                    let _ = ports.bind(at, b.key, reuse_of(&b), b.v6_only, b.user);
                }
                Change::Move(ip, key) => ports.move_to(SocketAddr::new(ip, port), key),
                Change::ChooseInterface(by, key) => ports.set_interface(port, key, by),
                Change::Release(key) => ports.release(port, key),
                Change::KeepAllBut(key) => ports.retain(|k| k != key),
            }
            for port in PORTS {
                let is_known = ports.is_exclusive(port, &new);
                prop_assert!(!is_known || !ports.may_bind(port, &new, false));
                let users = ports.bound.get(&port).into_iter().flatten();
                let mut plain = users.filter(|b| b.is_exclusive());
                let is_plain = plain.any(|b| b.address.is_ipv4() == new.address.is_ipv4());
                prop_assert!(!is_plain || is_known);
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
