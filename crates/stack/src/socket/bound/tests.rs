//! What a socket is bound to, by itself and in the tables.

use super::*;
use crate::secrets::Secrets;
use longshore_hostif::OpenFlags;
use longshore_tcp::Instant;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn what_was_chosen_is_told_from_what_was_found() {
    for (local, address, port) in [
        ("0.0.0.0:0", false, false),
        ("0.0.0.0:80", false, true),
        ("10.0.0.1:0", true, false),
        ("[fd00::1]:80", true, true),
    ] {
        let given = Given::of(at(local));
        assert_eq!((given.address(), given.port()), (address, port), "{local}");
        assert!(!given.is_taken());
    }
}

#[test]
fn a_port_is_held_as_it_may_be_shared() {
    assert!(Held::default().get().is_none());
    for bits in 0..8 {
        let reuse = Reuse {
            address: bits & 1 != 0,
            port: bits & 2 != 0,
            over_v4: bits & 4 != 0,
            ..Reuse::default()
        };
        let held = Held::by(reuse).get().expect("it holds one");
        let of = |reuse: Reuse| (reuse.address, reuse.port, reuse.over_v4);
        assert_eq!(of(held), of(reuse));
    }
}

#[test]
fn what_is_sent_to_its_address_or_to_any_is_for_it() {
    let mut bound = Bound::default();
    assert!(!bound.is_at(at("10.0.0.1:80")), "it is not bound");
    bound.bind(at("10.0.0.1:80"), Given::of(at("10.0.0.1:80")));
    assert!(bound.is_at(at("10.0.0.1:80")) && bound.is_at(at("[::ffff:10.0.0.1]:80")));
    assert!(!bound.is_at(at("10.0.0.2:80")) && !bound.is_at(at("10.0.0.1:81")));
    bound.set_local(at("[::]:80"));
    assert!(bound.is_at(at("10.0.0.2:80")) && bound.given().address());
    assert_eq!(bound.take_local(), Some(at("[::]:80")));
    assert!(bound.local().is_none());
    for local in ["[fe80::1%7]:80", "10.0.0.1:80", "[fd00::1]:81"].map(at) {
        bound.set_local(local);
        assert_eq!(bound.local(), Some(local));
    }
}

// ---- In the tables. ----

const NONE: Reuse = Reuse {
    address: false,
    port: false,
    over_v4: false,
    interface: Interface::Any,
};
const BY_ADDRESS: Reuse = Reuse {
    address: true,
    ..NONE
};
/// The socket's key.
const KEY: u32 = 1;

fn demux() -> Demux {
    Demux::new(&Secrets::from_seed(1), Instant(0))
}

/// Whether another could be bound to this.
fn is_free_for(reuse: Reuse, local: &str, demux: &mut Demux) -> bool {
    const OTHER: u32 = 2;
    let may_bind = demux.tcp.bind(at(local), OTHER, reuse, false, 0);
    demux.tcp.release(at(local).port(), OTHER);
    may_bind
}

/// A socket whose program has bound it to `chosen`, and that was moved to `local`.
fn moved(chosen: &str, local: &str, demux: &mut Demux) -> Bound {
    let mut bound = Bound::default();
    let first = SocketAddr::new(at(chosen).ip(), at(local).port());
    assert!(demux.tcp.bind(first, KEY, NONE, false, 0));
    demux.tcp.move_to(at(local), KEY);
    bound.bind(at(local), Given::of(at(chosen)));
    bound
}

#[test]
fn a_connection_holds_its_port_until_it_lets_go() {
    let here = "10.0.0.1:80";
    let mut demux = demux();
    let options = Options::new(OpenFlags::REUSE_ADDRESS);
    let mut bound = Bound::default();
    bound.hold(false, &options, &mut demux);
    bound.set_local(at(here));
    // What has no address holds nothing; and it holds its port once, however often it is told.
    bound.hold(false, &options, &mut demux);
    bound.hold(false, &options, &mut demux);
    assert!(!is_free_for(NONE, here, &mut demux));
    assert!(is_free_for(BY_ADDRESS, here, &mut demux));
    // It is entered as it is held in tables that are made anew.
    let mut anew = self::demux();
    bound.hold_anew(&mut anew);
    assert!(!is_free_for(NONE, here, &mut anew));
    assert!(is_free_for(BY_ADDRESS, here, &mut anew));
    bound.let_go(&mut demux);
    assert!(is_free_for(NONE, here, &mut demux));
    // It holds none now.
    bound.let_go(&mut anew);
    assert!(!is_free_for(NONE, here, &mut anew));
    bound.hold_anew(&mut demux);
    assert!(is_free_for(NONE, here, &mut demux));
}

