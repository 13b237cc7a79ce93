//! As many sockets as a session may have share a port, and none costs a walk along the others.

use super::*;

const SOCKETS: u32 = 60_000;
/// Sixty thousand walks along as many take minutes.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

fn client(key: u32) -> SocketAddr {
    let [_, high, low, _] = (key << 8).to_be_bytes();
    SocketAddr::from(([10, 1, high, low], 1_000))
}

fn shares(reuse_port: bool) -> Reuse {
    Reuse {
        address: !reuse_port,
        port: reuse_port,
        ..Reuse::default()
    }
}

/// All of one port are of one class, by which the one that comes is compared.
#[test]
fn each_of_many_has_what_its_own_peer_sends() {
    for reuse_port in [false, true] {
        let (mut ports, began) = (ports(), std::time::Instant::now());
        let (any, own): (SocketAddr, SocketAddr) = (
            "0.0.0.0:443".parse().unwrap(),
            "10.0.0.2:443".parse().unwrap(),
        );
        let new = Bound::new(any.ip(), shares(reuse_port), false, 0);
        for key in 0..SOCKETS {
            assert!(ports.bind(any, key, shares(reuse_port), false, 0));
            ports.connect(any.port(), key, client(key));
            ports.move_to(own, key);
            let of = ports.bound.port(any.port()).unwrap();
            assert_eq!((of.ways(), of.compared_with(&new)), (1, 1));
            assert_eq!(of.near(own.ip()).count(), 1);
        }
        assert!(ports.bind(any, SOCKETS, shares(reuse_port), false, 0));
        for key in 0..SOCKETS {
            let found = ports.find_datagram(own, client(key), || 0);
            assert_eq!(found, Some(key));
            assert_eq!(
                sorted(receivers_of(&ports, own, client(key))),
                [key, SOCKETS]
            );
        }
        assert_eq!(
            ports.find_datagram(own, client(SOCKETS), || 0),
            Some(SOCKETS)
        );
        // In no order that the structure is made for.
        for key in (0..SOCKETS).map(|n| n * 7_919 % SOCKETS) {
            match key % 3 {
                0 => ports.disconnect(any.port(), key),
                1 => ports.move_to(any, key),
                _ => {}
            }
            ports.release(any.port(), key);
            assert_eq!(ports.find_datagram(own, client(key), || 0), Some(SOCKETS));
        }
        ports.release(any.port(), SOCKETS);
        assert!(ports.is_free(any.port()) && ports.users().next().is_none());
        assert_eq!(ports.bound.sizes(), [0; 3], "nothing is left");
        assert!(began.elapsed() < SOON);
    }
}

/// Nor do many without peers, of which the last has what comes, or any of a group; and all what is
/// sent to a group.
#[test]
fn the_last_of_many_is_at_hand_and_each_of_a_group() {
    for reuse_port in [false, true] {
        let (mut ports, began) = (ports(), std::time::Instant::now());
        let (at, from) = ("10.0.0.2:443".parse().unwrap(), client(0));
        for key in 0..SOCKETS {
            assert!(ports.bind(at, key, shares(reuse_port), false, 0));
        }
        let mut all = receivers_of(&ports, at, from);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..SOCKETS));
        for left in (1..=SOCKETS).rev() {
            let spread = u64::from(left) * 31;
            let found = ports.find_datagram(at, from, || spread).unwrap();
            assert!(if reuse_port {
                found < SOCKETS
            } else {
                found == left - 1
            });
            ports.release(at.port(), found);
        }
        assert!(ports.is_free(at.port()));
        assert!(began.elapsed() < SOON);
    }
}

/// Those that are bound to addresses of their own are found by these.
#[test]
fn each_of_many_addresses_is_at_hand() {
    let mut ports = ports();
    let at = |key| SocketAddr::new(client(key).ip(), 443);
    for key in 0..SOCKETS {
        assert!(ports.bind(at(key), key, shares(false), false, 0));
    }
    let any = Bound::new(Ipv4Addr::UNSPECIFIED.into(), shares(false), false, 0);
    let of = ports.bound.port(443).unwrap();
    assert_eq!((of.ways(), of.compared_with(&any)), (1, 1));
    for key in 0..SOCKETS {
        assert_eq!(of.near(at(key).ip()).count(), 1);
        assert_eq!(ports.find_datagram(at(key), client(0), || 0), Some(key));
    }
    let everywhere = SocketAddr::new(any.address, 443);
    assert!(ports.bind(everywhere, SOCKETS, shares(false), false, 0));
    for key in 0..SOCKETS {
        assert_eq!(ports.bound.port(443).unwrap().ways(), 2);
        ports.release(443, key);
    }
    assert_eq!(ports.bound.port(443).unwrap().ways(), 1);
}

fn receivers_of(ports: &Ports, local: SocketAddr, remote: SocketAddr) -> Vec<u32> {
    let mut at = Receivers::START;
    std::iter::from_fn(|| ports.next_receiver(local, remote, &mut at)).collect()
}
