//! Where packets go, by the clock of the test.

use super::*;
use longshore_net::Cidr;
use longshore_net::neighbor::Lookup;
use longshore_net::route::Route;
use longshore_wire::MacAddr;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfe);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn routes(router: Ipv4Addr) -> Routes {
    let mut routes = Routes::new();
    for (to, next_hop) in [
        ("10.0.0.0/24", None),
        ("0.0.0.0/0", Some(router.into())),
        ("2001:db8::/32", Some(ROUTER6.into())),
    ] {
        let to: Cidr = to.parse().unwrap();
        let source = to.address;
        routes.add(Route {
            to,
            next_hop,
            source,
            mtu: None,
        });
    }
    routes
}

fn hops() -> NextHops {
    NextHops::new(routes(ROUTER), &[ROUTER.into()])
}

fn at(seconds: u64) -> Instant {
    Instant(1 + seconds * 1_000_000)
}

/// What was looked up is known until the routes are others.
#[test]
fn the_last_destination_is_known() {
    let mut hops = hops();
    assert_eq!(hops.last_v4(FAR), None);
    assert_eq!(hops.route_v4(FAR), Some(ROUTER));
    assert_eq!(
        (hops.last_v4(FAR), hops.last_v4(PEER)),
        (Some(ROUTER), None)
    );
    assert_eq!(hops.route_v4(PEER), Some(PEER));
    assert_eq!((hops.last_v4(FAR), hops.last_v4(PEER)), (None, Some(PEER)));
    assert_eq!([(); 2].map(|()| hops.route_v6(FAR6)), [Some(ROUTER6); 2]);
    assert_eq!(hops.route_v6(ROUTER6), None, "there is no route");
    let another = Ipv4Addr::new(10, 0, 0, 253);
    hops.set_routes(routes(another));
    assert_eq!(hops.route_v6(FAR6), Some(ROUTER6));
    hops.forget_last();
    assert_eq!(hops.last_v4(PEER), None);
    assert_eq!(hops.route_v4(FAR), Some(another));
    assert_eq!(hops.gateways(), [ROUTER6.into(), IpAddr::V4(another)]);
}

/// Packets wait for the neighbour that their route leads to; what finds no room is counted once.
#[test]
fn packets_wait_for_their_next_hop() {
    let mut hops = hops();
    hops.hold(FAR.into(), vec![1]);
    assert_eq!(
        (hops.take_overflowed(), hops.take_overflowed()),
        (1, 0),
        "nobody asks for it"
    );
    assert_eq!(hops.v4.lookup(ROUTER, net_time(at(0))), Lookup::Ask);
    assert_eq!(hops.v6.lookup(ROUTER6, net_time(at(0))), Lookup::Ask);
    assert!(hops.deadline().is_some_and(|due| due <= at(1)));
    hops.hold(FAR.into(), vec![2]);
    hops.hold(FAR6.into(), vec![3]);
    assert!(hops.release(PEER.into()).is_empty());
    assert_eq!(hops.release(ROUTER.into()), [vec![2]]);
    assert_eq!(hops.release(ROUTER6.into()), [vec![3]]);
    assert!(hops.release(ROUTER.into()).is_empty());
    assert_eq!(hops.take_overflowed(), 0);
}

/// Progress towards a destination confirms its router, which is not asked again then; once a
/// second is often enough.
#[test]
fn progress_confirms_the_next_hop() {
    for confirms in [false, true] {
        let mut hops = hops();
        assert_eq!(hops.v4.lookup(ROUTER, net_time(at(0))), Lookup::Ask);
        hops.v4.learn(ROUTER, MAC, true, net_time(at(0)));
        let mut asked = false;
        for second in 1..=100 {
            if confirms {
                hops.confirm(FAR.into(), at(second));
            }
            let _ = hops.v4.lookup(ROUTER, net_time(at(second)));
            hops.v4.poll(net_time(at(second)), |_| asked = true);
        }
        assert_eq!(asked, !confirms);
    }
    let mut hops = hops();
    hops.confirm(FAR.into(), at(5));
    let first = hops.confirmed;
    hops.confirm(FAR.into(), Instant(at(6).0 - 1));
    assert_eq!(hops.confirmed, first);
    hops.confirm(FAR.into(), at(6));
    assert_eq!(hops.confirmed, Some((FAR.into(), at(6))));
    hops.link_returned(at(7));
    assert_eq!(hops.confirmed, None);
}
