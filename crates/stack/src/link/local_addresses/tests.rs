//! Which addresses are ours, and what stands for them.

use super::*;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// 10.0.0.1/24, and fd00::1/64 with a link-local address.
fn both(loopback: bool) -> LocalAddresses {
    let v6 = LocalAddresses6::new(
        &[cidr("fd00::1/64"), cidr("fe80::1/64")],
        Some(MacAddr([2, 0, 0, 0, 0, 1])),
        None,
        &Secrets::from_seed(1),
        Instant(0),
    );
    LocalAddresses::new(Some(cidr("10.0.0.1/24")), Some(v6.unwrap()), loopback)
}

#[test]
fn ours_are_those_given_and_those_of_the_loopback_if_that_is_ours() {
    for loopback in [false, true] {
        let own = both(loopback);
        for address in ["10.0.0.1", "fd00::1", "fe80::1"] {
            assert!(own.contains(ip(address)), "{address}");
        }
        for address in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(own.contains(ip(address)), loopback, "{address}");
        }
        for address in ["10.0.0.2", "10.0.0.255", "0.0.0.0", "fd00::2", "::"] {
            assert!(!own.contains(ip(address)), "{address}");
        }
    }
}

/// The address of a lease that is over is not ours, but those behind it keep their places.
#[test]
fn an_address_that_is_over_keeps_its_place() {
    let mut own = both(false);
    let place = own.place_of(ip("fd00::1"));
    assert_eq!(place, 2);
    own.set_v4(None);
    assert!(!own.contains(ip("10.0.0.1")));
    assert_eq!((own.v4(), own.v4_network()), (None, None));
    assert_eq!(own.source_for_all(ip("255.255.255.255")), None);
    assert_eq!(own.place_of(ip("fd00::1")), place);
    let local: SocketAddr = "[::]:53".parse().unwrap();
    assert_eq!(own.own_or(place, local), "[fd00::1]:53".parse().unwrap());
    own.set_v4(Some(cidr("10.0.1.7/16")));
    assert_eq!(own.v4_network(), Some(cidr("10.0.1.7/16")));
    assert!(own.contains(ip("10.0.1.7")) && !own.contains(ip("10.0.0.1")));
    assert_eq!(own.place_of(ip("fd00::1")), place);
}

#[test]
fn a_place_names_an_address_and_the_wildcard_the_first_of_its_version() {
    let own = both(true);
    let local: SocketAddr = "0.0.0.0:53".parse().unwrap();
    for address in ["10.0.0.1", "fd00::1", "fe80::1", "127.0.0.1", "::1"] {
        let place = own.place_of(ip(address));
        assert_ne!(place, 0, "{address}");
        assert_eq!(own.own_or(place, local), SocketAddr::new(ip(address), 53));
    }
    assert_eq!(own.place_of(ip("10.0.0.2")), 0, "another's");
    assert_eq!(own.own_or(0, local), local);
    assert_eq!(own.own_or(200, local), local);
    assert_eq!(own.own_for_wildcard(ip("0.0.0.0")), ip("10.0.0.1"));
    assert_eq!(own.own_for_wildcard(ip("::")), ip("fd00::1"));
    assert_eq!(own.own_for_wildcard(ip("10.0.0.2")), ip("10.0.0.2"));
}

#[test]
fn groups_and_broadcasts_are_for_all() {
    let own = both(false);
    for (address, mac) in [
        ("224.0.0.5", Some(MacAddr([1, 0, 0x5e, 0, 0, 5]))),
        ("255.255.255.255", Some(MacAddr::BROADCAST)),
        ("10.0.0.255", Some(MacAddr::BROADCAST)),
        ("10.0.1.255", None),
        ("10.0.0.1", None),
    ] {
        assert_eq!(own.is_for_all(ip(address)), mac.is_some(), "{address}");
        let IpAddr::V4(v4) = ip(address) else {
            panic!()
        };
        assert_eq!(own.mac_of_all(v4), mac, "{address}");
    }
    assert!(own.is_for_all(ip("ff02::5")) && !own.is_for_all(ip("fd00::5")));
    let only_v4 = LocalAddresses::new(Some(cidr("10.0.0.1/24")), None, false);
    assert!(!only_v4.is_for_all(ip("ff02::5")), "no IPv6 is spoken");
}
