//! What a reply configures, and for how long.

use super::*;
use crate::dhcp::Kind;
use longshore_wire::MacAddr;

fn reply(address: [u8; 4]) -> Reply {
    Reply {
        kind: Kind::Ack,
        xid: 1,
        client: MacAddr([2, 0, 0, 0, 0, 1]),
        address: address.into(),
        server: Ipv4Addr::new(10, 0, 0, 1),
        prefix_len: None,
        router: Some(Ipv4Addr::new(10, 0, 0, 1)),
        mtu: None,
        lease: Some(800),
        renew: None,
        rebind: None,
        routes: [None; MAX_ROUTES],
    }
}

/// RFC 950 section 2.1: the mask of the class, if there is no other.
#[test]
fn an_address_without_a_mask_has_its_class() {
    for (first, prefix_len) in [(1, 8), (126, 8), (128, 16), (191, 16), (192, 24), (223, 24)] {
        let mut r = reply([first, 2, 3, 4]);
        assert_eq!(Lease::of(&r).map(|l| l.prefix_len), Some(prefix_len));
        r.prefix_len = Some(30);
        assert_eq!(Lease::of(&r).map(|l| l.prefix_len), Some(30));
    }
    for address in [[127, 0, 0, 1], [0, 0, 0, 0], [224, 0, 0, 1], [255; 4]] {
        assert_eq!(Lease::of(&reply(address)), None);
    }
    let mut r = reply([10, 0, 0, 5]);
    r.lease = None;
    assert_eq!(Lease::of(&r), None);
}

/// RFC 3442: routes take the place of the router; it is a host, and another one.
#[test]
fn the_router_is_another_host() {
    let router = |set: fn(&mut Reply)| {
        let mut r = reply([10, 0, 0, 5]);
        set(&mut r);
        Lease::of(&r).expect("a lease").router
    };
    assert_eq!(router(|_| ()), Some(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(router(|r| r.router = Some(r.address)), None);
    assert_eq!(router(|r| r.router = Some(Ipv4Addr::BROADCAST)), None);
    let route = StaticRoute {
        network: Ipv4Addr::UNSPECIFIED,
        prefix_len: 0,
        router: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut r = reply([10, 0, 0, 5]);
    r.routes[0] = Some(route);
    let lease = Lease::of(&r).expect("a lease");
    assert_eq!((lease.router, lease.routes[0]), (None, Some(route)));
    for (mtu, taken) in [(575, None), (576, Some(576)), (9_000, Some(9_000))] {
        r.mtu = Some(mtu);
        assert_eq!(Lease::of(&r).expect("a lease").mtu, taken);
    }
}

/// RFC 2131 section 4.4.5: T1 < T2 < the end; half and seven eighths by default.
#[test]
fn times_come_one_after_the_other() {
    let times = |lease, renew, rebind| {
        let mut r = reply([10, 0, 0, 5]);
        (r.lease, r.renew, r.rebind) = (Some(lease), renew, rebind);
        let lease = Lease::of(&r).expect("a lease");
        let asked = Instant(1_000_000);
        let seconds = |at: Instant| at.since(asked) / 1_000_000;
        (
            seconds(lease.renew_at(asked)),
            seconds(lease.rebind_at(asked)),
            seconds(lease.ends_at(asked)),
        )
    };
    assert_eq!(times(800, None, None), (400, 700, 800));
    assert_eq!(times(800, Some(100), Some(200)), (100, 200, 800));
    assert_eq!(times(800, Some(699), None), (699, 700, 800));
    assert_eq!(times(800, Some(700), None), (400, 700, 800));
    assert_eq!(times(800, None, Some(300)), (300, 300, 800));
    assert_eq!(times(800, None, Some(799)), (400, 799, 800));
    assert_eq!(times(800, None, Some(800)), (400, 700, 800));
    // For ever is for ever.
    let mut r = reply([10, 0, 0, 5]);
    (r.lease, r.renew) = (Some(u32::MAX), Some(5));
    let lease = Lease::of(&r).expect("a lease");
    assert_eq!(lease.renew_at(Instant(7)), Instant(u64::MAX));
    assert_eq!(lease.ends_at(Instant(7)), Instant(u64::MAX));
}

/// The server and the times are no part of what is configured.
#[test]
fn a_lease_from_another_server_may_configure_the_same() {
    let lease = Lease::of(&reply([10, 0, 0, 5])).expect("a lease");
    let mut r = reply([10, 0, 0, 5]);
    r.server = Ipv4Addr::new(10, 0, 0, 9);
    (r.lease, r.renew, r.rebind) = (Some(90), Some(1), Some(2));
    assert!(lease.configures_like(&Lease::of(&r).expect("a lease")));
    r.mtu = Some(1_400);
    assert!(!lease.configures_like(&Lease::of(&r).expect("a lease")));
}
