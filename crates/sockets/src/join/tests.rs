//! Where a process begins to look for waiters.

use super::*;
use crate::testing::fixture;

/// The first process begins at the first waiter, and each other as far from the one before as there
/// are waiters for each.
#[test]
fn processes_look_for_waiters_in_places_of_their_own() {
    for (waiters, channels, expected) in [
        (256, 64, vec![0, 4, 8, 252]),
        (64, 64, vec![0, 1, 2, 63]),
        (100, 64, vec![0, 1, 2, 63]),
        // More processes than waiters: some have to share.
        (16, 64, vec![0, 1, 2, 15]),
    ] {
        let g = Geometry {
            waiters,
            channels,
            ..fixture::SMALL
        };
        let first: Vec<u32> = [0, 1, 2, 63]
            .map(|channel| first_waiter(channel, &g))
            .into();
        assert_eq!(first, expected, "{waiters} {channels}");
        assert!((0..channels).all(|channel| first_waiter(channel, &g) < waiters));
    }
}
