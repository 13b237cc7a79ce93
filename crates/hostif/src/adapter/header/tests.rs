//! What is said to all programs, and counted.

use super::*;
use crate::adapter::session::small;
use crate::host::HostSession;
use crate::meter::Moved;

/// Each contiguous piece of it is a move.
#[test]
fn what_is_said_to_all_is_read_and_counted() {
    let session = small();
    let host = HostSession::of(session.arena());
    let counted = |say: &dyn Fn()| {
        let before = session.crossings().to_host.control;
        say();
        let mut moved = session.crossings().to_host.control;
        moved.take_out(&before);
        moved
    };
    let moved = |transfers, bytes: u64| Moved {
        transfers,
        bytes,
        words: bytes.div_ceil(8),
    };
    let route = |address: &str| Route {
        address: address.parse().unwrap(),
        prefix_len: 32,
        local: true,
        scope: 0,
    };
    let routes = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(route);
    let reported = counted(&|| session.header().publish_routes(&routes, Loopback::Engine));
    assert_eq!(reported, moved(2, 3 * ROUTE_BYTES as u64 + 8));
    assert!(host.routes().iter().eq(routes));
    let reported = counted(&|| session.header().publish_mtu([1500, 1400], true));
    assert_eq!(reported, moved(1, 12));
    assert_eq!(host.routes().mtu_of_link(), [1500, 1400]);
    assert!(host.routes().has_narrow_paths());
    session.header().publish_mtu([1500, 1400], false);
    assert!(!host.routes().has_narrow_paths());
    assert_eq!(counted(&|| session.header().set_congestion(2)), moved(1, 4));
    assert_eq!(
        counted(&|| session.header().set_engine_alone(true)),
        moved(0, 0)
    );
    assert_eq!(counted(&|| session.header().mark_closed()), moved(1, 4));
    assert_eq!((host.congestion(), host.is_alone()), (2, true));
    assert!(host.is_closed());
}