/// Linux: who connects by IPv6 from a port that nobody has bound keeps the wildcard of IPv4 from
/// others, unless it is for IPv6 alone.
#[test]
fn one_that_connects_by_ipv6_holds_the_wildcard_of_ipv4() {
    let of_v4 = Reuse {
        over_v4: true,
        ..NONE
    };
    for (local, over_v4, flags, holds) in [
        ("[fd00::1]:80", true, OpenFlags::IPV6, true),
        ("[fd00::1]:80", false, OpenFlags::IPV6, false),
        (
            "[fd00::1]:80",
            true,
            OpenFlags::IPV6 | OpenFlags::V6ONLY,
            false,
        ),
    ] {
        let mut demux = demux();
        let mut bound = Bound::default();
        bound.set_local(at(local));
        bound.hold(over_v4, &Options::new(flags), &mut demux);
        assert!(!is_free_for(NONE, local, &mut demux));
        let is_held = !is_free_for(of_v4, "0.0.0.0:80", &mut demux);
        assert_eq!(is_held, holds, "{over_v4} {flags:?}");
    }
}

/// Linux: a socket whose connection is over keeps the port that its program has chosen, and no
/// other.
#[test]
fn a_port_that_nobody_has_chosen_goes_with_the_connection() {
    let here = "10.0.0.1:80";
    for (chosen, keeps) in [
        ("0.0.0.0:0", false),
        ("10.0.0.1:0", false),
        ("0.0.0.0:80", true),
        ("10.0.0.1:80", true),
    ] {
        let mut demux = demux();
        let mut bound = moved(chosen, here, &mut demux);
        bound.hold(false, &Options::new(OpenFlags::empty()), &mut demux);
        bound.give_port_back(KEY, &mut demux);
        assert_eq!(!demux.tcp.is_free(80), keeps, "{chosen}");
        assert_eq!(!is_free_for(NONE, here, &mut demux), keeps, "{chosen}");
    }
    // What has no address gives nothing back.
    let mut demux = demux();
    let mut bound = moved("10.0.0.1:0", here, &mut demux);
    assert_eq!(bound.take_local(), Some(at(here)));
    bound.give_port_back(KEY, &mut demux);
    assert!(!demux.tcp.is_free(80));
}

/// Linux: what was bound to a port alone is bound to all addresses again after an attempt to
/// connect.
#[test]
fn only_an_address_that_nobody_has_chosen_is_left() {
    for (chosen, local, left) in [
        ("0.0.0.0:80", "10.0.0.1:80", Some("0.0.0.0:80")),
        ("[::]:80", "[fd00::1]:80", Some("[::]:80")),
        ("0.0.0.0:0", "10.0.0.1:80", None),
        ("10.0.0.1:80", "10.0.0.1:80", None),
        ("10.0.0.1:0", "10.0.0.1:80", None),
    ] {
        let mut demux = demux();
        let mut bound = moved(chosen, local, &mut demux);
        bound.leave_address(at(local).is_ipv6(), KEY, &mut demux);
        assert_eq!(bound.local(), Some(at(left.unwrap_or(local))), "{chosen}");
        let elsewhere = if at(local).is_ipv6() {
            "[fd00::2]:80"
        } else {
            "10.0.0.2:80"
        };
        // The table has it there, too.
        assert_eq!(
            is_free_for(NONE, elsewhere, &mut demux),
            left.is_none(),
            "{chosen}"
        );
        // Without an address there is none to be left.
        bound.take_local();
        bound.leave_address(at(local).is_ipv6(), KEY, &mut demux);
        assert_eq!(bound.local(), None, "{chosen}");
    }
}

#[test]
fn the_interface_is_that_of_the_port_that_it_has() {
    let here = "0.0.0.0:80";
    let by_loopback = Reuse {
        interface: Interface::Loopback,
        ..NONE
    };
    let mut demux = demux();
    let mut bound = moved(here, here, &mut demux);
    assert!(!is_free_for(by_loopback, here, &mut demux));
    bound.receive_by(Interface::Link, KEY, &mut demux.tcp);
    assert!(is_free_for(by_loopback, here, &mut demux));
    assert_eq!(bound.take_local(), Some(at(here)));
    bound.receive_by(Interface::Any, KEY, &mut demux.tcp);
    assert!(is_free_for(by_loopback, here, &mut demux));
}

#[test]
fn what_was_chosen_is_told_until_it_is_forgotten() {
    let mut bound = Bound::default();
    bound.bind(at("10.0.0.1:80"), Given::of(at("10.0.0.1:80")));
    bound.set_taken(true);
    assert!(bound.given().is_taken() && bound.given().address() && bound.given().port());
    bound.set_taken(false);
    assert!(!bound.given().is_taken() && bound.given().address() && bound.given().port());
    bound.set_taken(true);
    bound.forget_given();
    let given = bound.given();
    assert!(!given.is_taken() && !given.address() && !given.port());
}
